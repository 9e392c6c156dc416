"""What a sentence states beside an opinion, an "I don't know", a refusal, filler or a question (spec §1, stage 2)."""

from __future__ import annotations

import time

import pytest

from corrigenda.checkable import statement_of
from corrigenda.prompts import load
from corrigenda.types import Sentence, SentenceKind, Span


def stated(text: str, language: str = "en", kind: SentenceKind = SentenceKind.PROSE) -> tuple[str, str | None]:
    sentence = Sentence(index=0, span=Span(0, len(text)), text=text, kind=kind)
    return statement_of(sentence, load(language), language)


HILLS = "Rome has 5 hills."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I believe Rome has 5 hills.", HILLS),
        ("I think that Rome has 5 hills.", HILLS),
        ("In my opinion, Rome has 5 hills.", HILLS),
        ("Rome, in my opinion, has 5 hills.", HILLS),
        ("Rome has 5 hills, in my opinion.", HILLS),
        ("Personally, I think Rome has 5 hills.", HILLS),
        ("If you ask me, Rome is in Spain.", "Rome is in Spain."),
        ("I believe Rome exports wine.", "Rome exports wine."),
        ("I believe it's in Spain.", "It's in Spain."),
        ("I'd say about 5.", "About 5."),
        ("Personally, I was born in Rome in 1950.", "I was born in Rome in 1950."),
        ("I personally was born in 1950.", "I was born in 1950."),
        ("I think Rome is beautiful and lies in Spain.", "Rome is beautiful and lies in Spain."),
        ("I think it is lovely, as Rome has 5 hills.", "It is lovely, as Rome has 5 hills."),
        ("I think you should go, because it lies in Spain.", "You should go, because it lies in Spain."),
        ("I guess so, but the town lies in Spain.", "So, but the town lies in Spain."),
        ("I prefer Rome because it has 5 hills.", "It has 5 hills."),
    ],
)
def test_a_statement_behind_an_opinion_is_checked_without_it(text: str, expected: str) -> None:
    assert stated(text) == (expected, None)


@pytest.mark.parametrize(
    "text",
    [
        "I think it is lovely",
        "In my opinion, it is the best.",
        "In my opinion, it is one of the best cities.",
        "I think Rome is the best city in Italy.",
        "I think Rome's great.",
        "I'd say it is old.",
        "I think so.",
        "I guess you like it.",
        "I believe in God.",
        "I feel very happy today.",
        "I personally like it.",
        "Personally, I like Rome.",
        "I think you should visit Rome.",
        "I recommend visiting Rome.",
        "I prefer it, and I mean it.",
    ],
)
def test_values_advice_and_taste_are_not_checked(text: str) -> None:
    assert stated(text) == (text, "opinion")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't know why, Rome has 5 hills.", HILLS),
        ("I'm not sure, and Rome has 5 hills.", HILLS),
        ("I'm not sure - Rome has 5 hills.", HILLS),
        ("I don't know (Rome has 5 hills).", HILLS),
        ("I don't know why and Rome has 5 hills.", HILLS),
        ("I cannot answer that because Rome has 5 hills.", HILLS),
        ("I can't help you: the river flows north.", "The river flows north."),
        ("I hope this helps: Rome has 5 hills.", HILLS),
        ("Thanks for asking, the town is in Spain.", "The town is in Spain."),
        ("I don't know much, the data of Ada Byron was in Rome.", "The data of Ada Byron was in Rome."),
    ],
)
def test_a_statement_behind_an_abstention_a_refusal_or_filler_is_checked(text: str, expected: str) -> None:
    assert stated(text) == (expected, None)


UNKNOWN, REFUSED = "says that it does not know", "refusal"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I don't know.", UNKNOWN),
        ("I don't know how many hills Rome has.", UNKNOWN),
        ("I don't know whether Rome was founded in 753 BC.", UNKNOWN),
        ("I don't know if Rome has hills and Milan has rivers.", UNKNOWN),
        ("I'm not sure who built it, when it was built, or why.", UNKNOWN),
        ("I'm not sure, as I don't have access to real-time data.", UNKNOWN),
        ("I don't know anything about Rome and its founding in 753.", UNKNOWN),
        ("I don't have information about Rome, the capital of Italy.", UNKNOWN),
        ("I don't know, the question is open.", UNKNOWN),
        ("I cannot answer that because I am an AI.", REFUSED),
        ("I cannot provide that because it is against my guidelines.", REFUSED),
        ("I can't help with that, as it would be illegal.", REFUSED),
        ("I'm sorry, but I can't help with that.", REFUSED),
        ("Let me know if you need more, and I can help.", "filler"),
        ("If you have any questions about Rome, let me know.", "filler"),
    ],
)
def test_without_a_statement_of_its_own_it_is_not_checked(text: str, reason: str) -> None:
    assert stated(text) == (text, reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rome has 5 hills, right?", HILLS),
        ("Rome has 5 hills, doesn’t it?", HILLS),
        ("“Rome has 5 hills, is it not?”", "“Rome has 5 hills."),
        ("The town is in Spain - isn't it?", "The town is in Spain."),
        ("Did you know that Rome has 5 hills?", HILLS),
        ("Rome has 5 hills, so why go?", HILLS),
        ("Rome lies in Spain, so why go?", "Rome lies in Spain."),
    ],
)
def test_a_question_may_state_something(text: str, expected: str) -> None:
    assert stated(text) == (expected, None)


@pytest.mark.parametrize(
    "text",
    [
        "Is Rome old, right?",
        "In 1990, who was president?",
        "When Rome fell in 476, who won?",
        "He said, is it old?",
        "Rome is old, so who built it?",
        "You know what?",
        "Rome, right?",
        "Has Rome 5 hills?",
    ],
)
def test_other_questions_are_questions(text: str) -> None:
    assert stated(text) == (text, "question")


def test_a_tag_does_not_make_an_opinion_checkable() -> None:
    assert stated("I think it is lovely, isn't it?") == ("I think it is lovely.", "opinion")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The 5 hills of Rome are:", None),
        ("The seven hills of Rome are:", None),
        ("The hills of Rome are:", "filler"),
        ("Here are 3 facts:", "filler"),
        ("Here are seven facts about Rome:", "filler"),
        ("Here are the seven hills of Rome:", None),
        ("In short, Rome is in Spain:", None),
        ("Sure, here are the sights:", "filler"),
        ("Rome fell:", None),
        ("Top 10 sights of Rome:", "filler"),
    ],
)
def test_announcements(text: str, reason: str | None) -> None:
    assert stated(text) == (text, reason)


@pytest.mark.parametrize("text", ["【Rome has 5 hills】 yes it is.", "<Rome has 5 hills> yes it is."])
def test_text_in_odd_brackets_is_checked(text: str) -> None:
    assert stated(text) == (text, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Penso che Roma abbia 5 colli.", "Roma abbia 5 colli."),
        ("Credo che Roma sia in Spagna.", "Roma sia in Spagna."),
        ("Secondo me, Roma è in Spagna.", "Roma è in Spagna."),
        ("Personalmente, sono nato a Roma nel 1950.", "Sono nato a Roma nel 1950."),
        ("Preferisco Roma perché ha 5 colli.", "Ha 5 colli."),
        ("Non lo so, Roma ha 5 colli.", "Roma ha 5 colli."),
        ("Non posso rispondere perché Roma ha 5 colli.", "Roma ha 5 colli."),
        ("Spero che questo ti aiuti: Roma ha 5 colli.", "Roma ha 5 colli."),
        ("Roma ha 5 colli, vero?", "Roma ha 5 colli."),
        ("Roma ha 5 colli, no?", "Roma ha 5 colli."),
        ("Sapevi che Roma ha 5 colli?", "Roma ha 5 colli."),
        ("I 5 colli di Roma sono:", "I 5 colli di Roma sono:"),
    ],
)
def test_italian_statements(text: str, expected: str) -> None:
    assert stated(text, "it") == (expected, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Secondo me è bella.", "opinion"),
        ("Penso che sia molto grande.", "opinion"),
        ("Penso che dovresti visitare Roma.", "opinion"),
        ("Credo di sì.", "opinion"),
        ("Non lo so.", UNKNOWN),
        ("Non so quanti colli abbia Roma.", UNKNOWN),
        ("I colli di Roma sono:", "filler"),
        ("Dove si trova Roma?", "question"),
    ],
)
def test_italian_without_a_statement(text: str, reason: str) -> None:
    assert stated(text, "it") == (text, reason)


def test_headings_and_list_items() -> None:
    assert stated("Rome", kind=SentenceKind.HEADING) == ("Rome", "heading")
    assert stated("I believe Rome has 5 hills.", kind=SentenceKind.LIST_ITEM) == (HILLS, None)


@pytest.mark.parametrize(
    "text",
    ["I think " * 12_500, "I don't know if" + " and y" * 16_000, "I don't know" + ", A is big" * 10_000, "A " * 50_000],
)
def test_long_sentences_take_linear_time(text: str) -> None:
    begun = time.process_time()
    stated(text)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("answer", "checkable"),
    [
        ("I find it beautiful.", False),
        ("I love it.", False),
        ("I like pasta.", False),
        ("I find that Rome has 5 hills.", True),
        ("I love Rome, as it has 5 hills.", True),
    ],
)
def test_taste_is_no_claim_and_a_finding_is(answer: str, checkable: bool) -> None:
    assert (stated(answer)[1] is None) is checkable

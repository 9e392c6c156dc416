from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.eval_records import C, F, S, U, claim, evidence, judged, outcome, question, record, reported, scored, verdict

from corrigenda.evals import error_rules
from corrigenda.evals.error_rules import Case, categorise, names_in
from corrigenda.evals.errors_of import find_errors, sort_errors
from corrigenda.sentences import split_sentences
from corrigenda.text import same_word
from corrigenda.types import Edit, Span


def sorted_into(
    claim_text: str, reference: str | None, *, false: bool = True, seen: str | None = None
) -> tuple[str, str]:
    found = categorise([Case(claim=claim_text, reference=reference, evidence=seen, false=false)])
    return found.category, found.rule


DATED = "the claim has a date or a word of time"
DIFFERS = "a sentence of the reference differs in a name or a number"
NO_NAME = "the reference has none of the claim's names"
NO_WORD = "the reference has next to none of the claim's words"
NO_SUBJECT = "the reference does not mention the claim's subject"


@pytest.mark.parametrize(
    ("claim_text", "reference", "false", "expected"),
    [
        ("Ada Lovelace was born in 1852.", "Ada Lovelace was born in 1815.", True, ("temporal", DATED)),
        ("The bridge opened on 3 May 1932.", "A bridge.", True, ("temporal", DATED)),
        ("The war ended before the treaty.", "The treaty came first.", True, ("temporal", DATED)),
        ("The town is named after a river.", "The town is named after a hill.", True, ("other", "no rule fires")),
        ("Rome has 5 hills.", "Rome has seven hills.", True, ("subtle substitution", DIFFERS)),
        (
            "Marie Curie won the prize with Albert Einstein.",
            "Marie Curie won the prize with Pierre Curie.",
            True,
            ("subtle substitution", DIFFERS),
        ),
        ("Karl Brundvik invented the zipper.", "Whales are large sea mammals.", True, ("fabrication", NO_NAME)),
        ("Karl Brundvik invented the zipper.", "Whales are large sea mammals.", False, ("rare fact", NO_SUBJECT)),
        ("Blue crystals cure every illness.", "Whales are large sea mammals.", True, ("fabrication", NO_WORD)),
        ("Blue crystals cure every illness.", "Whales are large sea mammals.", False, ("rare fact", NO_WORD)),
        ("Rome is old.", "", True, ("rare fact", "the reference is empty")),
        ("Rome is old.", "I don't know.", True, ("rare fact", "the reference hedges")),
        ("Rome is old.", "Rome was possibly founded by farmers.", True, ("rare fact", "the reference hedges")),
        ("Rome is a large city.", "Rome is the capital of Italy.", True, ("other", "no rule fires")),
        ("Rome has 5 hills.", None, True, ("other", "no rule fires")),
    ],
)
def test_a_claim_is_sorted_by_the_first_rule_that_fires(
    claim_text: str, reference: str | None, false: bool, expected: tuple[str, str]
) -> None:
    assert sorted_into(claim_text, reference, false=false) == expected


def test_a_date_in_evidence_that_is_near_the_claim_counts_when_no_other_rule_fires() -> None:
    near = "Rome was made the capital of Italy in 1871."
    assert sorted_into("Rome was always the capital.", near, seen=near) == ("temporal", "the evidence has a date")
    far = "Rome is the capital of Italy, where a king lived from 1871 on."
    assert sorted_into("Rome is a large city.", far, seen=far) == ("other", "no rule fires")


@pytest.mark.parametrize(
    ("claim_text", "reference", "expected"),
    [
        ("The prize went to Pierre Curie.", "The prize went to Marie Curie.", "subtle substitution"),
        ("Margaret Thatcher led the party.", "Thatcher led the party.", "other"),
        ("The party was led by Heath.", "The party was led by Thatcher.", "subtle substitution"),
    ],
)
def test_a_shortened_name_is_the_same_name_and_a_changed_one_is_not(
    claim_text: str, reference: str, expected: str
) -> None:
    assert sorted_into(claim_text, reference)[0] == expected


def test_only_a_hedge_near_the_claim_counts() -> None:
    reference = "Whales are mammals. Rome is perhaps the oldest."
    assert sorted_into("Whales sing.", reference, false=False) == ("other", "no rule fires")
    assert sorted_into("Rome is new.", reference, false=False) == ("rare fact", "the reference hedges")


def test_italian_claims_have_their_own_words_of_time() -> None:
    assert sorted_into("La guerra è finita dopo il trattato.", "Il trattato è del re.") == ("temporal", DATED)


def test_a_rule_goes_over_all_the_claims_before_the_next_one_is_tried() -> None:
    cases = [
        Case(claim="Rome has 5 hills.", reference="Rome has seven hills.", false=True),
        Case(claim="Rome was founded in 700 BC.", reference="Rome has seven hills.", false=True),
    ]
    found = categorise(cases)
    assert (found.category, found.claim) == ("temporal", "Rome was founded in 700 BC.")
    assert found.values == {"dates": ["700 BC"], "words": []}
    with pytest.raises(ValueError, match="an error needs at least one claim"):
        categorise([])


def test_the_values_show_why_a_rule_fired() -> None:
    found = categorise([Case(claim="Rome has 5 hills.", reference="It is old. Rome has seven hills.", false=True)])
    assert found.values == {"sentence": "Rome has seven hills.", "shared": 0.667, "missing": ["5"]}


def test_names_are_runs_of_capital_words() -> None:
    assert names_in("The prize went to Marie Curie and Henri Becquerel in Stockholm.") == [
        "Marie Curie",
        "Henri Becquerel",
        "Stockholm",
    ]
    assert names_in("Rome is old. Crystals heal. The Nile flows.") == ["Rome", "Nile"]
    assert names_in("nothing here") == []


def test_a_long_claim_has_its_language_told_a_few_times_and_not_for_every_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    def counted(text: str) -> str:
        told.append(text)
        return "en"

    monkeypatch.setattr(error_rules, "detect_language", counted)
    claim_text = "The old town is quiet by the river. " * 200
    assert sorted_into(claim_text, "Whales are large sea mammals.") == ("fabrication", NO_WORD)
    assert len(told) < 20


def test_a_reference_is_taken_apart_once_for_all_the_claims_that_were_checked_against_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split: list[str] = []

    def counted(text: str, language: str) -> Any:
        split.append(text)
        return split_sentences(text, language)

    monkeypatch.setattr(error_rules, "split_sentences", counted)
    reference = "The old town is quiet by the river, as this test alone says. " * 20
    categorise([Case(claim=f"Crystals cure illness number {n}.", reference=reference, false=False) for n in range(50)])
    assert split.count(reference) == 1


WORD = st.text("abs1", min_size=0, max_size=7)


@given(WORD, st.lists(WORD, max_size=6))
def test_words_are_found_among_many_as_two_are_compared(word: str, words: list[str]) -> None:
    found = error_rules._Words(words)
    assert set(found.like(word)) == {other for other in words if same_word(word, other)}
    assert (word in found) == any(same_word(word, other) for other in words)
    assert list(found) == list(dict.fromkeys(words))


def kinds(records: list[Any]) -> list[tuple[str, str, str]]:
    return [(e.kind, e.level, e.what) for e in find_errors(records)]


MISSED, ALARM = "hallucinated and not flagged", "flagged and not hallucinated"


def test_errors_of_claims() -> None:
    records = [
        claim(1, C, C),
        claim(2, C, U),
        claim(3, S, C),
        claim(4, S, S),
        claim(5, U, C),
        claim(6, C, F),
        claim(7, C, None),
    ]
    assert kinds(records) == [
        ("false_negative", "claim", MISSED),
        ("false_positive", "claim", ALARM),
        ("false_negative", "claim", MISSED),
    ]


def test_errors_of_answers() -> None:
    records = [
        question(1, False, False, flagged=False),
        question(2, True, False, flagged=True),
        question(3, True, True, flagged=True, changed=False),
        question(4, False, False, flagged=True, changed=True),
        question(5, False, True, flagged=True),
        question(6, None, None, flagged=True),
        record(7, kind="question"),
    ]
    assert kinds(records) == [
        ("false_negative", "answer", MISSED),
        ("false_positive", "answer", ALARM + "; the change broke it"),
        ("false_positive", "answer", ALARM),
        ("correction_error", "answer", "changed, and still not correct"),
    ]


def test_a_method_that_changes_without_flagging_can_break_an_answer() -> None:
    assert kinds([question(1, True, False, flagged=None)]) == [
        ("correction_error", "answer", "changed, and no longer correct")
    ]


def test_a_found_error_without_an_accepted_rewrite_is_a_correction_error() -> None:
    made = reported(
        scored(-0.9, "Rome has 5 hills.", said=C), answer="Rome has 5 hills.", reference="Rome has 7 hills."
    )
    assert made.report is not None
    edit = Edit(
        span=Span(0, 17),
        before="Rome has 5 hills.",
        after=None,
        claims=(0,),
        kind="rewrite",
        accepted=False,
        reason="-",
    )
    tried = replace(made, report=replace(made.report, edits=(edit,)))
    common: dict[str, Any] = {"kind": "question", "before": judged(False), "after": judged(False)}
    assert kinds([record(1, made=tried, **common)]) == [
        ("correction_error", "answer", "found, but no rewrite was accepted")
    ]
    # Without a judge, and whatever a judge says of it: an answer that stays as it was is as wrong as it was.
    labelled: dict[str, Any] = {"kind": "answer", "sentence_labels": (C,)}
    for after in (None, judged(True)):
        assert kinds([record(1, made=tried, **labelled, after=after)]) == [
            ("correction_error", "answer", "found, but no rewrite was accepted")
        ]
    # without an edit nothing was tried: the method only detects, and it did
    assert kinds([record(1, made=made, **common)]) == []


def test_errors_of_labelled_sentences_and_their_correction() -> None:
    made = outcome(verdict(C, sentence=0, text="One."), verdict(S, sentence=1, text="Two."), final="Other.")
    given = record(1, kind="answer", sentence_labels=(C, C), made=made, after=judged(False))
    assert kinds([given]) == [
        ("false_negative", "sentence", MISSED),
        ("correction_error", "answer", "changed, and still not correct"),
    ]
    assert [e.finding.claim for e in find_errors([given])] == ["Two.", "One."]


def test_an_error_shows_what_it_is_about() -> None:
    hills = replace(scored(0.7, "Rome has 5 hills.", said=S), evidence=evidence("Rome has seven hills."))
    other = scored(-0.8, "Rome is in Gaul.", said=C)
    made = reported(hills, other, answer="Rome has 5 hills.", reference="Rome has seven hills.")
    missed = record(
        1, "corrigenda", kind="question", question="How many?", made=replace(made, flagged=False), before=judged(False)
    )
    (error,) = find_errors([missed])
    assert (error.finding.category, error.finding.claim) == ("subtle substitution", "Rome has 5 hills.")
    assert (error.question, error.reference, error.verdict) == ("How many?", "Rome has seven hills.", None)


def test_counts_shares_and_examples() -> None:
    def missed(number: int, text: str) -> Any:
        made = reported(scored(0.0, text), answer=text, reference="Rome has seven hills.")
        return record(number, label=C, made=made)

    records = [missed(i, f"Rome was founded in 180{i}.") for i in range(3)]
    records += [missed(3, "Rome has 5 hills."), claim(4, S, C)]
    found = sort_errors(records, examples=2)
    json.dumps(found, allow_nan=False)
    assert found["m"]["errors"] == 5
    negatives = found["m"]["kinds"]["false_negative"]
    assert (negatives["count"], negatives["share"]) == (4, 0.8)
    assert {c: (v["count"], v["share"], len(v["examples"])) for c, v in negatives["categories"].items()} == {
        "temporal": (3, 0.75, 2),
        "subtle substitution": (1, 0.25, 1),
    }
    assert negatives["categories"]["subtle substitution"]["examples"][0] == {
        "method": "m",
        "dataset": "d",
        "item": "3",
        "repeat": 0,
        "kind": "false_negative",
        "level": "claim",
        "what": MISSED,
        "question": None,
        "answer": "Rome has 5 hills.",
        "final_answer": "Rome has 5 hills.",
        "reference": "Rome has seven hills.",
        "label": "contradicted",
        "verdict": "unverified",
        "score": 0.0,
        "category": "subtle substitution",
        "rule": DIFFERS,
        "claim": "Rome has 5 hills.",
        "values": {"sentence": "Rome has seven hills.", "shared": 0.667, "missing": ["5"]},
    }
    assert found["m"]["kinds"]["correction_error"] == {"count": 0, "share": 0.0, "categories": {}}


def test_a_method_without_errors() -> None:
    found = sort_errors([claim(1, C, C)])
    assert found["m"]["errors"] == 0
    assert found["m"]["kinds"]["false_negative"] == {"count": 0, "share": None, "categories": {}}

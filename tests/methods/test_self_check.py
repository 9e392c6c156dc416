"""`self-check`: reading the second look, asking again, and what becomes of the answer."""

from __future__ import annotations

import pytest
from tests.method_kit import QUESTION, contexts, do, kit_of, pairs_of, requests_of, said
from tests.scripted import C, F, Rules, S, U

from corrigenda.errors import InputError, ParseError
from corrigenda.methods.protocol import Task
from corrigenda.methods.self_check import ANSWER_WORDS, CLAIM_WORDS, verdict_of
from corrigenda.types import Span, Verdict

ANSWER = "Rome has 5 hills. It is in Italy."
RIGHT = "Rome has seven hills. It is in Italy."
TASK = Task(question=QUESTION)


def chat_of(*replies: str, answer: str = ANSWER) -> Rules:
    looks = [{"stage": "verify", "reply": reply, "times": 1} for reply in replies]
    return [{"stage": "generate", "reply": answer}, *looks]


@pytest.mark.parametrize(
    ("reply", "verdict", "rest"),
    [
        ("CORRECT", S, ""),
        ("correct.", S, ""),
        ("**Correct**", S, ""),
        ("CORRECT\n\nThe answer is fine.", S, "The answer is fine."),
        ("INCORRECT\nRome has seven hills.", C, "Rome has seven hills."),
        ("INCORRECT: Rome has seven hills.", C, "Rome has seven hills."),
        ("**INCORRECT**\n\nRome has seven hills.", C, "Rome has seven hills."),
        ("Incorrect - Rome has seven hills.", C, "Rome has seven hills."),
        ('"INCORRECT"', C, ""),
        ("INCORRECT Rome has seven hills.", C, "Rome has seven hills."),
    ],
)
def test_replies_that_can_be_read(reply: str, verdict: Verdict, rest: str) -> None:
    assert verdict_of(reply, ANSWER_WORDS) == (verdict, rest)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("SUPPORTED", S),
        ("Contradicted.", C),
        ("UNKNOWN", U),
        ("NOT ENOUGH INFORMATION", U),
        ("Not_enough_information.", U),
        ("Contradicted by the evidence", C),
    ],
)
def test_one_word_for_a_claim(reply: str, verdict: Verdict) -> None:
    assert verdict_of(reply, CLAIM_WORDS)[0] is verdict


@pytest.mark.parametrize(
    "reply",
    ["", "Yes.", "The answer is CORRECT.", "Correct answer: Rome.", "CORRECTLY", "SUPPORTED", "I'm sorry, I can't."],
)
def test_replies_that_cannot_be_read(reply: str) -> None:
    with pytest.raises(ParseError, match="does not begin with one of CORRECT, INCORRECT: "):
        verdict_of(reply, ANSWER_WORDS)


def test_a_mistake_is_flagged_and_corrected() -> None:
    kit = kit_of(chat_of(f"INCORRECT\n{RIGHT}"))
    outcome = do("self-check", TASK, kit)
    assert (outcome.answer, outcome.final_answer, outcome.flagged) == (ANSWER, RIGHT, True)
    assert said(outcome) == [(ANSWER, C)]
    assert (outcome.verdicts[0].span, outcome.verdicts[0].sentence) == (Span(0, len(ANSWER)), None)
    assert (outcome.score, outcome.warnings) == (None, ())
    assert outcome.details == {"replies": [f"INCORRECT\n{RIGHT}"]}
    assert pairs_of(kit) == [], "no NLI"


def test_an_answer_found_correct_stays() -> None:
    outcome = do("self-check", TASK, kit_of(chat_of("CORRECT")))
    assert (said(outcome), outcome.final_answer, outcome.flagged) == ([(ANSWER, S)], ANSWER, False)


def test_the_model_sees_the_question_the_contexts_and_the_answer() -> None:
    kit = kit_of(chat_of("CORRECT"), seed=4)
    do("self-check", Task(question=QUESTION, answer=ANSWER, contexts=contexts("Seven hills.", " ", "In Italy.")), kit)
    (request,) = requests_of(kit)
    assert request.messages[-1].content == (
        f"<question>\n{QUESTION}\n</question>\n<context>\nSeven hills.\n</context>\n<context>\nIn Italy.\n</context>\n"
        f"<answer>\n{ANSWER}\n</answer>\n\n"
        "Judge by the context alone. Is everything that the answer states true? Begin with CORRECT or INCORRECT."
    )
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert (request.stage, request.temperature, request.max_tokens, request.seed) == ("verify", 0.0, 264, 4)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("INCORRECT", "the model gave no new answer"),
        ("INCORRECT\nI'm sorry, but I can't help with that.", "the model refused, or said that it does not know"),
        ("INCORRECT\nI don't know.", "the model refused, or said that it does not know"),
    ],
)
def test_a_mistake_without_a_correction_keeps_the_answer(reply: str, why: str) -> None:
    outcome = do("self-check", TASK, kit_of(chat_of(reply)))
    assert (said(outcome), outcome.final_answer) == ([(ANSWER, C)], ANSWER)
    assert outcome.warnings == (f"verify: the answer was not corrected: {why}",)


def test_a_correction_that_is_cut_off_is_not_taken() -> None:
    look = {"stage": "verify", "reply": "INCORRECT\nRome has", "finish_reason": "length"}
    outcome = do("self-check", TASK, kit_of([*chat_of(), look]))
    assert (outcome.final_answer, outcome.flagged) == (ANSWER, True)
    assert outcome.warnings == ("verify: the answer was not corrected: the new answer was cut off",)


def test_a_reply_that_cannot_be_read_is_asked_for_again() -> None:
    kit = kit_of(chat_of("It looks wrong.", "", f"INCORRECT\n{RIGHT}"))
    outcome = do("self-check", TASK, kit)
    assert (outcome.final_answer, outcome.flagged) == (RIGHT, True)
    first, second, third = requests_of(kit, "verify")
    again = "Begin your reply with the word CORRECT or the word INCORRECT, and nothing before it."
    assert [m.content for m in second.messages[-2:]] == ["It looks wrong.", again]
    assert second.messages[:-2] == first.messages
    assert [m.content for m in third.messages[-2:]] == ["-", again]


def test_after_the_retries_it_is_unverified() -> None:
    kit = kit_of(chat_of("Hm.", "Hm.", "Hm."))
    outcome = do("self-check", TASK, kit)
    assert (said(outcome), outcome.final_answer, outcome.flagged) == ([(ANSWER, U)], ANSWER, False)
    assert outcome.verdicts[0].reason == "the reply does not begin with one of CORRECT, INCORRECT: 'Hm.'"
    assert len(requests_of(kit, "verify")) == 3
    kit = kit_of(chat_of("Hm."))
    assert said(do("self-check", TASK, kit, retries=0)) == [(ANSWER, U)]


def test_a_second_look_that_fails_keeps_the_answer() -> None:
    outcome = do("self-check", TASK, kit_of([*chat_of(), {"stage": "verify", "error": {"status": 500}}]))
    assert (said(outcome), outcome.final_answer, outcome.flagged) == ([(ANSWER, F)], ANSWER, None)
    assert "status 500" in str(outcome.verdicts[0].reason)


def test_without_correction_one_word_is_asked_for() -> None:
    kit = kit_of(chat_of("INCORRECT"))
    outcome = do("self-check", Task(question=QUESTION, answer=ANSWER, correct=False), kit)
    assert (said(outcome), outcome.final_answer, outcome.warnings) == ([(ANSWER, C)], ANSWER, ())
    (request,) = requests_of(kit)
    assert request.max_tokens == 8
    assert [m.role for m in request.messages] == ["system", "user"]
    assert request.messages[-1].content.endswith(
        "Judge by what you know. Is everything that the answer states true? Reply with one word: CORRECT or INCORRECT."
    )


@pytest.mark.parametrize(("reply", "verdict"), [("SUPPORTED", S), ("CONTRADICTED", C), ("Unknown", U)])
def test_a_claim_is_judged_by_the_evidence_in_one_word(reply: str, verdict: Verdict) -> None:
    kit = kit_of(chat_of(reply))
    task = Task(answer="Rome has 5 hills.", contexts=contexts("Rome stands on seven hills."), whole=True)
    outcome = do("self-check", task, kit)
    assert (said(outcome), outcome.final_answer) == ([("Rome has 5 hills.", verdict)], "Rome has 5 hills.")
    (request,) = requests_of(kit)
    assert request.messages[-1].content == (
        "<evidence>\nRome stands on seven hills.\n</evidence>\n<claim>\nRome has 5 hills.\n</claim>\n\n"
        "Judge by the evidence alone: does it support the claim, contradict it, or not say enough? "
        "Reply with one word: SUPPORTED, CONTRADICTED or UNKNOWN."
    )


def test_a_claim_without_evidence_is_judged_by_what_the_model_knows() -> None:
    kit = kit_of(chat_of("Hm.", "CONTRADICTED"))
    assert said(do("self-check", Task(answer="Rome has 5 hills.", whole=True, question="?"), kit)) == [
        ("Rome has 5 hills.", C)
    ]
    first, second = requests_of(kit)
    assert first.messages[-1].content.startswith("<question>\n?\n</question>\n<claim>\n")
    assert "Judge by what you know." in first.messages[-1].content
    assert second.messages[-1].content == "Reply with SUPPORTED, CONTRADICTED or UNKNOWN, and nothing else."


def test_an_answer_that_states_nothing_gets_no_second_look() -> None:
    kit = kit_of(chat_of(answer="I don't know."))
    outcome = do("self-check", TASK, kit)
    assert (said(outcome), outcome.flagged) == ([("I don't know.", Verdict.NOT_CHECKABLE)], False)
    assert [r.stage for r in requests_of(kit)] == ["generate"]


def test_it_needs_a_chat_model() -> None:
    with pytest.raises(InputError, match="'self-check' needs a chat model"):
        do("self-check", Task(answer=ANSWER), kit_of(None))

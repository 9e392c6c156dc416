"""`self-refine`: rounds of feedback and rewriting, and when they end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.method_kit import QUESTION, contexts, do, kit_of, pairs_of, requests_of, said
from tests.scripted import C, F, Rules, S, U

from corrigenda.errors import InputError
from corrigenda.methods.protocol import Task
from corrigenda.methods.self_refine import finds_nothing
from corrigenda.types import Verdict

ANSWER, BETTER, BEST = "Rome has 5 hills.", "Rome has six hills.", "Rome has seven hills."
TASK = Task(question=QUESTION)
WRONG, FINE = "- The number is wrong: it has seven.", "NOTHING TO FIX"


def chat_of(*, feedback: list[Any], refine: list[Any] = [], answer: str = ANSWER) -> Rules:  # noqa: B006
    rules: Rules = [{"stage": "generate", "reply": answer}]
    for stage, replies in (("feedback", feedback), ("refine", refine)):
        rules += [{"stage": stage, "times": 1, **(r if isinstance(r, dict) else {"reply": r})} for r in replies]
    return rules


@pytest.mark.parametrize(
    ("feedback", "nothing"),
    [
        ("NOTHING TO FIX", True),
        ("**Nothing to fix.**", True),
        ("- There is nothing to fix.", True),
        ("The answer is correct.", True),
        ("No factual mistakes.", True),
        ("There are no errors in the answer.", True),
        ("The answer is correct, but the year is wrong.", False),
        ("Nothing to fix except the year.", False),
        ("The year is wrong. Nothing to fix otherwise.", False),
        ("The answer is correctable.", False),
        ("- The number is wrong.", False),
    ],
)
def test_feedback_that_finds_nothing(feedback: str, nothing: bool) -> None:
    assert finds_nothing(feedback) is nothing


def test_it_refines_until_there_is_nothing_to_fix() -> None:
    kit = kit_of(chat_of(feedback=[WRONG, FINE], refine=[f"New answer: {BEST}"]))
    outcome = do("self-refine", TASK, kit)
    assert (outcome.answer, outcome.final_answer, outcome.flagged) == (ANSWER, BEST, True)
    assert said(outcome) == [(ANSWER, C)]
    assert outcome.details == {"rounds": [{"feedback": WRONG, "answer": BEST}, {"feedback": FINE, "answer": None}]}
    assert [r.stage for r in requests_of(kit)] == ["generate", "feedback", "refine", "feedback"]
    assert pairs_of(kit) == [], "no NLI"


def test_an_answer_without_mistakes_stays() -> None:
    outcome = do("self-refine", TASK, kit_of(chat_of(feedback=[FINE])))
    assert (said(outcome), outcome.final_answer, outcome.flagged) == ([(ANSWER, S)], ANSWER, False)


def test_the_rounds_are_bounded() -> None:
    kit = kit_of(chat_of(feedback=[WRONG] * 9, refine=[BETTER, BEST, ANSWER]))
    assert do("self-refine", TASK, kit).final_answer == BEST
    assert [r.stage for r in requests_of(kit)] == ["generate", "feedback", "refine", "feedback", "refine"]
    kit = kit_of(chat_of(feedback=[WRONG] * 9, refine=[BETTER, BEST, ANSWER]))
    assert do("self-refine", TASK, kit, rounds=1).final_answer == BETTER


def test_what_the_model_sees() -> None:
    kit = kit_of(chat_of(feedback=[WRONG, WRONG], refine=[BETTER, BEST]), seed=4)
    do("self-refine", Task(question=QUESTION, contexts=contexts("Seven hills.")), kit)
    _, feedback, refine, second, _ = requests_of(kit)
    shown = f"<question>\n{QUESTION}\n</question>\n<context>\nSeven hills.\n</context>\n"
    assert feedback.messages[-1].content == (
        f"{shown}<answer>\n{ANSWER}\n</answer>\n\nGo by the context alone. Which statements of the answer are false, "
        "and what is right instead? If none is, reply NOTHING TO FIX."
    )
    assert refine.messages[-1].content == (
        f"{shown}<answer>\n{ANSWER}\n</answer>\n<feedback>\n{WRONG}\n</feedback>\n\n"
        "Go by the context alone. New answer:"
    )
    assert f"<answer>\n{BETTER}\n</answer>" in second.messages[-1].content
    assert [(r.temperature, r.max_tokens, r.seed) for r in (feedback, refine)] == [(0.0, 160, 4), (0.0, 256, 4)]
    assert [m.role for m in refine.messages] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("refined", "why"),
    [
        ("", "the model gave no new answer"),
        ("I'm sorry, but I can't help with that.", "the model refused, or said that it does not know"),
        ({"reply": {"content": None, "refusal": "No."}}, "the model refused"),
        ({"reply": "Rome has", "finish_reason": "length"}, "the new answer was cut off"),
    ],
)
def test_a_rewrite_that_is_none_ends_the_rounds(refined: Any, why: str) -> None:
    outcome = do("self-refine", TASK, kit_of(chat_of(feedback=[WRONG, WRONG], refine=[BETTER, refined])))
    assert (outcome.final_answer, outcome.flagged) == (BETTER, True)
    assert outcome.warnings == (f"refine: the answer was not rewritten: {why}",)


@pytest.mark.parametrize("feedback", ["", "I'm sorry, but I can't help with that.", "I don't know."])
def test_without_feedback_it_is_unverified(feedback: str) -> None:
    outcome = do("self-refine", TASK, kit_of(chat_of(feedback=[feedback])))
    assert (said(outcome), outcome.final_answer) == ([(ANSWER, U)], ANSWER)
    assert outcome.warnings == ("feedback: the model gave no feedback",)


def test_a_model_that_fails_midway_keeps_the_last_good_answer() -> None:
    broken = {"error": {"status": 500}}
    outcome = do("self-refine", TASK, kit_of(chat_of(feedback=[WRONG, broken], refine=[BETTER])))
    assert (outcome.final_answer, said(outcome)) == (BETTER, [(ANSWER, C)])
    assert "status 500" in outcome.warnings[0]
    outcome = do("self-refine", TASK, kit_of(chat_of(feedback=[WRONG], refine=[broken])))
    assert (outcome.final_answer, said(outcome)) == (ANSWER, [(ANSWER, C)])
    outcome = do("self-refine", TASK, kit_of(chat_of(feedback=[broken])))
    assert (outcome.final_answer, said(outcome), outcome.flagged) == (ANSWER, [(ANSWER, F)], None)


def test_without_correction_only_the_first_feedback_is_asked_for() -> None:
    kit = kit_of(chat_of(feedback=[WRONG]))
    outcome = do("self-refine", Task(question=QUESTION, answer=ANSWER, correct=False), kit)
    assert (said(outcome), outcome.final_answer) == ([(ANSWER, C)], ANSWER)
    assert [r.stage for r in requests_of(kit)] == ["feedback"]


def test_an_answer_that_states_nothing_is_not_refined() -> None:
    kit = kit_of(chat_of(feedback=[], answer="I don't know."))
    assert said(do("self-refine", TASK, kit)) == [("I don't know.", Verdict.NOT_CHECKABLE)]
    assert [r.stage for r in requests_of(kit)] == ["generate"]


def test_it_needs_a_chat_model() -> None:
    with pytest.raises(InputError, match="'self-refine' needs a chat model"):
        do("self-refine", Task(answer=ANSWER), kit_of(None))

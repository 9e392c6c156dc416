"""`self-consistency`: which of several answers is chosen, and what that says of the first."""

from __future__ import annotations

from typing import Any

import pytest
from tests.method_kit import QUESTION, contexts, do, kit_of, pairs_of, requests_of, said
from tests.scripted import CONTRADICT, ENTAIL, NEUTRAL, C, F, Rules, S, U

from corrigenda.errors import BackendError, InputError
from corrigenda.methods.protocol import Task
from corrigenda.methods.self_consistency import agreement, most_consistent
from corrigenda.types import Entailment, Verdict

FIVE, SEVEN, ALSO = "Rome has 5 hills.", "Rome has seven hills.", "There are seven hills in Rome."
TASK = Task(question=QUESTION)
HILLS: Rules = [
    {"premise_contains": "5", "hypothesis_contains": "5", "scores": ENTAIL},
    {"premise_contains": "5", "scores": CONTRADICT},
    {"hypothesis_contains": "5", "scores": CONTRADICT},
    {"scores": ENTAIL},
]


def chat_of(first: str, *samples: Any) -> Rules:
    rules = [{"stage": "sample", "times": 1, **(s if isinstance(s, dict) else {"reply": s})} for s in samples]
    return [{"stage": "generate", "reply": first}, *rules]


def entailing(value: float) -> Entailment:
    return Entailment(entailment=value, neutral=1 - value, contradiction=0.0)


def test_agreement_by_hand() -> None:
    """Of 0: 0.8 and 0.6 with 1, 0.2 and 0.4 with 2, the mean 0.5; of 1: (0.8 + 0.6 + 1)/3, one cell is missing."""
    table = [
        [None, entailing(0.8), entailing(0.2)],
        [entailing(0.6), None, None],
        [entailing(0.4), entailing(1.0), None],
    ]
    assert agreement(table) == [pytest.approx(0.5), pytest.approx(0.8), pytest.approx(1.6 / 3)]
    assert agreement([[None]]) == [None]


@pytest.mark.parametrize(
    ("means", "chosen"),
    [([0.2, 0.9, 0.3], 1), ([0.5, 0.5, 0.5], 0), ([0.5, 0.5 + 1e-12], 0), ([None, 0.1], 1), ([None, None], 0)],
)
def test_the_first_of_the_best_is_chosen(means: list[float | None], chosen: int) -> None:
    assert most_consistent(means) == chosen


def test_the_majority_replaces_a_first_answer_that_it_contradicts() -> None:
    kit = kit_of(chat_of(FIVE, SEVEN, ALSO), HILLS)
    outcome = do("self-consistency", TASK, kit, n=3)
    assert (outcome.answer, outcome.final_answer, outcome.flagged) == (FIVE, SEVEN, True)
    assert said(outcome) == [(FIVE, C)]
    assert outcome.verdicts[0].reason == "the most consistent of 3 answers contradicts it"
    assert outcome.score == pytest.approx(0.99)
    assert outcome.details == {
        "answers": [FIVE, SEVEN, ALSO],
        "consistency": [pytest.approx(0.01), pytest.approx(0.495), pytest.approx(0.495)],
        "chosen": 1,
    }
    assert sorted(pairs_of(kit)) == sorted((p, h) for p in (FIVE, SEVEN, ALSO) for h in (FIVE, SEVEN, ALSO) if p != h)


def test_a_first_answer_that_the_others_entail_is_kept() -> None:
    outcome = do("self-consistency", TASK, kit_of(chat_of(SEVEN, ALSO, FIVE), HILLS), n=3)
    assert (outcome.final_answer, outcome.flagged, outcome.details["chosen"]) == (SEVEN, False, 0)
    assert said(outcome) == [(SEVEN, U)]  # one of two entails it: 0.495
    outcome = do("self-consistency", TASK, kit_of(chat_of(SEVEN, ALSO), HILLS), n=2)
    assert said(outcome) == [(SEVEN, S)]
    assert outcome.score == pytest.approx(0.02)


def test_a_choice_among_answers_that_say_the_same_is_no_flag() -> None:
    nli = [{"hypothesis_contains": "There are", "scores": ENTAIL}, {"scores": [0.6, 0.3, 0.1]}]
    outcome = do("self-consistency", TASK, kit_of(chat_of(SEVEN, ALSO, "Seven."), nli), n=3)
    assert (outcome.final_answer, outcome.flagged) == (ALSO, False)
    assert said(outcome) == [(SEVEN, S)]


def test_without_correction_the_first_answer_stays() -> None:
    task = Task(question=QUESTION, correct=False)
    outcome = do("self-consistency", task, kit_of(chat_of(FIVE, SEVEN, ALSO), HILLS), n=3)
    assert (outcome.final_answer, outcome.flagged) == (FIVE, True)


def test_the_samples_have_their_own_seeds_and_the_first_answers_settings() -> None:
    kit = kit_of(chat_of(FIVE, SEVEN, ALSO), HILLS, seed=3)
    do("self-consistency", TASK, kit, n=3)
    settings = [(r.stage, r.temperature, r.top_p, r.seed) for r in requests_of(kit)]
    assert settings == [("generate", 0.7, 0.9, 3), ("sample", 0.7, 0.9, 1003), ("sample", 0.7, 0.9, 2003)]
    kit = kit_of(chat_of(FIVE, SEVEN), HILLS)
    do("self-consistency", TASK, kit, n=2, temperature=1.2)
    assert [r.temperature for r in requests_of(kit)] == [0.7, 1.2]


def test_samples_that_fail_are_left_out() -> None:
    kit = kit_of(chat_of(FIVE, {"error": {"status": 500}}, "", SEVEN, ALSO), HILLS)
    outcome = do("self-consistency", TASK, kit)
    assert outcome.details["answers"] == [FIVE, SEVEN, ALSO]
    assert (outcome.final_answer, len(outcome.warnings)) == (SEVEN, 2)


def test_alone_the_first_answer_stands_unverified() -> None:
    kit = kit_of(chat_of(FIVE, {"error": {"status": 500}}, {"error": {"status": 500}}), HILLS)
    outcome = do("self-consistency", TASK, kit, n=3)
    assert (outcome.final_answer, said(outcome), outcome.score) == (FIVE, [(FIVE, U)], None)
    assert outcome.verdicts[0].reason == "there is no other answer to compare with"
    assert pairs_of(kit) == []


def test_a_verifier_that_fails_keeps_the_first_answer() -> None:
    outcome = do("self-consistency", TASK, kit_of(chat_of(FIVE, SEVEN), [{"error": "no"}]), n=2)
    assert (outcome.final_answer, said(outcome), outcome.flagged) == (FIVE, [(FIVE, F)], None)
    assert outcome.verdicts[0].reason == "no"


def test_a_first_answer_that_does_not_know_is_not_checkable() -> None:
    kit = kit_of(chat_of("I don't know.", SEVEN, ALSO), [{"premise_contains": "know", "scores": NEUTRAL}, *HILLS])
    outcome = do("self-consistency", TASK, kit, n=3)
    assert said(outcome) == [("I don't know.", Verdict.NOT_CHECKABLE)]
    assert outcome.flagged is False
    assert outcome.final_answer == SEVEN


def test_an_empty_first_answer_ends_it() -> None:
    kit = kit_of(chat_of(" "))
    assert do("self-consistency", TASK, kit).flagged is None
    assert [r.stage for r in requests_of(kit)] == ["generate"]


def test_a_given_answer_is_the_first() -> None:
    kit = kit_of(chat_of("", SEVEN, ALSO), HILLS)
    task = Task(question=QUESTION, answer=FIVE, contexts=contexts("Rome."))
    outcome = do("self-consistency", task, kit, n=3)
    assert (outcome.answer, outcome.final_answer) == (FIVE, SEVEN)
    assert outcome.warnings == ("self-consistency compares answers with one another; the contexts were not looked at",)


def test_what_it_needs() -> None:
    with pytest.raises(InputError, match="'self-consistency' needs a question"):
        do("self-consistency", Task(answer=FIVE), kit_of([]))
    with pytest.raises(InputError, match="'self-consistency' needs a chat model"):
        do("self-consistency", TASK, kit_of(None))
    with pytest.raises(BackendError, match="status 500"):
        do("self-consistency", TASK, kit_of([{"error": {"status": 500}}]))

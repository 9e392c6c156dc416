"""When the judge is asked, and what becomes of what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from corrigenda.evals.items import Item
from corrigenda.evals.judging import Judging
from corrigenda.evals.records import Judgement
from corrigenda.methods.protocol import Outcome
from corrigenda.types import Reference, Verdict

QUESTION = "How many hills has Rome?"
CORRECT = ("Rome stands on seven hills.", "I have no comment.")
INCORRECT = ("Rome stands on five hills.", "Rome is flat.")


# When the judge is asked --------------------------------------------------------------------------------------------


class Counting:
    """A judge that finds `seven` correct; `asked` holds what it was asked about."""

    name = "counting"

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.error = error

    async def judge(
        self, question: str | None, answer: str, correct: Sequence[str], incorrect: Sequence[str]
    ) -> Judgement:
        self.asked.append((answer, tuple(correct), tuple(incorrect)))
        if self.error is not None:
            raise self.error
        return Judgement(correct="seven" in answer, reason="counted")


def item(**fields: Any) -> Item:
    return Item(
        **({"id": "i", "kind": "question", "question": QUESTION, "correct": CORRECT, "incorrect": INCORRECT} | fields)
    )


def told(
    judge: Counting, *answers: tuple[str, str], **fields: Any
) -> list[tuple[bool | None, bool | None, str | None]]:
    """Return (correct before, correct after, who decided) for each (answer, final answer)."""

    async def all_of_them() -> list[Any]:
        judging = Judging(judge)
        return [await judging.before_and_after(item(**fields), Outcome(answer=a, final_answer=f)) for a, f in answers]

    return [(b and b.correct, a and a.correct, name) for b, a, name in asyncio.run(all_of_them())]


def test_a_questions_answers_are_judged_each_once() -> None:
    judge = Counting()
    assert told(judge, ("five", "seven"), ("five", "five"), ("seven", "seven")) == [
        (False, True, "counting"),
        (False, False, "counting"),
        (True, True, "counting"),
    ]
    assert [answer for answer, _, _ in judge.asked] == ["five", "seven"]


def test_a_gold_label_decides_until_the_answer_is_changed() -> None:
    judge = Counting()
    fields: dict[str, Any] = {"kind": "answer", "answer": "five", "label": Verdict.CONTRADICTED}
    assert told(judge, ("five", "five"), ("five", "seven"), **fields) == [
        (False, False, "gold"),
        (False, True, "counting"),
    ]
    assert [answer for answer, _, _ in judge.asked] == ["seven"]
    assert told(judge, ("five", "seven"), **fields, correct=(), incorrect=()) == [(False, None, "gold")]
    assert told(judge, ("x", "x"), **{**fields, "label": Verdict.UNVERIFIED}) == [(None, None, "gold")]


def test_an_answer_without_label_and_lists_is_not_judged() -> None:
    judge = Counting()
    assert told(judge, ("five", "seven"), kind="answer", correct=(), incorrect=()) == [(None, None, None)]
    assert judge.asked == []


def test_a_claim_that_was_changed_is_judged_by_its_evidence_and_by_what_it_was() -> None:
    judge = Counting()
    fields: dict[str, Any] = {
        "kind": "claim",
        "question": None,
        "answer": "five",
        "correct": (),
        "incorrect": (),
        "contexts": (Reference(text="Rome has seven hills.", source="evidence"),),
    }
    assert told(judge, ("five", "seven"), **fields, label=Verdict.CONTRADICTED) == [(False, True, "counting")]
    assert told(judge, ("five", "six"), **fields, label=Verdict.SUPPORTED) == [(True, False, "counting")]
    assert told(judge, ("five", "six"), **fields, label=Verdict.UNVERIFIED) == [(None, None, "gold")]
    assert judge.asked == [
        ("seven", ("Rome has seven hills.",), ("five",)),
        ("six", ("Rome has seven hills.", "five"), ()),
    ]


def test_a_judge_that_fails_leaves_the_answer_undecided_and_is_asked_again() -> None:
    judge = Counting(error=ValueError("broken"))

    async def twice() -> list[Judgement | None]:
        judging = Judging(judge)
        return [await judging.judged(item(), "seven") for _ in range(2)]

    reason = "the judge failed: ValueError: broken"
    assert asyncio.run(twice()) == [Judgement(correct=None, reason=reason, failed=True)] * 2
    assert len(judge.asked) == 2

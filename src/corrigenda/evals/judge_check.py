"""How far a judge can be trusted: measured on a data set's own answers, each held out of the lists in its turn.

Per question one accepted and one incorrect answer are drawn and taken out of the lists, and the judge is asked about
three answers: the accepted one (right: correct), the incorrect one, and both, one after the other (right: not
correct). It is a hard test: what is held out may say something that no other answer of its list says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from corrigenda.errors import InputError
from corrigenda.evals.datasets.draws import pick
from corrigenda.evals.items import Item
from corrigenda.evals.judge import Judge, broken, stating
from corrigenda.evals.records import Judgement
from corrigenda.evals.stats import Bootstrap, Row

Case = Literal["accepted", "incorrect", "both"]
CASES: Mapping[Case, bool] = {"accepted": True, "incorrect": False, "both": False}
"""Each kind of answer, and whether it is correct."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What the judge said of one answer whose correctness is known."""

    item: str
    group: str
    case: Case
    answer: str
    judgement: Judgement

    @property
    def right(self) -> bool:
        """Whether the judge is right; an undecided one is not."""
        return self.judgement.correct is CASES[self.case]

    @property
    def decided(self) -> bool:
        """Whether the judge says either way."""
        return self.judgement.correct is not None


def usable(items: Sequence[Item]) -> list[Item]:
    """Return the items with at least two accepted and two incorrect answers that state something.

    Raises InputError when there is none.
    """
    found = [item for item in items if len(stating(item.correct)) > 1 and len(stating(item.incorrect)) > 1]
    if not found:
        raise InputError(
            "a judge is measured on items with at least two accepted and two incorrect answers, and there is none; "
            "take truthfulqa, mini, or answers of your own with the lists `correct` and `incorrect`"
        )
    return found


async def check(
    judge: Judge, items: Sequence[Item], *, seed: int, on_answer: Callable[[Checked], None] | None = None
) -> list[Checked]:
    """Ask the judge about three answers per item. Whatever it raises is an undecided judgement with the reason."""
    results = []
    for item in usable(items):
        correct, incorrect = stating(item.correct), stating(item.incorrect)
        good, bad = pick(seed, f"{item.id}\0accepted", correct), pick(seed, f"{item.id}\0incorrect", incorrect)
        lists = [a for a in correct if a != good], [a for a in incorrect if a != bad]
        answers: Mapping[Case, str] = {"accepted": good, "incorrect": bad, "both": f"{_closed(good)} {bad}"}
        for case, answer in answers.items():
            try:
                found = await judge.judge(item.question, answer, *lists)
            except Exception as exc:  # a judge may have any fault; the answer is then undecided
                found = broken(exc)
            checked = Checked(item=item.id, group=item.group or item.id, case=case, answer=answer, judgement=found)
            results.append(checked)
            if on_answer is not None:
                on_answer(checked)
    return results


def _closed(answer: str) -> str:
    return answer if answer.endswith((".", "!", "?")) else f"{answer}."


def measured(judge: str, results: Sequence[Checked], *, seed: int) -> dict[str, Any]:
    """Return the judge's rates as plain JSON values, each with its 95% bootstrap interval by group.

    `accuracy` is over the accepted and the incorrect answers, undecided ones counted as wrong; `accuracy_decided` over
    those of them that were decided; then, per kind of answer, the shares `right`, `wrong` and `undecided`.
    """
    rows = [Row(group=r.group, parts=_parts(r)) for r in results]
    names = ["accuracy", "accuracy_decided", *(f"{case} {share}" for case in CASES for share in SHARES)]
    found = Bootstrap([r.group for r in results], seed=seed).ratios(rows, names)
    return {
        "judge": judge,
        "questions": len({r.item for r in results}),
        "accuracy": found["accuracy"].as_json(),
        "accuracy_decided": found["accuracy_decided"].as_json(),
        **{case: {share: found[f"{case} {share}"].as_json() for share in SHARES} for case in CASES},
    }


SHARES = ("right", "wrong", "undecided")


def _parts(result: Checked) -> dict[str, tuple[float, ...]]:
    """Return what an answer adds to each rate: numerator and denominator."""
    right, decided = float(result.right), result.decided
    shares = (right, float(decided and not result.right), float(not decided))
    parts: dict[str, tuple[float, ...]] = {
        f"{result.case} {name}": (share, 1.0) for name, share in zip(SHARES, shares, strict=True)
    }
    if result.case != "both":
        parts["accuracy"] = (right, 1.0)
        if decided:
            parts["accuracy_decided"] = (right, 1.0)
    return parts

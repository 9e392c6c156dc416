"""What did not work in a run, beside the methods that failed: a judge that gave no judgement, claims without a score.

Neither makes a record fail, and both leave numbers behind that look like results. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from corrigenda.evals.detect import item_key
from corrigenda.evals.records import Judgement, Record
from corrigenda.methods.protocol import Judged
from corrigenda.types import Verdict

GOLD = "gold"
"""The judge's name in a record that only gold labels decided, and in the details of what one decided."""


def judge_failed(record: Record) -> bool:
    """Return whether the judge failed on the answer before or after."""
    return any(judgement is not None and judgement.failed for judgement in (record.before, record.after))


def put_to_judge(record: Record) -> Iterator[tuple[str, Judgement]]:
    """Yield each answer of a record that a judge was asked about, and its judgement: no gold label, no abstention."""
    if record.outcome is not None:
        answers = (record.outcome.answer, record.before), (record.outcome.final_answer, record.after)
        for answer, judgement in dict(answers).items():
            if judgement is not None and not judgement.abstained and not is_gold(judgement):
                yield answer, judgement


def is_gold(judgement: Judgement) -> bool:
    """Return whether a gold label decided, and no judge."""
    return judgement.details.get("judge") == GOLD


def checkable(record: Record) -> list[Judged]:
    """Return the verdicts on what can be checked."""
    verdicts = () if record.outcome is None else record.outcome.verdicts
    return [verdict for verdict in verdicts if verdict.verdict is not Verdict.NOT_CHECKABLE]


def unscored(record: Record) -> bool:
    """Return whether the check broke on every claim of a record that has any."""
    return _all_failed(checkable(record))


def judge_failures(records: Iterable[Record]) -> tuple[list[str], int]:
    """Return why the judge failed, once for each answer it failed on, and the number of answers it was asked about.

    Equal answers to an item count once: they are judged once.
    """
    asked: dict[tuple[str, str], str | None] = {}
    for record in records:
        for answer, judgement in put_to_judge(record):
            key = (item_key(record), answer)
            asked[key] = asked.get(key) or (judgement.reason if judgement.failed else None)
    return [reason for reason in asked.values() if reason is not None], len(asked)


def nothing_measured(records: Sequence[Record]) -> str | None:
    """Return why the records of a run say nothing at all; None when they say something."""
    if all(record.status == "failed" for record in records):
        return "every record failed"
    if _all_failed([verdict for record in records for verdict in checkable(record)]):
        return "no claim could be scored"
    reasons, asked = judge_failures(records)
    return "the judge failed on every answer" if reasons and len(reasons) == asked else None


def _all_failed(verdicts: Sequence[Judged]) -> bool:
    return bool(verdicts) and all(verdict.verdict is Verdict.FAILED for verdict in verdicts)

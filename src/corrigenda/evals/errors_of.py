"""`sort_errors`: what a method got wrong, by kind and by the paper's categories, with examples. Pure.

An item gives at most one error per unit: a labelled claim, a labelled sentence, or an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from corrigenda.evals.detect import Unit, answer_units_by_record, claim_units_by_record, false_after, false_before
from corrigenda.evals.error_rules import CATEGORIES, Case, Finding, categorise
from corrigenda.evals.paired import by_method
from corrigenda.evals.records import Record
from corrigenda.methods.protocol import Judged
from corrigenda.report import plain
from corrigenda.types import Claim, Verdict

ErrorKind = Literal["false_negative", "false_positive", "correction_error"]
KINDS: tuple[ErrorKind, ...] = ("false_negative", "false_positive", "correction_error")


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """One thing that a method got wrong."""

    method: str
    dataset: str
    item: str
    repeat: int
    kind: ErrorKind
    level: Literal["claim", "sentence", "answer"]
    finding: Finding
    """The category, the rule that fired, the claim it fired on, and its values."""
    what: str
    """What happened, for a person."""
    question: str | None
    answer: str
    final_answer: str
    reference: str | None
    label: Verdict | None
    """The gold label, where there is one."""
    verdict: Verdict | None
    """The method's verdict on the unit; None for an answer."""
    score: float | None


def sort_errors(records: Sequence[Record], *, examples: int = 3) -> dict[str, Any]:
    """Return, per method, how many errors of which kind and category there are, as plain JSON values.

    Per method: `errors`, and `kinds` → kind → `count`, `share` (of the method's errors), `categories` → category →
    `count`, `share` (of the kind), `examples` (the first ones of each category, `examples` at most).
    """
    result = {}
    for method, own in by_method(records).items():
        errors = find_errors(own)
        kinds = {}
        for kind in KINDS:
            found = [error for error in errors if error.kind == kind]
            kinds[kind] = {
                "count": len(found),
                "share": len(found) / len(errors) if errors else None,
                "categories": _categories(found, examples),
            }
        result[method] = {"errors": len(errors), "kinds": kinds}
    return result


def find_errors(records: Sequence[Record]) -> list[Error]:
    """Return the errors of one method's records, in their order: detection first, then correction."""
    errors: list[Error] = []
    levels = zip(records, claim_units_by_record(records), answer_units_by_record(records), strict=True)
    for record, claims, answers in levels:
        if record.outcome is None:
            continue  # a failed item is counted as a failure: there is nothing in it to look at
        wrong = [u for u in claims or answers if u.gold is not None and u.flagged != u.gold]
        errors += [_detection_error(record, unit) for unit in wrong]
        # An answer that was missed or wrongly flagged as a whole is not counted again as wrongly corrected.
        by_sentence = record.kind == "answer" and bool(claims)
        error = _correction_error(record) if by_sentence or not wrong else None
        errors += [error] if error is not None else []
    return errors


def _categories(errors: Sequence[Error], examples: int) -> dict[str, Any]:
    counts = Counter(error.finding.category for error in errors)
    return {
        category: {
            "count": counts[category],
            "share": counts[category] / len(errors),
            "examples": [_example(e) for e in errors if e.finding.category == category][:examples],
        }
        for category in CATEGORIES
        if counts[category]
    }


def _example(error: Error) -> dict[str, Any]:
    """Return an error as plain JSON values."""
    values: dict[str, Any] = plain(error)
    finding: dict[str, Any] = values.pop("finding")
    return values | finding


def _detection_error(record: Record, unit: Unit) -> Error:
    missed = bool(unit.gold)
    level: Literal["claim", "sentence", "answer"] = (
        "sentence" if unit.sentence is not None else "claim" if record.kind == "claim" else "answer"
    )
    what = "hallucinated and not flagged" if missed else "flagged and not hallucinated"
    if not missed and false_after(record) and level == "answer":
        what += "; the change broke it"
    return _error(
        record,
        kind="false_negative" if missed else "false_positive",
        level=level,
        cases=_cases(record, unit.sentence, flagged=not missed, false=missed),
        what=what,
        verdict=None if level == "answer" else unit.verdict,
        score=unit.score,
    )


def _correction_error(record: Record) -> Error | None:
    """Return the error of an answer that is not correct though the method changed it or tried to; else None."""
    outcome, was_false = record.outcome, false_before(record)
    if outcome is None or was_false is None or not false_after(record):
        return None
    changed = outcome.final_answer != outcome.answer
    tried = outcome.report is not None and bool(outcome.report.edits)
    if not changed and not (tried and was_false):
        return None
    what = "changed, and still not correct" if was_false else "changed, and no longer correct"
    return _error(
        record,
        kind="correction_error",
        level="answer",
        cases=_cases(record, None, flagged=True, false=was_false),
        what=what if changed else "found, but no rewrite was accepted",
        verdict=None,
        score=outcome.score,
    )


def _error(
    record: Record,
    *,
    kind: ErrorKind,
    level: Literal["claim", "sentence", "answer"],
    cases: Sequence[Case],
    what: str,
    verdict: Verdict | None,
    score: float | None,
) -> Error:
    assert record.outcome is not None
    return Error(
        method=record.method,
        dataset=record.dataset,
        item=record.item,
        repeat=record.repeat,
        kind=kind,
        level=level,
        finding=categorise(cases),
        what=what,
        question=record.question,
        answer=record.outcome.answer,
        final_answer=record.outcome.final_answer,
        reference=_reference(record),
        label=record.label,
        verdict=verdict,
        score=score,
    )


def _cases(record: Record, sentence: int | None, *, flagged: bool, false: bool) -> list[Case]:
    """Return the claims that an error is about: the flagged ones, or those that were not; without any, the answer."""
    assert record.outcome is not None
    reference = _reference(record)
    said: Iterable[Claim | Judged] = record.outcome.verdicts
    windows: Mapping[str, str] = {}
    if record.outcome.report is not None:
        windows = {c.text: c.evidence.text for c in record.outcome.report.claims if c.evidence is not None}
    chosen = [
        v.text
        for v in said
        if (sentence is None or v.sentence == sentence)
        and (v.verdict is Verdict.CONTRADICTED) is flagged
        and v.verdict is not Verdict.NOT_CHECKABLE
    ]
    texts = chosen or [record.outcome.answer]
    return [Case(claim=t, reference=reference, evidence=windows.get(t), false=false) for t in texts]


def _reference(record: Record) -> str | None:
    report = None if record.outcome is None else record.outcome.report
    return None if report is None else "\n".join(reference.text for reference in report.references)

"""What each record and each unit adds to the metrics: a numerator and a denominator by the metric's name. Pure.

Every metric that is a share or a mean is a ratio of two sums, which is what makes its bootstrap cheap. The names and
their meaning are in `docs/metrics.md`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from corrigenda.evals.detect import (
    DECIDED,
    Unit,
    answer_units,
    claim_units,
    false_after,
    false_before,
    false_by_gold,
    group_key,
    item_key,
    repeat_weights,
    says_of_claims,
)
from corrigenda.evals.records import Call, Record
from corrigenda.evals.stats import Row
from corrigenda.types import Verdict

Level = Literal["claim", "answer"]
Parts = dict[str, tuple[float, ...]]
Population = Literal["claim", "answer", "judged", "all"]
"""Whose groups a metric resamples: those of the units at a level, of the items whose answers are counted as correct
or not, or of all items."""

ANSWER_METRICS = (
    "accuracy",
    "accuracy_decided",
    "hallucination_rate_before",
    "hallucination_rate_after",
    "abstention_rate",
    "undecided_rate",
    "changed_rate",
    "unjudged_rate",
)
HARM_METRICS = ("true_broken", "false_fixed", "net", "true_broken_rate", "false_fixed_rate", "net_rate")
DETECTION_METRICS = ("precision", "recall", "f1", "accuracy", "false_positive_rate")
RUN_METRICS = (
    "coverage",
    "claims",
    "latency_mean",
    "calls",
    "prompt_tokens",
    "completion_tokens",
    "pairs",
    "failures",
    "failure_rate",
)
TOTALS = frozenset({"true_broken", "false_fixed", "net", "failures"})
"""Metrics that are counts: their value is the sum of the numerators."""
JUDGE_STAGE = "judge"
VERIFIER_STAGE = "entail"


def judged_kinds(records: Iterable[Record]) -> frozenset[str]:
    """Return the kinds of items whose final answers are counted as correct or not, from all records compared.

    Questions and answers; where there are only claims, these, if they were judged since they might be rewritten. Where
    they were not, none: then `accuracy` is that of detection. It is decided over all methods at once, so that the
    accuracy of one is never another measure than that of the next.
    """
    records = list(records)
    kinds = frozenset(record.kind for record in records)
    asked = any(record.before is not None or record.after is not None for record in records)
    return kinds - {"claim"} or (kinds if asked else frozenset())


def names_for(judged: Collection[str], levels: Iterable[Level]) -> tuple[str, ...]:
    """Return the names of the ratios for records with these `judged_kinds` and units at these levels, in order."""
    names = list(ANSWER_METRICS if judged else ("accuracy",))
    for level in levels:
        names += [f"{level}_{name}" for name in DETECTION_METRICS]
        if level == "claim":
            names.append("three_way_accuracy")
    return (*names, *HARM_METRICS, *RUN_METRICS)


def population_of(metric: str, judged: Collection[str]) -> Population:
    """Return whose groups a metric resamples."""
    if metric in (*ANSWER_METRICS, *HARM_METRICS):
        return "judged" if judged else "claim"
    if metric == "three_way_accuracy" or metric.startswith("claim_"):
        return "claim"
    return "answer" if metric.startswith("answer_") else "all"


def groups_of(
    records: Iterable[Record], units: Mapping[Level, Sequence[Unit]], judged: Collection[str]
) -> dict[Population, frozenset[str]]:
    """Return the groups of each population in one method's records.

    They follow from the items, not from what the method said of them, so that methods over the same items resample
    the same groups, whatever else each of them was run on.
    """
    records = list(records)
    found: dict[Population, frozenset[str]] = {
        "all": frozenset(group_key(r) for r in records),
        "judged": frozenset(group_key(r) for r in records if r.kind in judged),
    }
    for level in ("claim", "answer"):
        found[level] = frozenset(unit.group for unit in units.get(level, ()))
    return found


def units_of(records: Sequence[Record], level: Level) -> list[Unit]:
    """Return one method's units at a level."""
    return claim_units(records) if level == "claim" else answer_units(records)


def method_rows(records: Sequence[Record], units: Mapping[Level, Sequence[Unit]], judged: Collection[str]) -> list[Row]:
    """Return what one method's records and their `units` add to the ratios.

    `judged` are the `judged_kinds` of all the records compared; without any, `accuracy` comes from the claims' units.
    """
    return record_rows(records, judged) + detection_rows(units, accuracy_of_claims=not judged)


def detection_rows(units: Mapping[Level, Sequence[Unit]], *, accuracy_of_claims: bool = False) -> list[Row]:
    """Return what units add to the measures of detection and, if wanted, those of claims to `accuracy`."""
    rows = []
    for level, found in units.items():
        for unit in found:
            parts = detection_parts(unit, level)
            if accuracy_of_claims and level == "claim" and unit.counted:
                parts["accuracy"] = (unit.right, 1)
            rows.append(Row(group=unit.group, weight=unit.weight, parts=parts))
    return rows


def coverage_rows(records: Sequence[Record]) -> list[Row]:
    """Return what the records of a method that gives verdicts add to the coverage alone."""
    weights = repeat_weights(records)
    rows = []
    for record in records:
        parts = {name: part for name, part in _coverage_parts(record).items() if name == "coverage"}
        rows.append(Row(group=group_key(record), weight=weights[record.method, item_key(record)], parts=parts))
    return rows


def record_rows(records: Sequence[Record], judged: Collection[str]) -> list[Row]:
    """Return what the records themselves add: correctness and harm of those `judged`, coverage, cost and failures."""
    weights = repeat_weights(records)
    verdicts = says_of_claims(records)
    rows = []
    for record, correctness in zip(records, correctness_parts(records, judged), strict=True):
        failed = record.status == "failed"
        parts: Parts = {"failures": (failed, 1), "failure_rate": (failed, 1)} | correctness
        if verdicts:
            parts |= _coverage_parts(record)
        if record.status == "ok" and record.outcome is not None:
            parts |= cost_parts(record)
        rows.append(Row(group=group_key(record), weight=weights[record.method, item_key(record)], parts=parts))
    return rows


def correctness_parts(records: Sequence[Record], judged: Collection[str]) -> list[Parts]:
    """Return, per record of one method, what it adds to accuracy, the rates beside it, and harm.

    All of accuracy, the hallucination rates before and after, the abstentions and the undecided ones are over the
    same records: those of which the final answer was judged (even if without a result) or is the first one with its
    gold label, and the failed ones of which as much can be said, or would have been.
    """
    asked = {kind: _are_judged(records, kind) for kind in judged}
    found: list[Parts] = []
    for record in records:
        if record.kind not in judged:
            found.append({})
        elif record.status == "failed" or record.outcome is None:
            known = false_by_gold(record) is not None or (record.label is None and asked[record.kind])
            found.append(_failed_parts(record) if known else {})
        else:
            changed = record.outcome.final_answer != record.outcome.answer
            found.append({"changed_rate": (changed, 1)} | _judged_parts(record) | harm_parts(record))
    return found


def _are_judged(records: Iterable[Record], kind: str) -> bool:
    """Return whether answers of a kind that have no gold label are judged; questions are when all of them failed."""
    made = [r for r in records if r.kind == kind and r.status == "ok" and r.label is None]
    if not made:
        return kind == "question"
    return any(r.before is not None or r.after is not None for r in made)


def _failed_parts(record: Record) -> Parts:
    names = ("accuracy", "hallucination_rate_after", "abstention_rate", "undecided_rate", "unjudged_rate")
    return {"hallucination_rate_before": (false_before(record) is True, 1)} | dict.fromkeys(names, (0, 1))


def _judged_parts(record: Record) -> Parts:
    """Return what an answer adds to accuracy and the rates over the same answers; nothing where nobody can say."""
    if record.label is not None and false_by_gold(record) is None:
        return {}  # the gold label is that nobody knows, which no judge can know better
    before, after = false_before(record), false_after(record)
    if after is None and record.after is None:
        return {} if before is None else {"unjudged_rate": (1, 1)}
    parts: Parts = {
        "hallucination_rate_before": (before is True, 1),
        "accuracy": (after is False, 1),
        "hallucination_rate_after": (after is True, 1),
        "abstention_rate": (record.after is not None and record.after.abstained, 1),
        "undecided_rate": (after is None, 1),
        "unjudged_rate": (0, 1),
    }
    if after is not None:
        parts["accuracy_decided"] = (not after, 1)
    return parts


def harm_parts(record: Record) -> Parts:
    """Return what an answer adds to the correction harm; nothing unless it is known before and after."""
    was_false, is_false = false_before(record), false_after(record)
    if was_false is None or is_false is None:
        return {}
    broken, fixed = is_false and not was_false, was_false and not is_false
    parts: Parts = {"true_broken": (broken, 1), "false_fixed": (fixed, 1), "net": (fixed - broken, 1)}
    parts["net_rate"] = parts["net"]
    parts["false_fixed_rate" if was_false else "true_broken_rate"] = (fixed if was_false else broken, 1)
    return parts


def cost_parts(record: Record) -> Parts:
    """Return what an item that did not fail adds to the means of time, calls, tokens and pairs."""
    calls = calls_of(record)
    parts: Parts = {"calls": (len(calls), 1), "pairs": (record.pairs.pairs, 1)}
    if record.latency_s is not None:
        parts["latency_mean"] = (record.latency_s, 1)
    for name in ("prompt_tokens", "completion_tokens"):
        counts = [getattr(call, name) for call in calls]
        if None not in counts:
            parts[name] = (sum(counts), 1)
    return parts


def calls_of(record: Record) -> list[Call]:
    """Return the method's own calls of the chat model; the judge's belong to no method."""
    return [call for call in record.calls if call.stage != JUDGE_STAGE]


def stage_seconds(record: Record) -> dict[str, float]:
    """Return the seconds per stage: those of the calls, and the verifier's under `entail`."""
    seconds: dict[str, float] = {}
    for call in calls_of(record):
        seconds[call.stage] = seconds.get(call.stage, 0.0) + call.seconds
    if record.pairs.pairs:
        # A verifier that asks the chat model is timed as a verifier; its calls are inside that time.
        seconds[VERIFIER_STAGE] = max(seconds.get(VERIFIER_STAGE, 0.0), record.pairs.seconds)
    return seconds


def stage_rows(records: Sequence[Record]) -> tuple[list[Row], tuple[str, ...]]:
    """Return what the items that did not fail add to the stages' shares of time and to their mean seconds.

    For a stage S there are two ratios, `S share` and `S seconds`. The second value is the stages, in the order met.
    """
    weights = repeat_weights(records)
    ran = [(r, stage_seconds(r)) for r in records if r.status == "ok"]
    stages = tuple(dict.fromkeys(stage for _, seconds in ran for stage in seconds))
    rows = []
    for record, seconds in ran:
        total = math.fsum(seconds.values())
        parts: Parts = {}
        for stage in stages:
            spent = seconds.get(stage, 0.0)
            parts[f"{stage} share"] = (spent, total, 1)
            parts[f"{stage} seconds"] = (spent, 1)
        rows.append(Row(group=group_key(record), weight=weights[record.method, item_key(record)], parts=parts))
    return rows, stages


def detection_parts(unit: Unit, level: Level) -> Parts:
    """Return what a unit adds to precision, recall, F1 and the rest at its level."""
    parts: Parts = {}
    if unit.counted:
        parts[f"{level}_accuracy"] = (unit.right, 1)
    if level == "claim" and unit.verdict is not None:
        parts["three_way_accuracy"] = (unit.verdict is unit.label, 1)
    if unit.gold is None:
        return parts
    flagged, gold = unit.flagged, unit.gold
    hit = flagged and gold
    parts[f"{level}_f1"] = (2 * hit, flagged + gold, 1)
    if flagged:
        parts[f"{level}_precision"] = (hit, 1)
    if gold:
        parts[f"{level}_recall"] = (hit, 1)
    else:
        parts[f"{level}_false_positive_rate"] = (flagged, 1)
    return parts


def _coverage_parts(record: Record) -> Parts:
    outcome = record.outcome
    if outcome is None:
        return {"coverage": (0, 1)} if record.kind == "claim" else {}
    checkable = [j for j in outcome.verdicts if j.verdict is not Verdict.NOT_CHECKABLE]
    count = max(1, len(checkable)) if record.kind == "claim" else len(checkable)
    return {"coverage": (sum(j.verdict in DECIDED for j in checkable), count), "claims": (len(checkable), 1)}

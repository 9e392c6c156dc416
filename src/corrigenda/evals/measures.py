"""What each record and each unit adds to the metrics: a numerator and a denominator by the metric's name. Pure.

Every metric that is a share or a mean is a ratio of two sums, which is what makes its bootstrap cheap. The names and
their meaning are in `docs/metrics.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from corrigenda.evals.detect import (
    DECIDED,
    Unit,
    answer_units,
    claim_units,
    false_before,
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

ANSWER_METRICS = (
    "accuracy",
    "accuracy_decided",
    "hallucination_rate_before",
    "hallucination_rate_after",
    "abstention_rate",
    "undecided_rate",
    "changed_rate",
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


def names_for(kinds: Iterable[str], levels: Iterable[Level]) -> tuple[str, ...]:
    """Return the names of the ratios for records of these kinds with units at these levels, in reading order."""
    kinds = set(kinds)
    names = list(ANSWER_METRICS if kinds - {"claim"} else ("accuracy",))
    for level in levels:
        names += [f"{level}_{name}" for name in DETECTION_METRICS]
        if level == "claim":
            names.append("three_way_accuracy")
    return (*names, *HARM_METRICS, *RUN_METRICS)


def units_of(records: Sequence[Record], level: Level) -> list[Unit]:
    """Return one method's units at a level."""
    return claim_units(records) if level == "claim" else answer_units(records)


def method_rows(records: Sequence[Record], units: Mapping[Level, Sequence[Unit]]) -> list[Row]:
    """Return what one method's records and their `units` add to the ratios. `accuracy` of claims comes from units."""
    only_claims = all(record.kind == "claim" for record in records)
    return record_rows(records) + detection_rows(units, accuracy_of_claims=only_claims)


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


def record_rows(records: Sequence[Record]) -> list[Row]:
    """Return what the records themselves add: correctness, harm, coverage, cost and failures."""
    weights = repeat_weights(records)
    judged, verdicts = is_judged(records), says_of_claims(records)
    rows = []
    for record in records:
        parts: Parts = {"failures": (record.status == "failed", 1), "failure_rate": (record.status == "failed", 1)}
        if record.kind != "claim" and judged:
            parts |= correctness_parts(record)
        if verdicts:
            parts |= _coverage_parts(record)
        if record.status == "ok" and record.outcome is not None:
            parts |= harm_parts(record) | cost_parts(record)
        rows.append(Row(group=group_key(record), weight=weights[record.method, item_key(record)], parts=parts))
    return rows


def is_judged(records: Iterable[Record]) -> bool:
    """Return whether a method's answers have something to be judged by: then a failed one counts as not correct."""
    return any(r.kind == "question" or r.after is not None or (r.kind == "answer" and r.label) for r in records)


def correctness_parts(record: Record) -> Parts:
    """Return what an answer adds to the accuracy and the rates beside it; little when it was not judged."""
    before = (false_before(record) is True, 1)
    if record.status == "failed" or record.outcome is None:
        names = ("accuracy", "hallucination_rate_after", "abstention_rate", "undecided_rate")
        return {"hallucination_rate_before": before} | dict.fromkeys(names, (0, 1))
    parts: Parts = {"changed_rate": (record.outcome.final_answer != record.outcome.answer, 1)}
    if record.before is not None or record.label is not None or record.sentence_labels:
        parts["hallucination_rate_before"] = before
    if record.after is not None:
        correct = record.after.correct
        parts["accuracy"] = (correct is True, 1)
        parts["hallucination_rate_after"] = (correct is False, 1)
        parts["abstention_rate"] = (record.after.abstained, 1)
        parts["undecided_rate"] = (correct is None, 1)
        if correct is not None:
            parts["accuracy_decided"] = (correct, 1)
    return parts


def harm_parts(record: Record) -> Parts:
    """Return what an answer adds to the correction harm; nothing unless it was judged before and after."""
    was_false = false_before(record)
    if was_false is None or record.after is None or record.after.correct is None:
        return {}
    broken = not was_false and not record.after.correct
    fixed = was_false and record.after.correct
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

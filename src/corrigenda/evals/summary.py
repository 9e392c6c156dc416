"""`summarise`: from records to `summary.json`, every metric with its interval. `docs/metrics.md` defines it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from corrigenda.errors import InputError
from corrigenda.evals.detect import Unit, confusion, false_after, false_before, group_key, item_key
from corrigenda.evals.measures import (
    TOTALS,
    Level,
    Population,
    calls_of,
    correctness_parts,
    groups_of,
    judged_kinds,
    method_rows,
    names_for,
    population_of,
    stage_rows,
    units_of,
)
from corrigenda.evals.metrics import reliability
from corrigenda.evals.notes import notes_on
from corrigenda.evals.paired import by_method, paired_tests
from corrigenda.evals.records import Record
from corrigenda.evals.stats import NOTHING, Bootstrap, Estimate, Row

SUMMARY_SCHEMA = "1.0"
Draws = Callable[[Iterable[str]], Bootstrap]
"""Gives the bootstrap of a set of groups."""
QUANTILES = {"latency_p50": 0.5, "latency_p95": 0.95, "latency_p99": 0.99}


def summarise(
    records: Sequence[Record], *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Any]:
    """Return the summary of a run's records as plain JSON values (no NaN).

    The order of the records is no matter, but that methods are listed (and compared) in the order they are met.
    Raises InputError when there is no record, one item was recorded twice for a method and repeat, or a setting of
    the resampling is out of range; MissingExtra without the extra `eval`.
    """
    check_records(records)
    draws = drawn_once(resamples=resamples, confidence=confidence, seed=seed)
    kinds = sorted({record.kind for record in records})
    whole = _summary_of(records, draws)
    return {
        "schema": SUMMARY_SCHEMA,
        "datasets": sorted({record.dataset for record in records}),
        "kinds": kinds,
        "items": len({item_key(record) for record in records}),
        "groups": len({group_key(record) for record in records}),
        "records": len(records),
        "repeats": max(Counter((r.method, item_key(r)) for r in records).values()),
        **whole,
        **({"parts": _parts(records, kinds, draws)} if len(kinds) > 1 else {}),
        "models": models_of(records),
        "resampling": {
            "method": "bootstrap of groups, percentile interval",
            "resamples": resamples,
            "confidence": confidence,
            "seed": seed,
        },
        "notes": notes_on(records),
    }


def check_records(records: Sequence[Record]) -> None:
    """Raise InputError when there is nothing to summarise, or a record is there twice."""
    if not records:
        raise InputError("there are no records to compute anything from")
    seen: set[tuple[str, str, int]] = set()
    for record in records:
        key = (record.method, item_key(record), record.repeat)
        if key in seen:
            raise InputError(
                f"item {record.item!r} of {record.dataset!r} is recorded twice for method {record.method!r}, repeat "
                f"{record.repeat}; keep one of the two records"
            )
        seen.add(key)


def drawn_once(*, resamples: int, confidence: float, seed: int) -> Draws:
    """Return what gives the bootstrap of a set of groups, drawing each set once."""
    known: dict[frozenset[str], Bootstrap] = {}

    def give(groups: Iterable[str]) -> Bootstrap:
        wanted = frozenset(groups)
        if wanted not in known:
            known[wanted] = Bootstrap(wanted, resamples=resamples, confidence=confidence, seed=seed)
        return known[wanted]

    return give


def models_of(records: Iterable[Record]) -> dict[str, list[str]]:
    """Return the names of the judges, verifiers and chat models that the records name."""
    found: dict[str, set[str]] = {"judge": set(), "verifier": set(), "chat": set()}
    for record in records:
        for role, name in {**record.models, "judge": record.judge}.items():
            if name is not None:
                found.setdefault(role, set()).add(name)
    return {role: sorted(names) for role, names in found.items()}


def levels_of(records: Iterable[Record]) -> tuple[Level, ...]:
    """Return the levels at which something can be detected in these records."""
    records = list(records)
    claims = any(r.kind == "claim" or (r.kind == "answer" and r.sentence_labels) for r in records)
    answers = any(r.kind != "claim" for r in records)
    return (*(("answer",) if answers else ()), *(("claim",) if claims else ()))


def method_metrics(
    records: Sequence[Record],
    units: Mapping[Level, Sequence[Unit]],
    judged: Collection[str],
    draws: Draws,
    names: Sequence[str],
) -> dict[str, Estimate]:
    """Return one method's metrics, each with its interval: the ratios called `names`, curves and quantiles.

    `judged` are the `judged_kinds` of all the records that are compared.
    """
    groups = groups_of(records, units, judged)
    found: dict[str, Estimate] = {}
    for population, own in names_by_population(names, judged).items():
        rows = narrowed(method_rows(records, units, judged), own)
        found |= draws(groups[population]).ratios(rows, own, TOTALS)
    found = {name: found[name] for name in names}
    for level, counted in units.items():
        bootstrap = draws(groups[level])
        scored = [u for u in counted if u.gold is not None and u.score is not None]
        columns = _columns(scored)
        found[f"{level}_auroc"], found[f"{level}_auc_pr"] = bootstrap.ranking(*columns)
        probable = scored and all(0 <= score <= 1 for score in columns[2])
        found[f"{level}_ece"] = bootstrap.calibration(*columns) if probable else NOTHING
    timed = [(r, r.latency_s) for r in records if r.status == "ok" and r.latency_s is not None]
    counts = Counter(item_key(r) for r, _ in timed)
    of_items, weights = [group_key(r) for r, _ in timed], [1 / counts[item_key(r)] for r, _ in timed]
    quantiles = draws(groups["all"]).quantiles(of_items, weights, [s for _, s in timed], list(QUANTILES.values()))
    return found | dict(zip(QUANTILES, quantiles, strict=True))


def names_by_population(names: Iterable[str], judged: Collection[str]) -> dict[Population, list[str]]:
    """Return the names of ratios by whose groups they resample."""
    found: dict[Population, list[str]] = {}
    for name in names:
        found.setdefault(population_of(name, judged), []).append(name)
    return found


def narrowed(rows: Iterable[Row], names: Collection[str]) -> list[Row]:
    """Return what rows add to the ratios called `names` alone; a row that adds nothing is left out."""
    found = (
        Row(group=row.group, weight=row.weight, parts={name: part for name, part in row.parts.items() if name in names})
        for row in rows
    )
    return [row for row in found if row.parts]


def _summary_of(records: Sequence[Record], draws: Draws) -> dict[str, Any]:
    """Return `methods`, `tests`, `stages`, `reliability` and `counts` of some records."""
    levels, judged = levels_of(records), judged_kinds(records)
    names = names_for(judged, levels)
    result: dict[str, Any] = {"methods": {}, "tests": [], "stages": {}, "reliability": {}, "counts": {}}
    for method, own in by_method(records).items():
        units = {level: units_of(own, level) for level in levels}
        metrics = method_metrics(own, units, judged, draws, names)
        result["methods"][method] = {name: estimate.as_json() for name, estimate in metrics.items()}
        result["stages"][method] = _stages(own, draws(group_key(record) for record in own))
        result["reliability"][method] = {level: _bins(found) for level, found in units.items()}
        result["counts"][method] = _counts(own, judged) | {level: _table(found) for level, found in units.items()}
    result["tests"] = paired_tests(records, draws)
    return result


def _parts(records: Sequence[Record], kinds: Sequence[str], draws: Draws) -> dict[str, Any]:
    parts = {}
    for kind in kinds:
        own = [record for record in records if record.kind == kind]
        parts[kind] = {"items": len({item_key(record) for record in own}), **_summary_of(own, draws)}
    return parts


def _columns(units: Sequence[Unit]) -> tuple[list[str], list[float], list[float], list[bool]]:
    return (
        [u.group for u in units],
        [u.weight for u in units],
        [u.score for u in units if u.score is not None],
        [bool(u.gold) for u in units],
    )


def _stages(records: Sequence[Record], bootstrap: Bootstrap) -> dict[str, Any]:
    rows, stages = stage_rows(records)
    found = bootstrap.ratios(rows, [f"{stage} {what}" for stage in stages for what in ("share", "seconds")])
    return {stage: found[f"{stage} share"].as_json() | {"seconds": found[f"{stage} seconds"].value} for stage in stages}


def _bins(units: Sequence[Unit]) -> list[dict[str, float]]:
    """Return the reliability bins of a level; none where a score is not in [0, 1]."""
    _, weights, scores, gold = _columns([u for u in units if u.gold is not None and u.score is not None])
    if not all(0 <= score <= 1 for score in scores):
        return []
    return [asdict(found) for found in reliability(scores, gold, weights=weights)]


def _table(units: Sequence[Unit]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in asdict(confusion(units)).items()}


def _counts(records: Sequence[Record], judged: Collection[str]) -> dict[str, Any]:
    calls = [call for record in records for call in calls_of(record)]
    return {
        "records": len(records),
        "items": len({item_key(record) for record in records}),
        "failed": sum(record.status == "failed" for record in records),
        "undecided_before": sum(r.before is not None and false_before(r) is None for r in records),
        "undecided_after": sum(r.after is not None and false_after(r) is None for r in records),
        "unjudged_after": sum(bool(p.get("unjudged_rate", (0,))[0]) for p in correctness_parts(records, judged)),
        "calls": len(calls),
        "calls_reused": sum(call.reused for call in calls),
        "calls_failed": sum(call.error is not None for call in calls),
        "pairs": sum(record.pairs.pairs for record in records),
        "pairs_reused": sum(record.pairs.reused for record in records),
    }

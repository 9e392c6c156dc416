"""The paper's ablation (its Table 4): base, then a second look, then NLI with a fixed threshold, then the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from corrigenda.errors import InputError
from corrigenda.evals.detect import Unit, item_key
from corrigenda.evals.measures import TOTALS, Level, groups_of, judged_kinds, method_rows, names_for, units_of
from corrigenda.evals.paired import REFERENCE, by_method, is_variant, paired_tests
from corrigenda.evals.records import Record
from corrigenda.evals.summary import (
    Draws,
    check_records,
    drawn_once,
    levels_of,
    method_metrics,
    names_by_population,
    narrowed,
)

SECOND_LOOK, FIXED = "self-check", "nli-fixed"
STEPS = (REFERENCE, SECOND_LOOK, FIXED, "corrigenda")
"""The four steps, each the name of a method."""


def ablation(
    records: Sequence[Record],
    *,
    full: str | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the four steps as plain JSON values: `steps`, `missing`, `items`, `notes`.

    A step has `step`, `method` (None when it was not run), `metrics` (as in a summary), `against` (the method of the
    step before that was run), `change` (metric → this step minus that one: value, low, high, n, over the same draws)
    and `tests` (McNemar and Wilcoxon, corrected by Holm over the ablation). All steps are over the items that all the
    methods have. `full` is the method of the last step; by default the first variant of `corrigenda` met.

    Raises InputError when there is no record, `full` was not run, fewer than two steps were, or they share no item.
    """
    check_records(records)
    methods = by_method(records)
    chosen = _chosen(list(methods), full)
    present = [name for name in chosen.values() if name is not None]
    if len(present) < 2:
        raise InputError(
            f"an ablation compares at least two of the methods {', '.join(STEPS)}; there are {', '.join(methods)}"
        )
    shared = set.intersection(*({item_key(r) for r in methods[name]} for name in present))
    if not shared:
        raise InputError(f"the methods {', '.join(present)} have no item in common, so there is nothing to compare")
    kept = [r for r in records if r.method in present and item_key(r) in shared]
    draws = drawn_once(resamples=resamples, confidence=confidence, seed=seed)
    tests = paired_tests(kept, draws, list(pairwise(present)))
    missing = [step for step, name in chosen.items() if name is None]
    return {
        "items": len(shared),
        "steps": _steps(chosen, kept, draws, tests),
        "missing": missing,
        "notes": _notes(methods, present, missing, len(shared)),
    }


def _chosen(methods: Sequence[str], full: str | None) -> dict[str, str | None]:
    """Return the method of each step, None for a step that was not run."""
    if full is not None and full not in methods:
        raise InputError(f"no record is of method {full!r}; there are {', '.join(methods)}")
    last = full or next((name for name in methods if is_variant(name)), None)
    return {step: step if step in methods else None for step in STEPS[:-1]} | {STEPS[-1]: last}


def _steps(
    chosen: Mapping[str, str | None],
    records: Sequence[Record],
    draws: Draws,
    tests: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    methods, levels, judged = by_method(records), levels_of(records), judged_kinds(records)
    names = names_for(judged, levels)
    units = {name: {level: units_of(own, level) for level in levels} for name, own in methods.items()}
    steps: list[dict[str, Any]] = []
    before: str | None = None
    for step, name in chosen.items():
        if name is None:
            steps.append({"step": step, "method": None, "metrics": {}, "against": None, "change": {}, "tests": []})
            continue
        change = {} if before is None else _change(methods, units, judged, (before, name), draws, names)
        metrics = method_metrics(methods[name], units[name], judged, draws, names)
        steps.append(
            {
                "step": step,
                "method": name,
                "metrics": {metric: estimate.as_json() for metric, estimate in metrics.items()},
                "against": before,
                "change": change,
                "tests": [test for test in tests if test["second"] == name],
            }
        )
        before = name
    return steps


def _change(
    methods: Mapping[str, Sequence[Record]],
    units: Mapping[str, Mapping[Level, Sequence[Unit]]],
    judged: Collection[str],
    pair: tuple[str, str],
    draws: Draws,
    names: Sequence[str],
) -> dict[str, Any]:
    rows = [method_rows(methods[name], units[name], judged) for name in pair]
    groups = [groups_of(methods[name], units[name], judged) for name in pair]
    found: dict[str, Any] = {}
    for population, own in names_by_population(names, judged).items():
        first, second = (narrowed(each, own) for each in rows)
        bootstrap = draws(groups[0][population] | groups[1][population])
        changes = bootstrap.changes(first, second, own, TOTALS)
        found |= {name: estimate.as_json() for name, estimate in changes.items()}
    return {name: found[name] for name in names}


def _notes(
    methods: Mapping[str, Sequence[Record]], present: Iterable[str], missing: Sequence[str], shared: int
) -> list[str]:
    notes = []
    short = [name for name in present if len({item_key(r) for r in methods[name]}) > shared]
    if short:
        notes.append(f"Only the {shared} items that all steps have are compared; {', '.join(short)} had more.")
    if missing:
        notes.append(f"Not run: {', '.join(missing)}; a step is compared with the last one before it that was.")
    return notes

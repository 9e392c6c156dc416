"""Paired tests between methods on the items that both have: McNemar for correctness, Wilcoxon for latency."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from statistics import fmean
from typing import Any

from corrigenda.evals.detect import claim_units, group_key, item_key
from corrigenda.evals.measures import correctness_parts, judged_kinds
from corrigenda.evals.records import Record
from corrigenda.evals.stats import Bootstrap, holm, mcnemar, wilcoxon

Values = Mapping[str, float]
"""One number per item: a share of repeats, or a mean over them."""
MakeBootstrap = Callable[[Iterable[str]], Bootstrap]
MEASURES = ("accuracy", "claim_accuracy", "latency")
REFERENCE = "base"
VARIANTS_OF = "corrigenda"


def by_method(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of each method, methods in the order met."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.method, []).append(record)
    return found


def item_values(records: Sequence[Record], measure: str, judged: Collection[str]) -> dict[str, float]:
    """Return one method's number per item for a measure of `MEASURES`, over repeats; items without one left out.

    `judged` are the `judged_kinds` of all the records that are compared.
    """
    values: dict[str, list[float]] = {}
    if measure == "latency":
        for record in records:
            if record.status == "ok" and record.latency_s is not None:
                values.setdefault(item_key(record), []).append(record.latency_s)
    elif measure == "accuracy":
        for record, parts in zip(records, correctness_parts(records, judged), strict=True):
            if "accuracy" in parts:
                values.setdefault(item_key(record), []).append(parts["accuracy"][0])
    else:
        for unit in claim_units([r for r in records if r.kind == "claim"]):
            if unit.counted:
                values.setdefault(unit.item, []).append(unit.right)
    return {item: fmean(found) for item, found in values.items()}


def paired_tests(
    records: Sequence[Record], bootstrap: MakeBootstrap, comparisons: Sequence[tuple[str, str]] | None = None
) -> list[dict[str, Any]]:
    """Return every test, measure by measure, with Holm's correction over the tests of a measure.

    `bootstrap` makes (or finds) the draws for a set of groups. `comparisons` names the (first, second) methods; by
    default each method with `base` (else the first), and the variants of `corrigenda` among each other.
    `docs/metrics.md` explains the fields.
    """
    methods, judged = by_method(records), judged_kinds(records)
    groups = {item_key(record): group_key(record) for record in records}
    tests: list[dict[str, Any]] = []
    for measure in MEASURES:
        values = {name: item_values(found, measure, judged) for name, found in methods.items()}
        family = []
        measured = [name for name, found in values.items() if found]
        for first, second in _comparisons(measured) if comparisons is None else comparisons:
            if first not in measured or second not in measured:
                continue
            test = compare(measure, values[first], values[second], groups, bootstrap)
            if test is not None:
                family.append({"measure": measure, "first": first, "second": second, **test})
        for test, adjusted in zip(family, holm([test["p"] for test in family]), strict=True):
            test["p_holm"] = adjusted
        tests += family
    return tests


def compare(
    measure: str, first: Values, second: Values, groups: Mapping[str, str], bootstrap: MakeBootstrap
) -> dict[str, Any] | None:
    """Return the test of a measure over the items that both have, None when there is no such item.

    `groups` gives the group of every item.
    """
    items = [item for item in first if item in second]
    if not items:
        return None
    pairs = [(first[item], second[item]) for item in items]
    gaps = [(groups[item], second[item] - first[item]) for item in items]
    result = wilcoxon(pairs) if measure == "latency" else mcnemar(pairs)
    difference = bootstrap(group for group, _ in gaps).difference(gaps)
    name = "wilcoxon" if measure == "latency" else "mcnemar"
    return {"test": name, **asdict(result), "difference": difference.as_json()}


def is_variant(method: str) -> bool:
    """Return whether a method is `corrigenda`, under whatever policy."""
    return method == VARIANTS_OF or method.startswith(f"{VARIANTS_OF}:")


def _comparisons(methods: Sequence[str]) -> list[tuple[str, str]]:
    """Return which methods are compared: each with the reference, and the variants of `corrigenda` in pairs."""
    if not methods:
        return []
    reference = REFERENCE if REFERENCE in methods else methods[0]
    pairs = [(reference, name) for name in methods if name != reference]
    pairs += combinations([name for name in methods if is_variant(name)], 2)
    return list(dict.fromkeys(pairs))

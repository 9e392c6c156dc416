"""Intervals and tests: the bootstrap by group, McNemar, Wilcoxon, Holm. numpy and scipy come with the extra `eval`.

The bootstrap draws whole groups with replacement (Efron & Tibshirani 1993, §13; Davison & Hinkley 1997, §3.8 for
groups). The draws depend on the seed and on the set of groups alone, so that every measure and every method over
the same groups is resampled alike, and differences between methods are paired. Which groups a metric resamples is in
`measures.groups_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from corrigenda.errors import InputError, MissingExtra
from corrigenda.evals.metrics import ECE_BINS, bin_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BLOCK = 100
"""Resamples that are worked on at a time: bounds the memory."""
SAME = 1e-9
"""Two values that differ by less are equal."""


def require_eval() -> None:
    """Raise MissingExtra when numpy or scipy is not installed. Imports nothing."""
    for package in ("numpy", "scipy"):
        if find_spec(package) is None:
            raise MissingExtra("the statistics of an evaluation", package, "eval")


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A value with its bootstrap interval. None where there is nothing to divide by."""

    value: float | None
    low: float | None
    high: float | None
    n: float
    """What the value was divided by."""

    def as_json(self) -> dict[str, float | None]:
        """Return the four numbers as plain JSON values, `n` whole where it is."""
        n = round(self.n, 6)
        return {"value": self.value, "low": self.low, "high": self.high, "n": int(n) if n == int(n) else n}


NOTHING = Estimate(value=None, low=None, high=None, n=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What one unit adds to the ratios: numerator, denominator and (if it is another number) n, by name."""

    group: str
    weight: float = 1.0
    parts: Mapping[str, tuple[float, ...]]


class Bootstrap:
    """Draws of groups, and the estimates that are taken with them. Raises InputError on settings out of range."""

    def __init__(
        self, groups: Iterable[str], *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
    ) -> None:
        """Draw `resamples` times as many groups as there are different ones in `groups`, whose order is no matter."""
        if resamples < 1:
            raise InputError(f"resamples must be at least 1, got {resamples!r}")
        if not 0 < confidence < 1:
            raise InputError(f"confidence must be between 0 and 1 (both excluded), got {confidence!r}")
        require_eval()
        import numpy as np  # noqa: PLC0415

        self.index = {group: place for place, group in enumerate(sorted(set(groups)))}
        self.confidence = confidence
        count = len(self.index)
        self._counts = np.zeros((resamples, count), dtype=np.uint16)
        generator = np.random.default_rng(seed)
        for draw in range(resamples if count else 0):
            self._counts[draw] = np.bincount(generator.integers(0, count, count), minlength=count)

    def ratios(
        self, rows: Sequence[Row], names: Sequence[str], totals: frozenset[str] = frozenset()
    ) -> dict[str, Estimate]:
        """Return an Estimate per name: sum of numerators / sum of denominators over the rows that have the name.

        For a name in `totals` the value is the sum of the numerators alone. A row may have names from `names` only.
        """
        found = self._ratio_values(rows, names, totals)
        return {name: self._estimate(*found[name]) if name in found else NOTHING for name in names}

    def changes(
        self,
        first: Sequence[Row],
        second: Sequence[Row],
        names: Sequence[str],
        totals: frozenset[str] = frozenset(),
    ) -> dict[str, Estimate]:
        """Return, per name, the second ratio minus the first, over the same draws; n is that of the second."""
        before, after = (self._ratio_values(rows, names, totals) for rows in (first, second))
        both = [name for name in names if name in before and name in after]
        found = {name: self._estimate(after[name][0] - before[name][0], after[name][1]) for name in both}
        return {name: found.get(name, NOTHING) for name in names}

    def _ratio_values(
        self, rows: Sequence[Row], names: Sequence[str], totals: frozenset[str]
    ) -> dict[str, tuple[Array, float]]:
        """Return, for each name that a row has, the ratio in the data and in every draw, and n."""
        import numpy as np  # noqa: PLC0415

        used = dict.fromkeys(name for row in rows for name in row.parts)
        place = {name: 2 * i for i, name in enumerate(used)}
        table = np.zeros((len(self.index), 2 * len(place)))
        counted = dict.fromkeys(names, 0.0)
        for row in rows:
            into = table[self.index[row.group]]
            for name, part in row.parts.items():
                at = place[name]
                into[at] += row.weight * part[0]
                into[at + 1] += row.weight * part[1]
                counted[name] += row.weight * part[-1]
        sums = np.vstack(list(self._sums(table)))
        result = {}
        for name, at in place.items():
            top, bottom = sums[:, at], sums[:, at + 1]
            values = np.where(bottom > SAME, top, np.nan) if name in totals else _divide(top, bottom)
            result[name] = (values, counted[name])
        return result

    def difference(self, rows: Sequence[tuple[str, float]]) -> Estimate:
        """Return the mean of paired differences, given as (group, difference)."""
        parts = [Row(group=group, parts={"difference": (value, 1.0)}) for group, value in rows]
        return self.ratios(parts, ["difference"])["difference"]

    def ranking(
        self, groups: Sequence[str], weights: Sequence[float], scores: Sequence[float], gold: Sequence[bool]
    ) -> tuple[Estimate, Estimate]:
        """Return AUROC and AUC-PR (average precision) of `scores`; see `metrics` for the definitions."""
        import numpy as np  # noqa: PLC0415

        if not scores:
            return NOTHING, NOTHING
        order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
        ordered = np.asarray(scores, dtype=float)[order]
        positive = np.asarray(gold, dtype=float)[order]
        ends = np.flatnonzero(np.append(np.diff(ordered) != 0, True))

        def areas(weight: Array) -> Array:
            tp = np.cumsum(weight * positive, axis=1)[:, ends]
            fp = np.cumsum(weight * (1 - positive), axis=1)[:, ends]
            hits, misses = np.diff(tp, axis=1, prepend=0), np.diff(fp, axis=1, prepend=0)
            wins = (misses * (tp - hits / 2)).sum(axis=1)
            steps = (hits * np.nan_to_num(_divide(tp, tp + fp))).sum(axis=1)
            return np.column_stack([_divide(wins, tp[:, -1] * fp[:, -1]), _divide(steps, tp[:, -1])])

        values = self._through(groups, weights, areas, order)
        n = float(sum(weights))
        return self._estimate(values[:, 0], n), self._estimate(values[:, 1], n)

    def quantiles(
        self, groups: Sequence[str], weights: Sequence[float], values: Sequence[float], levels: Sequence[float]
    ) -> list[Estimate]:
        """Return the quantiles of `values`: the smallest with at least that share of the weight at or below it."""
        import numpy as np  # noqa: PLC0415

        if not values:
            return [NOTHING] * len(levels)
        order = np.argsort(np.asarray(values, dtype=float), kind="stable")
        ordered = np.asarray(values, dtype=float)[order]

        def at_levels(weight: Array) -> Array:
            below = np.cumsum(weight, axis=1)
            total = below[:, -1:]
            places = [(below < level * total - SAME).sum(axis=1).clip(max=len(ordered) - 1) for level in levels]
            found = np.column_stack([ordered[place] for place in places])
            return np.where(total > SAME, found, np.nan)

        drawn = self._through(groups, weights, at_levels, order)
        return [self._estimate(drawn[:, column], float(sum(weights))) for column in range(len(levels))]

    def calibration(
        self, groups: Sequence[str], weights: Sequence[float], scores: Sequence[float], gold: Sequence[bool]
    ) -> Estimate:
        """Return the expected calibration error of scores in [0, 1]. Raises ValueError for a score outside."""
        import numpy as np  # noqa: PLC0415

        table = np.zeros((len(self.index), ECE_BINS + 1))
        for group, weight, score, label in zip(groups, weights, scores, gold, strict=True):
            into = table[self.index[group]]
            into[bin_of(score)] += weight * (score - label)
            into[ECE_BINS] += weight
        sums = np.vstack(list(self._sums(table)))
        gaps = np.abs(sums[:, :ECE_BINS]).sum(axis=1)
        return self._estimate(_divide(gaps, sums[:, ECE_BINS]), float(sum(weights)))

    def _blocks(self) -> Iterator[Array]:
        """Yield how often each group was drawn, (draws, groups): first the data as they are, then the resamples."""
        import numpy as np  # noqa: PLC0415

        yield np.ones((1, len(self.index)))
        for start in range(0, len(self._counts), BLOCK):
            yield self._counts[start : start + BLOCK].astype(np.float64)

    def _sums(self, table: Array) -> Iterator[Array]:
        for block in self._blocks():
            yield block @ table

    def _through(
        self, groups: Sequence[str], weights: Sequence[float], measure: Callable[[Array], Array], order: Any
    ) -> Array:
        """Return `measure` of the units' weights in every draw, units in `order`."""
        import numpy as np  # noqa: PLC0415

        places = np.array([self.index[group] for group in groups])[order]
        shares = np.asarray(weights, dtype=float)[order]
        return np.vstack([measure(block[:, places] * shares) for block in self._blocks()])

    def _estimate(self, values: Array, n: float) -> Estimate:
        """Return the first value, and the percentiles of those of the others that exist."""
        import numpy as np  # noqa: PLC0415

        if not np.isfinite(values[0]):
            return Estimate(value=None, low=None, high=None, n=n)
        drawn = values[1:][np.isfinite(values[1:])]
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail]) if len(drawn) else (None, None)
        return Estimate(
            value=float(values[0]),
            low=None if low is None else float(low),
            high=None if high is None else float(high),
            n=n,
        )


def _divide(top: Array, bottom: Array) -> Array:
    """Return the quotients, NaN where the divisor is 0."""
    import numpy as np  # noqa: PLC0415

    quotients: Array = np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > SAME)
    return quotients


@dataclass(frozen=True, kw_only=True, slots=True)
class McNemar:
    """McNemar's test of two methods on the same items."""

    n: int
    """Pairs."""
    only_first: int
    """Items that only the first is right about."""
    only_second: int
    p: float
    """Exact: binomial over the items of which one is right, two-sided."""
    p_mid: float
    """Mid-p form, less conservative (Fagerland, Lydersen & Laake 2013)."""
    odds_ratio: float | None
    """`only_second` / `only_first`; None when the divisor is 0."""


def mcnemar(pairs: Sequence[tuple[float, float]]) -> McNemar:
    """Compare (how right the first is, how right the second is), each in [0, 1], one pair per item.

    With shares of repeats in place of 0 and 1, an item counts for the side with the greater share: a sign test,
    which is McNemar's for single runs. p is 1 where the two never differ.
    """
    require_eval()
    from scipy.stats import binom, binomtest  # noqa: PLC0415

    first = sum(a > b + SAME for a, b in pairs)
    second = sum(b > a + SAME for a, b in pairs)
    if first + second == 0:
        return McNemar(n=len(pairs), only_first=0, only_second=0, p=1.0, p_mid=1.0, odds_ratio=None)
    fewer, differing = min(first, second), first + second
    mid = 2 * float(binom.cdf(fewer, differing, 0.5)) - float(binom.pmf(fewer, differing, 0.5))
    return McNemar(
        n=len(pairs),
        only_first=first,
        only_second=second,
        p=float(binomtest(fewer, differing, 0.5).pvalue),
        p_mid=min(1.0, mid),
        odds_ratio=second / first if first else None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Wilcoxon:
    """Wilcoxon's signed-rank test of two methods on the same items."""

    n: int
    """Pairs."""
    n_different: int
    p: float
    """Two-sided; exact where scipy can (at most 50 pairs without ties), else by the normal approximation."""
    median_difference: float | None
    """Median of second minus first."""
    rank_biserial: float
    """(ranks of pairs in which the second is greater - ranks of the others) / all ranks, in [-1, 1]."""


def wilcoxon(pairs: Sequence[tuple[float, float]]) -> Wilcoxon:
    """Compare (first, second) measurements, one pair per item. Equal pairs are dropped; p is 1 when all are equal."""
    require_eval()
    import numpy as np  # noqa: PLC0415
    from scipy import stats  # noqa: PLC0415

    gaps = np.array([b - a for a, b in pairs], dtype=float)
    different = gaps[np.abs(gaps) > SAME]
    median = float(np.median(gaps)) if len(gaps) else None
    if not len(different):
        return Wilcoxon(n=len(pairs), n_different=0, p=1.0, median_difference=median, rank_biserial=0.0)
    ranks = stats.rankdata(np.abs(different))
    return Wilcoxon(
        n=len(pairs),
        n_different=len(different),
        p=float(stats.wilcoxon(different).pvalue),
        median_difference=median,
        rank_biserial=float((ranks * np.sign(different)).sum() / ranks.sum()),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down method (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted

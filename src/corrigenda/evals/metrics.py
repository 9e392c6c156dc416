"""The formulas of the evaluation: tiny pure functions over counts, scores and times. No package is needed.

Where there is nothing to divide by, a function returns None: never NaN, and never a 0 that was not measured.
`gold` is always True for the positive class, the hallucination. `docs/metrics.md` says what is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

ECE_BINS = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """One bin of a reliability diagram: units whose score is in [low, high), the last bin with its end."""

    low: float
    high: float
    score: float
    """Mean score of its units."""
    observed: float
    """Share of its units that are positive."""
    n: float


def ratio(numerator: float, denominator: float) -> float | None:
    """Return their quotient, or None when the denominator is 0."""
    return numerator / denominator if denominator else None


def mean(values: Sequence[float]) -> float | None:
    """Return the arithmetic mean, or None when there is no value."""
    return ratio(math.fsum(values), len(values))


def accuracy(right: float, n: float) -> float | None:
    """Return the share of `n` units that are right; None when there is none."""
    return ratio(right, n)


def precision(tp: float, fp: float) -> float | None:
    """Return TP / (TP + FP); None when nothing was flagged."""
    return ratio(tp, tp + fp)


def recall(tp: float, fn: float) -> float | None:
    """Return TP / (TP + FN); None when nothing is positive."""
    return ratio(tp, tp + fn)


def f1(tp: float, fp: float, fn: float) -> float | None:
    """Return 2 TP / (2 TP + FP + FN); None when nothing is positive and nothing was flagged."""
    return ratio(2 * tp, 2 * tp + fp + fn)


def auroc(scores: Sequence[float], gold: Sequence[bool]) -> float | None:
    """Return P(a positive unit has a higher score than a negative one), ties by half; None without both classes.

    Mann-Whitney U divided by the number of pairs; the area under the ROC curve. Raises ValueError when the two
    sequences differ in length.
    """
    positives = sum(gold)
    pairs = positives * (len(gold) - positives)
    wins, below = 0.0, 0.0
    for hits, misses in _ties(scores, gold, reverse=False):
        wins += hits * (below + misses / 2)
        below += misses
    return ratio(wins, pairs)


def auc_pr(scores: Sequence[float], gold: Sequence[bool]) -> float | None:
    """Return the average precision, Σ (Rₙ - Rₙ₋₁) Pₙ over the distinct scores from the highest down.

    No interpolation, as in scikit-learn's `average_precision_score`. None when nothing is positive. Raises
    ValueError when the two sequences differ in length.
    """
    area, tp, fp = 0.0, 0, 0
    for hits, misses in _ties(scores, gold, reverse=True):
        tp, fp = tp + hits, fp + misses
        area += hits * tp / (tp + fp)
    return ratio(area, tp)


def _ties(scores: Sequence[float], gold: Sequence[bool], *, reverse: bool) -> Iterator[tuple[int, int]]:
    """Yield (positive, negative) units per distinct score, in the order of the scores."""
    ordered = sorted(zip(scores, gold, strict=True), key=lambda pair: pair[0], reverse=reverse)
    for _, units in groupby(ordered, key=lambda pair: pair[0]):
        labels = [label for _, label in units]
        hits = sum(labels)
        yield hits, len(labels) - hits


def bin_of(score: float, bins: int = ECE_BINS) -> int:
    """Return the index of the bin of equal width that holds `score`. Raises ValueError outside [0, 1]."""
    if not 0 <= score <= 1:
        raise ValueError(f"a score that is read as a probability must be in [0, 1], got {score!r}")
    return min(int(score * bins), bins - 1)


def reliability(
    scores: Sequence[float],
    gold: Sequence[bool],
    bins: int = ECE_BINS,
    weights: Sequence[float] | None = None,
) -> tuple[Bin, ...]:
    """Return the bins that hold a unit, from the lowest score up. `weights` count units by less than 1 each.

    Raises ValueError when a score is not in [0, 1] or the sequences differ in length.
    """
    held: dict[int, list[tuple[float, bool, float]]] = {}
    for score, label, weight in zip(scores, gold, weights or [1.0] * len(scores), strict=True):
        held.setdefault(bin_of(score, bins), []).append((score, label, weight))
    found = []
    for index, units in sorted(held.items()):
        n = math.fsum(weight for _, _, weight in units)
        score_sum = math.fsum(score * weight for score, _, weight in units)
        hits = math.fsum(weight for _, label, weight in units if label)
        found.append(Bin(low=index / bins, high=(index + 1) / bins, score=score_sum / n, observed=hits / n, n=n))
    return tuple(found)


def expected_calibration_error(scores: Sequence[float], gold: Sequence[bool], bins: int = ECE_BINS) -> float | None:
    """Return the mean gap between score and share of positive units, over bins of equal width; None without units.

    The score is read as the probability of the positive class (Guo et al. 2017, "On Calibration of Modern Neural
    Networks", §2, for one class). Raises ValueError as `reliability` does.
    """
    found = reliability(scores, gold, bins)
    return ratio(math.fsum(b.n * abs(b.score - b.observed) for b in found), len(scores))


def quantile(values: Sequence[float], level: float) -> float | None:
    """Return the smallest value with at least the share `level` of the values at or below it; None without values.

    The inverse of the empirical distribution function, numpy's `inverted_cdf`: always one of the values. Raises
    ValueError when `level` is not in [0, 1].
    """
    if not 0 <= level <= 1:
        raise ValueError(f"a quantile's level must be in [0, 1], got {level!r}")
    if not values:
        return None
    rank = math.ceil(level * len(values) - 1e-9)
    return sorted(values)[max(rank, 1) - 1]

"""Fit the constants of the `chat` verifier and measure probabilities against labels (numpy and scipy, no model).

Two logistic regressions (`nli_chat_scheme.Constants`): does the premise decide the hypothesis, and if so, which way.
A class is an index into `nli_chat_scheme.CLASSES`: 0 entailment, 1 neutral, 2 contradiction.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from corrigenda.backends.nli_chat_scheme import CLASSES, Constants, Look, Sums, features
from corrigenda.errors import InputError

FOLDS = 5
ECE_BINS = 15
L2 = 0.001
"""Penalty on the squares of the slopes, per pair: keeps them finite where the classes are separable."""
LATER = 0.2
"""Weight of a later look's d in the direction, in terms of the first look's. See docs/calibration.md."""
FLAGGED = 0.5
"""P(contradiction) from which a claim counts as flagged here: the floor of the policy `bounded`."""

FALSE_FLAGS = 0.05
"""Share of the true claims of the data that the floor of the policy `bounded` may let through as contradicted."""
CEILING_SHARE = 0.05
"""Share of the contradictions above the floor that the ceiling may put out of reach.

In an answer that is mostly right, µ + kσ is above 1 and the ceiling is what decides; so it is close to the floor."""

Looks = Sequence[Sequence[Sums]]
"""Per pair, the log-probabilities of the three classes' answers in each look; as many looks for every pair."""
Array = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """How well probabilities fit the labels of `n` pairs. Shares are None where there is no pair to count."""

    n: int
    n_binary: int
    """Pairs whose label is not neutral; `binary` and `ece_binary` are over these."""
    binary: float | None
    """Share of them that P(entailment) > P(contradiction) puts on the right side."""
    three_way: float
    """Share of all pairs whose most probable class is the label."""
    ece: float
    """Expected calibration error of the most probable class, over all pairs, in [0, 1]."""
    ece_binary: float | None
    flagged_entailment: float | None
    """Share of the entailment pairs with P(contradiction) >= 0.5: true claims that would be rewritten."""
    flagged_neutral: float | None
    flagged_contradiction: float | None
    """Share of the contradiction pairs with P(contradiction) >= 0.5: false claims that are found."""


def probabilities(constants: Constants, looks: Looks) -> Array:
    """Return an array (n, 3) of P(entailment), P(neutral), P(contradiction). See `nli_chat_scheme.combine`.

    ValueError where the pairs have other looks than the constants.
    """
    d, u = _features(looks, len(constants.looks))
    directions, known, strength = np.array(constants.looks).T
    decided = _sigmoid(constants.bias + u @ known + np.abs(d) @ strength)
    entailed = _sigmoid(_either_side(d @ directions) @ [constants.agree, constants.differ])
    return np.column_stack([decided * entailed, 1 - decided, decided * (1 - entailed)])


def cascaded(first: Array, both: Array, below: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return the probabilities as the verifier gives them, and which pairs (n) were asked about twice.

    Those of the first look (n, 3) stand where one of the classes has at least `below`; elsewhere those of both.
    """
    unsure = first.max(axis=1) < below
    return np.where(unsure[:, None], both, first), unsure


def fit(looks: Looks, labels: Sequence[int]) -> Constants:
    """Return the constants that make `labels` most probable, but for the penalty L2. Convex: there is one answer.

    The direction has no constant, so that a look which says nothing favours neither side. It follows the first look,
    and a later one where the first says next to nothing (`LATER`, which is not fitted: left free, the later wording's
    weight came out below 0, and with it plain statements that it reads rightly were lost). Raises InputError when one
    of the three classes has no pair.
    """
    y = np.array(labels)
    missing = [name for index, name in enumerate(CLASSES) if not (y == index).any()]
    if missing:
        raise InputError(f"the data have no pair of the class {missing[0]!r}; a fit needs all three")
    count = len(looks[0])
    d, u = _features(looks, count)
    directions = [1.0, *[LATER] * (count - 1)]
    told = y != 1
    agree, differ = _logistic(_either_side(d @ directions)[told], y[told] == 0)
    bias, *weights = _logistic(np.column_stack([np.ones(len(y)), u, np.abs(d)]), told)
    parts = zip(directions, weights[:count], weights[count:], strict=True)
    return Constants(
        bias=round(bias, 4),
        agree=round(agree, 4),
        differ=round(differ, 4),
        looks=tuple(Look(*(round(value, 4) for value in part)) for part in parts),
    )


def _logistic(x: Array, target: NDArray[np.bool_]) -> list[float]:
    """Return the weights of a logistic regression; a column of ones is a constant and is not penalised."""
    sign = np.where(target, 1.0, -1.0)
    penalised = (x != 1).any(axis=0)

    def loss(weights: Array) -> tuple[float, Array]:
        margin = sign * (x @ weights)
        gradient = -(sign * _sigmoid(-margin)) @ x / len(x) + 2 * L2 * weights * penalised
        return float(np.logaddexp(0, -margin).mean() + L2 * (weights[penalised] ** 2).sum()), gradient

    return [float(value) for value in minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x]


def require_groups(groups: Sequence[int]) -> list[int]:
    """Return the distinct groups, sorted. Raises InputError when there are fewer than folds."""
    order = sorted(set(groups))
    if len(order) < FOLDS:
        raise InputError(f"cross-validation needs at least {FOLDS} groups of unrelated pairs, got {len(order)}")
    return order


def cross_validated(looks: Looks, labels: Sequence[int], groups: Sequence[int], seed: int = 7) -> Array:
    """Return an array (n, 3): each pair's probabilities by constants fitted without its group, in 5 folds.

    Raises InputError when there are fewer groups than folds.
    """
    order = require_groups(groups)
    random.Random(seed).shuffle(order)  # noqa: S311  # nothing secret
    fold_of = {group: place % FOLDS for place, group in enumerate(order)}
    folds = np.array([fold_of[group] for group in groups])
    values, y = np.array(looks), np.array(labels)
    probs = np.zeros((len(y), 3))
    for fold in range(FOLDS):
        inside = folds == fold
        probs[inside] = probabilities(fit(values[~inside].tolist(), y[~inside].tolist()), values[inside].tolist())
    return probs


def measure(probs: Array, labels: Sequence[int]) -> Measured:
    """Return how well `probs` (n, 3) fit `labels`. Raises InputError when there is no pair."""
    y = np.array(labels)
    if not len(y):
        raise InputError("there is no pair to measure on")
    told = y != 1
    flagged = probs[:, 2] >= FLAGGED
    return Measured(
        n=len(y),
        n_binary=int(told.sum()),
        binary=_share(((probs[:, 0] > probs[:, 2]) == (y == 0))[told]),
        three_way=round(float((probs.argmax(axis=1) == y).mean()), 4),
        ece=calibration_error(probs, y),
        ece_binary=calibration_error(probs[told], y[told]) if told.any() else None,
        flagged_entailment=_share(flagged[y == 0]),
        flagged_neutral=_share(flagged[y == 1]),
        flagged_contradiction=_share(flagged[y == 2]),
    )


def bounds(probs: Array, labels: Sequence[int]) -> tuple[float, float]:
    """Return floor and ceiling for the policy `bounded`, from probabilities by constants that did not see the pairs.

    The floor is the lowest threshold from 0.5 up, in steps of 0.01, at which at most 5% of the entailment pairs
    have a higher P(contradiction). The ceiling leaves all but a twentieth of the contradiction pairs above the floor
    within reach; it is at least the floor and below 1.
    """
    y = np.array(labels)
    wrong, right = probs[y == 0, 2], probs[y == 2, 2]
    steps = [step / 100 for step in range(50, 100)]
    floor = next((step for step in steps if len(wrong) and (wrong >= step).mean() <= FALSE_FLAGS), steps[-1])
    above = right[right >= floor]
    ceiling = min(steps[-1], round(float(np.quantile(above, CEILING_SHARE)), 2)) if len(above) else floor
    return floor, max(floor, ceiling)


def calibration_error(probs: Array, labels: Labels) -> float:
    """Return the mean gap between confidence and accuracy of the most probable class, over 15 bins of equal width.

    Weighted by the pairs in each bin (Guo et al. 2017, "On Calibration of Modern Neural Networks", §2).
    """
    confidence = probs.max(axis=1)
    right = probs.argmax(axis=1) == labels
    bins = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = [abs(float(right[bins == b].sum()) - float(confidence[bins == b].sum())) for b in range(ECE_BINS)]
    return round(sum(gaps) / len(labels), 4)


def _features(looks: Looks, count: int) -> tuple[Array, Array]:
    """Return d and u of each look, two arrays (n, count)."""
    found = np.array([[features(sums) for sums in pair] for pair in looks]).reshape(len(looks), count, 2)
    return found[:, :, 0], found[:, :, 1]


def _either_side(direction: Array) -> Array:
    """Return an array (n, 2) of what is above 0 and what is below."""
    return np.stack([np.maximum(direction, 0), np.minimum(direction, 0)], axis=1)


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


def _share(values: NDArray[np.bool_]) -> float | None:
    return round(float(values.mean()), 4) if len(values) else None

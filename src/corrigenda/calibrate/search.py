"""The grid search: which k, floor, ceiling or threshold does best on labelled units. Pure, and exact.

A unit is flagged when its strength s (the highest |signed| of its contradicted claims) reaches the threshold:
s >= clip(µ + kσ, floor, ceiling), which is s >= floor and (s >= µ + kσ or s >= ceiling). So the units part into
those that reach µ + kσ, for which the floor decides, and the others, for which the ceiling does, and the whole grid
of floors and ceilings comes from two sorted lists.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corrigenda.calibrate.scores import LabelledScore
from corrigenda.policies import DEFAULT_K, TOLERANCE, statistics
from corrigenda.types import Verdict

KS = tuple(step / 10 for step in range(21))
"""0 to 2 in steps of 0.1."""
THRESHOLDS = tuple(step / 100 for step in range(33, 100))
"""0.33 to 0.99 in steps of 0.01. A contradiction has a probability above 1/3, so that the lowest leaves the decision
to the label; a ceiling of 1 could be out of reach."""

Options = Mapping[str, float]
Worth = Callable[[float, float, int, int], float]
"""(true positives, false positives, contradicted units, supported units) → how good that is; higher is better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What has one label: a claim, or a sentence with its claims."""

    strength: float
    """The highest |signed| of its contradicted claims; -inf when none is contradicted, which is never flagged."""
    mu: float
    sigma: float
    """µ and σ of its answer's scores."""
    label: Verdict
    group: str
    answer: str
    size: int
    """Scores in its answer."""


def units_of(scores: Sequence[LabelledScore]) -> list[Unit]:
    """Return the labelled units, in the order in which they first appear."""
    answers: dict[str, list[float]] = {}
    members: dict[str, list[LabelledScore]] = {}
    for score in scores:
        held = answers.setdefault(score.answer, [])
        if score.signed is not None:
            held.append(score.signed)
        if score.label is not None:
            members.setdefault(score.unit, []).append(score)
    units = []
    known = {answer: (*statistics(held), len(held)) for answer, held in answers.items()}
    for part in members.values():
        mu, sigma, size = known[part[0].answer]
        units.append(
            Unit(
                strength=max((-s.signed for s in part if s.signed is not None and s.signed < 0), default=-math.inf),
                mu=mu or 0.0,
                sigma=sigma or 0.0,
                label=part[0].label or Verdict.UNVERIFIED,
                group=part[0].group,
                answer=part[0].answer,
                size=size,
            )
        )
    return units


def flagged(unit: Unit, policy: str, options: Options) -> bool:
    """Return whether the policy flags the unit, exactly as `policies` decides."""
    if policy == "conformal":  # a tie is not flagged
        return unit.strength >= options["threshold"] + TOLERANCE
    if policy == "fixed":
        return unit.strength >= options["threshold"] - TOLERANCE
    tau = unit.mu + options["k"] * unit.sigma
    if policy == "bounded":
        tau = min(max(tau, options["floor"]), options["ceiling"])
    return unit.strength >= tau - TOLERANCE


def search(units: Sequence[Unit], policy: str, worth: Worth) -> dict[str, float]:
    """Return the options of `paper`, `fixed` or `bounded` that are worth most on `units` (two-way ones).

    Where several are worth the same: the k nearest to 0.7, then the middle one of the floors that do, then the middle
    one of the ceilings, so that a small shift of the scores costs least. With one claim per answer every k and every
    ceiling is worth the same; what is returned for them then means nothing.
    """
    best: list[dict[str, float]] = []
    most = -math.inf
    for options, value in _worths(units, policy, worth):
        if value > most + TOLERANCE:
            most, best = value, []
        if value >= most - TOLERANCE:
            best.append(options)
    for name in best[0]:
        values = sorted({options[name] for options in best})
        if name == "k":
            chosen = min(values, key=lambda k: (round(abs(k - DEFAULT_K), 6), k))
        else:
            chosen = values[(len(values) - 1) // 2]
        best = [options for options in best if options[name] == chosen]
    return best[0]


def _worths(units: Sequence[Unit], policy: str, worth: Worth) -> Iterator[tuple[dict[str, float], float]]:
    """Yield every point of the grid with what it is worth."""
    false = [u for u in units if u.label is Verdict.CONTRADICTED]
    true = [u for u in units if u.label is Verdict.SUPPORTED]
    if policy == "fixed":
        for t in THRESHOLDS:
            tp, fp = (sum(flagged(u, policy, {"threshold": t}) for u in part) for part in (false, true))
            yield {"threshold": t}, worth(tp, fp, len(false), len(true))
        return
    for k in KS:
        if policy == "paper":
            tp, fp = (sum(flagged(u, policy, {"k": k}) for u in part) for part in (false, true))
            yield {"k": k}, worth(tp, fp, len(false), len(true))
            continue
        found, wrong = _Counts.of(false, k), _Counts.of(true, k)
        for i, floor in enumerate(THRESHOLDS):
            for j, ceiling in enumerate(THRESHOLDS[i:], start=i):
                tp, fp = found.at_floor[i] + found.at_ceiling[j], wrong.at_floor[i] + wrong.at_ceiling[j]
                yield {"k": k, "floor": floor, "ceiling": ceiling}, worth(tp, fp, len(false), len(true))


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many units are flagged at each floor by reaching µ + kσ, and at each ceiling although they do not."""

    at_floor: list[int]
    at_ceiling: list[int]

    @classmethod
    def of(cls, units: Sequence[Unit], k: float) -> _Counts:
        reach = sorted(u.strength for u in units if u.strength >= u.mu + k * u.sigma - TOLERANCE)
        others = sorted(u.strength for u in units if u.strength < u.mu + k * u.sigma - TOLERANCE)
        return cls(*([len(part) - bisect_left(part, t - TOLERANCE) for t in THRESHOLDS] for part in (reach, others)))

"""Fit a policy's options to labelled scores, and measure them on groups that took no part in the fit."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from corrigenda.calibrate import remarks
from corrigenda.calibrate.rates import Costs, Rates, measured
from corrigenda.calibrate.scores import LabelledScore, Source
from corrigenda.calibrate.search import Unit, flagged, search, units_of
from corrigenda.errors import ConfigError, InputError
from corrigenda.evals.stats import require_eval
from corrigenda.policies import (
    DEFAULT_CEILING,
    DEFAULT_FLOOR,
    DEFAULT_K,
    DEFAULT_THRESHOLD,
    POLICIES,
    TOLERANCE,
    conformal_threshold,
)
from corrigenda.policy_files import PolicyFile
from corrigenda.types import Verdict

OBJECTIVES = ("f1", "cost", "conformal")
LEAST = 20
"""Units of each class that a grid fit needs. With 20, a rate is known to about ±22 points (95%, at its worst), and
each of five folds still measures on four; with fewer, the held-out rates say nothing and the grid fits noise."""
CEILING_SHARE = 0.05
"""Where every answer has one claim: the share of the false claims above the floor that the ceiling may put out of
reach. The same rule as for the bounds that ship with the chat verifier."""

ROUNDING = 5e-7
"""Half a unit of the last decimal that records keep of a score."""

DEFAULTS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "bounded, not fitted": ("bounded", {"k": DEFAULT_K, "floor": DEFAULT_FLOOR, "ceiling": DEFAULT_CEILING}),
    "fixed, not fitted": ("fixed", {"threshold": DEFAULT_THRESHOLD}),
    "paper, not fitted": ("paper", {"k": DEFAULT_K}),
}
"""What a fitted policy is compared with, on the same units."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """A fitted policy, and how it does."""

    file: PolicyFile
    """What `--policy` takes once it is written to disk."""
    by_fold: tuple[Mapping[str, float], ...]
    """The options that each fold's fit chose, without the claims it was measured on: how far they scatter."""
    compared: Mapping[str, Rates]
    """Policies that were not fitted, by name, on the same units."""


def fit(
    scores: Sequence[LabelledScore],
    *,
    objective: str = "f1",
    policy: str | None = None,
    alpha: float = 0.1,
    cost_false_negative: float = 1.0,
    cost_false_positive: float = 1.0,
    folds: int = 5,
    seed: int = 0,
    bundle: int | None = None,
    verifier: str | None = None,
    sources: Sequence[Source] = (),
    notes: Sequence[str] = (),
) -> Fitted:
    """Return the best options of `policy` (default: `bounded`; `conformal` for that objective) on labelled scores.

    `f1` seeks the highest F1 of detecting contradicted units, `cost` the lowest mean of `cost_false_negative` per
    missed one and `cost_false_positive` per supported one that is flagged (both at least 0, not both 0). The options
    are fitted to all scores; the expected rates come from `folds` (2 to 20) fits that each leave out some groups, and
    are measured on those. `conformal` gives the threshold at which a true claim is flagged with a probability of
    at most `alpha`, whatever the distribution; it rests on one true claim of each group, drawn with `seed`.

    `bundle` (2 to 100) deals the claims at random into answers of that many, where every answer has one claim: only
    answers with several can tell k. `verifier`, `sources` and `notes` go into the file.

    Raises ConfigError for settings out of range, InputError when there are too few labels for what is asked, and
    MissingExtra without the extra `eval`.
    """
    costs = _costs(objective, cost_false_negative, cost_false_positive)
    chosen = _policy(objective, policy)
    _check_settings(chosen, alpha, folds, bundle)
    require_eval()
    _check_scores(scores)
    fold_of = _folds(scores, folds, seed)
    said = list(notes)
    if bundle is not None:
        scores = _dealt(scores, fold_of, bundle, seed, said)
    units = units_of(scores)
    two_way = [unit for unit in units if unit.label is not Verdict.UNVERIFIED]
    if chosen == "conformal":
        options, by_fold, expected, guarantee = _conformal(scores, units, fold_of, folds, alpha, seed, said)
        goal: dict[str, Any] = {"name": "conformal", "alpha": alpha}
    else:
        _check_enough(two_way, folds, None if bundle is None else said[-1])
        remarks.require_signal(two_way, chosen)
        options, by_fold, expected = _gridded(units, chosen, costs, fold_of, folds, said)
        guarantee, goal = None, costs.as_json()
    compared = {
        name: measured(units, [flagged(u, *default) for u in units], costs) for name, default in DEFAULTS.items()
    }
    said += remarks.on_rates(expected, compared, costs, two_way, verifier)
    file = PolicyFile(
        policy=chosen,
        options=options,
        verifier=verifier,
        objective=goal,
        fitted_on=_fitted_on(scores, units, sources, folds, seed, bundle),
        expected=expected,
        guarantee=guarantee,
        notes=tuple(said),
    )
    return Fitted(file=file, by_fold=tuple(by_fold), compared=compared)


# The settings and the data -------------------------------------------------------------------------------------------


def _costs(objective: str, false_negative: float, false_positive: float) -> Costs:
    if objective not in OBJECTIVES:
        raise ConfigError(f"unknown objective {objective!r}; there are {', '.join(OBJECTIVES)}")
    for name, value in (("false negative", false_negative), ("false positive", false_positive)):
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"the cost of a {name} must be a finite number of at least 0, got {value!r}")
    if false_negative == false_positive == 0:
        raise ConfigError("the costs of a false negative and of a false positive are both 0; give one of them a cost")
    if objective != "cost" and (false_negative, false_positive) != (1, 1):
        raise ConfigError(f"costs are used by the objective cost, not by {objective!r}; leave them out or set it")
    return Costs(objective=objective, false_negative=false_negative, false_positive=false_positive)


def _policy(objective: str, policy: str | None) -> str:
    chosen = policy or ("conformal" if objective == "conformal" else "bounded")
    if chosen not in POLICIES:
        raise ConfigError(f"unknown policy {chosen!r}; there are {', '.join(sorted(POLICIES))}")
    if (chosen == "conformal") != (objective == "conformal"):
        raise ConfigError(
            f"the policy {chosen!r} cannot be fitted for the objective {objective!r}: a guarantee is what the policy "
            "conformal is for, and it is fitted for nothing else"
        )
    return chosen


def _check_settings(policy: str, alpha: float, folds: int, bundle: int | None) -> None:
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha must be between 0 and 1 (both excluded), got {alpha!r}")
    if not 2 <= folds <= 20:
        raise ConfigError(f"folds must be from 2 to 20, got {folds!r}")
    if bundle is not None and not 2 <= bundle <= 100:
        raise ConfigError(f"bundle must be from 2 to 100 claims per answer, got {bundle!r}")
    if bundle is not None and policy in ("fixed", "conformal"):
        raise ConfigError(f"the policy {policy!r} decides each claim by itself, whatever its answer; leave bundle out")


def _check_scores(scores: Sequence[LabelledScore]) -> None:
    group_of: dict[str, str] = {}
    label_of: dict[str, Verdict | None] = {}
    for score in scores:
        if score.signed is not None and not -1 <= score.signed <= 1:
            raise InputError(f"a signed score must be from -1 to 1, got {score.signed!r}")
        if score.label not in (None, Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNVERIFIED):
            raise InputError(f"a gold label must be supported, contradicted or unverified, got {score.label!r}")
        if group_of.setdefault(score.answer, score.group) != score.group:
            raise InputError(
                f"the answer {score.answer!r} is in two groups, {group_of[score.answer]!r} and {score.group!r}; claims "
                "that are decided together must share one"
            )
        if label_of.setdefault(score.unit, score.label) is not score.label:
            raise InputError(f"the claims of {score.unit!r} have different labels; a unit has one")


def _check_enough(units: Sequence[Unit], folds: int, dealt: str | None) -> None:
    """Raise InputError when a class has too few units, or too few groups to be in every fold."""
    for label in (Verdict.CONTRADICTED, Verdict.SUPPORTED):
        having = [unit for unit in units if unit.label is label]
        groups = len({unit.group for unit in having})
        if len(having) < LEAST or groups < folds:
            raise InputError(
                f"there are {len(having)} {label.value} claims in {groups} groups, and a fit needs at least {LEAST} of "
                f"each class, in at least as many groups as folds ({folds}); label more"
                f"{f' ({dealt})' if dealt else ''}"
            )


def _folds(scores: Sequence[LabelledScore], folds: int, seed: int) -> dict[str, int]:
    """Return the fold of each group, in random order, the classes spread evenly."""
    false = Counter(s.group for s in scores if s.label is Verdict.CONTRADICTED)
    true = Counter(s.group for s in scores if s.label is Verdict.SUPPORTED)
    order = sorted({s.group for s in scores})
    random.Random(seed).shuffle(order)  # noqa: S311  # nothing secret
    order.sort(key=lambda group: (false[group], true[group]))
    return {group: place % folds for place, group in enumerate(order)}


def _dealt(
    scores: Sequence[LabelledScore], fold_of: Mapping[str, int], size: int, seed: int, notes: list[str]
) -> tuple[LabelledScore, ...]:
    """Return the scores in answers of `size` claims dealt at random, each within a fold, and say so in `notes`.

    What fills no answer is left out, and counted in a note. Raises InputError when there are answers of several claims
    already, and when no fold has claims enough for one.
    """
    if len({s.answer for s in scores}) < len(scores):
        raise InputError("the data have answers with several claims, so that none need be composed; leave --bundle out")
    draw = random.Random(seed)  # noqa: S311  # nothing secret
    dealt = []
    for fold in sorted(set(fold_of.values())):
        hand = sorted((s for s in scores if fold_of[s.group] == fold), key=lambda s: (s.answer, s.unit))
        draw.shuffle(hand)
        for start in range(0, len(hand) - size + 1, size):
            dealt += [replace(s, answer=f"composed {fold}.{start}") for s in hand[start : start + size]]
    if not dealt:
        raise InputError(
            f"{len(scores)} claims in {len(set(fold_of.values()))} folds are too few for an answer of {size} in any; "
            "ask for a smaller bundle or fewer folds, or label more"
        )
    notes.append(f"composed: the claims were dealt at random into answers of {size}, which nobody wrote")
    if left := len(scores) - len(dealt):
        notes.append(f"{left} of {len(scores)} claims fill no answer of {size} in their fold and are left out")
    return tuple(dealt)


# A grid ---------------------------------------------------------------------------------------------------------------


def _gridded(
    units: Sequence[Unit], policy: str, costs: Costs, fold_of: Mapping[str, int], folds: int, notes: list[str]
) -> tuple[dict[str, float], list[Mapping[str, float]], Rates]:
    """Return the options, those of each fold, and the rates on what each fold left out."""

    def best(part: Sequence[Unit]) -> dict[str, float]:
        found = search([unit for unit in part if unit.label is not Verdict.UNVERIFIED], policy, costs.worth)
        return _without_what_cannot_be_told(found, part) if alone else found

    alone = all(unit.size <= 1 for unit in units)
    if alone and policy == "paper":
        raise InputError(
            "every answer has one claim, so that σ = 0 and µ + kσ is the score itself: the policy paper flags every "
            "contradiction whatever k is, and there is nothing to fit; --bundle N deals the claims into answers of N"
        )
    if alone and policy == "bounded":
        notes.append(
            f"every answer has one claim, so that σ = 0: k cannot be told and is left at {DEFAULT_K}; the ceiling "
            f"decides nothing here and is set so that at most {CEILING_SHARE:.0%} of the false claims above the floor "
            "are out of its reach; --bundle N deals the claims into answers of N, which can tell both"
        )
    by_fold: list[Mapping[str, float]] = [
        best([unit for unit in units if fold_of[unit.group] != fold]) for fold in range(folds)
    ]
    held_out = [flagged(unit, policy, by_fold[fold_of[unit.group]]) for unit in units]
    options = best(units)
    notes += remarks.on_flags(units, [flagged(unit, policy, options) for unit in units])
    return options, by_fold, measured(units, held_out, costs)


def _without_what_cannot_be_told(options: dict[str, float], units: Sequence[Unit]) -> dict[str, float]:
    """Return the options with k at its default and the ceiling close above the floor, see CEILING_SHARE."""
    if "floor" not in options:
        return options
    floor = options["floor"]
    above = sorted(u.strength for u in units if u.label is Verdict.CONTRADICTED and u.strength >= floor - TOLERANCE)
    ceiling = math.floor(above[int(len(above) * CEILING_SHARE)] * 100) / 100 if above else floor
    return {"k": DEFAULT_K, "floor": floor, "ceiling": min(max(ceiling, floor), 0.99)}


# The guarantee --------------------------------------------------------------------------------------------------------


def _conformal(
    scores: Sequence[LabelledScore],
    units: Sequence[Unit],
    fold_of: Mapping[str, int],
    folds: int,
    alpha: float,
    seed: int,
    notes: list[str],
) -> tuple[dict[str, float], list[Mapping[str, float]], Rates, str]:
    """Return the options, those of each fold, the rates, and what is guaranteed. Raises InputError."""
    calibration = _one_per_group(scores, seed)
    n = len(calibration)
    needed = math.ceil(1 / alpha - 1 - TOLERANCE)
    if n < needed:
        raise InputError(
            f"alpha = {alpha:g} needs scores of at least {needed} true claims of different groups, and there are {n}; "
            f"label more, or ask for an alpha of at least {math.ceil(10_000 / (n + 1)) / 10_000:g}"
        )
    options = _at(conformal_threshold([signed for _, signed in calibration], alpha), alpha)
    notes += remarks.on_threshold(options["threshold"], units)
    by_fold: list[Mapping[str, float]] = []
    for fold in range(folds):
        threshold = conformal_threshold([s for group, s in calibration if fold_of[group] != fold], alpha)
        if math.isfinite(threshold):
            by_fold.append(_at(threshold, alpha))
    costs = Costs(objective="conformal")
    if len(by_fold) == folds:
        held_out = [flagged(u, "conformal", by_fold[fold_of[u.group]]) for u in units]
        return options, by_fold, measured(units, held_out, costs), _guarantee(alpha, n)
    notes.append(
        "there are too few true claims to measure on some of them: the rates are of claims that are not true, at the "
        "threshold itself, in which these took no part"
    )
    others = [unit for unit in units if unit.label is not Verdict.SUPPORTED]
    rates = measured(others, [flagged(unit, "conformal", options) for unit in others], costs)
    told = {name: rate for name, rate in rates.items() if name in ("recall", "flagged_unverified")}
    return options, [], told, _guarantee(alpha, n)


def _at(threshold: float, alpha: float) -> dict[str, float]:
    """Return the options. Records keep six decimals: what was rounded down to the threshold must still tie with it."""
    return {"threshold": min(1.0, threshold + ROUNDING), "alpha": alpha, "support": DEFAULT_FLOOR}


def _one_per_group(scores: Sequence[LabelledScore], seed: int) -> list[tuple[str, float]]:
    """Return (group, signed) of one true claim of each group that has a scored one.

    Claims of one group are not exchangeable with those of another one; one of each is, where the groups are
    (Dunn, Wasserman & Ramdas 2022, "Distribution-Free Prediction Sets for Two-Layer Hierarchical Models").
    """
    by_group: dict[str, list[float]] = {}
    for score in scores:
        if score.label is Verdict.SUPPORTED and score.signed is not None:
            by_group.setdefault(score.group, []).append(score.signed)
    draw = random.Random(seed)  # noqa: S311  # nothing secret
    return [(group, draw.choice(sorted(by_group[group]))) for group in sorted(by_group)]


def _guarantee(alpha: float, n: int) -> str:
    from scipy.stats import beta  # noqa: PLC0415  # comes with the extra `eval`

    rank = math.ceil((n + 1) * (1 - alpha) - TOLERANCE)
    low, high = (float(beta.ppf(q, n + 1 - rank, rank)) for q in (0.025, 0.975))
    return (
        f"A new true claim is flagged with a probability of at most {alpha:g}, whatever the distribution, when it is "
        f"exchangeable with the {n} true claims that the threshold rests on (one of each group; split conformal, rank "
        f"{rank} of {n}). This is the mean over all such calibrations, {(n + 1 - rank) / (n + 1):.4f} where no scores "
        f"tie. The rate of a single one varies: 95% of them lie between {low:.4f} and {high:.4f} (beta distribution)."
    )


# What it rests on ----------------------------------------------------------------------------------------------------


def _fitted_on(
    scores: Sequence[LabelledScore],
    units: Sequence[Unit],
    sources: Sequence[Source],
    folds: int,
    seed: int,
    bundle: int | None,
) -> dict[str, Any]:
    labels = Counter(unit.label for unit in units)
    return {
        "files": [{"name": source.name, "sha256": source.sha256} for source in sources],
        "claims": {v.value: labels[v] for v in (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNVERIFIED)},
        "without_score": sum(score.signed is None for score in scores if score.label is not None),
        "answers": len({score.answer for score in scores}),
        "groups": len({score.group for score in scores}),
        "folds": folds,
        "seed": seed,
        "composed": bundle,
        "date": datetime.now(UTC).date().isoformat(),
    }

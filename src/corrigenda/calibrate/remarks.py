"""What is said about a fit: the notes of a policy file, and the refusal of scores that no policy could use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from corrigenda.calibrate.rates import Costs, Rates
from corrigenda.calibrate.search import THRESHOLDS, Unit
from corrigenda.errors import InputError
from corrigenda.evals import metrics
from corrigenda.policies import TOLERANCE
from corrigenda.types import Verdict

WEAKEST = 1 / 3
"""What the most probable of three classes always exceeds: a lower threshold flags every contradiction."""


def require_signal(units: Sequence[Unit], policy: str) -> None:
    """Raise InputError when no contradicted unit is within reach of any option of the policy's grid.

    Then every option is worth the same, and the one that came out would mean nothing.
    """
    false = [unit for unit in units if unit.label is Verdict.CONTRADICTED]
    strongest = max((unit.strength for unit in false), default=-math.inf)
    least = 0.0 if policy == "paper" else THRESHOLDS[0]
    if strongest > 0 and strongest >= least - TOLERANCE:
        return
    found = (
        "none of them has a score below 0"
        if strongest <= 0
        else f"the lowest score among them is {-strongest:.6g}, and the thresholds that are tried begin at {least:g}"
    )
    raise InputError(
        f"the scores tell nothing about the {len(false)} contradicted claims: {found}, so that no policy could flag "
        "one; check the labels, or take another verifier"
    )


def on_flags(units: Sequence[Unit], flags: Sequence[bool]) -> list[str]:
    """Return a note when the fitted options flag none of the contradicted units that they were fitted to."""
    false = [flag for unit, flag in zip(units, flags, strict=True) if unit.label is Verdict.CONTRADICTED]
    if any(false):
        return []
    return [f"the fitted policy flags none of the {len(false)} contradicted claims that it was fitted to"]


def on_threshold(threshold: float, units: Sequence[Unit]) -> list[str]:
    """Return notes on a conformal threshold at which nothing can be flagged, or everything would be."""
    notes = []
    if threshold >= 1 - TOLERANCE:
        notes.append("the threshold is 1: nothing can be flagged with this alpha")
    if threshold < WEAKEST:
        notes.append(
            f"the threshold is {threshold:.6g}, and a contradiction that is the most probable of three classes is "
            "stronger than 1/3: every contradiction would be flagged as soon as the verifier gives any signal"
        )
    false = [unit for unit in units if unit.label is Verdict.CONTRADICTED]
    if false and all(unit.strength <= 0 for unit in false):
        notes.append(
            f"none of the {len(false)} contradicted claims has a score below 0: whatever the threshold, none is flagged"
        )
    return notes


def on_rates(
    expected: Rates, compared: Mapping[str, Rates], costs: Costs, units: Sequence[Unit], verifier: str | None
) -> list[str]:
    """Return notes on what the rates rest on, and on policies that were not fitted and do as well."""
    notes = []
    share = metrics.ratio(sum(unit.label is Verdict.CONTRADICTED for unit in units), len(units))
    if share is not None:
        notes.append(
            f"{share:.1%} of the labelled claims are contradicted; where the share is another one, so is the precision"
        )
    if costs.objective != "conformal":
        name, sign = ("f1", 1) if costs.objective == "f1" else ("cost", -1)
        found = expected[name]["value"]
        for other, rates in compared.items():
            value = rates[name]["value"]
            if found is not None and value is not None and sign * value >= sign * found:
                notes.append(f"{other}, is no worse on these claims ({name} {value:.3f} against {found:.3f} held out)")
    if verifier is None:
        notes.append("the verifier is not known, so that a report under this policy says it may not fit")
    return notes

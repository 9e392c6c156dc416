"""What is optimised and what is reported: rates of detection with intervals, from units and whether each is flagged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corrigenda.calibrate.search import Unit
from corrigenda.evals import metrics
from corrigenda.evals.stats import Bootstrap, Row
from corrigenda.types import Verdict

Rates = Mapping[str, Mapping[str, float | None]]
"""Rate → `value`, `low`, `high`, `n`."""
NAMES = ("precision", "recall", "f1", "flagged_supported", "flagged_unverified", "cost")


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What makes one choice better than another."""

    objective: str = "f1"
    """`f1`, `cost` or `conformal`."""
    false_negative: float = 1.0
    """Cost of a contradicted unit that is not flagged."""
    false_positive: float = 1.0
    """Cost of a supported unit that is flagged."""

    def worth(self, tp: float, fp: float, false: int, true: int) -> float:
        """Return F1, or minus the mean cost, from the units that are found among `false` and flagged among `true`."""
        if self.objective == "cost":
            return -(self.false_negative * (false - tp) + self.false_positive * fp) / (false + true)
        return metrics.f1(tp, fp, false - tp) or 0.0

    def as_json(self) -> dict[str, str | float]:
        """Return the objective as it stands in a policy file."""
        if self.objective != "cost":
            return {"name": self.objective}
        return {"name": "cost", "false_negative": self.false_negative, "false_positive": self.false_positive}


def measured(units: Sequence[Unit], flags: Sequence[bool], costs: Costs) -> Rates:
    """Return rate → `value`, `low`, `high` (95%, bootstrap by group), `n`, over units and whether each is flagged.

    `precision`, `recall` and `f1` of detecting contradicted units; `flagged_supported` and `flagged_unverified`, the
    shares of those that are flagged; `cost`, the mean cost per unit that is not unverified, where costs were given.
    """
    rows = [Row(group=u.group, parts=_parts(u, flag, costs)) for u, flag in zip(units, flags, strict=True)]
    names = NAMES if costs.objective == "cost" else NAMES[:-1]
    found = Bootstrap({unit.group for unit in units}).ratios(rows, names)
    return {name: _rounded(found[name].as_json()) for name in names}


def _parts(unit: Unit, flag: bool, costs: Costs) -> dict[str, tuple[float, ...]]:
    if unit.label is Verdict.UNVERIFIED:
        return {"flagged_unverified": (flag, 1.0)}
    tp, fn = (float(flag), float(not flag)) if unit.label is Verdict.CONTRADICTED else (0.0, 0.0)
    fp = float(flag) - tp
    parts: dict[str, tuple[float, ...]] = {
        "precision": (tp, tp + fp),
        "f1": (2 * tp, 2 * tp + fp + fn, 1.0),
    }
    parts |= {"recall": (tp, 1.0)} if unit.label is Verdict.CONTRADICTED else {"flagged_supported": (fp, 1.0)}
    if costs.objective == "cost":
        parts["cost"] = (costs.false_negative * fn + costs.false_positive * fp, 1.0)
    return parts


def _rounded(estimate: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 6) for name, value in estimate.items()}

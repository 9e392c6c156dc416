"""The published paper's own numbers, as data. None of them was measured here, and none enters a summary.

They stand in a section of their own, so that a reader can hold them beside what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TITLE = "The paper's numbers, which were not measured here"
SOURCE = (
    "From the paper that this project starts from (its tables for TruthfulQA and FEVER). It judged with the verifier "
    "that also corrected, used other models and gave no intervals, so these numbers cannot be compared one to one "
    "with those above."
)

_Rows = Mapping[str, Mapping[str, float]]


def _row(accuracy: float, precision: float, recall: float, f1: float, hallucination: float) -> dict[str, float]:
    return {
        "accuracy": accuracy,
        "precision": precision,
        "recall": recall,
        "F1": f1,
        "hallucination rate": hallucination,
    }


PAPER: Mapping[str, _Rows] = {
    "truthfulqa": {
        "base": _row(0.72, 0.71, 0.69, 0.70, 0.28),
        "self-check": _row(0.78, 0.7725, 0.7475, 0.76, 0.20),
        "nli-fixed": _row(0.82, 0.815, 0.785, 0.80, 0.15),
        "selfcheckgpt": _row(0.76, 0.755, 0.725, 0.74, 0.22),
        "factscore": _row(0.85, 0.8425, 0.8175, 0.83, 0.11),
        "corrigenda": _row(0.87, 0.86, 0.84, 0.85, 0.09),
    },
    "fever": {
        "base": _row(0.74, 0.73, 0.71, 0.72, 0.26),
        "nli-fixed": _row(0.83, 0.8225, 0.7975, 0.81, 0.14),
        "selfcheckgpt": {"accuracy": 0.78},
        "factscore": {"accuracy": 0.87},
        "corrigenda": _row(0.89, 0.8775, 0.8625, 0.87, 0.10),
    },
}
"""Data set → method (by our names; the paper's own system is `corrigenda`) → measure, as shares."""


def for_datasets(names: Iterable[str]) -> Mapping[str, _Rows]:
    """Return what the paper has on those of its data sets that are among `names`."""
    return {name: PAPER[name] for name in names if name in PAPER}

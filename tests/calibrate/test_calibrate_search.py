"""The grid search decides as the policies do, and finds what is best."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.eval_records import C, S

from corrigenda.calibrate.rates import Costs
from corrigenda.calibrate.scores import LabelledScore
from corrigenda.calibrate.search import KS, THRESHOLDS, Unit, flagged, search, units_of
from corrigenda.policies import Bounded, Conformal, Fixed, Paper, Policy
from corrigenda.types import Verdict

SIGNED = st.one_of(st.none(), st.just(0.0), st.sampled_from([-1.0, -0.9, -0.5, 0.5, 0.9, 1.0]), st.floats(-1, 1))


def answer(*scores: float | None, label: Verdict | None = C, name: str = "a") -> list[LabelledScore]:
    return [
        LabelledScore(signed=s, label=label, answer=name, group=name, unit=f"{name}{i}") for i, s in enumerate(scores)
    ]


@given(
    st.lists(SIGNED, min_size=1, max_size=8),
    st.sampled_from([0.0, 0.7, 2.0]),
    st.sampled_from([(0.33, 0.99), (0.5, 0.9), (0.7, 0.7)]),
)
def test_units_are_flagged_exactly_as_the_policies_decide(
    scores: list[float | None], k: float, bounds: tuple[float, float]
) -> None:
    floor, ceiling = bounds
    units = units_of(answer(*scores))
    pairs: list[tuple[Policy, dict[str, float]]] = [
        (Paper(k=k), {"k": k}),
        (Fixed(threshold=floor), {"threshold": floor}),
        (Bounded(k=k, floor=floor, ceiling=ceiling), {"k": k, "floor": floor, "ceiling": ceiling}),
        (Conformal(threshold=floor), {"threshold": floor}),
    ]
    for policy, options in pairs:
        expected = [v is C for v in policy.decide(scores).verdicts]
        assert [flagged(unit, policy.name, options) for unit in units] == expected


def test_a_unit_of_several_claims_is_flagged_when_any_of_them_is() -> None:
    scores = [
        LabelledScore(signed=s, label=label, answer="a", group="g", unit=unit)
        for s, label, unit in ((-0.9, C, "x"), (0.8, C, "x"), (-0.6, S, "y"), (None, S, "z"), (0.5, None, "w"))
    ]
    units = units_of(scores)
    assert [(u.strength, u.label, u.size) for u in units] == [(0.9, C, 4), (0.6, S, 4), (float("-inf"), S, 4)]
    assert [u.mu for u in units] == pytest.approx([-0.05] * 3)


def every(units: list[Unit], costs: Costs) -> float:
    """The best worth by brute force over the whole grid."""
    false, true = ([u for u in units if u.label is label] for label in (C, S))
    best = float("-inf")
    for k, floor, ceiling in itertools.product(KS[::5], THRESHOLDS[::6], THRESHOLDS[::6]):
        if floor <= ceiling:
            options = {"k": k, "floor": floor, "ceiling": ceiling}
            tp, fp = (sum(flagged(u, "bounded", options) for u in part) for part in (false, true))
            best = max(best, costs.worth(tp, fp, len(false), len(true)))
    return best


@given(
    st.lists(
        st.tuples(st.lists(st.floats(-1, 1), min_size=1, max_size=5), st.sampled_from([C, S])), min_size=2, max_size=12
    ),
    st.sampled_from([Costs(), Costs(objective="cost", false_negative=3.0, false_positive=1.0)]),
)
def test_nothing_on_the_grid_is_better_than_what_is_found(
    answers: list[tuple[list[float], Verdict]], costs: Costs
) -> None:
    scores = [s for i, (signed, label) in enumerate(answers) for s in answer(*signed, label=label, name=f"a{i}")]
    units = units_of(scores)
    options = search(units, "bounded", costs.worth)
    false, true = ([u for u in units if u.label is label] for label in (C, S))
    tp, fp = (sum(flagged(u, "bounded", options) for u in part) for part in (false, true))
    assert costs.worth(tp, fp, len(false), len(true)) >= every(units, costs) - 1e-9


def test_a_plateau_is_decided_in_its_middle_and_k_by_the_default() -> None:
    """All true claims at -0.4, all false ones at -0.8, one claim per answer: every threshold between is as good."""
    scores = [s for i in range(4) for s in answer(-0.4, label=S, name=f"t{i}") + answer(-0.8, name=f"f{i}")]
    assert search(units_of(scores), "fixed", Costs().worth) == {"threshold": 0.6}
    found = search(units_of(scores), "bounded", Costs().worth)
    assert (found["k"], found["floor"]) == (0.7, 0.6)


def test_the_paper_gets_the_k_that_reaches_one_false_claim_among_four_true_ones() -> None:
    """p = 0.2 is reached up to k = 0.5, by k²/(1 + k²)."""
    scores = [
        LabelledScore(signed=s, label=S if s > 0 else C, answer=f"a{i}", group="g", unit=f"{i} {place}")
        for i in range(3)
        for place, s in enumerate((0.9, 0.9, 0.9, 0.9, -0.9))
    ]
    assert search(units_of(scores), "paper", Costs().worth) == {"k": 0.5}


def test_worth_is_f1_or_minus_the_mean_cost() -> None:
    assert Costs().worth(3, 1, 4, 6) == pytest.approx(6 / 8)
    assert Costs().worth(0, 0, 0, 0) == 0.0
    dear = Costs(objective="cost", false_negative=5.0, false_positive=1.0)
    assert dear.worth(3, 1, 4, 6) == pytest.approx(-(5 * 1 + 1) / 10)
    assert dear.as_json() == {"name": "cost", "false_negative": 5.0, "false_positive": 1.0}

"""The four decision policies, on scores whose outcome a reader can work out."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.errors import ConfigError
from corrigenda.policies import (
    Bounded,
    Conformal,
    Fixed,
    Paper,
    Policy,
    conformal_threshold,
    make_policy,
    statistics,
)
from corrigenda.types import Verdict

S, C, U, F = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNVERIFIED, Verdict.FAILED
BOUNDED = Bounded(floor=0.5, ceiling=0.9)
SCORES = st.one_of(st.none(), st.just(math.nan), st.just(0.0), st.floats(-1, 1).filter(lambda s: abs(s) > 1 / 3))


@pytest.mark.parametrize(
    ("scores", "mu", "sigma", "tau", "paper", "bounded"),
    [
        ([-0.97], -0.97, 0.0, -0.97, [C], [C]),
        ([0.97], 0.97, 0.0, 0.97, [S], [S]),
        ([0.99, 0.99, 0.99, 0.99, -0.95], 0.602, 0.776, 1.1452, [U] * 5, [S, S, S, S, C]),
        ([0.9, 0.9, -0.9], 0.3, 0.848528, 0.89397, [S, S, C], [S, S, C]),
        ([0.9, 0.9, 0.9, -0.9], 0.45, 0.779423, 0.995596, [U] * 4, [S, S, S, C]),
        ([0.0, 0.0, 0.0], 0.0, 0.0, 0.0, [U] * 3, [U] * 3),
        ([-0.95, -0.9, -0.99], -0.946667, 0.036818, -0.920894, [C] * 3, [C] * 3),
        ([None, -0.96, 0.9, 0.9], 0.28, 0.876812, 0.893769, [F, C, S, S], [F, C, S, S]),
        ([0.98, 0.97, -0.45], 0.5, 0.671764, 0.970235, [S, U, U], [S, S, U]),
    ],
    ids=[
        "one contradicted",
        "one supported",
        "blind spot: one false among four true",
        "just past the blind spot",
        "just inside the blind spot",
        "neutral only: the label decides",
        "all contradicted: tau is negative",
        "a failed score stays, out of the statistics",
        "weak contradiction: below the floor",
    ],
)
def test_rule_and_its_bounded_form(
    scores: list[float | None], mu: float, sigma: float, tau: float, paper: list[Verdict], bounded: list[Verdict]
) -> None:
    by_rule, by_bounds = Paper().decide(scores), BOUNDED.decide(scores)
    d = by_rule.decision
    assert (d.mu, d.sigma, d.tau) == pytest.approx((mu, sigma, tau), abs=1e-6)
    assert list(by_rule.verdicts) == paper
    assert list(by_bounds.verdicts) == bounded
    assert by_bounds.decision.tau_raw == pytest.approx(tau, abs=1e-6)
    assert by_bounds.decision.tau == pytest.approx(min(max(tau, 0.5), 0.9), abs=1e-6)


@pytest.mark.parametrize("n", range(1, 60))
@pytest.mark.parametrize(
    "policy", [Paper(k=0.3), Paper(k=5), BOUNDED, Bounded(k=3), Fixed(), Conformal()], ids=lambda p: f"{p.name} k={p.k}"
)
def test_equal_scores_are_decided_alike_whatever_the_rounding_of_the_mean(n: int, policy: Policy) -> None:
    assert policy.decide([0.7] * n).verdicts == (S,) * n


@pytest.mark.parametrize(
    ("scores", "warned"),
    [
        ([0.99, 0.99, 0.99, 0.99, -0.95], "τ = 1.1452 is unreachable (no score can reach it)"),
        ([0.9, 0.9, 0.9, -0.9], "τ = 0.9956 is unreachable (the strongest score of this answer is 0.900)"),
        ([0.9, 0.9, -0.9], None),
        ([0.0, 0.0], None),
        ([None], None),
    ],
)
def test_paper_warns_when_no_claim_can_reach_tau(scores: list[float | None], warned: str | None) -> None:
    warnings = Paper().decide(scores).warnings
    assert warnings == () if warned is None else warned in warnings[0]


def test_bounded_warns_when_its_floor_is_above_every_score() -> None:
    assert "unreachable" in Bounded(floor=0.8).decide([0.6, -0.6]).warnings[0]


def test_fixed_reports_statistics_that_it_does_not_use() -> None:
    decided = Fixed(threshold=0.7).decide([0.7, -0.7, 0.69, -0.69, 0.0])
    assert decided.verdicts == (S, C, U, U, U)
    d = decided.decision
    assert (d.tau, d.threshold) == (0.7, 0.7)
    assert d.mu == pytest.approx(0.0)
    empty = Fixed().decide([]).decision
    assert (empty.mu, empty.tau_raw, empty.tau) == (None, None, 0.7)


@pytest.mark.parametrize("policy", [Paper(), BOUNDED])
def test_nothing_scored_gives_no_tau(policy: Policy) -> None:
    decided = policy.decide([None, math.nan])
    assert (decided.decision.mu, decided.decision.sigma, decided.decision.tau) == (None, None, None)
    assert decided.verdicts == (F, F)


def test_conformal_threshold_is_the_corrected_quantile_of_true_claims() -> None:
    # 9 true claims; (9 + 1)(1 - 0.2) = 8, so the 8th smallest contradiction strength.
    true_scores = [0.9, 0.8, 0.0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6]
    assert conformal_threshold(true_scores, 0.2) == 0.5
    assert conformal_threshold(true_scores, 0.1) == 0.6
    assert conformal_threshold(true_scores, 0.05) == math.inf
    assert conformal_threshold([], 0.5) == math.inf


def test_conformal_flags_only_above_its_threshold() -> None:
    policy = Conformal(threshold=0.5, alpha=0.2, provisional=False)
    decided = policy.decide([-0.5, -0.51, 0.6, 0.45, 0.0, None])
    assert decided.verdicts == (U, C, S, U, U, F)
    assert decided.warnings == ()
    assert (decided.decision.alpha, decided.decision.threshold) == (0.2, 0.5)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.sampled_from([0.05, 0.1, 0.2, 0.5]))
def test_conformal_flags_at_most_alpha_of_its_own_exchangeable_claims(scores: list[float], alpha: float) -> None:
    """Leave-one-in check: each claim in turn is the new one; at most alpha (n + 1) of them can be flagged."""
    flagged = 0
    for i, score in enumerate(scores):
        threshold = conformal_threshold(scores[:i] + scores[i + 1 :], alpha)
        flagged += Conformal(threshold=threshold, alpha=alpha).decide([score]).verdicts[0] is C
    assert flagged <= alpha * len(scores) + 1e-9


def test_conformal_says_when_it_guarantees_nothing() -> None:
    assert "not calibrated" in Conformal().decide([0.5]).warnings[0]
    never = Conformal(threshold=math.inf, provisional=False).decide([-1.0])
    assert never.verdicts == (U,)
    assert "too few calibration claims" in never.warnings[0]
    assert never.decision.tau is None


@given(st.lists(SCORES, max_size=12), st.sampled_from([Paper(), BOUNDED, Fixed(), Conformal(), Bounded(k=9)]))
def test_verdicts_never_contradict_the_label_and_failures_change_nothing(
    scores: list[float | None], policy: Policy
) -> None:
    verdicts = policy.decide(scores).verdicts
    for score, verdict in zip(scores, verdicts, strict=True):
        if score is None or math.isnan(score):
            assert verdict is F
        else:
            assert verdict in {1: (S, U), -1: (C, U), 0: (U,)}[(score > 0) - (score < 0)]
    finite = [s for s in scores if s is not None and not math.isnan(s)]
    assert [v for v in verdicts if v is not F] == list(policy.decide(finite).verdicts)


@given(st.integers(1, 40), st.integers(0, 40), st.sampled_from([0.3, 0.5, 0.7, 1.0]))
def test_blind_spot_of_the_paper_is_where_the_formula_says(n: int, m: int, k: float) -> None:
    """m of n contradicted at equal confidence are flagged exactly when p = m/n >= k²/(1 + k²)."""
    m = min(m, n)
    share, limit = m / n, k * k / (1 + k * k)
    if m in (0, n) or abs(share - limit) < 1e-6:
        return
    verdicts = Paper(k=k).decide([-0.8] * m + [0.8] * (n - m)).verdicts
    assert (C in verdicts) == (share > limit)


def test_statistics_leave_out_what_is_not_finite() -> None:
    assert statistics([1.0, -1.0, None, math.nan, math.inf]) == (0.0, 1.0)
    assert statistics([None]) == (None, None)


def test_make_policy_passes_each_policy_its_own_options() -> None:
    options = {"k": 0.5, "threshold": 0.6, "floor": 0.4, "ceiling": 0.8, "alpha": 0.05}
    assert make_policy("paper", **options) == Paper(k=0.5)
    assert make_policy("fixed", **options) == Fixed(k=0.5, threshold=0.6)
    assert make_policy("bounded", **options) == Bounded(k=0.5, floor=0.4, ceiling=0.8)
    assert make_policy("conformal", **options) == Conformal(k=0.5, threshold=0.6, alpha=0.05)
    assert make_policy("bounded", k=None) == Bounded()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("strict", {}, "unknown policy 'strict'; there are bounded, conformal, fixed, paper"),
        ("paper", {"k": math.nan}, "k must be a finite number of at least 0, got nan"),
        ("paper", {"k": -0.1}, "k must be a finite number of at least 0, got -0.1"),
        ("fixed", {"threshold": 1.5}, "threshold must be a number from 0 to 1, got 1.5"),
        ("bounded", {"floor": 0.9, "ceiling": 0.5}, "floor must not exceed ceiling"),
        ("bounded", {"ceiling": 1.0}, "ceiling must be below 1"),
        ("bounded", {"floor": math.inf}, "floor must be a number from 0 to 1, got inf"),
        ("conformal", {"alpha": 0.0}, "alpha must be between 0 and 1"),
        ("conformal", {"threshold": 2.0}, "threshold must be a number from 0 to 1, got 2.0"),
    ],
)
def test_settings_out_of_range_are_refused_by_name_and_value(
    name: str, options: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace(")", r"\)")):
        make_policy(name, **options)


def test_conformal_calibration_refuses_bad_input() -> None:
    with pytest.raises(ConfigError, match="alpha must be between 0 and 1"):
        conformal_threshold([0.1], 1.0)
    with pytest.raises(ConfigError, match=r"signed scores must be in \[-1, 1\]"):
        conformal_threshold([2.0], 0.1)


def test_shared_cases_of_the_decision_rule(shared_cases: dict[str, dict[str, object]]) -> None:
    """The cases TH-… as they are kept outside the project, where that folder is at hand."""
    for name, case in shared_cases.items():
        if name.startswith("TH-"):
            _check_case(json.loads(json.dumps(case)))


def _check_case(case: dict[str, dict[str, list[float]]]) -> None:
    scores, expected = case["input"]["signed_scores"], case["expected"]
    for policy in (Paper(k=case["input"]["k"]), BOUNDED):  # type: ignore[arg-type]
        verdicts = policy.decide(scores).verdicts
        for word, verdict in (("contradicted", C), ("supported", S)):
            key = f"{word}_{policy.name}"
            if key in expected:
                assert [i for i, v in enumerate(verdicts) if v is verdict] == expected[key], (case["id"], key)

"""What is promised, simulated: the bound of `conformal`, the blind spot of `paper`, and that `bounded` has none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean, pvariance

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.eval_records import C, S

from corrigenda.calibrate import LabelledScore, fit
from corrigenda.policies import Bounded, Conformal, Paper, conformal_threshold

TRIALS = 3000
CASES = [(19, 0.05), (30, 0.1), (99, 0.05), (150, 0.2)]


def rank(n: int, alpha: float) -> int:
    return math.ceil((n + 1) * (1 - alpha) - 1e-9)


@pytest.mark.parametrize(("n", "alpha"), CASES)
def test_the_rate_of_false_flags_is_at_most_alpha_and_as_the_beta_distribution_says(n: int, alpha: float) -> None:
    """With strengths u³ of a uniform u, P(flag) at a threshold t is 1 - t^(1/3), so each trial's rate is exact."""
    draw = random.Random(7)
    rates = [
        1 - conformal_threshold([-(draw.random() ** 3) for _ in range(n)], alpha) ** (1 / 3) for _ in range(TRIALS)
    ]
    a, b = n + 1 - rank(n, alpha), rank(n, alpha)  # the rate is distributed as Beta(a, b)
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    tolerance = 4 * math.sqrt(variance / TRIALS)
    assert mean <= alpha + 1e-12
    assert fmean(rates) == pytest.approx(mean, abs=tolerance)
    assert pvariance(rates) == pytest.approx(variance, rel=0.2)


def coarse(draw: random.Random) -> float:
    """One of five values, so that scores tie all the time; half of them say that a true claim is supported."""
    return draw.choice([0.9, 0.9, 0.0, -0.4, -0.4, -0.7, -1.0])


def drifting(draw: random.Random) -> float:
    """A score between -1 and 1, mostly right."""
    return max(-1.0, min(1.0, draw.gauss(0.5, 0.6)))


@pytest.mark.parametrize("score", [coarse, drifting])
@pytest.mark.parametrize(("n", "alpha"), CASES)
def test_a_new_true_claim_is_flagged_at_most_alpha_of_the_time_whatever_the_distribution(
    n: int, alpha: float, score: Callable[[random.Random], float]
) -> None:
    draw = random.Random(11)
    flags = 0
    for _ in range(TRIALS):
        policy = Conformal(threshold=conformal_threshold([score(draw) for _ in range(n)], alpha), alpha=alpha)
        flags += policy.decide([score(draw)]).verdicts[0] is C
    assert flags / TRIALS <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / TRIALS)


def test_the_fitted_policy_keeps_the_bound_where_claims_of_a_group_are_alike() -> None:
    """Four claims a group with one score: taking them all would count each group four times over."""
    pytest.importorskip("scipy", reason="the extra `eval` is not installed")
    draw = random.Random(3)
    alpha, trials, flags = 0.2, 60, 0
    for trial in range(trials):
        scores = []
        for group in range(14):
            signed = drifting(draw)
            scores += [
                LabelledScore(signed=signed, label=S, answer=f"{group}.{i}", group=str(group), unit=f"{group}.{i}")
                for i in range(4)
            ]
        policy = fit(scores, objective="conformal", alpha=alpha, seed=trial).file.build()
        flags += sum(policy.decide([drifting(draw)]).verdicts[0] is C for _ in range(50))
    # The rate of one calibration is Beta(3, 12) with a standard deviation of 0.1.
    assert flags / (50 * trials) <= alpha + 4 * 0.1 / math.sqrt(trials)


@given(
    st.integers(2, 40),
    st.integers(1, 40),
    st.floats(0.34, 1.0),
    st.one_of(st.sampled_from([0.3, 0.5, 0.7, 1.0]), st.floats(0.05, 2.0)),
)
def test_paper_flags_nothing_below_its_blind_spot_and_bounded_flags_all(n: int, m: int, c: float, k: float) -> None:
    """m of n claims contradicted at -c, the rest supported at c: p = m/n < k²/(1 + k²) is never flagged by `paper`."""
    assume(m < n)
    share, limit = m / n, k * k / (1 + k * k)
    assume(abs(share - limit) > 1e-6)
    scores = [-c] * m + [c] * (n - m)
    assert (C in Paper(k=k).decide(scores).verdicts) == (share > limit)
    ceiling = min(c, 0.99)
    assert Bounded(k=k, floor=0.33, ceiling=ceiling).decide(scores).verdicts[:m] == (C,) * m

from __future__ import annotations

import random
from statistics import fmean

import numpy as np
import pytest
from scipy import stats as scipy_stats
from tests.eval_records import near

from corrigenda.errors import InputError, MissingExtra
from corrigenda.evals import stats
from corrigenda.evals.metrics import auc_pr, auroc, expected_calibration_error, quantile
from corrigenda.evals.stats import Bootstrap, Estimate, McNemar, Row, holm, mcnemar, wilcoxon

NOT_THERE = Estimate(value=None, low=None, high=None, n=0)


def units(n: int, seed: int) -> tuple[list[str], list[float], list[bool]]:
    draw = random.Random(seed)
    gold = [draw.random() < 0.4 for _ in range(n)]
    scores = [round(min(1.0, max(0.0, draw.gauss(0.4 + 0.2 * g, 0.2))), 2) for g in gold]
    return [f"g{i // 2}" for i in range(n)], scores, gold


def test_a_ratio_is_sum_over_sum_with_its_interval() -> None:
    draws = Bootstrap("abcd", resamples=500, seed=1)
    rows = [Row(group=g, parts={"share": (x, 1)}) for g, x in zip("abcd", (1, 0, 1, 1), strict=True)]
    found = draws.ratios(rows, ["share", "never measured"])
    assert found["share"].value == 0.75
    assert found["share"].n == 4
    assert (found["share"].low, found["share"].high) == (0.25, 1.0)
    assert found["never measured"] == NOT_THERE


def test_totals_are_sums_of_the_numerators() -> None:
    draws = Bootstrap("ab", resamples=200, seed=1)
    rows = [Row(group="a", parts={"fixed": (1, 1)}), Row(group="b", parts={"fixed": (1, 1)})]
    assert draws.ratios(rows, ["fixed"], frozenset({"fixed"}))["fixed"] == Estimate(value=2, low=2, high=2, n=2)


def test_repeats_share_the_weight_of_their_item() -> None:
    draws = Bootstrap("ab", resamples=10)
    rows = [Row(group="a", weight=1 / 3, parts={"m": (x, 1)}) for x in (1, 1, 0)] + [
        Row(group="b", parts={"m": (0, 1)})
    ]
    found = draws.ratios(rows, ["m"])["m"]
    assert found.value == near(1 / 3)
    assert found.as_json()["n"] == 2


def test_a_third_part_is_n() -> None:
    row = Row(group="a", parts={"f1": (2, 3, 1)})
    found = Bootstrap("a", resamples=5).ratios([row], ["f1"])["f1"]
    assert (found.value, found.n) == (near(2 / 3), 1)


def test_the_same_seed_and_groups_give_the_same_draws_in_any_order() -> None:
    rows = [Row(group=g, parts={"m": (i, 1)}) for i, g in enumerate("abcdef")]
    one, two = Bootstrap("abcdef", resamples=50, seed=3), Bootstrap("fedcba", resamples=50, seed=3)
    assert one.ratios(rows, ["m"]) == two.ratios(rows[::-1], ["m"])
    assert one.ratios(rows, ["m"]) != Bootstrap("abcdef", resamples=50, seed=4).ratios(rows, ["m"])


def test_groups_are_drawn_whole() -> None:
    """Ten copies of one observation in a group say no more than one: the interval is that of the groups."""
    values = {"a": 0.0, "b": 1.0, "c": 1.0, "d": 0.0, "e": 1.0}
    once = [Row(group=g, parts={"m": (v, 1)}) for g, v in values.items()]
    copied = once * 10
    draws = Bootstrap(values, resamples=400, seed=2)
    first, second = draws.ratios(once, ["m"])["m"], draws.ratios(copied, ["m"])["m"]
    assert (first.value, first.low, first.high) == (second.value, second.low, second.high)


def test_draws_with_nothing_to_divide_by_take_no_part() -> None:
    rows = [Row(group="a", parts={"precision": (1, 1)}), Row(group="b", parts={})]
    found = Bootstrap("ab", resamples=200).ratios(rows, ["precision"])["precision"]
    assert found == Estimate(value=1.0, low=1.0, high=1.0, n=1)


def test_a_change_is_taken_over_the_same_draws() -> None:
    groups = [str(i) for i in range(30)]
    first = [Row(group=g, parts={"m": (i % 2, 1)}) for i, g in enumerate(groups)]
    second = [Row(group=g, parts={"m": (i % 2 + 0.25, 1)}) for i, g in enumerate(groups)]
    found = Bootstrap(groups, resamples=200).changes(first, second, ["m", "missing"])
    assert (found["m"].value, found["m"].low, found["m"].high) == (near(0.25),) * 3
    assert found["missing"] == NOT_THERE


@pytest.mark.parametrize("seed", range(3))
def test_curves_quantiles_and_calibration_have_the_values_of_the_plain_formulas(seed: int) -> None:
    groups, scores, gold = units(120, seed)
    draws = Bootstrap(groups, resamples=50, seed=seed)
    ones = [1.0] * len(groups)
    roc, pr = draws.ranking(groups, ones, scores, gold)
    assert roc.value == near(auroc(scores, gold))
    assert pr.value == near(auc_pr(scores, gold))
    assert draws.calibration(groups, ones, scores, gold).value == near(expected_calibration_error(scores, gold))
    levels = [0.5, 0.95, 0.99]
    assert [q.value for q in draws.quantiles(groups, ones, scores, levels)] == [quantile(scores, x) for x in levels]


def test_each_draw_of_a_curve_is_the_curve_of_the_drawn_units() -> None:
    """Resample by hand with the bootstrap's own counts and compare the ends of the interval."""
    groups, scores, gold = units(40, 5)
    draws = Bootstrap(groups, resamples=60, seed=9)
    values = []
    for counts in draws._counts:
        taken = [i for i, g in enumerate(groups) for _ in range(counts[draws.index[g]])]
        values.append(auroc([scores[i] for i in taken], [gold[i] for i in taken]))
    found, _ = draws.ranking(groups, [1.0] * 40, scores, gold)
    low, high = np.quantile([v for v in values if v is not None], [0.025, 0.975])
    assert (found.low, found.high) == (near(low), near(high))


def test_measures_without_units_are_nothing() -> None:
    draws = Bootstrap([], resamples=3)
    assert draws.ranking([], [], [], []) == (NOT_THERE, NOT_THERE)
    assert draws.quantiles([], [], [], [0.5]) == [NOT_THERE]
    assert draws.calibration([], [], [], []) == NOT_THERE


def test_95_percent_intervals_of_a_mean_hold_the_truth_about_95_times_in_100() -> None:
    """Items that share a group are nearly copies; an interval by item would hold it far less often."""
    generator = np.random.default_rng(11)
    held, runs, truth = 0, 200, 0.6
    for run in range(runs):
        rows = []
        for group in range(60):
            right = generator.random() < truth
            rows += [Row(group=str(group), parts={"m": (right, 1)}) for _ in range(4)]
        found = Bootstrap((r.group for r in rows), resamples=300, seed=run).ratios(rows, ["m"])["m"]
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert 0.90 <= held / runs <= 0.99


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="resamples must be at least 1, got 0"):
        Bootstrap("a", resamples=0)
    with pytest.raises(InputError, match=r"confidence must be between 0 and 1 .* got 95"):
        Bootstrap("a", confidence=95)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "find_spec", lambda name: None if name == "scipy" else object())
    with pytest.raises(MissingExtra, match=r"'scipy', which is not installed; run: pip install \"corrigenda\[eval\]\""):
        mcnemar([(1, 0)])


def test_mcnemar_by_hand() -> None:
    pairs = [(1.0, 0.0)] * 2 + [(0.0, 1.0)] * 8 + [(1.0, 1.0)] * 5
    # two-sided binomial: 2 (1 + 10 + 45) / 1024; mid-p takes half of the probability of exactly 2 away, twice
    assert mcnemar(pairs) == McNemar(
        n=15, only_first=2, only_second=8, p=near(112 / 1024), p_mid=near(67 / 1024), odds_ratio=4.0
    )


def test_mcnemar_without_a_difference_has_p_1() -> None:
    same = McNemar(n=3, only_first=0, only_second=0, p=1.0, p_mid=1.0, odds_ratio=None)
    assert mcnemar([(1, 1), (0, 0), (1, 1)]) == same
    even = mcnemar([(1, 0), (0, 1)])
    assert (even.p, even.p_mid, even.odds_ratio) == (1.0, near(1.0), 1.0)
    assert mcnemar([]).p == 1.0


def test_mcnemar_over_repeats_counts_an_item_for_the_side_that_is_right_more_often() -> None:
    found = mcnemar([(2 / 3, 1 / 3), (0.0, 1 / 3), (1 / 3, 1 / 3)])
    assert (found.only_first, found.only_second) == (1, 1)


def test_wilcoxon_agrees_with_scipy_and_drops_equal_pairs() -> None:
    draw = random.Random(4)
    pairs = [(a := draw.random(), a + draw.gauss(0.1, 0.2)) for _ in range(30)] + [(1.0, 1.0)]
    found = wilcoxon(pairs)
    expected = scipy_stats.wilcoxon([b for _, b in pairs[:-1]], [a for a, _ in pairs[:-1]])
    assert (found.n, found.n_different, found.p) == (31, 30, near(expected.pvalue))


def test_wilcoxon_by_hand() -> None:
    found = wilcoxon([(1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (5.0, 1.0)])  # gaps +1 +2 +3 -4
    assert (found.median_difference, found.rank_biserial) == (1.5, near((1 + 2 + 3 - 4) / 10))
    # sums of ranks at most 4 for one side, of 16 ways: {}, 1, 2, 3, 4, 12, 13 - twice
    assert found.p == near(14 / 16)
    same = wilcoxon([(1.0, 1.0)])
    assert (same.p, same.n_different, same.rank_biserial, same.median_difference) == (1.0, 0, 0.0, 0.0)
    assert wilcoxon([]).median_difference is None


def test_holm_by_hand() -> None:
    # sorted: .01 × 4, .02 × 3 = .06, .03 × 2 = .06, .5
    assert holm([0.02, 0.5, 0.01, 0.03]) == near([0.06, 0.5, 0.04, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_an_estimate_is_plain_json() -> None:
    assert Estimate(value=0.5, low=0.25, high=1.0, n=2.0000000001).as_json() == {
        "value": 0.5,
        "low": 0.25,
        "high": 1.0,
        "n": 2,
    }
    assert Estimate(value=fmean([1]), low=1, high=1, n=2 / 3).as_json()["n"] == 0.666667

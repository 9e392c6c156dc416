from __future__ import annotations

import random

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score
from tests.eval_records import near

from corrigenda.evals.metrics import (
    Bin,
    accuracy,
    auc_pr,
    auroc,
    bin_of,
    expected_calibration_error,
    f1,
    mean,
    precision,
    quantile,
    recall,
    reliability,
)

T, F = True, False


def random_scores(seed: int, n: int = 200) -> tuple[list[float], list[bool]]:
    """Scores with many ties, and gold labels that go with them loosely."""
    draw = random.Random(seed)
    gold = [draw.random() < 0.3 for _ in range(n)]
    return [round(min(1.0, max(0.0, draw.gauss(0.4 + 0.2 * label, 0.2))), 1) for label in gold], gold


def test_shares_by_hand() -> None:
    assert (accuracy(3, 4), precision(3, 1), recall(3, 2), f1(3, 1, 2)) == (0.75, 0.75, 0.6, 6 / 9)
    assert mean([1.0, 2.0, 6.0]) == 3.0


def test_nothing_to_divide_by_is_none_and_nothing_found_is_zero() -> None:
    assert (accuracy(0, 0), precision(0, 0), recall(0, 0), f1(0, 0, 0), mean([])) == (None,) * 5
    assert (precision(0, 2), recall(0, 2), f1(0, 0, 2)) == (0.0, 0.0, 0.0)


def test_auroc_by_hand() -> None:
    # pairs: (.9, .8) won, (.9, .1) won, (.3, .8) lost, (.3, .1) won
    assert auroc([0.9, 0.3, 0.8, 0.1], [T, T, F, F]) == 0.75
    assert auroc([0.5, 0.5], [T, F]) == 0.5
    assert auroc([0.5, 0.6], [T, T]) is None
    assert auroc([], []) is None


def test_average_precision_by_hand() -> None:
    # from the top: hit (1/1), miss, hit (2/3); each hit is half of the recall
    assert auc_pr([0.9, 0.8, 0.7, 0.1], [T, F, T, F]) == pytest.approx((1 + 2 / 3) / 2)
    assert auc_pr([0.5, 0.5, 0.5, 0.5], [T, F, F, F]) == 0.25
    assert auc_pr([0.5], [F]) is None


@pytest.mark.parametrize("seed", range(5))
def test_curves_and_shares_agree_with_scikit_learn(seed: int) -> None:
    scores, gold = random_scores(seed)
    flagged = [s >= 0.5 for s in scores]
    tp = sum(f and g for f, g in zip(flagged, gold, strict=True))
    fp, fn = sum(flagged) - tp, sum(gold) - tp
    assert auroc(scores, gold) == pytest.approx(roc_auc_score(gold, scores))
    assert auc_pr(scores, gold) == pytest.approx(average_precision_score(gold, scores))
    assert precision(tp, fp) == pytest.approx(precision_score(gold, flagged))
    assert recall(tp, fn) == pytest.approx(recall_score(gold, flagged))
    assert f1(tp, fp, fn) == pytest.approx(f1_score(gold, flagged))


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 0.95, 0.99, 1.0])
@pytest.mark.parametrize("n", [1, 4, 20, 101])
def test_quantiles_agree_with_numpys_inverted_cdf(level: float, n: int) -> None:
    draw = random.Random(n)
    values = [draw.random() for _ in range(n)]
    assert quantile(values, level) == np.quantile(values, level, method="inverted_cdf")


def test_a_quantile_is_a_measured_value() -> None:
    assert [quantile([4.0, 1.0, 3.0, 2.0], level) for level in (0.25, 0.5, 0.51, 0.95)] == [1.0, 2.0, 3.0, 4.0]
    assert quantile([], 0.5) is None
    with pytest.raises(ValueError, match=r"level must be in \[0, 1\], got 95"):
        quantile([1.0], 95)


def test_reliability_bins_by_hand() -> None:
    found = reliability([0.1, 0.2, 0.9, 1.0], [F, T, T, T], bins=2)
    assert found == (
        Bin(low=0.0, high=0.5, score=near(0.15), observed=0.5, n=2),
        Bin(low=0.5, high=1.0, score=near(0.95), observed=1.0, n=2),
    )
    # |0.15 - 0.5| and |0.95 - 1|, half each
    assert expected_calibration_error([0.1, 0.2, 0.9, 1.0], [F, T, T, T], bins=2) == pytest.approx(0.2)


def test_the_last_bin_has_its_end_and_empty_bins_are_left_out() -> None:
    assert (bin_of(0.0), bin_of(0.0667), bin_of(1.0)) == (0, 1, 14)
    assert [b.n for b in reliability([0.0, 1.0], [F, T])] == [1, 1]
    assert expected_calibration_error([0.0, 1.0], [F, T]) == 0.0
    assert expected_calibration_error([], []) is None


def test_weights_count_units_by_less_than_one() -> None:
    (found,) = reliability([0.2, 0.4], [T, F], bins=1, weights=[0.5, 1.5])
    assert found == Bin(low=0.0, high=1.0, score=near(0.35), observed=0.25, n=2.0)


def test_a_score_that_is_no_probability_has_no_calibration() -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\], got -0\.4"):
        expected_calibration_error([-0.4, 0.5], [T, F])

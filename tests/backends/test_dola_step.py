"""The arithmetic of one DoLa step, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from corrigenda.backends.dola_step import (
    candidate_layers,
    contrast,
    drawn,
    jensen_shannon,
    most_likely,
    penalised,
)
from corrigenda.errors import ConfigError


def logs(*probabilities: float) -> Any:
    return torch.tensor(probabilities, dtype=torch.float64).log()


# Which layers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "layers", "tied", "expected"),
    [
        ("low", 32, False, tuple(range(0, 16, 2))),  # the paper's LLaMA 7B
        ("high", 32, False, tuple(range(16, 32, 2))),
        ("low", 40, False, tuple(range(0, 20, 2))),  # 13B
        ("low", 60, False, tuple(range(0, 20, 2))),  # 33B: three buckets
        ("high", 60, False, tuple(range(40, 60, 2))),
        ("high", 80, False, tuple(range(60, 80, 2))),  # 65B: four
        ("low", 28, True, (2, 4, 6, 8, 10, 12)),  # Qwen2.5 1.5B
        ("high", 28, True, (14, 16, 18, 20, 22, 24, 26)),
        ("high", 30, False, (16, 18, 20, 22, 24, 26, 28)),
        ("low", 3, True, (2,)),
        ("low", 2, True, (1,)),
        ("low", 1, True, (0,)),
        ("high", 2, True, (1,)),
        ("low", 2, False, (0,)),
        ((5, 3, 5), 8, True, (3, 5)),
        ((0,), 8, True, (0,)),
    ],
)
def test_candidate_layers(wanted: Any, layers: int, tied: bool, expected: tuple[int, ...]) -> None:
    assert candidate_layers(wanted, layers, tied=tied) == expected


@pytest.mark.parametrize("wanted", [(), (8,), (-1,), (True,), (1.5,)])
def test_layers_out_of_range(wanted: Any) -> None:
    with pytest.raises(ConfigError, match="numbers from 0 to 7"):
        candidate_layers(wanted, 8, tied=False)
    with pytest.raises(ConfigError, match="got 'middle'"):
        candidate_layers("middle", 8, tied=False)


# Divergence and contrast --------------------------------------------------------------------------------------------


def test_the_divergence_by_hand() -> None:
    """P = (1/2, 1/2), Q = (1/4, 3/4), M = (3/8, 5/8).

    KL(P‖M) = 1/2 ln(4/3) + 1/2 ln(4/5), KL(Q‖M) = 1/4 ln(2/3) + 3/4 ln(6/5).
    """
    by_hand = (0.5 * math.log(4 / 3) + 0.5 * math.log(4 / 5) + 0.25 * math.log(2 / 3) + 0.75 * math.log(6 / 5)) / 2
    assert by_hand == pytest.approx(0.0338221)
    assert float(jensen_shannon(logs(0.5, 0.5), logs(0.25, 0.75))) == pytest.approx(by_hand)
    assert float(jensen_shannon(logs(0.25, 0.75), logs(0.5, 0.5))) == pytest.approx(by_hand), "it is symmetric"


def test_the_divergence_of_equal_and_of_nearly_disjoint_distributions() -> None:
    assert float(jensen_shannon(logs(0.2, 0.8), logs(0.2, 0.8))) == pytest.approx(0.0, abs=1e-12)
    assert float(jensen_shannon(logs(1.0, 1e-300), logs(1e-300, 1.0))) == pytest.approx(math.log(2))


def test_a_step_by_hand() -> None:
    """The second candidate differs more; the third token is below a tenth of the first one's probability."""
    final = logs(0.6, 0.35, 0.05)
    step = contrast(final, torch.stack([logs(0.5, 0.4, 0.1), logs(0.9, 0.05, 0.05)]), 0.1)
    assert step.layer == 1
    assert step.scores.tolist() == pytest.approx([math.log(0.6 / 0.9), math.log(0.35 / 0.05), -math.inf])
    assert step.final.tolist() == pytest.approx([math.log(0.6), math.log(0.35), math.log(0.05)])
    assert step.divergence == pytest.approx(float(jensen_shannon(final, logs(0.9, 0.05, 0.05))), abs=1e-6)
    assert most_likely(step.scores, step.final) == 1, "what the later layers have added decides"


def test_logits_need_not_be_normalised() -> None:
    plain = contrast(logs(0.6, 0.35, 0.05), torch.stack([logs(0.9, 0.05, 0.05)]), 0.1)
    moved = contrast(logs(0.6, 0.35, 0.05) + 7, torch.stack([logs(0.9, 0.05, 0.05)]) - 3, 0.1)
    assert moved.scores.tolist() == pytest.approx(plain.scores.tolist(), abs=1e-5)


@pytest.mark.parametrize(("alpha", "plausible"), [(1.0, [0]), (0.5, [0, 1]), (0.1, [0, 1]), (0.05, [0, 1, 2])])
def test_the_plausibility_constraint(alpha: float, plausible: list[int]) -> None:
    step = contrast(logs(0.6, 0.35, 0.05), torch.stack([logs(0.1, 0.1, 0.8)]), alpha)
    assert [i for i, score in enumerate(step.scores.tolist()) if score > -math.inf] == plausible


def test_equal_layers_leave_the_final_layers_choice() -> None:
    final = logs(0.3, 0.1, 0.5, 0.1)
    step = contrast(final, torch.stack([final, final]), 0.1)
    assert step.layer == 0
    assert step.divergence == pytest.approx(0.0, abs=1e-7)
    assert step.scores.tolist() == pytest.approx([0.0, 0.0, 0.0, 0.0])
    assert most_likely(step.scores, step.final) == 2
    assert most_likely(penalised(step.scores, [2], 1.2), step.final) == 2


# Penalty and choice -------------------------------------------------------------------------------------------------


def test_the_penalty_lowers_scores_of_either_sign() -> None:
    scores = torch.tensor([2.4, -1.0, 3.0, -math.inf])
    assert penalised(scores, [0, 1, 3, 0], 1.2).tolist() == pytest.approx([2.0, -1.2, 3.0, -math.inf])
    assert scores.tolist() == pytest.approx([2.4, -1.0, 3.0, -math.inf]), "what was passed in is not changed"
    assert penalised(scores, [], 1.2) is scores
    assert penalised(scores, [0], 1) is scores


def draws(scores: Any, seed: int, **settings: float) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    settings = {"temperature": 1.0, "top_p": 1.0} | settings
    return [drawn(scores, generator=generator, **settings) for _ in range(200)]


def test_draws_follow_the_distribution_and_the_seed() -> None:
    scores = torch.cat([logs(0.7, 0.3), torch.tensor([-math.inf])])
    assert draws(scores, 1) == draws(scores, 1)
    assert draws(scores, 1) != draws(scores, 2)
    assert set(draws(scores, 1)) == {0, 1}
    assert 0.6 < draws(scores, 3).count(0) / 200 < 0.8
    assert set(draws(scores, 1, temperature=0.01)) == {0}


def test_the_nucleus_is_the_smallest_set_with_the_mass() -> None:
    scores = logs(0.2, 0.5, 0.3)
    assert set(draws(scores, 1, top_p=0.5)) == {1}
    assert set(draws(scores, 1, top_p=0.51)) == {1, 2}
    assert set(draws(scores, 1, top_p=0.9)) == {0, 1, 2}

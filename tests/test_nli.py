import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.errors import ConfigError
from corrigenda.nli import label_order, padded_share, plan_batches, probabilities
from corrigenda.types import Entailment, PairFailure


@pytest.mark.parametrize(
    ("id2label", "order"),
    [
        ({"0": "entailment", "1": "neutral", "2": "contradiction"}, (0, 1, 2)),
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, (1, 2, 0)),
        ({"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"}, (2, 1, 0)),
        ({"2": " Entailment ", "0": "contradictory", "1": "Neutral"}, (2, 1, 0)),
        (["neutral", "entails", "contradicts"], (1, 0, 2)),
    ],
)
def test_label_order_follows_the_names(id2label: dict[str, str], order: tuple[int, int, int]) -> None:
    assert label_order(id2label) == order


def test_three_models_with_different_orders_say_the_same() -> None:
    models = [
        ({"0": "entailment", "1": "neutral", "2": "contradiction"}, [-1.5, 0.5, 2.5]),
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, [2.5, -1.5, 0.5]),
        ({"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"}, [2.5, 0.5, -1.5]),
    ]
    results = [probabilities(logits, label_order(labels)) for labels, logits in models]  # type: ignore[arg-type]
    total = math.exp(-4) + math.exp(-2) + 1
    assert results[0] == results[1] == results[2]
    assert isinstance(results[0], Entailment)
    assert results[0].signed == pytest.approx(-1 / total, abs=1e-12)
    assert results[0].entailment == pytest.approx(math.exp(-4) / total, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "ambiguous: 'LABEL_0'"),
        ({"0": "entailment", "1": "not_entailment"}, "has 2 classes"),
        ({"0": "entailment", "1": "neutral", "2": "not_entailment"}, "ambiguous: 'not_entailment'"),
        ({"0": "entailment", "1": "neutral", "2": "Neutral"}, "ambiguous: 'Neutral'"),
        ({"0": "entailment", "1": "neutral", "2": "contradiction", "3": "other"}, "has 4 classes"),
        ({"1": "entailment", "2": "neutral", "3": "contradiction"}, "number its classes 0, 1 and 2"),
        ({"a": "entailment", "1": "neutral", "2": "contradiction"}, "'a': 'entailment'"),
        ({"0": None, "1": "neutral", "2": "contradiction"}, "'0': None"),
        ({}, "has 0 classes"),
        (None, "has 0 classes"),
        ("entailment", "has 0 classes"),
    ],
)
def test_ambiguous_labels_are_refused_with_the_remedy(labels: dict[str, str] | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        label_order(labels)
    assert "labels=" in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [["contradiction", "neutral", "entailment"], {2: "entailment", 1: "neutral", 0: "contradiction"}],
)
def test_an_explicit_map_wins_over_the_model(override: list[str]) -> None:
    assert label_order({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, override) == (2, 1, 0)


def test_an_explicit_map_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="labels= is ambiguous: 'yes'"):
        label_order({}, ["yes", "neutral", "contradiction"])


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([1000.0, 0.0, -1000.0], (0.0, 0.0, 1.0)),
        ([65504.0, 65504.0, -65504.0], (0.5, 0.0, 0.5)),
        ([-1000.0, -1000.0, -1000.0], (1 / 3, 1 / 3, 1 / 3)),
        ([1e308, -1e308, -1e308], (0.0, 0.0, 1.0)),
        ([-math.inf, 3.0, -math.inf], (1.0, 0.0, 0.0)),
        ([-math.inf, 0.0, 0.0], (0.5, 0.5, 0.0)),
    ],
)
def test_extreme_logits_give_exact_probabilities(logits: list[float], expected: tuple[float, float, float]) -> None:
    found = probabilities(logits, (1, 2, 0))
    assert isinstance(found, Entailment)
    assert (found.entailment, found.neutral, found.contradiction) == pytest.approx(expected, abs=1e-12)


def test_equal_top_classes_are_neutral() -> None:
    found = probabilities([7.0, 7.0, -7.0], (1, 2, 0))
    assert isinstance(found, Entailment)
    assert (found.label, found.signed) == ("neutral", 0.0)


@pytest.mark.parametrize(
    "logits",
    [
        [math.nan] * 3,
        [1.0, math.nan, 2.0],
        [math.inf, 0.0, 0.0],
        [math.inf, math.inf, 0.0],
        [-math.inf] * 3,
    ],
)
def test_unusable_logits_are_a_failure_and_not_a_score(logits: list[float]) -> None:
    found = probabilities(logits, (0, 1, 2))
    assert isinstance(found, PairFailure)
    assert found.reason.startswith("the verifier's logits are not usable: [")


@pytest.mark.parametrize("logits", [[], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_another_number_of_logits_is_a_failure(logits: list[float]) -> None:
    assert probabilities(logits, (0, 1, 2)) == PairFailure(
        reason=f"the verifier gave {len(logits)} logits where 3 are needed: {logits!r}"
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.floats(-1e3, 1e3))
def test_a_constant_added_to_all_logits_changes_nothing(logits: list[float], shift: float) -> None:
    one = probabilities(logits, (0, 1, 2))
    two = probabilities([value + shift for value in logits], (0, 1, 2))
    assert isinstance(one, Entailment)
    assert isinstance(two, Entailment)
    assert two.entailment == pytest.approx(one.entailment, abs=1e-8)
    assert two.contradiction == pytest.approx(one.contradiction, abs=1e-8)


def test_batches_hold_like_lengths_longest_first() -> None:
    assert plan_batches([5, 50, 6, 48, 5], max_pairs=8, max_tokens=100) == [[1, 3], [2, 0, 4]]


def test_a_batch_is_bounded_by_pairs_and_by_padded_tokens() -> None:
    assert plan_batches([4] * 5, max_pairs=2, max_tokens=100) == [[0, 1], [2, 3], [4]]
    assert plan_batches([4] * 5, max_pairs=9, max_tokens=12) == [[0, 1, 2], [3, 4]]


def test_a_pair_over_the_token_bound_still_goes_alone() -> None:
    assert plan_batches([300, 2, 2], max_pairs=8, max_tokens=100) == [[0], [1, 2]]


def test_without_padding_only_equal_lengths_share_a_batch() -> None:
    assert plan_batches([3, 4, 3, 4, 5], max_pairs=8, max_tokens=100, equal_only=True) == [[4], [1, 3], [0, 2]]


def test_nothing_gives_no_batch() -> None:
    assert plan_batches([], max_pairs=1, max_tokens=1) == []
    assert padded_share([], []) == 0.0


@pytest.mark.parametrize(("pairs", "tokens"), [(0, 5), (5, 0), (-1, 5)])
def test_limits_below_one_are_refused(pairs: int, tokens: int) -> None:
    with pytest.raises(ValueError, match=f"max_pairs={pairs}, max_tokens={tokens}"):
        plan_batches([1], max_pairs=pairs, max_tokens=tokens)


def test_padded_share_counts_what_is_added() -> None:
    assert padded_share([10, 6, 4], [[0, 1], [2]]) == pytest.approx(4 / 24)


@given(st.lists(st.integers(1, 500), max_size=60), st.integers(1, 9), st.integers(1, 2000), st.booleans())
def test_every_pair_is_in_one_batch_within_the_limits(
    lengths: list[int], max_pairs: int, max_tokens: int, equal_only: bool
) -> None:
    batches = plan_batches(lengths, max_pairs=max_pairs, max_tokens=max_tokens, equal_only=equal_only)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) <= max_pairs
        assert len(batch) == 1 or len(batch) * longest <= max_tokens
        assert not equal_only or {lengths[i] for i in batch} == {longest}

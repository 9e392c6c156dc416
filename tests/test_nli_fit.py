"""The fit of the chat verifier's constants, on made-up log-probabilities: every number can be judged by eye."""

import math

import pytest

from corrigenda.backends.nli_chat_scheme import Constants, Look, Sums, combine
from corrigenda.errors import InputError

pytest.importorskip("scipy", reason="the extra `eval` is not installed")

import numpy as np

from corrigenda import nli_fit

ONE = Constants(bias=-0.5, agree=0.4, differ=0.8, looks=(Look(direction=1, known=1.5, strength=0.7),))
TWO = ONE._replace(looks=(*ONE.looks, Look(direction=nli_fit.LATER, known=0.1, strength=0.3)))
SUMS: list[Sums] = [(math.log(a), math.log(b), math.log(1 - a - b)) for a in (0.1, 0.3, 0.5) for b in (0.1, 0.2, 0.3)]


@pytest.mark.parametrize(
    ("made", "looks"),
    [(ONE, [(one,) for one in SUMS]), (TWO, [(one, two) for one in SUMS for two in SUMS])],
    ids=["one look", "two looks"],
)
def test_the_fit_finds_the_constants_that_made_the_labels(made: Constants, looks: list[tuple[Sums, ...]]) -> None:
    probs = nli_fit.probabilities(made, looks)
    many = [
        (value, label)
        for value, row in zip(looks, probs, strict=True)
        for label in range(3)
        for _ in range(round(1000 * row[label]))
    ]
    found = nli_fit.fit([value for value, _ in many], [label for _, label in many])
    assert nli_fit.probabilities(found, looks) == pytest.approx(probs, abs=0.03)  # the penalty pulls a little


def test_the_fit_adds_no_constant_to_the_direction() -> None:
    """A look that holds true and false equally probable says nothing, whatever the labels."""
    even = ((-1.0, -2.0, -1.0),)
    found = nli_fit.fit([even, even, even, even, ((-1.0, -2.0, -3.0),)], [0, 0, 0, 1, 2])
    ((entailment, _, contradiction),) = nli_fit.probabilities(found, [even])
    assert entailment == contradiction


def test_arrays_and_single_pairs_are_scored_alike() -> None:
    sums = [(-0.1, -3.0, -4.0), (-9.0, -math.inf, -0.1), (-1.0, -1.0, -1.0), (-math.inf, 0.0, -math.inf)]
    looks: list[tuple[Sums, ...]] = [(one, two) for one in sums for two in sums]
    one_by_one = [(p.entailment, p.neutral, p.contradiction) for p in (combine(TWO, *pair) for pair in looks)]
    assert nli_fit.probabilities(TWO, looks) == pytest.approx(np.array(one_by_one), abs=1e-12)
    with pytest.raises(ValueError, match="cannot reshape"):
        nli_fit.probabilities(ONE, looks)


def test_both_looks_stand_where_the_first_one_gives_no_class_enough() -> None:
    first = np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
    both = np.array([[0.2, 0.2, 0.6], [0.6, 0.2, 0.2], [0.1, 0.8, 0.1]])
    found, unsure = nli_fit.cascaded(first, both, 0.8)
    assert found.tolist() == [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.1, 0.8, 0.1]]
    assert unsure.tolist() == [False, True, True]


def test_a_fit_without_a_class_is_refused() -> None:
    with pytest.raises(InputError, match="no pair of the class 'neutral'"):
        nli_fit.fit([((-1.0, -1.0, -1.0),)] * 2, [0, 2])


def test_measures_on_probabilities_that_can_be_judged_by_eye() -> None:
    probs = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6], [0.4, 0.2, 0.4]]
    labels = [0, 2, 1, 0, 2]
    assert nli_fit.measure(np.array(probs), labels) == nli_fit.Measured(
        n=5,
        n_binary=4,
        binary=0.75,  # the tie of the last pair counts as contradiction
        three_way=0.6,
        ece=0.2,  # |2 - 1.6| + |1 - 1.2| + |0 - 0.4|, over 5
        ece_binary=0.35,  # |2 - 1.6| + |0 - 0.6| + |0 - 0.4|, over 4
        flagged_entailment=0.5,
        flagged_neutral=0.0,
        flagged_contradiction=0.5,
    )


def test_shares_of_classes_that_are_absent_are_none() -> None:
    found = nli_fit.measure(np.array([[0.2, 0.6, 0.2]]), [1])
    assert (found.binary, found.ece_binary, found.flagged_entailment, found.flagged_contradiction) == (None,) * 4
    with pytest.raises(InputError, match="no pair to measure on"):
        nli_fit.measure(np.zeros((0, 3)), [])


@pytest.mark.parametrize(
    ("probs", "labels", "expected"),
    [
        ([(0.1, 0.6), (0.3, 0.9), (0.2, 0.75)], [0, 2, 2], (0.61, 0.76)),  # the true claim at 0.6 sets the floor
        ([(0.8, 0.1), (0.3, 0.6), (0.1, 0.8)], [0, 2, 2], (0.5, 0.61)),
        ([(0.8, 0.1), (0.6, 0.2)], [0, 2], (0.5, 0.5)),  # no contradiction is found: nothing to say about a ceiling
        ([(0.001, 0.995), (0.001, 0.998)], [0, 2], (0.99, 0.99)),
    ],
)
def test_bounds_follow_the_data(
    probs: list[tuple[float, float]], labels: list[int], expected: tuple[float, float]
) -> None:
    whole = np.array([(e, 1 - e - c, c) for e, c in probs])
    assert nli_fit.bounds(whole, labels) == pytest.approx(expected, abs=0.006)


def test_cross_validation_needs_enough_groups() -> None:
    with pytest.raises(InputError, match="needs at least 5 groups of unrelated pairs, got 2"):
        nli_fit.cross_validated([((-1.0, -1.0, -1.0),)] * 4, [0, 1, 2, 0], [0, 0, 1, 1])

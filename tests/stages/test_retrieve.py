"""Which claims are looked up, and which evidence decides them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.scripted import C, F, N, S, U

from corrigenda.errors import BackendError
from corrigenda.policies import Bounded, Conformal, Decided, Fixed, Paper, Policy
from corrigenda.stages.decide import verdict_at
from corrigenda.stages.entail import EMPTY_CLAIM, NO_REFERENCE, ScoredClaim
from corrigenda.stages.retrieve import doubtful, look_up, query, settle
from corrigenda.types import AtomicClaim, Claim, Decision, Entailment, Evidence, Passage, Span, Verdict


def scores(signed: float) -> Entailment:
    rest = (1 - abs(signed)) / 2
    if signed == 0:
        return Entailment(entailment=0.1, neutral=0.8, contradiction=0.1)
    strong, weak = abs(signed), rest
    return Entailment(
        entailment=strong if signed > 0 else weak, neutral=rest, contradiction=weak if signed > 0 else strong
    )


def evidence(signed: float, reference: int = 0) -> Evidence:
    return Evidence(reference=reference, span=Span(0, 4), text="Rome", scores=scores(signed))


def claim(verdict: Verdict, signed: float | None = None, reason: str | None = None) -> Claim:
    given = None if signed is None else scores(signed)
    return Claim(text="x", span=None, sentence=0, verdict=verdict, signed=signed, scores=given, reason=reason)


def scored(signed: float | None, reference: int = 0, counter: float | None = None) -> ScoredClaim:
    return ScoredClaim(
        claim=AtomicClaim(text="x", span=None, sentence=0),
        scores=None if signed is None else scores(signed),
        evidence=None if signed is None else evidence(signed, reference),
        counter_evidence=None if counter is None else evidence(counter, reference),
    )


# Which claims ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "looked_up"),
    [
        (claim(U, 0.0), True),
        (claim(U, 0.4), True),
        (claim(U, -0.4), True),
        (claim(U, None, NO_REFERENCE), True),
        (claim(C, -0.7), True),
        (claim(C, -0.899), True),
        (claim(C, -0.9), False),
        (claim(C, -0.98), False),
        (claim(S, 0.6), False),
        (claim(S, 0.99), False),
        (claim(N), False),
        (claim(F), False),
        (claim(U, None, "not checked: the time limit was reached"), False),
        (claim(U, None, EMPTY_CLAIM), False),
    ],
)
def test_claims_in_doubt_are_looked_up(one: Claim, looked_up: bool) -> None:
    assert doubtful([claim(S, 0.99), one]) == ((1,) if looked_up else ())


def test_the_query_is_the_claim_and_the_question() -> None:
    assert query(claim(U), None) == "x"
    assert query(claim(U), "What is Rome?") == "x What is Rome?"


# Searching ---------------------------------------------------------------------------------------------------------


class Shelf:
    """A retriever that gives what it was given."""

    name = "shelf"

    def __init__(self, *found: list[Passage]) -> None:
        self.found = list(found)

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return self.found

    async def aclose(self) -> None:
        return None


def test_blank_passages_and_those_beyond_k_are_left_out() -> None:
    texts = ["", " \n", "One.", "Two.", "Three."]
    passages = [Passage(id=str(number), text=text) for number, text in enumerate(texts)]
    found = asyncio.run(look_up(["a", "b"], Shelf(passages, []), 4))
    assert [[p.text for p in one] for one in found] == [["One.", "Two."], []]


def test_a_retriever_that_gives_too_few_lists_has_failed() -> None:
    with pytest.raises(BackendError, match="'shelf' gave 1 lists of passages for 2 queries"):
        asyncio.run(look_up(["a", "b"], Shelf([]), 3))


# Which evidence decides --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "found", "reaches", "recalled", "decides"),
    [
        # a neutral passage decides nothing
        (0.0, 0.0, False, True, False),
        (-0.7, 0.0, False, True, False),
        # the stronger decides, whatever it says
        (0.0, 0.6, True, True, True),
        (0.0, -0.4, False, True, True),
        (0.4, 0.6, True, False, True),
        (-0.7, 0.8, True, False, True),
        (-0.7, -0.95, True, False, True),
        (-0.7, -0.7, True, True, False),
        (-0.7, -0.6, True, True, False),
        # of opposites, a passage beats a recollection as soon as it reaches the threshold
        (-0.8, 0.7, True, True, True),
        (-0.8, 0.4, False, True, False),
        (-0.8, 0.7, True, False, False),
        (-0.8, 0.8, True, False, False),
        (-0.8, 0.8, True, True, True),
        # without any evidence, what there is decides
        (None, 0.0, False, False, True),
        (None, 0.4, False, False, True),
    ],
)
def test_which_evidence_decides(
    before: float | None, found: float, reaches: bool, recalled: bool, decides: bool
) -> None:
    settled, passage = settle(scored(before, 0), scored(found, 5), reaches=reaches, recalled=recalled)
    assert passage is decides
    assert settled.signed == (found if decides else before)
    assert settled.evidence is not None
    assert settled.evidence.reference == (5 if decides else 0)


@pytest.mark.parametrize(
    ("before", "found", "counter"),
    [
        ((-0.7, None), (0.8, None), -0.7),
        ((-0.7, 0.6), (0.8, None), -0.7),
        ((-0.7, None), (0.8, -0.75), -0.75),
        ((-0.7, None), (-0.8, None), None),
        ((-0.7, 0.6), (-0.8, None), 0.6),
        ((-0.8, None), (0.4, None), 0.4),
        ((0.0, None), (0.8, None), None),
        ((0.0, None), (0.0, None), None),
    ],
)
def test_the_other_side_is_kept_as_counter_evidence(
    before: tuple[float, float | None], found: tuple[float, float | None], counter: float | None
) -> None:
    one, two = scored(before[0], 0, before[1]), scored(found[0], 5, found[1])
    settled, _ = settle(one, two, reaches=False, recalled=True)
    kept = settled.counter_evidence
    assert (None if kept is None else kept.scores.signed) == counter


# Under which threshold ---------------------------------------------------------------------------------------------


class Mine:
    """A policy of the caller's own, without a threshold."""

    name = "mine"

    def decide(self, given: Sequence[float | None]) -> Decided:
        verdicts = tuple(S if (score or 0) > 0.2 else U for score in given)
        return Decided(decision=Decision(policy="mine", k=0, mu=None, sigma=None, tau=None), verdicts=verdicts)


@pytest.mark.parametrize(
    ("policy", "others", "found"),
    [
        (Bounded(k=0.7, floor=0.5, ceiling=0.9), [0.99, 0.99], {0.95: S, 0.85: U, -0.85: U, -0.95: C, 0.0: U}),
        (Bounded(k=0.7, floor=0.5, ceiling=0.9), [0.0, -0.9], {0.55: S, 0.45: U, -0.55: C}),
        (Paper(k=0.7), [-0.9, -0.9], {0.1: S, -0.1: C, 0.0: U}),
        (Paper(k=2.0), [0.9, -0.9], {1.0: U, -1.0: U}),
        (Paper(k=0.0), [1.0, 1.0], {1.0: S, 0.999: U, -1.0: C}),
        (Fixed(threshold=0.7), [0.1], {0.7: S, 0.6: U, -0.7: C}),
        (Conformal(threshold=0.8, support=0.5), [0.1], {0.5: S, -0.8: U, -0.81: C}),
        (Conformal(threshold=float("inf"), support=0.5), [0.1], {0.5: S, -1.0: U}),
        (Mine(), [0.1], {0.3: S, -1.0: U}),
    ],
)
def test_one_more_score_is_decided_by_the_threshold_that_stands(
    policy: Policy, others: list[float], found: dict[float, Verdict]
) -> None:
    decision = policy.decide(others).decision
    assert {score: verdict_at(score, decision, policy) for score in found} == found

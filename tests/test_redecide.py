"""Deciding a stored report anew: other verdicts from the same scores, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrigenda import Corrigenda, Report, Settings, Status, from_dict, to_json
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.errors import BackendError, ConfigError, InputError
from corrigenda.policies import Bounded, Decided, Fixed, Paper, Policy
from corrigenda.redecide import redecide
from corrigenda.types import Claim, Pair, Retrieval
from tests.scripted import ASKED, FIVE_HILLS, REWRITE, C, F, N, S, U, check, make, verdicts
from tests.upstream import ENTAIL, Shelf, Upstream, Verifier, asked, hills, left_by, released, report_of, tools

NOTE = (
    "decided anew (before: policy 'bounded', k 0.7): no model ran, and the edits and the final answer are as they were"
)


def graded(pair: Pair) -> Sequence[float]:
    """Score `Street 3 is +0.62.` as an entailment of 0.62, and `Street 3 is -0.62.` as a contradiction."""
    number = pair.hypothesis.split()[-1].rstrip(".") if pair.hypothesis[-2].isdigit() else "+0.99"
    strength = abs(float(number))
    rest = (1 - strength) / 2
    return (strength, rest, rest) if number.startswith("+") else (rest, rest, strength)


def report_with(*strengths: str, policy: Policy | None = None, decision: Any = "whole", **more: Any) -> Report:
    answer = " ".join(f"Street {n} is {strength}." for n, strength in enumerate(strengths))
    return report_of(released(tools(Upstream(answer), Verifier(graded), policy), decision=decision, **more))


def same_but_told(report: Report) -> Report:
    return replace(report, timings=(), usage={}, warnings=(), retrieval=())


def test_other_verdicts_from_the_same_scores() -> None:
    before = report_with("+0.60", "-0.55", "+0.95", correct=False)
    assert verdicts(before) == [U, U, S]
    after = redecide(before, Fixed(threshold=0.55))
    assert verdicts(after) == [S, C, S]
    assert [claim.reason for claim in before.claims[:2]] == [
        "entailment of 0.600 does not reach the threshold",
        "contradiction of 0.550 does not reach the threshold",
    ]
    assert [claim.reason for claim in after.claims[:2]] == [
        "the reference entails it",
        "the reference contradicts it",
    ]
    assert (after.status, after.reason) == (Status.CONTRADICTED, "1 of 3 claims are contradicted")
    assert (after.final_answer, after.edits, after.warnings) == (before.final_answer, (), (NOTE,))
    assert (after.decision and after.decision.policy, before.decision and before.decision.policy) == (
        "fixed",
        "bounded",
    )
    back = redecide(after, Bounded())
    assert same_but_told(back) == same_but_told(before)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["+0.55", "+0.7", "-0.55", "-0.7", "+0.95", "-0.95"]), min_size=1, max_size=6),
    st.sampled_from([Paper(), Paper(k=2.0), Fixed(threshold=0.6), Bounded(k=0.1), Bounded(floor=0.8)]),
)
def test_it_decides_as_the_first_decision_would_have(strengths: list[str], policy: Policy) -> None:
    stored = from_dict(json.loads(to_json(report_with(*strengths, correct=False))))
    direct = report_with(*strengths, policy=policy, correct=False)
    after = redecide(stored, policy)
    assert verdicts(after) == verdicts(direct)
    assert (after.status, after.reason) == (direct.status, direct.reason)
    assert [c.reason for c in after.claims] == [c.reason for c in direct.claims]
    assert [w for w in after.warnings if not w.startswith("decided anew")] == list(direct.warnings)
    assert (after.decision and after.decision.tau) == pytest.approx(direct.decision and direct.decision.tau)


def test_what_was_repaired_stays_repaired() -> None:
    before = report_of(released(tools(asked("Rome has 5 hills. It is old."), Verifier(hills)), decision="whole"))
    after = redecide(before, Paper(k=2.0))
    assert (verdicts(before), verdicts(after)) == ([C, S], [U, U])
    assert (after.status, after.reason, after.final_answer) == (
        Status.CORRECTED,
        None,
        "Rome has seven hills. It is old.",
    )
    assert [text[:40] for text in after.warnings] == [
        "policy 'paper': the threshold τ = 1.9600",
        "decided anew (before: policy 'bounded', ",
    ]
    again = redecide(after, Bounded())
    assert (again.status, verdicts(again)) == (Status.CORRECTED, [C, S])
    assert again.warnings == (NOTE.replace("'bounded', k 0.7", "'paper', k 2"),)


def test_a_claim_that_is_contradicted_now_stands_in_the_answer() -> None:
    chat = Upstream("Street 0 is -0.95. Street 1 is -0.55.", rewrite=lambda s: s.replace("-0.95", "so"))
    before = report_of(released(tools(chat, Verifier(graded), Fixed(threshold=0.9)), decision="whole"))
    assert (verdicts(before), before.status) == ([C, U], Status.CORRECTED)
    after = redecide(before, Fixed(threshold=0.5))
    assert (verdicts(after), after.status, after.reason) == (
        [C, C],
        Status.CONTRADICTED,
        "1 of 2 contradicted claims still stand in the answer",
    )


def test_how_claims_left_is_kept_and_told_anew() -> None:
    before = report_with("-0.60", "+0.95", "+0.95", decision="incremental", correct=False)
    assert (verdicts(before), left_by(before)) == ([U, S, S], [C, S, S])
    assert [text[:10] for text in before.warnings] == ["1 of 3 cla"]
    after = redecide(before, Fixed(threshold=0.5))
    assert (verdicts(after), left_by(after), after.warnings) == ([C, S, S], [C, S, S], (NOTE,))


def test_what_was_not_scored_keeps_its_verdict() -> None:
    def score(pair: Pair) -> Sequence[float]:
        if "bad" in pair.hypothesis:
            raise ZeroDivisionError("division by zero")
        return graded(pair)

    async_report = report_of(
        released(tools(Upstream("Is it? Street 1 is +0.60. It is bad."), Verifier(score)), correct=False)
    )
    after = redecide(async_report, Fixed(threshold=0.5))
    assert (verdicts(async_report), verdicts(after)) == ([N, S, F], [N, S, F])
    assert after.claims[2] == async_report.claims[2]
    assert (after.status, after.reason) == (Status.UNVERIFIED, "1 of 2 claims are supported")


def test_a_report_without_scores_comes_back_as_it_is() -> None:
    for before in (check("Rome has 5 hills.", context=""), check("Is it?"), check("Hello!")):
        assert redecide(before, Fixed()) == before


def test_a_failure_that_is_not_about_verdicts_stays() -> None:
    chat = asked("Rome has 5 hills. It ", BackendError("cut off"))
    before = report_of(released(tools(chat, Verifier(hills))))
    after = redecide(before, Fixed())
    assert (after.status, after.reason) == (Status.FAILED, "the answer is incomplete: cut off")


def test_other_words_of_a_reason_stay() -> None:
    claim = Claim(
        text="x",
        span=None,
        sentence=0,
        verdict=U,
        reason="contradiction of 0.550 does not reach the threshold (numbers differ: 5 and 7)",
        scores=report_with("-0.55", correct=False).claims[0].scores,
        signed=-0.55,
    )
    report = replace(report_with("-0.55", correct=False), claims=(claim,))
    assert redecide(report, Fixed(threshold=0.5)).claims[0].reason == (
        "the reference contradicts it (numbers differ: 5 and 7)"
    )
    odd = replace(report, claims=(replace(claim, reason="said otherwise"),))
    assert redecide(odd, Fixed(threshold=0.5)).claims[0].reason == "the reference contradicts it"


class NotFinite:
    name = "odd"

    def decide(self, scores: Sequence[float | None]) -> Decided:
        decided = Fixed().decide(scores)
        return replace(decided, decision=replace(decided.decision, tau=float("nan")))


def test_no_threshold_that_json_cannot_hold() -> None:
    with pytest.raises(ValueError, match="the decision's tau is nan"):
        redecide(report_with("+0.6"), NotFinite())


@pytest.mark.parametrize("index", [3, -1])
def test_a_report_that_contradicts_itself_is_refused(index: int) -> None:
    entry = Retrieval(
        claim=index,
        query="x",
        passages=(),
        signed=None,
        decides=True,
        before=S,
        before_signed=None,
        after=S,
        after_signed=None,
    )
    report = replace(report_with("+0.6"), retrieval=(entry,))
    with pytest.raises(InputError, match=f"not a corrigenda report: retrieval names claim {index} of 1"):
        redecide(report, Fixed())


# Through the object -------------------------------------------------------------------------------------------------


def test_the_object_decides_without_any_model() -> None:
    with make(ASKED) as c:
        stored = c.ask_sync("How many hills has Rome?")
    chat = ScriptedChat({"rules": [REWRITE]})
    with Corrigenda(llm=chat, settings=Settings(llm="none", nli="onnx:/nowhere")) as c:
        assert verdicts(c.decide(stored)) == verdicts(stored)
        other = c.decide(stored, policy="paper", k=2)
        strict = c.decide(stored, policy="fixed", threshold=0.99)
    assert (verdicts(other), other.decision and (other.decision.policy, other.decision.k)) == ([U, U], ("paper", 2))
    assert (verdicts(strict), strict.decision and strict.decision.threshold) == ([U, U], 0.99)
    assert chat.requests == []


def test_bounds_are_those_of_the_report_or_of_the_verifier() -> None:
    stored = report_with("+0.60", "-0.55", "+0.95", policy=Bounded(floor=0.3, ceiling=0.55), correct=False)
    with make(None) as c:
        found = c.decide(stored, k=0.7).decision
        assert found is not None
        assert (found.floor, found.ceiling) == (0.3, 0.55)
    with make(None, floor=0.2, ceiling=0.4) as c:
        found = c.decide(stored).decision
        assert found is not None
        assert (found.floor, found.ceiling) == (0.2, 0.4)

    class WithBounds(Verifier):
        bounds = (0.1, 0.2)

    with Corrigenda(nli=WithBounds(graded), settings=Settings(llm="none")) as c:
        found = c.decide(stored).decision
        assert found is not None
        assert (found.floor, found.ceiling) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "mine.json"}, r"unknown policy 'mine\.json'; there are bounded, conformal, fixed, paper"),
        ({"threshold": 0.5}, "threshold is used by the policies fixed and conformal, not by 'bounded'"),
        ({"k": -1}, "k must be a finite number of at least 0, got -1"),
        ({"policy": NotFinite(), "k": 1}, "k cannot be chosen for the policy 'odd'"),
    ],
)
def test_a_wrong_choice_is_refused(change: dict[str, Any], message: str) -> None:
    with make(None, FIVE_HILLS) as c, pytest.raises(ConfigError, match=message):
        c.decide(check("Rome has 5 hills."), **change)


def test_passages_keep_their_say() -> None:
    def score(pair: Pair) -> Sequence[float]:
        if pair.hypothesis.startswith("Lyon"):
            return (0.6, 0.2, 0.2) if pair.premise == "Lyon is in France." else (0.2, 0.6, 0.2)
        return ENTAIL

    chat = asked("Lyon is in France. It is old.")
    for decision in ("incremental", "whole"):
        before = report_of(released(tools(chat, Verifier(score), retriever=Shelf()), decision=decision, correct=False))
        assert (verdicts(before)[1], before.retrieval[0].decides) == (S, True)
        low, high = (redecide(before, Fixed(threshold=t)) for t in (0.5, 0.9))
        assert (verdicts(low), low.claims[0].reason) == ([S, S], "a retrieved passage entails it")
        assert (verdicts(high), high.claims[0].reason) == ([U, S], "entailment of 0.600 does not reach the threshold")
        assert [(r.before, r.after) for r in (low.retrieval[0], high.retrieval[0])] == [(U, S), (U, U)]


def test_where_only_passages_were_scored_they_set_the_threshold() -> None:
    chat = asked("Lyon is in France. It is old.", reference="I don't know.")
    for decision in ("incremental", "whole"):
        before = report_of(released(tools(chat, Verifier(hills), retriever=Shelf()), decision=decision))
        assert (verdicts(before), before.decision and before.decision.tau) == ([S, S], 0.9)
        assert [claim.reason for claim in before.claims] == ["a retrieved passage entails it"] * 2
        after = redecide(before, Fixed(threshold=0.99))
        assert verdicts(after) == [U, U]
        assert [(r.before, r.after) for r in after.retrieval] == [(U, U), (U, U)]
        back = redecide(after, Bounded())
        assert (verdicts(back), back.retrieval) == (verdicts(before), before.retrieval)

"""How answers that leave sentence by sentence end: the final decision, failures, and callers that stop early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from corrigenda import ChatRequest, Completion, Message, Status
from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.errors import InputError, ReasoningLeaked, Unauthorized, Unreachable
from corrigenda.policies import Bounded, Decided, Paper
from corrigenda.run import NO_TIME
from corrigenda.types import Pair
from tests.fake_openai import FakeOpenAI, answer, chunk, events
from tests.scripted import C, F, S, U, verdicts
from tests.upstream import (
    CONTRADICT,
    DELTAS,
    ENTAIL,
    NEUTRAL,
    Shelf,
    Upstream,
    Verifier,
    asked,
    hills,
    left_by,
    released,
    releases,
    report_of,
    settle,
    taken,
    texts,
    tools,
)

# The final decision -------------------------------------------------------------------------------------------------

MIXED = "A is one. B is two. C is three. D is four. E is five. F is six."
STRENGTH = {"A": 0.95, "B": 0.95, "C": -0.7, "D": -0.9, "E": -0.9, "F": -0.9}


def by_letter(pair: Pair) -> Sequence[float]:
    strength = STRENGTH[pair.hypothesis[0]]
    rest = (1 - abs(strength)) / 2
    return (strength, rest, rest) if strength > 0 else (rest, rest, -strength)


def test_a_contradiction_that_shows_late_is_told_and_stays() -> None:
    report = report_of(released(tools(Upstream(MIXED), Verifier(by_letter)), correct=False))
    assert verdicts(report) == [S, S, C, C, C, C]
    assert left_by(report) == [S, S, U, C, C, C]
    taus = [c.released.tau for c in report.claims if c.released is not None]
    assert [taus[2], report.decision and report.decision.tau] == [0.9, 0.5]
    assert report.warnings == (
        "1 of 6 claims left by another verdict than the final one: a sentence that is released early is decided over "
        "the scores up to it (each claim's `released` says how)",
    )


def test_a_late_contradiction_counts_as_standing_in_the_answer() -> None:
    chat = Upstream(MIXED, rewrite=lambda sentence: sentence.replace(" is ", " was "))
    good = Verifier(lambda pair: ENTAIL if " was " in pair.hypothesis else by_letter(pair))
    report = report_of(released(tools(chat, good)))
    assert report.final_answer == "A is one. B is two. C is three. D was four. E was five. F was six."
    assert [(e.claims, e.accepted) for e in report.edits] == [((3,), True), ((4,), True), ((5,), True)]
    assert (report.status, report.reason) == (
        Status.CONTRADICTED,
        "1 of 4 contradicted claims still stand in the answer",
    )


def test_a_sentence_that_was_corrected_on_few_scores_stays_corrected() -> None:
    def score(pair: Pair) -> Sequence[float]:
        return (0.2, 0.2, 0.6) if "5 hills" in pair.hypothesis else ENTAIL

    chat = asked("Rome has 5 hills. It is old. It is warm.")
    report = report_of(released(tools(chat, Verifier(score))))
    assert report.final_answer == "Rome has seven hills. It is old. It is warm."
    assert (verdicts(report), left_by(report)) == ([U, S, S], [C, S, S])
    assert (report.status, report.reason) == (Status.CORRECTED, None)
    (whole,) = released(tools(chat, Verifier(score)), decision="whole")
    assert whole.text == "Rome has 5 hills. It is old. It is warm."
    assert whole.report is not None
    assert verdicts(whole.report) == [U, S, S]


def test_warnings_of_the_policy_are_those_of_the_final_decision() -> None:
    report = report_of(released(tools(asked("A is one. B is two."), Verifier(by_letter), Paper())))
    assert report.warnings == ()
    report = report_of(released(tools(asked("A is one. C is three."), Verifier(by_letter), Paper(k=2)), correct=False))
    assert [text[:30] for text in report.warnings] == [
        "policy 'paper': the threshold ",
        "1 of 2 claims left by another ",
    ]


# What breaks --------------------------------------------------------------------------------------------------------


def test_a_verifier_that_raises_lets_the_answer_go_and_fails() -> None:
    def broken(pair: Pair) -> Sequence[float]:
        raise ZeroDivisionError("division by zero")

    pieces = released(tools(asked(*DELTAS), Verifier(broken)))
    report = report_of(pieces)
    assert (report.final_answer, report.status) == ("".join(DELTAS), Status.FAILED)
    assert report.reason == "ZeroDivisionError: division by zero"
    assert ([c.verdict for c in pieces[0].claims], verdicts(report)) == ([F], [F, F])


def test_a_recall_that_fails_lets_the_answer_go_and_fails() -> None:
    class Forgetful(Upstream):
        async def complete(self, request: ChatRequest) -> Completion:
            raise Unreachable("no connection")

    report = report_of(released(tools(Forgetful(*DELTAS), Verifier(hills))))
    assert (report.final_answer, report.status, report.reason) == (
        "".join(DELTAS),
        Status.FAILED,
        "recall failed: no connection",
    )
    assert verdicts(report) == [F, F]


def test_a_policy_that_raises_lets_the_answer_go_and_fails() -> None:
    class Broken:
        name = "broken"

        def decide(self, scores: Sequence[float | None]) -> Decided:
            raise RuntimeError("bug")

    report = report_of(released(tools(asked(*DELTAS), Verifier(hills), Broken())))
    assert (report.final_answer, report.status, report.reason) == (
        "".join(DELTAS),
        Status.FAILED,
        "the policy failed: RuntimeError: bug",
    )


def test_a_rewriter_that_fails_leaves_the_sentence_as_it_is() -> None:
    def broken(sentence: str) -> str:
        raise Unreachable("no connection")

    report = report_of(released(tools(Upstream(*DELTAS, rewrite=broken), Verifier(hills))))
    assert (report.final_answer, report.status) == ("".join(DELTAS), Status.CONTRADICTED)
    assert report.edits[0].reason == "not rewritten, the chat model failed: no connection"


def test_what_was_not_checked_in_time_leaves_unchecked_and_says_so() -> None:
    chat = asked(*DELTAS, recall_waits=asyncio.Event())
    report = report_of(released(tools(chat, Verifier(hills)), timeout=0.2))
    assert (report.final_answer, report.status) == ("".join(DELTAS), Status.UNVERIFIED)
    assert [(c.verdict, c.reason) for c in report.claims] == [(U, NO_TIME)] * 2
    assert left_by(report) == [U, U]


def test_the_time_limit_ends_an_answer_that_goes_on() -> None:
    pieces = released(tools(asked("Rome has 5 hills. It is ", asyncio.Event(), "old."), Verifier(hills)), timeout=1.0)
    report = report_of(pieces)
    assert texts(pieces) == ["Rome has seven hills.", " It is", " "]
    assert "the answer is incomplete: the time limit was reached" in report.warnings[0]
    assert pieces[-1].completion is None


def test_an_upstream_that_dies_takes_nothing_back() -> None:
    pieces = released(tools(asked("Rome has 5 hills. It is", Unreachable("cut off")), Verifier(hills)))
    report = report_of(pieces)
    assert texts(pieces) == ["Rome has seven hills.", " It is", ""]
    assert (report.answer, report.status) == ("Rome has 5 hills. It is", Status.FAILED)
    assert report.reason == "the answer is incomplete: cut off"
    assert pieces[-1].completion is None


def test_without_an_answer_the_error_goes_to_the_caller() -> None:
    with pytest.raises(Unauthorized, match="bad key"):
        released(tools(asked(Unauthorized("bad key")), Verifier(hills)))


def test_reasoning_that_leaked_is_an_error_also_after_a_release() -> None:
    async def go(decision: Any) -> list[str]:
        found = []
        steps = ("They ask for hills. I think ", ReasoningLeaked("m"))
        pieces = releases(tools(asked(*steps), Verifier(hills)), decision=decision)

        async def take() -> None:
            async for piece in pieces:
                found.append(piece.text)

        with pytest.raises(ReasoningLeaked, match="sent reasoning without the tag that opens it"):
            await take()
        return found

    assert asyncio.run(go("incremental")) in ([], ["They ask for hills."])
    assert asyncio.run(go("whole")) == []


@pytest.mark.parametrize("decision", ["incremental", "whole"])
@pytest.mark.parametrize(
    ("steps", "completion", "status", "reason"),
    [
        ((), Completion(text=""), Status.FAILED, "the model gave an empty answer"),
        ((" \n",), Completion(text=" \n"), Status.FAILED, "the model gave an empty answer"),
        ((), Completion(text="", finish_reason="length"), Status.FAILED, "the model reached its token cap"),
        ((), Completion(text="", refusal="I cannot help."), Status.ABSTAINED, "the model refused to answer"),
    ],
)
def test_a_reply_without_an_answer(
    decision: Any, steps: tuple[str, ...], completion: Completion, status: Status, reason: str
) -> None:
    chat = asked(*steps, completion=completion)
    (piece,) = released(tools(chat, Verifier(hills)), decision=decision)
    assert piece.report is not None
    assert (piece.text, piece.completion) == ("".join(steps), completion)
    assert (piece.report.final_answer, piece.report.status, piece.report.claims) == ("".join(steps), status, ())
    assert reason in (piece.report.reason or "")


@pytest.mark.parametrize("cap", [5, None])
def test_an_answer_that_was_cut_off_says_at_what(cap: int | None) -> None:
    request = ChatRequest(stage="generate", messages=(Message(role="user", content="x"),), max_tokens=cap)
    chat = asked("It is", completion=Completion(text="It is", finish_reason="length"))
    report = report_of(released(tools(chat, Verifier(hills)), request=request))
    assert report.warnings == (
        "the answer was cut off at its cap of 5 tokens" if cap else "the answer was cut off at the model's own cap",
    )


# Stopping early -----------------------------------------------------------------------------------------------------


async def _others() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@pytest.mark.parametrize("after", [0, 1])
def test_closing_the_iterator_cancels_all_that_runs(after: int) -> None:
    async def go() -> None:
        chat = asked("Rome has 5 hills. It is ", asyncio.Event(), "old.")
        pieces = releases(tools(chat, Verifier(hills)))
        async with aclosing(pieces):
            for _ in range(after):
                await anext(pieces)
            assert chat.running == after
        assert (chat.running, await _others()) == (0, set())

    asyncio.run(go())


@pytest.mark.parametrize("decision", ["incremental", "whole"])
def test_a_caller_that_is_cancelled_leaves_nothing_running(decision: Any) -> None:
    async def go() -> None:
        chat = asked("Rome has 5 hills", asyncio.Event(), "old.", recall_waits=asyncio.Event())
        caller = asyncio.create_task(taken(releases(tools(chat, Verifier(hills)), decision=decision)))
        await settle()
        assert chat.running == 2
        caller.cancel()
        with pytest.raises(asyncio.CancelledError, match=r"^$"):
            await caller
        assert (chat.running, await _others()) == (0, set())

    asyncio.run(go())


def test_closing_after_the_work_has_failed_is_quiet() -> None:
    async def go() -> None:
        chat = asked("It is old. It ", waits := asyncio.Event(), ReasoningLeaked("m"))
        async with aclosing(releases(tools(chat, Verifier(hills)))) as pieces:
            assert (await anext(pieces)).text == "It is old."
            waits.set()
            await settle()
        assert await _others() == set()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, "the question is empty"),
        ({"decision": "later"}, "decision must be one of incremental, whole, got 'later'"),
    ],
)
def test_wrong_input_is_refused_at_the_first_step(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        released(tools(asked(*DELTAS), Verifier(hills)), **change)
    with pytest.raises(InputError, match="asking needs a chat model"):
        released(tools(None, Verifier(hills)))


def test_bounds_of_the_first_sentence_are_the_policys() -> None:
    report = report_of(released(tools(asked("C is three."), Verifier(by_letter), Bounded(floor=0.8)), correct=False))
    assert (verdicts(report), left_by(report)) == ([U], [U])


# Passages -----------------------------------------------------------------------------------------------------------


def passages_know_more(pair: Pair) -> Sequence[float]:
    if "Lyon" in pair.hypothesis:
        return ENTAIL if pair.premise == "Lyon is in France." else NEUTRAL
    if "5 hills" in pair.hypothesis:
        return CONTRADICT if pair.premise == "Rome has 7 hills." else NEUTRAL
    return ENTAIL


def test_a_sentence_is_looked_up_and_corrected_before_it_leaves() -> None:
    shelf = Shelf()
    chat = asked("Lyon is in France. Rome has 5 hills. It is old.")
    pieces = released(tools(chat, Verifier(passages_know_more), retriever=shelf))
    report = report_of(pieces)
    assert texts(pieces) == ["Lyon is in France.", " Rome has seven hills.", " It is old.", ""]
    assert (verdicts(report), left_by(report), report.warnings) == ([S, C, S], [S, C, S], ())
    assert [r.source for r in report.references] == ["recall", "retrieved: l", "retrieved: Rome"]
    assert [(e.claim, [p.reference for p in e.passages], e.before, e.after, e.decides) for e in report.retrieval] == [
        (0, [1, 2], U, S, True),
        (1, [2], U, C, True),
    ]
    assert report.claims[1].reason == "a retrieved passage contradicts it"
    assert (report.status, report.edits[0].claims) == (Status.CORRECTED, (1,))
    (whole,) = released(tools(chat, Verifier(passages_know_more), retriever=Shelf()), decision="whole")
    assert whole.report is not None
    assert (whole.text, whole.report.references) == (report.final_answer, report.references)
    assert (whole.report.retrieval, whole.report.decision) == (report.retrieval, report.decision)


def test_a_shelf_that_breaks_holds_nothing_up() -> None:
    shelf = Shelf(broken=True)
    chat = asked("Lyon is in France. Rome has 5 hills.")
    report = report_of(released(tools(chat, Verifier(passages_know_more), retriever=shelf)))
    assert (report.final_answer, verdicts(report)) == (report.answer, [U, U])
    assert report.warnings == ("retrieve: no index; no passages were used",)
    assert len(report.references) == 1


def test_a_policy_that_fails_at_the_end_leaves_the_verdicts_of_the_releases() -> None:
    class Tired:
        """Decides nothing any more once it has seen three scores and is asked about one."""

        name = "tired"
        seen = 0

        def decide(self, scores: Sequence[float | None]) -> Decided:
            self.seen = max(self.seen, len(scores))
            if self.seen == 3 and len(scores) == 1:
                raise RuntimeError("tired")
            return Bounded().decide(scores)

    chat = asked("Lyon is in France. It is old. It is warm.")
    report = report_of(released(tools(chat, Verifier(passages_know_more), Tired(), retriever=Shelf())))
    assert (verdicts(report), report.status) == ([S, S, S], Status.VERIFIED)
    assert report.warnings == ("retrieve: RuntimeError: tired; the claims keep the verdicts that they left by",)


def test_closing_the_iterator_hangs_up_on_a_real_upstream(server: FakeOpenAI) -> None:
    server.default = lambda body: (
        events(chunk("It is old. It is "), done=False, hold=True) if body.get("stream") else answer("It is old.")
    )

    async def go() -> None:
        chat = OpenAIChat("m", base_url=server.base_url, api_key="k")
        async with aclosing(releases(tools(chat, Verifier(hills)))) as pieces:
            assert (await anext(pieces)).text == "It is old."
        assert await asyncio.to_thread(server.hung_up.wait, 3)
        await chat.aclose()
        assert await _others() == set()

    asyncio.run(go())

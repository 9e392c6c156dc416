from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.batches import many, prepare, timeless
from tests.fake_openai import FakeOpenAI, answer, error
from tests.scripted import ASKED, ENTAIL, FIVE_HILLS

from corrigenda.api import as_references
from corrigenda.batch.budget import Budget
from corrigenda.batch.engine import Stop
from corrigenda.batch.local import LocalEngine
from corrigenda.batch.rows import PAIRS, Done, Row, Spent
from corrigenda.batch.worker import Job, RowWorker
from corrigenda.errors import ConfigError
from corrigenda.settings import Settings

HILLS = as_references(["Rome stands on seven hills."])


def job(folder: Path, concurrency: int = 4, **settings: Any) -> Job:
    base = {"llm": f"scripted:{folder}/chat.json", "nli": f"scripted:{folder}/nli.json", "decomposer": "deterministic"}
    return Job(settings=Settings(**(base | settings)), concurrency=concurrency, cache=False)


def rows(count: int) -> list[Row]:
    return [
        Row(
            number=n,
            id=value["id"],
            question=value.get("question"),
            answer=value.get("answer"),
            contexts=as_references(value.get("contexts")),
        )
        for n, value in enumerate(many(count))
    ]


def ran(made: Job, given: Iterator[Row], stop: Stop | None = None) -> list[Done]:
    async def run() -> list[Done]:
        async with aclosing(LocalEngine(made).run(given, stop or Stop())) as found:
            return [done async for done in found]

    return asyncio.run(run())


def one(made: Job, *given: Row) -> list[Done]:
    async def run() -> list[Done]:
        worker = RowWorker(made)
        await worker.start()
        try:
            return [await worker.done(row) for row in given]
        finally:
            await worker.aclose()

    return asyncio.run(run())


def test_every_row_comes_back_once_with_its_report_or_its_reason(tmp_path: Path) -> None:
    found = sorted(ran(job(prepare(tmp_path)), iter(rows(8))), key=lambda done: done.number)
    assert [(done.number, done.id, done.status) for done in found] == [
        (0, "r0", "corrected"),
        (1, "r1", "corrected"),
        (2, "r2", "verified"),
        (3, "r3", "failed"),
        (4, "r4", "corrected"),
        (5, "r5", "corrected"),
        (6, "r6", "verified"),
        (7, "r7", "failed"),
    ]
    assert (found[3].report, found[3].error, found[3].kind) == (
        None,
        "the answer is empty; give its text",
        "InputError",
    )


def test_many_rows_at_once_give_the_reports_of_one_at_a_time(tmp_path: Path) -> None:
    slow = [{**rule, "first_token_s": 0.002} for rule in ASKED]
    prepare(tmp_path, chat=slow)
    alone, together = (ran(job(tmp_path, concurrency=n), iter(rows(24))) for n in (1, 8))
    assert [done.number for done in alone] == list(range(24))
    by_number = {done.number: timeless(done.report) for done in together}
    assert by_number == {done.number: timeless(done.report) for done in alone}


def test_no_more_rows_are_taken_than_may_be_in_flight(tmp_path: Path) -> None:
    taken: list[int] = []
    back: list[int] = []
    most = 0

    def given() -> Iterator[Row]:
        nonlocal most
        for row in rows(20):
            taken.append(row.number)
            most = max(most, len(taken) - len(back))
            yield row

    async def run() -> None:
        async with aclosing(LocalEngine(job(prepare(tmp_path), concurrency=3)).run(given(), Stop())) as found:
            async for done in found:
                back.append(done.number)

    asyncio.run(run())
    assert (sorted(back), most) == (list(range(20)), 3)


def test_a_gentle_stop_finishes_what_is_in_flight(tmp_path: Path) -> None:
    async def run() -> list[int]:
        stop, found = Stop(), []
        async with aclosing(LocalEngine(job(prepare(tmp_path), concurrency=3)).run(iter(rows(20)), stop)) as results:
            async for done in results:
                found.append(done.number)
                stop.gently("enough")
        return sorted(found)

    assert asyncio.run(run()) == [0, 1, 2]


def test_a_stop_at_once_gives_up_what_is_in_flight(tmp_path: Path) -> None:
    prepare(tmp_path, chat=[{"reply": "Rome.", "first_token_s": 3600}])

    async def run() -> list[Done]:
        stop = Stop()
        asyncio.get_running_loop().call_later(0.05, stop.now, "enough")
        async with aclosing(LocalEngine(job(tmp_path)).run(iter(rows(20)), stop)) as results:
            return [done async for done in results]

    found = asyncio.run(run())
    assert {done.kind for done in found} <= {None, "InputError"}
    assert all(done.number % 4 in (1, 3) for done in found)


def test_a_model_that_cannot_be_had_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    (prepare(tmp_path) / "chat.json").write_text("{")
    with pytest.raises(ConfigError, match=r"chat.json: not valid JSON"):
        ran(job(tmp_path), iter(rows(3)))


def test_what_a_row_cost_is_what_was_really_called(tmp_path: Path) -> None:
    prepare(tmp_path)
    asked = Row(number=0, id="a", question="How many hills has Rome?")
    first, again, checked = one(
        job(tmp_path), asked, asked, Row(number=1, id="b", answer="Rome has 5 hills.", contexts=HILLS)
    )
    assert first.spent == {
        "generate": Spent(calls=1, prompt_tokens=20, completion_tokens=10),
        "recall": Spent(calls=1, prompt_tokens=30, completion_tokens=7),
        "correct": Spent(calls=1, unreported=1),
        PAIRS: Spent(calls=3),
    }
    assert (first.calls, first.tokens) == (3, 67)
    assert again.spent == {
        "generate": Spent(calls=1, prompt_tokens=20, completion_tokens=10),
        "recall": Spent(reused=1),
        "correct": Spent(calls=1, unreported=1),
        PAIRS: Spent(reused=3),
    }
    assert timeless(again.report) == timeless(first.report)
    assert checked.spent == {"correct": Spent(calls=1, unreported=1), PAIRS: Spent(reused=2)}


def test_a_row_of_which_every_claim_failed_is_failed_and_keeps_its_report(tmp_path: Path) -> None:
    prepare(tmp_path, nli=[{"error": {"status": 503, "body": "down"}}])
    (done,) = one(job(tmp_path), Row(number=0, id="a", answer="Rome has 5 hills.", contexts=HILLS))
    assert (done.status, done.failed, done.error) == ("failed", True, None)
    assert done.report is not None
    assert "down" in done.report["reason"]


def test_without_correcting_nothing_is_called_and_nothing_rewritten(tmp_path: Path) -> None:
    prepare(tmp_path)
    made = job(tmp_path)
    (done,) = one(
        Job(settings=made.settings, correct=False, chat=False, cache=False),
        Row(number=0, id="a", answer="Rome has 5 hills.", contexts=HILLS),
    )
    assert (done.status, done.calls) == ("contradicted", 0)


def test_a_server_that_has_too_much_is_asked_again(tmp_path: Path, server: FakeOpenAI) -> None:
    prepare(tmp_path, nli=[{"scores": ENTAIL}])
    server.script = [error(429, {"error": {"message": "slow down"}}, Retry_After="0"), answer("Rome has seven hills.")]
    made = job(tmp_path, llm="openai:m", base_url=server.base_url, api_key="sk-secret")
    (done,) = one(made, Row(number=0, id="a", question="How many hills?", answer="Rome has seven hills."))
    assert (done.status, done.spent["recall"]) == ("verified", Spent(calls=1, unreported=1))
    assert len(server.received) == 2


def test_an_error_holds_no_secret(tmp_path: Path, server: FakeOpenAI) -> None:
    prepare(tmp_path, nli=FIVE_HILLS)
    server.default = error(401, {"error": {"message": "wrong key sk-secret"}})
    made = job(tmp_path, llm="openai:m", base_url=server.base_url, api_key="sk-secret")
    (done,) = one(made, Row(number=0, id="a", question="How many hills?"))
    assert (done.kind, done.report) == ("Unauthorized", None)
    assert "sk-secret" not in str(done.error) + repr(made)


def test_a_budget_of_rows_is_exact_and_one_that_is_just_enough_stops_nothing() -> None:
    for most, reason in ((2, "the budget of 2 rows (--max-rows) is used up"), (3, None)):
        stop = Stop()
        found = list(Budget(rows=most).limited(iter(rows(3)), stop))
        assert ([row.number for row in found], stop.reason) == (list(range(most)), reason)


def test_budgets_of_calls_and_tokens_stop_when_they_are_used_up() -> None:
    spent = {"generate": Spent(calls=2, prompt_tokens=30, completion_tokens=20)}
    for budget, reason in (
        (Budget(calls=4), "the budget of 4 calls (--budget-calls) is used up: 4 were made"),
        (Budget(tokens=90), "the budget of 90 tokens (--budget-tokens) is used up: 100 were used"),
    ):
        stop = Stop()
        budget.spend(Done(number=0, id="a", spent=spent), stop)
        assert stop.reason is None
        budget.spend(Done(number=1, id="b", spent=spent), stop)
        assert stop.reason == reason


def test_a_deadline_that_is_over_stops_at_the_next_turn() -> None:
    async def run() -> Stop:
        stop = Stop()
        with Budget(deadline_s=5).deadline(stop, gone_s=6):
            await stop.wanted.wait()
        return stop

    assert asyncio.run(run()).reason == "the deadline of 5 s (--deadline) is over"

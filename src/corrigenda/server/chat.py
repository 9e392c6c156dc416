"""POST /v1/chat/completions: the upstream answers, the answer is checked and corrected, and its report goes with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.ports import ChatModel
from corrigenda.releasing import Release
from corrigenda.run import NO_TIME
from corrigenda.server.bodies import Exchange
from corrigenda.server.conversation import Plan, plan
from corrigenda.server.engine import ALIAS, Watched
from corrigenda.server.passing import forward, plain_reply
from corrigenda.server.problems import ApiError, translated
from corrigenda.server.served import Served
from corrigenda.server.service import Service
from corrigenda.server.stream import BEAT_S, HEAD_S, Pump, beat
from corrigenda.server.wire import Reply, claims_of, finish_reason, passed_through, report_of
from corrigenda.types import Claim, Report, Status, Verdict
from corrigenda.windows import is_blank

STATUS_HEADER = "x-corrigenda-status"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """One chat request while it is answered."""

    service: Service
    exchange: Exchange
    served: Served
    plan: Plan
    chat: Watched
    reply: Reply


async def chat_completions(service: Service, exchange: Exchange, served: Served) -> None:
    """Serve one request. Raises ApiError and what the pipeline raises."""
    data = await exchange.json()
    await exchange.unless_gone(_serve(service, exchange, served, data))


async def _serve(service: Service, exchange: Exchange, served: Served, data: Any) -> None:
    engine, options = service.engine, service.options
    own = await engine.upstream()
    todo = plan(
        data,
        exchange.header("x-corrigenda"),
        limits=options.limits,
        mode=options.mode,
        settings=engine.corrigenda.settings,
        openai=isinstance(own, OpenAIChat),
        own=frozenset({ALIAS, own.name}),
    )
    served.mode, served.stream = todo.mode, todo.stream
    chat = await engine.upstream(todo.model)
    served.model = chat.name
    async with service.turn(served, todo.deadline) as left_s:
        if todo.passed is not None:
            served.passed = todo.passed.partition(":")[0]
            await _pass(exchange, served, todo, chat, left_s)
            return
        call = _Call(
            service=service,
            exchange=exchange,
            served=served,
            plan=todo,
            chat=engine.watched(chat),
            reply=Reply(model_of(chat)),
        )
        assert todo.request is not None, "a conversation that is verified is one of plain texts"
        releases = engine.releasing(
            todo.question,
            todo.request,
            call.chat,
            choices=replace(todo.choices, timeout=left_s),
            references=todo.references,
            decision="whole" if todo.whole else "incremental",
            headers=served.headers,
        )
        await (_stream if todo.stream else _whole)(call, releases)


def model_of(chat: ChatModel) -> str:
    """Return a model's name as replies have it: the upstream's own, where that has one."""
    return chat.name.removeprefix("openai:") if isinstance(chat, OpenAIChat) else chat.name


async def _pass(exchange: Exchange, served: Served, todo: Plan, chat: ChatModel, left_s: float) -> None:
    assert todo.passed is not None
    beside, headers = passed_through(todo.passed), {STATUS_HEADER: "passed_through"}
    if isinstance(chat, OpenAIChat):
        await forward(exchange, served, chat, todo, beside, headers, left_s)
    else:
        await plain_reply(exchange, served, chat, todo, Reply(model_of(chat)), beside, headers, left_s)


async def _whole(call: _Call, releases: AsyncGenerator[Release, None]) -> None:
    """Send the reply in one piece."""
    last: Release | None = None
    async with aclosing(releases):
        async for release in releases:
            last = release
    assert last is not None
    assert last.report is not None
    report = last.report
    call.served.reports.append(report)
    _require_whole(call, last, report)
    _require_checked(call, report.claims, report)
    call.served.finish_reason = finish_reason(last.completion)
    call.served.text_sent()
    body = call.reply.whole(report.final_answer, last.completion, report_of(report))
    await call.exchange.reply(200, body, {STATUS_HEADER: report.status.value})


async def _stream(call: _Call, releases: AsyncGenerator[Release, None]) -> None:
    """Send the reply as it becomes certain."""
    exchange, reply = call.exchange, call.reply
    async with Pump(releases) as pump:
        release = await pump.next(HEAD_S)
        if release is not None:
            _require_sendable(call, release)
        await exchange.begin_events({})
        await exchange.event(reply.chunk({"role": "assistant", "content": ""}))
        while release is None or release.report is None:
            if release is None:
                await beat(exchange)
            else:
                await _send_text(call, release)
            release = await pump.next(BEAT_S)
            if release is not None:
                _require_sendable(call, release)
        report = release.report
        call.served.reports.append(report)
        await _send_text(call, release)
        _require_whole(call, release, report)
        if release.completion is not None and release.completion.refusal is not None:
            await exchange.event(reply.chunk({"refusal": release.completion.refusal}))
        call.served.finish_reason = finish_reason(release.completion)
        await exchange.event(reply.chunk({}, call.served.finish_reason, corrigenda=report_of(report)))
        if call.plan.include_usage:
            await exchange.event(reply.usage_chunk(release.completion))
        await exchange.done()


async def _send_text(call: _Call, release: Release) -> None:
    if release.text:
        call.served.text_sent()
        more: dict[str, Any] = {"corrigenda": claims_of(release.claims)} if release.claims else {}
        await call.exchange.event(call.reply.chunk({"content": release.text}, **more))


def _require_sendable(call: _Call, release: Release) -> None:
    """Raise ApiError where a released piece must not leave."""
    if release.report is None:
        _require_checked(call, release.claims, None)
        return
    if not call.exchange.started or call.service.options.fail_closed:
        _require_whole(call, release, release.report)
    _require_checked(call, (*release.claims, *release.report.claims), release.report)


def _require_checked(call: _Call, claims: tuple[Claim, ...], report: Report | None) -> None:
    """Raise ApiError 502 where the check broke and the server is to give out nothing that was not checked."""
    if not call.service.options.fail_closed:
        return
    broken = any(c.verdict is Verdict.FAILED or c.reason == NO_TIME for c in claims)
    if broken or (report is not None and report.status is Status.FAILED):
        raise ApiError(
            502,
            "the answer could not be checked, and this server gives out none that was not (--fail-closed); try again",
            code="verification_failed",
        )


def _require_whole(call: _Call, release: Release, report: Report) -> None:
    """Raise ApiError where the upstream or the time limit left the answer unfinished, or none at all."""
    beside = {} if call.service.options.fail_closed else {"corrigenda": report_of(report)}
    if call.chat.failure is not None:
        error = translated(call.chat.failure, call.service.engine.hide)
        assert error is not None
        error.more |= beside
        raise error
    if release.completion is None and is_blank(report.answer):
        raise ApiError(
            504, "the upstream model gave no answer before the request's deadline", code="deadline", more=beside
        )

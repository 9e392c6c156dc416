"""POST /v1/verify and /v1/decide: reports about answers that the client has, and about reports that it has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from corrigenda.concurrency import together
from corrigenda.errors import InputError
from corrigenda.report import from_dict
from corrigenda.server.bodies import Exchange, encoded
from corrigenda.server.conversation import choices_of, deadline_of, references_of
from corrigenda.server.limits import Limits
from corrigenda.server.problems import ApiError, internal, translated, wrong
from corrigenda.server.served import Served
from corrigenda.server.service import Service
from corrigenda.server.wire import BatchBody, DecideBody, Item, VerifyBody, report_of, understood
from corrigenda.settings import Choices
from corrigenda.types import Report
from corrigenda.windows import is_blank

AT_A_TIME = 8
"""Answers of one call that are worked on together, so that a large call leaves room for others."""


async def verify(service: Service, exchange: Exchange, served: Served) -> None:
    """Check one answer, or with `items` several. Raises ApiError and what the pipeline raises."""
    data = await exchange.json()
    await exchange.unless_gone(_verify(service, exchange, served, data))


async def _verify(service: Service, exchange: Exchange, served: Served, data: Any) -> None:
    limits = service.options.limits
    batch = isinstance(data, Mapping) and "items" in data
    body = understood(BatchBody, data) if batch else understood(VerifyBody, data)
    items = body.items if isinstance(body, BatchBody) else [body]
    if len(items) > limits.batch:
        raise wrong(f"there are {len(items)} items; this server takes {limits.batch} in one call", "items")
    for number, item in enumerate(items):
        _require_fitting(item, limits, f"items.{number}." if batch else "")
    default = service.options.mode if service.options.mode != "off" else "check"
    served.mode = body.mode or default
    choices = choices_of(body, correct=served.mode == "correct")
    async with service.turn(served, deadline_of(body.deadline, limits, "deadline")) as left_s:
        if not batch:
            report = await _check(service, served, items[0], replace(choices, timeout=left_s), "")
            served.reports.append(report)
            await exchange.reply(200, report_of(report))
            return
        end, gate = time.perf_counter() + left_s, asyncio.Semaphore(AT_A_TIME)
        found = await together([_one(service, served, item, choices, n, end, gate) for n, item in enumerate(items)])
    served.reports += [each for each in found if isinstance(each, Report)]
    parts = [report_of(each) if isinstance(each, Report) else each.body() for each in found]
    await exchange.reply(200, {"reports": parts})


def _require_fitting(item: Item, limits: Limits, where: str) -> None:
    for name, text in (("answer", item.answer), ("question", item.question)):
        if text is not None and len(text) > limits.answer_chars:
            raise wrong(f"{where}{name} has {len(text)} characters; the limit is {limits.answer_chars}", where + name)
        if text is not None and is_blank(text):
            raise wrong(f"{where}{name} is empty; give its text", where + name)
    references_of(item.contexts, limits, f"{where}contexts")


async def _one(
    service: Service,
    served: Served,
    item: Item,
    choices: Choices,
    number: int,
    end: float,
    gate: asyncio.Semaphore,
) -> Report | ApiError:
    """Check one of several answers, up to `end`; what goes wrong with it leaves the others alone."""
    async with gate:
        choices = replace(choices, timeout=max(end - time.perf_counter(), 1e-3))
        try:
            return await _check(service, served, item, choices, f"items.{number}.")
        except Exception as exc:
            return translated(exc, service.engine.hide) or internal()


async def _check(service: Service, served: Served, item: Item, choices: Choices, where: str) -> Report:
    return await service.engine.check(
        item.answer,
        question=item.question,
        references=references_of(item.contexts, service.options.limits, f"{where}contexts"),
        choices=choices,
        headers=served.headers,
    )


async def decide(service: Service, exchange: Exchange, served: Served) -> None:
    """Decide a report anew from its scores. Raises ApiError."""
    body = understood(DecideBody, await exchange.json())
    # A report of many claims takes seconds; they are not spent on the loop that all requests share.
    decided, reply = await asyncio.to_thread(_decided, service, body)
    served.reports.append(decided)
    await exchange.reply(200, reply)


def _decided(service: Service, body: DecideBody) -> tuple[Report, dict[str, Any]]:
    try:
        report = from_dict(body.report)
    except InputError as exc:
        raise wrong(str(exc), "report") from None
    except (ArithmeticError, LookupError, RecursionError) as exc:
        raise wrong("not a corrigenda report", "report") from exc
    try:
        decided = service.engine.corrigenda.decide(report, policy=body.policy, k=body.k, threshold=body.threshold)
        reply = report_of(decided)
        encoded(reply)
    except InputError:
        raise
    except Exception as exc:
        # The report is the client's: whatever in it cannot be decided or written is its fault.
        raise wrong("the report holds values that cannot be decided on", "report") from exc
    return decided, reply

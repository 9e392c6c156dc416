"""The method, top to bottom: `ask` runs all seven stages, `check` starts at the second with an answer at hand.

Recall runs beside generate. While the answer still streams, each finished sentence is decomposed, and its
claims are scored as soon as the reference is there, so that after the last sentence only that sentence is left.

A stage that fails never loses the answer: the report then carries it unchanged, with the reason. With a
deadline, what could not be checked in time is `unverified` and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from corrigenda.errors import BackendError, InputError
from corrigenda.finish import finish, without_answer
from corrigenda.run import Options, Run, Tools
from corrigenda.types import ChatRequest, Completion, Reference, Report
from corrigenda.windows import is_blank

__all__ = ["Options", "Tools", "ask", "check"]


async def ask(
    question: str,
    tools: Tools,
    options: Options,
    *,
    request: ChatRequest | None = None,
    references: Sequence[Reference] | None = None,
) -> Report:
    """Answer `question` and check the answer: all seven stages. Returns a report, whatever breaks on the way.

    `request` is what the chat model gets; None: `question` alone, with the settings of `options`. `references` are
    checked against in place of one that is recalled from `question`.

    Raises InputError when the question is blank or there is no chat model, and BackendError when not even the
    beginning of an answer could be had.
    """
    run = begin(question, tools, options)
    completion = await generate_to_scores(run, question, request, references)
    return without_answer(run, completion) if is_blank(run.answer) else await finish(run)


def begin(question: str, tools: Tools, options: Options, *, hasty: bool = False) -> Run:
    """Return a run for `question`. Raises InputError when that is blank or there is no chat model."""
    _require_text("question", question)
    if tools.chat is None:
        raise InputError("asking needs a chat model; set llm (for instance --llm openai:gpt-4o-mini)")
    return Run(question=question, tools=tools, options=options, hasty=hasty)


async def generate_to_scores(
    run: Run,
    question: str,
    request: ChatRequest | None,
    references: Sequence[Reference] | None,
    beside: Callable[[asyncio.TaskGroup], Coroutine[Any, Any, None]] | None = None,
) -> Completion | None:
    """Run stages 1 to 4, and `beside` along with them, which gets the group for tasks of its own. Raises BackendError.

    Returns what the chat model said at the end of its reply; None where that broke off.
    """
    ask = run.request(question) if request is None else replace(request, stage="generate")
    completion: Completion | None = None
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            found = group.create_task(run.given(references, question))
            scoring = group.create_task(run.score(found))
            if beside is not None:
                group.create_task(beside(group))
            completion = await run.generate(ask, group)
            await run.close_claims()
            await scoring
    except* BackendError as failures:
        # Only generate lets one out, and then there is no answer to lose; the group has cancelled the rest.
        failure = failures.exceptions[0]
    if failure is not None:
        # With its own cause, which holds the backend's own words; and not in the block above: early releases of
        # Python 3.11 wrap what is raised there in a group.
        raise failure
    return completion


async def check(
    answer: str,
    tools: Tools,
    options: Options,
    *,
    question: str | None = None,
    references: Sequence[Reference] | None = None,
) -> Report:
    """Check `answer` against `references`, or, without any, against one recalled from `question` alone.

    Raises InputError when the answer or a given question is blank. With neither usable references nor a
    question and a chat model, every claim is `unverified` and a warning says why.
    """
    _require_text("answer", answer)
    if question is not None:
        _require_text("question", question)
    run = Run(question=question, tools=tools, options=options, answer=answer)
    async with asyncio.TaskGroup() as group:
        found = group.create_task(run.given(references, question))
        scoring = group.create_task(run.score(found))
        await run.decompose()
        await run.close_claims()
        await scoring
    return await finish(run)


def _require_text(what: str, value: object) -> None:
    """Raise InputError unless `value` is a text with something in it."""
    if not isinstance(value, str):
        raise InputError(f"the {what} must be a text, got {type(value).__name__}")
    if is_blank(value):
        raise InputError(f"the {what} is empty; give its text")

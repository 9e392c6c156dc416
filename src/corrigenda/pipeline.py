"""The method, top to bottom: `ask` runs all seven stages, `check` starts at the second with an answer at hand.

Recall runs beside generate. While the answer still streams, each finished sentence is decomposed, and its
claims are scored as soon as the reference is there, so that after the last sentence only that sentence is left.

A stage that fails never loses the answer: the report then carries it unchanged, with the reason. With a
deadline, what could not be checked in time is `unverified` and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from corrigenda.errors import BackendError, InputError
from corrigenda.finish import finish, without_answer
from corrigenda.run import Options, Run, Tools
from corrigenda.types import Completion, Reference, Report
from corrigenda.windows import is_blank

__all__ = ["Options", "Tools", "ask", "check"]


async def ask(question: str, tools: Tools, options: Options) -> Report:
    """Answer `question` and check the answer: all seven stages. Returns a report, whatever breaks on the way.

    Raises InputError when the question is blank or there is no chat model, and BackendError when not even the
    beginning of an answer could be had.
    """
    _require_text("question", question)
    if tools.chat is None:
        raise InputError("asking needs a chat model; set llm (for instance --llm openai:gpt-4o-mini)")
    run = Run(question=question, tools=tools, options=options)
    completion: Completion | None = None
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            scoring = group.create_task(run.score(group.create_task(run.recall(question))))
            completion = await run.generate(question, group)
            await run.close_claims()
            await scoring
    except* BackendError as failures:
        # Only generate lets one out, and then there is no answer to lose; the group has cancelled the rest.
        failure = failures.exceptions[0]
    if failure is not None:
        raise failure  # not in the block above: early releases of Python 3.11 wrap what is raised there in a group
    assert completion is not None
    if is_blank(run.answer):
        return without_answer(run, completion)
    return await finish(run)


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

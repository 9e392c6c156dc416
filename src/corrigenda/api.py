"""The library's front door: one object that holds the models and makes reports.

from corrigenda import Corrigenda

c = Corrigenda(llm="openai:gpt-4o-mini", nli="onnx:my-nli-model")
report = c.check_sync("Rome has 5 hills.", context="Rome stands on seven hills.")
print(report.status, report.final_answer)
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar

from corrigenda import config
from corrigenda.errors import CorrigendaError
from corrigenda.loading import NO_CHOICES, Loader, report_options
from corrigenda.pipeline import Options, Tools, ask, check
from corrigenda.policies import Policy
from corrigenda.ports import ChatModel, Entailer, Retriever
from corrigenda.progress import Progress
from corrigenda.redecide import redecide
from corrigenda.releasing import DecisionMode, Release, ask_releasing
from corrigenda.settings import Choices, Settings
from corrigenda.stages.decompose import Decomposer
from corrigenda.types import ChatRequest, Reference, Report

T = TypeVar("T")
OnStage = Callable[[str, bool], None]
"""Told a stage's name and whether it begins (True) or ends (False)."""

Context = str | Reference | Sequence[str | Reference]
"""One passage or several, as text or as `Reference` (which also names its source)."""


class Corrigenda:
    """Checks answers claim by claim and rewrites only what is contradicted.

    Every keyword of `Settings` can be given, with the same strings as the command line's flags; `llm`, `nli`,
    `decomposer` and `policy` also take objects that satisfy the ports, and `retriever` is one in place of the index
    that `retrieve` names. What is not given comes from the environment and `corrigenda.toml`, as for the command
    line, unless `settings` is given: then those are the base and nothing else is read.

    Models are loaded on first use. Objects that the caller passes are used as they are, never changed, and
    never closed. One object serves many concurrent reports in one event loop; use `async with`, `aclose` or
    `close` to free the models.

    Raises ConfigError when a setting is wrong.
    """

    def __init__(
        self,
        *,
        llm: str | ChatModel | None = None,
        nli: str | Entailer | None = None,
        decomposer: str | Decomposer | None = None,
        policy: str | Policy | None = None,
        retriever: Retriever | None = None,
        settings: Settings | None = None,
        progress: Callable[[int, int, str], None] | None = None,
        **overrides: Any,
    ) -> None:
        """Check the settings; load nothing yet.

        `progress(done, total, note)` follows model downloads, in bytes; without it, lines on standard error do.
        """
        given = {"llm": llm, "nli": nli, "decomposer": decomposer, "policy": policy}
        strings: dict[str, Any] = {k: v for k, v in (given | overrides).items() if isinstance(v, str) or k in overrides}
        if settings is None:
            sourced = config.load(strings)
            self.settings = sourced.settings
            for text in sourced.warnings:
                warnings.warn(text, stacklevel=2)
        else:
            self.settings = config.override(settings, **strings)
        self._loader = Loader(
            self.settings,
            chat=None if isinstance(llm, str) else llm,
            entailer=None if isinstance(nli, str) else nli,
            policy=None if isinstance(policy, str) else policy,
            decomposer=None if isinstance(decomposer, str) else decomposer,
            retriever=retriever,
            progress=progress or Progress().download,
        )
        self._runner: _Runner | None = None
        self._runner_lock = threading.Lock()

    async def ask(
        self,
        question: str,
        *,
        request: ChatRequest | None = None,
        context: Context | None = None,
        choices: Choices | None = None,
        on_stage: OnStage | None = None,
    ) -> Report:
        """Answer `question`, check the answer, and return the report.

        With a `request` (a conversation, with its own sampling settings) that is what the chat model gets, and
        `question` is what the reference is recalled from. With a `context`, nothing is recalled and that is what
        the answer is checked against.

        Raises InputError for a blank question, ConfigError or ModelError when a choice is wrong or a model cannot be
        loaded, and BackendError when no answer at all could be had. Every later failure is in the report.
        """
        tools, options = await self.prepare(choices, on_stage=on_stage)
        return await ask(question, tools, options, request=request, references=as_references(context))

    async def releasing(
        self,
        question: str,
        *,
        request: ChatRequest | None = None,
        context: Context | None = None,
        decision: DecisionMode = "incremental",
        choices: Choices | None = None,
        on_stage: OnStage | None = None,
    ) -> AsyncGenerator[Release, None]:
        """Do as `ask`, and yield the final answer piece by piece as it becomes certain; the report comes last.

        What was yielded is not taken back: see `corrigenda.releasing`. Close the iterator (`contextlib.aclosing`)
        when you stop early; that cancels the model's call. Raises as `ask` does, at the first step.
        """
        tools, options = await self.prepare(choices, on_stage=on_stage)
        references = as_references(context)
        pieces = ask_releasing(request, question, tools, options, decision=decision, references=references)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def check(
        self,
        answer: str,
        *,
        question: str | None = None,
        context: Context | None = None,
        choices: Choices | None = None,
        on_stage: OnStage | None = None,
    ) -> Report:
        """Check `answer` against `context`, or, without one, against a reference recalled from `question`.

        Raises InputError for a blank answer or question, ConfigError or ModelError when a choice is wrong or a model
        cannot be loaded. Every later failure is in the report.
        """
        chat = context is None and question is not None
        tools, options = await self.prepare(choices, chat=chat, on_stage=on_stage)
        return await check(answer, tools, options, question=question, references=as_references(context))

    def decide(
        self,
        report: Report,
        *,
        policy: str | Policy | None = None,
        k: float | None = None,
        threshold: float | None = None,
    ) -> Report:
        """Return `report` with its claims decided anew from their scores, by another policy, k or threshold.

        No model is loaded or called. Verdicts, their reasons, the decision, the status and the warnings are new; the
        edits and the final answer stay those of the first decision, and a warning says so. Raises ConfigError for
        an unknown policy, a value out of range, and a threshold for a policy that has none.
        """
        choices = Choices(policy=policy, k=k, threshold=threshold)
        return redecide(report, self._loader.policy_for(report, choices))

    async def prepare(
        self, choices: Choices | None = None, *, chat: bool = True, on_stage: OnStage | None = None
    ) -> tuple[Tools, Options]:
        """Return the tools, loaded, and the options that one report is made with, for who wants to exchange some.

        `corrigenda.pipeline.ask` and `check` and `corrigenda.releasing.ask_releasing` make reports of them, as the
        methods here do:

            tools, options = await c.prepare()
            report = await ask("…", replace(tools, entailer=mine), options)

        Without `chat`, the chat model is loaded when it is first called. The tools stay this object's: it frees them
        when it is closed. Raises ConfigError for a wrong choice, before anything is loaded, and ModelError when a
        model cannot be loaded.
        """
        options = report_options(self.settings, choices or NO_CHOICES, on_stage)
        return await self._loader.tools(chat=chat, choices=choices or NO_CHOICES), options

    def ask_sync(
        self,
        question: str,
        *,
        request: ChatRequest | None = None,
        context: Context | None = None,
        choices: Choices | None = None,
        on_stage: OnStage | None = None,
    ) -> Report:
        """Do as `ask`, and wait for it. Works inside a running event loop too (a notebook)."""
        return self._run(self.ask(question, request=request, context=context, choices=choices, on_stage=on_stage))

    def check_sync(
        self,
        answer: str,
        *,
        question: str | None = None,
        context: Context | None = None,
        choices: Choices | None = None,
        on_stage: OnStage | None = None,
    ) -> Report:
        """Do as `check`, and wait for it. Works inside a running event loop too (a notebook)."""
        return self._run(self.check(answer, question=question, context=context, choices=choices, on_stage=on_stage))

    async def aclose(self) -> None:
        """Free the models that were loaded here. May be called twice."""
        await self._loader.aclose()

    def close(self) -> None:
        """Do as `aclose`, and wait for it; also end the thread of the synchronous calls."""
        with self._runner_lock:
            runner, self._runner = self._runner or _Runner(), None
        runner.run(self.aclose())
        runner.close()

    async def __aenter__(self) -> Corrigenda:
        """Return the object itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the models."""
        await self.aclose()

    def __enter__(self) -> Corrigenda:
        """Return the object itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the models."""
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._runner_lock:
            self._runner = self._runner or _Runner()
            runner = self._runner
        return runner.run(work)


def as_references(context: Context | None) -> tuple[Reference, ...] | None:
    """Return the caller's context as references, or None when none was given at all.

    Raises TypeError, naming what it got, for anything but text and Reference.
    """
    if context is None:
        return None
    passages = [context] if isinstance(context, str | Reference) else list(context)
    found = []
    for number, passage in enumerate(passages, start=1):
        if isinstance(passage, Reference):
            found.append(passage)
        elif isinstance(passage, str):
            found.append(Reference(text=passage, source="context" if len(passages) == 1 else f"context {number}"))
        else:
            raise TypeError(f"context {number} must be a text or a Reference, got {type(passage).__name__}")
    return tuple(found)


class _Runner:
    """An event loop in a thread of its own, for the synchronous calls.

    One loop for all of them, since connections belong to the loop that opened them; and a thread, so that they
    also work where a loop is already running.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="corrigenda", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread:
            work.close()
            raise CorrigendaError("a synchronous call from inside an asynchronous one; await the call instead")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError as exc:
            raise CorrigendaError("the Corrigenda object was closed while this call was running") from exc
        except BaseException:
            future.cancel()  # Ctrl-C here must stop the work there
            raise

    def close(self) -> None:
        """Cancel what is still running, so that no caller waits for ever, and end the thread."""

        async def cancel_all() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

"""A LangChain Runnable that checks what comes before it in a chain.

    chain = prompt | model | CorrigendaRunnable(context="…")

Its input is an answer (a text or a message), or a dict with `answer`, `question` and `contexts`; without an answer the
question is asked. Its output is the corrected text or the whole report. `astream` gives the answer to a question
sentence by sentence; `batch`, `stream` and the rest are LangChain's own, over `invoke` and `ainvoke`.

LangSmith gets nothing of it, whatever the environment says, unless `traced` is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from typing import Any, Literal

from corrigenda.api import Context, Corrigenda
from corrigenda.errors import ConfigError, InputError
from corrigenda.integrations import require
from corrigenda.types import Reference, Report

require("the LangChain Runnable", "langchain_core", "langchain")

from langchain_core.callbacks import BaseCallbackManager  # noqa: E402  # the line above says what to install
from langchain_core.documents import Document  # noqa: E402
from langchain_core.messages import BaseMessage  # noqa: E402
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config  # noqa: E402
from langchain_core.tracers.context import tracing_v2_callback_var  # noqa: E402
from langchain_core.tracers.langchain import LangChainTracer  # noqa: E402
from langsmith import tracing_context  # noqa: E402
from typing_extensions import TypedDict  # noqa: E402  # pydantic, which makes the schemas, wants this one

Passages = str | Document | Sequence[str | Document]
"""What an answer is checked against: texts, or documents as a retriever gives them."""


class Checked(TypedDict, total=False):
    """The input as a dict. Without `answer`, `question` is asked; with neither `contexts`, a reference is recalled."""

    answer: str | BaseMessage
    question: str | BaseMessage
    contexts: Passages


CheckInput = str | BaseMessage | Mapping[str, Any]
"""What `invoke` takes; a mapping must have the form of `Checked`, which InputError says when it has not."""


class CorrigendaRunnable(Runnable[CheckInput, Report | str]):
    """Checks an answer, or asks a question and checks the answer; returns the corrected text or the report.

    One object serves any number of calls. It uses the `Corrigenda` that it is given, and never closes it; without
    one it makes its own from the settings and closes it in `close`.
    """

    def __init__(
        self,
        corrigenda: Corrigenda | None = None,
        *,
        output: Literal["text", "report"] = "text",
        context: Passages | None = None,
        traced: bool = False,
        **settings: Any,
    ) -> None:
        """Take a Corrigenda, or what one is made with (`llm`, `nli`, `policy`, …).

        `output` is `text` (the final answer) or `report`. `context` serves inputs that bring no `contexts`. With
        `traced`, LangSmith's tracing includes this step where it is on; without, it never does.

        Raises ConfigError for another `output`, for settings beside a Corrigenda, and for wrong settings.
        """
        if output not in ("text", "report"):
            raise ConfigError(f"unknown output {output!r}; there are report and text")
        if corrigenda is not None and settings:
            raise ConfigError(f"{sorted(settings)[0]} cannot be set beside a Corrigenda, which has its own settings")
        self._own = corrigenda is None
        self.corrigenda = corrigenda or Corrigenda(**settings)
        self.output = output
        self.context = context
        self.traced = traced

    @property
    def InputType(self) -> Any:  # noqa: N802  # LangChain's name
        """The types that `invoke` takes."""
        return str | BaseMessage | Checked

    @property
    def OutputType(self) -> Any:  # noqa: N802  # LangChain's name
        """The type that `invoke` returns: a text, or a `corrigenda.Report`."""
        return str if self.output == "text" else Report

    def invoke(self, input: CheckInput, config: RunnableConfig | None = None, **_: Any) -> Report | str:
        """Check the input and return the text or the report. Raises InputError for an input that it cannot use."""
        if self.traced:
            return self._call_with_config(self._run, input, config)
        with _untraced():
            return self._call_with_config(self._run, input, _without_langsmith(config))

    async def ainvoke(self, input: CheckInput, config: RunnableConfig | None = None, **_: Any) -> Report | str:
        """Do as `invoke`, without blocking."""
        if self.traced:
            return await self._acall_with_config(self._arun, input, config)
        with _untraced():
            return await self._acall_with_config(self._arun, input, _without_langsmith(config))

    async def astream(
        self, input: CheckInput, config: RunnableConfig | None = None, **_: Any
    ) -> AsyncIterator[Report | str]:
        """Do as `ainvoke`, and give the text of an answer to a question piece by piece as it becomes certain.

        A sentence comes when it is checked, corrected first where it is contradicted, and is decided over those up to
        it: see `Corrigenda.releasing`. An answer that is given to be checked, and a report, come as one piece. Close
        the iterator (`contextlib.aclosing`) when you stop early; that cancels the model's call.
        """

        async def given() -> AsyncIterator[CheckInput]:
            yield input

        config = config if self.traced else _without_langsmith(config)
        pieces = self._atransform_stream_with_config(given(), self._pieces, config)
        async with aclosing(pieces):  # type: ignore[type-var]  # it is a generator, which its type does not say
            # No longer than until the callbacks are chosen: between two pieces, the caller's own code runs.
            with nullcontext() if self.traced else _untraced():
                piece = await anext(pieces, None)
            while piece is not None:
                yield piece
                piece = await anext(pieces, None)

    def close(self) -> None:
        """Free the models, if this object made its own Corrigenda."""
        if self._own:
            self.corrigenda.close()

    def _run(self, value: CheckInput) -> Report | str:
        answer, question, context = self._read(value)
        if answer is None:
            return self._given(self.corrigenda.ask_sync(str(question), context=context))
        return self._given(self.corrigenda.check_sync(answer, question=question, context=context))

    async def _arun(self, value: CheckInput) -> Report | str:
        answer, question, context = self._read(value)
        if answer is None:
            return self._given(await self.corrigenda.ask(str(question), context=context))
        return self._given(await self.corrigenda.check(answer, question=question, context=context))

    async def _pieces(self, values: AsyncIterator[CheckInput]) -> AsyncIterator[Report | str]:
        async for value in values:
            answer, question, context = self._read(value)
            if answer is not None or self.output == "report":
                yield await self._arun(value)
                continue
            came = False
            async with aclosing(self.corrigenda.releasing(str(question), context=context)) as releases:
                async for release in releases:
                    # An empty answer is a piece, too: without any, LangChain would not call the chain's next step.
                    if release.text or (release.report is not None and not came):
                        came = True
                        yield release.text

    def _given(self, report: Report) -> Report | str:
        return report.final_answer if self.output == "text" else report

    def _read(self, value: CheckInput) -> tuple[str | None, str | None, Context | None]:
        """Return answer, question and context of an input. Raises InputError."""
        if isinstance(value, str | BaseMessage):
            return _text("input", value), None, _passages(self.context)
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            raise InputError(
                f"the input must be a text, a message or a dict with answer, question, contexts, got {kind}"
            )
        if unknown := sorted(str(key) for key in value if key not in Checked.__annotations__):
            raise InputError(f"unknown key {unknown[0]!r} in the input; there are answer, contexts, question")
        answer, question = value.get("answer"), value.get("question")
        if answer is None and question is None:
            raise InputError("the input has neither an answer nor a question; give one of them")
        contexts = value.get("contexts")
        return (
            None if answer is None else _text("answer", answer),
            None if question is None else _text("question", question),
            _passages(self.context if contexts is None else contexts),
        )


def _text(what: str, value: Any) -> str:
    if isinstance(value, BaseMessage):
        return str(value.text)
    if isinstance(value, str):
        return value
    raise InputError(f"the {what} must be a text or a message, got {type(value).__name__}")


def _passages(value: Passages | None) -> Context | None:
    """Return texts and documents as the context of a check; a document is named by its source, else its id."""
    if value is None or isinstance(value, str):
        return value
    passages = [value] if isinstance(value, Document) else list(value)
    return [_reference(p, number) if isinstance(p, Document) else p for number, p in enumerate(passages, start=1)]


def _reference(document: Document, number: int) -> Reference:
    source = document.metadata.get("source") or document.id or f"context {number}"
    return Reference(text=document.page_content, source=str(source))


@contextmanager
def _untraced() -> Iterator[None]:
    """Keep LangChain from adding a LangSmith tracer of its own, as the environment or a block around may ask."""
    token = tracing_v2_callback_var.set(None)
    try:
        with tracing_context(enabled=False):
            yield
    finally:
        tracing_v2_callback_var.reset(token)


def _without_langsmith(config: RunnableConfig | None) -> RunnableConfig:
    """Return `config` without the LangSmith tracers that a chain around hands down; all other callbacks stay."""
    config = ensure_config(config)  # a chain may also hand it down through the context
    callbacks = config.get("callbacks")
    if callbacks is None:
        return config
    if not isinstance(callbacks, BaseCallbackManager):
        return {**config, "callbacks": [c for c in callbacks if not isinstance(c, LangChainTracer)]}
    kept = callbacks.copy()
    for handler in [*kept.handlers, *kept.inheritable_handlers]:
        if isinstance(handler, LangChainTracer):
            kept.remove_handler(handler)
    return {**config, "callbacks": kept}

"""One set of models that makes reports of rows: the same for every engine.

What stands between the pipeline and the models, from outside in:

- chat: equal questions recall once (`backends.cached`), calls are counted (`spending`), and their number at a time
  adapts to what the server takes (`backends.adaptive`);
- verifier: equal pairs are scored once, and the pairs of many rows form full batches (`backends.batching`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from corrigenda.backends.adaptive import adaptive
from corrigenda.backends.batching import BatchingEntailer
from corrigenda.backends.cached import CachingEntailer, Reused, one_report, recall_once
from corrigenda.batch.rows import PAIRS, Done, Row, Spent
from corrigenda.batch.spending import Ledger, counted, ledger
from corrigenda.cache import Cache
from corrigenda.errors import CorrigendaError
from corrigenda.files import tell
from corrigenda.loading import Loader, report_options
from corrigenda.pipeline import Options, Tools, ask, check
from corrigenda.ports import ChatModel, Entailer
from corrigenda.report import to_dict
from corrigenda.settings import Choices, Settings
from corrigenda.terminal import without_credentials
from corrigenda.types import Report

WINDOW_S = 0.005
"""How long pairs wait for those of other rows at most."""
MAX_REPLIES, MAX_PAIRS = 1_000, 4_000
"""What the caches keep in memory: little, so that memory does not grow with the input; the rest is found on disk."""
RETRIES = 4
"""How often a call is made again that failed for a passing reason, where the settings do not say more, or 0."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker needs to know; picklable. Its settings may hold secrets, which its repr does not show."""

    settings: Settings
    concurrency: int = 32
    """Rows that a worker has in flight at most (each engine sees to that)."""
    chat: bool = True
    """Whether some row certainly calls the chat model, so that it is loaded at the start."""
    correct: bool = True
    """False: answers are checked, and nothing is rewritten."""
    cache: bool = True
    """Whether recalled references and scored pairs are kept on disk, in the folder that the settings say."""
    batch_pairs: int = 64
    """Pairs in one call of the verifier at most."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Of the files that the settings name, by setting; the cache knows models by them, beside their names."""


class RowWorker:
    """Makes reports of rows with one set of models, in one event loop, many rows at a time."""

    def __init__(self, job: Job, progress: Callable[[int, int, str], None] | None = None) -> None:
        """Load nothing yet. `progress(done, total, note)` follows downloads of models, in bytes.

        Raises ConfigError when a small file that the settings name cannot be read.
        """
        self._job = job
        # A chat server's failed calls are made again by the limit that adapts to it, and not below it.
        settings = replace(job.settings, retries=0)
        self._loader = Loader(settings, progress=progress, wrap=self._watched, many_pairs=True)
        self._cache = Cache(job.settings.cache_dir, warn=tell) if job.cache else None
        self._made: tuple[Tools, Options] | None = None
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Load the models. Raises ConfigError (MissingExtra among them), ModelError or InputError."""
        tools = await self._loader.tools(chat=self._job.chat)
        chat = (
            None
            if tools.chat is None
            else recall_once(tools.chat, self._cache, model=self._chat_known_as(), max_replies=MAX_REPLIES)
        )
        entailer = self._entailer(tools.entailer)
        options = report_options(self._job.settings, Choices(correct=self._job.correct))
        self._made = replace(tools, chat=chat, entailer=entailer), options

    async def done(self, row: Row) -> Done:
        """Return what was made of a row. Never raises, but for being cancelled."""
        begun = time.perf_counter()
        report: Report | None = None
        failure: BaseException | None = None
        with ledger() as calls, one_report() as reused:
            try:
                report = await self._report(row)
            except Exception as exc:  # models and policies may have any fault; the other rows go on
                failure = _first(exc)
        return Done(
            number=row.number,
            id=row.id,
            report=None if report is None else to_dict(report),
            error=None if failure is None else _told(failure),
            kind=None if failure is None else type(failure).__name__,
            seconds=round(time.perf_counter() - begun, 4),
            spent=_spent(calls, reused),
        )

    async def aclose(self) -> None:
        """Free the models. May be called twice."""
        self._made = None
        await self._stack.aclose()
        await self._loader.aclose()
        if self._cache is not None:
            await self._cache.aclose()

    async def _report(self, row: Row) -> Report:
        if self._made is None:
            raise CorrigendaError("the worker has not been started, or was closed")
        tools, options = self._made
        if row.answer is None:
            return await ask(row.question or "", tools, options, references=row.contexts)
        return await check(row.answer, tools, options, question=row.question, references=row.contexts)

    def _watched(self, model: ChatModel) -> ChatModel:
        """Return a chat model as it stands behind the caches: counted, and one behind a server with a limit."""
        if not model.name.startswith("openai:"):  # the others know themselves how much they can do at a time
            return counted(model)
        retries = self._job.settings.retries
        most = 2 * self._job.concurrency  # a row that is asked recalls beside
        return counted(adaptive(model, most=most, retries=max(retries, RETRIES) if retries else 0))

    def _entailer(self, inner: Entailer) -> Entailer:
        known_as = self._verifier_known_as(inner)
        if getattr(inner, "batches", True):
            inner = BatchingEntailer(inner, window_s=WINDOW_S, max_pairs=self._job.batch_pairs)
            self._stack.push_async_callback(inner.aclose)
        return CachingEntailer(inner, self._cache, model=known_as, max_pairs=MAX_PAIRS)

    def _chat_known_as(self) -> str:
        """Return what replies are known by in the cache: the model, where it is, and what it is made of."""
        settings = self._job.settings
        address = settings.base_url if settings.llm.startswith("openai:") and settings.base_url else ""
        return " ".join((settings.llm, without_credentials(address), self._job.checksums.get("chat", ""))).strip()

    def _verifier_known_as(self, entailer: Entailer) -> str:
        """Return what scores are known by: the verifier, its files and constants, and what checks numbers beside it."""
        settings, checksums = self._job.settings, self._job.checksums
        address = settings.base_url if "openai:" in settings.nli + settings.llm and settings.base_url else ""
        parts = (
            entailer.name,
            type(entailer).__name__,
            without_credentials(address),
            checksums.get("verifier", ""),
            checksums.get("nli_calibration", ""),
        )
        return " ".join(part for part in parts if part)


def _first(exc: BaseException) -> BaseException:
    """Return what a group of failures began with."""
    return _first(exc.exceptions[0]) if isinstance(exc, BaseExceptionGroup) else exc


def _told(exc: BaseException) -> str:
    """Return one line about a failure: our own errors speak for themselves, others need their kind named."""
    return str(exc) if isinstance(exc, CorrigendaError) else f"{type(exc).__name__}: {exc}"


def _spent(calls: Ledger, reused: Reused) -> dict[str, Spent]:
    """Return what a row cost, with what it did not cost since another row had."""
    spent = dict(calls.spent)
    if reused.calls:
        spent["recall"] = replace(spent.get("recall", Spent()), reused=reused.calls)
    if reused.pairs or reused.pairs_scored:
        spent[PAIRS] = Spent(calls=reused.pairs_scored, reused=reused.pairs)
    return spent

"""One run, from its beginning to its end: check the input, go on from what is done, write the output and the summary.

Whatever ends the run in good order (all rows done, a budget, a deadline, Ctrl-C, SIGTERM, a backend that has gone) the
output and the summary are written from the state. What ends it otherwise (SIGKILL, a full disk) leaves the state, from
which the same command goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corrigenda.batch import checking, manifest, output
from corrigenda.batch.budget import Budget
from corrigenda.batch.checking import Counts
from corrigenda.batch.engine import Engine, Stop
from corrigenda.batch.inputs import File, Print, files_of, kind_of
from corrigenda.batch.reading import Columns, place, read
from corrigenda.batch.rows import Done, Row
from corrigenda.batch.state import State, locked, state_path
from corrigenda.batch.summary import Prices, Tally, ThisRun, summarise, write_summary
from corrigenda.errors import BackendError, CorrigendaError, InputError
from corrigenda.evals.fingerprints import of_settings
from corrigenda.evals.progress import Counter
from corrigenda.files import tell
from corrigenda.settings import Settings

IN_A_ROW = 50
"""After so many failures in a row that are not the rows' own, nothing more is begun: the backend has gone."""
_ROWS_OWN = frozenset({"InputError", "ParseError", "BadReply", "RequestRefused", "ReasoningLeaked", "JSONDecodeError"})
"""Kinds of failures that speak of the row and not of the backend."""
INTERRUPTED = 130
TERMINATED = 143
MakeEngine = Callable[[Counts, Mapping[str, str]], Engine]
"""Told what the input holds and the checksums of what the settings name."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done."""

    inputs: Sequence[str]
    output: Path
    settings: Settings
    engine: MakeEngine
    columns: Columns
    budget: Budget
    prices: Prices
    correct: bool = True
    retry_failed: bool = False
    overwrite: bool = False
    begun: float = field(default_factory=time.monotonic)
    """When the command began, from which its deadline counts."""


@dataclass(kw_only=True)
class _Ended:
    """How the rows of a run ended."""

    seconds: float = 0.0
    stopped: str | None = None
    failure: CorrigendaError | None = None
    """What broke the engine, where something did."""
    code: int = 0


def go(plan: Plan) -> tuple[dict[str, Any], int]:
    """Carry a plan out. Returns the summary and the exit code: 0, 3, or that of a signal.

    Raises InputError (ConfigError among them) before anything is begun, ModelError when a model cannot be had,
    OutputFailed when the disk is full; the state stays usable.
    """
    kind_of(plan.output, "the output")
    if plan.output.is_dir():
        raise InputError(f"the output {str(plan.output)!r} is a folder; name a file")
    files = files_of(plan.inputs, plan.output)
    checksums = of_settings(plan.settings)
    with locked(plan.output):
        output.remove_parts(plan.output)
        there = _there(plan)
        prints, counts = _checked(plan, files, checksums, there)
        given = _Input(files, prints, counts, plan.columns)
        _require_chat(plan, given)
        if plan.overwrite:
            _remove_state(plan.output)
        with closing(State(state_path(plan.output))) as state:
            known = manifest.manifest_of(plan.settings, plan.columns, prints, checksums, correct=plan.correct)
            state.begin({**known, "counts": asdict(counts)})
            return _carried_out(plan, given, state, checksums)


def _there(plan: Plan) -> Mapping[str, Any] | None:
    """Return the manifest of the run that is to be gone on from; None where a new one begins.

    A run that did nothing yet (its models could not be had) binds none after it. Raises InputError where there is an
    output that no run left.
    """
    path = state_path(plan.output)
    if plan.overwrite:
        return None
    if path.exists():
        with closing(State(path)) as state:
            begun, empty = state.manifest is not None, state.empty()
            if not empty:
                return state.manifest
        if begun:
            return None
    if plan.output.exists():
        raise InputError(
            f"the output {str(plan.output)!r} exists, and there is no state of a run beside it; name another output, "
            "or write over it with --overwrite"
        )
    return None


def _remove_state(output: Path) -> None:
    path = state_path(output)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path.with_name(name))


def _checked(
    plan: Plan, files: Sequence[File], checksums: Mapping[str, str], there: Mapping[str, Any] | None
) -> tuple[tuple[Print, ...], Counts]:
    """Return the prints of the files, and what they hold; a run that goes on need not read them all again."""
    path = state_path(plan.output)
    if there is not None:  # what differs in the settings is told before the input is read
        here = manifest.manifest_of(plan.settings, plan.columns, (), checksums, correct=plan.correct)
        manifest.require_same(path, there, {**here, "input": there["input"]})
    prints = manifest.prints_of(files, there)
    if there is not None:
        manifest.require_same(path, there, {**here, "input": [asdict(one) for one in prints]})
        known = manifest.counts_of(there)
        if known is not None:
            return prints, known
    counts = checking.check(files, plan.columns)
    manifest.require_unchanged(files, prints)
    return prints, counts


@dataclass(frozen=True)
class _Input:
    """The input of a run."""

    files: Sequence[File]
    prints: Sequence[Print]
    counts: Counts
    columns: Columns

    def left(self, state: State, *, retry_failed: bool) -> Generator[Row, None, None]:
        """Yield the rows that are not done. Raises InputError when the input is not as it was."""

        def wanted(start: int, stop: int) -> Any:
            return state.missing(start, stop, retry_failed=retry_failed)

        manifest.require_unchanged(self.files, self.prints)
        first = 0
        for file, known, rows in zip(self.files, self.prints, self.counts.per_file, strict=True):
            with closing(read(file, first, self.columns, wanted)) as placed:
                for row, _ in placed:
                    # A row of a changed file would be kept as one of the file that the state is of.
                    manifest.require_unchanged([file], [known])
                    yield row
            first += rows
        manifest.require_unchanged(self.files, self.prints)

    def first_to_ask(self) -> str | None:
        """Return where the first row without an answer stands."""
        first = 0
        for file, rows in zip(self.files, self.counts.per_file, strict=True):
            with closing(read(file, first, self.columns)) as placed:
                for row, line in placed:
                    if row.answer is None:
                        return place(file, line)
            first += rows
        return None


def _require_chat(plan: Plan, given: _Input) -> None:
    if plan.settings.llm == "none" and given.counts.asks:
        raise InputError(
            f"{given.first_to_ask()} has no answer, and asking needs a chat model; set llm (for instance --llm "
            "openai:gpt-4o-mini), or give the answer"
        )


def _carried_out(plan: Plan, given: _Input, state: State, checksums: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    total, before = given.counts.rows, state.counts()
    done = sum(before.values()) - (before.get("failed", 0) if plan.retry_failed else 0)
    asks = f", {given.counts.asks} of them to be asked" if given.counts.asks else ""
    recalls = f", {given.counts.recalls} answers without contexts" if given.counts.recalls else ""
    tell(f"{total} rows{asks}{recalls}; {done} are done; the state is in {state.path}")
    ended = _Ended()
    if done < total:
        engine = plan.engine(given.counts, checksums)
        ended = asyncio.run(_run(plan, given, state, engine, Counter(total, "rows", done)))
    return _written(plan, state, total, ended)


async def _run(plan: Plan, given: _Input, state: State, engine: Engine, counter: Counter) -> _Ended:
    stop, ended, streak, begun = Stop(), _Ended(), 0, time.monotonic()
    with closing(given.left(state, retry_failed=plan.retry_failed)) as left, _signals(stop, ended):
        rows = plan.budget.limited(left, stop)
        try:
            with plan.budget.deadline(stop, begun - plan.begun), counter:
                async with aclosing(engine.run(rows, stop)) as results:  # type: ignore[type-var]
                    async for result in results:
                        kept = state.put(result)
                        plan.budget.spend(kept, stop)
                        counter.add(kept.id, failed=kept.failed)
                        streak = streak + 1 if kept.failed and kept.kind not in _ROWS_OWN else 0
                        if streak == IN_A_ROW:
                            stop.gently(f"{IN_A_ROW} rows in a row failed, the last with: {_reason(kept)}")
                            ended.code = BackendError.exit_code
        except BackendError as exc:  # the engine itself broke; what is done is done
            ended.failure, ended.code = exc, exc.exit_code
            if not plan.budget.spent_rows:
                raise  # it never began, so that there is nothing to write
    ended.seconds = time.monotonic() - begun
    ended.stopped = stop.reason if ended.failure is None else str(ended.failure)
    return ended


def _reason(done: Done) -> str:
    return str(done.error if done.report is None else done.report.get("reason"))


def _written(plan: Plan, state: State, total: int, ended: _Ended) -> tuple[dict[str, Any], int]:
    """Write the output and the summary; return the summary and the exit code."""
    tally = Tally()
    output.write(plan.output, tally.watch(state.all()))
    budget = plan.budget
    this_run = ThisRun(
        seconds=round(ended.seconds, 3),
        rows=budget.spent_rows,
        calls=budget.spent_calls,
        tokens=budget.spent_tokens,
        stopped=ended.stopped,
    )
    summary = summarise(state, tally, total, this_run, plan.prices)
    write_summary(plan.output, summary)
    if ended.failure is not None:
        tell(str(ended.failure))
    failed = summary["failures"]["rows"]
    if failed:
        tell(f"{failed} of {tally.rows} rows failed; {plan.output} says why each did; --retry-failed does them again")
    if not summary["complete"]:
        why = f": {ended.stopped}" if ended.stopped else ""
        tell(f"stopped with {total - tally.rows} of {total} rows left{why}; the same command goes on from here")
    if ended.code and not (summary["complete"] and ended.code in (INTERRUPTED, TERMINATED)):
        return summary, ended.code
    return summary, BackendError.exit_code if tally.rows and failed == tally.rows else 0


@contextmanager
def _signals(stop: Stop, ended: _Ended) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM stop the run gently, the second at once; the third does what it always did."""
    loop = asyncio.get_running_loop()
    codes = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
    before = {number: signal.getsignal(number) for number in codes}

    def came(number: int) -> None:
        ended.code = codes[signal.Signals(number)]
        if stop.reason is None:
            tell("stopping: the rows in flight are finished; once more gives them up")
            stop.gently("interrupted")
        else:
            stop.now("interrupted")
            for each, handler in before.items():
                signal.signal(each, handler)

    for number in codes:
        signal.signal(number, lambda n, _: loop.call_soon_threadsafe(came, n))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The runner: items × repeats × methods, each a record on disk as soon as it is made.

The methods of an item run one after the other, so that they share calls and none slows another down; with
`concurrency`, several items are worked on at a time. Whatever a method raises becomes a failed record with its
reason, and the run goes on. Cancelling it loses only what was being made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from corrigenda.concurrency import together
from corrigenda.errors import CorrigendaError
from corrigenda.evals.clock import Clock
from corrigenda.evals.fingerprints import of_item
from corrigenda.evals.items import DataSet, Item, Kind
from corrigenda.evals.judging import Judging
from corrigenda.evals.kit import kit_for, task_of
from corrigenda.evals.memo import Memo
from corrigenda.evals.meter import Meter
from corrigenda.evals.records import Call, Judgement, Record
from corrigenda.evals.store import Key, Store
from corrigenda.methods.protocol import Kit, Method, Outcome
from corrigenda.report import build


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be run."""

    data: DataSet
    methods: Mapping[str, Method]
    """By the name that records give them."""
    seed: int = 0
    """Repeat r (from 0) runs with this plus r."""
    repeats: int = 1
    concurrency: int = 1
    """Items worked on at a time."""
    correct: bool | None = None
    """Whether methods may rewrite; None: answers yes, single claims no."""
    reuse: bool = True
    """Whether a call that was made before in this run is answered from memory."""
    own_prompts: bool = False
    """Whether the kit's prompts are the user's own wording, to be used whatever an item's language."""
    skipped: Mapping[str, frozenset[Kind]] = field(default_factory=dict)
    """Method → the kinds of items that it cannot take and is not run on."""
    retry_failed: bool = False
    """Whether what failed before is done again: items are run, answers are judged (see `store.Store.left`)."""

    def correcting(self, item: Item) -> bool:
        """Whether methods may rewrite this item."""
        return item.kind != "claim" if self.correct is None else self.correct

    def runs(self, item: Item) -> Iterator[tuple[Key, Method]]:
        """Yield what there is to do on an item, in order."""
        for repeat in range(self.repeats):
            for name, method in self.methods.items():
                if item.kind not in self.skipped.get(name, frozenset()):
                    yield Key(item.id, name, repeat), method

    def keys(self) -> Iterator[Key]:
        """Yield all there is to do."""
        for item in self.data.items:
            for key, _ in self.runs(item):
                yield key

    @property
    def calls_chat(self) -> bool:
        """Whether the chat model is certain to be wanted, so that it should be loaded beforehand."""
        return any("chat" in method.needs for method in self.methods.values()) or any(
            item.answer is None or self.correcting(item) for item in self.data.items
        )

    @property
    def judges(self) -> bool:
        """Whether there is an answer that only a judge can decide about."""
        return any(item.kind != "claim" or self.correcting(item) for item in self.data.items)


@asynccontextmanager
async def prepared(methods: Mapping[str, Method]) -> AsyncIterator[None]:
    """Let methods that have a model of their own (`prepare`, `aclose`) load it now, and free it at the end."""
    try:
        for method in methods.values():
            if (prepare := getattr(method, "prepare", None)) is not None:
                await prepare()
        yield
    finally:
        for method in methods.values():
            if (close := getattr(method, "aclose", None)) is not None:
                await close()


async def run(
    plan: Plan, kit: Kit | None, judging: Judging, store: Store, on_record: Callable[[Record], None] | None = None
) -> None:
    """Make every record of the plan that the store does not have. `on_record` is told each as it is written.

    `kit` may be None where answers are only to be judged anew. Raises OSError when the disk takes no more records.
    """
    memo = Memo() if plan.reuse else None
    items = iter(plan.data.items)

    async def work() -> None:
        for item in items:  # one iterator for all workers: each takes the next item that is left
            for key, method in plan.runs(item):
                left = store.left(key, retry_failed=plan.retry_failed)
                if left is None:
                    continue
                if left == "judge":
                    made = await _judged_anew(plan, item, store.kept(key), judging)
                else:
                    assert kit is not None
                    made = await _record(plan, item, key, method, kit, judging, memo)
                record = store.append(made)
                if on_record is not None:
                    on_record(record)

    await together([work() for _ in range(min(plan.concurrency, max(1, len(plan.data.items))))])


async def _judged_anew(plan: Plan, item: Item, record: Record, judging: Judging) -> Record:
    """Return the record with what the judge says now of its answers; the method is not run."""
    before, after, judge = await _judged(plan, item, record.outcome, judging)
    return replace(record, before=before, after=after, judge=judge)


async def _record(
    plan: Plan, item: Item, key: Key, method: Method, kit: Kit, judging: Judging, memo: Memo | None
) -> Record:
    """Run one method on one item, judge what comes of it, and return the record."""
    seed = plan.seed + key.repeat
    meter = Meter(clock=Clock())
    own = kit_for(kit, item, seed=seed, meter=meter, memo=memo, own_prompts=plan.own_prompts)
    outcome: Outcome | None = None
    reason: str | None = None
    try:
        outcome = await method.run(task_of(item, correct=plan.correcting(item)), own)
    except Exception as exc:  # a method may have any fault; the run goes on
        reason = told(exc)
    latency = meter.clock.now()
    before, after, judge = await _judged(plan, item, outcome, judging)
    return Record(
        dataset=plan.data.name,
        item=item.id,
        item_sha256=of_item(item),
        kind=item.kind,
        group=item.group,
        method=key.method,
        repeat=key.repeat,
        seed=seed,
        status="failed" if outcome is None else "ok",
        reason=reason,
        label=item.label,
        sentence_labels=item.sentence_labels,
        tags=item.tags,
        question=item.question,
        outcome=outcome,
        latency_s=latency,
        calls=meter.calls + _own_calls(outcome),
        pairs=meter.pairs,
        before=before,
        after=after,
        judge=judge,
        models={"chat": None if kit.chat is None else kit.chat.name, "verifier": kit.entailer.name},
    )


def _own_calls(outcome: Outcome | None) -> tuple[Call, ...]:
    """Return the calls that a method made to a model of its own (`dola`), which it puts into its details."""
    listed = () if outcome is None else outcome.details.get("calls", ())
    try:
        return tuple(build(Call, call) for call in listed)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


async def _judged(
    plan: Plan, item: Item, outcome: Outcome | None, judging: Judging
) -> tuple[Judgement | None, Judgement | None, str | None]:
    if outcome is None or (item.kind == "claim" and not plan.correcting(item)):
        return None, None, None
    return await judging.before_and_after(item, outcome)


def told(exc: BaseException) -> str:
    """Return why a method failed: our own errors speak for themselves, others need their kind named."""
    if isinstance(exc, BaseExceptionGroup):
        return told(exc.exceptions[0])
    return str(exc) if isinstance(exc, CorrigendaError) else f"{type(exc).__name__}: {exc}"

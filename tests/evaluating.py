"""A hand-made data set over scripted models, for the tests of the runner and of `corrigenda eval`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.evals.items import DataSet, Item
from corrigenda.evals.judge import LexicalJudge
from corrigenda.evals.judging import Judging
from corrigenda.evals.planning import make_plan
from corrigenda.evals.records import Record
from corrigenda.evals.run import Plan, run
from corrigenda.evals.store import Store, opened
from corrigenda.methods import make
from corrigenda.methods.protocol import Kit, Method
from corrigenda.prompts import load
from corrigenda.settings import Settings
from corrigenda.types import Verdict
from tests.scripted import CONTRADICT, ENTAIL, Rules

METHODS = ("base", "nli-fixed", "corrigenda:paper")
MANIFEST: Mapping[str, Any] = {"schema": "1.0", "corrigenda": "of this test", "dataset": {}, "methods": {}}


def question(name: str, right: str, wrong: str) -> Item:
    return Item(id=name, kind="question", question=f"What is {name}?", correct=(right,), incorrect=(wrong,), group=name)


ITEMS = (
    question("rome", "Rome has seven hills.", "Rome has five hills."),
    question("oslo", "Oslo lies in Norway.", "Oslo lies in Sweden."),
    question("bern", "Bern has a river.", "Bern has a port."),
)
"""The chat model below is wrong about Rome and recalls it right; right about Oslo; wrong about Bern in recall too."""

USAGE = {"prompt_tokens": 20, "completion_tokens": 5}
CHAT: Rules = [
    {"stage": "generate", "contains": "rome", "reply": "Rome has five hills.", "usage": USAGE},
    {"stage": "generate", "contains": "oslo", "reply": "Oslo lies in Norway.", "usage": USAGE},
    {"stage": "generate", "contains": "bern", "reply": "Bern has a port.", "usage": USAGE},
    {"stage": "recall", "contains": "rome", "reply": "Rome was built on seven hills.", "usage": USAGE},
    {"stage": "recall", "contains": "oslo", "reply": "Oslo is Norway's capital.", "usage": USAGE},
    {"stage": "recall", "contains": "bern", "reply": "Bern is a port.", "usage": USAGE},
    {"stage": "correct", "reply": "Rome has seven hills.", "usage": USAGE},
]
NLI: Rules = [{"premise_contains": "seven", "hypothesis_contains": "five", "scores": CONTRADICT}, {"scores": ENTAIL}]

CLAIMS = tuple(
    Item(id=f"c{i}", kind="claim", answer=f"Claim {i}.", label=label, group=f"c{i}")
    for i, label in enumerate((Verdict.SUPPORTED, Verdict.CONTRADICTED))
)


def data_set(*items: Item, name: str = "hand-made") -> DataSet:
    return DataSet(name=name, items=items or ITEMS, source="a test", counts={"kept": len(items or ITEMS)})


def plan_of(*items: Item, methods: Mapping[str, Method] | None = None, llm: str = "scripted:x", **more: Any) -> Plan:
    """Return a plan over the hand-made questions; one item at a time unless the test says otherwise."""
    chosen = methods if methods is not None else {name: make(name) for name in METHODS}
    return make_plan(data_set(*items), chosen, Settings(llm=llm), **({"concurrency": 1} | more))


def kit_of(chat: Rules | None = None, nli: Rules = NLI) -> Kit:
    return Kit(
        chat=ScriptedChat({"rules": CHAT if chat is None else chat}),
        entailer=ScriptedEntailer({"rules": nli}),
        prompts=load("en"),
        decomposer="deterministic",
        language="auto",
    )


def ran(
    folder: Path,
    plan: Plan,
    kit: Kit | None = None,
    *,
    stop_after: int | None = None,
    before: Callable[[Store], None] | None = None,
) -> tuple[Record, ...]:
    """Run a plan and return the records; with `stop_after`, cancel the run as soon as that many were written."""

    async def work(store: Store) -> None:
        written = 0

        def on_record(_: Record) -> None:
            nonlocal written
            written += 1
            if written == stop_after:
                task.cancel()

        task = asyncio.create_task(run(plan, kit or kit_of(), Judging(LexicalJudge()), store, on_record))
        with suppress(asyncio.CancelledError):
            await task

    with opened(folder, MANIFEST) as store:
        if before is not None:
            before(store)
        asyncio.run(work(store))
        return store.records

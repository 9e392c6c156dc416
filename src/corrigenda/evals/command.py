"""`corrigenda eval DATASET`: parse, run, print. `corrigenda eval WORD …` works on records; see `subcommands`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corrigenda.evals import outputs, planning, subcommands
from corrigenda.evals.data_flags import add_data_flags, load_data
from corrigenda.evals.datasets import DATASETS
from corrigenda.evals.failures import nothing_measured
from corrigenda.evals.judges import opened_judge
from corrigenda.evals.judging import Judging
from corrigenda.evals.kit import opened
from corrigenda.evals.needs import require_backends
from corrigenda.evals.printing import follow, report, require_extras
from corrigenda.evals.progress import Counter
from corrigenda.evals.run import Plan, prepared, run
from corrigenda.evals.store import RECORDS, Store, Work, key_of
from corrigenda.evals.store import opened as opened_store
from corrigenda.files import tell
from corrigenda.flags import EVAL_FLAGS, FLAGS, add_settings, effective_settings
from corrigenda.methods import METHODS
from corrigenda.methods.protocol import Kit
from corrigenda.progress import Progress
from corrigenda.settings import Settings

FAILED = 3
"""Exit code when a run says nothing: every record failed, no claim could be scored, or the judge always failed."""
UNUSED = ("timeout", "unrepaired", "retrieve-k")
"""Flags of settings that no method takes: an item may take its time, and what no rewrite repairs stays as it is."""

EPILOG = """\
Work on records (the folder of a run, or its records.jsonl):
  corrigenda eval report RECORDS --out DIR   write the outputs again
  corrigenda eval sweep RECORDS              decide again under other policies; no model runs
  corrigenda eval ablation RECORDS           what each step adds
  corrigenda eval errors RECORDS             the errors by kind and category, with examples
Measure the judge itself on a data set's own answers:
  corrigenda eval judge DATASET --judge SPEC
Each has its own --help.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code. Raises CorrigendaError."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given and given[0] in subcommands.WORDS:
        return subcommands.WORDS[given[0]](given[1:])
    arguments = parser().parse_args(given)
    require_extras()
    return _asked(arguments, effective_settings(arguments)).carry_out()


def parser() -> argparse.ArgumentParser:
    """Return the parser of a run."""
    top = argparse.ArgumentParser(
        prog="corrigenda eval",
        description="Run methods over a data set with gold labels, keep every measurement, and compare them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("dataset", metavar="DATASET", help=f"{', '.join(DATASETS)}; or a word, see below")
    add_data_flags(top)
    add = top.add_argument_group("run").add_argument
    methods = f"with commas between, from {', '.join(METHODS)}, corrigenda:POLICY (default: those that fit the data)"
    add("--methods", metavar="NAMES", help=methods)
    add("--set", metavar="METHOD.OPTION=VALUE", action="append", default=[], help="an option of a method; repeatable")
    add("--repeats", metavar="R", type=int, default=1, help="run every item R times, each with a seed of its own")
    add("--concurrency", metavar="C", type=int, help="items at a time (default: 1 with local models, else 4)")
    add("--correct", action=argparse.BooleanOptionalAction, help="rewrite too (default: answers yes, claims no)")
    add("--no-reuse", action="store_true", help="make every call anew, so that times are the clock's")
    add("--retry-failed", action="store_true", help="run again what failed before, judge anew where the judge failed")
    add("--out", metavar="DIR", type=Path, help=f"folder of the run (default: ./{planning.FOLDER}/DATASET)")
    add("--force", action="store_true", help="set a run that is in the folder aside and begin a new one")
    add("--json", action="store_true", help="print the summary alone, as JSON, on standard output")
    add_settings(top, [flag.name for flag in (*FLAGS, *EVAL_FLAGS) if flag.name not in UNUSED])
    return top


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A run that was asked for, with all that can be checked before anything is loaded."""

    plan: Plan
    settings: Settings
    folder: Path
    manifest: Mapping[str, Any]
    force: bool
    json: bool

    def carry_out(self) -> int:
        """Run what is left, then write and print the outputs of all that is there. Returns the exit code."""
        keys = list(self.plan.keys())
        outputs.check_folder(self.folder)
        with opened_store(self.folder, self.manifest, items=self.plan.data.items, force=self.force) as store:
            for warning in store.warnings:
                tell(f"warning: {warning}")
            left = Counted(store.left(key, retry_failed=self.plan.retry_failed) for key in keys)
            again = f", {left['judge']} of them to be judged anew" if left["judge"] else ""
            tell(f"records go to {store.folder / RECORDS}; {len(keys) - left['run']} of {len(keys)} are there{again}")
            try:
                if left["run"] or left["judge"]:
                    asyncio.run(self._run(store, len(keys), left))
            except KeyboardInterrupt:
                tell(f"interrupted; the same command goes on from the records in {store.folder / RECORDS}")
                return 130
            report(self.folder, store.records, [store.manifest], as_json=self.json)
            wanted = set(keys)
            reason = nothing_measured([record for record in store.records if key_of(record) in wanted])
        if reason is not None:
            tell(f"this run measured nothing: {reason}; once that is mended, go on with --retry-failed")
        return 0 if reason is None else FAILED

    async def _run(self, store: Store, total: int, left: Mapping[Work | None, int]) -> None:
        plan, settings = self.plan, self.settings
        kit: Kit | None = None
        if not plan.judges:
            settings = replace(settings, judge="lexical")  # it is not asked, so no model is loaded for it
        async with AsyncExitStack() as stack:
            with Progress() as progress:
                shows = follow(progress)
                if left["run"]:  # judging alone needs none of the methods' models
                    kit = await stack.enter_async_context(opened(settings, chat=plan.calls_chat, progress=shows))
                judge = await stack.enter_async_context(opened_judge(settings, kit, progress=shows))
                if left["run"]:
                    await stack.enter_async_context(prepared(plan.methods))
            with Counter(total, "records", left[None]) as shown:
                await run(plan, kit, Judging(judge), store, shown.record)


def _asked(arguments: argparse.Namespace, settings: Settings) -> _Asked:
    """Return what the command line asks for. Raises InputError for whatever cannot be done."""
    names, options = planning.method_names(arguments.methods), planning.method_options(arguments.set)
    if names is not None:
        planning.made(names, options)  # a mistake in them is told before any data is read
    data, limit = load_data(arguments, settings)
    methods = planning.make_methods(
        names,
        options,
        data,
        chat=settings.llm != "none",
        retriever=settings.retrieve is not None,
    )
    plan = planning.make_plan(
        data,
        methods,
        settings,
        repeats=arguments.repeats,
        concurrency=arguments.concurrency,
        correct=arguments.correct,
        reuse=not arguments.no_reuse,
        retry_failed=arguments.retry_failed,
    )
    require_backends(settings, chat=plan.calls_chat, judge=plan.judges)
    for name, kinds in plan.skipped.items():
        tell(f"{name} is not run on items of the kind {', '.join(sorted(kinds))}, which it cannot take")
    return _Asked(
        plan=plan,
        settings=settings,
        folder=arguments.out or planning.folder_for(data, task=arguments.task, split=arguments.split),
        manifest=planning.manifest_of(
            plan,
            settings,
            task=arguments.task,
            split=arguments.split,
            limit=limit,
            wiki=arguments.wiki,
            detokenise=arguments.detokenise,
        ),
        force=arguments.force,
        json=arguments.json,
    )

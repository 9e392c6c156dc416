"""`corrigenda eval judge DATASET`: how far a judge can be trusted. Parse, ask, print."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from corrigenda.evals import planning, printing
from corrigenda.evals.data_flags import add_data_flags, load_data
from corrigenda.evals.datasets import DATASETS
from corrigenda.evals.items import DataSet
from corrigenda.evals.judge_check import CASES, SHARES, Checked, check, measured, usable
from corrigenda.evals.judges import opened_judge
from corrigenda.evals.progress import Counter
from corrigenda.evals.stats import require_eval
from corrigenda.files import write
from corrigenda.flags import EVAL_FLAGS, FLAGS, add_settings, effective_settings
from corrigenda.progress import Progress
from corrigenda.settings import Settings
from corrigenda.terminal import safe


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code. Raises CorrigendaError."""
    arguments = _parser().parse_args(argv)
    require_eval()
    settings = effective_settings(arguments)
    entry = DATASETS.get(arguments.dataset)
    if arguments.task is None and entry is not None and "question" in entry.tasks:
        arguments.task = "question"  # claims and given answers are nothing to measure a judge on
    data, _ = load_data(arguments, settings, usable=usable)
    seed = planning.DEFAULT_SEED if settings.seed is None else settings.seed
    name, results = asyncio.run(_ask(settings, data, seed))
    found = measured(name, results, seed=seed)
    if arguments.json:
        printing.as_json({**found, "answers": [_row(r) for r in results]})
    else:
        write(safe("\n".join(table(found))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="corrigenda eval judge",
        description="Measure a judge on a data set's own accepted and incorrect answers, each held out in its turn.",
        allow_abbrev=False,
    )
    parser.add_argument("dataset", metavar="DATASET", help="truthfulqa, mini, or answers with lists of your own")
    add_data_flags(parser)
    parser.add_argument("--json", action="store_true", help="rates and every answer, as JSON, on standard output")
    add_settings(parser, [flag.name for flag in (*FLAGS, *EVAL_FLAGS)])
    return parser


async def _ask(settings: Settings, data: DataSet, seed: int) -> tuple[str, list[Checked]]:
    progress = Progress()
    async with opened_judge(settings, None, progress=printing.follow(progress)) as judge:
        with Counter(len(CASES) * len(usable(data.items)), "answers") as counter:
            return judge.name, await check(judge, data.items, seed=seed, on_answer=lambda r: counter.add(r.item))


def _row(result: Checked) -> Mapping[str, Any]:
    found = result.judgement
    row = {"item": result.item, "case": result.case, "answer": result.answer, "correct": found.correct}
    return {**row, "reason": found.reason, "details": found.details}


def table(found: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell a person how the judge did."""
    return [
        f"judge     {found['judge']}",
        f"questions {found['questions']}",
        "",
        f"accuracy                    {_rate(found['accuracy'])}   undecided ones counted as wrong",
        f"accuracy where decided      {_rate(found['accuracy_decided'])}",
        "",
        f"{'answer':<11}{'judged right':>26}{'wrong':>26}{'undecided':>26}",
        *(f"{case:<11}" + "".join(f"{_rate(found[case][share]):>26}" for share in SHARES) for case in CASES),
        "",
        "Each answer was held out of the lists that it was judged by; `both` is the accepted and the incorrect one in",
        "one answer, which is not correct. Intervals: 95%, bootstrap of questions.",
    ]


def _rate(found: Mapping[str, float | None]) -> str:
    if found["value"] is None:
        return "-"
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}] n={found['n']:g}"

"""`corrigenda batch`: parse, run, print."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrigenda.errors import ConfigError
from corrigenda.files import write, write_json
from corrigenda.flags import CACHE_FLAGS, FLAGS, add_settings, effective_settings
from corrigenda.terminal import safe

if TYPE_CHECKING:
    from corrigenda.batch.checking import Counts
    from corrigenda.batch.engine import Engine
    from corrigenda.batch.ray_cluster import RayOptions
    from corrigenda.batch.reading import Columns
    from corrigenda.settings import Settings

CONCURRENCY = 32
LOCAL_CONCURRENCY = 4
"""Rows in flight where the embedded chat model makes or decides them: it works on few requests at a time."""
RAY = ("address", "actors", "cpus_per_actor", "gpus_per_actor", "batch_rows")
"""What the flags `--ray-…` set."""
FIELDS = ("id", "question", "answer", "contexts")
EPILOG = """\
INPUT is a file, a folder or a glob: JSON lines or Parquet, .gz and .zst too. Each row has a question, an
answer or both, and may have contexts and an id. A row with an answer is checked, one without is asked.
OUTPUT gets one line per row, in the input's order; OUTPUT.state beside it is what the same command goes
on from, whatever ended it. Exit codes: 0 done, or stopped at a budget; 1 --fail-on found what it looks
for; 2 bad input; 3 every row failed, or a model cannot be had; 130 and 143 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code. Raises CorrigendaError."""
    arguments = parser().parse_intermixed_args(argv)
    from corrigenda.batch import going, inputs, reading  # noqa: PLC0415  # help must stay instant
    from corrigenda.batch.budget import Budget  # noqa: PLC0415
    from corrigenda.batch.summary import Prices  # noqa: PLC0415

    inputs.require_arrow()
    if arguments.engine == "ray":
        _ray_options(arguments)  # a mistake in them is told before any input is read
    settings = effective_settings(arguments)
    plan = going.Plan(
        inputs=arguments.inputs,
        output=Path(arguments.output),
        settings=settings,
        engine=lambda counts, checksums: _engine(arguments, settings, counts, checksums),
        columns=_columns(arguments.column, reading.Columns),
        budget=Budget(
            rows=_at_least(arguments.max_rows, 1, "--max-rows"),
            calls=_at_least(arguments.budget_calls, 1, "--budget-calls"),
            tokens=_at_least(arguments.budget_tokens, 1, "--budget-tokens"),
            deadline_s=arguments.deadline,
        ),
        prices=Prices(prompt=arguments.price_prompt, completion=arguments.price_completion),
        correct=not arguments.no_correct,
        retry_failed=arguments.retry_failed,
        overwrite=arguments.overwrite,
    )
    _at_least(arguments.concurrency, 1, "--concurrency")
    summary, code = going.go(plan)
    if arguments.json:
        write_json(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        write("\n".join(safe(line.replace("\n", " ")) for line in shown(summary, arguments.output)))
    return code or _found(summary, arguments.fail_on)


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    top = argparse.ArgumentParser(
        prog="corrigenda batch",
        description="Make a report for every row of a file. Stop it at any moment: the same command goes on.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("inputs", metavar="INPUT", nargs="+", help="file, folder or glob")
    top.add_argument("output", metavar="OUTPUT", help=".jsonl, .jsonl.gz, .jsonl.zst or .parquet")
    add = top.add_argument
    add("--json", action="store_true", help="print the summary alone, as JSON, on standard output")
    add("--column", metavar="FIELD=NAME", action="append", default=[], help="name of a column; repeatable")
    add("--no-correct", action="store_true", help="check only; rewrite nothing")
    add("--retry-failed", action="store_true", help="do the rows that failed again")
    add("--overwrite", action="store_true", help="begin anew: delete the state that is there, write over the output")
    add("--concurrency", metavar="N", type=int, help="rows in flight (default: 32; 4 where the chat model is embedded)")
    what = "exit with 1: when a row failed; or when a claim is contradicted, repaired or not"
    add("--fail-on", choices=("failed", "contradicted"), help=what)
    limits = top.add_argument_group("budgets of this run, behind which no new row begins").add_argument
    limits("--max-rows", metavar="N", type=int, help="rows")
    limits("--budget-calls", metavar="N", type=int, help="calls of chat models")
    limits("--budget-tokens", metavar="N", type=int, help="tokens of prompts and completions, as reported")
    limits("--deadline", metavar="TIME", type=_duration, help="time from the start: 90, 90s, 15m or 2h")
    prices = top.add_argument_group("prices, for the summary").add_argument
    prices("--price-prompt", metavar="P", type=_price, help="of a million tokens of prompts")
    prices("--price-completion", metavar="P", type=_price, help="of a million tokens of completions")
    add("--no-cache", action="store_true", help="keep no recalled references and scored pairs on disk for later runs")
    engines = top.add_argument_group("engine").add_argument
    engines("--engine", choices=("local", "ray"), default="local", help="this process, or a Ray cluster")
    engines("--ray-address", metavar="ADDRESS", help="of the cluster (default: one on this machine alone)")
    engines("--ray-actors", metavar="N", type=int, help="sets of models (default: what the cluster has room for)")
    engines("--ray-cpus-per-actor", metavar="X", type=float, help="CPUs of each")
    engines("--ray-gpus-per-actor", metavar="X", type=float, help="GPUs of each")
    engines("--ray-batch-rows", metavar="N", type=int, help="rows that an actor gets at a time")
    add_settings(top, [flag.name for flag in (*FLAGS, *CACHE_FLAGS)])
    return top


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time above 0; write seconds, or 90s, 15m, 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not (math.isfinite(price) and price >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no price; write a number of at least 0")
    return price


def _at_least(value: int | None, least: int, flag: str) -> int | None:
    if value is not None and value < least:
        raise ConfigError(f"{flag} must be at least {least}, got {value}")
    return value


def _columns(given: Sequence[str], kind: type[Columns]) -> Columns:
    names: dict[str, str] = {}
    for each in given:
        field, equals, name = each.partition("=")
        if field not in FIELDS or not equals or not name:
            raise ConfigError(f"--column must be FIELD=NAME with a field from {', '.join(FIELDS)}, got {each!r}")
        names[field] = name
    return kind(names=names)


def _engine(arguments: argparse.Namespace, settings: Settings, counts: Counts, checksums: Mapping[str, str]) -> Engine:
    """Return the engine that was asked for. Raises ConfigError (MissingExtra among them)."""
    from corrigenda.batch.local import LocalEngine  # noqa: PLC0415  # as above
    from corrigenda.batch.worker import Job  # noqa: PLC0415

    decides = settings.nli.startswith("chat") and not settings.nli.startswith("chat:openai")
    local = (counts.needs_chat and settings.llm.startswith("local")) or decides
    job = Job(
        settings=settings,
        concurrency=arguments.concurrency or (LOCAL_CONCURRENCY if local else CONCURRENCY),
        chat=counts.needs_chat,
        correct=not arguments.no_correct,
        cache=not arguments.no_cache,
        checksums=checksums,
    )
    if arguments.engine == "local":
        from corrigenda.progress import Progress  # noqa: PLC0415

        return LocalEngine(job, Progress().download)
    from corrigenda.batch.engine_ray import RayEngine  # noqa: PLC0415

    return RayEngine(job, _ray_options(arguments))


def _ray_options(arguments: argparse.Namespace) -> RayOptions:
    """Return the options of the Ray engine. Raises ConfigError (MissingExtra where Ray is not installed)."""
    from corrigenda.batch.ray_cluster import RayOptions, require_ray  # noqa: PLC0415  # as above

    require_ray()
    given = {name: getattr(arguments, f"ray_{name}") for name in RAY}
    return RayOptions(**{name: value for name, value in given.items() if value is not None})


def _found(summary: Mapping[str, Any], fail_on: str | None) -> int:
    if fail_on == "failed":
        return int(summary["failures"]["rows"] > 0)
    return int(fail_on == "contradicted" and summary["hallucination_rate"]["claims"]["contradicted"] > 0)


def shown(summary: Mapping[str, Any], output: str) -> list[str]:
    """Return the summary for a person."""
    rows, calls, pairs = summary["rows"], summary["calls"], summary["pairs"]
    by_status = ", ".join(f"{n} {status}" for status, n in rows["by_status"].items())
    per_row = summary["seconds"]["per_row"]
    lines = [f"rows      {rows['done']} of {rows['total']} done{f': {by_status}' if by_status else ''}"]
    for name, what in (("answers", "have a contradicted claim"), ("claims", "are contradicted")):
        rate = summary["hallucination_rate"][name]
        if rate["value"] is not None:
            lines.append(
                f"{name:<9} {rate['value']:.1%} {what} (95%: {rate['low']:.1%} to {rate['high']:.1%}), of {rate['n']}"
            )
    tokens = f"{calls['prompt_tokens']:,} + {calls['completion_tokens']:,} tokens"
    unknown = f" ({calls['without_tokens']} calls did not say)" if calls["without_tokens"] else ""
    lines.append(f"calls     {calls['made']:,} made, {calls['reused']:,} reused; {tokens}{unknown}{_cost(calls)}")
    lines.append(f"pairs     {pairs['scored']:,} scored, {pairs['reused']:,} reused")
    if per_row["mean"] is not None:
        lines.append(
            f"a row     {per_row['mean']:g} s on average, {per_row['median']:g} median, {per_row['p95']:g} p95"
        )
        slow = ", ".join(f"{row['id']} ({row['seconds']:g} s)" for row in summary["slowest"][:3])
        lines.append(f"slowest   {slow}")
    for stage, spent in list(summary["seconds"]["stages"].items())[:4]:
        lines.append(f"  {stage:<11} {spent['mean']:g} s on average, {spent['most']:g} at most")
    for kind, n in list(summary["failures"]["by_kind"].items())[:5]:
        first = next((each for each in summary["failures"]["listed"] if each["kind"] == kind), None)
        example = "" if first is None else f", the first {first['id']}: {first['reason']}"  # not all are listed
        lines.append(f"failed    {n} {kind}{example}")
    lines.append(f"output    {output}")
    return lines


def _cost(calls: Mapping[str, Any]) -> str:
    if calls["cost"] is not None:
        return f"; cost {calls['cost']:,.4f}"
    if calls["cost_of_reported"] is not None:
        return f"; cost of those that did {calls['cost_of_reported']:,.4f}"
    return ""

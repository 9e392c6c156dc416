"""`corrigenda calibrate-nli`: parse, call, print."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from corrigenda.calibrate_nli.fitting import Refit, Result, refit
from corrigenda.config import load
from corrigenda.errors import ConfigError, InputError
from corrigenda.loading import LazyChat, Loader
from corrigenda.ports import LabelScorer
from corrigenda.progress import Progress
from corrigenda.settings import EMBEDDED_MODEL

RAW = "calibrate-nli.raw.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Prints a table; with --out, writes the calibration file. Raises CorrigendaError."""
    arguments = _parser().parse_args(argv)
    found = asyncio.run(_run(arguments))
    for line in table(found):
        print(line)
    if arguments.out is not None:
        try:
            arguments.out.write_text(json.dumps(found.as_file(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as exc:
            raise InputError(f"the calibration file {str(arguments.out)!r} cannot be written: {exc}") from exc
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="corrigenda calibrate-nli", description="Refit the chat verifier's constants and measure them."
    )
    add = parser.add_argument
    add("--data", metavar="FILE", type=Path, nargs="+", required=True, help="JSONL with claim, evidence and label")
    add("--test", metavar="FILE", type=Path, nargs="+", default=[], help="more of the same, only measured on")
    add("--limit", metavar="N", type=int, help="use N pairs of each file, drawn with a fixed seed")
    add("--llm", metavar="SPEC", default=f"local:{EMBEDDED_MODEL}", help="chat model (default: the embedded one)")
    add(
        "--raw", metavar="FILE", type=Path, default=Path("calibrate-nli.raw.jsonl"), help="scores so far, to go on from"
    )
    add("--out", metavar="FILE", type=Path, help="where to write the fitted constants (JSON)")
    add("--config", metavar="FILE", help="configuration file (default: ./corrigenda.toml)")
    return parser


async def _run(arguments: argparse.Namespace) -> Refit:
    if arguments.llm == "none":
        raise ConfigError("llm 'none' is no chat model; name the one to calibrate, such as local:FILE.gguf")
    # The verifier named here is never asked: it only keeps the loader from loading another model for it.
    settings = load({"llm": arguments.llm, "nli": f"chat:{arguments.llm}"}, config_file=arguments.config).settings
    with Progress() as progress:
        loader = Loader(settings, progress=progress.download)
        try:
            lazy = cast(LazyChat, (await loader.tools(chat=True)).chat)
            return await refit(
                cast(LabelScorer, await lazy.load()),
                arguments.data,
                raw=arguments.raw,
                tests=arguments.test,
                limit=arguments.limit,
                sha256=_sha256(arguments.llm),
                progress=sys.stderr,
            )
        finally:
            await loader.aclose()


def _sha256(llm: str) -> str | None:
    """Return the SHA-256 of a known embedded model's file; None for any other model."""
    from corrigenda import models  # noqa: PLC0415  # brings an HTTP client

    known = {f"local:{model.name}": model.sha256 for model in models.MODELS}
    return known.get(llm)


def table(found: Refit) -> list[str]:
    """Return the lines that tell a person what was measured and which constants were fitted."""
    lines = [
        f"model     {found.calibration.model}",
        f"fitted on {found.calibration.fitted_on}",
        "constants " + ", ".join(f"{name} {value:g}" for name, value in found.calibration.constants._asdict().items()),
    ]
    if found.calibration.bounds is not None:
        lines.append("bounds    floor {:g}, ceiling {:g}".format(*found.calibration.bounds))
    for result in (found.fitted, *found.tests):
        lines += ["", *_result(result)]
    return lines


def _result(result: Result) -> list[str]:
    before, after = result.before, result.after
    rows = (
        (f"binary accuracy ({after.n_binary} pairs)", before.binary, after.binary),
        (f"three-way accuracy ({after.n} pairs)", before.three_way, after.three_way),
        ("calibration error, all pairs", before.ece, after.ece),
        ("calibration error, without neutral", before.ece_binary, after.ece_binary),
        ("entailment pairs flagged", before.flagged_entailment, after.flagged_entailment),
        ("neutral pairs flagged", before.flagged_neutral, after.flagged_neutral),
        ("contradiction pairs flagged", before.flagged_contradiction, after.flagged_contradiction),
    )
    title = f"{result.data}: {result.seconds_per_pair:g} s per pair (median), {result.failed} pairs without a score"
    return [title, f"  {'':<36}{'before':>8}{'after':>8}"] + [
        f"  {name:<36}{_shown(one):>8}{_shown(two):>8}" for name, one, two in rows
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

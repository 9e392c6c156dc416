"""`corrigenda calibrate-nli`: parse, call, print."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from corrigenda.backends.nli_chat_scheme import Constants
from corrigenda.calibrate_nli.fitting import Refit, Result, refit
from corrigenda.config import load
from corrigenda.errors import ConfigError, InputError
from corrigenda.loading import LazyChat, Loader
from corrigenda.ports import LabelScorer
from corrigenda.progress import Progress
from corrigenda.settings import EMBEDDED_MODEL

if TYPE_CHECKING:
    from corrigenda.nli_fit import Measured

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
    add("--test-limit", metavar="N", type=int, help="of each --test file, N pairs (default: as --limit)")
    add("--looks", type=int, choices=(1, 2), default=2, help="how often an unsure pair may be asked about (default: 2)")
    add("--llm", metavar="SPEC", default=f"local:{EMBEDDED_MODEL}", help="chat model (default: the embedded one)")
    add("--raw", metavar="FILE", type=Path, default=Path(RAW), help="scores so far, to go on from")
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
                test_limit=arguments.test_limit,
                looks=arguments.looks,
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
        f"one look  {_constants(found.calibration.constants)}",
    ]
    second = found.calibration.second
    if second is not None:
        lines.append(f"two looks {_constants(second.constants)}")
        lines.append(f"          where the first one gives no class {second.below:g}")
    if found.calibration.bounds is not None:
        lines.append("bounds    floor {:g}, ceiling {:g}".format(*found.calibration.bounds))
    for result in (found.fitted, *found.tests):
        lines += ["", *_result(result)]
    return lines


def _constants(constants: Constants) -> str:
    looks = (", ".join(f"{name} {value:g}" for name, value in look._asdict().items()) for look in constants.looks)
    common = f"bias {constants.bias:g}, agree {constants.agree:g}, differ {constants.differ:g}"
    return "; ".join((common, *looks))


def _result(result: Result) -> list[str]:
    columns = {"before": result.before, "once": result.once, "after": result.after}
    if len(result.seconds_per_look) == 1:
        del columns["once"]
    rows: tuple[tuple[str, Callable[[Measured], float | None]], ...] = (
        (f"binary accuracy ({result.after.n_binary} pairs)", lambda m: m.binary),
        (f"three-way accuracy ({result.after.n} pairs)", lambda m: m.three_way),
        ("calibration error, all pairs", lambda m: m.ece),
        ("calibration error, without neutral", lambda m: m.ece_binary),
        ("entailment pairs flagged", lambda m: m.flagged_entailment),
        ("neutral pairs flagged", lambda m: m.flagged_neutral),
        ("contradiction pairs flagged", lambda m: m.flagged_contradiction),
    )
    looks = " and ".join(f"{seconds:g}" for seconds in result.seconds_per_look)
    return [
        f"{result.data}: {result.failed} pairs without a score",
        f"  asked about twice: {result.asked_twice:.1%} of the pairs; {looks} s per look (median), "
        f"{result.seconds_per_pair:g} s per pair",
        f"  {'':<36}" + "".join(f"{name:>8}" for name in columns),
        *(f"  {name:<36}" + "".join(f"{_shown(of(m)):>8}" for m in columns.values()) for name, of in rows),
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

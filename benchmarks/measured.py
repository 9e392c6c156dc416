"""What the benchmarks share: the spread of repeated measurements, the machine they ran on, tables, files.

Every benchmark is a module with `run(arguments) -> Result`, `tables(result) -> str` (Markdown, which reads well on a
terminal too) and a `main` made by `command`. A result holds plain JSON values only, so that docs/performance.md can
be written again from the file that `--json` keeps, without a measurement.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from corrigenda import __version__

ROOT = Path(__file__).parents[1]
Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """The middle of some measurements, and how far they lie apart."""

    median: float
    low: float
    high: float
    n: int

    def text(self, digits: int = 2, unit: str = "") -> str:
        """Return `median (low to high)`; the median alone where there is only one measurement."""
        middle = f"{self.median:,.{digits}f}{unit}"
        return middle if self.n < 2 else f"{middle} ({self.low:,.{digits}f} to {self.high:,.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Return the median, the least and the largest of at least one value."""
    return Spread(median=statistics.median(values), low=min(values), high=max(values), n=len(values))


def ratios(slow: Sequence[float], fast: Sequence[float]) -> Spread:
    """Return how many times as long `slow` took, round by round: other work on the machine then falls on both.

    Raises ValueError when there are not as many rounds of the one as of the other.
    """
    return spread([a / b for a, b in zip(slow, fast, strict=True)])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with its columns aligned; all but the first are right-aligned."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    lines = [_line(row, widths) for row in cells]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return f"| {' | '.join(cells)} |"


def goal(reached: bool, what: str) -> str:
    """Return a line that says whether a goal was reached."""
    return f"Goal: {what}: {'reached' if reached else '**not reached**'}."


def machine() -> dict[str, Any]:
    """Return what a reader must know of this machine to place its numbers."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(_memory() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        return 0


def versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those of the distributions that are installed."""
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def load() -> float | None:
    """Return how many processes wanted a core over the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def framed(result: Result, *, command: str, busy: float | None, seconds: float, names: Iterable[str]) -> Result:
    """Return a result with what was measured where, when, how long, and beside how much other work."""
    return {
        "command": command,
        "made": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds),
        "load_before": busy,
        "machine": machine(),
        "versions": {"corrigenda": __version__, **versions(names)},
        "result": result,
    }


def keep(path: Path, framed_result: Mapping[str, Any]) -> None:
    """Write a framed result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(framed_result, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


class Main(Protocol):
    """A benchmark as a command."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run it and return the exit code."""
        ...


def command(
    module: str,
    document: str | None,
    add_flags: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], Result],
    tables: Callable[[Mapping[str, Any]], str],
    *,
    packages: Sequence[str] = (),
) -> Main:
    """Return the `main` of a benchmark: parse, measure, print the tables, keep the result where that is asked for.

    `packages` are the distributions whose versions are told beside Corrigenda's.
    """

    def main(argv: Sequence[str] | None = None) -> int:
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{module}",
            description=document,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_flags(parser)
        parser.add_argument("--json", metavar="FILE", type=Path, help="keep the result in this file too")
        arguments = parser.parse_args(argv)
        busy, begun = load(), time.perf_counter()
        result = run(arguments)
        whole = framed(
            result,
            command=" ".join((f"python -m benchmarks.{module}", *_flags(parser, arguments))),
            busy=busy,
            seconds=time.perf_counter() - begun,
            names=packages,
        )
        print(tables(result))
        if arguments.json is not None:
            keep(arguments.json, whole)
        return 0

    return main


def _flags(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the flags that were given another value than their default, but for places on this machine."""
    for name, value in vars(arguments).items():
        if value != parser.get_default(name) and name not in ("json", "environments", "constraint"):
            shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"--{name.replace('_', '-')}" + ("" if value is True else f" {shown}")


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of at least `least` from a flag."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} is below {least}")
        return number

    return read


def numbers(text: str) -> list[int]:
    """Read whole numbers above 0 from a flag, with commas between."""
    return [at_least(1)(part) for part in text.split(",")]

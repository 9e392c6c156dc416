"""`corrigenda batch`: rows per second as concurrency grows, Ray against one process, and memory as the input grows.

    python -m benchmarks.batch

SIMULATED models: a scripted chat model at the speed of an API (first token after 300 ms, then 80 tokens a second) and
a scripted verifier that takes no time, so what is measured is the work of the pipeline and of the batch itself. Where
a table says "no waiting", the chat model too replies at once: a row then costs processor time alone.

The scripted models live in the same process, so their own work counts, and a client's for HTTP does not. Every figure
comes from a command of its own. Rows per second are its own count (from the first row's beginning to the last one's
end); the seconds of the whole command, with the start and the writing, stand beside them where that matters. Caches
are off: the scripted models give many rows the same text, and no row is to profit from that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measured import Result, at_least, command, goal, numbers, spread, table

from corrigenda.bench.latency import FIRST_TOKEN_S, REFERENCE, TOKENS_PER_S, answer_of, script

NEAR_LINEAR = 0.9
"""Share of the rate of one row at a time, times the concurrency, that still counts as growing with it."""
FLAT = 1.10
"""Peak memory of the largest input over that of the smallest."""
NLI = {"rules": [{"scores": [0.98, 0.01, 0.01]}]}
ANSWER_TOKENS = 42
BRISK = 4
"""Times the rows for the engines where nothing waits, so that their time can be told from their start's."""
ACTOR_CPUS = 0.5
"""What an actor asks Ray for, so that two of them and the readers fit on two cores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """One command."""

    rows: int
    rows_per_s: float
    """As it says itself."""
    command_s: float
    """From its start to its end."""
    cpu_s: float
    """Processor seconds of the process and of those that it waited for."""
    peak_mib: float
    """Most memory that the process itself had at a time."""


@contextmanager
def scripts() -> Iterator[Path]:
    """Make a folder with the scripted models in it."""
    with tempfile.TemporaryDirectory(prefix="corrigenda-bench-") as name:
        folder = Path(name)
        rules = script(answer_of(ANSWER_TOKENS))
        for file, content in (("api.json", rules), ("at-once.json", rules | {"defaults": {}}), ("nli.json", NLI)):
            (folder / file).write_text(json.dumps(content), "utf-8")
        yield folder


def write_rows(path: Path, count: int, *, checks: bool = False) -> Path:
    """Write an input: questions, or, for `checks`, answers with the context that they are checked against."""
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            row: dict[str, Any] = {"id": f"row {number}", "question": f"What is town number {number} known for?"}
            if checks:
                answer = f"Town {number} is a port. It lies on the coast of Norway."
                row = {"id": row["id"], "answer": answer, "contexts": [f"{REFERENCE} Number {number}."]}
            stream.write(json.dumps(row) + "\n")
    return path


def batch(folder: Path, rows: Path, *flags: str, chat: str = "api.json") -> Took:
    """Run `corrigenda batch` on an input, and return what it took. Raises SystemExit when it fails."""
    output = folder / "out.jsonl"
    given = [sys.executable, "-m", "corrigenda", "batch", str(rows), str(output), "--json", "--overwrite", "--no-cache"]
    given += ["--llm", f"scripted:{folder / chat}", "--nli", f"scripted:{folder / 'nli.json'}", *flags]
    begun = time.perf_counter()
    with (folder / "log.txt").open("w+") as log, (folder / "summary.json").open("w+") as told:
        process = subprocess.Popen(given, stdout=told, stderr=log)
        # The usage of this one process alone; a `wait` of Popen would not tell it.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
        log.seek(0)
        told.seek(0)
        summary = json.loads(told.read() or "{}") if process.returncode == 0 else {}
        if not summary.get("complete") or summary["failures"]["rows"]:
            raise SystemExit(f"{' '.join(given)} ended with {process.returncode}: {log.read()[-2000:]}")
    return Took(
        rows=summary["rows"]["done"],
        rows_per_s=summary["this_run"]["rows_per_s"],
        command_s=seconds,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mib=_mib(used),
    )


def _mib(used: resource.struct_rusage) -> float:
    """Return the peak: kibibytes on Linux, bytes on macOS."""
    return used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def run(arguments: argparse.Namespace) -> Result:
    """Measure all three."""
    with scripts() as folder:
        result: Result = {
            "concurrency": [_level(folder, n, arguments) for n in arguments.levels],
            "ray": None,
            "memory": [_memory(folder, n) for n in arguments.memory_rows],
        }
        if find_spec("ray") is None:
            result["ray"] = "not measured: ray is not installed (the extra `ray`)"
        elif not arguments.no_ray:
            try:
                result["ray"] = _engines(folder, arguments)
            except SystemExit as failure:  # what was measured before is not lost with it
                result["ray"] = f"not measured: {failure}"
    return result


def _level(folder: Path, concurrency: int, arguments: argparse.Namespace) -> Result:
    rows = write_rows(folder / "rows.jsonl", arguments.waves * concurrency)
    took = [batch(folder, rows, "--concurrency", str(concurrency)) for _ in range(arguments.rounds)]
    return {
        "concurrency": concurrency,
        "rows": took[0].rows,
        "rows_per_s": [each.rows_per_s for each in took],
        "cores": [each.cpu_s / each.command_s for each in took],
    }


def _engines(folder: Path, arguments: argparse.Namespace) -> list[Result]:
    """Run the same rows in one process, and with Ray's actors, in turns; and a quarter of them, to tell the start."""
    many = arguments.ray_concurrency
    ways = {"in process": ("--concurrency", str(many))} | {
        f"Ray, {n} worker{'s' * (n > 1)}": (
            *("--engine", "ray", "--ray-actors", str(n), "--ray-cpus-per-actor", str(ACTOR_CPUS)),
            *("--concurrency", str(many // n)),
        )
        for n in (1, 2)
    }
    found = []
    for model, chat, count in (
        ("simulated API", "api.json", arguments.ray_rows),
        ("no waiting", "at-once.json", BRISK * arguments.ray_rows),
    ):
        quarter = write_rows(folder / "quarter.jsonl", max(1, count // 4))
        whole = write_rows(folder / "rows.jsonl", count)
        took: dict[str, list[tuple[Took, Took]]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, flags in ways.items():
                took[way].append((batch(folder, quarter, *flags, chat=chat), batch(folder, whole, *flags, chat=chat)))
        found += [
            {
                "model": model,
                "way": way,
                "rows": count,
                "in_flight": many,
                "rows_per_s": [steady(*pair) for pair in pairs],
                "start_s": [max(0.0, large.command_s - large.rows / steady(small, large)) for small, large in pairs],
                "command_s": [large.command_s for _, large in pairs],
            }
            for way, pairs in took.items()
        ]
    return found


def steady(small: Took, large: Took) -> float:
    """Return the rows a second between two runs that differ in nothing but their rows: what starting takes drops out.

    Where the larger one took no longer, so that nothing can be told, its rows over its whole time.
    """
    more = large.command_s - small.command_s
    return (large.rows - small.rows) / more if more > 0 else large.rows / large.command_s


def _memory(folder: Path, count: int) -> Result:
    rows = write_rows(folder / "rows.jsonl", count, checks=True)
    took = batch(folder, rows, chat="at-once.json")
    return {"rows": count, "peak_mib": took.peak_mib, "rows_per_s": took.rows_per_s, "input_mib": _size(rows)}


def _size(path: Path) -> float:
    return path.stat().st_size / 2**20


def tables(result: Mapping[str, Any]) -> str:
    """Return the three tables, and whether the goals were reached."""
    parts = [
        f"SIMULATED: first token after {1000 * FIRST_TOKEN_S:.0f} ms, then {TOKENS_PER_S:.0f} tokens a second; answers "
        f"of {ANSWER_TOKENS} tokens; a verifier that takes no time.",
        "**Rows per second as concurrency grows**",
        *_grown(result["concurrency"]),
        "**Ray against one process**",
        *_rayed(result["ray"]),
        "**Memory as the input grows**",
        *_remembered(result["memory"]),
    ]
    return "\n\n".join(parts)


def linear(levels: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return each level's rows per second over those of the first level grown in proportion."""
    first = levels[0]
    one = spread(first["rows_per_s"]).median / first["concurrency"]
    return [spread(level["rows_per_s"]).median / (one * level["concurrency"]) for level in levels]


def _grown(levels: Sequence[Mapping[str, Any]]) -> list[str]:
    shares = linear(levels)
    rows = [
        [
            str(level["concurrency"]),
            str(level["rows"]),
            spread(level["rows_per_s"]).text(),
            f"{share:.0%}",
            spread(level["cores"]).text(),
        ]
        for level, share in zip(levels, shares, strict=True)
    ]
    near = [level["concurrency"] for level, share in zip(levels, shares, strict=True) if share >= NEAR_LINEAR]
    best = max(levels, key=lambda level: spread(level["rows_per_s"]).median)
    return [
        table(["rows in flight", "rows", "rows/s", "of proportional growth", "cores busy"], rows),
        f"Near-linear (at least {NEAR_LINEAR:.0%} of proportional growth) up to {max(near)} in flight; most rows a "
        f"second with {best['concurrency']}: {spread(best['rows_per_s']).text()}.",
    ]


def _rayed(found: Sequence[Mapping[str, Any]] | str | None) -> list[str]:
    if found is None or isinstance(found, str):
        return [found or "not measured"]
    rows = []
    for each in found:
        own = next(one for one in found if one["model"] == each["model"] and one["way"] == "in process")
        rate, alone = spread(each["rows_per_s"]), spread(own["rows_per_s"])
        rows.append(
            [
                f"{each['model']}, {each['way']}",
                f"{each['rows']:,}",
                rate.text(),
                f"{rate.median / alone.median:.2f}",
                spread(each["start_s"]).text(1),
                spread(each["command_s"]).text(1),
            ]
        )
    return [
        table(["engine", "rows", "rows/s once started", "× in process", "s to start and end", "s in all"], rows),
        f"{found[0]['in_flight']} rows in flight in all, whatever the number of workers. The rate is that between a "
        "run of all rows and one of a quarter of them; what it does not explain of the larger one's time is the start "
        "and the end.",
    ]


def _remembered(levels: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        [f"{level['rows']:,}", f"{level['input_mib']:.1f}", f"{level['peak_mib']:.1f}", f"{level['rows_per_s']:.0f}"]
        for level in levels
    ]
    grown = levels[-1]["peak_mib"] / levels[0]["peak_mib"]
    return [
        table(["rows", "input MiB", "peak memory MiB", "rows/s"], rows),
        "Checks against a context each, by rule alone; no chat model.",
        goal(
            grown <= FLAT,
            f"memory flat within {FLAT - 1:.0%} from {levels[0]['rows']:,} to {levels[-1]['rows']:,} rows "
            f"({grown - 1:+.1%})",
        ),
    ]


def _flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    levels = [2**n for n in range(10)]
    add("--levels", type=numbers, default=levels, help="rows in flight, with commas between (default: 1,2,…,512)")
    add("--waves", type=at_least(1), default=6, help="rows per level, times its concurrency (default: 6)")
    add("--rounds", type=at_least(1), default=3, help="commands for each line of the first two tables (default: 3)")
    add("--ray-rows", type=at_least(1), default=1000, help="rows that the engines are compared on (default: 1000)")
    add("--ray-concurrency", type=at_least(2), default=64, help="rows in flight there, in all (default: 64)")
    add("--no-ray", action="store_true", help="leave Ray out")
    add("--memory-rows", type=numbers, default=[1_000, 100_000], help="sizes of input (default: 1000,100000)")


main = command("batch", __doc__, _flags, run, tables, packages=("ray", "pyarrow"))

if __name__ == "__main__":
    raise SystemExit(main())

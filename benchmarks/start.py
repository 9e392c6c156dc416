"""How long Corrigenda takes to start: `import corrigenda` and `corrigenda --help`, each in a new process.

    python -m benchmarks.start

Python's own start is measured beside them, in turns, and is part of both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measured import Result, at_least, command, goal, spread, table

GOAL_S = 0.3
BARE = "python -c pass"
COMMANDS: Mapping[str, Sequence[str]] = {
    BARE: ("-c", "pass"),
    "import corrigenda": ("-c", "import corrigenda"),
    "corrigenda --help": ("-m", "corrigenda", "--help"),
}


def run(arguments: argparse.Namespace) -> Result:
    """Start each command in turns, and return the seconds of each start."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(arguments.runs + 1):
        for name, given in COMMANDS.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, *given], check=True, stdout=subprocess.DEVNULL)
            if turn:  # the first start reads the files from the disk
                seconds[name].append(time.perf_counter() - begun)
    return {"seconds": seconds}


def tables(result: Mapping[str, Any]) -> str:
    """Return the table, and whether the goal was reached."""
    found = {name: spread(values) for name, values in result["seconds"].items()}
    rows = [
        [f"`{name}`", each.text(3), f"{each.median - found[BARE].median:.3f}" if name != BARE else "–"]
        for name, each in found.items()
    ]
    reached = all(each.median < GOAL_S for each in found.values())
    runs = found[BARE].n
    return "\n\n".join(
        [
            table(["command", "seconds", "beyond Python's own start"], rows),
            f"Median of {runs} starts in turns, with the shortest and the longest.",
            goal(reached, f"both start within {GOAL_S:g} s"),
        ]
    )


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=at_least(1), default=20, help="starts of each (default: 20)")


main = command("start", __doc__, _flags, run, tables, packages=("openai", "rich"))

if __name__ == "__main__":
    raise SystemExit(main())

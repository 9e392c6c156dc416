"""Make docs/performance.md: run every benchmark, each in a process of its own, then write the page from the results.

    python -m benchmarks.performance                     runs all, then writes
    python -m benchmarks.performance --only start,calls  runs these alone; the page keeps the others as they were
    python -m benchmarks.performance --write             only writes, from docs/performance/*.json
    python -m benchmarks.performance --quick --out DIR   tiny sizes, to see that everything runs; no figures to keep

Run it on a machine that does nothing else. The comparison of verifiers installs selfcheckgpt and uqlm from the package
index; `--environments DIR` keeps them for the next time, `--constraint FILE` says which versions pip may take.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measured import ROOT, framed, keep, load

HERE = Path(__file__).parent
DOCS = ROOT / "docs"
QUIET = 0.5
"""Processes that want a core, from which on a warning is given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A section of the page, and the command that makes it."""

    name: str
    title: str
    about: str
    """What stands above its numbers."""
    arguments: tuple[str, ...]
    """After `python -m`; a module of `benchmarks`, or `corrigenda bench …`, whose output is shown as it is."""
    quick: tuple[str, ...] = ()
    """What makes it a matter of seconds."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions matter, for a command that does not tell them itself."""

    @property
    def printed(self) -> bool:
        """Whether what is kept is what the command prints."""
        return self.arguments[0] == "corrigenda"


PARTS = (
    Part(
        name="ask",
        title="`ask` against the bare answer",
        about="What checking and correcting adds to the model's own answer, with the chain of calls that the user "
        "waits for (the critical path). Recall runs beside the answer and claims are checked while it streams, so that "
        "what remains is what can only begin when the last sentence is there.",
        arguments=("corrigenda", "bench", "latency"),
        quick=("--profile", "simulated", "--runs", "1"),
        packages=("xllamacpp",),
    ),
    Part(
        name="calls",
        title="Calls and tokens per answer",
        about="What each method asks of the chat model to examine one answer, all models scripted (SIMULATED): this "
        "says what a method costs, not how well it does. A token is a word or a mark.",
        arguments=("benchmarks.calls",),
    ),
    Part(
        name="nli_peers",
        title="Verifiers: against selfcheckgpt and uqlm",
        about="The same pairs and the same weights through the classes that those packages ship and through our "
        "verifiers, on the CPU. Random weights of a published model's size: its speed is real, its verdicts mean "
        "nothing.",
        arguments=("benchmarks.nli_peers",),
        quick=("--pairs", "6", "--rounds", "1", "--shapes", "xsmall", "--longest", "40"),
    ),
    Part(
        name="nli",
        title="Verifiers: batches against one pair at a time",
        about="The same verifier, called once for all pairs and once for each.",
        arguments=("corrigenda", "bench", "nli"),
        quick=("--profile", "onnx", "--pairs", "4", "--rounds", "1"),
        packages=("onnxruntime", "tokenizers", "xllamacpp"),
    ),
    Part(
        name="batch",
        title="`corrigenda batch`",
        about="How the rate grows with the rows in flight, what Ray costs and brings on one machine, and what memory "
        "does.",
        arguments=("benchmarks.batch",),
        quick=(
            *("--levels", "1,4", "--waves", "1", "--rounds", "1", "--memory-rows", "50,100"),
            *("--ray-rows", "8", "--ray-concurrency", "4"),
        ),
    ),
    Part(
        name="start",
        title="Start",
        about="Each command in a new process.",
        arguments=("benchmarks.start",),
        quick=("--runs", "2"),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", metavar="NAMES", help="with commas between; default: all")
    add("--write", action="store_true", help="run nothing, only write the page")
    add("--quick", action="store_true", help="tiny sizes; needs --out, so that docs/ keeps real figures")
    add("--out", metavar="DIR", type=Path, default=DOCS, help="where the page and its numbers go (default: docs)")
    add("--environments", metavar="DIR", type=Path, help="where selfcheckgpt and uqlm are installed, or are already")
    add("--constraint", metavar="FILE", type=Path, help="version constraints for installing them")
    arguments = parser.parse_args(argv)
    if arguments.quick and arguments.out.resolve() == DOCS.resolve():
        parser.error("--quick makes no figures to keep: say where they go with --out")
    names = [part.name for part in PARTS] if arguments.only is None else arguments.only.split(",")
    unknown = set(names) - {part.name for part in PARTS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in PARTS)}")
    busy = load()
    if busy is not None and busy > QUIET and not (arguments.write or arguments.quick):
        print(
            f"the machine is busy (load {busy:g}): ratios to what waits busily, as torch does, come out too large",
            file=sys.stderr,
        )
    failed = []
    for part in PARTS:
        if part.name in names and not arguments.write:
            print(f"== {part.name}", file=sys.stderr, flush=True)
            if not measure(part, _extra(part, arguments), arguments.out):
                failed.append(part.name)
            write(arguments.out)
    write(arguments.out)
    if failed:
        print(f"failed, so that the page has no new figures of them: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _extra(part: Part, arguments: argparse.Namespace) -> list[str]:
    extra = list(part.quick) if arguments.quick else []
    if part.name == "nli_peers":
        for flag in ("environments", "constraint"):
            given = getattr(arguments, flag)
            extra += [] if given is None else [f"--{flag}", str(given.absolute())]
    return extra


def measure(part: Part, extra: Sequence[str], out: Path) -> bool:
    """Run a part's command, keep what came out, and return whether it succeeded."""
    kept = (out / "performance" / f"{part.name}.json").absolute()
    given = [sys.executable, "-m", *part.arguments, *extra]
    if not part.printed:
        return subprocess.run([*given, "--json", str(kept)], check=False, cwd=ROOT).returncode == 0
    busy, begun = load(), time.perf_counter()
    done = subprocess.run(given, check=False, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode:
        return False
    seconds, shown = time.perf_counter() - begun, " ".join(part.arguments)
    keep(kept, framed({"text": done.stdout}, command=shown, busy=busy, seconds=seconds, names=part.packages))
    return True


# The page -----------------------------------------------------------------------------------------------------------


def write(out: Path) -> None:
    """Write the page from what is kept."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "performance.md").write_text(page(out / "performance"), encoding="utf-8")


def page(kept: Path) -> str:
    """Return the page: the head, the discussion where there is one, and a section for each result in `kept`."""
    parts = [(HERE / "performance_head.md").read_text("utf-8").rstrip("\n"), ""]
    discussion = HERE / "performance_discussion.md"
    if discussion.exists():
        parts += [discussion.read_text("utf-8").rstrip("\n"), ""]
    for part in PARTS:
        path = kept / f"{part.name}.json"
        if path.exists():
            parts += _section(part, json.loads(path.read_text("utf-8")))
    return "\n".join(parts).rstrip("\n") + "\n"


def _section(part: Part, whole: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {part.title}", "", f"    {whole['command']}", "", part.about, "")
    if part.printed:
        yield from ("```", whole["result"]["text"].rstrip("\n"), "```", "")
    else:
        tables = importlib.import_module(part.arguments[0]).tables
        yield from (tables(whole["result"]), "")
    yield from (_where(whole), "")


def _where(whole: Mapping[str, Any]) -> str:
    """Return where and when a result was measured."""
    place, busy = whole["machine"], whole["load_before"]
    cores = f"{place['cores']} core{'s' * (place['cores'] != 1)}"
    known = ", ".join(f"{name} {version}" for name, version in whole["versions"].items())
    return (
        f"*{whole['made']}, {whole['seconds']} s; {place['processor']}, {cores}, {place['memory_gib']:g} GiB, "
        f"{place['system']}, Python {place['python']}; {known}"
        f"{'' if busy is None else f'; load {busy:g} before'}.*"
    )


if __name__ == "__main__":
    raise SystemExit(main())

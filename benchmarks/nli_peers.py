"""Pairs per second of our verifiers and of the classes that selfcheckgpt and uqlm ship, on the same weights and pairs.

    python -m benchmarks.nli_peers [--environments DIR] [--constraint FILE]

The model is a DeBERTa-v2 of a published size, made on the spot with random weights: the work per token is a trained
model's, the verdicts mean nothing. selfcheckgpt and uqlm are installed from the package index, each in an environment
of its own (in DIR, or thrown away), and their own classes load the same directory and score the same pairs:

    selfcheckgpt  SelfCheckNLI.predict, which scores a pair at a time
    uqlm          NLI.predict_batch, which scores 32 at a time in the order given
    uqlm, single  NLI.predict, a pair at a time

Each way is a process of its own with what threads its library takes by itself, and they work in turns, a round after
another: a ratio is the median over the rounds, so that other work on the machine falls on all of them. All is measured
a second time with one thread each (OMP_NUM_THREADS=1): what a library does on one core, and what of its speed it owes
to the others. Torch's threads wait for each other busily, so a machine that does other work slows them most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measured import ROOT, Result, at_least, command, goal, ratios, spread, table
from benchmarks.peer_models import SHAPES, Environments, make_model, operators, texts, token_counts

GOAL = 3.0
"""Pairs per second of `onnx` over those of each peer's own class."""
ALIKE = 1e-4
"""Largest difference of any probability in full precision."""
CONTRADICTION = 1
"""Which of the model's outputs selfcheckgpt's class returns, whatever its label."""
PEERS: Mapping[str, str] = {"selfcheckgpt": "selfcheckgpt", "uqlm": "uqlm", "uqlm-single": "uqlm"}
"""Ways that a peer does it, and the peer."""
OURS = ("transformers", "onnx-single", "onnx", "onnx-int8")
FULL = ("transformers", "onnx-single", "onnx")
"""Ours in full precision."""
NAMES: Mapping[str, str] = {
    "selfcheckgpt": "selfcheckgpt, `SelfCheckNLI.predict`",
    "uqlm": "uqlm, `NLI.predict_batch`",
    "uqlm-single": "uqlm, `NLI.predict`, a pair at a time",
    "transformers": "corrigenda, `transformers:`",
    "onnx-single": "corrigenda, `onnx:`, a pair at a time",
    "onnx": "corrigenda, `onnx:`",
    "onnx-int8": "corrigenda, `onnx:` with int8 weights",
}


class Worker:
    """A way in a process of its own; see `nli_worker.py`."""

    def __init__(self, way: str, process: subprocess.Popen[str]) -> None:
        """Take a process that is about to say that it is ready."""
        self.way = way
        self._process = process

    def ready(self, pairs: Sequence[tuple[str, str]]) -> Mapping[str, str]:
        """Hand it the pairs, wait until its model is loaded, and return its versions."""
        found: Mapping[str, str] = self._ask(json.dumps(pairs))["versions"]
        return found

    def go(self) -> tuple[float, float]:
        """Let it score all pairs; return the seconds and the processor seconds."""
        answer = self._ask("go")
        return answer["wall_s"], answer["cpu_s"]

    def scores(self) -> list[list[float]]:
        """Return what it made of the pairs the last time."""
        found: list[list[float]] = self._ask("scores")
        return found

    def _ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SystemExit(f"the process of {self.way!r} ended; what it said stands above")
        return json.loads(answer)


@contextmanager
def working(way: str, python: Path, model: Path, *, threads: int | None) -> Iterator[Worker]:
    """Run a way's process, with as many threads as it takes by itself where `threads` is None."""
    environment = {**os.environ, "TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    script = ROOT / "benchmarks" / "nli_worker.py"
    with subprocess.Popen(
        [str(python), str(script), way, str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield Worker(way, process)
        finally:
            process.terminate()


def run(arguments: argparse.Namespace) -> Result:
    """Make the models and the environments, and measure."""
    with tempfile.TemporaryDirectory(prefix="corrigenda-bench-") as scratch:
        places = Environments(
            folder=(arguments.environments or Path(scratch) / "peers").absolute(), constraint=arguments.constraint
        )
        pythons = {way: places.python(peer) for way, peer in PEERS.items()}
        pairs = texts(arguments.pairs, arguments.longest)
        models = {shape: make_model(Path(scratch) / shape, shape) for shape in arguments.shapes}
        result: Result = {
            name: {
                shape: measured(model, pairs, pythons, rounds=arguments.rounds, threads=threads)
                for shape, model in models.items()
            }
            for name, threads in (("shapes", None), ("one_core", 1))
        }
        return result | {"operators": {s: operators(model, pairs, Path(scratch)) for s, model in models.items()}}


def measured(
    model: Path,
    pairs: Sequence[tuple[str, str]],
    pythons: Mapping[str, Path],
    *,
    rounds: int,
    threads: int | None = None,
) -> Result:
    """Let every way score the pairs, in turns."""
    wall: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    with ExitStack() as stack:
        workers = {
            way: stack.enter_context(working(way, pythons.get(way, Path(sys.executable)), model, threads=threads))
            for way in (*PEERS, *OURS)
        }
        found = {way: worker.ready(pairs) for way, worker in workers.items()}
        for _ in range(rounds):
            for way, worker in workers.items():
                seconds, processor = worker.go()
                wall.setdefault(way, []).append(seconds)
                cpu.setdefault(way, []).append(processor)
        scores = {way: worker.scores() for way, worker in workers.items()}
    counts = token_counts(model, pairs)
    return {
        "pairs": len(pairs),
        "tokens": {"least": min(counts), "median": statistics.median(counts), "most": max(counts)},
        "wall_s": wall,
        "cpu_s": cpu,
        "differences": {way: {peer: difference(scores[way], scores[peer]) for peer in PEERS} for way in OURS},
        "scores": {
            "least": [min(row[i] for row in scores["onnx"]) for i in range(3)],
            "most": [max(row[i] for row in scores["onnx"]) for i in range(3)],
        },
        "versions": found,
    }


def difference(one: Sequence[Sequence[float]], two: Sequence[Sequence[float]]) -> float:
    """Return the largest difference of any probability; of contradiction's alone where one way gives no more."""
    largest = 0.0
    for a, b in zip(one, two, strict=True):
        if len(a) != len(b):
            gaps = [(a[0] if len(a) == 1 else a[CONTRADICTION]) - (b[0] if len(b) == 1 else b[CONTRADICTION])]
        else:
            gaps = [x - y for x, y in zip(a, b, strict=True)]
        largest = max(largest, *map(abs, gaps))
    return largest


def tables(result: Mapping[str, Any]) -> str:
    """Return a table for each model, with all cores and with one, and whether the goals were reached."""
    parts = []
    for shape, found in result["shapes"].items():
        single = result["one_core"][shape]
        parts += [_about(shape, found), "With the threads that each takes by itself:", _table(found)]
        parts += ["With one thread each:", _table(single), _told(found["versions"])]
        parts += [_bound(single, result["operators"][shape]), *_goals(found, single)]
    return "\n\n".join(parts)


def _about(shape: str, found: Mapping[str, Any]) -> str:
    layers, hidden, _ = SHAPES[shape]
    tokens, low, high = found["tokens"], found["scores"]["least"], found["scores"]["most"]
    return (
        f"**The shape of DeBERTa-v3-{shape}** ({layers} layers of {hidden}), {found['pairs']} pairs of "
        f"{tokens['least']} to {tokens['most']} tokens (median {tokens['median']:.0f}), {len(found['wall_s']['onnx'])} "
        "rounds. The model's weights are random; its probabilities go from "
        f"{', '.join(f'{a:.2f} to {b:.2f}' for a, b in zip(low, high, strict=True))}."
    )


def _table(found: Mapping[str, Any]) -> str:
    wall = found["wall_s"]
    rows = []
    for way in (*PEERS, *OURS):
        speed = spread([found["pairs"] / seconds for seconds in wall[way]])
        against = [
            "1" if way == peer else "–" if way in PEERS else ratios(wall[peer], wall[way]).text() for peer in PEERS
        ]
        cpu = 1000 * spread(found["cpu_s"][way]).median / found["pairs"]
        apart = f"{max(found['differences'][way].values()):.1e}" if way in OURS else "–"
        rows.append([NAMES[way], speed.text(1), *against, f"{cpu:.0f}", apart])
    peers = ("× selfcheckgpt", "× uqlm", "× uqlm, single")
    return table(["verifier", "pairs/s", *peers, "processor ms a pair", "largest difference"], rows)


def _bound(single: Mapping[str, Any], seconds: Mapping[str, float]) -> str:
    """Return where our time goes on one core, and what that allows at most."""
    whole, weights = sum(seconds.values()), 1000 * seconds["weights"] / single["pairs"]
    theirs = 1000 * spread(single["cpu_s"]["selfcheckgpt"]).median / single["pairs"]
    return (
        f"Where the time of `onnx:` goes on one core (onnxruntime's profile, a pair at a time): "
        f"{seconds['weights'] / whole:.0%} in matrix products with the model's weights, "
        f"{seconds['attention'] / whole:.0%} in those of attention and of relative positions, "
        f"{seconds['else'] / whole:.0%} in all else. The first take {weights:.0f} ms a pair, which batches do not "
        f"save, and selfcheckgpt {theirs:.0f} ms in all: were everything else free, one core would do "
        f"{theirs / weights:.1f} times its pairs in full precision."
    )


def _goals(found: Mapping[str, Any], single: Mapping[str, Any]) -> list[str]:
    times = {peer: ratios(found["wall_s"][peer], found["wall_s"]["onnx"]).median for peer in ("selfcheckgpt", "uqlm")}
    apart = max(value for each in (found, single) for way in FULL for value in each["differences"][way].values())
    return [
        goal(
            min(times.values()) >= GOAL,
            f"`onnx:` scores {GOAL:g} times as many pairs a second as selfcheckgpt and uqlm do "
            f"({', '.join(f'{value:.2f} × {peer}' for peer, value in times.items())})",
        ),
        goal(apart <= ALIKE, f"equal scores in full precision, within {ALIKE:g} ({apart:.1e})"),
    ]


def _told(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return what ran: the versions that the processes themselves gave, each package once for peers and for us."""
    sides = {"Peers": PEERS, "Ours": OURS}
    lines = []
    for side, ways in sides.items():
        seen = {f"{name} {version}": None for way in ways for name, version in found.get(way, {}).items()}
        lines.append(f"{side}: {', '.join(seen)}.")
    return (
        f"{' '.join(lines)} The weights are random, and the logits spread on purpose: with a trained model int8 "
        "differs from full precision by another amount than here."
    )


def _flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pairs", type=at_least(2), default=48, help="pairs that are scored (default: 48)")
    add("--longest", type=at_least(8), default=300, help="words of the longest premise (default: 300)")
    add("--rounds", type=at_least(1), default=5, help="rounds (default: 5)")
    add("--shapes", type=_shapes, default=["xsmall", "small"], help="models, with commas between: xsmall,small,base")
    add("--environments", metavar="DIR", type=Path, help="where the peers are installed, or are already")
    add("--constraint", metavar="FILE", help="version constraints for installing the peers, as pip takes them")


def _shapes(text: str) -> list[str]:
    names = text.split(",")
    unknown = set(names) - set(SHAPES)
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SHAPES)}")
    return names


main = command(
    "nli_peers",
    __doc__,
    _flags,
    run,
    tables,
    packages=("onnxruntime", "tokenizers", "torch", "transformers"),
)

if __name__ == "__main__":
    raise SystemExit(main())

"""Pairs per second of our verifiers and of the classes that selfcheckgpt and uqlm ship, on the same weights and pairs.

    python -m benchmarks.nli_peers [--environments DIR] [--constraint FILE]

The model is a DeBERTa-v2 of a published size, made on the spot with random weights: the work per token is a trained
model's, the verdicts mean nothing. selfcheckgpt and uqlm are installed from the package index, each in an environment
of its own (in DIR, or thrown away), and their own classes load the same directory and score the same pairs:

    selfcheckgpt  SelfCheckNLI.predict, which scores a pair at a time
    uqlm          NLI.predict_batch, which scores 32 at a time in the order given
    uqlm, single  NLI.predict, a pair at a time

Each way is a process of its own with what threads its library takes by itself, and they work in turns, a round after
another: a ratio is the median over the rounds, so that other work on the machine falls on all of them.
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
from benchmarks.peer_models import SHAPES, Environments, make_model, texts, token_counts

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
def working(way: str, python: Path, model: Path) -> Iterator[Worker]:
    """Run a way's process."""
    environment = {**os.environ, "TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
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
        return {
            "shapes": {
                shape: measured(make_model(Path(scratch) / shape, shape), pairs, pythons, rounds=arguments.rounds)
                for shape in arguments.shapes
            }
        }


def measured(model: Path, pairs: Sequence[tuple[str, str]], pythons: Mapping[str, Path], *, rounds: int) -> Result:
    """Let every way score the pairs, in turns."""
    wall: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    with ExitStack() as stack:
        workers = {
            way: stack.enter_context(working(way, pythons.get(way, Path(sys.executable)), model))
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
    """Return a table for each model, and whether the goals were reached."""
    return "\n\n".join(_table(shape, found) for shape, found in result["shapes"].items())


def _table(shape: str, found: Mapping[str, Any]) -> str:
    layers, hidden, _ = SHAPES[shape]
    tokens, wall = found["tokens"], found["wall_s"]
    rows = []
    for way in (*PEERS, *OURS):
        speed = spread([found["pairs"] / seconds for seconds in wall[way]])
        against = [
            "1" if way == peer else ratios(wall[peer], wall[way]).text() if way not in PEERS else "–"
            for peer in ("selfcheckgpt", "uqlm", "uqlm-single")
        ]
        cpu = 1000 * spread(found["cpu_s"][way]).median / found["pairs"]
        apart = f"{max(found['differences'][way].values()):.1e}" if way in OURS else "–"
        rows.append([NAMES[way], speed.text(1), *against, f"{cpu:.0f}", apart])
    head = (
        *("verifier", "pairs/s", "× selfcheckgpt", "× uqlm", "× uqlm, single"),
        *("processor ms a pair", "largest difference"),
    )
    least = {peer: ratios(wall[peer], wall["onnx"]).median for peer in ("selfcheckgpt", "uqlm")}
    apart_at_most = max(value for way in FULL for value in found["differences"][way].values())
    low, high = found["scores"]["least"], found["scores"]["most"]
    return "\n\n".join(
        [
            f"**The shape of DeBERTa-v3-{shape}** ({layers} layers of {hidden}), {found['pairs']} pairs of "
            f"{tokens['least']} to {tokens['most']} tokens (median {tokens['median']:.0f}), "
            f"{len(wall['onnx'])} rounds. The model's weights are random; its probabilities go from "
            f"{', '.join(f'{a:.2f} to {b:.2f}' for a, b in zip(low, high, strict=True))}.",
            table(head, rows),
            _told(found["versions"]),
            goal(
                min(least.values()) >= GOAL,
                f"`onnx:` scores {GOAL:g} times as many pairs a second as selfcheckgpt and uqlm do "
                f"({', '.join(f'{value:.2f} × {peer}' for peer, value in least.items())})",
            ),
            goal(apart_at_most <= ALIKE, f"equal scores in full precision, within {ALIKE:g} ({apart_at_most:.1e})"),
        ]
    )


def _told(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return what ran: the versions that the processes themselves gave, each package once for peers and for us."""
    sides = {"Peers": PEERS, "Ours": OURS}
    lines = []
    for side, ways in sides.items():
        seen = {f"{name} {version}": None for way in ways for name, version in found.get(way, {}).items()}
        lines.append(f"{side}: {', '.join(seen)}.")
    return (
        f"{' '.join(lines)} Each with the threads that it takes by itself. The weights are random, and the "
        "logits spread on purpose: a trained model's int8 weights differ from its full precision by another amount than these do."
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

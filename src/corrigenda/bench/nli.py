"""`corrigenda bench nli`: pairs per second of two verifiers, as ratios in one run.

`onnx`: models made on the spot (the real DeBERTa-v2 architecture, random weights: the work per token is a trained
model's, the verdicts mean nothing), mixed lengths, all pairs in one call against one pair per call. Each round
runs both, one after the other, and the ratio is the median over the rounds, so that other work on the machine
falls on both. The ratio of processor time is printed beside it: it is what batching itself saves; the rest of the
gain comes from using all cores.

What to expect on a CPU: a single pair costs a fixed overhead (a call between threads, and some hundred small
operators whatever the length) and the arithmetic of its tokens. Batching saves the first and not the second. It
gives 3 times on a small model, where overhead is most of the time, and next to nothing on one of 6 layers of 384,
where matrix products alone are 64% of onnxruntime's profile for a single pair of 40 tokens, 74% for one of 120,
and 83% for three of these at once. There what is gained comes from running batches on all cores, so it grows with
the cores, and a busy machine hides it.

`chat`: the embedded chat model as the verifier, with its cache of the shared prefix and without.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrigenda.errors import CorrigendaError
from corrigenda.ports import Entailer
from corrigenda.types import Entailment, Pair, PairFailure

if TYPE_CHECKING:
    from corrigenda.bench.nli_model import Size

TARGET = 3.0
"""The ratio, batched over one at a time, that the small model is to reach on mixed lengths."""

_TEXT = "the lamp in hall draws five watts and river is long town bank bridge built man lead sinks cork floats salt"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One comparison. Seconds are medians over the rounds."""

    name: str
    pairs: int
    slow: str
    """What is compared with: `one at a time`, `without cache`."""
    slow_s: float
    fast_s: float
    ratio: float
    """Median over the rounds of slow / fast, in wall time."""
    cpu_ratio: float
    """The same in processor time of this process."""
    between: tuple[float, float]
    """The least and the largest ratio of a round, in wall time."""
    difference: float
    """Largest difference of any probability between the two ways."""
    note: str = ""

    @property
    def line(self) -> str:
        """The row for a person."""
        return (
            f"{self.name:<28} {self.pairs:>4} pairs  {self.slow} {self.pairs / self.slow_s:8.2f}/s  "
            f"-> {self.pairs / self.fast_s:8.2f}/s  ratio {self.ratio:.2f} "
            f"({self.between[0]:.2f} to {self.between[1]:.2f}; processor time {self.cpu_ratio:.2f})  "
            f"largest difference {self.difference:.1e}{'  ' if self.note else ''}{self.note}"
        )


def mixed_pairs(count: int, longest: int, seed: int = 1) -> list[Pair]:
    """Return pairs whose premises have 8 to `longest` words, evenly on a logarithmic scale; claims have 5 to 14."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    vocabulary = _TEXT.split()

    def text(words: int) -> str:
        return " ".join(chance.choices(vocabulary, k=words))

    return [
        Pair(premise=text(int(8 * (longest / 8) ** chance.random())), hypothesis=text(chance.randint(5, 14)))
        for _ in range(count)
    ]


Way = Callable[[Sequence[Pair]], Any]


async def compare(name: str, pairs: Sequence[Pair], slow: tuple[str, Way], fast: Way, *, rounds: int, note: str) -> Row:
    """Time two ways of scoring the same pairs, in turns. Both are coroutine functions that return the results."""
    times: dict[str, list[tuple[float, float]]] = {"slow": [], "fast": []}
    results: dict[str, list[Entailment | PairFailure]] = {}
    ways: Mapping[str, Way] = {"slow": slow[1], "fast": fast}
    for way in ways.values():
        await way(pairs[:1])  # what is made on first use is not measured
    for _ in range(rounds):
        for key, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            results[key] = await way(pairs)
            times[key].append((time.perf_counter() - wall, time.process_time() - cpu))
    ratios = [(a[0] / b[0], a[1] / b[1]) for a, b in zip(times["slow"], times["fast"], strict=True)]
    return Row(
        name=name,
        pairs=len(pairs),
        slow=slow[0],
        slow_s=statistics.median(seconds for seconds, _ in times["slow"]),
        fast_s=statistics.median(seconds for seconds, _ in times["fast"]),
        ratio=statistics.median(ratio for ratio, _ in ratios),
        cpu_ratio=statistics.median(ratio for _, ratio in ratios),
        between=(min(ratio for ratio, _ in ratios), max(ratio for ratio, _ in ratios)),
        difference=_difference(results["slow"], results["fast"]),
        note=note,
    )


def _difference(one: Sequence[Entailment | PairFailure], two: Sequence[Entailment | PairFailure]) -> float:
    """Return the largest difference of any probability; infinite where only one of the two failed."""
    largest = 0.0
    for a, b in zip(one, two, strict=True):
        if isinstance(a, Entailment) and isinstance(b, Entailment):
            gaps = (a.entailment - b.entailment, a.neutral - b.neutral, a.contradiction - b.contradiction)
            largest = max(largest, *map(abs, gaps))
        elif type(a) is not type(b):
            return float("inf")
    return largest


def one_by_one(entailer: Entailer) -> Way:
    """Return the way that makes a call for each pair."""

    async def way(pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        return [(await entailer.entail([pair]))[0] for pair in pairs]

    return way


async def onnx_row(name: str, size: Size, pairs: Sequence[Pair], *, rounds: int) -> Row:
    """Make a model of `size` on disk, and compare. Raises MissingExtra."""
    from corrigenda.backends.nli_onnx import OnnxEntailer  # noqa: PLC0415  # an extra
    from corrigenda.bench.nli_model import make  # noqa: PLC0415  # needs torch

    with tempfile.TemporaryDirectory(prefix="corrigenda-bench-") as folder:
        entailer = OnnxEntailer(make(Path(folder) / "model", size=size))
        try:
            slow = ("one at a time", one_by_one(entailer))
            note = f"[{size.layers} layers of {size.hidden}]"
            return await compare(name, pairs, slow, entailer.entail, rounds=rounds, note=note)
        finally:
            await entailer.aclose()


async def chat_row(pairs: Sequence[Pair], *, rounds: int) -> Row:
    """Compare the embedded model's verifier with and without the shared prefix. Raises ModelError, MissingExtra."""
    from corrigenda import backends, models  # noqa: PLC0415  # the first may be absent, the second is slow to import

    path = models.resolve("", download=False)
    chat = backends.load("chat local", path, name=f"local:{models.DEFAULT}")
    entailer = backends.load("nli chat", chat)

    def way(*, cached: bool) -> Way:
        async def score(some: Sequence[Pair]) -> list[Entailment | PairFailure]:
            chat.cache_prefix = cached
            found: list[Entailment | PairFailure] = await entailer.entail(some)
            return found

        return score

    try:
        slow = ("without cache", way(cached=False))
        return await compare("chat, shared prefix", pairs, slow, way(cached=True), rounds=rounds, note="")
    finally:
        await entailer.aclose()
        await chat.aclose()


def chat_pairs() -> list[Pair]:
    """Return six claims on one reference, as an answer has them."""
    premise = (
        "Bergen is a city on the west coast of Norway. It was founded in 1070 and has about 290,000 inhabitants. "
        "The harbour is one of the busiest in the country, and the city lies between seven mountains."
    )
    claims = (
        "Bergen is in Norway.",
        "Bergen was founded in 1170.",
        "Bergen lies between seven mountains.",
        "Bergen has a university.",
        "Bergen has about 29,000 inhabitants.",
        "The harbour of Bergen is quiet.",
    )
    return [Pair(premise=premise, hypothesis=claim) for claim in claims]


async def run(
    *, profile: str = "both", count: int = 48, rounds: int = 5, report: Callable[[str], None] = print
) -> list[Row]:
    """Measure and return the rows; what can't be measured here is told to `report`, with the reason."""
    rows: list[Row] = []
    if profile in ("onnx", "both"):
        try:
            from corrigenda.bench.nli_model import Size  # noqa: PLC0415  # needs torch and transformers
        except ImportError as error:
            report(f"onnx: skipped, {error.name or error} is not installed (extras onnx and transformers)")
        else:
            small = Size(hidden=32, layers=2, heads=2, positions=64, spread=0.2)
            middle = Size(hidden=128, layers=4, heads=4, positions=512, spread=0.05)
            fair = Size(hidden=384, layers=6, heads=6, positions=512, spread=0.05)
            rows.append(await onnx_row("onnx small, to 40 words", small, mixed_pairs(4 * count, 40), rounds=rounds))
            rows.append(await onnx_row("onnx middle, to 200 words", middle, mixed_pairs(count, 200), rounds=rounds))
            rows.append(await onnx_row("onnx fair, to 200 words", fair, mixed_pairs(count // 2, 200), rounds=rounds))
    if profile in ("chat", "both"):
        try:
            rows.append(await chat_row(chat_pairs(), rounds=1))
        except CorrigendaError as error:
            report(f"chat: skipped, {error}")
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(prog="corrigenda bench nli", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", choices=("onnx", "chat", "both"), default="both")
    parser.add_argument("--pairs", type=int, default=48, help="pairs per model (default 48; the small one has 4 times)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per row (default 5)")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1 or arguments.pairs < 2:
        parser.error("--rounds must be at least 1 and --pairs at least 2")
    load = f", load {os.getloadavg()[0]:.1f} before the run" if hasattr(os, "getloadavg") else ""
    print(f"{os.cpu_count()} cores{load}. The onnx models are DeBERTa-v2 with RANDOM weights: speed only, no verdicts.")
    rows = asyncio.run(run(profile=arguments.profile, count=arguments.pairs, rounds=arguments.rounds))
    for row in rows:
        print(row.line)
    small = [row for row in rows if row.name.startswith("onnx small")]
    if small:
        reached = "reached" if small[0].ratio >= TARGET else "NOT reached"
        print(f"Target, small model: {TARGET:g} times one at a time: {reached} ({small[0].ratio:.2f}).")
    return 0

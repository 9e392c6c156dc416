"""One verifier in a process of its own, for `benchmarks/nli_peers.py`: it scores the same pairs each time it is told.

    python nli_worker.py WAY MODEL

WAY is a key of `WAYS`, MODEL a directory. The first line of standard input is a JSON list of (premise, hypothesis);
each further line is a command, and each is answered with one line of JSON:

    go      score all pairs; `wall_s` and `cpu_s` are the seconds and the processor seconds that it took
    scores  the probabilities of the last run, a list per pair in the order of the model's outputs

It runs under the peers' Pythons too, where Corrigenda isn't installed, so it imports nothing until it is asked to.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Pairs = Sequence[tuple[str, str]]
Way = Callable[[Pairs], list[list[float]]]


def selfcheckgpt(model: Path) -> Way:
    """Return `SelfCheckNLI.predict` as it is released: it scores a (sentence, sample) at a time.

    It gives one number for a pair, the second output of the model's softmax (its own model has two, of which that is
    contradiction), so that there is one column here.
    """
    from selfcheckgpt.modeling_selfcheck import SelfCheckNLI  # noqa: PLC0415  # only in the peer's environment

    checker: Any = SelfCheckNLI(nli_model=str(model), device="cpu")
    return lambda pairs: [[float(checker.predict([first], [second])[0])] for first, second in pairs]


def uqlm(model: Path) -> Way:
    """Return `NLI.predict_batch` as it is released: batches of 32 in the order given, padded to their longest."""
    nli = _uqlm(model)
    return lambda pairs: [[float(p) for p in row] for row in nli.predict_batch(list(pairs))]


def uqlm_single(model: Path) -> Way:
    """Return `NLI.predict`, a pair at a time, as uqlm's scorers of long texts call it in their plain form."""
    nli = _uqlm(model)
    return lambda pairs: [[float(p) for p in nli.predict(premise=a, hypothesis=b)[0]] for a, b in pairs]


def _uqlm(model: Path) -> Any:
    from uqlm.nli.nli import NLI  # noqa: PLC0415  # only in the peer's environment

    return NLI(nli_model_name=str(model), device="cpu")


def onnx(model: Path) -> Way:
    """Return our `onnx:` verifier in full precision."""
    from corrigenda.backends.nli_onnx import OnnxEntailer  # noqa: PLC0415  # not in the peers' environments

    return _ours(OnnxEntailer(model), model)


def onnx_single(model: Path) -> Way:
    """Return the same, a pair at a time: what of the gain is the runtime's, and what is due to batches."""
    from corrigenda.backends.nli_onnx import OnnxEntailer  # noqa: PLC0415

    score = _ours(OnnxEntailer(model), model)
    return lambda pairs: [score([pair])[0] for pair in pairs]


def onnx_int8(model: Path) -> Way:
    """Return our `onnx:` verifier on the graph with weights of 8 bits."""
    from corrigenda.backends.nli_onnx import OnnxEntailer  # noqa: PLC0415

    return _ours(OnnxEntailer(f"{model}@int8"), model)


def transformers(model: Path) -> Way:
    """Return our `transformers:` verifier."""
    from corrigenda.backends.nli_transformers import TransformersEntailer  # noqa: PLC0415

    return _ours(TransformersEntailer(model, device="cpu"), model)


def _ours(entailer: Any, model: Path) -> Way:
    """Return all pairs in one call, with the outputs in the order that the model has them."""
    from corrigenda.types import Entailment, Pair  # noqa: PLC0415

    config = json.loads((model / "config.json").read_text("utf-8"))
    order = {label: int(place) for place, label in config["id2label"].items()}

    def score(pairs: Pairs) -> list[list[float]]:
        found = asyncio.run(entailer.entail([Pair(premise=a, hypothesis=b) for a, b in pairs]))
        rows = []
        for result in found:
            if not isinstance(result, Entailment):
                raise SystemExit(f"a pair could not be scored: {result.reason}")
            row = [0.0, 0.0, 0.0]
            for name in ("entailment", "neutral", "contradiction"):
                row[order[name]] = getattr(result, name)
            rows.append(row)
        return rows

    return score


WAYS: dict[str, tuple[Callable[[Path], Way], tuple[str, ...]]] = {
    "selfcheckgpt": (selfcheckgpt, ("selfcheckgpt", "transformers", "torch")),
    "uqlm": (uqlm, ("uqlm", "transformers", "torch")),
    "uqlm-single": (uqlm_single, ("uqlm", "transformers", "torch")),
    "onnx": (onnx, ("onnxruntime", "tokenizers")),
    "onnx-single": (onnx_single, ("onnxruntime", "tokenizers")),
    "onnx-int8": (onnx_int8, ("onnxruntime", "tokenizers")),
    "transformers": (transformers, ("transformers", "torch")),
}
"""How each is made, and the distributions whose versions are told."""


def main() -> None:
    """Serve the commands until standard input ends."""
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    make, distributions = WAYS[sys.argv[1]]
    pairs = [(premise, hypothesis) for premise, hypothesis in json.loads(sys.stdin.readline())]
    score = make(Path(sys.argv[2]))
    score(pairs[:2])  # what is made on first use is not measured
    versions = {name: importlib.metadata.version(name) for name in distributions}
    scores: list[list[float]] = []
    answer: Any = {"python": platform.python_version(), "versions": versions}
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        command = sys.stdin.readline().strip()
        if command == "go":
            wall, cpu = time.perf_counter(), time.process_time()
            scores = score(pairs)
            answer = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
        elif command == "scores":
            answer = scores
        else:
            return


if __name__ == "__main__":
    main()

"""What `benchmarks/nli_peers.py` needs first: a model that all ways can load, pairs, and the peers' environments."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corrigenda.bench.latency import SENTENCES

PEERS: Mapping[str, tuple[str, ...]] = {
    "selfcheckgpt": ("selfcheckgpt", "transformers<5", "sentencepiece", "protobuf"),
    "uqlm": ("uqlm", "transformers<5", "sentencepiece", "protobuf", "pyarrow<22"),
}
"""What is installed for each. selfcheckgpt 0.1.7 calls a tokenizer method that transformers 5 no longer has; uqlm
0.6.7 wants NumPy 1 on Python 3.11 and 3.12, which newer releases of pyarrow do not load with."""

LABELS = ("contradiction", "neutral", "entailment")
"""In the order that uqlm takes for given."""
SHAPES: Mapping[str, tuple[int, int, int]] = {"xsmall": (12, 384, 6), "small": (6, 768, 12), "base": (12, 768, 12)}
"""Layers, width and attention heads of the published DeBERTa-v3 models of these names."""
POSITIONS = 512
_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
_VOCABULARY = 360
"""What `corrigenda.bench.nli_model` embeds is a few more: `[MASK]` comes behind."""
_LOGITS = 1.5
"""Standard deviation that the logits are given: random weights put every pair at nearly the same scores, and those
would agree whatever was computed."""
WORDS = tuple(dict.fromkeys(word for text in SENTENCES for word in text.strip(".").lower().split() if word.isalpha()))
"""Words for the pairs. Letters alone: the tokenizers of transformers 4 and 5 cut some runs of digits differently."""


def texts(count: int, longest: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return pairs whose premises have 8 to `longest` words, evenly on a logarithmic scale; hypotheses have 5 to 14."""
    chance = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words))

    return [(text(int(8 * (longest / 8) ** chance.random())), text(chance.randint(5, 14))) for _ in range(count)]


def make_model(folder: Path, shape: str) -> Path:
    """Write a DeBERTa-v2 with random weights in all the forms that are measured.

    That is a SentencePiece vocabulary and `tokenizer.json`, weights for transformers, an ONNX graph, and one with
    weights of 8 bits. Needs the extras `onnx` and `transformers`, and the package onnx.
    """
    import torch  # noqa: PLC0415  # seconds to import
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    from corrigenda.bench.nli_model import Size, export, make_model  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    make_tokenizer(folder)
    layers, hidden, heads = SHAPES[shape]
    model = make_model(Size(hidden=hidden, layers=layers, heads=heads, positions=POSITIONS, spread=0.04), LABELS)
    _spread_out(model, folder, torch)
    model.save_pretrained(folder)
    export(model, folder / "model.onnx")
    quantize_dynamic(folder / "model.onnx", folder / "model_quantized.onnx", weight_type=QuantType.QInt8)
    return folder


def _spread_out(model: Any, folder: Path, torch: Any) -> None:
    """Change the model's last layer so that the logits of mixed pairs are spread around 0."""
    with torch.no_grad():
        logits = torch.cat(
            [
                model(input_ids=torch.tensor([encoded.ids]), token_type_ids=torch.tensor([encoded.type_ids])).logits
                for encoded in _encoded(folder, texts(24, 100, seed=3))
            ]
        )
        by = _LOGITS / logits.std(0)
        model.classifier.weight.mul_(by[:, None])
        model.classifier.bias.copy_(-logits.mean(0) * by)


def make_tokenizer(folder: Path) -> None:
    """Write `spm.model`, which selfcheckgpt's tokenizer reads, and the `tokenizer.json` that transformers makes of it.

    Raises SystemExit when it has more tokens than the model embeds.
    """
    import sentencepiece  # noqa: PLC0415  # an extra
    import transformers  # noqa: PLC0415

    written = io.BytesIO()
    pieces: dict[str, Any] = {}
    for number, (kind, piece) in enumerate(zip(("pad", "bos", "eos", "unk"), _SPECIAL, strict=True)):
        pieces |= {f"{kind}_id": number, f"{kind}_piece": piece}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(first for first, _ in texts(2_000, 40, seed=2)),
        model_writer=written,
        model_type="unigram",
        vocab_size=_VOCABULARY,
        hard_vocab_limit=False,
        minloglevel=2,
        **pieces,
    )
    (folder / "spm.model").write_bytes(written.getvalue())
    details = {
        "tokenizer_class": "DebertaV2Tokenizer",
        "do_lower_case": False,
        "split_by_punct": False,
        "model_max_length": POSITIONS,
    }
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(details), encoding="utf-8")
    library: Any = transformers
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    if len(tokenizer) > 400:
        raise SystemExit(f"the tokenizer has {len(tokenizer)} tokens, but the model embeds 400")
    tokenizer.save_pretrained(folder)
    config.write_text(json.dumps(details), encoding="utf-8")  # what transformers 5 writes there, 4 cannot read


def token_counts(folder: Path, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Return how many tokens each pair has, special ones included."""
    return [len(encoded.ids) for encoded in _encoded(folder, pairs)]


def _encoded(folder: Path, pairs: Sequence[tuple[str, str]]) -> list[Any]:
    from tokenizers import Tokenizer  # noqa: PLC0415  # an extra

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    found: list[Any] = tokenizer.encode_batch(list(pairs))
    return found


def operators(folder: Path, pairs: Sequence[tuple[str, str]], scratch: Path) -> dict[str, float]:
    """Return the seconds that onnxruntime spends in each kind of operator for all pairs: one thread, a pair at a time.

    `weights` are matrix products with the model's weights, `attention` all others, `else` what is left.
    """
    import numpy as np  # noqa: PLC0415  # an extra
    import onnxruntime as ort  # noqa: PLC0415

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(scratch / "operators")
    session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    for encoded in _encoded(folder, pairs):
        arrays = (encoded.ids, encoded.attention_mask, encoded.type_ids)
        names = ("input_ids", "attention_mask", "token_type_ids")
        session.run(None, {name: np.array([row], dtype=np.int64) for name, row in zip(names, arrays, strict=True)})
    return shares(json.loads(Path(session.end_profiling()).read_text("utf-8")))


_PRODUCTS = ("MatMul", "FusedMatMul", "Gemm")


def shares(events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the seconds of each kind of operator in a profile of onnxruntime."""
    found = {"weights": 0.0, "attention": 0.0, "else": 0.0}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            kind = "else"
            if event["args"]["op_name"] in _PRODUCTS:
                # Weights are packed when the model is loaded, and then are no input of the product.
                kind = "weights" if len(event["args"]["input_type_shape"]) == 1 else "attention"
            found[kind] += event["dur"] / 1e6
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Environments:
    """Where the peers are installed, each by itself."""

    folder: Path
    constraint: str | None = None
    """A file of version constraints for pip, for instance one that names a build of torch for CPUs."""

    def python(self, peer: str) -> Path:
        """Return the interpreter of a peer's environment, which is made where it is not there yet. May take minutes.

        Raises SystemExit when it cannot be made.
        """
        place, wanted = self.folder / peer, PEERS[peer]
        interpreter, mark = place / "bin" / "python", place / "installed.txt"
        if mark.exists() and mark.read_text("utf-8").split() == list(wanted):
            return interpreter
        print(f"making an environment for {peer} in {place}", file=sys.stderr, flush=True)
        constrained = [] if self.constraint is None else ["--constraint", self.constraint]
        steps = (
            [sys.executable, "-m", "venv", "--clear", str(place)],
            [str(interpreter), "-m", "pip", "install", "--quiet", *constrained, *wanted],
        )
        for step in steps:
            if subprocess.run(step, check=False, stdout=sys.stderr).returncode:
                raise SystemExit(f"the environment for {peer} could not be made: {' '.join(step)} failed, see above")
        mark.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        return interpreter

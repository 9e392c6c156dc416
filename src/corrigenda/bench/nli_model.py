"""Make an NLI model on disk, for measurements and tests: a real DeBERTa-v2 and a real tokenizer, random weights.

It knows nothing about language. But its work per token is that of a trained model of the same size, and its
result depends on every token, on their order and on the attention mask. Nothing is downloaded. Needs torch,
transformers and tokenizers; the ONNX form is written by torch's own exporter.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

LABELS = ("entailment", "neutral", "contradiction")
_SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
_TEXT = [
    "The lamp in the hall draws five watts and the lamp in the yard draws nine.",
    "The river is long and the town stands on its bank; the bridge was built by a man from the town.",
    "Lead sinks, cork floats, and salt dissolves in water.",
]
_VOCABULARY = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How large a model is. The defaults are tiny, for tests."""

    hidden: int = 32
    layers: int = 2
    heads: int = 4
    positions: int = 64
    """Tokens of one input, the three special tokens included."""
    spread: float = 0.4
    """Standard deviation of the random weights: large ones give results that differ clearly from pair to pair."""


def make(
    folder: Path, *, size: Size | None = None, labels: Sequence[str] = LABELS, graph: str | None = "model.onnx"
) -> Path:
    """Write a whole model directory: for transformers, and with `graph` (a path inside it) also its ONNX form."""
    folder.mkdir(parents=True, exist_ok=True)
    make_tokenizer(folder)
    model = make_model(size or Size(), labels)
    model.save_pretrained(folder)
    if graph:
        export(model, folder / graph)
    return folder


def make_tokenizer(folder: Path, *, pairs: bool = True) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`: byte-level BPE, so that any text has tokens.

    As published files often do, it asks for truncation and padding, which a verifier must not follow. Without
    `pairs` it has no template and puts nothing between premise and hypothesis.
    """
    tokenizer = Tokenizer(BPE(unk_token="[UNK]"))  # noqa: S106  (no password)
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    trainer = BpeTrainer(
        vocab_size=_VOCABULARY, special_tokens=_SPECIAL, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_TEXT, trainer)
    if pairs:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=48)
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {f"{token[1:-1].lower()}_token": token for token in _SPECIAL}
    details = {
        **named,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 10**30,  # what transformers writes for "unknown"
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(details), encoding="utf-8")


def make_model(size: Size, labels: Sequence[str] = LABELS) -> Any:
    """Return a random DeBERTa-v2 with segment embeddings, in evaluation mode; the same one each time."""
    library: Any = transformers  # its annotations leave out what a configuration takes
    config = library.DebertaV2Config(
        vocab_size=_VOCABULARY,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.hidden,
        pooler_hidden_size=size.hidden,
        max_position_embeddings=size.positions,
        type_vocab_size=2,
        relative_attention=True,
        position_buckets=min(256, size.positions // 2),
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        initializer_range=size.spread,
        pad_token_id=0,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return library.DebertaV2ForSequenceClassification(config).eval()


class _Logits(torch.nn.Module):
    """The model with plain arguments and a plain result, as the exporter wants it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        """Return logits of shape (pairs, classes)."""
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).logits


def export(model: Any, path: Path) -> None:
    """Write a model's ONNX form with dynamic axes for batch and sequence."""
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = torch.ones((2, 10), dtype=torch.int64)
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns about every Python number in the model
        torch.onnx.export(
            _Logits(model).eval(),
            (example, example, example),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names} | {"logits": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )

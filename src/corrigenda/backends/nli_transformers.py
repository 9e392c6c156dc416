"""`transformers:DIR-OR-ID`: any sequence-classification NLI model, run in process by torch and transformers.

`transformers:` and `transformers:default` mean the paper's verifier. A model object of the caller's own can be
passed in its place; it is never changed: not its mode, not its device, not its tokenizer's settings.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corrigenda.backends.nli_batched import BatchedEntailer, BatchLimits, Encoded, encodable
from corrigenda.backends.nli_files import import_libraries, locate, max_length
from corrigenda.errors import ConfigError, ModelError
from corrigenda.nli import Labels, label_order

DEFAULT_MODEL = "MoritzLaurer/DeBERTa-v3-large-mnli-fever-anli-ling-wanli"
"""The paper's verifier: 435 million parameters."""

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "spm.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)


class TransformersEntailer(BatchedEntailer):
    """An Entailer on torch, on the CPU or an accelerator."""

    def __init__(
        self,
        spec: str | Path = "default",
        *,
        model: Any = None,
        tokenizer: Any = None,
        labels: Labels | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: int = 32,
        batch_tokens: int | None = None,
        cache_dir: str | Path | None = None,
        offline: bool = False,
        revision: str | None = None,
    ) -> None:
        """Load `spec` (a directory or a hub id), or use `model` and `tokenizer`, objects of transformers.

        `labels`: see `corrigenda.nli.label_order`. `device`: as torch names it; None takes `cuda` where there is
        one. `dtype`: `float32` by default, since several DeBERTa models overflow in half precision; `bfloat16`
        and `float16` are for accelerators. Both are refused beside `model`, which stays as it is.
        `batch_size`, `batch_tokens`: pairs, and tokens with padding, per batch; by default 32, and 384 tokens on the
        CPU or 16,384 on an accelerator. `offline`: use only what is
        cached. Raises MissingExtra, ConfigError and ModelError.
        """
        torch, transformers = import_libraries("the verifier `transformers:`", "transformers", "torch", "transformers")
        self._torch = torch
        self._reading = threading.Lock()  # transformers' tokenizers change their own settings while they are used
        if (model is None) != (tokenizer is None):
            raise ConfigError("model= and tokenizer= go together: give both or neither")
        if model is not None:
            if device is not None or dtype is not None:
                raise ConfigError("device= and dtype= don't go with model=, which is used where and as it is")
            name = str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
            self._model, self._tokenizer = _sharing_copy(model), copy.deepcopy(tokenizer)
        else:
            name = DEFAULT_MODEL if str(spec) in ("", "default") else str(spec)
            folder = locate(
                Path(spec) if isinstance(spec, Path) else name,
                _choose,
                extra="transformers",
                cache_dir=cache_dir,
                offline=offline,
                revision=revision,
            )
            self._model, self._tokenizer = _load(torch, transformers, folder, device=device, dtype=dtype)
        config = self._model.config.to_dict()
        if batch_tokens is None:
            batch_tokens = 384 if self._model.device.type == "cpu" else 16_384
        special = int(self._tokenizer.num_special_tokens_to_add(pair=True))
        if special == 0:
            raise ConfigError(
                f"the tokenizer of {name!r} puts nothing between premise and hypothesis; use the NLI model's own"
            )
        super().__init__(
            name=f"transformers:{name}",
            max_length=max_length(config, getattr(self._tokenizer, "model_max_length", None)),
            special_tokens=special,
            order=label_order(config.get("id2label"), labels),
            limits=BatchLimits(pairs=batch_size, tokens=batch_tokens),
        )
        pad = config.get("pad_token_id")
        self._pad_id = int(pad if pad is not None else self._tokenizer.pad_token_id or 0)
        self._feeds_types = "token_type_ids" in self._tokenizer.model_input_names

    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`, special tokens left out."""
        with self._reading:
            found = self._tokenizer(encodable(text), add_special_tokens=False, truncation=False, verbose=False)
        return len(found["input_ids"])

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        """See BatchedEntailer."""
        premises, hypotheses = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        with self._reading:
            found = self._tokenizer(
                premises,
                hypotheses,
                padding=False,
                truncation=False,
                return_token_type_ids=self._feeds_types,
                return_attention_mask=False,
                verbose=False,
            )
        types = found["token_type_ids"] if self._feeds_types else itertools.repeat(())
        return [Encoded(ids=ids, type_ids=kinds) for ids, kinds in zip(found["input_ids"], types, strict=False)]

    def _logits(self, batch: Sequence[Encoded]) -> list[list[float]]:
        """Run one batch: int tensors of shape (pairs, longest) in, logits of shape (pairs, 3) out."""
        torch = self._torch
        longest = max(len(item.ids) for item in batch)
        device = self._model.device

        def padded(rows: list[Sequence[int]], fill: int) -> Any:
            return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], device=device)

        feed = {
            "input_ids": padded([item.ids for item in batch], self._pad_id),
            "attention_mask": padded([[1] * len(item.ids) for item in batch], 0),
        }
        if self._feeds_types:
            feed["token_type_ids"] = padded([item.type_ids for item in batch], 0)
        with torch.inference_mode():
            rows: list[list[float]] = self._model(**feed).logits.double().tolist()
        return rows

    def _release(self) -> None:
        """Drop the model."""
        self._model = None


def _sharing_copy(model: Any) -> Any:
    """Return the model's modules copied, in evaluation mode, with the very same weights: no memory, no side effect."""
    weights = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in weights}).eval()


def _choose(names: Sequence[str]) -> list[str]:
    """Return the files to fetch: configuration, tokenizer, weights (safetensors where there are any)."""
    if "config.json" not in names:
        raise ModelError("there is no config.json; it names the labels: fetch the whole model")
    tokenizer = [name for name in _TOKENIZER_FILES if name in names]
    if not any(name in names for name in _TOKENIZER_FILES if not name.endswith(("_config.json", "_map.json"))):
        raise ModelError("there is no tokenizer (tokenizer.json, spm.model, vocab.txt, …); fetch the whole model")
    for ending, index in ((".safetensors", "model.safetensors.index.json"), (".bin", "pytorch_model.bin.index.json")):
        stems = ("model", "pytorch_model")
        weights = [name for name in names if name.endswith(ending) and name.startswith(stems)]
        if weights:
            return ["config.json", *tokenizer, *weights, *([index] if index in names else [])]
    raise ModelError("there are no weights (model.safetensors or pytorch_model.bin); fetch the whole model")


def _load(torch: Any, transformers: Any, folder: Path, *, device: str | None, dtype: str | None) -> tuple[Any, Any]:
    """Load a directory without asking the network. Raises ModelError, or ConfigError for device and dtype."""
    kind = getattr(torch, dtype or "float32", None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise ConfigError(f"dtype must be float32, bfloat16 or float16, got {dtype!r}")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, local_files_only=True, dtype=kind
        )
    except Exception as error:  # OSError, ValueError, the weights' and the tokenizer's own classes
        lines = str(error).strip().splitlines() or [""]
        raise ModelError(
            f"the NLI model in {str(folder)!r} cannot be loaded: {type(error).__name__}: {lines[0]}; fetch it again"
        ) from error
    try:
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval(), tokenizer
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from error

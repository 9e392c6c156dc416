"""A transformers causal language model in this process that decodes by contrasting its layers (DoLa).

`chat_dola` puts the ChatModel port on top of this. Everything here is blocking and knows no event loop.

Early exit: what a premature layer would say is read off its hidden state with the model's own head. The paper
writes q_j = softmax(φ(h_j)), and its authors' code and the version once in transformers apply the output embeddings
to the bare hidden state. Here the model's final normalisation stands between the two by default, since models with
pre-normalisation (all of Llama's kind) never apply their output embeddings to anything else; `exit_norm=False` is
the authors' way.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from corrigenda.backends import dola_step
from corrigenda.backends.nli_files import import_libraries, locate
from corrigenda.errors import BackendError, ConfigError, ModelError, RequestRefused
from corrigenda.reasoning import well_formed
from corrigenda.types import Message

WHAT = "decoding by contrasting layers (dola)"
PROMPT_BATCH = 64
"""Tokens of a prompt that are read between two looks at the cancel flag."""
_NORMS = ("norm", "ln_f", "final_layernorm", "final_layer_norm", "norm_f", "final_norm")
"""What architectures call the normalisation after their last block."""
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>")
"""Tokens that end a turn; converted files often name only one of their model's."""
_TOKENIZER = re.compile(r"tokenizer\.json|tokenizer\.model|vocab\.(?:json|txt)|.*sp(?:iece|m)?.*\.model|tekken\.json")
_FILES = re.compile(r"[^/]+\.(?:json|txt|model|jinja|safetensors)|pytorch_model[^/]*\.bin")


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """How the layers are contrasted. The defaults are the paper's."""

    layers: str | tuple[int, ...] = "high"
    """Candidate premature layers: `high` (the paper's for TruthfulQA and other short answers), `low` (for reasoning
    and long answers) or their numbers; see `dola_step.candidate_layers`."""
    alpha: float = 0.1
    """The adaptive plausibility constraint: the least share of the top token's probability, in (0, 1]."""
    penalty: float = 1.2
    """Repetition penalty on the tokens of the reply, at least 1; without it DoLa tends to repeat itself."""
    exit_norm: bool = True
    """Whether a premature layer's hidden state goes through the final normalisation; see the module's docstring."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range. Raises ConfigError."""
        if not 0 < self.alpha <= 1:
            raise ConfigError(f"alpha must be above 0 and at most 1, got {self.alpha!r}")
        if self.penalty < 1:
            raise ConfigError(f"penalty must be at least 1, got {self.penalty!r}")
        if isinstance(self.layers, str) and self.layers not in ("low", "high"):
            raise ConfigError(f"layers must be 'low', 'high' or a list of layer numbers, got {self.layers!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is taken from the contrasted scores."""

    temperature: float = 0.0
    """0: the highest score."""
    top_p: float = 1.0
    seed: int | None = None


class Token(NamedTuple):
    """One token of a reply."""

    id: int
    last: bool
    """Whether it ends the reply (and is no part of its text)."""
    layer: int
    """The premature layer it was contrasted with."""


class DolaRuntime:
    """A loaded model. Blocking; `tokens` must not run twice at a time, the rest may be called from any thread."""

    def __init__(
        self,
        spec: str | Path,
        contrast: Contrast,
        *,
        device: str | None = None,
        dtype: str | None = None,
        cache_dir: str | Path | None = None,
        offline: bool = False,
    ) -> None:
        """Load `spec`: a model's directory, a hub id, or a GGUF file (which is unpacked to `dtype` in memory).

        `device` as torch names it; None takes `cuda` where there is one. `dtype`: `float32` by default, or
        `bfloat16`, `float16`. Raises MissingExtra, ConfigError and ModelError.
        """
        torch, transformers = import_libraries(WHAT, "dola", "torch", "transformers")
        self._torch = torch
        self.contrast = contrast
        self._reading = threading.Lock()  # transformers' tokenizers change their own settings while they are used
        folder, gguf = _place(spec, cache_dir=cache_dir, offline=offline)
        self._model, self._tokenizer = _load(torch, transformers, folder, gguf, device=device, dtype=dtype)
        self._decoder, self._head = self._model.get_decoder(), self._model.get_output_embeddings()
        named = inspect.signature(self._decoder.forward).parameters
        self._cache_name = "cache" if "cache" in named else "past_key_values"  # renamed in transformers 5
        config = self._model.config.get_text_config()
        self._layers = int(config.num_hidden_layers)
        words = self._model.get_input_embeddings().weight
        tied = bool(self._head.weight.data_ptr() == words.data_ptr())
        self.candidates = dola_step.candidate_layers(contrast.layers, self._layers, tied=tied)
        norms = [getattr(self._decoder, name) for name in _NORMS if hasattr(self._decoder, name)]
        if contrast.exit_norm and not norms:
            raise ConfigError(
                f"the final normalisation of {type(self._decoder).__name__} is not known here; use exit_norm=False"
            )
        self._norm: Callable[[Any], Any] = norms[0] if contrast.exit_norm else lambda states: states
        self.limit = int(getattr(config, "max_position_embeddings", None) or 1_000_000)
        self._ends = self._end_tokens()
        self._control = self._control_tokens()
        self._require_plain_head()

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return a conversation as tokens, in the model's own chat template, up to where the reply begins.

        What looks like a control token in a message is spelled apart, so that material cannot end a turn.
        Raises RequestRefused when the template does not take the conversation or nothing would fit behind it.
        """
        turns = [{"role": m.role, "content": self._defused(well_formed(m.content))} for m in messages]
        with self._reading:
            try:
                text = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
                ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            except Exception as exc:  # the template is a program of the model's makers
                raise RequestRefused(f"the model's chat template does not take the request: {exc}", 400) from exc
        if not 0 < len(ids) < self.limit:
            raise RequestRefused(
                f"the request has {len(ids)} tokens, and prompt and reply together may have {self.limit}; "
                "shorten the text",
                400,
            )
        return ids

    def count_tokens(self, text: str) -> int:
        """Return the number of the model's tokens in `text`, special tokens left out."""
        with self._reading:
            found = self._tokenizer(self._defused(well_formed(text)), add_special_tokens=False, verbose=False)
        return len(found["input_ids"])

    def text(self, ids: Sequence[int]) -> str:
        """Return tokens as text, special tokens left out."""
        with self._reading:
            return str(self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def tokens(
        self, prompt: Sequence[int], limit: int, sampling: Sampling, cancelled: Callable[[], bool]
    ) -> Iterator[Token]:
        """Yield the tokens of the reply to `prompt`, at most `limit`; the work happens between them.

        Ends early, without a last token, as soon as `cancelled` says so, which is asked before each token and every
        `PROMPT_BATCH` tokens of the prompt. Raises BackendError when the model fails.
        """
        try:
            yield from self._tokens(prompt, min(limit, self.limit - len(prompt)), sampling, cancelled)
        except (RuntimeError, MemoryError, ValueError, IndexError) as exc:
            first = (str(exc).splitlines() or [""])[0]
            raise BackendError(f"the model failed while it decoded: {type(exc).__name__}: {first}") from exc

    def _tokens(
        self, prompt: Sequence[int], limit: int, sampling: Sampling, cancelled: Callable[[], bool]
    ) -> Iterator[Token]:
        generator = self._torch.Generator(self._model.device)
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed % 2**63)
        cache = states = None
        for start in range(0, len(prompt), PROMPT_BATCH):
            if cancelled():
                return
            states, cache = self._read(prompt[start : start + PROMPT_BATCH], cache)
        made: list[int] = []
        while len(made) < limit and not cancelled():
            step = self._step(states)
            scores = dola_step.penalised(step.scores, made, self.contrast.penalty)
            if sampling.temperature > 0:
                token = dola_step.drawn(
                    scores, temperature=sampling.temperature, top_p=sampling.top_p, generator=generator
                )
            else:
                token = dola_step.most_likely(scores, step.final)
            made.append(token)
            yield Token(token, token in self._ends, self.candidates[step.layer])
            if token in self._ends:
                return
            if len(made) < limit and not cancelled():
                states, cache = self._read([token], cache)

    def _read(self, ids: Sequence[int], cache: Any) -> tuple[Any, Any]:
        """Read tokens on top of what `cache` holds; return the last one's hidden states of all layers, and the cache.

        The states have the shape (layers + 1, hidden); the last row is normalised already.
        """
        with self._torch.inference_mode():
            feed = self._torch.tensor([list(ids)], device=self._model.device)
            more = {self._cache_name: cache, "use_cache": True, "output_hidden_states": True}
            found = self._decoder(input_ids=feed, **more)
            return self._torch.stack([layer[0, -1] for layer in found.hidden_states]), getattr(found, self._cache_name)

    def _step(self, states: Any) -> dola_step.Step:
        with self._torch.inference_mode():
            early = self._norm(states[list(self.candidates)])
            logits = self._head(self._torch.cat([early, states[-1:]]))
            return dola_step.contrast(logits[-1], logits[:-1], self.contrast.alpha)

    def _require_plain_head(self) -> None:
        """Raise ConfigError for models whose logits are more than their output embeddings of the last hidden state.

        Some scale or cap them, some keep other hidden states than are used here; an early exit would then be
        something else than was meant.
        """
        probe = min(self._ends, default=0)
        with self._torch.inference_mode():
            states, _ = self._read([probe], None)
            whole = self._model(self._torch.tensor([[probe]], device=self._model.device)).logits[0, -1].float()
            own = self._head(states[-1:])[0].float()
            if len(states) != self._layers + 1 or not self._torch.allclose(own, whole, rtol=1e-2, atol=1e-2):
                raise ConfigError(
                    f"{type(self._model).__name__} makes its logits in a way of its own, so that its layers cannot be "
                    "contrasted here; use a model of the kind of Llama, Mistral or Qwen2"
                )

    def _end_tokens(self) -> frozenset[int]:
        """Return the tokens that end a reply."""
        named: list[Any] = [self._tokenizer.eos_token_id]
        for config in (self._model.generation_config, self._model.config):
            value = getattr(config, "eos_token_id", None)
            named += value if isinstance(value, list) else [value]
        known = self._tokenizer.get_added_vocab()
        return frozenset({int(i) for i in named if i is not None} | {known[t] for t in _TURN_ENDS if t in known})

    def _control_tokens(self) -> re.Pattern[str] | None:
        """Return a pattern of the texts that the tokenizer reads as control tokens."""
        added: Mapping[int, Any] = self._tokenizer.added_tokens_decoder
        texts = {str(t.content) for t in added.values() if t.special or re.fullmatch(r"<.+>", str(t.content))}
        texts = {t for t in texts | set(self._tokenizer.all_special_tokens) if len(t) > 1}
        return re.compile("|".join(re.escape(t) for t in sorted(texts, key=len, reverse=True))) if texts else None

    def _defused(self, text: str) -> str:
        return text if self._control is None else self._control.sub(lambda m: f"{m[0][0]} {m[0][1:]}", text)


def _place(spec: str | Path, *, cache_dir: str | Path | None, offline: bool) -> tuple[Path, str | None]:
    """Return the directory of a model and, for a GGUF file, its name there. Raises ModelError, MissingExtra."""
    path = Path(spec).expanduser()
    if not str(spec).endswith(".gguf"):
        return locate(spec, _choose, extra="dola", what="chat model", offline=offline, cache_dir=cache_dir), None
    import_libraries(f"{WHAT} on a GGUF file", "dola", "gguf", "accelerate")
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as exc:
        raise ModelError(f"model file {str(path)!r} cannot be read: {exc.strerror or exc}; check the path") from exc
    if head != b"GGUF":
        raise ModelError(f"{str(path)!r} is not a GGUF file: it begins with {head!r}; fetch it again")
    return path.parent, path.name


def _choose(names: Sequence[str]) -> list[str]:
    """Return the files to fetch: configuration, tokenizer, weights (safetensors where there are any)."""
    found = [name for name in names if _FILES.fullmatch(name)]
    weights = [name for name in found if name.endswith(".safetensors")]
    weights = weights or [name for name in found if name.endswith(".bin")]
    for what, there in (
        ("config.json", "config.json" in found),
        ("tokenizer (tokenizer.json, tokenizer.model, vocab.json, …)", any(map(_TOKENIZER.fullmatch, found))),
        ("weight (*.safetensors)", bool(weights)),
    ):
        if not there:  # without a tokenizer's vocabulary transformers would make up an empty one
            raise ModelError(f"there is no {what}; fetch the whole model")
    return [name for name in found if not name.endswith((".safetensors", ".bin"))] + weights


def _load(
    torch: Any, transformers: Any, folder: Path, gguf: str | None, *, device: str | None, dtype: str | None
) -> tuple[Any, Any]:
    """Load a directory or a GGUF file in it, without asking the network. Raises ModelError, ConfigError."""
    kind = getattr(torch, dtype or "float32", None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise ConfigError(f"dtype must be float32, bfloat16 or float16, got {dtype!r}")
    more: dict[str, Any] = {"local_files_only": True} | ({} if gguf is None else {"gguf_file": gguf})
    shown = str(folder if gguf is None else folder / gguf)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **more)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=kind, **more)
    except Exception as exc:  # OSError, ValueError, the weights' and the tokenizer's own classes
        first = (str(exc).strip().splitlines() or [""])[0]
        raise ModelError(
            f"the chat model {shown!r} cannot be loaded: {type(exc).__name__}: {first}; it must be a causal language "
            "model that transformers knows, and whole"
        ) from exc
    if not tokenizer.chat_template:
        raise ModelError(f"the chat model {shown!r} has no chat template; use one that was trained for chat (instruct)")
    try:
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval(), tokenizer
    except (RuntimeError, AssertionError) as exc:
        raise ConfigError(f"device {device!r} cannot be used: {str(exc).splitlines()[0]}") from exc

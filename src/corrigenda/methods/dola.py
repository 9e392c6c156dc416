"""`dola`: the answer is decoded by contrasting the model's layers."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from corrigenda import backends
from corrigenda.errors import ConfigError, InputError
from corrigenda.methods.common import base_request, question_of, reply_examined
from corrigenda.methods.protocol import Kit, NeededInput, Outcome, Task, Traits

if TYPE_CHECKING:
    from corrigenda.backends.chat_dola import DolaChat
    from corrigenda.backends.dola_runtime import Contrast

EMBEDDED = "embedded"


@dataclass(frozen=True, kw_only=True)
class Dola:
    """Chuang et al. 2023, 'DoLa' (ICLR 2024, arXiv:2309.03883): decoding by contrasting layers.

    For each token the final layer's distribution is contrasted with that of the earlier layer, among candidates, that
    differs most from it (Jensen-Shannon divergence): the score is log q_final - log q_premature, for the tokens whose
    final probability is at least `alpha` times the highest; a repetition penalty of 1.2 is applied. The request is
    `base`'s but for the temperature.

    It generates and says nothing of the answer: `flagged` is None, and its final answer is compared with `base`'s. It
    runs on a model of its own, loaded with transformers when it is first needed, since no chat port shows a model's
    layers; its calls and tokens are in the details. An answer that is given cannot be decoded anew: InputError.

    What differs from the paper is in `traits.differs`. Raises ConfigError for an option out of range.
    """

    model: str = EMBEDDED
    """`embedded` (the embedded chat model's GGUF file), the path of a GGUF file or a model's directory, or a hub id."""
    layers: str = "high"
    """Candidate premature layers: `high`, `low`, or their numbers with commas between (`14,16,18`)."""
    alpha: float = 0.1
    """Least share of the top token's probability, above 0 and at most 1."""
    penalty: float = 1.2
    """Repetition penalty, at least 1."""
    exit_norm: bool = True
    """Whether a premature layer is read off through the model's final normalisation; off is the authors' code."""
    sampled: bool = False
    """Draw tokens at the kit's temperature and top-p; off is the paper's greedy decoding."""
    dtype: str = "float32"
    """What the weights are held in: float32, bfloat16 or float16. Half the bytes take half the memory, and less time
    on processors that calculate with them."""

    name: ClassVar[str] = "dola"
    traits: ClassVar[Traits] = Traits(
        paper="Chuang et al. 2023, DoLa: Decoding by Contrasting Layers Improves Factuality in Large Language Models, "
        "ICLR 2024, arXiv:2309.03883.",
        retrieval=False,
        claim_level=False,
        adaptive=False,
        corrects=False,
        calls="1, to a model of its own",
        differs=(
            "A premature layer's hidden state goes through the final normalisation before the output embeddings; the "
            "authors' code and the one once in transformers leave it out (exit_norm=off).",
            "The Jensen-Shannon divergence is the paper's; both codes compute it with the distributions in each "
            "Kullback-Leibler term exchanged.",
            "The repetition penalty counts the tokens of the reply; the codes count the prompt's too, among them, in a "
            "chat, the token that ends a turn.",
            "The upper bucket is the default, as for TruthfulQA; the paper chooses the bucket on validation data.",
            "Where all plausible tokens score alike the final layer's choice is taken.",
            "The model is a chat model, asked as `base` is; the paper gives LLaMA a prompt with examples.",
            "The embedded model's weights were rounded to 4 bits; transformers unpacks them.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ("question",)

    def __post_init__(self) -> None:
        """Check the options."""
        numbers = self.layers.replace(" ", "").split(",")
        if self.layers not in ("low", "high") and not all(number.isdecimal() for number in numbers):
            raise ConfigError(f"dola: layers must be low, high or numbers with commas between, got {self.layers!r}")
        if not 0 < self.alpha <= 1:
            raise ConfigError(f"dola: alpha must be above 0 and at most 1, got {self.alpha!r}")
        if not 1 <= self.penalty < float("inf"):
            raise ConfigError(f"dola: penalty must be at least 1, got {self.penalty!r}")
        if not self.model.strip():
            raise ConfigError("dola: model is empty; name a model, or embedded")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Decode an answer.

        Raises InputError for a task that has an answer or no question, ConfigError and ModelError when the model
        cannot be loaded, and BackendError when it fails.
        """
        if task.answer is not None:
            raise InputError("the method 'dola' decodes answers of its own and cannot examine one that is given")
        request = base_request(question_of(task, self.name), kit)
        if not self.sampled:
            request = replace(request, temperature=0.0)
        chat = await asyncio.to_thread(self._model.load)
        begun = time.perf_counter()
        completion = await chat.complete(request)
        answer = reply_examined(completion, kit)
        call = {
            "stage": request.stage,
            "seconds": time.perf_counter() - begun,
            "prompt_tokens": completion.usage.prompt_tokens,
            "completion_tokens": completion.usage.completion_tokens,
        }
        return Outcome(
            answer=answer.text,
            final_answer=answer.text,
            details={"model": chat.name, "candidates": list(chat.candidates), "calls": [call]},
            warnings=answer.warnings,
        )

    async def prepare(self) -> None:
        """Load the model now, so that no answer pays for it. Raises MissingExtra, ConfigError and ModelError."""
        await asyncio.to_thread(self._model.load)

    async def aclose(self) -> None:
        """Drop the model, if it was loaded; it is loaded again when it is needed again."""
        chat = self._model.drop()
        if chat is not None:
            await chat.aclose()

    @cached_property
    def _model(self) -> _Model:
        """Where this object keeps its model; not an option, and no part of what makes two objects equal."""
        return _Model(self)


class _Model:
    """The model of one `Dola` object: loaded once, by whichever thread comes first."""

    def __init__(self, method: Dola) -> None:
        self._method = method
        self._lock = threading.Lock()
        self._chat: DolaChat | None = None

    def load(self) -> DolaChat:
        """Return the model, loaded now if it is not yet. Raises MissingExtra, ConfigError, ModelError."""
        with self._lock:
            if self._chat is None:
                backends.require("chat dola")
                from corrigenda.backends.dola_runtime import Contrast  # noqa: PLC0415  # only where it is used

                method = self._method
                layers = method.layers.replace(" ", "")
                named = layers in ("low", "high")
                contrast = Contrast(
                    layers=layers if named else tuple(int(number) for number in layers.split(",")),
                    alpha=method.alpha,
                    penalty=method.penalty,
                    exit_norm=method.exit_norm,
                )
                self._chat = _loaded(method, contrast)
            return self._chat

    def drop(self) -> DolaChat | None:
        """Give the model up and return it, to be closed."""
        with self._lock:
            chat, self._chat = self._chat, None
            return chat


def _loaded(method: Dola, contrast: Contrast) -> DolaChat:
    spec: Any = method.model
    if spec == EMBEDDED:
        from corrigenda import models  # noqa: PLC0415  # brings an HTTP client, which no other method needs

        spec = models.path(models.DEFAULT)
    loaded = backends.load("chat dola", spec, name=f"dola:{method.model}", contrast=contrast, dtype=method.dtype)
    return cast("DolaChat", loaded)

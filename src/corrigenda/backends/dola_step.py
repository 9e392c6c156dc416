"""One step of DoLa, decoding by contrasting layers (Chuang et al. 2023, arXiv:2309.03883): the arithmetic alone.

Everything here works on torch tensors that are given, through their own methods, and imports no library. Layers
are numbered as in the paper: 0 is the output of the word embeddings, i that of the i-th block, N (the number of
blocks) the final, mature layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from corrigenda.errors import ConfigError

BUCKET = 20
"""The paper cuts models of more than 40 layers into buckets of 20 (three for 60 layers, four for 80)."""
NEAR = 1e-6
"""Contrasts that differ by no more than this are equal: what 32-bit log-probabilities are exact to."""


def candidate_layers(wanted: str | Sequence[int], layers: int, *, tied: bool) -> tuple[int, ...]:
    """Return the layers that may be contrasted with the final one, in order.

    `wanted` is `low`, `high` or a list of layer numbers from 0 to `layers` - 1. As in the paper, `low` is the first
    of two halves and `high` the second; with more than 40 layers, the first or last 20; and only even layers are
    candidates. `tied`: the model's output embeddings are its input embeddings. Then layer 0 predicts little but the
    token just read, so that candidates begin at layer 2. A model that is too shallow for that gives its only
    layer that is left. Raises ConfigError for another name, an empty list or a number out of range.
    """
    if not isinstance(wanted, str):
        found = tuple(sorted(set(wanted)))
        if not found or any(isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < layers for i in found):
            raise ConfigError(
                f"layers must be 'low', 'high' or numbers from 0 to {layers - 1} (this model has {layers} layers, and "
                f"the last is what the others are contrasted with), got {list(wanted)!r}"
            )
        return found
    first = 2 if tied else 0
    size = BUCKET if layers > 2 * BUCKET else layers // 2
    if wanted == "low":
        return tuple(range(first, size, 2)) or (min(first, layers - 1),)
    if wanted == "high":
        start = max(first, layers - size if layers > 2 * BUCKET else size)
        return tuple(range(start + start % 2, layers, 2)) or (layers - 1,)
    raise ConfigError(f"layers must be 'low', 'high' or a list of layer numbers, got {wanted!r}")


def jensen_shannon(one: Any, other: Any) -> Any:
    """Return the Jensen-Shannon divergence over the last axis, in nats, from 0 to ln 2.

    Both hold log-probabilities (finite; shapes that broadcast).
    """
    middle = one.logaddexp(other) - math.log(2)
    from_one = (one.exp() * (one - middle)).sum(-1)
    from_other = (other.exp() * (other - middle)).sum(-1)
    return (from_one + from_other) / 2


class Step(NamedTuple):
    """What the contrast says about the next token."""

    layer: int
    """Position, among the candidates, of the premature layer that was chosen."""
    divergence: float
    """Its Jensen-Shannon divergence from the final layer, in nats."""
    scores: Any
    """Per token, log q_final - log q_premature; -inf where the token is not plausible. Shape (vocabulary,)."""
    final: Any
    """Per token, log q_final. Shape (vocabulary,)."""


def contrast(final_logits: Any, premature_logits: Any, alpha: float) -> Step:
    """Contrast the final layer with the candidate that differs most from it.

    `final_logits` has the shape (vocabulary,), `premature_logits` (candidates, vocabulary). A token is plausible
    when its final probability is at least `alpha` (in (0, 1]) times that of the most probable token. Of candidates
    that differ equally, the first is taken.
    """
    final = final_logits.float().log_softmax(-1)
    early = premature_logits.float().log_softmax(-1)
    divergences = jensen_shannon(final, early)
    layer = int(divergences.argmax())
    implausible = final < final.max() + math.log(alpha)
    scores = (final - early[layer]).masked_fill(implausible, -math.inf)
    return Step(layer, float(divergences[layer]), scores, final)


def penalised(scores: Any, made: Sequence[int], penalty: float) -> Any:
    """Return the scores with those of the tokens in `made` lowered (Keskar et al. 2019, arXiv:1909.05858).

    A positive score is divided by `penalty` (at least 1), a negative one multiplied by it.
    """
    if penalty == 1 or not made:
        return scores
    tokens = scores.new_tensor(sorted(set(made))).long()
    old = scores[tokens]
    new = (old / penalty).where(old > 0, old * penalty)
    return scores.index_put((tokens,), new)


def most_likely(scores: Any, final: Any) -> int:
    """Return the token with the highest score; among equal ones (within `NEAR`) the one the final layer prefers.

    So layers that say the same, whose contrast is 0 everywhere, leave the final layer's choice as it is.
    """
    behind = scores < scores.max() - NEAR
    return int(final.masked_fill(behind, -math.inf).argmax())


def drawn(scores: Any, *, temperature: float, top_p: float, generator: Any) -> int:
    """Return a token drawn from softmax(scores / temperature), within the nucleus of mass `top_p`.

    `temperature` is above 0, `top_p` in (0, 1]; `generator` is a torch.Generator on the scores' device.
    """
    probabilities = (scores / temperature).softmax(-1)
    ordered, tokens = probabilities.sort(descending=True, stable=True)
    outside = ordered.cumsum(-1) - ordered >= top_p  # the mass before a token; so the first always stays
    kept = ordered.masked_fill(outside, 0.0)
    return int(tokens[kept.multinomial(1, generator=generator)])

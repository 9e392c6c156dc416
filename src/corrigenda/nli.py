"""What every verifier needs and no library should decide: label order, probabilities, batches (pure).

Logits are turned into probabilities here, once, for all backends: the order of the three labels differs from
model to model, half-precision models overflow, and both have silently turned verdicts round elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from corrigenda.errors import ConfigError
from corrigenda.types import Entailment, PairFailure

Labels = Mapping[int, str] | Mapping[str, str] | Sequence[str]
"""Names of the three classes by index: `{0: "contradiction", …}` (keys int or str) or in the logits' order."""

_NAMES = {
    "entailment": "entailment",
    "entails": "entailment",
    "entailed": "entailment",
    "entail": "entailment",
    "neutral": "neutral",
    "contradiction": "contradiction",
    "contradictory": "contradiction",
    "contradicts": "contradiction",
    "contradicted": "contradiction",
    "contradict": "contradiction",
}
"""Spellings found in published configurations. `not_entailment` is none of them: it means neutral OR contradiction."""

_REMEDY = (
    "use a three-way NLI model, or say which index is which with labels=, for instance "
    'labels=["entailment", "neutral", "contradiction"] in the order of the model\'s outputs'
)


def label_order(id2label: Labels | None, override: Labels | None = None) -> tuple[int, int, int]:
    """Return the indices of (entailment, neutral, contradiction) in the model's output.

    `id2label` is what the model's configuration says; `override`, when given, is used in its place. Case and
    surrounding white space don't matter. Raises ConfigError, which shows the labels and the remedy, unless there
    are exactly three that mean the three classes: two-class models have no contradiction, and `LABEL_0` could
    be any of them.
    """
    labels = _by_index(id2label if override is None else override)
    where = "the model's id2label" if override is None else "labels="
    if len(labels) != 3:
        raise ConfigError(
            f"{where} has {len(labels)} classes {labels!r}, but entailment, neutral and contradiction are needed; "
            + _REMEDY
        )
    if sorted(labels) != [0, 1, 2]:
        raise ConfigError(f"{where} must number its classes 0, 1 and 2, got {labels!r}; {_REMEDY}")
    places: dict[str, int] = {}
    for index, label in sorted(labels.items()):
        name = _NAMES.get(label.strip().lower())
        if name is None or name in places:
            raise ConfigError(f"{where} is ambiguous: {label!r} in {labels!r} (index {index}); {_REMEDY}")
        places[name] = index
    return places["entailment"], places["neutral"], places["contradiction"]


def _by_index(labels: Labels | None) -> dict[int, str]:
    """Return the labels keyed by int. Raises ConfigError where a key is no index or a label no text."""
    if labels is None or isinstance(labels, str):
        items: list[tuple[object, object]] = []
    elif isinstance(labels, Mapping):
        items = list(labels.items())
    else:
        items = list(enumerate(labels))
    found: dict[int, str] = {}
    for key, label in items:
        index = int(key) if isinstance(key, int) or (isinstance(key, str) and key.strip().isdecimal()) else None
        if index is None or not isinstance(label, str):
            raise ConfigError(f"NLI labels must map an index to a name, got {key!r}: {label!r}; {_REMEDY}")
        found[index] = label
    return found


def probabilities(logits: Sequence[float], order: tuple[int, int, int]) -> Entailment | PairFailure:
    """Return the softmax of three logits, whose classes stand at the indices `order`.

    Stable for any finite values: the maximum is taken off first. `-inf` is a probability of 0 (a class that was
    ruled out) as long as another is finite. NaN, `+inf` (an overflow, so that the others mean nothing either),
    three times `-inf` and any number of values but three are a PairFailure, never a made-up distribution.
    """
    values = [float(value) for value in logits]
    if len(values) != 3:
        return PairFailure(reason=f"the verifier gave {len(values)} logits where 3 are needed: {values!r}")
    top = max(values)
    if any(math.isnan(value) for value in values) or math.isinf(top):
        return PairFailure(
            reason=f"the verifier's logits are not usable: {values!r} (half precision overflows in some models; "
            "try float32)"
        )
    weights = [math.exp(value - top) for value in values]
    total = math.fsum(weights)
    entailment, neutral, contradiction = (weights[index] / total for index in order)
    return Entailment(entailment=entailment, neutral=neutral, contradiction=contradiction)


def plan_batches(
    lengths: Sequence[int], *, max_pairs: int, max_tokens: int, equal_only: bool = False
) -> list[list[int]]:
    """Group pairs into batches and return their indices; every index is in exactly one batch.

    Pairs of like length go together, since a batch is padded to its longest: sorted by length, longest first (so
    that memory runs out at once or never). A batch has at most `max_pairs` pairs and at most `max_tokens` tokens
    with padding, but always one pair. With `equal_only` no batch needs any padding. Equal lengths keep their order.
    Raises ValueError for limits below 1.
    """
    if max_pairs < 1 or max_tokens < 1:
        raise ValueError(f"batch limits must be at least 1, got max_pairs={max_pairs!r}, max_tokens={max_tokens!r}")
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches:
            batch = batches[-1]
            longest = lengths[batch[0]]
            full = len(batch) >= max_pairs or (len(batch) + 1) * longest > max_tokens
            if not full and not (equal_only and lengths[index] != longest):
                batch.append(index)
                continue
        batches.append([index])
    return batches


def padded_share(lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> float:
    """Return the share of padding among all the tokens that the batches hold, in [0, 1); 0.0 when there are none."""
    total = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    return 1 - sum(lengths[i] for batch in batches for i in batch) / total if total else 0.0

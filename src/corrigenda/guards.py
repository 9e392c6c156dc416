"""Checks of what objects of the caller's own hand to the pipeline, and how their failures are put into words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from corrigenda.errors import BackendError
from corrigenda.types import AtomicClaim, Decision, Sentence


def told(exc: BaseException) -> str:
    """Return one line about a failure: our own errors speak for themselves, others need their kind named."""
    return str(exc) if isinstance(exc, BackendError) else f"{type(exc).__name__}: {exc}"


def require_fitting(claims: Sequence[AtomicClaim], sentences: Sequence[Sentence], length: int) -> None:
    """Raise ValueError unless the sentences lie in order in a text of that many code points, and the claims in them."""
    end = 0
    for sentence in sentences:
        if not end <= sentence.span.start < sentence.span.end <= length:
            raise ValueError(f"sentence {sentence.index} has the span {tuple(sentence.span)}, which is out of place")
        end = sentence.span.end
    by_index = {s.index: s for s in sentences}
    if len(by_index) != len(sentences):
        raise ValueError("two sentences have the same index")
    for claim in claims:
        home = by_index.get(claim.sentence)
        if home is None:
            raise ValueError(f"a claim names sentence {claim.sentence}, which there is not")
        if claim.span is not None and not (claim.span.start < claim.span.end and home.span.contains(claim.span)):
            raise ValueError(f"a claim has the span {tuple(claim.span)}, outside its sentence {home.index}")


def require_finite(decision: Decision) -> None:
    """Raise ValueError when a number of the decision is NaN or infinite, which strict JSON cannot hold."""
    for name in ("k", "mu", "sigma", "tau", "tau_raw", "floor", "ceiling", "threshold", "alpha"):
        value = getattr(decision, name)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"the decision's {name} is {value!r}")

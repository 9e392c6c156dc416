"""The record of one item under one method: one JSONL line with everything that was measured.

Every number of every report is computed from records, never from memory of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from corrigenda.evals.items import Kind
from corrigenda.methods.protocol import Outcome
from corrigenda.types import Verdict

RECORD_SCHEMA = "1.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of the chat model."""

    stage: str
    seconds: float
    """How long it took when it was made."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reused: bool = False
    """True when the same request had been made before in this run (another method, same seed), and its reply and
    its seconds were taken from there."""
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PairCalls:
    """What the verifier did for one item under one method."""

    pairs: int = 0
    """Pairs scored."""
    seconds: float = 0.0
    """Time it took, with the time of reused pairs as it was when they were scored."""
    reused: int = 0
    """How many of the pairs had been scored before in this run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What the judge says of one answer."""

    correct: bool | None
    """True: correct; False: not correct; None: undecided (an abstention, a judge that failed)."""
    reason: str
    abstained: bool = False
    """The answer says that it does not know, or refuses."""
    failed: bool = False
    """The judge gave no judgement: its model failed, its verifier could not score a pair, its reply was unreadable."""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One item under one method. A failed item is a record with its reason and stays in the denominator."""

    dataset: str
    item: str
    """The item's id."""
    item_sha256: str | None = None
    """Checksum of all that the item held (`evals.fingerprints.of_item`), so that no other one is taken for it."""
    kind: Kind
    group: str
    method: str
    repeat: int
    seed: int | None
    status: Literal["ok", "failed"]
    reason: str | None = None
    """Why it failed."""
    label: Verdict | None = None
    """The item's gold label."""
    sentence_labels: tuple[Verdict | None, ...] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    question: str | None = None
    outcome: Outcome | None = None
    """None when the method failed."""
    latency_s: float | None = None
    """Wall time of the method, in which a reused call or pair takes as long as it took when it was made; calls that
    run side by side overlap (see `evals.clock`)."""
    calls: tuple[Call, ...] = ()
    pairs: PairCalls = field(default_factory=PairCalls)
    before: Judgement | None = None
    """The judge on the answer, before anything was changed; None where there was nothing to judge by."""
    after: Judgement | None = None
    """The judge on the final answer."""
    judge: str | None = None
    """The judge's name."""
    models: Mapping[str, str | None] = field(default_factory=dict)
    """`chat` and `verifier`, by name."""
    schema: str = RECORD_SCHEMA

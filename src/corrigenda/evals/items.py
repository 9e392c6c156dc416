"""What an evaluation runs over: items with gold labels, and the data set that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from corrigenda.types import Reference, Verdict

Kind = Literal["question", "answer", "claim"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One row of a data set.

    `question`: a question with accepted (`correct`) and `incorrect` answers; the method generates an answer.
    `answer`: an answer that is given, with a question or contexts, and perhaps gold labels.
    `claim`: one claim (in `answer`) with the evidence it is checked against (`contexts`) and its gold `label`.
    """

    id: str
    kind: Kind
    question: str | None = None
    answer: str | None = None
    contexts: tuple[Reference, ...] | None = None
    correct: tuple[str, ...] = ()
    incorrect: tuple[str, ...] = ()
    label: Verdict | None = None
    """Gold label of the claim, or of the answer as a whole: supported, contradicted (it holds a falsehood) or
    unverified (not enough information; stays out of every two-way measure)."""
    sentence_labels: tuple[Verdict | None, ...] | None = None
    """Gold labels per sentence of a given answer, in order; None for a sentence without one."""
    group: str = ""
    """Items that share a group (the same question, the same text) are resampled together."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Category, topic and the like, for breakdowns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """Items, where they come from, and what was left out on the way."""

    name: str
    items: tuple[Item, ...]
    source: str
    """The file or address that was read."""
    sha256: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows read, kept, and dropped by reason (`duplicate`, `incomplete`, …)."""
    notes: tuple[str, ...] = ()
    """What a reader of results must know about the data (licence, revision, made up by us, …)."""

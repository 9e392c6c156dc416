"""The records of a batch: a row of the input, what was made of it, and what that cost. All frozen, all picklable.

As JSON text (`pack`, `unpack_row`, `unpack_done`) they travel between processes and machines.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corrigenda.report import build
from corrigenda.types import Reference

FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of the input. With an answer it is checked; without one the question is asked."""

    number: int
    """Its place in the whole input, from 0."""
    id: str
    """Unique in the input."""
    question: str | None = None
    answer: str | None = None
    contexts: tuple[Reference, ...] | None = None
    """What is checked against; None: a reference is recalled from the question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What a stage's calls of chat models cost, as they were really made; or what the verifier's pairs did."""

    calls: int = 0
    """Calls that were made, failed ones too; under the name `pairs`, pairs that were scored."""
    prompt_tokens: int = 0
    """As the backend reported them."""
    completion_tokens: int = 0
    unreported: int = 0
    """Calls whose tokens are not known."""
    reused: int = 0
    """Calls or pairs that were answered from the cache, or by the same one of another row."""

    def __add__(self, other: Spent) -> Spent:
        """Return both together."""
        return Spent(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(Spent)})


PAIRS = "pairs"
"""The name under which `Done.spent` counts the verifier's pairs; the other names are stages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What was made of a row: a report, or the reason why there is none."""

    number: int
    id: str
    report: Mapping[str, Any] | None = None
    """The report as `report.to_dict` makes it."""
    error: str | None = None
    """Why there is no report, in words that hold no secret."""
    kind: str | None = None
    """The kind of that error: the name of one of `corrigenda.errors`, or of a foreign exception."""
    seconds: float = 0.0
    """From the row's beginning to its end."""
    spent: Mapping[str, Spent] = field(default_factory=dict)
    """Stage → what its calls cost; `PAIRS` → what the verifier did."""

    @property
    def status(self) -> str:
        """The report's status; `failed` where there is none."""
        return FAILED if self.report is None else str(self.report["status"])

    @property
    def failed(self) -> bool:
        """Whether `--retry-failed` would do it again: there is no report, or its status is `failed`."""
        return self.status == FAILED

    @property
    def calls(self) -> int:
        """The calls of chat models that were made for it."""
        return sum(spent.calls for name, spent in self.spent.items() if name != PAIRS)

    @property
    def tokens(self) -> int:
        """The tokens that were reported for these calls, of prompts and completions together."""
        return sum(s.prompt_tokens + s.completion_tokens for name, s in self.spent.items() if name != PAIRS)


def pack(record: Row | Done) -> str:
    """Return a record as JSON text, for another process."""
    return json.dumps(dataclasses.asdict(record), allow_nan=False)


def unpack_row(text: str) -> Row:
    """Return the row that `pack` made a text of. Raises one of `report.BROKEN` for anything else."""
    row: Row = build(Row, json.loads(text))
    return row


def unpack_done(text: str) -> Done:
    """Return the outcome that `pack` made a text of. Raises one of `report.BROKEN` for anything else."""
    data = json.loads(text)
    spent = {name: Spent(**counts) for name, counts in data.pop("spent").items()}
    return Done(**data, spent=spent)

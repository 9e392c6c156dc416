"""The records that travel between the stages: all frozen, all keyword-only.

A *claim* is one atomic statement of an answer; a *reference* is the passage it is checked against; in natural language
inference the reference is the *premise* and the claim the *hypothesis*; a *policy* decides one *verdict* per claim.

Spans are half-open `[start, end)`, counted in Unicode code points (Python string indices) of the text as received:
never bytes, never UTF-16 units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

SCHEMA_VERSION = "1.2"
"""Version of the report's JSON form; the minor number grows when a field is added, the major when one changes."""


class Span(NamedTuple):
    """A half-open range `[start, end)` of code points."""

    start: int
    end: int

    def text_of(self, text: str) -> str:
        """Return the part of `text` that this span covers."""
        return text[self.start : self.end]

    def contains(self, other: Span) -> bool:
        """Return whether `other` lies wholly inside this span."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: Span) -> bool:
        """Return whether the two spans share at least one code point."""
        return self.start < other.end and other.start < self.end


class Verdict(StrEnum):
    """What was decided for one claim. The five states are never merged (spec §2)."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNVERIFIED = "unverified"
    NOT_CHECKABLE = "not_checkable"
    FAILED = "failed"


class Status(StrEnum):
    """What was decided for the whole answer.

    `verified`: at least one claim, and every checkable claim is supported. `corrected`: every contradicted
    claim was repaired or removed. `contradicted`: a contradicted claim still stands in the final answer.
    `unverified`: nothing is contradicted, but not everything is supported (or there was nothing to check).
    `abstained`: the answer is a refusal or says that it does not know. `failed`: the check itself broke.
    """

    VERIFIED = "verified"
    CORRECTED = "corrected"
    CONTRADICTED = "contradicted"
    UNVERIFIED = "unverified"
    ABSTAINED = "abstained"
    FAILED = "failed"


class SentenceKind(StrEnum):
    """Where in the answer's layout a sentence stands."""

    PROSE = "prose"
    HEADING = "heading"
    LIST_ITEM = "list_item"
    TABLE_ROW = "table_row"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One sentence unit of an answer (a sentence of prose, a list item, a heading or a table row).

    `text == span.text_of(answer)`, without surrounding white space, list markers, heading marks or table
    pipes at the ends. Code blocks never give sentences. Sentences are in order and do not overlap.
    """

    index: int
    span: Span
    text: str
    kind: SentenceKind = SentenceKind.PROSE


@dataclass(frozen=True, kw_only=True, slots=True)
class AtomicClaim:
    """One claim as the decompose stage gives it, before it is scored.

    `text` is the hypothesis (it may be reworded, so that it stands alone). `span` is where it stands in the
    answer: inside its sentence's span, or null when it could not be anchored more closely than nothing.
    A claim that is not `checkable` (opinion, question, filler) is reported and never scored; `reason` says why.
    """

    text: str
    span: Span | None
    sentence: int
    checkable: bool = True
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """What the verifier reads: does `premise` (a window of a reference) entail `hypothesis` (a claim)."""

    premise: str
    hypothesis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entailment:
    """The three probabilities of natural language inference, each in [0, 1], summing to 1 within 1e-5.

    Raises ValueError when one is not finite, out of range, or the sum is off.
    """

    entailment: float
    neutral: float
    contradiction: float

    def __post_init__(self) -> None:
        """Refuse what is not a distribution, so that a NaN can never travel further."""
        values = (self.entailment, self.neutral, self.contradiction)
        if not all(math.isfinite(v) and -1e-9 <= v <= 1 + 1e-9 for v in values):
            raise ValueError(f"NLI probabilities must be finite and in [0, 1], got {values!r}")
        if abs(sum(values) - 1) > 1e-5:
            raise ValueError(f"NLI probabilities must sum to 1, got {values!r} (sum {sum(values)!r})")

    @property
    def label(self) -> Literal["entailment", "neutral", "contradiction"]:
        """The most probable class; where the top two are equal (within 1e-9), `neutral`."""
        if self.entailment > max(self.neutral, self.contradiction) + 1e-9:
            return "entailment"
        if self.contradiction > max(self.neutral, self.entailment) + 1e-9:
            return "contradiction"
        return "neutral"

    @property
    def signed(self) -> float:
        """The signed score of spec §2: +P(entailment), 0 or -P(contradiction), by label. In [-1, 1]."""
        if self.label == "entailment":
            return self.entailment
        return -self.contradiction if self.label == "contradiction" else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFailure:
    """A pair that the verifier could not score. A failure is a value: the other pairs go on."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One turn of a chat request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRequest:
    """One call to a chat model. A setting that is None is left to the backend's own default.

    `stage` names who asks (`generate`, `recall`, `entail`, …; all are in docs/scripted.md): usage is counted
    under it and scripted rules can match on it. `max_tokens` caps the completion, in the model's tokens.
    `json_schema` asks for a reply in that form where the backend can enforce it; the caller must parse the
    reply as untrusted text all the same. `extra` holds more fields of the body for an OpenAI-compatible server, sent as
    they are and over the ones above, `messages` too; other backends take no notice of it.
    """

    stage: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    json_schema: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenUsage:
    """Tokens of one call as the backend reported them; None where it did not (0 is never invented)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


FinishReason = Literal["stop", "length", "content_filter", "refusal", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """A finished reply. `text` is what a person would see: reasoning fields and `<think>` blocks are removed."""

    text: str
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    refusal: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """A piece of a streamed reply. The last piece carries the whole `completion`; the texts add up to its text."""

    text: str = ""
    completion: Completion | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A window of a reference that was scored against a claim."""

    reference: int
    """Index into the report's `references`."""
    span: Span
    """Where the window stands in that reference's text."""
    text: str
    scores: Entailment


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A passage that claims are checked against."""

    text: str
    source: str
    """`recall` (by the model), `context` or a file's name (the user gave it), `retrieved: TITLE` (by a retriever)."""
    truncated: bool = False
    """True when the model stopped at its token cap, so that the passage may end in mid-sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A passage that a retriever found."""

    id: str
    """The passage's own id in its collection."""
    text: str
    title: str | None = None
    score: float = 0.0
    """How well it fits the query by the retriever's own measure; higher is better, comparable within one query."""

    @property
    def reference(self) -> Reference:
        """The passage as a reference that claims can be checked against."""
        return Reference(text=self.text, source=f"retrieved: {self.title or self.id}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievedPassage:
    """A passage that was retrieved for a claim, as the report names it."""

    id: str
    title: str | None
    score: float
    """The retriever's measure of how well it fits the query; comparable within one query."""
    reference: int
    """Index into the report's `references`, where its text is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrieval:
    """What retrieval did for one claim: what was found, and the claim's verdict before and after."""

    claim: int
    """Index into the report's `claims`."""
    query: str
    passages: tuple[RetrievedPassage, ...]
    """What was found, best first; empty when nothing was."""
    signed: float | None
    """Signed score of the claim against these passages alone, in [-1, 1]; None where nothing was scored."""
    decides: bool
    """Whether one of the passages decides the claim now."""
    before: Verdict
    before_signed: float | None
    after: Verdict
    after_signed: float | None
    reason: str | None = None
    """Why nothing was scored, when that is so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """How a claim was decided when its sentence was released: over the scores up to and with this sentence."""

    verdict: Verdict
    tau: float | None
    """The threshold then; None where nothing was scored."""
    at_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One claim of the report, with everything that led to its verdict."""

    text: str
    span: Span | None
    sentence: int
    verdict: Verdict
    reason: str | None = None
    scores: Entailment | None = None
    signed: float | None = None
    evidence: Evidence | None = None
    """The window that decided; None when nothing was scored."""
    counter_evidence: Evidence | None = None
    """The most confident window that says the opposite of `evidence`, when there is one."""
    released: Released | None = None
    """How it was decided when its sentence was released early; None where the whole answer was decided first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """How the verdicts were reached. Statistics are over the finite scores; None when there are none."""

    policy: str
    k: float
    mu: float | None
    sigma: float | None
    tau: float | None
    """The threshold that the scores were compared with, after any clipping."""
    tau_raw: float | None = None
    """µ + kσ before clipping."""
    floor: float | None = None
    ceiling: float | None = None
    threshold: float | None = None
    """The fixed threshold of `fixed`, or the calibrated one of `conformal`."""
    alpha: float | None = None
    provisional: bool = False
    """True while the policy's constants were not calibrated on the user's own data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One proposed change of the answer: `before` at `span` becomes `after`, if it was accepted."""

    span: Span
    before: str
    after: str | None
    """The rewrite as it was (or would have been) inserted; None when there was none to insert."""
    claims: tuple[int, ...]
    """Indices of the contradicted claims that it is about."""
    kind: Literal["rewrite", "hedge", "remove"]
    """`rewrite` and `remove` repair the claims when accepted; a `hedge` only marks them."""
    accepted: bool
    reason: str
    """Why it was accepted or not, for a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """When a stage ran, in seconds since the report began. A stage may appear more than once."""

    stage: str
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StageUsage:
    """What a stage cost: calls, and the tokens that were reported. None where any call's count is unknown."""

    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Everything about one checked answer. `corrigenda.report` turns it into JSON and back."""

    question: str | None
    answer: str
    final_answer: str
    status: Status
    reason: str | None = None
    """Why the status is what it is, when that needs saying (a failure, an abstention)."""
    claims: tuple[Claim, ...] = ()
    references: tuple[Reference, ...] = ()
    """What claims were checked against; passages retrieved for single claims stand behind the others."""
    decision: Decision | None = None
    retrieval: tuple[Retrieval, ...] = ()
    """One entry per claim that passages were looked up for, in the order of the claims."""
    edits: tuple[Edit, ...] = ()
    timings: tuple[Timing, ...] = ()
    usage: Mapping[str, StageUsage] = field(default_factory=dict)
    models: Mapping[str, str | None] = field(default_factory=dict)
    """`chat`, `verifier`, `decomposer`: what each was, by name."""
    warnings: tuple[str, ...] = ()
    schema: str = SCHEMA_VERSION

    def with_verdict(self, verdict: Verdict) -> tuple[Claim, ...]:
        """Return the claims that have this verdict, in order."""
        return tuple(c for c in self.claims if c.verdict is verdict)

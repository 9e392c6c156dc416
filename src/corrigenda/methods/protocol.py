"""What a system under comparison is: one `Method`, the task that it gets, the tools that it shares, what it returns.

Every method gets the same chat model object, the same verifier object and the same seed (`Kit`), and every call
that it makes is counted there. A method never reads gold labels: a `Task` holds none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from corrigenda.policies import Policy
from corrigenda.ports import ChatModel, Entailer, Retriever
from corrigenda.prompts import Prompts
from corrigenda.types import Reference, Report, Span, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One thing to work on. Needs a question or an answer.

    Without an answer the method generates one. With an answer it examines that one. With contexts it checks
    against them; without, against whatever the method draws on (recall, samples, retrieved passages).
    """

    question: str | None = None
    answer: str | None = None
    contexts: tuple[Reference, ...] | None = None
    whole: bool = False
    """True when the answer is one claim already (FEVER): it is verified as it is, not decomposed."""
    correct: bool = True
    """False when only the verdicts matter: nothing is rewritten, and the final answer is the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A method's verdict on one claim (or on one sentence, where that is its unit)."""

    text: str
    verdict: Verdict
    score: float | None = None
    """How strongly the method holds the claim to be hallucinated: higher is more; None when it gives no score."""
    signed: float | None = None
    """The signed score of spec §2, in [-1, 1], where the method has one."""
    span: Span | None = None
    """Where the claim stands in the answer, in code points."""
    sentence: int | None = None
    """Index of the claim's sentence in the answer."""
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a method made of a task."""

    answer: str
    """The answer that was examined: the task's, or the one generated."""
    final_answer: str
    verdicts: tuple[Judged, ...] = ()
    flagged: bool | None = None
    """Whether the method says that the answer holds a hallucination; None when it does not say (`base`)."""
    score: float | None = None
    """How strongly it says so, for the whole answer: higher is more; None when it gives no score."""
    report: Report | None = None
    """The pipeline's report, where the method runs the pipeline: its scores can be decided anew."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else a reader may want to see (samples, passages, rounds), as plain JSON values."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What kind of system a method is; the table in `docs/methods.md` is made from these."""

    paper: str
    """Where the method comes from: authors, year, title, and an identifier."""
    retrieval: bool
    """It needs an external source of passages."""
    claim_level: bool
    """It decides claim by claim (or sentence by sentence), not for the answer as a whole."""
    adaptive: bool
    """Its threshold adapts to the answer."""
    corrects: bool
    """It may return another answer than the first one."""
    calls: str
    """Calls of the chat model per answer as a formula over n (claims), s (sentences), f (flagged sentences), N, …"""
    differs: tuple[str, ...] = ()
    """Every place where it is known to differ from its paper, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """What all methods of a run share. The runner has wrapped the models, so that each call is counted and timed."""

    chat: ChatModel | None
    entailer: Entailer
    prompts: Prompts
    retriever: Retriever | None = None
    language: str = "en"
    seed: int | None = None
    temperature: float = 0.7
    top_p: float = 0.9
    max_answer_tokens: int = 256
    max_reference_tokens: int = 96
    references: int = 1
    decomposer: str = "auto"
    policy_options: Mapping[str, float] = field(default_factory=dict)
    """Options for `policies.make_policy` (k, floor, ceiling, threshold, alpha), from the settings or the verifier."""
    policy: str = "bounded"
    """The settings' policy, a name of `policies.POLICIES`."""
    fitted: Policy | None = None
    """The policy of a policy file, where the settings name one: it decides wherever the settings' policy would."""


NeededInput = Literal["question", "answer", "contexts", "chat", "retriever"]


class Method(Protocol):
    """A system under comparison. Objects are frozen and hold only the method's own options."""

    name: ClassVar[str]
    traits: ClassVar[Traits]
    needs: ClassVar[tuple[NeededInput, ...]]
    """What a task or the kit must have, beyond a question or an answer; the runner says so before it starts."""

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Do the task.

        Raises BackendError when a model fails and nothing can be said, InputError for a task that the method
        cannot take (the message says what it needs).
        """
        ...

"""`self-consistency`: of several answers, the one that the others agree with most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from corrigenda.errors import ConfigError
from corrigenda.methods.common import concluded, draw, examined, language_of, on_answer, question_of, usable
from corrigenda.methods.protocol import Kit, NeededInput, Outcome, Task, Traits
from corrigenda.policies import TOLERANCE
from corrigenda.stages.entail import Scored, WindowCache, score_texts
from corrigenda.text import hypothesis_text
from corrigenda.types import Entailment, Reference, Verdict

Table = Sequence[Sequence[Entailment | None]]
"""`table[i][j]`: premise answer i, hypothesis answer j; None on the diagonal and where the verifier failed."""


def agreement(table: Table) -> list[float | None]:
    """Return each answer's mean P(entailment) with the others, in both directions, in [0, 1].

    What the verifier could not score is left out; None for an answer of which nothing was scored.
    """
    means: list[float | None] = []
    for i in range(len(table)):
        both = [scores for j in range(len(table)) if j != i for scores in (table[i][j], table[j][i])]
        found = [scores.entailment for scores in both if scores is not None]
        means.append(math.fsum(found) / len(found) if found else None)
    return means


def most_consistent(means: Sequence[float | None]) -> int:
    """Return the index of the highest mean, the first of those that are equal within 1e-9; 0 when there is none."""
    best = max((m for m in means if m is not None), default=None)
    if best is None:
        return 0
    return next(i for i, m in enumerate(means) if m is not None and m >= best - TOLERANCE)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfConsistency:
    """Wang et al. 2023, 'Self-Consistency' (ICLR, arXiv:2203.11171), made to fit free text.

    N answers are sampled and the most consistent one is returned. Wang et al. take the majority of final answers
    that can be compared as strings; free text has no majority. Chen et al. 2023, 'Universal Self-Consistency'
    (arXiv:2311.17311), let the model itself choose. Here the verifier measures it: an answer's consistency is its
    mean P(entailment) with each other answer, as premise and as hypothesis, each answer read whole. The first answer
    wins a tie, so that nothing is replaced for nothing.

    The first answer is the one that all methods of a run share (or the one that was given). The papers choose and
    flag nothing. Here an answer is flagged when another one is chosen and the verifier finds that the two
    contradict each other: a choice among answers that say the same is no objection to the first. It is
    `supported` when the others entail it (a mean of at least 0.5) and it is kept or replaced by one that does not
    contradict it, otherwise `unverified`. Its score is 1 minus its consistency.

    What differs from the papers is in `traits.differs`. Raises ConfigError when an option is out of range.
    """

    n: int = 5
    """How many answers there are, the first included; from 2 to 100. Wang et al. draw 40, Chen et al. 8."""
    temperature: float | None = None
    """Temperature of the further answers, from 0 to 2; None: the same as the first one's."""

    name: ClassVar[str] = "self-consistency"
    traits: ClassVar[Traits] = Traits(
        paper="Wang et al. 2023, Self-Consistency Improves Chain of Thought Reasoning in Language Models, ICLR, "
        "arXiv:2203.11171; Chen et al. 2023, Universal Self-Consistency for Large Language Model Generation, "
        "arXiv:2311.17311.",
        retrieval=False,
        claim_level=False,
        adaptive=False,
        corrects=True,
        calls="N",
        differs=(
            "Consistency is mean mutual entailment by the verifier: Wang et al. count equal final answers, Chen et al. "
            "ask the model which answer is the most consistent.",
            "5 answers by default, without chain of thought.",
            "Flags and scores are ours: the papers only choose.",
            "An answer that fails is left out.",
            "A premise that is longer than the verifier reads is windowed; an answer that is too long to be a "
            "hypothesis takes no part as one.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ("question", "chat")

    def __post_init__(self) -> None:
        """Check the options."""
        if not 2 <= self.n <= 100:
            raise ConfigError(f"self-consistency: n must be from 2 to 100, got {self.n!r}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ConfigError(f"self-consistency: temperature must be from 0 to 2, got {self.temperature!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Choose among the first answer and its further samples.

        Contexts are not looked at (a warning says so). Raises InputError without a question or a chat model, and
        BackendError when the first answer fails.
        """
        question = question_of(task, self.name)
        first = await examined(task, kit, self.name)
        if first.blank:
            return Outcome(answer=first.text, final_answer=first.text, warnings=first.warnings)
        temperature = kit.temperature if self.temperature is None else self.temperature
        drawn = await draw(question, kit, self.name, count=self.n - 1, temperature=temperature, top_p=kit.top_p)
        warnings = [*first.warnings, *drawn.warnings]
        if usable(task.contexts):
            warnings.append("self-consistency compares answers with one another; the contexts were not looked at")
        answers = [first.text, *drawn.texts]
        scored = await _scores(answers, kit)
        table = [[cell.scores for cell in row] for row in scored]
        means = agreement(table)
        chosen = most_consistent(means)
        verdict, reason = _verdict(table, means, chosen, scored)
        if first.nothing is not None:
            verdict, reason = Verdict.NOT_CHECKABLE, first.nothing
        score = None if means[0] is None else 1 - means[0]
        return concluded(
            first.text,
            answers[chosen] if task.correct else first.text,
            (on_answer(first.text, verdict, score=score, reason=reason),),
            details={"answers": answers, "consistency": means, "chosen": chosen},
            warnings=warnings,
        )


def _verdict(
    table: Table, means: Sequence[float | None], chosen: int, scored: Sequence[Sequence[Scored]]
) -> tuple[Verdict, str]:
    """Return the verdict on the first answer, and why."""
    first = means[0]
    if len(table) == 1:
        return Verdict.UNVERIFIED, "there is no other answer to compare with"
    if first is None:
        failures = [cell.failure for row in scored for cell in row if cell.failure is not None]
        return Verdict.FAILED, failures[0] if failures else "nothing was scored"
    both = (table[0][chosen], table[chosen][0])
    if any(s is not None and s.label == "contradiction" for s in both):
        return Verdict.CONTRADICTED, f"the most consistent of {len(table)} answers contradicts it"
    if first >= 0.5:
        return Verdict.SUPPORTED, f"the other answers entail it, {first:.3f} on average"
    return Verdict.UNVERIFIED, "the other answers do not entail it, nor does the most consistent one contradict it"


async def _scores(answers: Sequence[str], kit: Kit) -> list[list[Scored]]:
    """Return what the verifier says for each premise (rows) of each hypothesis (columns)."""
    cache = WindowCache()
    rows = []
    for i, premise in enumerate(answers):
        others = [j for j in range(len(answers)) if j != i]
        found = await score_texts(
            [hypothesis_text(answers[j]) for j in others],
            [Reference(text=premise, source="sample")],
            kit.entailer,
            language=language_of(kit, premise),
            cache=cache,
        )
        row = [Scored()] * len(answers)
        for j, scores in zip(others, found, strict=True):
            row[j] = scores
        rows.append(row)
    return rows

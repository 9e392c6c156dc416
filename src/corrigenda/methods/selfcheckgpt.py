"""`selfcheckgpt`: sentences that the model's own further samples contradict (NLI variant)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from corrigenda.errors import ConfigError
from corrigenda.methods.common import concluded, draw, examined, language_of, question_of, unexamined, usable
from corrigenda.methods.protocol import Judged, Kit, NeededInput, Outcome, Task, Traits
from corrigenda.replies import is_abstention, is_refusal
from corrigenda.sentences import split_sentences
from corrigenda.stages.entail import Scored, WindowCache, score_texts
from corrigenda.text import hypothesis_text
from corrigenda.types import Entailment, Reference, Sentence, Verdict
from corrigenda.windows import visible

NO_SAMPLE = "no sample to compare with"
"""The `reason` of a sentence when no sample says anything."""


def contradiction(scores: Entailment) -> float:
    """Return P(contradiction) of a softmax over the logits of entailment and contradiction alone (equation 9).

    From probabilities: P(contradiction) / (P(entailment) + P(contradiction)), in [0, 1]. Where both are 0 the
    logits are not known, and neither is the more likely: 0.5.
    """
    total = scores.entailment + scores.contradiction
    return scores.contradiction / total if total > 0 else 0.5


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfCheckGPT:
    """Manakul, Liusie & Gales 2023, 'SelfCheckGPT' (EMNLP, arXiv:2303.08896), NLI variant (section 5.4).

    N further answers are sampled. For each sentence r_i of the answer and each sample S^n the verifier reads the
    sample as the premise and the sentence as the hypothesis; P(contradict | r_i, S^n) is a softmax over the logits
    of entailment and contradiction alone. A sentence's score is the mean over the samples, the answer's score the
    mean over its sentences. Nothing is corrected.

    The order of the pair is the paper's. The class `SelfCheckNLI` that its authors released passes (sentence,
    sample), the other way round: the model that comes with it was fine-tuned on pairs in that order, so that the
    sentence is its hypothesis all the same. With any other NLI model that class puts the text under test in the
    premise's place. Here every verifier gets a `Pair` with a named premise and hypothesis.

    What differs from the paper is in `traits.differs`. Raises ConfigError when an option is out of range.
    """

    n: int = 5
    """How many samples are drawn; from 1 to 100. The paper draws 20."""
    temperature: float = 1.0
    """Temperature of the samples, from 0 to 2; 1 in the paper."""
    threshold: float = 0.5
    """A sentence with a higher score is flagged; from 0 to 1. Ours: the paper ranks and sets none."""

    name: ClassVar[str] = "selfcheckgpt"
    traits: ClassVar[Traits] = Traits(
        paper="Manakul, Liusie & Gales 2023, SelfCheckGPT: Zero-Resource Black-Box Hallucination Detection for "
        "Generative Large Language Models, EMNLP, arXiv:2303.08896 (NLI variant).",
        retrieval=False,
        claim_level=True,
        adaptive=False,
        corrects=False,
        calls="1 + N",
        differs=(
            "5 samples by default; the paper draws 20.",
            "The verifier is the run's; the paper fine-tunes DeBERTa-v3-large on MNLI.",
            "The answer is the one that all methods of a run share, sampled; the paper decodes it by beam search at "
            "temperature 0.",
            "The threshold of 0.5, above which a sentence is flagged, is ours; the paper ranks sentences and passages.",
            "A sample that is longer than the verifier reads is windowed, and the most confident window that is not "
            "neutral counts; the released class cuts it off.",
            "A sample that fails, refuses or says that it does not know is left out of the mean.",
            "An answer that refuses or says that it does not know is not checkable, and no samples are drawn.",
            "Sentences are found by our splitter, the paper's by spaCy.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ("question", "chat")

    def __post_init__(self) -> None:
        """Check the options."""
        if not 1 <= self.n <= 100:
            raise ConfigError(f"selfcheckgpt: n must be from 1 to 100, got {self.n!r}")
        if not 0 <= self.temperature <= 2:
            raise ConfigError(f"selfcheckgpt: temperature must be from 0 to 2, got {self.temperature!r}")
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"selfcheckgpt: threshold must be from 0 to 1, got {self.threshold!r}")

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Score every sentence against the samples.

        Contexts are not looked at (a warning says so). Raises InputError without a question or a chat model, and
        BackendError when the answer or all of the samples fail.
        """
        question = question_of(task, self.name)
        answer = await examined(task, kit, self.name)
        nothing = unexamined(answer)
        if nothing is not None:
            return nothing
        drawn = await draw(question, kit, self.name, count=self.n, temperature=self.temperature, top_p=1.0)
        if len(drawn.failures) == self.n:
            raise drawn.failures[0]
        warnings = [*answer.warnings, *drawn.warnings]
        if usable(task.contexts):
            warnings.append("selfcheckgpt compares with samples alone; the contexts were not looked at")
        samples = [t for t in drawn.texts if not (is_refusal(t, kit.prompts) or is_abstention(t, kit.prompts))]
        if len(samples) < len(drawn.texts):
            left_out = len(drawn.texts) - len(samples)
            warnings.append(f"{left_out} of {self.n} samples say that they do not know, or refuse; they were left out")
        language = language_of(kit, answer.text)
        units = _whole(answer.text) if task.whole else split_sentences(answer.text, language)
        table = await _scores([unit.text if task.whole else hypothesis_text(unit.text) for unit in units], samples, kit)
        verdicts = [self._judged(unit, row, whole=task.whole) for unit, row in zip(units, table, strict=True)]
        return concluded(
            answer.text,
            answer.text,
            verdicts,
            score=mean([v.score for v in verdicts if v.score is not None]),
            details={
                "samples": samples,
                "contradiction": [[None if s.scores is None else contradiction(s.scores) for s in r] for r in table],
            },
            warnings=warnings,
        )

    def _judged(self, unit: Sentence, row: Sequence[Scored], *, whole: bool) -> Judged:
        """Return the verdict on a sentence from what the verifier says of it for each sample."""
        failures = [s.failure for s in row if s.failure is not None]
        score = mean([contradiction(s.scores) for s in row if s.scores is not None])
        reason = None
        if score is None:
            verdict, reason = Verdict.UNVERIFIED, NO_SAMPLE
            if failures:
                verdict, reason = Verdict.FAILED, failures[0]
        else:
            verdict = Verdict.CONTRADICTED if score > self.threshold else Verdict.SUPPORTED
            if failures:
                reason = f"{len(failures)} of {len(row)} samples could not be scored: {failures[0]}"
        return Judged(
            text=unit.text,
            verdict=verdict,
            score=score,
            span=unit.span,
            sentence=None if whole else unit.index,
            reason=reason,
        )


def _whole(answer: str) -> tuple[Sentence, ...]:
    span = visible(answer)
    return (Sentence(index=0, span=span, text=span.text_of(answer)),)


async def _scores(hypotheses: Sequence[str], samples: Sequence[str], kit: Kit) -> list[list[Scored]]:
    """Return, for each hypothesis, what the verifier says of it for each sample, in order."""
    cache = WindowCache()
    columns = [
        await score_texts(
            hypotheses,
            [Reference(text=sample, source="sample")],
            kit.entailer,
            language=language_of(kit, sample),
            cache=cache,
        )
        for sample in samples
    ]
    return [[column[i] for column in columns] for i in range(len(hypotheses))]

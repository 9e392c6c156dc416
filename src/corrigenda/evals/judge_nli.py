"""The judge `nli`: an NLI model compares each sentence of an answer with each accepted and each incorrect answer.

The premise is the question followed by a sentence of the answer, the hypothesis a reference answer: does saying this,
in reply to that question, say the reference? An answer of one sentence is also tried the other way round (the question
followed by the reference, and the answer), since a short answer may say less than the reference does; the two
distributions are averaged. What is decided from the probabilities is in `decide`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from corrigenda.evals.judge import abstention, failure, judgement, require_lists, stating
from corrigenda.evals.records import Judgement
from corrigenda.ports import Entailer
from corrigenda.sentences import split_sentences
from corrigenda.text import detect_language
from corrigenda.types import Entailment, Pair, PairFailure

MATCH = 0.5
"""From this P(entailment) on a sentence matches a reference, and from this P(contradiction) on it contradicts it."""


MARGIN = 0.1
"""A sentence that matches an accepted answer better than an incorrect one by this much is taken to say the former:
the two lists speak of the same thing, so that a weak verifier often sees some likeness to both."""


class Relation(NamedTuple):
    """How one sentence of an answer relates to one reference."""

    reference: str
    entailment: float
    contradiction: float


class NliJudge:
    """A judge over a verifier. The verifier is shared with whoever made it, and not closed from here."""

    def __init__(self, entailer: Entailer) -> None:
        """Ask `entailer`."""
        self._entailer = entailer

    @property
    def name(self) -> str:
        """`nli:VERIFIER`."""
        return f"nli:{self._entailer.name}"

    async def judge(
        self, question: str | None, answer: str, correct: Sequence[str], incorrect: Sequence[str]
    ) -> Judgement:
        """Compare by meaning. See `corrigenda.evals.judge.Judge`."""
        require_lists(correct, incorrect)
        if (found := abstention(answer)) is not None:
            return found
        sentences = [s.text for s in split_sentences(answer, detect_language(answer))] or [answer.strip()]
        accepted, rejected = stating(correct), stating(incorrect)
        scores = await self._scores(question, sentences, [*accepted, *rejected])
        failures = [score.reason for score in scores.values() if isinstance(score, PairFailure)]
        return decide(
            [[_relation(r, scores[s, r]) for r in accepted] for s in sentences],
            [[_relation(r, scores[s, r]) for r in rejected] for s in sentences],
            failures[0] if failures else None,
        )

    async def _scores(
        self, question: str | None, sentences: Sequence[str], references: Sequence[str]
    ) -> Mapping[tuple[str, str], Entailment | PairFailure]:
        """Return what the verifier says of each sentence and each reference."""
        wanted = [(sentence, reference) for sentence in sentences for reference in references]
        pairs = [Pair(premise=_said(question, s), hypothesis=r) for s, r in wanted]
        if len(sentences) == 1:
            pairs += [Pair(premise=_said(question, r), hypothesis=s) for s, r in wanted]
        results = await self._entailer.entail(pairs) if pairs else []
        forward, backward = results[: len(wanted)], results[len(wanted) :]
        if backward:
            forward = [_mean(one, two) for one, two in zip(forward, backward, strict=True)]
        return dict(zip(wanted, forward, strict=True))


def decide(
    accepted: Sequence[Sequence[Relation]], rejected: Sequence[Sequence[Relation]], broke: str | None = None
) -> Judgement:
    """Decide from how the sentences (outer) relate to the accepted and the incorrect answers (inner). Pure.

    In this order: not correct, when a sentence matches an incorrect answer, and no accepted answer better by MARGIN;
    undecided, when a pair could not be scored (`broke` says why); correct, when a sentence matches an accepted
    answer; not correct, when the accepted answers contradict the answer (the mean of their P(contradiction), each by
    the sentence that says most about it, reaches MATCH); else undecided.
    """
    hit = _best([relation for row in accepted for relation in row])
    worst = [_best(row) for row in rejected]
    meant = [one for one, row in zip(worst, accepted, strict=True) if _best(row).entailment < one.entailment + MARGIN]
    wrong = _best(meant or worst)
    against = _contradiction(accepted)
    details = {
        "accepted": hit.entailment,
        "accepted_answer": hit.reference,
        "rejected": wrong.entailment,
        "rejected_answer": wrong.reference,
        "contradiction": against,
    }
    if meant and wrong.entailment >= MATCH:
        return judgement(False, f"matches the incorrect answer {wrong.reference!r}", **details)
    if broke is not None:
        return failure(f"not every reference answer could be compared: {broke}", **details)
    if hit.entailment >= MATCH:
        return judgement(True, f"matches the accepted answer {hit.reference!r} and no incorrect one", **details)
    if against is not None and against >= MATCH:
        return judgement(False, "is contradicted by the accepted answers", **details)
    return judgement(None, "matches neither an accepted nor an incorrect answer", **details)


def _said(question: str | None, text: str) -> str:
    return text if question is None else f"{question} {text}"


def _relation(reference: str, score: Entailment | PairFailure) -> Relation:
    if isinstance(score, PairFailure):
        return Relation(reference, 0.0, 0.0)
    return Relation(reference, score.entailment, score.contradiction)


def _mean(one: Entailment | PairFailure, two: Entailment | PairFailure) -> Entailment | PairFailure:
    """Return the mean of both ways; a failure when the first way failed, the first alone when the second did."""
    if isinstance(one, PairFailure) or isinstance(two, PairFailure):
        return one
    return Entailment(
        entailment=(one.entailment + two.entailment) / 2,
        neutral=(one.neutral + two.neutral) / 2,
        contradiction=(one.contradiction + two.contradiction) / 2,
    )


def _best(relations: Sequence[Relation]) -> Relation:
    """Return the strongest match; one of nothing where there is no reference."""
    return max(relations, key=lambda relation: relation.entailment, default=Relation("", 0.0, 0.0))


def _contradiction(rows: Sequence[Sequence[Relation]]) -> float | None:
    """Return the mean P(contradiction) of the references, each by the sentence that is least neutral to it."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    if not columns:
        return None
    decisive = [max(column, key=lambda r: max(r.entailment, r.contradiction)) for column in columns]
    return math.fsum(relation.contradiction for relation in decisive) / len(decisive)

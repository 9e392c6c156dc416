"""Stage 4, entail: (reference, claim) pairs → P(entailment), P(neutral), P(contradiction) for each claim.

The reference is the premise and the claim the hypothesis, never the other way round. A reference that is longer
than the verifier can read is windowed by sentences; a claim is never cut. All the pairs of a report go to the
verifier in ONE call, so that it can batch them, and a pair that occurs twice is scored once.

How the windows of one claim become one result: the most confident window that is not neutral decides, whether
it entails or contradicts; only when all are neutral does the most confident neutral one. One window that
supports a claim is enough, however many others don't mention it. Equal confidence: entailment before
contradiction (a rewrite needs the stronger ground), then the earlier reference, then the earlier window. So
neither the order in which windows are scored nor any number of extra neutral windows changes the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corrigenda.errors import CorrigendaError
from corrigenda.ports import Entailer
from corrigenda.sentences import SentenceStream
from corrigenda.types import AtomicClaim, Entailment, Evidence, Pair, PairFailure, Reference, Span
from corrigenda.windows import is_blank, iter_windows, visible

NO_REFERENCE = "no reference"
"""The `reason` of a claim that had nothing to be checked against."""
EMPTY_CLAIM = "the claim is empty"
"""The `reason` of a claim without a visible character."""

_RESERVES = (1, 2, 4, 7)
"""Eighths of the verifier's window that may be kept free for the claim. Windows are cut for a step rather than
for each claim's exact length: claims then share their windows (and a shared prefix is read once), and a claim's
windows depend on nothing but that claim and the reference."""
_PIECE = 16_384
"""Code points of a reference whose sentences are found before other tasks get a turn."""
_HEAD = 16
"""A reference's first `_HEAD` characters per token of the verifier's window tell whether it can fit at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """What the verifier says about one hypothesis. `scores` and `failure` are never both set.

    With neither, nothing was sent, and `reason` says why (`no reference`, an empty or uncheckable claim).
    """

    scores: Entailment | None = None
    """Probabilities of the window that decided."""
    evidence: Evidence | None = None
    """The window that decided; set whenever `scores` is."""
    counter_evidence: Evidence | None = None
    """The most confident window with the opposite label; only beside an entailment or a contradiction."""
    failure: str | None = None
    """Why the check broke (verdict `failed`)."""
    reason: str | None = None
    """Why nothing was scored, or, beside `scores`, that some windows could not be."""

    @property
    def signed(self) -> float | None:
        """The signed score of spec §2 in [-1, 1]; None where nothing was scored."""
        return None if self.scores is None else self.scores.signed


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredClaim(Scored):
    """A claim with what the verifier says about it."""

    claim: AtomicClaim


class _Window(NamedTuple):
    """A window of reference number `reference`."""

    reference: int
    span: Span
    text: str


_Cut = tuple[_Window, ...]


class WindowCache:
    """The windows of a report's references, each cut once and shared by all the claims that read it.

    Give one object as `cache` to all the calls of `score_claims` and `score_texts` that make a report: they then
    neither find the references' sentences nor count their tokens anew. It serves one verifier, and any
    references. While it cuts it gives other tasks a turn often, so that a deadline can stop it at any time; what
    was not finished then is not kept.
    """

    def __init__(self) -> None:
        """Begin with nothing cut."""
        self._sizes: dict[str, int] = {}
        self._sentences: dict[tuple[str, str], list[Span]] = {}
        self._cuts: dict[tuple[int, str, str, int | None], _Cut] = {}

    def size(self, reference: str, entailer: Entailer) -> int:
        """Return a reference's tokens, or, where it is far too long for the verifier, those of its beginning."""
        if reference not in self._sizes:
            head = reference[: _HEAD * entailer.max_tokens]
            tokens = entailer.count_tokens(head)
            if len(head) < len(reference) and tokens <= 2 * entailer.max_tokens:
                tokens = entailer.count_tokens(reference)
            self._sizes[reference] = tokens
        return self._sizes[reference]

    def whole(self, index: int, reference: str) -> _Cut:
        """Return the single window of reference number `index` that holds all of it."""
        key = index, reference, "", None
        if key not in self._cuts:
            span = visible(reference)
            self._cuts[key] = (_Window(index, span, span.text_of(reference)),)
        return self._cuts[key]

    async def cut(self, index: int, reference: str, entailer: Entailer, language: str, budget: int) -> _Cut:
        """Return the windows of reference number `index` that have at most `budget` tokens."""
        key = index, reference, language, budget
        if key not in self._cuts:
            found: list[_Window] = []
            sentences = await self._spans(reference, language)
            for span in iter_windows(reference, entailer.count_tokens, budget, sentences):
                found.append(_Window(index, span, span.text_of(reference)))
                await asyncio.sleep(0)
            self._cuts[key] = tuple(found)
        return self._cuts[key]

    async def _spans(self, reference: str, language: str) -> list[Span]:
        """Return the sentences of a reference."""
        key = reference, language
        if key not in self._sentences:
            stream = SentenceStream(language)
            spans: list[Span] = []
            for start in range(0, len(reference), _PIECE):
                spans += [sentence.span for sentence in stream.feed(reference[start : start + _PIECE])]
                await asyncio.sleep(0)
            self._sentences[key] = spans + [sentence.span for sentence in stream.finish()]
        return self._sentences[key]


async def score_claims(
    claims: Sequence[AtomicClaim],
    references: Sequence[Reference] | None,
    entailer: Entailer,
    *,
    language: str,
    cache: WindowCache | None = None,
) -> list[ScoredClaim]:
    """Score every claim against all the references; one result per claim, in order. See the module's docstring.

    Claims that are not checkable are passed on with their own reason and never sent. `language` (`en`, `it`, …)
    is that of the references and is used to find their sentences; `cache` keeps their windows from one call to the
    next. Errors of the verifier become `failure` texts; nothing is raised for them.
    """
    checkable = [claim.text for claim in claims if claim.checkable]
    scored = iter(await score_texts(checkable, references, entailer, language=language, cache=cache))
    results = []
    for claim in claims:
        found = next(scored) if claim.checkable else Scored(reason=claim.reason or "not checkable")
        results.append(
            ScoredClaim(
                claim=claim,
                scores=found.scores,
                evidence=found.evidence,
                counter_evidence=found.counter_evidence,
                failure=found.failure,
                reason=found.reason,
            )
        )
    return results


async def score_texts(
    hypotheses: Sequence[str],
    references: Sequence[Reference] | None,
    entailer: Entailer,
    *,
    language: str,
    cache: WindowCache | None = None,
) -> list[Scored]:
    """Score every hypothesis as `score_claims` does; used for claims and to check a rewrite before it is accepted.

    `references` may be None, empty or all blank: then nothing is sent and each `reason` is `no reference`.
    """
    usable = {i: ref.text for i, ref in enumerate(references or ()) if not is_blank(ref.text)}
    texts = list(dict.fromkeys(text for text in hypotheses if not is_blank(text))) if usable else []
    outcomes: Mapping[str, Scored] = {}
    if texts:
        try:
            outcomes = await _score_distinct(texts, usable, entailer, language, cache or WindowCache())
        except CorrigendaError as error:
            outcomes = dict.fromkeys(texts, Scored(failure=str(error) or type(error).__name__))
    blank = Scored(reason=EMPTY_CLAIM if usable else NO_REFERENCE)
    return [outcomes.get(text, blank) for text in hypotheses]


class _Outcome(NamedTuple):
    """What one window gave."""

    window: _Window
    scores: Entailment


_Plan = Mapping[str, Sequence[_Cut]]
"""The cuts that each hypothesis is scored against, one for each reference."""


async def _score_distinct(
    texts: Sequence[str], references: Mapping[int, str], entailer: Entailer, language: str, cache: WindowCache
) -> dict[str, Scored]:
    """Score distinct hypotheses with one call; see `score_texts`. Raises CorrigendaError when it fails."""
    plan, failures = await _plan(texts, references, entailer, language, cache)
    pairs = await _pairs(texts, plan)
    results = await entailer.entail(pairs) if pairs else []
    if len(results) != len(pairs):
        reason = f"the verifier {entailer.name!r} gave {len(results)} results for {len(pairs)} pairs"
        return {text: Scored(failure=reason) for text in texts}
    by_pair = dict(zip(pairs, results, strict=True))
    scored: dict[str, Scored] = {}
    for text in texts:
        found = [(w, by_pair[Pair(premise=w.text, hypothesis=text)]) for cut in plan[text] for w in cut]
        scored[text] = _combine(found, failures[text])
        await asyncio.sleep(0)
    return scored


async def _plan(
    texts: Sequence[str], references: Mapping[int, str], entailer: Entailer, language: str, cache: WindowCache
) -> tuple[_Plan, dict[str, list[str]]]:
    """Return, for each hypothesis, the windows it is scored against and why any reference was left out.

    Other tasks get a turn after each step: a long reference or many claims take a while, and a deadline may pass.
    """
    plan: dict[str, list[_Cut]] = {text: [] for text in texts}
    failures: dict[str, list[str]] = {text: [] for text in texts}
    limit = entailer.max_tokens
    lengths: dict[str, int] = {}
    for text in texts:
        lengths[text] = entailer.count_tokens(text)
        await asyncio.sleep(0)
    for index, reference in references.items():
        whole = cache.size(reference, entailer)
        for text in texts:
            await asyncio.sleep(0)
            if lengths[text] + whole <= limit:
                plan[text].append(cache.whole(index, reference))
            elif (budget := _budget(lengths[text], limit)) is None:
                failures[text].append(_too_long(lengths[text], limit))
            else:
                plan[text].append(await cache.cut(index, reference, entailer, language, budget))
    return plan, failures


async def _pairs(texts: Sequence[str], plan: _Plan) -> list[Pair]:
    """Return the distinct pairs of a plan, those with the same premise together, hypotheses in order within it.

    A verifier that keeps the last prefix so reads each premise once.
    """
    readers: dict[int, tuple[_Cut, list[int]]] = {}
    for position, text in enumerate(texts):
        for cut in plan[text]:
            readers.setdefault(id(cut), (cut, []))[1].append(position)
    windows: dict[tuple[int, Span], tuple[str, list[int]]] = {}
    for cut, positions in readers.values():
        for window in cut:
            windows.setdefault((window.reference, window.span), (window.text, []))[1].extend(positions)
    pairs: dict[Pair, None] = {}
    for _, (premise, positions) in sorted(windows.items()):
        pairs.update((Pair(premise=premise, hypothesis=texts[p]), None) for p in sorted(positions))
        await asyncio.sleep(0)
    return list(pairs)


def _budget(claim_tokens: int, limit: int) -> int | None:
    """Return how many tokens a window may have beside a claim; None when too little room is left for any."""
    reserves = (limit * eighths // 8 for eighths in _RESERVES)
    return next((limit - reserve for reserve in reserves if claim_tokens <= reserve < limit), None)


def _too_long(claim_tokens: int, limit: int) -> str:
    """Say that a claim does not fit, with both numbers."""
    return (
        f"the claim has {claim_tokens} tokens, but the verifier reads {limit} tokens of reference and claim together "
        f"and a claim is never cut: at most {limit * _RESERVES[-1] // 8} leave room for a reference"
    )


def _combine(results: Iterable[tuple[_Window, Entailment | PairFailure]], left_out: Sequence[str]) -> Scored:
    """Make one result of a claim's windows; see the module's docstring for the rule."""
    outcomes: list[_Outcome] = []
    failures = list(left_out)
    for window, result in results:
        if isinstance(result, Entailment):
            outcomes.append(_Outcome(window, result))
        else:
            failures.append(result.reason)
    if not outcomes:
        return Scored(failure="; ".join(dict.fromkeys(failures)))
    ranked = sorted(outcomes, key=_rank)
    best = ranked[0]
    opposite = {"entailment": "contradiction", "contradiction": "entailment"}.get(best.scores.label)
    counter = next((outcome for outcome in ranked if outcome.scores.label == opposite), None)
    note = None
    if failures:
        total = len(failures) + len(outcomes)
        note = f"{len(failures)} of {total} windows could not be scored: {'; '.join(dict.fromkeys(failures))}"
    return Scored(
        scores=best.scores,
        evidence=_evidence(best),
        counter_evidence=None if counter is None else _evidence(counter),
        reason=note,
    )


def _rank(outcome: _Outcome) -> tuple[bool, float, bool, int, Span]:
    """Sort key, best first: not neutral, more confident, entailing, earlier reference, earlier window."""
    scores = outcome.scores
    label = scores.label
    confidence = max(scores.entailment, scores.neutral, scores.contradiction)
    return label == "neutral", -confidence, label != "entailment", outcome.window.reference, outcome.window.span


def _evidence(outcome: _Outcome) -> Evidence:
    """Turn a scored window into the report's record."""
    window = outcome.window
    return Evidence(reference=window.reference, span=window.span, text=window.text, scores=outcome.scores)

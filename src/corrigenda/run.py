"""One report in the making: stages 1 to 4 as methods over the state that they share.

`corrigenda.pipeline` calls them in order, and `corrigenda.finish` makes the report of what they leave. Each stage
turns its own failures into words and goes on: a failure is part of the report, never the loss of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from corrigenda.concurrency import Deadline, Late
from corrigenda.errors import BackendError, ReasoningLeaked
from corrigenda.guards import require_fitting, told
from corrigenda.policies import Policy
from corrigenda.ports import ChatModel, Entailer, Retriever
from corrigenda.prompts import LANGUAGES, Prompts
from corrigenda.prompts import load as load_prompts
from corrigenda.stages import generate as generation
from corrigenda.stages import recall as recollection
from corrigenda.stages.correct import Unrepaired
from corrigenda.stages.decide import Explain
from corrigenda.stages.decompose import Decomposer, DeterministicDecomposer, make_decomposer
from corrigenda.stages.entail import ScoredClaim, WindowCache, score_claims
from corrigenda.stages.retrieve import PASSAGES
from corrigenda.streaming import Splitter
from corrigenda.text import detect_language
from corrigenda.trace import MeteredChat, Trace
from corrigenda.types import AtomicClaim, ChatRequest, Completion, Reference, Sentence, TokenUsage
from corrigenda.windows import is_blank

NO_TIME = "not checked: the time limit was reached"
LANGUAGE_SAMPLE = 100
"""Code points of an answer from which its language is told, in both modes, so that both split it alike."""
CHUNK = 8
"""Claims per call of the verifier under a deadline, so that what was scored before it stands."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The ports that a report is made with."""

    chat: ChatModel | None
    entailer: Entailer
    policy: Policy
    decomposer: str | Decomposer = "auto"
    """A name for `make_decomposer`, or an object of the caller's own."""
    prompts: Prompts | None = None
    """The caller's own wording; None: the built-in one of the report's language."""
    explain: Explain | None = None
    retriever: Retriever | None = None
    """Where passages are looked up for claims that the reference leaves in doubt; None: nowhere."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a report; `corrigenda.settings.Settings` says what each means and its range."""

    language: str = "auto"
    timeout: float | None = None
    references: int = 1
    correct: bool = True
    """False: nothing is rewritten, hedged or removed; what is contradicted stays so, and the answer as it is."""
    unrepaired: Unrepaired = "keep"
    temperature: float = generation.TEMPERATURE
    top_p: float = generation.TOP_P
    max_answer_tokens: int = generation.MAX_TOKENS
    max_reference_tokens: int = recollection.MAX_TOKENS
    seed: int | None = None
    retrieve_k: int = PASSAGES
    on_stage: Callable[[str, bool], None] | None = None
    """Called when a stage begins (True) and ends (False), for progress displays."""


@dataclass(kw_only=True, eq=False)
class Part:
    """What goes through stages 2 to 4 together: a sentence of a streaming answer, or a whole answer."""

    sentence: Sentence | None = None
    end: int = 0
    """Where it ends, in code points of the answer. What has an end and no sentence is code, and nothing to check."""
    claims: Sequence[AtomicClaim] = ()
    scored: asyncio.Future[list[ScoredClaim]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """The claims with their scores, in the claims' order, as soon as they are there."""


@dataclass(kw_only=True)
class Run:
    """The state of one report while it is made."""

    question: str | None
    tools: Tools
    options: Options
    answer: str = ""
    hasty: bool = False
    """Whether each sentence is waited for, so that none may wait for the scores of all that come after it."""
    sentences: list[Sentence] = field(default_factory=list)
    references: tuple[Reference, ...] = ()
    passages: dict[tuple[str, str], int] = field(default_factory=dict)
    """Passages among the references, which stand behind those that all claims share: id and text → index."""
    recalled: bool = False
    """Whether the references are the model's own recollection."""
    scored: list[ScoredClaim] = field(default_factory=list)
    problem: str | None = None
    """Why the report as a whole is `failed`, when it is."""

    def __post_init__(self) -> None:
        """Start the clock and make what belongs to this report alone."""
        self.trace = Trace(on_stage=self.options.on_stage)
        self.deadline = Deadline.after(self.options.timeout)
        self.chat = None if self.tools.chat is None else MeteredChat(self.tools.chat, self.trace.count)
        self.trace.warn(*getattr(self.tools.entailer, "warnings", ()))
        self.parts: asyncio.Queue[Part | None] = asyncio.Queue()  # sentences as they come; None: there are no more
        self._queue: asyncio.Queue[Part | None] = asyncio.Queue()  # those whose claims are known
        self._splitting: list[asyncio.Task[None]] = []
        self._end = 0  # of the last part
        self.windows = WindowCache()
        self.looking = asyncio.Lock()  # who holds it may add passages
        self._speak(self.answer or self.question or "")

    def _speak(self, text: str) -> None:
        """Set the language of the prompts and the sentences: the one asked for, or that of the text's beginning."""
        asked = self.options.language
        self.language = detect_language(text[:LANGUAGE_SAMPLE]) if asked == "auto" else asked
        self.prompts = self.tools.prompts or load_prompts(self.language if self.language in LANGUAGES else "en")
        kind = self.tools.decomposer
        self.decomposer = (
            make_decomposer(kind, self.chat, self.prompts, self.language) if isinstance(kind, str) else kind
        )
        self.fallback = DeterministicDecomposer(self.prompts, self.language)

    # 1. generate ------------------------------------------------------------------------------------------------

    async def generate(self, ask: ChatRequest, group: asyncio.TaskGroup) -> Completion | None:
        """Stream the answer; hand each finished sentence on at once. Raises BackendError if nothing came.

        Returns None when the reply broke off or the time limit came before its end.
        """
        assert self.chat is not None
        splitter = Splitter(self._begin, lambda found, settled: self._hand_on(found, settled, group))
        completion = None
        try:
            with self.trace.stage("generate"):
                completion = await self.deadline.bound(self._stream(self.chat, ask, splitter))
        except Late:
            self.problem = None if self.answer.strip() else "the time limit was reached before an answer came"
            self.trace.warn("the answer is incomplete: the time limit was reached while it was being generated")
        except ReasoningLeaked:
            raise  # what came is no answer, and nothing may be claimed from it
        except Exception as exc:  # a chat model of the caller's own may raise anything
            if not self.answer.strip():
                if isinstance(exc, BackendError):
                    raise
                raise BackendError(told(exc)) from exc
            self.problem = f"the answer is incomplete: {told(exc)}"
        if completion is not None and completion.finish_reason == "length":
            cap = "the model's own cap" if ask.max_tokens is None else f"its cap of {ask.max_tokens} tokens"
            self.trace.warn(f"the answer was cut off at {cap}")
        splitter.finish()
        return completion

    def request(self, question: str) -> ChatRequest:
        """Return the request for an answer to `question` alone, with the settings of the options."""
        return generation.request(
            question,
            self.prompts,
            temperature=self.options.temperature,
            top_p=self.options.top_p,
            max_tokens=self.options.max_answer_tokens,
            seed=self.options.seed,
        )

    async def _stream(self, chat: ChatModel, ask: ChatRequest, splitter: Splitter) -> Completion | None:
        completion = None
        async for delta in generation.generate(chat, ask):
            self.answer += delta.text
            splitter.feed(delta.text)
            completion = delta.completion or completion
        return completion

    def _begin(self, sample: str, last: bool) -> str | None:
        """Return the language of the answer that begins with `sample`; None while more of it is needed to tell."""
        if self.options.language == "auto":
            if len(sample) < LANGUAGE_SAMPLE and not last:
                return None
            self._speak(sample or self.question or "")
        return self.language

    def _hand_on(self, sentences: Sequence[Sentence], settled: int, group: asyncio.TaskGroup) -> None:
        """Take finished sentences of a streaming answer, and begin to decompose them; take what code came, too."""
        for sentence in sentences:
            part = Part(sentence=sentence, end=sentence.span.end)
            self.sentences.append(sentence)
            self._take(part)
            self._splitting.append(group.create_task(self._decompose_sentence(part, sentence, self.answer)))
        code = self.answer[self._end : settled].rstrip()  # the space behind goes with what follows, as for a sentence
        if code.strip():
            self._take(Part(end=self._end + len(code)))

    def _take(self, part: Part) -> None:
        self._end = part.end
        self.parts.put_nowait(part)

    # 2. decompose -----------------------------------------------------------------------------------------------

    async def _decompose_sentence(self, part: Part, sentence: Sentence, context: str) -> None:
        """Turn one sentence of a streaming answer into claims; whatever breaks, it is not left without one."""
        with self.trace.stage("decompose"):
            try:
                work = self.decomposer.decompose_sentence(sentence, context, self.trace.warn)
                part.claims = await self.deadline.bound(work)
                require_fitting(part.claims, [sentence], len(context))
            except Exception as exc:  # a decomposer of the caller's own may raise anything
                self._warn_fallback(exc)
                part.claims = await self.fallback.decompose_sentence(sentence, context)
        self._queue.put_nowait(part)

    async def decompose(self) -> None:
        """Turn the whole answer into claims, with one call at most."""
        with self.trace.stage("decompose"):
            try:
                found = await self.deadline.bound(self.decomposer.decompose(self.answer, self.question))
                require_fitting(found.claims, found.sentences, len(self.answer))
            except Exception as exc:  # as above
                self._warn_fallback(exc)
                found = await self.fallback.decompose(self.answer, self.question)
        self.trace.warn(*found.warnings)
        self.sentences = list(found.sentences)
        self._queue.put_nowait(Part(claims=found.claims))

    def _warn_fallback(self, exc: Exception) -> None:
        why = "the time limit was reached" if isinstance(exc, Late) else told(exc)
        self.trace.warn(f"decompose: {why}; the deterministic decomposer was used instead")

    async def close_claims(self) -> None:
        """Wait for the sentences in hand and say that no more will come."""
        self.parts.put_nowait(None)
        for task in self._splitting:
            await task
        self._queue.put_nowait(None)

    # 3. recall --------------------------------------------------------------------------------------------------

    async def recall(self, question: str) -> str | None:
        """Fetch the references from the question alone. Returns why there is none, or None when all is well."""
        assert self.chat is not None
        self.recalled = True
        try:
            with self.trace.stage("recall"):
                self.references, warnings = await self.deadline.bound(
                    recollection.recall(
                        question,
                        self.chat,
                        self.prompts,
                        references=self.options.references,
                        max_tokens=self.options.max_reference_tokens,
                        seed=self.options.seed,
                    )
                )
            self.trace.warn(*warnings)
        except Late:
            return NO_TIME
        except Exception as exc:  # a chat model of the caller's own may raise anything
            self.problem = f"recall failed: {told(exc)}"
            return self.problem
        return None

    async def given(self, references: Sequence[Reference] | None, question: str | None) -> str | None:
        """Take the caller's references, or recall one when there are none."""
        if references is None and question is not None and self.chat is not None:
            return await self.recall(question)
        self.references = tuple(references or ())
        if all(is_blank(r.text) for r in self.references):
            self.trace.warn(
                "there is nothing to check against: give a context that is not empty, or a question and a chat model"
            )
        return None

    # 4. entail --------------------------------------------------------------------------------------------------

    async def score(self, references: Awaitable[str | None]) -> None:
        """Score claims as they come, all that are waiting in one call, once the references are there.

        In haste the first call takes one sentence, and each further one at most as many as were scored before it: the
        first to leave does not wait for the others, and few calls are made all the same.
        """
        missing = await references
        waiting: list[Part] = []
        last, count = False, 0
        while waiting or not last:
            came = [] if waiting else [await self._queue.get()]
            while not self._queue.empty():
                came.append(self._queue.get_nowait())
            last = last or None in came
            waiting = sorted([*waiting, *(part for part in came if part is not None)], key=_place)
            limit = max(count, 1) if self.hasty else len(waiting)
            now, waiting = waiting[:limit], waiting[limit:]
            scored = iter(await self._score([claim for part in now for claim in part.claims], missing))
            for part in now:
                part.scored.set_result(sorted(islice(scored, len(part.claims)), key=by_place))
                self.scored += part.scored.result()
            count += len(now)
        self.scored.sort(key=by_place)

    async def _score(self, claims: Sequence[AtomicClaim], missing: str | None) -> list[ScoredClaim]:
        if missing is not None and missing != NO_TIME:
            return [unscored(claim, failure=missing) for claim in claims]
        size = max(len(claims), 1) if self.deadline.at is None else CHUNK
        done: list[ScoredClaim] = []
        for start in range(0, len(claims), size):
            chunk = claims[start : start + size]
            late = missing == NO_TIME or self.deadline.passed
            done += [unscored(c, reason=NO_TIME) for c in chunk] if late else await self._score_chunk(chunk)
        return done

    async def _score_chunk(self, claims: Sequence[AtomicClaim]) -> list[ScoredClaim]:
        try:
            with self.trace.stage("entail"):
                work = self._score_claims(claims)
                scored = await self.deadline.bound(work)
        except Late:
            return [unscored(claim, reason=NO_TIME) for claim in claims]
        except Exception as exc:  # a verifier of the caller's own may raise anything
            return [unscored(claim, failure=told(exc)) for claim in claims]
        if any(s.scores is not None or s.failure is not None for s in scored):
            self.trace.count("entail", TokenUsage())
        return scored

    def _score_claims(self, claims: Sequence[AtomicClaim]) -> Awaitable[list[ScoredClaim]]:
        return score_claims(claims, self.references, self.tools.entailer, language=self.language, cache=self.windows)


def by_place(scored: ScoredClaim) -> tuple[int, tuple[int, ...]]:
    """Sort key of claims: by sentence, then by place in it."""
    return scored.claim.sentence, scored.claim.span or (0, 0)


def _place(part: Part) -> int:
    return 0 if part.sentence is None else part.sentence.index


def unscored(claim: AtomicClaim, *, failure: str | None = None, reason: str | None = None) -> ScoredClaim:
    """Return a claim that was not put to the verifier, with why; one that is not checkable keeps its own reason."""
    if not claim.checkable:
        return ScoredClaim(claim=claim, reason=claim.reason)
    return ScoredClaim(claim=claim, failure=failure, reason=reason)

"""Stage 2, decompose: answer → atomic claims, in order, each tied to the sentence that it came from.

Three decomposers behind one Protocol. `DeterministicDecomposer` needs no model: a claim a sentence, more where
the grammar leaves no doubt. `ModelDecomposer` asks a chat model, with one call for a whole answer or a short one
for a sentence that has just been streamed. `AutoDecomposer` asks it only about compound sentences. Whatever a
model does, no sentence with something to check is left without a claim, and no claim enters that is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from corrigenda.checkable import statement_of
from corrigenda.errors import BackendError, ConfigError, ParseError
from corrigenda.grammar import is_compound, is_fragment, name_subject, split_clauses
from corrigenda.ports import ChatModel
from corrigenda.prompts import Prompts
from corrigenda.replies import parse_json_object
from corrigenda.sentences import split_sentences
from corrigenda.stages.context import Context, Contexts
from corrigenda.stages.coverage import invented, left_out
from corrigenda.text import anchor, content_words, hypothesis_text, is_row, same_word, words_of
from corrigenda.types import AtomicClaim, ChatRequest, Message, Sentence, SentenceKind, Span

DECOMPOSERS = ("auto", "deterministic", "model")
"""The names that `make_decomposer` knows."""

Warn = Callable[[str], object]

_CALL_LIMIT = 12_000
"""Code points of sentences that one call may carry; further sentences are split deterministically."""
_CLAIMS_LIMIT = 12
_ITEM = {"type": "object", "properties": {"sentence": {"type": "integer"}, "text": {"type": "string"}}}
ANSWER_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "claims": {"type": "array", "items": {**_ITEM, "required": ["sentence", "text"], "additionalProperties": False}}
    },
    "required": ["claims"],
    "additionalProperties": False,
}
SENTENCE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decomposition:
    """The claims of a whole answer, sorted by sentence and place."""

    sentences: tuple[Sentence, ...]
    claims: tuple[AtomicClaim, ...]
    warnings: tuple[str, ...] = ()
    method: str = "deterministic"
    """What made the claims: `deterministic`, `model`, or `auto` (the model for some of the sentences)."""


@runtime_checkable
class Decomposer(Protocol):
    """Turns an answer into atomic claims. Raises nothing: what fails falls back, with a warning."""

    async def decompose(self, answer: str, question: str | None = None) -> Decomposition:
        """Return the claims of a whole answer."""
        ...

    async def decompose_sentence(
        self, sentence: Sentence, context: str = "", warn: Warn | None = None
    ) -> tuple[AtomicClaim, ...]:
        """Return the claims of one sentence of an answer that is known as far as `context`.

        `context` is the answer from its beginning; what goes beyond the sentence is not read. `warn` is told
        about what went wrong and was made good.
        """
        ...


def make_decomposer(kind: str, chat: ChatModel | None, prompts: Prompts, language: str | None = None) -> Decomposer:
    """Return the decomposer called `kind`. `auto` without a chat model is deterministic.

    Raises ConfigError for an unknown name, and for `model` without a chat model.
    """
    if kind == "deterministic" or (kind == "auto" and chat is None):
        return DeterministicDecomposer(prompts, language)
    if kind == "auto" and chat is not None:
        return AutoDecomposer(chat, prompts, language)
    if kind == "model" and chat is not None:
        return ModelDecomposer(chat, prompts, language)
    if kind == "model":
        raise ConfigError("decomposer 'model' needs a chat model; name one with --llm, or use 'deterministic'")
    raise ConfigError(f"unknown decomposer {kind!r}; there are {', '.join(DECOMPOSERS)}")


def claims_of(reply: Mapping[str, Any]) -> tuple[tuple[int | None, str], ...]:
    """Return the claims of a model's reply as (sentence number or None, text).

    Takes a list of texts or of `{"sentence": n, "text": t}`, or a single text; skips null, blank and malformed
    items. Raises ParseError when there is no `claims`, it has another type, or nothing in it is usable.
    """
    claims = reply.get("claims")
    if isinstance(claims, str):
        claims = [claims]
    if not isinstance(claims, list):
        raise ParseError(f"the reply has no list of claims, but {str(claims)[:80]!r}")
    found: list[tuple[int | None, str]] = []
    for item in claims:
        number: Any = None
        if isinstance(item, Mapping):
            number, item = item.get("sentence"), item.get("text")  # noqa: PLW2901
        if isinstance(item, str) and item.strip():
            if isinstance(number, str) and number.strip().isdecimal():
                number = int(number)
            usable = isinstance(number, int) and not isinstance(number, bool)
            found.append((number if usable else None, " ".join(item.split())))
    if claims and not found:
        raise ParseError(f"none of the {len(claims)} claims in the reply is a text: {str(claims)[:80]!r}")
    return tuple(found)


class DeterministicDecomposer:
    """One claim a sentence, more where the grammar leaves no doubt. Needs no model; also the fallback."""

    def __init__(self, prompts: Prompts, language: str | None = None) -> None:
        """Take word lists from `prompts`; `language` is the answer's, where it differs from theirs."""
        self.prompts = prompts
        self.language = language or prompts.language
        self._contexts = Contexts(self.language)

    async def decompose(self, answer: str, question: str | None = None) -> Decomposition:
        """Return the claims of a whole answer."""
        sentences = split_sentences(answer, self.language)
        claims: list[AtomicClaim] = []
        context = Context()
        for sentence in sentences:
            claims += self.claims(sentence, context)
            context = context.after(sentence)
        return Decomposition(sentences=sentences, claims=tuple(claims))

    async def decompose_sentence(
        self, sentence: Sentence, context: str = "", warn: Warn | None = None
    ) -> tuple[AtomicClaim, ...]:
        """Return the claims of one sentence."""
        return self.claims(sentence, self.before(sentence, context))

    def before(self, sentence: Sentence, context: str) -> Context:
        """Return what a sentence's claims may take from the answer (`context`) before it."""
        return self._contexts.before(sentence, context)

    def claims(self, sentence: Sentence, before: Context) -> tuple[AtomicClaim, ...]:
        """Return the claims of one sentence, given what stands before it. Never empty."""
        stated, reason = statement_of(sentence, self.prompts, self.language)
        if reason:
            return (_claim(hypothesis_text(sentence.text), sentence.span, sentence, reason=reason),)
        if sentence.kind is not SentenceKind.PROSE:
            text = (
                _row_text(sentence, before) if is_row(sentence) else _item_text(stated, sentence, before, self.language)
            )
            return (_claim(text, sentence.span, sentence),)
        earlier = [hypothesis_text(s.text) for s in before.recent[-3:] if s.kind is SentenceKind.PROSE]
        if stated != hypothesis_text(sentence.text):
            return (_claim(name_subject(stated, earlier, self.language), sentence.span, sentence),)
        clauses = split_clauses(sentence.text, self.language)
        claims: list[AtomicClaim] = []
        for clause in clauses:
            text = hypothesis_text(clause.text_of(sentence.text))
            if len(clauses) > 1:
                text = text[0].upper() + text[1:].rstrip(" ,;") + ("" if text.endswith((".", "!", "…", "。")) else ".")
            span = Span(sentence.span.start + clause.start, sentence.span.start + clause.end)
            claims.append(_claim(name_subject(text, earlier, self.language), span, sentence))
            earlier.append(claims[-1].text)
        return tuple(claims)


def _claim(text: str, span: Span, sentence: Sentence, reason: str | None = None) -> AtomicClaim:
    return AtomicClaim(text=text, span=span, sentence=sentence.index, checkable=reason is None, reason=reason)


def _row_text(sentence: Sentence, before: Context) -> str:
    """Return a table's row as a statement: its first cell, then each other cell under its head."""
    cells = _cells(sentence.text)
    heads = _cells(before.above.text) if before.above and is_row(before.above) else []
    if len(heads) != len(cells) or len(cells) < 2:
        return ", ".join(c for c in cells if c)
    under = [f"{head} {cell}".strip() for head, cell in zip(heads[1:], cells[1:], strict=True) if cell]
    return f"{cells[0]}: {', '.join(under)}" if under else cells[0]


def _cells(row: str) -> list[str]:
    return [hypothesis_text(cell.replace("\\|", "|")) for cell in re.split(r"(?<!\\)\|", row)]


def _item_text(text: str, sentence: Sentence, before: Context, language: str) -> str:
    """Return a list item as a statement; one without a verb is told apart by the heading or line above its list."""
    above = before.topic
    if not is_fragment(text, language) or sentence.kind is not SentenceKind.LIST_ITEM or above is None:
        return text
    topic = hypothesis_text(above.text).rstrip(": ")
    announces = above.text.endswith(":") and not re.match(r"(?:Here|Below|Ecco|Di seguito)\b", topic)
    if len(topic.split()) > 8 or not (above.kind is SentenceKind.HEADING or announces):
        return text
    return f"{topic}: {text}"


class ModelDecomposer:
    """Asks a chat model to split every sentence that states something; what it gets wrong is made good."""

    method = "model"

    def __init__(self, chat: ChatModel, prompts: Prompts, language: str | None = None) -> None:
        """Ask `chat` with the wording of `prompts`."""
        self.chat = chat
        self.prompts = prompts
        self.fallback = DeterministicDecomposer(prompts, language)
        self.language = self.fallback.language

    def asks_about(self, sentence: Sentence, claims: Sequence[AtomicClaim]) -> bool:
        """Return whether the model should look at a sentence that the grammar turns into `claims`."""
        return claims[0].checkable and not is_row(sentence)

    async def decompose(self, answer: str, question: str | None = None) -> Decomposition:
        """Return the claims of a whole answer, with one call to the model (and one more if its reply is unusable)."""
        plain = await self.fallback.decompose(answer, question)
        claims: dict[int, tuple[AtomicClaim, ...]] = {}
        for claim in plain.claims:
            claims[claim.sentence] = (*claims.get(claim.sentence, ()), claim)
        warnings: list[str] = []
        asked: list[Sentence] = []
        room = _CALL_LIMIT
        for sentence in plain.sentences:
            if self.asks_about(sentence, claims[sentence.index]):
                room -= len(sentence.text)
                if room >= 0:
                    asked.append(sentence)
        if room < 0:
            warnings.append("the answer is too long for one call to the decomposer; the rest was split by rules")
        method = "deterministic"
        items = await self._ask(asked, question, warnings.append) if asked else None
        if items is not None:
            method = self.method
            near = {s.index: _nearby(plain.sentences[max(s.index - 5, 0) : s.index], claims[s.index]) for s in asked}
            claims |= self._assign(items, asked, near, question or "", warnings.append)
        return Decomposition(
            sentences=plain.sentences,
            claims=tuple(c for s in plain.sentences for c in claims[s.index]),
            warnings=tuple(warnings),
            method=method,
        )

    async def decompose_sentence(
        self, sentence: Sentence, context: str = "", warn: Warn | None = None
    ) -> tuple[AtomicClaim, ...]:
        """Return the claims of one sentence, with one short call to the model where it is needed."""
        before = self.fallback.before(sentence, context)
        plain = self.fallback.claims(sentence, before)
        if not self.asks_about(sentence, plain):
            return plain
        told = warn or (lambda _: None)
        user = self.prompts.fill("decompose", "sentence_user", sentence=_as_data(self._stated(sentence)))
        limit = 40 + 4 * len(words_of(sentence.text))
        try:
            items = claims_of(await self._call("sentence_system", user, SENTENCE_SCHEMA, limit))
        except BackendError as exc:
            told(f"decompose: {exc}; the sentence was split by rules instead")
            return plain
        if not items:
            return plain
        near = _nearby(before.recent, plain)
        return _usable([text for _, text in items], sentence, self._stated(sentence), near, told) or plain

    def _stated(self, sentence: Sentence) -> str:
        """Return the text of a sentence that a model is to split: without an opening such as `I believe`."""
        stated, _ = statement_of(sentence, self.fallback.prompts, self.language)
        return sentence.text if stated == hypothesis_text(sentence.text) else stated

    async def _call(self, system: str, user: str, schema: Mapping[str, Any], limit: int) -> dict[str, Any]:
        messages = (
            Message(role="system", content=self.prompts.get("decompose", system).strip()),
            Message(role="user", content=user.strip()),
        )
        request = ChatRequest(
            stage="decompose", messages=messages, temperature=0.0, max_tokens=limit, json_schema=schema
        )
        return parse_json_object((await self.chat.complete(request)).text)

    async def _ask(
        self, asked: Sequence[Sentence], question: str | None, warn: Warn
    ) -> tuple[tuple[int | None, str], ...] | None:
        """Ask about all of `asked` in one call, once more if the reply cannot be parsed; None when that fails."""
        numbered = "\n".join(f"{i}. {_as_data(self._stated(s))}" for i, s in enumerate(asked, 1))
        user = self.prompts.fill("decompose", "user", question=_as_data(question or "-"), sentences=numbered)
        limit = min(100 + 6 * len(words_of(numbered)), 8192)
        problem: BackendError | None = None
        for attempt in (1, 2):
            try:
                items = claims_of(await self._call("system", user, ANSWER_SCHEMA, limit * attempt))
            except ParseError as exc:
                problem = exc
                continue
            except BackendError as exc:
                problem = exc
                break
            if items:
                return items
            problem = ParseError("the model found no claim in an answer that has some")
            break
        warn(f"decompose: {problem}; the answer was split by rules instead")
        return None

    def _assign(
        self,
        items: Sequence[tuple[int | None, str]],
        asked: Sequence[Sentence],
        near: Mapping[int, str],
        question: str,
        warn: Warn,
    ) -> dict[int, tuple[AtomicClaim, ...]]:
        """Give each claim to the sentence that it stands in; sentences that get none are left out."""
        texts: dict[int, list[str]] = {}
        there = [set(words_of(s.text)) for s in asked]
        for number, text in items[: _CLAIMS_LIMIT * len(asked)]:
            named = number - 1 if number is not None and 1 <= number <= len(asked) else None
            if named is None or not _is_in(text, asked[named].text):
                words = set(content_words(text))
                best = max(range(len(asked)), key=lambda i: len(words & there[i]))
                named = best if named is None or _is_in(text, asked[best].text) else named
            texts.setdefault(named, []).append(text)
        claims: dict[int, tuple[AtomicClaim, ...]] = {}
        for position, sentence in enumerate(asked):
            if position not in texts:
                warn(f"decompose: the model left out sentence {sentence.index + 1}; it was split by rules instead")
                continue
            around = f"{question} {near[sentence.index]}"
            if usable := _usable(texts[position], sentence, self._stated(sentence), around, warn):
                claims[sentence.index] = usable
        return claims


class AutoDecomposer(ModelDecomposer):
    """The default: by rules where a sentence makes one plain statement, by the model only where it is compound."""

    method = "auto"

    def asks_about(self, sentence: Sentence, claims: Sequence[AtomicClaim]) -> bool:
        """Return whether the sentence, or a clause that the rules made of it, may hold several statements."""
        return super().asks_about(sentence, claims) and any(is_compound(claim.text, self.language) for claim in claims)


def _as_data(text: str) -> str:
    """Return a text on one line that cannot close the tags it is put between."""
    return re.sub(r"<(?=/?(?:sentences?|question)\b)", "‹", " ".join(text.split()), flags=re.IGNORECASE)


def _usable(texts: Sequence[str], sentence: Sentence, stated: str, near: str, warn: Warn) -> tuple[AtomicClaim, ...]:
    """Return the model's claims that stand in the sentence, sorted; none when they leave out some of what it says."""
    kept = list(dict.fromkeys(t for t in texts if _is_in(t, stated, near)))[:_CLAIMS_LIMIT]
    dropped = [t for t in dict.fromkeys(texts) if t not in kept]
    if dropped:
        warn(f"decompose: dropped claims that sentence {sentence.index + 1} does not make: {dropped!r}")
    lost = left_out(hypothesis_text(stated), kept) if kept else None
    if not kept or lost is not None:
        why = f"do not say {lost!r} as it does" if kept else "cannot be used"
        warn(f"decompose: the model's claims for sentence {sentence.index + 1} {why}; it was split by rules instead")
        return ()
    if len(kept) == 1:
        return (_claim(hypothesis_text(kept[0]), sentence.span, sentence),)
    claims = [_claim(hypothesis_text(text), anchor(text, sentence), sentence) for text in kept]
    return tuple(sorted(claims, key=lambda c: c.span or sentence.span))


def _nearby(before: Sequence[Sentence], claims: Sequence[AtomicClaim]) -> str:
    """Return the text around a sentence that a claim of it may take a name from."""
    return " ".join([*(s.text for s in before), *(c.text for c in claims)])


def _share(claim: str, text: str) -> float:
    """Return which share of a claim's content words stands in `text`."""
    wanted = set(content_words(claim))
    there = set(words_of(text))
    return sum(w in there or any(same_word(w, t) for t in there) for w in wanted) / len(wanted) if wanted else 0.0


def _is_in(claim: str, sentence: str, near: str = "") -> bool:
    """Return whether the sentence makes the claim: most of its words are there, and every name and number is."""
    if invented(claim, f"{sentence} {near}") is not None:
        return False
    return _share(claim, sentence) >= 0.3 and _share(claim, f"{sentence} {near}") >= 0.6

"""What stands before a sentence, as far as its claims depend on it: the head of its table, the topic of its list.

One step for each sentence, whether the answer is at hand or still streams, so that both give the same claims at
any length and in linear time.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from dataclasses import dataclass

from corrigenda.sentences import SentenceStream
from corrigenda.types import Sentence, SentenceKind

_RECENT = 5
_READERS = 8


@dataclass(frozen=True, slots=True)
class Context:
    """What a sentence's claims may take from the sentences before it."""

    above: Sentence | None = None
    """The last sentence that is no row of a table: the table's head, where the sentence is a row of one."""
    topic: Sentence | None = None
    """The last heading or sentence of prose, which may say what a list is about."""
    recent: tuple[Sentence, ...] = ()
    """The last few sentences, in order."""

    def after(self, sentence: Sentence) -> Context:
        """Return the context of what follows `sentence`."""
        titles = sentence.kind in (SentenceKind.HEADING, SentenceKind.PROSE)
        return Context(
            above=self.above if sentence.kind is SentenceKind.TABLE_ROW else sentence,
            topic=sentence if titles else self.topic,
            recent=(*self.recent, sentence)[-_RECENT:],
        )


class _Reader:
    """Follows one answer while it grows."""

    def __init__(self, language: str) -> None:
        self.text = ""
        self._stream = SentenceStream(language)
        self._starts: list[int] = []
        self._contexts = [Context()]  # before each sentence, and behind the last
        self._rest: tuple[list[int], list[Context]] | None = None  # as if the answer ended here

    def feed(self, text: str) -> None:
        """Read on to the end of `text`, which begins with what was read before."""
        if text != self.text:
            for sentence in self._stream.feed(text[len(self.text) :]):
                self._starts.append(sentence.span.start)
                self._contexts.append(self._contexts[-1].after(sentence))
            self.text, self._rest = text, None

    def before(self, start: int) -> Context:
        """Return the context of a sentence that begins at `start`."""
        if self._starts and start <= self._starts[-1]:
            return self._contexts[bisect_left(self._starts, start)]
        if self._rest is None:
            starts, contexts = [], [self._contexts[-1]]
            for sentence in copy.deepcopy(self._stream).finish():
                starts.append(sentence.span.start)
                contexts.append(contexts[-1].after(sentence))
            self._rest = starts, contexts
        starts, contexts = self._rest
        return contexts[bisect_left(starts, start)]


class Contexts:
    """The contexts of sentences of growing answers; asking again costs nothing, and no order is needed."""

    def __init__(self, language: str) -> None:
        """Begin with no answer; `language` is that of the answers."""
        self._language = language
        self._readers: list[_Reader] = []

    def before(self, sentence: Sentence, answer: str) -> Context:
        """Return the context of a sentence of `answer`, which may be known no further than to that sentence."""
        known = [reader for reader in self._readers if answer.startswith(reader.text)]
        reader = max(known, key=lambda r: len(r.text)) if known else _Reader(self._language)
        self._readers = [reader, *(r for r in self._readers if r is not reader)][:_READERS]
        reader.feed(answer)
        return reader.before(sentence.span.start)

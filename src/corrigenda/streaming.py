"""Cutting an answer into sentences while it still grows, once enough of it is there to tell its language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corrigenda.sentences import SentenceStream
from corrigenda.types import Sentence


class Splitter:
    """Feeds a growing text to a SentenceStream that is made as soon as the text's language is known."""

    def __init__(
        self, language_of: Callable[[str, bool], str | None], hand_on: Callable[[Sequence[Sentence], int], None]
    ) -> None:
        """Begin a text.

        `language_of(text so far, whether that is all)` returns None while more is needed, never when it is all.
        `hand_on` gets sentences, and up to where no further one can begin (0 where that isn't known).
        """
        self._language_of = language_of
        self._hand_on = hand_on
        self._held = ""
        self._stream: SentenceStream | None = None

    def feed(self, delta: str) -> None:
        """Take what has come; hand on the sentences that can no longer change."""
        self._advance(delta, last=False)

    def finish(self) -> None:
        """Hand on the last sentences."""
        stream = self._advance("", last=True)
        assert stream is not None
        self._hand_on(stream.finish(), 0)

    def _advance(self, delta: str, *, last: bool) -> SentenceStream | None:
        if self._stream is None:
            self._held += delta
            language = self._language_of(self._held, last)
            if language is None:
                return None
            self._stream, delta = SentenceStream(language), self._held
        self._hand_on(self._stream.feed(delta), self._stream.settled)
        return self._stream

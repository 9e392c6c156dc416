"""Splitting in short, for the tests of sentences."""

from __future__ import annotations

from corrigenda.sentences import SentenceStream, split_sentences
from corrigenda.types import Sentence, SentenceKind

PROSE, HEADING, ITEM, ROW = SentenceKind.PROSE, SentenceKind.HEADING, SentenceKind.LIST_ITEM, SentenceKind.TABLE_ROW


def texts(answer: str, language: str = "en") -> list[str]:
    return [s.text for s in split_sentences(answer, language)]


def kinds(answer: str) -> list[tuple[SentenceKind, str]]:
    return [(s.kind, s.text) for s in split_sentences(answer)]


def streamed(answer: str, sizes: list[int], language: str = "en") -> tuple[Sentence, ...]:
    stream = SentenceStream(language)
    found: list[Sentence] = []
    position = 0
    for turn in range(len(answer) + 1):
        size = sizes[turn % len(sizes)]
        found += stream.feed(answer[position : position + size])
        position += size
        if position >= len(answer):
            break
    return (*found, *stream.finish())

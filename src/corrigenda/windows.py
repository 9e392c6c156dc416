"""Cut a long reference into windows that a verifier can read (pure: no I/O, no model).

A window is a run of whole sentences, as many as fit. Several sentences together matter, because evidence is
often spread over them: "X was built by N." and "N was born in T." only entail "X was built by a man born in T."
when both stand in one premise. Consecutive windows share one sentence, so that two neighbouring sentences are
never separated wherever both fit. Together the windows cover every visible character of the reference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from corrigenda.types import Span

CountTokens = Callable[[str], int]
Piece = tuple[Span, int]
"""A stretch of the reference with its token count."""

_SPACE = re.compile(r"\s")

_CUT_PARTS = 4
"""A sentence that is too long is cut into pieces of about a quarter of the budget: a window then holds several,
and its neighbour can repeat the last one, so that no cut falls through a fact in both."""


def is_blank(text: str) -> bool:
    """Return whether `text` has no visible character: only white space, control and zero-width ones."""
    return all(unicodedata.category(char)[0] in "ZC" for char in text)


def visible(text: str) -> Span:
    """Return the span of `text` without the white space at its ends."""
    return _stripped(text, 0, len(text))


def windows(reference: str, count_tokens: CountTokens, budget: int, sentence_spans: Sequence[Span]) -> list[Span]:
    """Return the spans of the windows of `reference`, in order; each has at most `budget` tokens.

    `sentence_spans` are the reference's sentences, in order. What stands between two of them (a list marker, a
    code block) goes with the one before, so that nothing of the reference is left out. With no spans the whole
    text counts as one sentence. A sentence of more than `budget` tokens is cut between words; one that has no
    white space to cut at (Chinese, a long address) is cut between characters. Only a single character that
    has more tokens than the budget gives a window over it.

    `count_tokens` is called about twice per sentence and once per window, never once per pair of sentences.
    A blank reference has no windows. Raises ValueError when `budget` is below 1.
    """
    return list(iter_windows(reference, count_tokens, budget, sentence_spans))


def iter_windows(
    reference: str, count_tokens: CountTokens, budget: int, sentence_spans: Sequence[Span]
) -> Iterator[Span]:
    """Yield what `windows` returns, one by one, each cut only when it is asked for: a caller can pause or stop."""
    if budget < 1:
        raise ValueError(f"a window needs a budget of at least 1 token, got {budget!r}")
    tiles = _tiles(reference, sentence_spans)
    pieces = (piece for tile in tiles for piece in _cut(reference, tile, count_tokens, budget))
    yield from _pack(reference, pieces, count_tokens, budget)


def _tiles(reference: str, sentence_spans: Sequence[Span]) -> Iterator[Span]:
    """Stretch the sentences so that they cover the reference; without white space at the ends, no blank tile."""
    starts = sorted({0, *(span.start for span in sentence_spans[1:] if 0 < span.start < len(reference))})
    ends = [*starts[1:], len(reference)]
    tiles = (_stripped(reference, start, end) for start, end in zip(starts, ends, strict=True))
    return (tile for tile in tiles if not is_blank(tile.text_of(reference)))


def _stripped(text: str, start: int, end: int) -> Span:
    """Return [start, end) without white space at its ends."""
    part = text[start:end]
    return Span(start + len(part) - len(part.lstrip()), start + len(part.rstrip()))


def _cut(reference: str, tile: Span, count_tokens: CountTokens, budget: int) -> Iterator[Piece]:
    """Yield `tile` with its token count, or its pieces when it is over `budget`.

    Halving needs about two counts per piece that results, whatever the tokenizer.
    """
    tokens = count_tokens(tile.text_of(reference))
    if tokens <= budget:
        yield tile, tokens
        return
    target = max(1, budget // _CUT_PARTS)
    waiting = [(tile, tokens, False)]
    while waiting:
        span, tokens, in_word = waiting.pop()
        middle, breaks_word = _middle(reference, span) if tokens > target else (None, False)
        # A word is only broken when it is over the budget; its parts then go on down to the target.
        keep = breaks_word and tokens <= budget and not (in_word and _begins_letter(reference, middle))
        if middle is None or keep:
            yield span, tokens
            continue
        halves = (_stripped(reference, span.start, middle), _stripped(reference, middle, span.end))
        waiting.extend((half, count_tokens(half.text_of(reference)), breaks_word) for half in reversed(halves))


def _middle(reference: str, span: Span) -> tuple[int | None, bool]:
    """Return where to halve `span`, and whether that is inside a word.

    The place is the white space nearest to its middle, else the middle itself, but not between a letter and its
    combining marks where that can be helped. (None, False) for a single character.
    """
    text = span.text_of(reference)
    half = len(text) // 2
    before, after = _SPACE.search(text[half:0:-1]), _SPACE.search(text, half + 1)
    places = ([half - before.start()] if before else []) + ([after.start()] if after else [])
    if places:
        return span.start + min(places, key=lambda place: abs(place - half)), False
    if len(text) < 2:
        return None, False
    whole = (i for i in range(half, 0, -1) if _begins_letter(text, i))
    return span.start + next(whole, half), True


def _begins_letter(text: str, place: int | None) -> bool:
    """Return whether the character at `place` is not a combining mark of the one before."""
    return place is not None and not unicodedata.combining(text[place])


def _pack(reference: str, source: Iterator[Piece], count_tokens: CountTokens, budget: int) -> Iterator[Span]:
    """Join consecutive pieces into windows; each window but the first begins with its forerunner's last piece.

    The repeated piece is left out where it would leave no room for a new one.
    """
    pieces: list[Piece] = []
    first, reached = 0, 0
    while _has(pieces, reached, source):
        end = _reach(reference, pieces, source, first, count_tokens, budget)
        if end <= reached:
            first = reached
            continue
        yield Span(pieces[first][0].start, pieces[end - 1][0].end)
        first, reached = max(first + 1, end - 1), end


def _has(pieces: list[Piece], index: int, source: Iterator[Piece]) -> bool:
    """Return whether there is a piece number `index`, after taking as many as that needs from `source`."""
    while len(pieces) <= index:
        piece = next(source, None)
        if piece is None:
            return False
        pieces.append(piece)
    return True


def _reach(
    reference: str,
    pieces: list[Piece],
    source: Iterator[Piece],
    first: int,
    count_tokens: CountTokens,
    budget: int,
) -> int:
    """Return how far (exclusive) a window that begins at piece `first` can go: one piece at least.

    The pieces' own counts say where to begin; the text as a whole is then counted, since tokens may join or
    split at the seams. Each time it is over, twice as many pieces are dropped.
    """
    total, end = pieces[first][1], first + 1
    while _has(pieces, end, source) and total + pieces[end][1] <= budget:
        total += pieces[end][1]
        end += 1
    drop = 1
    while end - first > 1 and count_tokens(reference[pieces[first][0].start : pieces[end - 1][0].end]) > budget:
        end = max(first + 1, end - drop)
        drop *= 2
    return end

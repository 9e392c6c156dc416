"""An answer's sentences with their spans, for a whole text or while it streams.

Both are one algorithm: `split_sentences` feeds a `SentenceStream` once. The stream gives a sentence when no
further text can change it, so that how a text is cut into pieces makes no difference. The time taken grows
linearly with the text's length.
"""

from __future__ import annotations

import re
import unicodedata

from corrigenda.boundaries import LOOKAHEAD, LOOKBEHIND, is_boundary
from corrigenda.layout import Close, Event, Layout, Open, Text
from corrigenda.text import TAG, WIDE_CITATION
from corrigenda.types import Sentence, SentenceKind, Span

_WIDE_MARKS = "。！？｡‼⁇⁈⁉"
_MARKS = ".!?…؟۔।։" + _WIDE_MARKS
_PAIRS = dict(zip('(["“«„「『（【`', ')]"”»“」』）】`', strict=True))
_EVENT = re.compile(rf"[{re.escape(_MARKS)}]+|[{re.escape(''.join(_PAIRS))}]|[\n\r\u2028\u2029]")
_CLOSING = re.compile(r"""["”’'»)\]}」』）】*_`~¹²³⁰⁴-⁹]{0,16}""")
_SPACE = re.compile("[\\s\u200b\ufeff]*")
_CITATION = re.compile(rf"\[\^?\d{{1,4}}(?:\s?[,;–-]\s?\^?\d{{1,4}}){{0,5}}\]|{WIDE_CITATION}|\[citation needed\]")
_CITATION_BEGUN = re.compile(r"\[[\^\d\s,;–-]*$|\[[citaoned ]*$|【[^】\n]*$")
_CITATION_LENGTH = 80
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff10-\uff5a\U00020000-\U0003ffff]")
# Japanese goes on after a quotation with a particle: `「行く。」と言った。`
_GOES_ON = re.compile("[」』）][\u3041-\u309f]")
_LABEL = re.compile(r"\s*[*_]{0,3}\w[^:\n]{0,40}:[*_]{0,3}\s")
_NOT_CONTENT = re.compile(rf"{_CITATION.pattern}|https?://[^\s<>]+|(?i:{TAG})|<!--[^<>]*-->")
_PAIR_LIMIT = 300
"""An opened bracket or quotation that is not closed within so many code points protects nothing."""
_KEEP = 256
_TAIL = 2048

_DECORATION = "\u200b\u200d\ufeff\ufe0f\u20e3" + "".join(
    chr(c)
    for low, high in ((0x2300, 0x2BFF), (0x1F000, 0x1FAFF))
    for c in range(low, high + 1)
    if unicodedata.category(chr(c)) in ("So", "Sk", "Cn")
)
_EDGES = frozenset(_DECORATION + "".join(chr(c) for c in range(0x3001) if chr(c).isspace()))
_LEADING = re.compile(f"[\\s{_DECORATION}]*")
_NO_WORD_YET = re.compile(rf"[\s*_{_DECORATION}{re.escape(''.join(_PAIRS))}]*")


def _trimmed_length(text: str) -> int:
    """Return the length of `text` without white space and decorating emoji at its end."""
    length = len(text)
    while length and text[length - 1] in _EDGES:
        length -= 1
    return length


class _Scanner:
    """Finds the sentences of one block of the layout (a paragraph, a list item, a heading)."""

    def __init__(self, kind: SentenceKind, offset: int, language: str) -> None:
        self.kind = kind
        self.language = language
        self.found: list[tuple[Span, str]] = []
        self._head: list[str] = []  # pieces of the present sentence before the tail
        self._base = offset  # where the tail begins in the answer
        self._raw = ""
        self._mask = ""
        self._pos = 0  # scanned up to here, in the tail
        self._start = offset  # where the present sentence may begin, in the answer
        self._space_known = (-1, -1)  # white space that was skipped already: from, up to

    def push(self, raw: str, mask: str) -> None:
        """Take more of the block."""
        self._raw += raw
        self._mask += mask
        self._scan(final=False)
        self._shorten()

    def close(self) -> None:
        """End the block."""
        self._scan(final=True)
        self._give(len(self._mask))

    def _shorten(self) -> None:
        """Move what was scanned out of the tail, so that a long sentence costs no more per piece than a short one."""
        cut = self._pos - _KEEP
        begun = self._start - self._base
        if begun > 0:
            drop = min(begun, max(cut, 0))
            if drop and self._pos > _TAIL:
                self._cut(drop)
            return
        if self._pos > _TAIL:
            self._head.append(self._raw[:cut])
            self._cut(cut)

    def _cut(self, count: int) -> None:
        self._raw, self._mask = self._raw[count:], self._mask[count:]
        self._base += count
        self._pos -= count
        self._space_known = (-1, -1)

    def _scan(self, *, final: bool) -> None:
        while True:
            event = _EVENT.search(self._mask, self._pos)
            if event is None:
                self._pos = len(self._mask)
                return
            self._pos = event.start()
            character = event.group()[0]
            if character in _MARKS:
                after = self._at_mark(event.end(), final=final)
            elif character in _PAIRS:
                after = self._at_opening(character, final=final)
            else:
                after = self._at_line_break()
            if after is None:
                return
            self._pos = after

    def _skip_space(self, start: int) -> int:
        known_from, known_to = self._space_known
        found = _SPACE.match(self._mask, known_to if start == known_from else start)
        assert found is not None
        self._space_known = (start, found.end())
        return found.end()

    def _at_mark(self, end: int, *, final: bool) -> int | None:
        """Decide at a run of end marks; return where to scan on, or None where more text is needed."""
        mask = self._mask
        mark_end = end
        found = _CLOSING.match(mask, end)
        assert found is not None
        end = found.end()
        # Only the end of a long run matters, so that the run need not be read again with every piece.
        self._pos = max(self._pos, mark_end - LOOKBEHIND)
        if end == len(mask):
            return end if final else None
        mark = mask[self._pos : mark_end]
        wide = mark[-1] in _WIDE_MARKS or self._between_ideographs(mark, mark_end, end)
        after = self._skip_space(end)
        if after == end and not wide and mask[end] not in "[【":
            return end
        if _GOES_ON.match(mask, end - 1):
            return end
        sentence_end = end
        for _ in range(8):
            if after == len(mask):
                return end if final else None
            cited = _CITATION.match(mask, after)
            if cited is None:
                break
            sentence_end = cited.end()
            after = self._skip_space(sentence_end)
        if (
            after < len(mask)
            and not final
            and len(mask) - after < _CITATION_LENGTH
            and _CITATION_BEGUN.match(mask, after)
        ):
            return None
        if after == len(mask):
            return end if final else None
        if after == sentence_end and not wide:
            return end
        return self._decide(mark, sentence_end, after, wide=wide, final=final)

    def _between_ideographs(self, mark: str, mark_end: int, end: int) -> bool:
        """Return whether a western mark stands in East Asian text, where no space follows a sentence."""
        follows = _EAST_ASIAN.match(self._mask, end) is not None
        before = mark_end - len(mark) - 1
        return follows and (mark[-1] in "!?…" or (before >= 0 and _EAST_ASIAN.match(self._mask, before) is not None))

    def _decide(self, mark: str, end: int, after: int, *, wide: bool, final: bool) -> int | None:
        """Ask the boundary rules; end the sentence at `end` where they say so, and begin the next at `after`."""
        right = self._mask[after : after + LOOKAHEAD]
        verdict: bool | None = True
        if not wide:
            begin = max(self._start - self._base, 0)
            left = self._mask[max(begin, self._pos - LOOKBEHIND) : self._pos]
            verdict = is_boundary(
                left,
                mark,
                right,
                self.language,
                at_start=self._start >= self._base and begin >= self._pos - LOOKBEHIND,
                complete=final or len(right) == LOOKAHEAD,
            )
        if verdict is None:
            return None
        if not verdict:
            return end
        self._give(end)
        self._start = self._base + after
        return after

    def _at_opening(self, opening: str, *, final: bool) -> int | None:
        """Skip what an opened bracket or quotation protects: no sentence ends inside."""
        mask, here = self._mask, self._pos
        begin = max(self._start - self._base, 0)
        at_start = self._start >= self._base and here - begin <= 32 and _NO_WORD_YET.fullmatch(mask, begin, here)
        if at_start or (opening in '"`' and here and mask[here - 1].isalnum()):
            return here + 1
        limit = here + 1 + _PAIR_LIMIT
        more = not final and len(mask) < limit
        closing = _PAIRS[opening]
        end = mask.find(closing, here + 1, limit)
        inner = mask.count(opening, here + 1, end) if closing != opening and end > 0 else 0
        for _ in range(min(inner, 4)):
            outer = mask.find(closing, end + 1, limit)
            if outer < 0:
                if more:
                    return None
                break
            end = outer
        if end < 0:
            return None if more else here + 1
        # An end mark just inside the closing one may end the sentence: `He said "Stop." Then he left.`
        inside = len(mask[here:end].rstrip(_MARKS))
        return here + inside if 1 < inside < end - here else end + 1

    def _at_line_break(self) -> int:
        """End the sentence at a line break that is meant: after a colon, a label, or two spaces."""
        after = self._skip_space(self._pos)  # never the end: a break comes with the text of the next line
        begin = max(self._start - self._base, 0, self._pos - _KEEP)
        line = self._mask[begin : self._pos]
        line = line[max(line.rfind(c) for c in "\n\r\u2028\u2029") + 1 :]
        bare = line.rstrip("*_ ")
        hard = line.endswith(("  ", "\\"))
        follower = self._mask[after]
        label = _LABEL.match(line) is not None and (follower.isupper() or follower.isdigit() or follower in "*_")
        if not bare or not (hard or bare.endswith((":", "：")) or label):
            return after
        self._give(self._pos - line.endswith("\\"))
        self._start = self._base + after
        return after

    def _give(self, end: int) -> None:
        """Keep the sentence that ends at `end` (in the tail), if there is anything in it but marks."""
        begin = max(self._start - self._base, 0)
        stop = begin + _trimmed_length(self._mask[begin:end])
        text = "".join(self._head) + self._raw[begin:stop]
        self._head = []
        if self.kind is SentenceKind.HEADING:
            text = re.sub(r"\s#+$", "", text)
        text = text[: _trimmed_length(text)]
        left = _LEADING.match(text).end()  # type: ignore[union-attr]
        text = text[left:]
        if any(c.isalnum() for c in _NOT_CONTENT.sub("", text)):
            start = self._start + left
            self.found.append((Span(start, start + len(text)), text))


class SentenceStream:
    """Splits an answer into sentences while it arrives.

    The sentences of all `feed` calls and of `finish` together are those of `split_sentences` for the whole
    text. Spans count from the beginning of the answer.
    """

    def __init__(self, language: str = "en") -> None:
        """Begin an answer in `language` (a code such as `en`, `it`, `pt-BR`; an unknown one is allowed)."""
        self._language = language
        self._layout = Layout()
        self._scanner: _Scanner | None = None
        self._kind = SentenceKind.PROSE
        self._index = 0

    def feed(self, delta: str) -> list[Sentence]:
        """Take the next piece of the answer and return the sentences that it makes certain."""
        return self._read(self._layout.feed(delta))

    def finish(self) -> list[Sentence]:
        """End the answer and return the sentences that were still open."""
        return self._read(self._layout.finish())

    @property
    def settled(self) -> int:
        """Up to where, in code points, no further sentence can begin (a code block lies there); 0 while one is open."""
        return self._layout.settled

    def _read(self, events: list[Event]) -> list[Sentence]:
        sentences: list[Sentence] = []
        for event in events:
            if isinstance(event, Open):
                self._kind = event.kind
            elif isinstance(event, Text):
                if self._scanner is None:
                    self._scanner = _Scanner(self._kind, event.offset, self._language)
                self._scanner.push(event.raw, event.mask)
            self._collect(sentences, closing=isinstance(event, Close))
        return sentences

    def _collect(self, sentences: list[Sentence], *, closing: bool) -> None:
        if self._scanner is None:
            return
        scanner = self._scanner
        if closing:
            scanner.close()
            self._scanner = None
        for span, text in scanner.found:
            sentences.append(Sentence(index=self._index, span=span, text=text, kind=scanner.kind))
            self._index += 1
        scanner.found = []


def split_sentences(answer: str, language: str = "en") -> tuple[Sentence, ...]:
    """Return the sentences of an answer, in order, with their spans in code points of `answer` as received.

    Markdown is understood: headings, list items and table rows are sentences of their kind, code blocks give
    none, a citation mark such as `[3]` stays with its sentence. Spans exclude surrounding white space, layout
    marks and decorating emoji.
    """
    stream = SentenceStream(language)
    return tuple(stream.feed(answer) + stream.finish())

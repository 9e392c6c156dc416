"""The answer's layout, read line by line while it arrives: paragraphs, headings, list items, tables, code.

`Layout` turns pieces of text into events for the sentence scanner. An event is given as soon as no further text
can change it, and never before, so that the events do not depend on how the text was cut into pieces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from corrigenda.types import SentenceKind

_NEWLINE = re.compile("(\r\n|[\n\r\u2028\u2029])")
_QUOTE = re.compile(r"(?:[ \t]{0,3}>)*")
_SPACE = re.compile("[\\s\u200b\ufeff]*")
_MARKER = re.compile(
    r"(?:[-*+](?=\s)|[•‣◦▪●]|\d{1,3}[.)](?=\s|$)|[A-Za-z]\)(?=\s)|\((?:\d{1,3}|[a-z])\)(?=\s)|\[\^?\d{1,3}\]:)"
    r"\s*(?:\[[ xX]\](?=\s))?"
)
_DELIMITER_ROW = re.compile(r"[\s>]*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_ROW_START = re.compile(r"[\s>]*\|?\s*")
_WATCH = re.compile(r"[|.!?…。！？]")
_CODE_SIGN = re.compile(
    r"[{};=|\\]\s*$|[=!<>+-]=|[-=]>|\w\(|\)\s*:|::|^(?:```|~~~|>>>|//|/\*|\$ |@\w|[})\]]|</?\w)|^[\w.\[\]]+\s*=\s*\S|"
    r"^(?:return|SELECT|INSERT|UPDATE|DELETE|#include)\s\S|^(?:let|const|var)\s\w+\s*=|^from\s\S+\simport\s|"
    r"^import\s[\w.]+(?:\sas\s\w+)?\s*$|^(?:class|struct)\s\w+\s*[:({]|^(?:else|try|finally|do)\s*:|"
    r"^(?:pass|break|continue|end|fi|done)\s*$|^(?:print|echo)\s*[\"'$]|^sudo\s|"
    r"^(?:pip3?|npm|apt|apt-get|brew|conda)\sinstall\s|^git\s(?:clone|add|commit|push|pull|init)\b"
)
_SENTENCE_START = re.compile(r"""["“«'(]?(?:[^\W\d_a-z][\w'’-]*|\d[\d.,]*),?\s""")
_HEAD = 400
"""A line whose kind is not plain after this many code points is kept until it is complete."""
_MARKER_LENGTH = 8


class _Shape(Enum):
    BLANK = "blank"
    CODE = "code"
    FENCE = "fence"
    HEADING = "heading"
    ITEM = "item"
    PROSE = "prose"
    ROW = "row"
    RULE = "rule"


class _Mode(Enum):
    """What is done with the rest of the line that is being read."""

    OPEN = "open"  # its shape is not known yet
    WATCH = "watch"  # prose, unless a pipe comes before the first end mark (then perhaps a table's head)
    HOLD = "hold"  # kept until it is complete
    THROUGH = "through"  # passed on as it comes
    SKIP = "skip"  # dropped


@dataclass(frozen=True, slots=True)
class Open:
    """A block begins."""

    kind: SentenceKind


@dataclass(frozen=True, slots=True)
class Text:
    """More text of the open block, contiguous with what went before; `mask` has spaces for layout marks."""

    offset: int
    raw: str
    mask: str


@dataclass(frozen=True, slots=True)
class Close:
    """The open block ends."""


Event = Open | Text | Close


def _is_code(body: str, after_code: bool) -> bool:
    """Return whether an indented line is code: answers indent prose more often, and prose has to be checked.

    What reads as a sentence is prose; anything else is code if it has a sign of it or follows code (`after_code`).
    """
    ends = body.rstrip()[-1] in ".!?…"
    if ends and _SENTENCE_START.match(body) and len(body.split(maxsplit=2)) == 3:
        return False
    return after_code or _CODE_SIGN.search(body[:_HEAD]) is not None


def _classify(line: str, complete: bool, allow_code: bool, after_code: bool = False) -> tuple[_Shape, int] | None:
    """Return a line's shape and the length of its marks, or None where more of the line is needed."""
    quote = _QUOTE.match(line)
    assert quote is not None
    space = _SPACE.match(line, quote.end())
    assert space is not None
    start = space.end()
    body = line[start:]
    if not body:
        return (_Shape.BLANK, start) if complete else None
    if allow_code and not quote.group() and len(space.group().expandtabs(4)) >= 4:
        if not complete:
            return None
        if _is_code(body, after_code):
            return _Shape.CODE, start
    first = body[0]
    if first in "`~":
        shape = _fence_or_prose(body, complete)
        return shape and (shape, start)
    if first == "|":
        return _Shape.ROW, start
    if first == "#":
        return _heading_or_prose(body, start, complete)
    if first in "-*_=+" and not body.replace(first, "").strip():
        return (_Shape.RULE, start) if complete else None
    return _item_or_prose(body, start, complete)


def _fence_or_prose(body: str, complete: bool) -> _Shape | None:
    run = len(body) - len(body.lstrip(body[0]))
    if run == len(body) and not complete:
        return None
    if run < 3:
        return _Shape.PROSE
    if body[0] == "~":
        return _Shape.FENCE
    if "`" in body[run:]:
        return _Shape.PROSE
    return _Shape.FENCE if complete else None


def _heading_or_prose(body: str, start: int, complete: bool) -> tuple[_Shape, int] | None:
    run = len(body) - len(body.lstrip("#"))
    if run > 6:
        return _Shape.PROSE, start
    if run == len(body):
        return (_Shape.RULE, start) if complete else None
    return (_Shape.HEADING, start + run) if body[run].isspace() else (_Shape.PROSE, start)


def _item_or_prose(body: str, start: int, complete: bool) -> tuple[_Shape, int] | None:
    may_be_marker = body[0] in "-*+•‣◦▪●([" or body[0].isdigit() or (body[0].isascii() and body[0].isalpha())
    if not may_be_marker or (body[0].isalpha() and body[1:2] not in ("", ")")):
        return _Shape.PROSE, start
    if len(body) < _MARKER_LENGTH and not complete:
        return None
    marker = _MARKER.match(body[:_MARKER_LENGTH])
    return (_Shape.ITEM, start + marker.end()) if marker else (_Shape.PROSE, start)


def _is_quoted(line: str) -> bool:
    return line.lstrip(" \t").startswith(">")


def _starts_with_cell(line: str) -> bool:
    """Return whether a pipe comes before the first end mark, as in the head of a table without outer pipes."""
    return (found := _WATCH.search(line)) is not None and found.group() == "|"


class Layout:
    """Reads an answer in pieces; `feed` and `finish` return the events that have become certain."""

    def __init__(self) -> None:
        """Begin at the start of an answer."""
        self._events: list[Event] = []
        self._carriage = ""  # a carriage return whose line feed may come with the next piece
        self._line_start = 0
        self._pieces: list[str] = []  # of the present line, not passed on yet
        self._length = 0  # of the present line so far
        self._mode = _Mode.OPEN
        self._marks = 0  # what stands before the content of the line that is watched
        self._gap = ""  # the line break between the open block and the present line
        self._block: SentenceKind | None = None
        self._quoted = self._in_list = False
        self._after_code = False  # whether an indented line of code came last, blank lines apart
        self._fence: tuple[str, bool] | None = None  # its mark, and whether it stands in a quotation
        self._table = False
        self._row: tuple[int, str] | None = None  # perhaps a table's head: the next line tells

    def feed(self, delta: str) -> list[Event]:
        """Take the next piece of the answer."""
        data = self._carriage + delta
        self._carriage = ""
        if data.endswith("\r"):
            data, self._carriage = data[:-1], "\r"
        parts = _NEWLINE.split(data)
        for index in range(0, len(parts), 2):
            self._take(parts[index])
            if index + 1 < len(parts):
                self._end_line(parts[index + 1])
        return self._drain()

    @property
    def settled(self) -> int:
        """Up to where nothing more can be text, in code points; 0 while a block is open."""
        return self._line_start if self._block is None and self._row is None else 0

    def finish(self) -> list[Event]:
        """End the answer."""
        self._end_line(self._carriage)
        self._settle_row()
        self._close()
        return self._drain()

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _take(self, part: str) -> None:
        """Take a piece of the present line."""
        if not part:
            return
        offset = self._line_start + self._length
        self._length += len(part)
        if self._mode is _Mode.THROUGH:
            self._events.append(Text(offset, part, part))
        elif self._mode is not _Mode.SKIP:
            self._pieces.append(part)
            if self._mode is _Mode.WATCH:
                self._watch(part)
            elif self._mode is _Mode.OPEN:
                self._determine()

    def _line(self) -> str:
        line = "".join(self._pieces)
        self._pieces = [line]
        return line

    def _determine(self) -> None:
        """Settle the shape of the incomplete line, if its beginning suffices."""
        head = self._line()[:_HEAD]
        if self._fence or self._table:
            self._mode = _Mode.HOLD
            return
        if self._row:
            body = head.lstrip(" \t>")
            if not body and len(head) < _HEAD:
                return
            if not body or body[0] in "|-:":
                self._mode = _Mode.HOLD
                return
            self._settle_row()
            if self._table:
                self._mode = _Mode.HOLD
                return
        found = _classify(head, complete=False, allow_code=self._allow_code())
        if found is None:
            self._mode = _Mode.HOLD if len(head) == _HEAD else _Mode.OPEN
        elif found[0] is _Shape.ROW:
            self._mode = _Mode.HOLD
        else:
            self._begin(*found, whole=False)

    def _allow_code(self) -> bool:
        return self._block is None and not self._in_list

    def _end_line(self, newline: str) -> None:
        """Deal with the end of the present line."""
        if self._mode in (_Mode.OPEN, _Mode.HOLD):
            self._whole_line(self._line())
        elif self._mode is _Mode.WATCH:
            self._open_prose(self._marks)
        if self._block is SentenceKind.HEADING:
            self._close()
        self._gap = newline
        self._line_start += self._length + len(newline)
        self._length = 0
        self._pieces = []
        self._mode = _Mode.OPEN

    def _whole_line(self, line: str) -> None:
        """Deal with a complete line whose shape was not settled before."""
        if self._in_fence(line) or ((self._row or self._table) and self._in_table(line)):
            return
        found = _classify(line, complete=True, allow_code=self._allow_code(), after_code=self._after_code)
        assert found is not None
        shape, marks = found
        if shape is _Shape.ROW or (shape is _Shape.PROSE and self._block is None and _starts_with_cell(line)):
            self._close()
            self._row = (self._line_start, line)
        else:
            self._begin(shape, marks, whole=True)

    def _in_fence(self, line: str) -> bool:
        """Return whether the line belongs to an open code block."""
        if self._fence is None:
            return False
        mark, fence_quoted = self._fence
        if fence_quoted and not _is_quoted(line):
            self._fence = None  # a quoted code block ends with its quotation
            return False
        body = line.lstrip(" \t>").rstrip()
        if len(body) >= len(mark) and not body.strip(mark[0]):
            self._fence = None
        return True

    def _in_table(self, line: str) -> bool:
        """Return whether the line belongs to a table; settle a row whose meaning it decides."""
        delimiter = "|" in line and _DELIMITER_ROW.fullmatch(line) is not None
        if self._row and delimiter:
            self._emit_row(SentenceKind.HEADING)
            return True
        self._settle_row()
        if not self._table:
            return False
        if delimiter:
            return True
        found = _classify(line, complete=True, allow_code=False)
        if found is not None and (found[0] is _Shape.ROW or (found[0] is _Shape.PROSE and "|" in line)):
            self._row = (self._line_start, line)
            self._emit_row(SentenceKind.TABLE_ROW)
            return True
        self._table = False
        return False

    def _settle_row(self) -> None:
        """Decide for a row that no delimiter row follows: a row of a bare table, or plain prose."""
        if self._row is None:
            return
        offset, line = self._row
        if _ROW_START.match(line).group().endswith("|") or line.lstrip(" \t>").startswith("|"):  # type: ignore[union-attr]
            self._emit_row(SentenceKind.TABLE_ROW)
            return
        self._row = None
        found = _classify(line, complete=True, allow_code=False)
        assert found is not None
        self._quoted = _is_quoted(line)
        self._open(SentenceKind.PROSE, offset + found[1], line[found[1] :])

    def _emit_row(self, kind: SentenceKind) -> None:
        """Give the kept row, without the pipes at its ends, as a block of its own."""
        assert self._row is not None
        offset, line = self._row
        self._row = None
        self._table = True
        start = _ROW_START.match(line).end()  # type: ignore[union-attr]
        cells = line[start:].rstrip()
        cells = cells[:-1] if cells.endswith("|") and not cells.endswith("\\|") else cells
        self._open(kind, offset + start, cells)
        self._close()

    def _begin(self, shape: _Shape, marks: int, *, whole: bool) -> None:
        """Act on a line's shape; `marks` is the length of what stands before its content."""
        line = self._line()
        quoted = _is_quoted(line)
        if shape is not _Shape.PROSE or quoted is not self._quoted:
            self._close()
        self._quoted = quoted
        self._after_code = shape is _Shape.CODE or (self._after_code and shape is _Shape.BLANK)
        self._mode = _Mode.SKIP
        if shape is _Shape.PROSE:
            self._begin_prose(line, marks, whole=whole)
        elif shape in (_Shape.HEADING, _Shape.ITEM):
            self._in_list = shape is _Shape.ITEM
            kind = SentenceKind.LIST_ITEM if self._in_list else SentenceKind.HEADING
            self._open(kind, self._line_start + marks, line[marks:])
            self._mode = _Mode.THROUGH
        elif shape is _Shape.FENCE:
            body = line[marks:]
            self._fence = (body[: len(body) - len(body.lstrip(body[0]))], quoted)
        elif shape is _Shape.RULE:
            self._in_list = False

    def _begin_prose(self, line: str, marks: int, *, whole: bool) -> None:
        if self._block is not None:
            mask = " " * marks + line[marks:]
            self._events.append(Text(self._line_start - len(self._gap), self._gap + line, self._gap + mask))
            self._mode = _Mode.THROUGH
        elif whole:
            self._open_prose(marks)
        else:
            self._marks = marks
            self._mode = _Mode.WATCH
            self._watch(line)

    def _watch(self, part: str) -> None:
        """Pass prose on at its first end mark; keep a line with a pipe before that, which may head a table."""
        found = _WATCH.search(part)
        if found is not None and found.group() == "|":
            self._mode = _Mode.HOLD
        elif found is not None:
            self._open_prose(self._marks)

    def _open_prose(self, marks: int) -> None:
        line = self._line()
        self._in_list = self._in_list and line[:1].isspace()
        self._open(SentenceKind.PROSE, self._line_start + marks, line[marks:])
        self._mode = _Mode.THROUGH

    def _open(self, kind: SentenceKind, offset: int, text: str) -> None:
        self._block = kind
        self._events += [Open(kind), Text(offset, text, text)]

    def _close(self) -> None:
        if self._block is not None:
            self._block = None
            self._events.append(Close())

"""From the files of a collection to its passages, as a stream: nothing but the present file or line is kept.

- `jsonl`: a line is a passage, with `id`, `text` (or `contents`) and perhaps `title`.
- `text`: a `.txt` or `.md` file is split at paragraphs and sentences into passages of about `words` words; a
  passage's id is `path#n`, n from 1.
- `fever`: a page of FEVER's Wikipedia dump gives passages of whole sentences, about `words` words each; the id is
  `title#first-last`, with the numbers of its first and last sentence, as evidence names them. A passage that is not
  the first of its page begins with the page's title, since its sentences say `he` and `it`.

Blank passages, and passages that came before (the same id, or the same title and text), are left out and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from corrigenda.errors import InputError
from corrigenda.fever_text import display_title, wiki_lines
from corrigenda.retrieval.seen import Seen
from corrigenda.retrieval.source import Kind, Source
from corrigenda.sentences import split_sentences
from corrigenda.types import Passage
from corrigenda.windows import is_blank

WORDS = 100
"""Words of a passage that is cut from a longer text, as in DPR's Wikipedia (Karpukhin et al. 2020)."""
_MARKS = re.compile(r"[ \t>#*+|-]*(?:\d{1,3}[.)][ \t]+)?\Z")
_PARAGRAPH = re.compile(r"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)")


def read(
    source: Source, kind: Kind, *, words: int = WORDS, language: str = "en", counts: Counter[str] | None = None
) -> Iterator[Passage]:
    """Yield the passages of a collection, in its order, each once; `counts` says what there was.

    `words` is about how long passages are that are cut from longer texts, `language` that of their sentences. Keys
    of `counts`: `passages`, `blank`, `duplicate_ids`, `duplicate_texts`, and `pages` or `files`.
    Raises InputError, with the file and the line, for a line that does not have the form of its kind.
    """
    counts = Counter() if counts is None else counts
    ids, texts = Seen(), Seen()
    if kind == "jsonl":
        found = _from_lines(source)
    elif kind == "text":
        found = _from_texts(source, words, language, counts)
    else:
        found = _from_pages(source, words, counts)
    for passage in found:
        if is_blank(passage.text):
            counts["blank"] += 1
        elif not ids.add(passage.id):
            counts["duplicate_ids"] += 1
        elif not texts.add(passage.title or "", " ".join(passage.text.split())):
            counts["duplicate_texts"] += 1
        else:
            counts["passages"] += 1
            yield passage


def _from_lines(source: Source) -> Iterator[Passage]:
    for place, line in source.lines():
        row = _row(line, place)
        text = row.get("text", row.get("contents"))
        if text is None:
            raise InputError(f"{place}: there is no 'text' (or 'contents'); each line must hold 'id' and 'text'")
        number = row.get("id")
        if isinstance(number, int) and not isinstance(number, bool):
            number = str(number)
        title = row.get("title")
        for name, value in (("id", number), ("text", text), ("title", "" if title is None else title)):
            if not isinstance(value, str):
                raise InputError(f"{place}: {name!r} must be a text, got {json.dumps(value)[:200]}")
        if is_blank(str(number)):
            raise InputError(f"{place}: the 'id' is empty; each passage needs one of its own")
        yield Passage(id=_sound(str(number)), text=_sound(text), title=_sound(title) if title else None)


def _row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line.strip())
    except (ValueError, RecursionError) as exc:
        why = f"{exc.msg}, character {exc.pos + 1}" if isinstance(exc, json.JSONDecodeError) else str(exc)
        raise InputError(f"{place}: not JSON ({why}); each line must be an object with 'id' and 'text'") from exc
    if not isinstance(row, dict):
        raise InputError(f"{place}: must be a JSON object with 'id' and 'text', got {line.strip()[:200]!r}")
    return row


def _sound(text: str) -> str:
    """Return a text without halves of characters, which JSON's escapes allow and no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


# FEVER ------------------------------------------------------------------------------------------------------------


def _from_pages(source: Source, words: int, counts: Counter[str]) -> Iterator[Passage]:
    for place, line in source.lines():
        row = _row(line, place)
        page, lines = row.get("id"), row.get("lines")
        if not isinstance(page, str) or not isinstance(lines, str):
            raise InputError(
                f"{place}: a page of FEVER's dump has the texts 'id' and 'lines'; for others, --kind jsonl"
            )
        if is_blank(page):  # the dump's first line
            continue
        counts["pages"] += 1
        title = _sound(display_title(page))
        sentences = {number: _sound(text) for number, text in wiki_lines(lines).items() if not is_blank(text)}
        first = True
        for group in _grouped(sentences, words):
            text = " ".join(sentences[number] for number in group)
            name = f"{title}#{group[0]}-{group[-1]}"
            yield Passage(id=name, title=title, text=text if first else f"{title}: {text}")
            first = False


def _grouped(sentences: dict[int, str], words: int) -> Iterator[list[int]]:
    """Yield the numbers of consecutive sentences that make a passage: `words` words at most, where one has no more."""
    group: list[int] = []
    length = 0
    for number, text in sentences.items():
        size = len(text.split())
        if group and length + size > words:
            yield group
            group, length = [], 0
        group.append(number)
        length += size
    if group:
        yield group


# Texts ------------------------------------------------------------------------------------------------------------


def _from_texts(source: Source, words: int, language: str, counts: Counter[str]) -> Iterator[Passage]:
    for name, text in source.texts():
        counts["files"] += 1
        number = 0
        for piece in split_text(text, words=words, language=language):
            number += 1
            yield Passage(id=f"{name}#{number}", text=piece)
        if not number:
            counts["blank"] += 1


def split_text(text: str, *, words: int = WORDS, language: str = "en") -> Iterator[str]:
    """Yield the passages of a text, in order; together they hold all its words, each once.

    A passage is made of whole sentences and has at most `words` words, or one sentence; a sentence of more than
    twice as many is cut. It ends with its paragraph once it has half as many words.
    """
    bounds = [_before_marks(text, s.span.start) for s in split_sentences(text, language)][1:]
    breaks = [found.end() for found in _PARAGRAPH.finditer(text)]
    starts = sorted({0, *bounds, *breaks, len(text)})
    paragraphs = set(breaks)
    begin, length = 0, 0
    for start, end in pairwise(starts):
        size = len(text[start:end].split())
        if length and (length + size > words or (start in paragraphs and 2 * length >= words)):
            yield from _pieces(text[begin:start], words)
            begin, length = start, 0
        length += size
    yield from _pieces(text[begin:], words)


def _before_marks(text: str, start: int) -> int:
    """Return where the line of a sentence begins if only layout marks (of a list, a heading) stand before it."""
    line = max(text.rfind(mark, max(start - 40, 0), start) for mark in "\n\r") + 1
    return line if _MARKS.match(text, line, start) else start


def _pieces(text: str, words: int) -> Iterator[str]:
    """Yield a passage without white space around it, cut where it is far too long; nothing for a blank one."""
    found = list(re.finditer(r"\S+", text))
    step = words if len(found) > 2 * words else max(len(found), 1)
    for first in range(0, len(found), step):
        yield text[found[first].start() : found[min(first + step, len(found)) - 1].end()]

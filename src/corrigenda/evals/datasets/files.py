"""Reading what a data set is kept in: bytes and their SHA-256, text, lines of JSON; every error names its place."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corrigenda.errors import InputError

MAX_BYTES = 1_000_000_000
"""A larger file is refused: it is read whole, and no known data set of this kind comes near."""
MAX_TEXT = 5_000_000
"""Code points in one text of a row."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The content of a file, and what messages call it."""

    name: str
    """The path, as it was given, or the address."""
    data: bytes

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the content, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def stem(self) -> str:
        """Return the file's name without folder and ending."""
        return Path(self.name).stem


def shown(value: object) -> str:
    """Return a value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def read(path: Path, what: str = "the data set") -> Source:
    """Return the content of a file. Raises InputError when it cannot be read or is larger than MAX_BYTES."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise InputError(f"{what} {str(path)!r} cannot be read: {reason}; give the path of a file") from exc
    if len(data) > MAX_BYTES:
        raise InputError(f"{what} {str(path)!r} is larger than {MAX_BYTES:,} bytes; split it")
    return Source(name=str(path), data=data)


def text_of(source: Source) -> str:
    """Return the whole text, without a byte order mark, line ends as they are.

    Raises InputError when it is empty, or not UTF-8 from end to end; the message names the line and the byte.
    """
    data, name = source.data, source.name
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{name!r} is UTF-16, not UTF-8; convert it, for instance: iconv -f utf-16 -t utf-8")
    if (nul := data.find(b"\x00")) >= 0:
        raise InputError(f"{name!r}, line {_line(data, nul)}: holds a NUL byte; a data set is a text file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        at = exc.start + (len(data) - len(exc.object))  # the decoder does not count a byte order mark
        column = at - data.rfind(b"\n", 0, at)
        raise InputError(
            f"{name!r}, line {_line(data, at)}, byte {column}: 0x{data[at]:02x} is not UTF-8, as what stands before it "
            f"is; write the whole file in one encoding (a line in Windows-1252 or Latin-1 is the usual cause), for "
            f"instance with: iconv -f cp1252 -t utf-8"
        ) from exc
    if not text.strip():
        raise InputError(f"the data set {name!r} is empty; give a file with at least one row")
    return text


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of JSON. Its methods read one value and raise InputError, with the place, when it is not fit."""

    file: str
    number: int
    """The line, from 1."""
    values: Mapping[str, Any]

    def error(self, problem: str) -> InputError:
        """Return an error that names the file and the line."""
        return InputError(f"{self.file!r}, line {self.number}: {problem}")

    def require(self, *names: str) -> None:
        """Raise InputError unless the row has all of these columns."""
        missing = [name for name in names if name not in self.values]
        if missing:
            has = ", ".join(map(repr, self.values)) or "none"
            raise self.error(
                f"column {', '.join(map(repr, missing))} is missing; needed are {', '.join(map(repr, names))}, "
                f"and the row has {has}"
            )

    def text(self, name: str) -> str:
        """Return a text, without white space around it; empty when it is null or not there."""
        value = self.values.get(name)
        return "" if value is None else self.checked(name, value).strip()

    def checked(self, name: str, value: object) -> str:
        """Return `value`, which stands under `name`, as it is, if it is a text that can be worked with."""
        if not isinstance(value, str):
            raise self.error(f"{name!r} must be a text, got {shown(value)}")
        if len(value) > MAX_TEXT:
            raise self.error(
                f"{name!r} has {len(value):,} characters, more than {MAX_TEXT:,}; give only what is needed"
            )
        if found := _SURROGATE.search(value):
            raise self.error(f"{name!r} holds half a character ({found[0]!a}); write its text anew")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a text or a list of texts as a list, blank ones left out; empty when it is null or not there."""
        return self.as_texts(name, self.values.get(name))

    def as_texts(self, name: str, value: object) -> tuple[str, ...]:
        """Return `value`, which stands under `name`, as `texts` does."""
        if value is None:
            return ()
        listed = value if isinstance(value, list) else [value]
        return tuple(text for entry in listed if (text := self.checked(name, entry).strip()))

    def id(self) -> str:
        """Return the row's own `id` (a text or a whole number), or `line-N` when it has none."""
        value = self.values.get("id")
        if value is None:
            return f"line-{self.number}"
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not (text := self.checked("id", value).strip()):
            raise self.error("'id' is empty; give each row its own, or none to all of them")
        return text

    def tags(self) -> dict[str, str]:
        """Return the row's `tags` (an object of texts) and its `category`, for breakdowns."""
        value = self.values.get("tags") or {}
        if not isinstance(value, dict):
            raise self.error(f"'tags' must be an object of texts, got {shown(value)}")
        found = {self.checked("tags", name): self.checked(f"tags.{name}", tag).strip() for name, tag in value.items()}
        return found | ({"category": category} if (category := self.text("category")) else {})


def json_rows(source: Source) -> list[Row]:
    """Return the objects of a file with one JSON object a line; blank lines are passed over.

    Raises InputError, naming the line, for anything that is not strictly that: NaN and infinity (which Python
    would take), a name that comes twice in one object, a line that was cut, an empty file.
    """
    rows = []
    lines = text_of(source).split("\n")  # not splitlines: a text may hold other line separators
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows.append(Row(file=source.name, number=number, values=_object(source.name, number, line, lines)))
    return rows


def _object(name: str, number: int, line: str, lines: Sequence[str]) -> dict[str, Any]:
    place = f"{name!r}, line {number}"
    try:
        value = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice)
    except json.JSONDecodeError as exc:
        # The last line of a whole file ends; one that does not, and is no JSON, was cut.
        cut = "; the file ends in the middle of it: get it anew" if number == len(lines) else ""
        raise InputError(
            f"{place}: is not JSON ({exc.msg}, character {exc.pos + 1} of {len(line)}): {shown(line)}"
            f"{cut or '; write one JSON object a line'}"
        ) from exc
    except (ValueError, RecursionError) as exc:
        reason = "it is nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise InputError(f"{place}: is not JSON that can be used: {reason}") from exc
    if not isinstance(value, dict):
        raise InputError(
            f"{place}: must be a JSON object, got {shown(value)}; a file that is one list becomes lines with: "
            f"jq -c '.[]'"
        )
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON; leave the value out, or write null")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} stands twice in one object; keep one")
    return found


def distinct(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """Return the rows without exact repetitions (every value the same), and how many of those there were.

    Raises InputError when two rows that differ have the same id.
    """
    kept: list[Row] = []
    seen: dict[str, int] = {}
    ids: dict[str, Row] = {}
    for row in rows:
        content = json.dumps(row.values, sort_keys=True)
        if content in seen:
            continue
        seen[content] = row.number
        first = ids.setdefault(row.id(), row)
        if first is not row:
            raise row.error(
                f"the id {row.id()!r} was used on line {first.number} already, for another row; give each its own"
            )
        kept.append(row)
    return kept, len(rows) - len(kept)

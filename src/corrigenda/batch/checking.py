"""The first pass: every row is read and checked before any model is called, and counted. Memory stays flat.

The ids are kept as digests in a temporary SQLite file, and sorted there at the end to find one that is used twice.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from corrigenda.batch.inputs import File
from corrigenda.batch.reading import Columns, place, read
from corrigenda.errors import InputError
from corrigenda.files import OutputFailed

MANY = 1000
"""Ids that are written at a time, and rows between two calls of `progress`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What the input holds."""

    rows: int
    """All of them."""
    asks: int
    """Those without an answer."""
    recalls: int
    """Those with an answer and without contexts."""
    per_file: tuple[int, ...]
    """Rows of each file."""

    @property
    def needs_chat(self) -> bool:
        """Whether some row certainly calls the chat model."""
        return self.asks + self.recalls > 0


def check(files: Sequence[File], columns: Columns, progress: Callable[[int], None] | None = None) -> Counts:
    """Read every row and return how many there are. `progress(rows)` is told now and then.

    Raises InputError, naming file and line, for the first row that is none, for an id that is used twice, for a column
    that `columns` names and no row has, and when there is no row at all.
    """
    asks = recalls = number = 0
    seen: set[str] = set()
    per_file = []
    try:
        with closing(_Ids()) as ids:
            for index, file in enumerate(files):
                first = number
                with closing(read(file, first, columns, seen=seen)) as rows:
                    for row, line in rows:
                        number += 1
                        asks += row.answer is None
                        recalls += row.answer is not None and row.contexts is None
                        ids.add(row.id, index, line)
                        if progress is not None and number % MANY == 0:
                            progress(number)
                per_file.append(number - first)
            twice = ids.twice()
    except sqlite3.Error as exc:
        raise OutputFailed(
            f"the temporary file for the rows' ids cannot be written: {exc}; make room, or set TMPDIR to another folder"
        ) from exc
    if twice is not None:
        places = " and ".join(place(files[index], line) for index, line in twice[1])
        raise InputError(f"the id {twice[0]!r} is used twice: {places}; give each row its own, or none")
    if number == 0:
        raise InputError(f"there is no row in {', '.join(repr(str(file.path)) for file in files[:3])}; check the input")
    for field, name in columns.names.items():
        if name not in seen:  # a slip, which would have answers asked for that are there
            raise InputError(
                f"no row of the input has the column {name!r} (--column {field}={name}); check its name, or leave "
                "it out"
            )
    return Counts(rows=number, asks=asks, recalls=recalls, per_file=tuple(per_file))


class _Ids:
    """Ids as they come; only at the end they are sorted, which SQLite does on the disk."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)  # a temporary file, removed when it is closed
        self._database.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-8000; PRAGMA temp_store=FILE;"
            "CREATE TABLE ids (digest BLOB, file INTEGER, line INTEGER, id TEXT); BEGIN"
        )
        self._waiting: list[tuple[bytes, int, int, str]] = []

    def add(self, name: str, file: int, line: int) -> None:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self._waiting.append((digest, file, line, name[:200].encode("utf-8", "replace").decode()))
        if len(self._waiting) >= MANY:
            self._flush()

    def twice(self) -> tuple[str, list[tuple[int, int]]] | None:
        """Return an id that was used twice, the first by place, with its first two places."""
        self._flush()
        found = self._database.execute(
            "SELECT digest, max(id), min(file * 1000000000000 + line) AS first FROM ids GROUP BY digest "
            "HAVING count(*) > 1 ORDER BY first LIMIT 1"
        ).fetchone()
        if found is None:
            return None
        places = self._database.execute(
            "SELECT file, line FROM ids WHERE digest = ? ORDER BY file, line LIMIT 2", (found[0],)
        ).fetchall()
        return found[1], places

    def close(self) -> None:
        self._database.close()

    def _flush(self) -> None:
        self._database.executemany("INSERT INTO ids VALUES (?, ?, ?, ?)", self._waiting)
        self._waiting.clear()

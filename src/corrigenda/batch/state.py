"""What is done: one SQLite file beside the output (`OUTPUT.state`), written row by row.

A row is there whole or not at all, whatever ends the run: each is a transaction of its own in the write-ahead log, so
that SIGKILL loses no finished row. (Without power, the last ones may be lost; they are then done again.) The payload
is compressed; what is counted and sorted by stands beside it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from corrigenda.batch.manifest import FORMAT
from corrigenda.batch.rows import FAILED, Done, Spent
from corrigenda.errors import InputError
from corrigenda.files import OutputFailed
from corrigenda.locks import try_lock

_COUNTS = tuple(field.name for field in fields(Spent))
_TABLES = f"""
CREATE TABLE manifest (text TEXT NOT NULL);
CREATE TABLE rows (number INTEGER PRIMARY KEY, id TEXT NOT NULL, status TEXT NOT NULL, seconds REAL NOT NULL);
CREATE INDEX failed ON rows (number) WHERE status = '{FAILED}';
CREATE TABLE payloads (number INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE spent (name TEXT PRIMARY KEY, {", ".join(f"{name} INTEGER NOT NULL" for name in _COUNTS)});
"""
_COUNT = (
    f"INSERT INTO spent VALUES (?{', ?' * len(_COUNTS)}) ON CONFLICT (name) DO UPDATE SET "  # noqa: S608  # no text from outside
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _COUNTS)
)


class Slow(NamedTuple):
    """A row that took long."""

    id: str
    seconds: float


def state_path(output: Path) -> Path:
    """Return where the state of a run with this output is kept."""
    return output.with_name(f"{output.name}.state")


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold the output for one run. Raises InputError when another has it, or when its folder cannot be written."""
    path = output.with_name(f"{output.name}.lock")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
    except OSError as exc:
        raise InputError(
            f"the folder of the output {str(output)!r} cannot be written: {exc.strerror or exc}; name another output"
        ) from exc
    with lock:
        if not try_lock(lock):
            raise InputError(
                f"another run is writing to {str(output)!r}; wait for it, or give this one an output of its own"
            )
        yield


class State:
    """The open state of a run. Used from one thread. What the disk refuses is an OutputFailed."""

    def __init__(self, path: Path) -> None:
        """Open or begin the state at `path`. Raises InputError when the file there is no state, or an older one."""
        self.path = path
        self._database = _opened(path)
        try:
            self.manifest: Mapping[str, Any] | None = _manifest(self._database, path)
        except BaseException:
            self._database.close()
            raise

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Say what run this is, or say it anew (names and times of the same input may change)."""
        with self._transaction() as database:
            if self.manifest is None:
                for statement in filter(str.strip, _TABLES.split(";")):
                    database.execute(statement)
            database.execute("DELETE FROM manifest")
            database.execute("INSERT INTO manifest VALUES (?)", (json.dumps(manifest),))
        self.manifest = manifest

    def put(self, done: Done) -> Done:
        """Keep what was made of a row, in the place of what was there; return it as it is kept.

        What JSON cannot hold is kept as a failure that says so. When this returns, the row survives SIGKILL.
        """
        done, payload = _payload(done)
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", (done.number, done.id, done.status, done.seconds)
            )
            database.execute("INSERT OR REPLACE INTO payloads VALUES (?, ?)", (done.number, payload))
            for name, spent in done.spent.items():
                database.execute(_COUNT, (name, *(getattr(spent, count) for count in _COUNTS)))
        return done

    def missing(self, start: int, stop: int, *, retry_failed: bool = False) -> Container[int]:
        """Return the numbers in [start, stop) that are to be done; with `retry_failed` those that failed, too."""
        where = f" AND status != '{FAILED}'" if retry_failed else ""
        query = f"SELECT number FROM rows WHERE number >= ? AND number < ?{where}"  # noqa: S608  # no text from outside
        return set(range(start, stop)).difference(n for (n,) in self._all(query, start, stop))

    def counts(self) -> dict[str, int]:
        """Return how many rows are done, by status."""
        return dict(self._all("SELECT status, count(*) FROM rows GROUP BY status ORDER BY status"))

    def empty(self) -> bool:
        """Whether nothing was done yet."""
        return self.manifest is None or not next(self._all("SELECT EXISTS (SELECT * FROM rows)"))[0]

    def spent(self) -> dict[str, Spent]:
        """Return what all rows cost together, by stage; rows that were done again count each time."""
        return {
            name: Spent(**dict(zip(_COUNTS, counts, strict=True))) for name, *counts in self._all("SELECT * FROM spent")
        }

    def slowest(self, most: int) -> list[Slow]:
        """Return the rows that took longest, the longest first."""
        return [
            Slow(*row) for row in self._all("SELECT id, seconds FROM rows ORDER BY seconds DESC, number LIMIT ?", most)
        ]

    def seconds_at(self, share: float) -> float | None:
        """Return the seconds that this share of the rows took at most (0.5: the median); None without rows."""
        (rows,) = next(self._all("SELECT count(*) FROM rows"))
        if not rows:
            return None
        query = "SELECT seconds FROM rows ORDER BY seconds LIMIT 1 OFFSET ?"
        return float(next(self._all(query, min(int(share * rows), rows - 1)))[0])

    def all(self) -> Iterator[Done]:
        """Yield what is done, in the order of the input, without its cost. Memory stays flat.

        Raises InputError where an entry is damaged.
        """
        query = "SELECT number, id, seconds, payload FROM rows JOIN payloads USING (number) ORDER BY number"
        for number, name, seconds, payload in self._all(query):
            try:
                content = json.loads(zlib.decompress(payload))
                done = Done(number=number, id=name, seconds=seconds, **content)
            except (zlib.error, ValueError, TypeError) as exc:
                raise _no_state(self.path) from exc
            yield done

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        with suppress(sqlite3.Error):
            self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield self._database
            self._database.execute("COMMIT")
        except sqlite3.Error as exc:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise _why(self.path, exc) from exc

    def _all(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._database.execute(query, values)
        except sqlite3.Error as exc:
            raise _why(self.path, exc) from exc


def _opened(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, isolation_level=None, timeout=30)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        return database
    except sqlite3.DatabaseError as exc:
        raise _why(path, exc) from exc


def _manifest(database: sqlite3.Connection, path: Path) -> Mapping[str, Any] | None:
    try:
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return None
        manifest = json.loads(database.execute("SELECT text FROM manifest").fetchone()[0])
    except (sqlite3.Error, ValueError, TypeError) as exc:
        raise _no_state(path) from exc
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise InputError(
            f"{str(path)!r} is a state of format {found!r}; this version of corrigenda goes on from {FORMAT}; go on "
            "with the version that began it, or begin anew with --overwrite"
        )
    return manifest


def _why(path: Path, exc: sqlite3.Error) -> InputError | OutputFailed:
    """Return what to raise: what SQLite says of the file itself is no matter of the disk."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    return _no_state(path) if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) else _refused(path, exc)


def _no_state(path: Path) -> InputError:
    return InputError(
        f"{str(path)!r} is no state of corrigenda batch, or is damaged; move it away, or begin anew with --overwrite"
    )


def _refused(path: Path, exc: Exception) -> OutputFailed:
    return OutputFailed(
        f"the state {str(path)!r} cannot be written or read: {exc}; make room, or check the disk; what is done is "
        "kept, and the same command goes on from it"
    )


def _payload(done: Done) -> tuple[Done, bytes]:
    """Return what is kept of a row, compressed, and the row as it is then."""
    try:
        return done, _compressed(done)
    except (ValueError, TypeError, RecursionError) as exc:
        reason = f"what was made of it cannot be written as JSON: {exc}"
        failed = replace(done, report=None, error=reason, kind=type(exc).__name__)
        return failed, _compressed(failed)


def _compressed(done: Done) -> bytes:
    content = {"report": done.report, "error": done.error, "kind": done.kind}
    return zlib.compress(json.dumps(content, allow_nan=False).encode(), 1)

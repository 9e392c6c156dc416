"""What was recalled and scored, on disk, so that a later run need not do it again: `corrigenda cache info|clear`.

A cache is a help and never a condition. One that is damaged, of another form, locked for long, read-only or on a full
disk costs one warning, and the run goes on without what it cannot have. What is read is text that anybody may have
written: it is parsed as JSON, and checked by whoever asked for it.

**The library** is `diskcache-community`, the maintained continuation of `diskcache`: one SQLite file per kind, safe
with many processes, bounded in size (what was stored first goes first). `diskcache` itself had its last release in
2023 and runs what a file of its says (CVE-2025-69872: values are pickles); `cashews` keeps its files with it. Here
values are texts, and reading anything else is refused. `lmdb` maps its file into memory: of 30 files that were damaged
on purpose (random blocks, some cut short) 6 killed the process with SIGBUS, where SQLite raised an error for all 30.

Nothing of the pairs' texts is kept, only digests and scores; recalled texts are kept as they are, in a folder that its
owner alone may read. Keep it on a local disk: SQLite's log does not work over a network.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrigenda.errors import CorrigendaError, MissingExtra
from corrigenda.shelf import Kept

if TYPE_CHECKING:
    from diskcache_community import Cache as Shelves

KINDS = ("recall", "entail")
"""What is kept: recalled references, and scores of pairs."""
FORM = 1
"""Of the entries; another form is in a folder of another name."""
MAX_BYTES = 4_000_000_000
"""How large each kind may become."""
MAX_WAITING = 20_000
"""Entries that wait to be written; where the disk is slower, more are not kept."""
_LOCKED_S = 10
"""How long another process may keep the file locked."""
_DATABASE = "cache.db"


@dataclass(frozen=True, kw_only=True, slots=True)
class KindInfo:
    """What a cache holds of one kind."""

    kind: str
    entries: int
    bytes: int
    """On disk, with what SQLite needs around the entries."""
    problem: str | None = None
    """Why it cannot be used, where that is so; then nothing is known of its entries."""


class Cache:
    """A folder of replies and scores. For any event loop; the work is done in one thread of its own."""

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Use `folder` (default: in the user's cache); it is made when something is first kept.

        `max_bytes` bounds each kind. `warn` is told once, in one line and perhaps in another thread, when the cache or
        a part of it cannot be used. Nothing is opened yet, and nothing is raised here or later.
        """
        self.folder = default_folder() if folder is None else Path(folder).expanduser()
        """Where it is."""
        self._max_bytes = max_bytes
        self._warn = warn
        self._open: dict[str, Shelves | None] = {}
        """What was opened, by kind; None: it cannot be used."""
        self._unwritable: set[str] = set()
        self._waiting: dict[tuple[str, bytes], str] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="corrigenda-cache")
        self._closed = False

    async def get(self, kind: str, keys: Sequence[bytes]) -> dict[bytes, Kept[Any]]:
        """Return what is kept under these keys, as plain JSON values that nobody has checked."""
        if self._closed or self._open.get(kind, ...) is None:
            return {}
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._get, kind, tuple(keys))

    def put(self, kind: str, made: Mapping[bytes, Kept[Any]]) -> None:
        """Keep plain JSON values; they are written soon, and by `aclose` at the latest."""
        texts = {(kind, key): json.dumps([kept.value, kept.seconds]) for key, kept in made.items()}
        with self._lock:
            idle = not self._waiting
            if self._closed or kind in self._unwritable or len(self._waiting) + len(texts) > MAX_WAITING:
                return
            self._waiting.update(texts)
            if idle:
                self._worker.submit(self._write)

    async def aclose(self) -> None:
        """Write what waits, and close the files. May be called twice."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._worker.submit(self._close)
        self._worker.shutdown()

    def _close(self) -> None:
        """Write what waits (in the worker thread), and close the files."""
        self._write()
        for shelves in self._open.values():
            if shelves is not None:
                shelves.close()

    def _get(self, kind: str, keys: Sequence[bytes]) -> dict[bytes, Kept[Any]]:
        """Look the keys up (in the worker thread)."""
        shelves = self._shelves(kind)
        found: dict[bytes, Kept[Any]] = {}
        try:
            for key in keys if shelves is not None else ():
                kept = _kept(shelves.get(key)) if shelves is not None else None
                if kept is not None:
                    found[key] = kept
        except Exception as exc:  # SQLite's, the system's, and the library's own for what it refuses to read
            self._open[kind] = None
            self._tell(f"cannot be read ({_told(exc)}); the run goes on without it")
        return found

    def _write(self) -> None:
        """Write what waits (in the worker thread), each kind in one transaction."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for kind in {kind for kind, _ in waiting} - self._unwritable:
            shelves = self._shelves(kind)
            if shelves is None:
                continue
            try:
                with shelves.transact():
                    for key, text in ((key, text) for (of, key), text in waiting.items() if of == kind):
                        shelves.set(key, text)
                if shelves.volume() > self._max_bytes:
                    shelves.cull()
            except Exception as exc:  # as above; a full disk, a file that may not be written
                self._unwritable.add(kind)
                self._tell(f"cannot be written ({_told(exc)}); the run goes on, and keeps nothing more")

    def _shelves(self, kind: str) -> Shelves | None:
        """Return what holds one kind (in the worker thread); None when it cannot be used."""
        if kind not in self._open:
            try:
                self._open[kind] = _opened(self.folder / f"{kind}-{FORM}", self._max_bytes)
            except MissingExtra as exc:
                self._open[kind] = None
                self._tell(f"is not used: {exc}")
            except Exception as exc:  # a folder that cannot be made, a file that is none of SQLite's, of another form
                self._open[kind] = None
                self._tell(f"cannot be opened ({_told(exc)}); the run goes on without it")
        return self._open[kind]

    def _tell(self, what: str) -> None:
        """Warn once."""
        warn, self._warn = self._warn, None
        if warn is not None:
            warn(f"the cache {str(self.folder)!r} {what}; `corrigenda cache clear` makes a new one")


def default_folder() -> Path:
    """Return the folder in the user's cache."""
    import platformdirs  # noqa: PLC0415  # only needed here, and the import costs start-up time

    return platformdirs.user_cache_path("corrigenda") / "batch"


def info(folder: Path) -> tuple[KindInfo, ...]:
    """Return what is in a cache's folder, by kind; nothing is made. Raises MissingExtra."""
    return tuple(_info(folder / f"{kind}-{FORM}", kind) for kind in KINDS)


def clear(folder: Path) -> tuple[KindInfo, ...]:
    """Remove all entries and return what there was. A run that uses the cache at this moment goes on.

    Files that cannot be read are removed. Raises MissingExtra, and CorrigendaError when something cannot be removed.
    """
    before = info(folder)
    for found in before:
        place = folder / f"{found.kind}-{FORM}"
        if not (place / _DATABASE).exists():
            continue
        try:
            with _opened(place, MAX_BYTES) as shelves:
                shelves.clear()
        except Exception:  # damaged: what it holds is no entries any more
            _remove(place)
    return before


def _opened(place: Path, max_bytes: int) -> Shelves:
    """Open what holds one kind. Raises MissingExtra, and whatever the library raises."""
    if importlib.util.find_spec("diskcache_community") is None:
        raise MissingExtra("the cache", "diskcache_community", "batch")
    import diskcache_community as library  # noqa: PLC0415  # only where it is used

    class Texts(library.SafeDisk):
        """Reads texts alone: nothing in a file is ever run."""

        def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> Any:
            if mode not in (library.core.MODE_RAW, library.core.MODE_TEXT):
                raise ValueError(f"an entry of the unknown mode {mode!r}")
            return super().fetch(mode, filename, value, read)

    return library.Cache(
        str(place),
        timeout=_LOCKED_S,
        disk=Texts,
        size_limit=max_bytes,
        cull_limit=0,  # done after each transaction, once
        sqlite_cache_size=1024,  # pages: 4 MB in memory, where the library would take 32
        sqlite_mmap_size=0,  # a file that is cut short while it is mapped would end the process
        eviction_policy="least-recently-stored",
    )


def _kept(text: Any) -> Kept[Any] | None:
    """Return an entry; None where there is none, or none that can be read."""
    if not isinstance(text, str):
        return None
    try:
        value, seconds = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    right = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < math.inf
    return Kept(value, float(seconds)) if right else None


def _info(place: Path, kind: str) -> KindInfo:
    if not (place / _DATABASE).exists():
        return KindInfo(kind=kind, entries=0, bytes=0)
    try:
        with _opened(place, MAX_BYTES) as shelves:
            return KindInfo(kind=kind, entries=len(shelves), bytes=shelves.volume())
    except MissingExtra:
        raise
    except Exception as exc:  # as in `Cache`
        return KindInfo(kind=kind, entries=0, bytes=0, problem=_told(exc))


def _remove(place: Path) -> None:
    """Remove the files of a cache, and nothing else. Raises CorrigendaError."""
    try:
        for path in place.iterdir():
            if path.name.startswith(_DATABASE):
                path.unlink()
            elif re.fullmatch("[0-9a-f]{2}", path.name) and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
    except OSError as exc:
        raise CorrigendaError(f"{str(place)!r} cannot be cleared: {exc.strerror or exc}; remove it yourself") from exc


def _told(exc: Exception) -> str:
    lines = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {lines[0]}" if lines else type(exc).__name__

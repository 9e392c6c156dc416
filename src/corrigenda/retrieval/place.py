"""The place of an index on disk: what may be replaced there, and how a new one takes it, whole or not at all.

A build works in a folder beside the place, `.NAME.XXXXXXXX.building`: `new` is the index in the making, `old` the one
that it replaces, and `lock` is held for as long as the process lives. So a folder that a dead process left can be told
from one that is in use, and the next build for the same place removes it.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from corrigenda.backends.retrieve_index import FILES, FORMAT, MANIFEST
from corrigenda.errors import InputError
from corrigenda.locks import try_lock

NEW, OLD, LOCK = "new", "old", "lock"
_SHOWN = 5
"""Entries of a folder that a message names."""
_LIBRARY = re.compile(r"meta\.json|\.managed\.json|\.tantivy-[a-z]+\.lock|[0-9a-f]{32}(?:\.[0-9a-z]+)+")
"""The names that the search library gives its files."""
_TRIES = 10


def resolved(directory: Path) -> Path:
    """Return where the index is to be: of a link, what it points at, so that the link stays one. Raises InputError."""
    try:
        return directory.resolve()
    except (OSError, RuntimeError) as exc:  # RuntimeError: links in a circle
        raise InputError(f"the index {str(directory)!r} leads nowhere ({exc}); give another folder") from exc


# What is there --------------------------------------------------------------------------------------------------------


def check(target: Path, shown: str, *, replace: bool) -> None:
    """Raise InputError unless an index may be written to `target`; `shown` is its name in messages.

    It may where there is nothing, or an empty folder, and with `replace` where there is an index and nothing else. An
    index is told by its manifest. One whose manifest cannot be read any more may be replaced too, as long as the folder
    holds nothing but that manifest and files of the search library, by their names.
    """
    if not target.exists():
        return
    alone = "it is left alone: give another folder"
    if not target.is_dir():
        raise InputError(f"{shown!r} exists and is no index of corrigenda (it is no folder); {alone}")
    try:
        entries = sorted(path.name for path in target.iterdir())
        if not entries:
            return
        manifest = _manifest(target)
        foreign = _foreign(target, manifest)
    except OSError as exc:
        raise InputError(f"{shown!r} cannot be looked into: {exc.strerror}; {alone}") from exc
    if manifest is None:
        raise InputError(f"{shown!r} exists and is no index of corrigenda (it holds {_names(entries)}); {alone}")
    if foreign:
        raise InputError(
            f"{shown!r} is not replaced: it holds what is no part of an index of corrigenda ({_names(foreign)}); move "
            "that away, or give another folder"
        )
    if not replace:
        raise InputError(f"there is an index in {shown!r} already; give another folder, or replace it with --replace")


def _manifest(target: Path) -> dict[str, object] | None:
    """Return the manifest of an index, empty where it is damaged; None where the folder is no index. Raises OSError."""
    path = target / MANIFEST
    if path.is_symlink() or not path.is_file():
        return None
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        # Other programs have files of this name too, so the library's folder must be there to tell whose it was.
        return {} if _is_folder(target / FILES) else None
    return data if isinstance(data, dict) and data.get("format") == FORMAT else None


def _foreign(target: Path, manifest: dict[str, object] | None) -> list[str]:
    """Return the entries that are no part of an index: other names, links, folders in the library's folder.

    Where the manifest can be read, a file that it lists is a part whatever its name. Raises OSError.
    """
    files = (manifest or {}).get("files")
    named = [entry.get("name") for entry in files if isinstance(entry, dict)] if isinstance(files, list) else []
    listed = {name for name in named if isinstance(name, str)}
    found = []
    for path in sorted(target.iterdir()):
        if path.name == FILES and _is_folder(path):
            found += [f"{FILES}/{inner.name}" for inner in sorted(path.iterdir()) if not _is_part(inner, listed)]
        elif path.name != MANIFEST:
            found.append(path.name)
    return found


def _is_part(path: Path, listed: set[str]) -> bool:
    named = f"{FILES}/{path.name}" in listed or _LIBRARY.fullmatch(path.name) is not None
    return named and path.is_file() and not path.is_symlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _names(entries: list[str]) -> str:
    more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
    return ", ".join(map(repr, entries[:_SHOWN])) + more


# Working beside it ----------------------------------------------------------------------------------------------------


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Make a folder beside `target` to build in, and remove it in the end. Raises OSError when it cannot be made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work, lock = _locked(target)
    with lock:
        try:
            (work / NEW).mkdir()
            yield work
        finally:
            _clear(work, target, lock)


def _locked(target: Path) -> tuple[Path, IO[bytes]]:
    """Return a new folder and its lock, which is held."""
    for _ in range(_TRIES):
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".building", dir=target.parent))
        try:
            lock = (work / LOCK).open("ab")
        except FileNotFoundError:  # another build took it for one that was left, before it was locked
            continue
        with suppress(OSError):  # a file system that has no locks
            if not try_lock(lock) or not (work / LOCK).exists():
                lock.close()
                continue
        return work, lock
    raise FileExistsError(17, "other builds keep removing what this one begins")


def put(work: Path, target: Path) -> None:
    """Move the index that was built in `work` into its place; what was there goes when `work` does. Raises OSError."""
    if target.exists():
        target.rename(work / OLD)
    (work / NEW).rename(target)


def recover(target: Path) -> None:
    """Remove what builds for this place left beside it when they were killed; never raises, what cannot go stays.

    One that was killed between moving the old index away and the new one in has the only index: it is put back.
    """
    for work in _left(target):
        with suppress(OSError), (work / LOCK).open("ab") as lock:  # OSError also where a file system has no locks
            if try_lock(lock):
                _clear(work, target, lock)


def _clear(work: Path, target: Path, lock: IO[bytes]) -> None:
    """Put the old index back where there is no other in its place, and remove the folder of a build."""
    with suppress(OSError):
        if (work / OLD).exists() and not target.exists():
            (work / OLD).rename(target)
        # While it is locked, or a new build might take the folder for its own.
        shutil.rmtree(work, ignore_errors=True)
        lock.close()
        shutil.rmtree(work, ignore_errors=True)  # where an open file cannot be removed


def _left(target: Path) -> list[Path]:
    """Return the folders beside a place that are builds by their names and by what is in them."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.building")
    found = []
    with suppress(OSError):
        for path in sorted(target.parent.iterdir()):
            if name.fullmatch(path.name) and _is_folder(path) and {p.name for p in path.iterdir()} <= {NEW, OLD, LOCK}:
                found.append(path)
    return found

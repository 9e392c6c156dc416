"""Which files a batch reads: files, folders and globs become a list of files, each with its format and compression."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from corrigenda.errors import InputError, MissingExtra

Format = Literal["jsonl", "parquet"]
Compression = Literal["gzip", "zstd"]
LINES = (".jsonl", ".ndjson")
COMPRESSED: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
KNOWN = ".jsonl, .ndjson (each also with .gz or .zst behind it) or .parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file of rows."""

    path: Path
    format: Format
    compression: Compression | None = None


def require_arrow() -> None:
    """Raise MissingExtra when pyarrow is not installed. Imports nothing."""
    if find_spec("pyarrow") is None:
        raise MissingExtra("corrigenda batch", "pyarrow", "batch")


def kind_of(path: Path, what: str) -> File:
    """Return a file with the format that its name says. Raises InputError; `what` is its role in the message."""
    name = path.name.lower()
    compression = next((kind for ending, kind in COMPRESSED.items() if name.endswith(ending)), None)
    stem = name.rpartition(".")[0] if compression else name
    if stem.endswith(LINES):
        return File(path=path, format="jsonl", compression=compression)
    if name.endswith(".parquet"):
        return File(path=path, format="parquet")
    raise InputError(f"{what} {str(path)!r} has an ending that says no known format; name it {KNOWN}")


def files_of(inputs: Sequence[str], output: Path) -> tuple[File, ...]:
    """Return the files that `inputs` (files, folders, globs) name, in the order given, each folder's by path.

    Of a folder, every file counts whose name has a known ending, in subfolders too, but for hidden ones and those
    that begin with `_`. The output and what stands beside it are never input, unless it is named as such, which is
    refused. Raises InputError when something is missing, twice there, or of no known format.
    """
    found: list[File] = []
    for name in inputs:
        path = Path(name)
        if path.is_dir():
            some = [kind_of(each, "the input") for each in sorted(path.rglob("*")) if _belongs(each, path, output)]
            if not some:
                raise InputError(f"the input folder {name!r} has no file to read; there must be some named {KNOWN}")
        elif path.exists():
            if _same(path, output):
                raise InputError(
                    f"{name!r} is both input and output; name another output, or quote the pattern that it fits"
                )
            if not path.is_file():
                raise InputError(f"the input {name!r} is no file, and is read more than once; write it to a file")
            some = [kind_of(path, "the input")]
        else:
            some = _globbed(name, output)
        found += some
    _refuse_twice(found)
    return tuple(found)


def _belongs(path: Path, folder: Path, output: Path) -> bool:
    parts = path.relative_to(folder).parts
    if any(part.startswith((".", "_")) for part in parts) or not path.is_file() or _same(path, output):
        return False
    endings = (*LINES, *(line + ending for line in LINES for ending in COMPRESSED), ".parquet")
    return path.name.lower().endswith(endings)


def _globbed(pattern: str, output: Path) -> list[File]:
    names = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else []
    paths = [path for path in map(Path, names) if path.is_file() and not _same(path, output)]
    if not paths:
        what = "no file fits the pattern" if glob.has_magic(pattern) else "there is no file or folder"
        raise InputError(f"{what} {pattern!r}; check the path")
    return [kind_of(path, "the input") for path in paths]


def _same(first: Path, second: Path) -> bool:
    return first.resolve() == second.resolve()


def _refuse_twice(files: Iterable[File]) -> None:
    seen: dict[Path, Path] = {}
    for file in files:
        where = file.path.resolve()
        if where in seen:
            raise InputError(f"{str(file.path)!r} is named twice in the input; name each file once")
        seen[where] = file.path


@dataclass(frozen=True, kw_only=True, slots=True)
class Print:
    """By what a file is known again."""

    name: str
    size: int
    mtime_ns: int
    sha256: str


def stat_of(file: File) -> tuple[int, int]:
    """Return a file's size in bytes and its time of change in nanoseconds. Raises InputError."""
    try:
        stat = file.path.stat()
    except OSError as exc:
        raise unreadable(file.path, exc) from exc
    return stat.st_size, stat.st_mtime_ns


def print_of(file: File, known: Print | None = None) -> Print:
    """Return a file's print; the whole file is read, but for one whose name, size and time are `known`.

    Raises InputError when it cannot be read.
    """
    size, changed = stat_of(file)
    if known is not None and (known.name, known.size, known.mtime_ns) == (str(file.path), size, changed):
        return known
    digest = hashlib.sha256()
    try:
        with file.path.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as exc:
        raise unreadable(file.path, exc) from exc
    return Print(name=str(file.path), size=size, mtime_ns=changed, sha256=digest.hexdigest())


def unreadable(path: Path, exc: Exception) -> InputError:
    """Return what to raise where a file cannot be read."""
    reason = getattr(exc, "strerror", None) or " ".join(str(exc).split())
    return InputError(f"the input {str(path)!r} cannot be read: {reason}; check the path, or get the file anew")

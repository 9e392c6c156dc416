"""The files of a collection: found, read once from end to end, counted and hashed on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from corrigenda.backends.retrieve_index import FileInfo
from corrigenda.errors import InputError

Kind = Literal["jsonl", "text", "fever"]
"""How a source is read: JSON lines, a folder of text files, FEVER's dump of Wikipedia."""
KINDS: tuple[Kind, ...] = get_args(Kind)
_SUFFIXES = {"jsonl": (".jsonl",), "text": (".txt", ".md"), "fever": (".jsonl",)}
_FEVER = "wiki-"
_MAX_TEXT = 100_000_000


def find(path: Path, kind: Kind | None = None) -> tuple[Kind, tuple[Path, ...]]:
    """Return how the source at `path` is to be read, and its files, sorted by their paths.

    Without a `kind`: a folder with files `wiki-*.jsonl`, or such a file, is FEVER's dump; any other `.jsonl` is
    JSON lines; `.txt` and `.md` are texts. Folders are searched to the bottom; names that begin with a dot are
    left out. Raises InputError when there is no such path, no file of the kind in it, or files of two kinds.
    """
    if not path.exists():
        raise InputError(f"the source {str(path)!r} does not exist; give a file or a folder")
    every = [path] if path.is_file() else _below(path)
    if kind is None:
        kind = _guess(path, every)
    files = tuple(file for file in every if file.suffix.lower() in _SUFFIXES[kind])
    if kind == "fever" and not path.is_file():
        files = tuple(file for file in files if file.name.startswith(_FEVER))
    if not files:
        wanted = f"{_FEVER}*.jsonl" if kind == "fever" else " or ".join(_SUFFIXES[kind])
        raise InputError(f"the source {str(path)!r} holds no {wanted} file, as the kind {kind!r} needs")
    return kind, files


def _below(folder: Path) -> list[Path]:
    found = (p for p in folder.rglob("*") if not any(part.startswith(".") for part in p.relative_to(folder).parts))
    return sorted(file for file in found if file.is_file())


def _guess(path: Path, files: Sequence[Path]) -> Kind:
    lines = [file for file in files if file.suffix.lower() == ".jsonl"]
    texts = [file for file in files if file.suffix.lower() in _SUFFIXES["text"]]
    if lines and texts:
        raise InputError(f"the source {str(path)!r} holds both .jsonl files and texts; say which kind to read (--kind)")
    if lines:
        return "fever" if all(file.name.startswith(_FEVER) for file in lines) else "jsonl"
    if texts:
        return "text"
    raise InputError(
        f"the source {str(path)!r} holds nothing to read: no .jsonl, .txt or .md file (unpack archives first)"
    )


class Source:
    """Files that are read one after the other, each once; `infos` then says what they were."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        """Take the files at or below `root`. Raises OSError when one is gone."""
        self._files = [(file.name if file == root else file.relative_to(root).as_posix(), file) for file in files]
        self.total = sum(file.stat().st_size for file in files)
        """Bytes of all files."""
        self.done = 0
        """Bytes read so far."""
        self.infos: list[FileInfo] = []
        """The files that were read to their ends."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield each line that is not blank as (place, text); the place (`file, line 3`) is for messages.

        Raises InputError, with the place, for a line that is not UTF-8 or a file that cannot be read.
        """
        for name, path in self._files:
            try:
                yield from self._lines_of(name, path)
            except OSError as exc:
                raise InputError(f"{str(path)!r} cannot be read: {exc.strerror}; check its permissions") from exc

    def _lines_of(self, name: str, path: Path) -> Iterator[tuple[str, str]]:
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as file:
            for number, data in enumerate(file, start=1):
                digest.update(data)
                size += len(data)
                self.done += len(data)
                place = f"{str(path)!r}, line {number}"
                text = _decoded(data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data, place)
                if text.strip():
                    yield place, text
        self.infos.append(FileInfo(name=name, bytes=size, sha256=digest.hexdigest()))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each file as (name in the source, text).

        Raises InputError for a file that cannot be read, is not UTF-8, is binary, or is larger than 100,000,000
        bytes.
        """
        for name, path in self._files:
            try:
                size = path.stat().st_size
                if size > _MAX_TEXT:
                    raise InputError(f"{str(path)!r} is larger than {_MAX_TEXT:,} bytes; split it into smaller files")
                data = path.read_bytes()
            except OSError as exc:
                raise InputError(f"{str(path)!r} cannot be read: {exc.strerror}; check its permissions") from exc
            if b"\x00" in data:
                raise InputError(f"{str(path)!r} is a binary file (it holds a NUL byte); leave it out of the folder")
            self.done += len(data)
            self.infos.append(FileInfo(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))
            yield name, _decoded(data.removeprefix(b"\xef\xbb\xbf"), repr(str(path)))


def _decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(
            f"{place}: not UTF-8 (byte {exc.start} is 0x{data[exc.start]:02x}); convert the file first, for "
            "instance: iconv -f latin1 -t utf-8"
        ) from exc

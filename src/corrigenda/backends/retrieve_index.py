"""The folder of an index: its manifest, what is checked before it is used, and how it comes into being.

A folder holds `manifest.json` and, in `tantivy/`, the files of the search library. The manifest says what the
index was made of and how, and holds the size and the SHA-256 of each file: a damaged file may crash the library
or, worse, find wrong passages without a word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corrigenda.backends.retrieve_terms import TERMS_VERSION
from corrigenda.errors import InputError

FORMAT = "corrigenda-index"
VERSION = 1
"""Version of the folder's layout and of the manifest. Any other version is refused: an index is soon made anew."""
MANIFEST = "manifest.json"
FILES = "tantivy"
"""The folder of the library's own files, beside the manifest."""
CHECKED_WHOLE = 256_000_000
"""Bytes up to which all checksums are compared at every opening; of a larger index only the sizes are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileInfo:
    """A file as it was when the index was made."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What an index holds and what it was made of."""

    kind: str
    """How the source was read: `jsonl`, `text` or `fever`."""
    source: str
    """The path of the source, as it was given."""
    sources: tuple[FileInfo, ...]
    """The files that were read, by their names in the source."""
    counts: Mapping[str, int]
    """`passages` in the index; what was left out on the way, by reason."""
    settings: Mapping[str, Any]
    """What shaped the passages and their terms."""
    library: str
    """The search library and its version."""
    files: tuple[FileInfo, ...]
    """The files of the index, by their paths below its folder."""
    format: str = field(default=FORMAT)
    version: int = field(default=VERSION)
    terms: int = field(default=TERMS_VERSION)

    @property
    def passages(self) -> int:
        """Number of passages in the index."""
        return self.counts.get("passages", 0)

    @property
    def size(self) -> int:
        """Bytes of the index on disk, without the manifest."""
        return sum(file.bytes for file in self.files)


def file_info(path: Path, name: str) -> FileInfo:
    """Return a file's size and checksum under the name given. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return FileInfo(name=name, bytes=path.stat().st_size, sha256=digest.hexdigest())


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest into the folder of an index. Raises OSError."""
    text = json.dumps(asdict(manifest), ensure_ascii=False, indent=2)
    (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Return the manifest of the index in a folder; its files are not looked at.

    Raises InputError when there is no such folder, no index in it, or one of another version.
    """
    shown = repr(str(directory))
    remedy = f"make one with: corrigenda index build SOURCE {directory}"
    if not directory.is_dir():
        what = "is a file, not the folder of an index" if directory.exists() else "does not exist"
        raise InputError(f"the index {shown} {what}; {remedy}")
    path = directory / MANIFEST
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{shown} holds no index (there is no {MANIFEST}); {remedy}") from None
    except OSError as exc:
        raise InputError(f"the index {shown} cannot be read: {exc.strerror}; check its permissions") from exc
    except (ValueError, RecursionError) as exc:  # not UTF-8, or not JSON
        raise InputError(f"the index {shown} is damaged: {MANIFEST} is not JSON ({exc}); {_again(directory)}") from exc
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"{shown} holds no index of corrigenda (its {MANIFEST} says something else); {remedy}")
    for name, wanted in (("version", VERSION), ("terms", TERMS_VERSION)):
        if data.get(name) != wanted:
            raise InputError(
                f"the index {shown} was made by another version of corrigenda ({name} {data.get(name)!r}, this one "
                f"reads {wanted}); {_again(directory)}"
            )
    try:
        return Manifest(
            **data
            | {name: tuple(FileInfo(**entry) for entry in data[name]) for name in ("sources", "files")}
            | {"counts": dict(data["counts"]), "settings": dict(data["settings"])}
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise InputError(
            f"the index {shown} is damaged: {MANIFEST} is not as it was written ({exc}); {_again(directory)}"
        ) from exc


def check_files(directory: Path, manifest: Manifest, *, whole: bool | None = None) -> bool:
    """Compare the files of an index with its manifest; return whether their checksums were compared too.

    `whole` None: the checksums only where the index is small enough for that to take no time worth mentioning.
    Raises InputError when a file is missing, cannot be read or differs.
    """
    whole = manifest.size <= CHECKED_WHOLE if whole is None else whole
    for file in manifest.files:
        path = directory / file.name
        try:
            same = path.stat().st_size == file.bytes and (not whole or file_info(path, file.name) == file)
        except OSError as exc:
            raise InputError(
                f"the index {str(directory)!r} is damaged: {file.name} cannot be read ({exc.strerror}); "
                f"{_again(directory)}"
            ) from exc
        if not same:
            raise InputError(
                f"the index {str(directory)!r} is damaged: {file.name} is not as it was written; {_again(directory)}"
            )
    return whole


def _again(directory: Path) -> str:
    return f"make it anew: corrigenda index build SOURCE {directory} --replace"

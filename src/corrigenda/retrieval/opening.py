"""From a path to what can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from corrigenda import backends
from corrigenda.errors import InputError
from corrigenda.ports import Retriever
from corrigenda.retrieval.passages import read
from corrigenda.retrieval.source import Source, find

MAX_MEMORY = 50_000_000
"""Bytes of a file up to which it is searched in memory, without an index."""


def open_retriever(path: str | Path) -> Retriever:
    """Return the retriever over the index in a folder, or over a small `.jsonl` file, which is read into memory.

    Blocks while it reads. Raises InputError when there is neither, when the index is damaged or of another version,
    when the file is larger than 50,000,000 bytes, holds no passage or a line that is none, and MissingExtra when an
    index's library is not installed.
    """
    path = Path(path)
    if not path.is_file() or path.suffix.lower() != ".jsonl":
        return cast(Retriever, backends.load("retrieve bm25", path))
    if path.stat().st_size > MAX_MEMORY:
        raise InputError(
            f"{str(path)!r} is larger than {MAX_MEMORY:,} bytes, which is too much to search in memory; make an index: "
            f"corrigenda index build {path} DIR"
        )
    kind, files = find(path)
    retriever = backends.load("retrieve memory", read(Source(path, files), kind), name=f"memory:{path}")
    if not len(retriever):
        raise InputError(f"{str(path)!r} holds no passage with text in it")
    return cast(Retriever, retriever)

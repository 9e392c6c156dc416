"""An index on disk, ranked by BM25, on the search library tantivy: for collections of any size.

It is read through memory maps, so that opening it takes no time and little memory. The library gets the terms of
`retrieve_terms`, already cut, and the looked-up terms of a query; its own analysers and its query language are not
used. docs/retrieval.md says why this library.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from corrigenda import backends
from corrigenda.backends.retrieve_index import FILES, Manifest, check_files, file_info, read_manifest
from corrigenda.backends.retrieve_memory import check_k
from corrigenda.backends.retrieve_terms import query_terms, terms
from corrigenda.errors import BackendError, InputError
from corrigenda.types import Passage

T = TypeVar("T")

_HEAP = 128_000_000
"""Bytes of the writer's buffer; it is written out whenever it is full."""
_TIES = 4096
"""Hits that are looked at to put equal scores into the order of the collection; beyond, the index's own stands."""


class Bm25Retriever:
    """A Retriever over the index in a folder. Equal scores are in the order of the collection."""

    def __init__(self, directory: str | Path) -> None:
        """Open the index; nothing is written to its folder but the library's own lock, which is empty.

        Raises InputError when there is no index, when it is damaged or of another version, and MissingExtra when
        the search library is not installed.
        """
        backends.require("retrieve bm25")
        self._directory = Path(directory)
        self.manifest: Manifest = read_manifest(self._directory)
        check_files(self._directory, self.manifest)
        self._view: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        try:
            self._index: Any = _guarded(self._open)
        except BackendError as exc:
            raise InputError(
                f"the index {str(directory)!r}, made with {self.manifest.library}, cannot be opened with "
                f"{library()}: {exc}; make it anew: corrigenda index build SOURCE {directory} --replace"
            ) from exc

    @property
    def name(self) -> str:
        """`bm25:DIR`."""
        return f"bm25:{self._directory}"

    def __len__(self) -> int:
        """Return the number of passages."""
        return self.manifest.passages

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return, per query, the `k` best passages, best first; see the port.

        Raises InputError when k is less than 1, BackendError when the index cannot be read or was closed.
        """
        check_k(k)
        return await asyncio.to_thread(_guarded, lambda: self._search(queries, k))

    async def aclose(self) -> None:
        """Let the files go. May be called twice."""
        with self._lock:
            self._index = None
            view, self._view = self._view, None
        if view is not None:
            view.cleanup()

    def _open(self) -> Any:
        import tantivy  # noqa: PLC0415  # the extra `retrieval`

        index = tantivy.Index.open(str(self._readable()))
        index.config_reader("manual")  # no thread that waits for the index to change
        return index

    def _readable(self) -> Path:
        """Return the folder to open: the library wants to lock it, which a folder that is only read doesn't allow."""
        folder = self._directory / FILES
        if os.access(folder, os.W_OK):
            return folder
        self._view = tempfile.TemporaryDirectory(prefix="corrigenda-index-")
        for path in folder.iterdir():
            (Path(self._view.name) / path.name).symlink_to(path.resolve())
        return Path(self._view.name)

    def _search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        with self._lock:
            index = self._index
        if index is None:
            raise BackendError(f"{self.name} was closed and cannot be searched any more")
        searcher, schema = index.searcher(), index.schema
        return [_best(searcher, schema, query, min(k, len(self))) for query in queries]


def _best(searcher: Any, schema: Any, query: str, k: int) -> list[Passage]:
    """Return the best passages for one query: by score, then by their place in the collection."""
    import tantivy  # noqa: PLC0415  # the extra `retrieval`

    wanted = [
        (tantivy.Occur.Should, tantivy.Query.term_query(schema, "terms", term, index_option="freq"))
        for term in query_terms(query)
    ]
    if not wanted:
        return []
    found = tantivy.Query.boolean_query(wanted)
    limit = k + 1
    while True:
        hits = searcher.search(found, limit=limit, count=False).hits
        if len(hits) < limit or hits[-1][0] < hits[k - 1][0] or limit >= max(_TIES, k + 1):
            break
        limit *= 4
    numbers = searcher.fast_field_values("number", [address for _, address in hits])
    order = sorted(range(len(hits)), key=lambda place: (-hits[place][0], numbers[place]))
    return [_passage(searcher.doc(hits[place][1]), hits[place][0]) for place in order[:k]]


def _passage(document: Any, score: float) -> Passage:
    name, title, text = json.loads(bytes(document.get_first("passage")))
    return Passage(id=name, title=title, text=text, score=score)


class Bm25Writer:
    """Writes the library's files of an index into a new folder; the rest of the folder is up to the caller.

    Memory stays bounded whatever the collection's size. One thread writes, so that the order of the collection
    is kept.
    """

    def __init__(self, directory: Path) -> None:
        """Begin in a folder that exists. Raises MissingExtra, and BackendError when it cannot be written."""
        backends.require("retrieve bm25")
        self._folder = directory / FILES
        self._count = 0
        self._writer: Any = _guarded(self._begin)

    def add(self, passage: Passage) -> None:
        """Add a passage; the order matters. Raises BackendError."""
        import tantivy  # noqa: PLC0415  # the extra `retrieval`

        document = tantivy.Document()
        document.add_text("terms", " ".join(terms(f"{passage.title or ''}\n{passage.text}")))
        stored = json.dumps([passage.id, passage.title, passage.text], ensure_ascii=False)
        document.add_bytes("passage", stored.encode("utf-8"))
        document.add_unsigned("number", self._count)
        self._count += 1
        _guarded(lambda: self._writer.add_document(document))

    def finish(self) -> tuple[Any, ...]:
        """Write everything out and return the files' `FileInfo`, sorted by name. Raises BackendError and OSError."""

        def end() -> None:
            self._writer.commit()
            self._writer.wait_merging_threads()

        _guarded(end)
        self._writer = None
        for lock in self._folder.glob(".tantivy-*.lock"):
            lock.unlink()
        found = []
        for path in sorted(self._folder.iterdir()):
            path.chmod(path.stat().st_mode | 0o444)  # the library lets nobody else read some of them
            found.append(file_info(path, f"{FILES}/{path.name}"))
        return tuple(found)

    def close(self) -> None:
        """Stop writing, finished or not, so that the folder can be removed. May be called twice."""
        self._writer = None

    def _begin(self) -> Any:
        import tantivy  # noqa: PLC0415  # the extra `retrieval`

        self._folder.mkdir()
        schema = (
            tantivy.SchemaBuilder()
            .add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
            .add_bytes_field("passage", stored=True)
            .add_unsigned_field("number", fast=True)
            .build()
        )
        return tantivy.Index(schema, path=str(self._folder)).writer(heap_size=_HEAP, num_threads=1)


def library() -> str:
    """Return the search library's name and version, with that of its files."""
    import tantivy  # noqa: PLC0415  # the extra `retrieval`

    return str(getattr(tantivy, "__version__", "tantivy"))


def _guarded(work: Callable[[], T]) -> T:
    """Do `work`, and turn what the library raises into BackendError."""
    try:
        return work()
    except (ValueError, OSError) as exc:
        raise BackendError(f"the index failed: {exc}") from exc
    except BaseException as exc:
        # The library's own bugs and damaged files come as this type, which it doesn't let anybody import.
        if type(exc).__name__ != "PanicException":
            raise
        raise BackendError(f"the index failed: {exc}") from exc

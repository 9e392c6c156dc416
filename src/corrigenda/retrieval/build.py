"""Building an index: in a folder beside its own, which takes its place only when everything is written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from corrigenda.backends.retrieve_bm25 import Bm25Writer, library
from corrigenda.backends.retrieve_index import Manifest, write_manifest
from corrigenda.errors import InputError
from corrigenda.retrieval import place
from corrigenda.retrieval.passages import WORDS, read
from corrigenda.retrieval.source import KINDS, Kind, Source, find

_EVERY_S = 0.2
MAX_WORDS = 10_000
"""Longest passage that may be asked for, in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far the building of an index has come."""

    passages: int
    """Passages in the index so far."""
    done: int
    """Bytes of the source read so far."""
    total: int
    """Bytes of the source."""
    seconds: float
    """Since the building began."""

    @property
    def share(self) -> float:
        """How much of the source has been read, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 1.0

    @property
    def rate(self) -> float:
        """Passages per second."""
        return self.passages / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds left at this rate; None before anything is known."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0 else None


def build_index(
    source: str | Path,
    directory: str | Path,
    *,
    kind: Kind | None = None,
    words: int = WORDS,
    language: str = "en",
    replace: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Read the collection at `source` and write its index to the folder `directory`; return the manifest.

    See `corrigenda.retrieval.source.find` for `kind`, and `corrigenda.retrieval.passages.read` for `words` (about
    how long the passages of longer texts are, from 1 to 10,000) and `language`. An index that is there already is
    only replaced with `replace`; a folder that holds anything else never is (see `corrigenda.retrieval.place.check`).
    Of a link, what it points at is replaced. `progress` is called now and then.

    The folder appears, or is replaced, when the index is complete: whatever breaks or interrupts the building
    before leaves everything as it was; a process that is killed leaves a folder beside it, which the next build of
    the same index removes. Raises InputError when the source is unusable, holds no passage, or the folder may not be
    written to, MissingExtra without the search library, and BackendError when that fails.
    """
    source, directory = Path(source), Path(directory)
    if kind is not None and kind not in KINDS:
        raise InputError(f"unknown kind {kind!r}; there are {', '.join(KINDS)}")
    if not 1 <= words <= MAX_WORDS:
        raise InputError(f"words must be from 1 to {MAX_WORDS}, got {words!r}")
    shown, target = str(directory), place.resolved(directory)
    place.recover(target)
    place.check(target, shown, replace=replace)
    kind, files = find(source, kind)
    reading = Source(source, files)
    with ExitStack() as stack:
        try:
            work = stack.enter_context(place.beside(target))
        except OSError as exc:
            raise InputError(f"the index {shown!r} cannot be written: {exc.strerror}; give another folder") from exc
        manifest = _write(work / place.NEW, reading, kind, str(source), words, language, progress)
        place.check(target, shown, replace=replace)  # it may have appeared meanwhile
        try:
            place.put(work, target)
        except OSError as exc:
            raise InputError(
                f"the index {shown!r} cannot be put in its place: {exc.strerror}; all is as it was"
            ) from exc
    return manifest


def _write(
    new: Path,
    reading: Source,
    kind: Kind,
    source: str,
    words: int,
    language: str,
    progress: Callable[[Progress], None] | None,
) -> Manifest:
    """Write the index into a new folder."""
    counts: Counter[str] = Counter()
    begun = told = time.monotonic()

    def tell() -> None:
        if progress is not None:
            seconds = time.monotonic() - begun
            now = Progress(passages=counts["passages"], done=reading.done, total=reading.total, seconds=seconds)
            progress(now)

    writer = Bm25Writer(new)
    try:
        for passage in read(reading, kind, words=words, language=language, counts=counts):
            writer.add(passage)
            if time.monotonic() - told > _EVERY_S:
                told = time.monotonic()
                tell()
        if not counts["passages"]:
            raise InputError(f"the source {source!r} holds no passage with text in it ({_told(counts)})")
        infos = writer.finish()
    finally:
        writer.close()
    tell()
    manifest = Manifest(
        kind=kind,
        source=source,
        sources=tuple(reading.infos),
        counts=dict(sorted(counts.items())),
        settings={} if kind == "jsonl" else {"words": words, "language": language},
        library=library(),
        files=infos,
    )
    write_manifest(new, manifest)
    return manifest


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in sorted(counts.items())) or "it is empty"


def describe(manifest: Manifest) -> list[str]:
    """Return what a person should know of an index, a line each."""
    parts = {name: count for name, count in manifest.counts.items() if name != "passages"}
    files = f"{len(manifest.sources):,} file{'s'[: len(manifest.sources) != 1]}"
    lines = [
        f"passages  {manifest.passages:,}",
        f"source    {manifest.source} ({manifest.kind}, {files}, "
        f"{sum(file.bytes for file in manifest.sources):,} bytes)",
        f"size      {manifest.size:,} bytes",
        f"library   {manifest.library}",
    ]
    if parts:
        lines.insert(1, "counts    " + ", ".join(f"{n.replace('_', ' ')} {c:,}" for n, c in parts.items()))
    if manifest.settings:
        lines.append("settings  " + ", ".join(f"{name} {value}" for name, value in manifest.settings.items()))
    return lines

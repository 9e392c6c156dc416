"""A download in progress: bytes on disk that survive a crash, a full disk and Ctrl-C, and are checked on resume."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from corrigenda.errors import ModelError

READ_SIZE = 1 << 20
"""Bytes read or written at a time."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(path: Path, needed: int) -> Iterator[None]:
    """Turn an OSError met while writing below `path` into a ModelError that says what to do.

    `needed` is how many bytes are still to be written.
    """
    try:
        yield
    except OSError as exc:
        folder = path if path.is_dir() else path.parent
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder, needed) from exc
        raise ModelError(
            f"the models folder {str(folder)!r} cannot be written: {exc.strerror or exc}; choose another with "
            f"CORRIGENDA_MODELS_DIR or --models-dir"
        ) from exc


def disk_full(folder: Path, needed: int) -> ModelError:
    """Return the error for too little room in `folder`."""
    return ModelError(
        f"the disk of the models folder {str(folder)!r} is full: {needed} bytes are needed, {free_bytes(folder)} are "
        f"free; make room, or choose another folder with CORRIGENDA_MODELS_DIR or --models-dir; what was downloaded "
        f"is kept, and the next pull goes on from there"
    )


def free_bytes(folder: Path) -> int:
    """Return the free bytes where `folder` is or would be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


class Partial:
    """The file `FILE.part` beside the SHA-256 of each complete chunk of it, in `FILE.part.json`.

    Both sources fill the same file with the same bytes, so one goes on where the other stopped.
    """

    def __init__(self, target: Path, *, total: int, chunk: int) -> None:
        """Describe the download of `target`, `total` bytes long, recorded every `chunk` bytes."""
        self.path = target.with_name(target.name + ".part")
        self._state = target.with_name(target.name + ".part.json")
        self._total = total
        self._chunk = chunk
        self._file: IO[bytes] | None = None
        self._hashes: list[str] = []
        self._running = hashlib.sha256()
        self.size = 0

    def open(self) -> None:
        """Read what is there and cut off what is not as it was recorded. Raises ModelError (full, read-only)."""
        with disk_errors(self.path, self._total):
            self._file = self.path.open("a+b")
            recorded = self._read_state()
            self._file.seek(0)
            position, self._hashes = 0, []
            while True:
                running, read = self._hash_chunk(self._file)
                if read < self._chunk or (index := len(self._hashes)) >= self._total // self._chunk:
                    break
                digest = running.hexdigest()
                if index < len(recorded) and recorded[index] != digest:
                    read, running = 0, hashlib.sha256()
                    break
                self._hashes.append(digest)
                position += read
            if len(self._hashes) < len(recorded):
                read, running = 0, hashlib.sha256()  # what follows a damaged chunk is not to be trusted either
            self._running = running
            self._cut(min(position + read, self._total))

    def restart(self, size: int = 0) -> None:
        """Keep the first `size` bytes, a multiple of the chunk at most as long as the file, and drop the rest."""
        with disk_errors(self.path, self._total - size):
            self._hashes = self._hashes[: size // self._chunk]
            self._running = hashlib.sha256()
            self._cut(size)
            self._write_state()

    def append(self, data: bytes) -> None:
        """Write `data` at the end. Raises ModelError when the disk is full or the file would become too long."""
        if self.size + len(data) > self._total:
            raise ModelError(f"more than the {self._total} bytes expected")
        assert self._file is not None
        with disk_errors(self.path, self._total - self.size):
            view = memoryview(data)
            while view:
                piece = view[: self._chunk - self.size % self._chunk]
                write_all(self._file, piece)
                self._running.update(piece)
                self.size += len(piece)
                view = view[len(piece) :]
                if self.size % self._chunk == 0:
                    self._hashes.append(self._running.hexdigest())
                    self._running = hashlib.sha256()
                    self._write_state()

    def close(self) -> None:
        """Close the file and keep it. May be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def discard(self) -> None:
        """Delete the file and what was recorded about it."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        """Let the complete file become `target`, in one step."""
        assert self._file is not None
        with disk_errors(self.path, 0):
            os.fsync(self._file.fileno())
            self.close()
            self.path.replace(target)
            self._state.unlink(missing_ok=True)

    def _hash_chunk(self, file: IO[bytes]) -> tuple[hashlib._Hash, int]:
        running, read = hashlib.sha256(), 0
        while read < self._chunk and (data := file.read(min(READ_SIZE, self._chunk - read))):
            running.update(data)
            read += len(data)
        return running, read

    def _cut(self, size: int) -> None:
        assert self._file is not None
        self._file.truncate(size)
        self._file.seek(size)
        self.size = size

    def _read_state(self) -> list[str]:
        try:
            state = json.loads(self._state.read_text("utf-8"))
            if state["chunk"] == self._chunk:
                return [str(digest) for digest in state["sha256"]]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing recorded: the bytes are kept, and the whole file's SHA-256 decides in the end
        return []

    def _write_state(self) -> None:
        assert self._file is not None
        # The bytes first: a state that is ahead of them would claim what a crash has lost.
        os.fsync(self._file.fileno())
        self._state.write_text(json.dumps({"chunk": self._chunk, "sha256": self._hashes}), "utf-8")


def write_all(file: IO[bytes], data: memoryview) -> None:
    """Write `data` to the disk, not only to a buffer, so that a full disk shows at once."""
    file.write(data)
    file.flush()

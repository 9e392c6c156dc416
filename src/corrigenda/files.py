"""What the command line reads and writes: the texts that a person names, and the standard streams."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from corrigenda.errors import CorrigendaError, InputError
from corrigenda.terminal import ascii_json, one_line, safe_json

MAX_BYTES = 5_000_000
"""A context or an answer larger than this is refused: it is a mistake, or a job for retrieval."""


class OutputFailed(CorrigendaError):
    """What was to be written cannot be: a full disk, a closed stream, a folder that may not be written to."""


def read_text(path: str, what: str) -> str:
    """Return the text of the file at `path` (`-`: standard input), exactly as it stands there, decoded as UTF-8.

    `what` names the file's role in messages. Raises InputError when the path is empty, when the file is missing,
    a folder, larger than 5,000,000 bytes, binary (it holds a NUL byte), or not UTF-8.
    """
    data = _bytes_of(path, what)
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{what} {path!r} is larger than {MAX_BYTES:,} bytes; give only the passages that the answer rests on"
        )
    if b"\x00" in data:
        raise InputError(f"{what} {path!r} is a binary file (it holds a NUL byte); give plain text")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(
            f"{what} {path!r} is not UTF-8 (byte {exc.start} is 0x{data[exc.start]:02x}); "
            f"convert it, for instance: iconv -f latin1 -t utf-8 {path}"
        ) from exc


def _bytes_of(path: str, what: str) -> bytes:
    if not path:
        raise InputError(f"the {what} has an empty name; give a path, or - for standard input")
    if path == "-" and sys.stdin is None:
        raise InputError(f"{what} '-': standard input is closed; give a file's path")
    try:
        # One byte past the limit is enough to know, and a huge file is never read whole.
        if path == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise InputError(f"{what} {path!r} cannot be read: {reason}; give the path of a text file") from exc


def save(path: Path, text: str, what: str) -> None:
    """Write a file in one go, as UTF-8: whatever happens meanwhile, there is the old one or the whole new one.

    `what` names the file's role in messages. Folders that are missing are made. Raises OutputFailed when it cannot
    be written (a full disk, a folder that may not be written to).
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, ValueError) as exc:
        with suppress(OSError, ValueError):
            part.unlink(missing_ok=True)
        reason = getattr(exc, "strerror", None) or exc
        raise OutputFailed(
            f"{what} {str(path)!r} cannot be written: {reason}; make room, or name another place"
        ) from exc


class Page(io.StringIO):
    """Collects what is to be printed in one go, and answers as standard output would where it is asked what it is.

    The library that lays out a report ends the process when its output breaks; so it gets this in its place.
    """

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain StringIO has none
        """Return the encoding of standard output."""
        return getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether standard output is a terminal."""
        return sys.stdout is not None and sys.stdout.isatty()


def write(text: str) -> None:
    """Print a text for a person; a character that the output's encoding lacks is written as an escape.

    A reader that has gone away (`| head`) is no error. Raises OutputFailed when nothing can be written.
    """
    encoding, errors = getattr(sys.stdout, "encoding", None) or "utf-8", getattr(sys.stdout, "errors", None)
    try:
        text.encode(encoding, errors or "strict")
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    _write(text)


def write_json(text: str) -> None:
    """Print a JSON text so that it stays valid whatever the output's encoding. Otherwise as `write`."""
    text = safe_json(text)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = ascii_json(text)
    _write(text)


def _write(text: str) -> None:
    if sys.stdout is None:
        raise OutputFailed("standard output is closed, so that nothing can be printed; open it, or send it to a file")
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
    except (OSError, ValueError) as exc:  # ValueError: it was closed in this process
        silence(sys.stdout)
        reason = getattr(exc, "strerror", None) or exc
        raise OutputFailed(
            f"standard output cannot be written: {reason}; make room, or send it somewhere else"
        ) from exc


def tell(message: str) -> None:
    """Print a message on standard error, on one line. Never fails: there is nowhere left to say so."""
    try:
        print(f"corrigenda: {one_line(message)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence(sys.stderr)


def silence(stream: TextIO | None) -> None:
    """Send what a broken stream still holds nowhere, so that Python doesn't fail on it when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]  # a missing stream is suppressed
        os.close(null)

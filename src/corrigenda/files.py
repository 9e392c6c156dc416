"""Reading the texts that a person names on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from corrigenda.errors import InputError

MAX_BYTES = 5_000_000
"""A context or an answer larger than this is refused: it is a mistake, or a job for retrieval."""


def read_text(path: str, what: str) -> str:
    """Return the text of the file at `path` (`-`: standard input), exactly as it stands there, decoded as UTF-8.

    `what` names the file's role in messages. Raises InputError when it is missing, a folder, larger than
    5,000,000 bytes, binary (it holds a NUL byte), or not UTF-8.
    """
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if path == "-" else _bytes_of(path, what)
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
    try:
        with Path(path).open("rb") as file:
            # One byte past the limit is enough to know, and a huge file is never read whole.
            return file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise InputError(f"{what} {path!r} cannot be read: {exc.strerror or exc}") from exc

"""The output: one line or row for each row that is done, in the input's order, written whole or not at all.

JSON lines (`.jsonl`, also with `.gz` or `.zst`): `{"id": …, "report": {…}}`, or `{"id": …, "error": "…", "kind": "…"}`.
Parquet: the columns `id`, `status`, `report` (the report as JSON text), `error` and `kind`.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from corrigenda.batch.inputs import File, kind_of
from corrigenda.batch.rows import Done
from corrigenda.files import OutputFailed

_LINE_ENDS = "\u0085\u2028\u2029"
"""What JSON lets stand in a text and some readers, Python's `splitlines` among them, take for the end of a line."""
MANY = 256
"""Rows that are put into Parquet together."""


def line_of(done: Done) -> str:
    """Return what the output says of a row, as one line of strict JSON without the line's end."""
    return _json(
        {"id": done.id, "report": done.report}
        if done.report is not None
        else {"id": done.id, "error": done.error, "kind": done.kind}
    )


def write(output: Path, rows: Iterable[Done]) -> None:
    """Write the output in the format that its name says; until it is whole, what was there stays.

    Raises InputError for a name that says none, and OutputFailed when it cannot be written.
    """
    file = kind_of(output, "the output")
    with _replacing(output) as part:
        if file.format == "parquet":
            _parquet(part, rows)
        else:
            _lines(part, file, rows)


def remove_parts(output: Path) -> None:
    """Remove what runs left that were killed while they wrote this output. Only while the output is locked."""
    for name in glob.glob(glob.escape(str(output.with_name(f".{output.name}."))) + "*.part"):
        with suppress(OSError):
            os.unlink(name)


@contextmanager
def _replacing(output: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the output's place at the end, or is removed."""
    import pyarrow as pa  # noqa: PLC0415  # optional, and slow to import

    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(output)
    except (OSError, pa.ArrowException) as exc:
        reason = getattr(exc, "strerror", None) or " ".join(str(exc).split())
        raise OutputFailed(
            f"the output {str(output)!r} cannot be written: {reason}; make room; what is done is kept beside it, and "
            "the same command writes it"
        ) from exc
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _lines(part: Path, file: File, rows: Iterable[Done]) -> None:
    import pyarrow as pa  # noqa: PLC0415  # as above

    with pa.output_stream(str(part), compression=file.compression, buffer_size=1 << 20) as stream:
        for done in rows:
            stream.write(line_of(done).encode() + b"\n")


def _parquet(part: Path, rows: Iterable[Done]) -> None:
    import pyarrow as pa  # noqa: PLC0415  # as above
    from pyarrow import parquet as pq  # noqa: PLC0415

    schema = pa.schema([(name, pa.string()) for name in ("id", "status", "report", "error", "kind")])
    left = iter(rows)
    with pq.ParquetWriter(str(part), schema, compression="zstd") as writer:
        # A row group of its own for each block would make the file slow to read; the writer gathers them.
        while block := [_columns(done) for done in islice(left, MANY)]:
            writer.write_batch(pa.RecordBatch.from_pylist(block, schema=schema), row_group_size=MANY)


def _columns(done: Done) -> dict[str, Any]:
    return {
        "id": done.id,
        "status": done.status,
        "report": None if done.report is None else _json(done.report),
        # Parquet cannot hold half a character, which an error may quote.
        "error": None if done.error is None else done.error.encode("utf-8", "backslashreplace").decode(),
        "kind": done.kind,
    }


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can stand for
        return json.dumps(value, allow_nan=False)
    for end in _LINE_ENDS:
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text

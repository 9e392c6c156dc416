"""Rows from JSON lines and Parquet, read a block at a time, so that memory does not grow with the input.

What stands in a row: `question`, `answer` (each a text or null), `contexts` (null, a text, or a list of texts or of
objects with `text` and `source`), `id` (a text or a whole number; without one, the row's place in the input, from 1).
Other columns are left alone. Nothing here loads a model; every error names the file, the line or row, and the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from corrigenda.api import as_references
from corrigenda.batch.inputs import File, unreadable
from corrigenda.batch.rows import Row
from corrigenda.errors import InputError
from corrigenda.types import Reference

FIELDS = ("id", "question", "answer", "contexts")
BLOCK_BYTES = 1 << 20
BLOCK_ROWS = 512
"""Rows about which `Wanted` is asked at a time; of Parquet, also those that are decoded together."""
MAX_LINE = 64 << 20
"""Bytes of one line: what is longer is no row, and would not fit the memory."""
SHOWN = 80

Wanted = Callable[[int, int], Container[int]]
"""Told a range of row numbers, half-open; returns those among them that are to be read."""


def all_rows(start: int, stop: int) -> Container[int]:
    """Want every row."""
    return range(start, stop)


class Placed(NamedTuple):
    """A row, and where it stands."""

    row: Row
    line: int
    """Of JSON lines the line, of Parquet the row, both from 1."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column holds which field; those that are not named hold the one of their own name."""

    names: Mapping[str, str]

    def of(self, field: str) -> str:
        """Return the column of a field."""
        return self.names.get(field, field)

    @property
    def all(self) -> tuple[str, ...]:
        """The columns of all fields."""
        return tuple(self.of(field) for field in FIELDS)


def place(file: File, line: int) -> str:
    """Return how messages name a row's place."""
    return f"{str(file.path)!r}, {'row' if file.format == 'parquet' else 'line'} {line}"


def read(
    file: File, first: int, columns: Columns, wanted: Wanted = all_rows, seen: set[str] | None = None
) -> Generator[Placed, None, None]:
    """Yield the wanted rows of one file, whose first row has the number `first`. Use `contextlib.closing`.

    Those of the columns that `columns` names and that a row has are added to `seen`. Raises InputError, naming the
    place, for what cannot be read or is no row.
    """
    some = _parquet if file.format == "parquet" else _lines
    return some(file, first, columns, wanted, set() if seen is None else seen)


def count(file: File) -> int:
    """Return how many rows a file has, without looking at them. Raises InputError as `read` does."""
    if file.format == "parquet":
        with closing(_opened(file)) as parquet:
            return int(parquet.metadata.num_rows)
    return sum(1 for _ in _raw_lines(file))


# JSON lines ---------------------------------------------------------------------------------------------------------


def _lines(file: File, first: int, columns: Columns, wanted: Wanted, seen: set[str]) -> Generator[Placed, None, None]:
    number, take, end = first, all_rows(0, 0), first
    for line, raw in _raw_lines(file):
        if number == end:
            end = number + BLOCK_ROWS
            take = wanted(number, end)
        if number in take:
            values = _json(raw, file, line)
            seen.update(name for name in columns.names.values() if name in values)
            yield Placed(_row(values, number, columns, file, line), line)
        number += 1


def _raw_lines(file: File) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1."""
    import pyarrow as pa  # noqa: PLC0415  # optional, and slow to import

    number, rest = 0, b""
    try:
        with pa.input_stream(str(file.path), compression=file.compression, buffer_size=BLOCK_BYTES) as stream:
            while block := stream.read(BLOCK_BYTES):
                *whole, rest = (rest + block).split(b"\n")
                for raw in whole:
                    number += 1
                    if raw.strip():
                        yield number, raw
                if len(rest) > MAX_LINE:
                    raise InputError(
                        f"{place(file, number + 1)} is longer than {MAX_LINE >> 20} MiB, too long for a row; write one "
                        "JSON object a line"
                    )
    except (OSError, pa.ArrowException) as exc:
        raise unreadable(file.path, exc) from exc
    if rest.strip():
        yield number + 1, rest


def _json(raw: bytes, file: File, line: int) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as exc:
        raise InputError(
            f"{place(file, line)} is not UTF-8 (byte {exc.start} of the line is 0x{raw[exc.start]:02x}); convert it"
        ) from exc
    except json.JSONDecodeError as exc:
        raise InputError(
            f"{place(file, line)} is not JSON ({exc.msg}, character {exc.pos + 1} of {len(text)}): {shown(text)}; "
            "write one JSON object a line"
        ) from exc
    except (ValueError, RecursionError) as exc:
        reason = "it is nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise InputError(f"{place(file, line)} is not JSON that can be used: {reason}; mend the line") from exc
    if not isinstance(value, dict):
        raise InputError(f"{place(file, line)} must be a JSON object, got {shown(value)}; write one object a line")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


# Parquet ------------------------------------------------------------------------------------------------------------


def _parquet(file: File, first: int, columns: Columns, wanted: Wanted, seen: set[str]) -> Generator[Placed, None, None]:
    import pyarrow as pa  # noqa: PLC0415  # as above

    with closing(_opened(file)) as parquet:
        names = [name for name in columns.all if name in parquet.schema_arrow.names]
        seen.update(names)
        twice = next((name for name in names if parquet.schema_arrow.names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{str(file.path)!r} has the column {twice!r} twice; rename one of them")
        if not {columns.of("question"), columns.of("answer")} & set(names):
            raise InputError(_missing(f"{str(file.path)!r}", columns, parquet.schema_arrow.names))
        begin = 0
        try:
            for group in range(parquet.metadata.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                if _any(first + begin, rows, wanted):
                    yield from _group(parquet, group, names, file, first, begin, columns, wanted)
                begin += rows
        except (OSError, pa.ArrowException) as exc:
            raise unreadable(file.path, exc) from exc


def _any(start: int, rows: int, wanted: Wanted) -> bool:
    """Whether a row of a row group is wanted, so that it has to be decoded."""
    for begin in range(start, start + rows, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, start + rows)
        take = wanted(begin, end)
        if any(number in take for number in range(begin, end)):
            return True
    return False


def _group(
    parquet: Any,
    group: int,
    names: Sequence[str],
    file: File,
    first: int,
    begin: int,
    columns: Columns,
    wanted: Wanted,
) -> Iterator[Placed]:
    for batch in parquet.iter_batches(batch_size=BLOCK_ROWS, row_groups=[group], columns=list(names)):
        take = wanted(first + begin, first + begin + batch.num_rows)
        for offset in range(batch.num_rows):
            number, line = first + begin + offset, begin + offset + 1
            if number in take:
                values = {name: _value(batch, name, offset, file, line) for name in names}
                yield Placed(_row(values, number, columns, file, line), line)
        begin += batch.num_rows


def _value(batch: Any, name: str, offset: int, file: File, line: int) -> Any:
    try:
        return batch.column(name)[offset].as_py()
    except (ValueError, OverflowError) as exc:  # bytes that are not UTF-8, a time that Python has no date for
        raise InputError(f"{place(file, line)}: {name!r} cannot be read: {exc}; write it as a text") from exc


def _opened(file: File) -> Any:
    import pyarrow as pa  # noqa: PLC0415  # as above
    from pyarrow import parquet as pq  # noqa: PLC0415

    try:
        # Read as it is needed: a file that is read ahead whole would have to fit the memory.
        return pq.ParquetFile(str(file.path), pre_buffer=False, buffer_size=BLOCK_BYTES)
    except (OSError, pa.ArrowException) as exc:
        raise unreadable(file.path, exc) from exc


# Both ---------------------------------------------------------------------------------------------------------------


def _row(values: Mapping[str, Any], number: int, columns: Columns, file: File, line: int) -> Row:
    where = place(file, line)
    if columns.of("question") not in values and columns.of("answer") not in values:
        raise InputError(_missing(where, columns, list(values)))
    texts = {field: values.get(columns.of(field)) for field in ("question", "answer")}
    for field, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise InputError(
                f"{where}: {columns.of(field)!r} must be a text or null, got {shown(value)}; write it as a text"
            )
    if texts["question"] is None and texts["answer"] is None:
        names = f"{columns.of('question')!r} and {columns.of('answer')!r}"
        raise InputError(f"{where}: {names} are both null; give a question to ask, or an answer to check")
    contexts = _contexts(values.get(columns.of("contexts")), where, columns.of("contexts"))
    if contexts is None and texts["question"] is None:
        raise InputError(
            f"{where}: there is nothing to check the answer against; give {columns.of('contexts')!r}, or a "
            f"{columns.of('question')!r} to recall a reference from"
        )
    return Row(number=number, id=_id(values, number, columns, where), contexts=contexts, **texts)


def _missing(where: str, columns: Columns, there: Sequence[str]) -> str:
    return (
        f"{where} has neither a column {columns.of('question')!r} nor {columns.of('answer')!r}, only "
        f"{shown(list(there))}; rename them, or say which are meant: --column question=NAME"
    )


def _id(values: Mapping[str, Any], number: int, columns: Columns, where: str) -> str:
    value = values.get(columns.of("id"))
    if value is None:
        return str(number + 1)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError(
            f"{where}: {columns.of('id')!r} must be a text or a whole number, got {shown(value)}; mend it, "
            "or leave it out"
        )
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InputError(
            f"{where}: {columns.of('id')!r} holds half a character (a lone surrogate), which the output cannot: "
            f"{shown(ascii(text))}; mend it, or leave it out"
        ) from exc
    return text


def _contexts(value: Any, where: str, name: str) -> tuple[Reference, ...] | None:
    if value is None or isinstance(value, str):
        return as_references(value)
    if not isinstance(value, list):
        raise InputError(f"{where}: {name!r} must be a list of texts, a text or null, got {shown(value)}; write a list")
    passages: list[str | Reference] = []
    for each in value:
        passage = each if isinstance(each, str) else _passage(each)
        if passage is None:
            raise InputError(
                f"{where}: {name!r} holds {shown(each)}, which is no text and no object with 'text' and 'source'; "
                "write texts"
            )
        passages.append(passage)
    return as_references(passages)


def _passage(value: Any) -> Reference | None:
    with suppress(TypeError, KeyError, AttributeError):
        text, source = value["text"], value.get("source")
        if isinstance(text, str) and (source is None or isinstance(source, str)):
            return Reference(text=text, source=source or "context")
    return None


def shown(value: object) -> str:
    """Return a value for a message, cut to a readable length."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"

"""Records on disk: `records.jsonl`, one strict JSON object a line, with `manifest.json` beside it.

Each record is written, flushed and synchronised on its own, so that whatever ends a run, what was finished is kept.
Only one run writes to a folder at a time. A later line for the same item, method and repeat replaces an earlier one.

The manifest says what a run is made of. A run goes on only with the same data, models, seed, settings and version
of corrigenda; methods, repeats and items may be added, since they leave what is there as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

from corrigenda.errors import InputError
from corrigenda.evals.records import RECORD_SCHEMA, Record
from corrigenda.files import save
from corrigenda.locks import try_lock
from corrigenda.report import build, from_dict, plain

RECORDS = "records.jsonl"
MANIFEST = "manifest.json"
LOCK = "records.lock"
CUT = "records.cut"
"""Where the half line of a file that was cut off is set aside."""


class Key(NamedTuple):
    """What a record is of. A run has one of each."""

    item: str
    method: str
    repeat: int


def key_of(record: Record) -> Key:
    """Return what a record is of."""
    return Key(record.item, record.method, record.repeat)


# Records as JSON ----------------------------------------------------------------------------------------------------


def to_line(record: Record) -> str:
    """Return a record as one line of strict JSON, without the line's end.

    Raises ValueError when it holds what JSON cannot: a number that is not finite, an object in `details`.
    """
    try:
        text = json.dumps(plain(record), ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can stand for
        return json.dumps(plain(record), allow_nan=False)
    except TypeError as exc:
        raise ValueError(str(exc)) from exc
    return text


def from_data(data: Mapping[str, Any]) -> Record:
    """Return the record that decoded JSON describes. Raises InputError when it is none, or of another version."""
    version = data.get("schema")
    if not isinstance(version, str) or version.split(".")[0] != RECORD_SCHEMA.split(".", maxsplit=1)[0]:
        raise InputError(f"a record of schema {version!r}; this version of corrigenda reads {RECORD_SCHEMA}")
    try:
        outcome = data.get("outcome")
        report = None if outcome is None else outcome.get("report")
        if outcome is None or report is None:
            return cast(Record, build(Record, data))
        record = cast(Record, build(Record, {**data, "outcome": {**outcome, "report": None}}))
        assert record.outcome is not None
        return replace(record, outcome=replace(record.outcome, report=from_dict(report)))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise InputError(f"not a record of an evaluation: {exc}") from exc


# Reading ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What a folder holds."""

    records: tuple[Record, ...]
    """In the order of the file, one for each `Key`."""
    manifest: Mapping[str, Any]
    """Empty where there is none."""
    warnings: tuple[str, ...] = ()


def read(path: str | Path) -> Stored:
    """Return the records of a run's folder, or of a record file. Changes nothing on disk.

    A last line that was cut off (the run is going on, or was killed) is left out with a warning. Raises InputError,
    naming the file and the line, when there is no such file or when any other line is not a record.
    """
    file = Path(path)
    file = file / RECORDS if file.is_dir() else file
    lines, cut = _lines(file)
    found: dict[Key, Record] = {}
    for number, line in lines:
        record = _record(line, f"{str(file)!r}, line {number}")
        found[key_of(record)] = record
    warnings = () if not cut else (f"{str(file)!r} ends in the middle of a line, which is left out",)
    return Stored(records=tuple(found.values()), manifest=_manifest(file.parent / MANIFEST), warnings=warnings)


def read_all(paths: Iterable[str | Path]) -> Stored:
    """Return the records of several folders or files as one. Raises InputError as `read` does, and when none is left.

    Data sets may differ; two records of one data set, item, method and repeat may not.
    """
    records: list[Record] = []
    warnings: list[str] = []
    manifest: Mapping[str, Any] = {}
    seen: dict[tuple[str, Key], str] = {}
    for path in paths:
        stored = read(path)
        for record in stored.records:
            where = record.dataset, key_of(record)
            if where in seen:
                raise InputError(
                    f"{str(path)!r} and {seen[where]!r} both have a record of item {record.item!r} under the method "
                    f"{record.method!r}; name one of them"
                )
            seen[where] = str(path)
        records += stored.records
        warnings += stored.warnings
        manifest = manifest or stored.manifest
    if not records:
        raise InputError("there are no records yet; run an evaluation first: corrigenda eval DATASET")
    return Stored(records=tuple(records), manifest=manifest, warnings=tuple(warnings))


def _lines(file: Path) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return the whole lines with their numbers, and what stands after the last line's end where it is no record."""
    try:
        data = file.read_bytes()
    except OSError as exc:
        raise InputError(
            f"the record file {str(file)!r} cannot be read: {exc.strerror or exc}; give the folder of a run, or its "
            f"{RECORDS}"
        ) from exc
    *whole, last = data.split(b"\n")
    lines = [(number, line) for number, line in enumerate(whole, start=1) if line.strip()]
    if last.strip() and _is_json(last):  # only the line's end is missing
        lines.append((len(whole) + 1, last))
        last = b""
    return lines, last


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _record(line: bytes, place: str) -> Record:
    try:
        data = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{place} is not valid JSON ({exc}); remove the line, or restore the file") from exc
    if not isinstance(data, dict):
        raise InputError(f"{place} holds no JSON object; remove the line, or restore the file")
    try:
        return from_data(data)
    except InputError as exc:
        raise InputError(f"{place}: {exc}") from exc


def _refuse_constant(value: str) -> NoReturn:
    raise ValueError(f"{value} is not JSON")


def _manifest(file: Path) -> Mapping[str, Any]:
    """Return what the manifest says; empty where there is none. Raises InputError when it cannot be read."""
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise InputError(f"the manifest {str(file)!r} cannot be read: {exc}; choose another --out folder") from exc
    if not isinstance(data, dict):
        raise InputError(f"the manifest {str(file)!r} holds no JSON object; choose another --out folder")
    return data


# Writing ------------------------------------------------------------------------------------------------------------


class Store:
    """The open record file of a run. Made by `opened`."""

    def __init__(self, folder: Path, file: IO[bytes], stored: Stored) -> None:
        """Write to `file`, behind what is `stored`."""
        self.folder = folder
        self.warnings = stored.warnings
        self._file = file
        self._kept = {key_of(record): record for record in stored.records}

    @property
    def records(self) -> tuple[Record, ...]:
        """All records so far."""
        return tuple(self._kept.values())

    def done(self, key: Key, *, retry_failed: bool = False) -> bool:
        """Whether there is a record; with `retry_failed`, whether there is one that did not fail."""
        record = self._kept.get(key)
        return record is not None and not (retry_failed and record.status == "failed")

    def append(self, record: Record) -> Record:
        """Write a record so that it is on the disk when this returns; return it as it was written.

        One that JSON cannot hold is written as failed, with the reason. Raises OSError when the disk refuses; what
        was written before stays readable.
        """
        try:
            line = to_line(record)
        except ValueError as exc:
            reason = f"the method {record.method!r} gave what no record can hold: {exc}"
            record = replace(
                record, status="failed", reason=reason, outcome=None, latency_s=None, before=None, after=None
            )
            line = to_line(record)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        stored = from_data(json.loads(line))
        self._kept[key_of(record)] = stored
        return stored


@contextmanager
def opened(folder: Path, manifest: Mapping[str, Any], *, force: bool = False) -> Iterator[Store]:
    """Open the record file in `folder` for one run, to begin or to go on; nobody else can write to it meanwhile.

    A file that was cut in the middle of a line is repaired: the half line goes to `records.cut`, with a warning.
    With `force`, a run that is there is set aside (`records.jsonl.1`) and a new one begins. Raises InputError when
    another run is writing there, when the folder cannot be written, or when what is there is another run (`manifest`
    differs in more than methods, repeats and items).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("ab")
    except OSError as exc:
        raise InputError(
            f"the folder {str(folder)!r} cannot be written: {exc.strerror or exc}; give another --out"
        ) from exc
    with lock:
        if not try_lock(lock):
            raise InputError(
                f"another run is writing to {str(folder)!r}; wait for it, or give this one its own folder with --out"
            )
        if force:
            _set_aside(folder)
        _check_same(folder, manifest)
        stored = _repaired(folder)
        whole = {**manifest, **_grown(_manifest(folder / MANIFEST), manifest)}
        save(folder / MANIFEST, json.dumps(whole, indent=2, ensure_ascii=False) + "\n", "the manifest")
        with (folder / RECORDS).open("ab") as file:
            yield Store(folder, file, stored)


def _set_aside(folder: Path) -> None:
    for name in (RECORDS, MANIFEST):
        file = folder / name
        if file.exists():
            number = next(n for n in range(1, 1_000_000) if not (folder / f"{name}.{n}").exists())
            file.rename(folder / f"{name}.{number}")


def _repaired(folder: Path) -> Stored:
    """Return what is there, after putting the end of a file that was cut off in order."""
    file = folder / RECORDS
    if not file.exists():
        return Stored(records=(), manifest={})
    stored = read(file)  # first, so that a file that is no record file is left as it is
    _, cut = _lines(file)
    if cut:
        with (folder / CUT).open("ab") as aside:
            aside.write(cut + b"\n")
        with file.open("r+b") as whole:
            whole.truncate(file.stat().st_size - len(cut))
        note = f"{str(file)!r} ended in the middle of a line; what was left of it is in {str(folder / CUT)!r}"
        return replace(stored, warnings=(note,))
    with file.open("r+b") as whole:
        if whole.seek(0, os.SEEK_END):
            whole.seek(-1, os.SEEK_END)
            if whole.read() != b"\n":
                whole.write(b"\n")
    return stored


GROWING = ("methods", "repeats", "limit", "items")
"""Entries of the manifest in which a run may grow."""


def _check_same(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise InputError unless the run in `folder` may go on as `manifest` describes it."""
    there = _manifest(folder / MANIFEST)
    if not there:
        if (folder / RECORDS).exists() and (folder / RECORDS).stat().st_size:
            raise InputError(
                f"{str(folder)!r} has records but no {MANIFEST} that says what they are of; give another --out, or "
                "--force to set them aside"
            )
        return
    wanted = json.loads(json.dumps(manifest))
    differing = [n for n in sorted({*there, *wanted} - {*GROWING}) if there.get(n) != wanted.get(n)]
    same_name = [n for n in wanted.get("methods", {}) if n in there.get("methods", {})]
    differing += [f"methods.{n}" for n in same_name if there["methods"][n] != wanted["methods"][n]]
    if differing:
        name = differing[0]
        first, second = _value(there, name), _value(wanted, name)
        raise InputError(
            f"{str(folder)!r} holds another run: {', '.join(differing)} differ ({name}: {first} there, {second} here); "
            "give another --out, or --force to set it aside"
        )


def _value(manifest: Mapping[str, Any], name: str) -> str:
    value: Any = manifest
    for part in name.split(".", 1):
        value = value.get(part) if isinstance(value, Mapping) else None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _grown(there: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries in which a run grows, as they are when both are put together."""
    if not there:
        return {}
    limits = [m.get("limit") for m in (there, manifest)]
    return {
        "methods": {**there.get("methods", {}), **manifest.get("methods", {})},
        "repeats": max(there.get("repeats", 1), manifest.get("repeats", 1)),
        "limit": None if None in limits else max(n for n in limits if n is not None),
        "items": max(there.get("items", 0), manifest.get("items", 0)),
    }

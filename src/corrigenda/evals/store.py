"""Records on disk: `records.jsonl`, one strict JSON object a line, with `manifest.json` beside it.

Each record is written, flushed and synchronised on its own, so that whatever ends a run, what was finished is kept.
Only one run writes to a folder at a time. A later line for the same item, method and repeat replaces an earlier one.

The manifest (`evals.manifest`) says what a run is made of. A run goes on only with the same data, models, seed,
settings and version of corrigenda; methods, repeats and items may be added, since they leave what is there as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, NoReturn, cast

from corrigenda.errors import InputError
from corrigenda.evals import manifest as manifests
from corrigenda.evals.failures import judge_failed, unscored
from corrigenda.evals.items import Item
from corrigenda.evals.manifest import MANIFEST, is_of_a_run
from corrigenda.evals.records import RECORD_SCHEMA, Record
from corrigenda.files import save
from corrigenda.locks import try_lock
from corrigenda.report import BROKEN, build, from_dict, plain

RECORDS = "records.jsonl"
LOCK = "records.lock"
CUT = "records.cut"
"""Where the half line of a file that was cut off is set aside."""


Work = Literal["run", "judge"]
"""What is left to do for an item, method and repeat."""


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
    except (TypeError, RecursionError) as exc:
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
    except BROKEN as exc:
        raise InputError(f"not a record of an evaluation: {exc}") from exc


# Reading ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What a folder holds."""

    records: tuple[Record, ...]
    """In the order of the file, one for each `Key`."""
    manifest: Mapping[str, Any]
    """Empty where there is none of a run; of several runs, the first."""
    manifests: tuple[Mapping[str, Any], ...] = ()
    """Those of all the runs that the records are of."""
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
    manifest = manifests.read(file.parent / MANIFEST)
    manifest = manifest if is_of_a_run(manifest) else {}
    return Stored(
        records=tuple(found.values()),
        manifest=manifest,
        manifests=(manifest,) if manifest else (),
        warnings=warnings,
    )


def read_all(paths: Iterable[str | Path]) -> Stored:
    """Return the records of several folders or files as one. Raises InputError as `read` does, and when none is left.

    Data sets may differ; two records of one data set, item, method and repeat may not.
    """
    records: list[Record] = []
    warnings: list[str] = []
    found: list[Mapping[str, Any]] = []
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
        found += stored.manifests
    if not records:
        raise InputError("there are no records yet; run an evaluation first: corrigenda eval DATASET")
    return Stored(
        records=tuple(records),
        manifest=found[0] if found else {},
        manifests=tuple(found),
        warnings=tuple(warnings),
    )


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
    except (ValueError, RecursionError):
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


# Writing ------------------------------------------------------------------------------------------------------------


class Store:
    """The open record file of a run. Made by `opened`."""

    def __init__(self, folder: Path, file: IO[bytes], stored: Stored) -> None:
        """Write to `file`, behind what is `stored`."""
        self.folder = folder
        self.manifest = stored.manifest
        self.warnings = stored.warnings
        self._file = file
        self._kept = {key_of(record): record for record in stored.records}

    @property
    def records(self) -> tuple[Record, ...]:
        """All records so far."""
        return tuple(self._kept.values())

    def kept(self, key: Key) -> Record:
        """Return the record of `key`, which must be there (KeyError otherwise)."""
        return self._kept[key]

    def left(self, key: Key, *, retry_failed: bool = False) -> Work | None:
        """Return what there is to do for `key`: `run` it, `judge` what it has anew, or nothing.

        With `retry_failed` also what failed is to be done: a record that failed, or none of whose claims could be
        scored, is run again; one whose judge failed is judged anew.
        """
        record = self._kept.get(key)
        if record is None or (retry_failed and (record.status == "failed" or unscored(record))):
            return "run"
        return "judge" if retry_failed and judge_failed(record) else None

    def done(self, key: Key, *, retry_failed: bool = False) -> bool:
        """Whether nothing is left to do for `key`, see `left`."""
        return self.left(key, retry_failed=retry_failed) is None

    def append(self, record: Record) -> Record:
        """Write a record so that it is on the disk when this returns; return it as it was written.

        One that JSON cannot hold, or that could not be read again, is written as failed, with the reason. Raises
        OSError when the disk refuses; what was written before stays readable.
        """
        try:
            line, stored = _kept_as(record)
        except (ValueError, InputError, RecursionError) as exc:
            reason = f"the method {record.method!r} gave what no record can hold: {exc}"
            record = replace(
                record, status="failed", reason=reason, outcome=None, latency_s=None, before=None, after=None
            )
            line, stored = _kept_as(record)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._kept[key_of(record)] = stored
        return stored


def _kept_as(record: Record) -> tuple[str, Record]:
    """Return a record's line, and the record as it will be read from there. Raises as both ways do."""
    line = to_line(record)
    return line, from_data(json.loads(line))


@contextmanager
def opened(
    folder: Path, manifest: Mapping[str, Any], *, items: Sequence[Item] = (), force: bool = False
) -> Iterator[Store]:
    """Open the record file in `folder` for one run, to begin or to go on; nobody else can write to it meanwhile.

    A file that was cut in the middle of a line is repaired: the half line goes to `records.cut`, with a warning.
    With `force`, a run that is there is set aside (`records.jsonl.1`) and a new one begins. Raises InputError when
    another run is writing there, when the folder cannot be written, or when what is there is another run: `manifest`
    differs in more than methods, repeats and items, or one of the `items` held something else when it was recorded.
    (A folder without records is of no run yet, and takes any.) Files of something else that have the names of a run's
    are an InputError with `force` too; nothing is written to their folder.
    """
    _check_ours(folder)
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
        there = _manifest_of_records(folder)
        if there:
            manifests.require_same(folder, there, manifest)
        stored = _repaired(folder)
        manifests.require_same_items(folder, stored.records, items, manifests.sources(there, manifest))
        whole = manifests.grown(there, manifest)
        save(folder / MANIFEST, json.dumps(whole, indent=2, ensure_ascii=False) + "\n", "the manifest")
        with (folder / RECORDS).open("ab") as file:
            store = Store(folder, file, replace(stored, manifest=whole))
            _regroup(store, items)
            yield store


def holds_run(folder: Path) -> bool:
    """Return whether the manifest in a folder is that of a run. Raises InputError when it cannot be read."""
    return is_of_a_run(manifests.read(folder / MANIFEST))


def _check_ours(folder: Path) -> None:
    """Raise InputError when what bears the names of a run's files is of something else, so that it is left alone."""
    if (folder / MANIFEST).exists():
        found = None if holds_run(folder) else MANIFEST
    else:
        found = None if _begins_as_records(folder / RECORDS) else RECORDS
    if found is not None:
        raise InputError(
            f"{str(folder)!r} holds no run of corrigenda eval: its {found} is of something else, and is left alone; "
            "give another --out"
        )


def _begins_as_records(file: Path) -> bool:
    """Return whether a file holds nothing, or a record first."""
    try:
        with file.open("rb") as lines:
            first = next((line for line in lines if line.strip()), None)
        row = None if first is None else json.loads(first)
    except (FileNotFoundError, NotADirectoryError):  # nothing, or no folder, which is told when it is made
        return True
    except (OSError, ValueError, RecursionError):
        return False
    return first is None or (isinstance(row, dict) and {"schema", "item", "method"} <= row.keys())


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


def _manifest_of_records(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of the records in a folder; empty where there are none.

    Raises InputError when there are records without a manifest.
    """
    records = folder / RECORDS
    if not records.exists() or not records.stat().st_size:
        return {}
    there = manifests.read(folder / MANIFEST)
    if not there:
        raise InputError(
            f"{str(folder)!r} has records but no {MANIFEST} that says what they are of; give another --out, or "
            "--force to set them aside"
        )
    return there


def _regroup(store: Store, items: Sequence[Item]) -> None:
    """Write records anew whose items belong to larger groups now that more items were drawn."""
    groups = {item.id: item.group for item in items}
    if all(record.item in groups for record in store.records):  # else fewer were drawn, which unites none
        for record in store.records:
            if record.group != groups[record.item]:
                store.append(replace(record, group=groups[record.item]))

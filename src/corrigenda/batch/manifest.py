"""What a run is made of: its input, its settings, its models, its version; and whether another may go on from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from corrigenda import __version__
from corrigenda.batch.checking import Counts
from corrigenda.batch.inputs import File, Print, print_of, stat_of
from corrigenda.batch.reading import Columns
from corrigenda.errors import InputError
from corrigenda.evals.fingerprints import UNKNOWN
from corrigenda.settings import ADDRESSES, SECRETS, Settings
from corrigenda.terminal import without_credentials

FORMAT = 1
"""Of the state file."""
IMMATERIAL = frozenset(
    {*SECRETS, "hub_url", "models_dir", "cache_dir", "script_log", "request_timeout", "retries", "judge"}
    | {"policy", "nli_calibration", "prompts", "retrieve"}
)
"""Settings with which a run may go on as it is: they change no report, or name files, whose content counts."""
_SHOWN = 200


def manifest_of(
    settings: Settings,
    columns: Columns,
    prints: Sequence[Print],
    checksums: Mapping[str, str],
    *,
    correct: bool,
) -> dict[str, Any]:
    """Return what a run is made of, as plain JSON values without secrets."""
    kept = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in IMMATERIAL}
    for name in ADDRESSES.values():
        if kept.get(name) is not None:
            kept[name] = without_credentials(kept[name])
    if not settings.policy.endswith(".json"):
        kept["policy"] = settings.policy
    return {
        "format": FORMAT,
        "corrigenda": __version__,
        "input": [asdict(one) for one in prints],
        "columns": dict(sorted(columns.names.items())),
        "correct": correct,
        "settings": kept,
        "files": dict(checksums),
    }


def prints_of(files: Sequence[File], known: Mapping[str, Any] | None) -> tuple[Print, ...]:
    """Return the prints of the input's files; one that a manifest knows by name, size and time is not read again."""
    before = {one["name"]: Print(**one) for one in (known or {}).get("input", ())}
    return tuple(print_of(file, before.get(str(file.path))) for file in files)


def require_unchanged(files: Sequence[File], prints: Sequence[Print]) -> None:
    """Raise InputError when a file is not as it was when the run began to read it."""
    for file, known in zip(files, prints, strict=True):
        if stat_of(file) != (known.size, known.mtime_ns):
            raise InputError(
                f"the input {str(file.path)!r} was changed while it was read; what is done is kept; put it back as it "
                "was, or begin anew with --overwrite"
            )


def require_same(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise InputError, naming what differs, unless the state at `path`, of the manifest `there`, is of this run."""
    differing = differences(there, here)
    if differing:
        first, *others = differing
        more = f" (and {', '.join(others[:5])}{', …' if len(others) > 5 else ''})" if others else ""
        raise InputError(
            f"{str(path)!r} is of another run: {_told(first, there, here)}{more}; run it as it was, name another "
            "output, or begin anew with --overwrite, which deletes what is done there"
        )


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return the entries in which two runs differ, in order, as paths (`settings.floor`).

    Of the input's files the content and the order count, not their names. What is not known there is no difference.
    """
    first, second = dict(_leaves(_compared(there))), dict(_leaves(_compared(here)))
    paths = [*second, *(path for path in first if path not in second)]
    return [path for path in paths if first.get(path) != second.get(path) and first.get(path) != UNKNOWN]


def counts_of(manifest: Mapping[str, Any]) -> Counts | None:
    """Return what the first pass found, where it stands in a manifest."""
    counts = manifest.get("counts")
    return None if counts is None else Counts(**{**counts, "per_file": tuple(counts["per_file"])})


def _compared(manifest: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in manifest.items() if name != "counts"}
    kept["input"] = {str(number): one["sha256"] for number, one in enumerate(manifest.get("input", ()), start=1)}
    return kept


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    else:
        yield ".".join(path), value


def _told(name: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return an entry with its two values; a file of the input by its name, which says more than its checksum."""
    part, _, rest = name.partition(".")
    if part == "input":
        names = [manifest["input"][int(rest) - 1]["name"] for manifest in (there, here) if _has(manifest, int(rest))]
        if len(names) == 2:
            return f"input: file {rest} has another content ({names[0]!r} there, {names[1]!r} here)"
        return f"input: {len(there.get('input', ()))} files there, {len(here['input'])} here"
    return f"{name}: {_shown(there, name)} there, {_shown(here, name)} here"


def _has(manifest: Mapping[str, Any], number: int) -> bool:
    return number <= len(manifest.get("input", ()))


def _shown(manifest: Mapping[str, Any], name: str) -> str:
    text = json.dumps(dict(_leaves(_compared(manifest))).get(name), ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

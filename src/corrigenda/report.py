"""The report as strict JSON, and back. The form is fixed by `schemas/report.schema.json`.

Spans become `[start, end]`, in Unicode code points of the text they belong to. No NaN and no infinity ever
appear. Scores are rounded to 6 decimals and seconds to 4, which is finer than either is known.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types as python_types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any, cast

from corrigenda.errors import InputError
from corrigenda.types import SCHEMA_VERSION, Report, Span

BROKEN = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What `build` raises for data that are not what they should be."""

_SCORE, _SHARE, _COUNT = (-1.0, 1.0), (0.0, 1.0), (0.0, math.inf)
_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("signed", "before_signed", "after_signed", "mu"), _SCORE),
    **dict.fromkeys(("sigma", "floor", "ceiling", "threshold", "alpha"), _SHARE),
    **dict.fromkeys(("k", "seconds", "calls", "pairs", "reused", "prompt_tokens", "completion_tokens"), _COUNT),
    **dict.fromkeys(("claim", "reference", "sentence", "repeat"), _COUNT),
}
"""Which numbers a field may hold, by its name, in whichever record it stands. Fields in `_s` are seconds from 0 on."""
_TOLERANCE = 1e-9


def plain(value: Any, digits: int = 6) -> Any:
    """Return `value` (one of this package's records, or what such a record holds) as plain JSON values.

    Numbers are rounded to `digits` decimals, those of fields that end in `_s` to 4.
    """
    if value is None or type(value) in (str, int, bool):
        return value  # by far the most, and a server writes many reports a second
    if isinstance(value, Span):
        return [value.start, value.end]
    if isinstance(value, Enum):
        return value.value
    kind: type = type(value)
    names = _names(kind)
    if names is not None:
        return {name: plain(getattr(value, name), 4 if name.endswith("_s") else digits) for name in names}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return round(value, digits)
    return value


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """Return the names of a record's fields; None for a type that is no record."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def to_dict(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts, lists, strings, numbers, booleans and None."""
    found = cast(dict[str, Any], plain(report))
    return {"schema": found.pop("schema"), **found}


def to_json(report: Report, *, indent: int | None = 2) -> str:
    """Return the report as strict JSON text. Letters of every script are written as they are."""
    return json.dumps(to_dict(report), ensure_ascii=False, allow_nan=False, indent=indent)


def from_dict(data: Mapping[str, Any]) -> Report:
    """Return the report that `data` (as made by `to_dict`) describes.

    Fields that this version does not know are ignored. Raises InputError when the major schema version is
    another one, or when a field is missing, has the wrong form, or holds a number out of its range.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"not a corrigenda report: expected an object, got {type(data).__name__}")
    version = data.get("schema")
    if not isinstance(version, str) or version.split(".")[0] != SCHEMA_VERSION.split(".", maxsplit=1)[0]:
        raise InputError(f"this report has schema {version!r}; this version of corrigenda reads {SCHEMA_VERSION}")
    try:
        return cast(Report, build(Report, data))
    except BROKEN as exc:
        raise InputError(f"not a corrigenda report: {exc}") from exc


def build(kind: Any, data: Any) -> Any:
    """Return the value of the type `kind` that `data` (as made by `plain`) describes.

    Fields that this version does not know are ignored. Raises one of `BROKEN` when a field is missing, has the wrong
    form, or holds a number that is not finite or out of its range.
    """
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin is typing.Union or origin is python_types.UnionType:
        return None if data is None else build(next(a for a in arguments if a is not type(None)), data)
    if kind is Span:
        return _span(data)
    if origin is tuple:
        return tuple(build(arguments[0], item) for item in _list(data))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {str(k): build(arguments[1], v) for k, v in data.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        known = {f.name for f in dataclasses.fields(kind)}
        values = {name: build(hints[name], value) for name, value in data.items() if name in known}
        for name, value in values.items():
            _check_range(name, value)
        return kind(**values)
    return _scalar(kind, data)


def _list(data: Any) -> list[Any] | tuple[Any, ...]:
    """Return a list as it is: a text has parts too. Raises TypeError."""
    if not isinstance(data, list | tuple):
        raise TypeError(f"expected a list, got {data!r}")
    return data


def _span(data: Any) -> Span:
    start, end = (_scalar(int, place) for place in _list(data))
    if not 0 <= start <= end:
        raise ValueError(f"a span must be [start, end] with 0 <= start <= end, got {data!r}")
    return Span(start, end)


def _check_range(name: str, value: Any) -> None:
    low, high = _COUNT if name.endswith("_s") else _RANGES.get(name, (-math.inf, math.inf))
    if isinstance(value, int | float) and not low - _TOLERANCE <= value <= high + _TOLERANCE:
        limits = "at least 0" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} must be {limits}, got {value!r}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a record's fields; finding them takes far longer than using them."""
    return typing.get_type_hints(kind)


def _scalar(kind: Any, data: Any) -> Any:
    if typing.get_origin(kind) is typing.Literal:
        if data not in typing.get_args(kind):
            raise ValueError(f"{data!r} is none of {typing.get_args(kind)!r}")
        return data
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is float:
        return _number(data)
    if kind in (str, int, bool) and (not isinstance(data, kind) or (kind is int and isinstance(data, bool))):
        raise TypeError(f"expected {kind.__name__}, got {data!r}")
    if kind is Any:
        _check_plain(data)
    return data


def _number(data: Any) -> float:
    """Return a finite number. Raises TypeError and ValueError."""
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise TypeError(f"expected a number, got {data!r}")
    try:
        value = float(data)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError("expected a finite number, got one that is infinite, not a number, or too large")
    return value


def _check_plain(data: Any) -> None:
    """Raise ValueError when there is a number in plain JSON values that JSON could not hold again."""
    if isinstance(data, float):
        _number(data)
    for part in data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ():
        _check_plain(part)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the report, as published in the package."""
    text = resources.files("corrigenda").joinpath("schemas", "report.schema.json").read_text("utf-8")
    return cast(dict[str, Any], json.loads(text))

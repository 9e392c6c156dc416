"""Rule files of the scripted backends, and the errors that stand for HTTP statuses.

A rule file is one JSON object: `rules`, a list that is tried in order, `defaults`, which every rule inherits,
and what else the backend knows. Both scripted backends read theirs here, so that a mistake is reported the
same way: file, place, key, value, and what would be allowed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from corrigenda.errors import (
    BackendError,
    BadReply,
    ConfigError,
    RateLimited,
    RequestRefused,
    TimedOut,
    Unauthorized,
    Unreachable,
)

Check = tuple[Callable[[Any], bool], str]
"""Whether a value is allowed, and what would be, for a person."""

T = TypeVar("T")
Source = str | Path | Mapping[str, Any]
"""A rule file's path, or its content as Python objects."""


def error_for_status(status: int | None, message: str) -> BackendError:
    """Return the exception of our tree for an HTTP status; None stands for no connection at all."""
    error = _error(status, message)
    error.status = status
    return error


def _error(status: int | None, message: str) -> BackendError:
    if status is None:
        return Unreachable(message)
    if status in (401, 403):
        return Unauthorized(message)
    if status in (408, 504):
        return TimedOut(message)
    if status == 429:
        return RateLimited(message)
    if 400 <= status < 500:
        return RequestRefused(message, status)
    return BackendError(message) if status >= 500 else BadReply(message)


def is_number(value: Any) -> bool:
    """Return whether `value` is a finite number (a bool is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: Any) -> bool:
    """Return whether `value` is a whole number of at least 0 (a bool is not)."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


TEXT: Check = (lambda v: isinstance(v, str) and v != "", "a text that is not empty")
SECONDS: Check = (lambda v: is_number(v) and v >= 0, "a number of seconds of at least 0")
TIMES: Check = (lambda v: is_count(v) and v >= 1, "a whole number of at least 1")
OBJECT: Check = (lambda v: isinstance(v, Mapping), "an object")


@dataclass(kw_only=True, slots=True)
class Rule:
    """One rule as it serves: its settings, `defaults` included, and how often it may still serve."""

    index: int
    settings: Mapping[str, Any]
    left: float = math.inf

    def spend(self) -> None:
        """Count one use."""
        self.left -= 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """A checked rule file."""

    name: str
    rules: tuple[Rule, ...]
    extra: Mapping[str, Any]
    """The file's other keys, such as `max_tokens`."""

    def serving(self) -> Iterator[Rule]:
        """Yield the rules that may still serve, in order."""
        return (rule for rule in self.rules if rule.left > 0)


def read_script(
    source: Source,
    *,
    rule_keys: Mapping[str, Check],
    default_keys: frozenset[str],
    top_keys: Mapping[str, Check],
) -> Script:
    """Read and check a rule file, or the same content as Python objects (which is copied, never changed).

    Raises ConfigError naming the file, the rule's index (from 0), the key and what is allowed.
    """
    name = "scripted" if isinstance(source, Mapping) else f"scripted:{source}"
    # By way of JSON in both cases, so that the script is a copy and holds nothing that a file could not.
    content = _loads(name, _dump(name, source) if isinstance(source, Mapping) else _read(name, source))
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: must hold one JSON object with a list 'rules', not {type(content).__name__}")
    allowed = {"rules": (lambda v: isinstance(v, list), "a list of objects"), "defaults": OBJECT, **top_keys}
    _check(name, "the file", content, allowed)
    if "rules" not in content:
        raise ConfigError(f"{name}: has no list 'rules'; add one, if only an empty one")
    defaults = content.get("defaults", {})
    _check(name, "defaults", defaults, {k: c for k, c in rule_keys.items() if k in default_keys})
    rules = []
    for index, rule in enumerate(content["rules"]):
        place = f"rules[{index}]"
        if not isinstance(rule, dict):
            raise ConfigError(f"{name}: {place} must be an object, got {rule!r}")
        _check(name, place, rule, rule_keys)
        rules.append(Rule(index=index, settings={**defaults, **rule}, left=rule.get("times", math.inf)))
    return Script(name=name, rules=tuple(rules), extra={k: content[k] for k in top_keys if k in content})


def check_any_of(script: Script, *keys: str) -> None:
    """Raise ConfigError unless every rule has at least one of `keys`."""
    for rule in script.rules:
        if not any(key in rule.settings for key in keys):
            names = ", ".join(map(repr, keys))
            raise ConfigError(f"{script.name}: rules[{rule.index}] serves nothing; give it one of {names}")


def _check(name: str, place: str, value: Mapping[str, Any], allowed: Mapping[str, Check]) -> None:
    for key, item in value.items():
        if key not in allowed:
            raise ConfigError(f"{name}: {place} knows no key {key!r}; allowed: {', '.join(sorted(allowed))}")
        valid, description = allowed[key]
        if not valid(item):
            raise ConfigError(f"{name}: {place}: {key!r} must be {description}, got {item!r}")


def _read(name: str, path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{name}: the file is not UTF-8 text ({exc})") from exc
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{name}: the file cannot be read: {exc}") from exc


def _dump(name: str, rules: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(rules))
    except (TypeError, ValueError, RecursionError) as exc:
        raise ConfigError(f"{name}: the rules are not plain JSON values: {exc}") from exc


def _loads(name: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{name}: not valid JSON: {exc}") from exc


def _refuse_constant(value: str) -> NoReturn:
    raise ValueError(f"{value} is not JSON")


LATEST = 1_000


def remember(calls: list[T], call: T, latest: int = LATEST) -> None:
    """Add a call to those that are remembered; when there are twice `latest`, the older half goes.

    That is enough for any test, and a batch of millions of rows may use a scripted backend, too.
    """
    calls.append(call)
    if len(calls) >= 2 * latest:
        del calls[:latest]


class RequestLog:
    """Appends one JSON object a line to a file. With no path it does nothing.

    The file is opened anew for each line: several backends and processes may share it, and nothing is lost
    when the program is killed.
    """

    def __init__(self, path: str | Path | None) -> None:
        """Check at once that the file can be written. Raises ConfigError."""
        self._path = None if path is None else Path(path)
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8"):
                    pass
            except (OSError, ValueError) as exc:
                raise ConfigError(f"the request log {str(path)!r} cannot be written: {exc}") from exc

    def write(self, **record: Any) -> None:
        """Append `record`. Raises BackendError when the disk refuses it."""
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as exc:
            raise BackendError(f"the request log {str(self._path)!r} cannot be written: {exc}") from exc

"""Where settings come from, and which place wins. `corrigenda.settings` says what can be set.

This is the only module that reads configuration files and the environment. Order, strongest first:

1. flags of the command line, or arguments of `Corrigenda(...)`
2. environment variables `CORRIGENDA_<NAME>`
3. the file named by `--config` or `CORRIGENDA_CONFIG`; without one, `./corrigenda.toml`, and below it the
   user's own `corrigenda.toml` in the platform's configuration folder
4. the defaults

A `corrigenda.toml` found in the working folder may have come with somebody else's project. So no key, token or
header from another place is used for an address that only such a file names; see `Sourced.held_back`.

Keys are never put into a report, an error or the output of `corrigenda config`.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError
from corrigenda.settings import (
    ADDRESSES,
    KINDS,
    KINDS_OF,
    POLICY_OPTIONS,
    SECRETS,
    Settings,
    is_policy_file,
    refuse_beside_file,
    told,
)
from corrigenda.terminal import without_credentials

FILE_NAME = "corrigenda.toml"
_TRUSTED = (
    ("script_log", "a file to write to", "--script-log FILE"),
    ("cache_dir", "a folder whose replies and scores are believed", "--cache-dir DIR"),
)
"""What may not come from a file that may be somebody else's: setting, what it names, the flag in its place."""
OTHER_VARIABLES = {
    "HF_ENDPOINT": "hub_url",
    "HF_TOKEN": "hub_token",
    "OPENAI_BASE_URL": "base_url",
    "OPENAI_API_KEY": "api_key",
}
"""Variables that users of OpenAI's and the hub's own tools have already set; weaker than all of our own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sourced:
    """Settings together with where each value came from."""

    settings: Settings
    sources: Mapping[str, str]
    """Setting name → `default`, `flag`, `environment CORRIGENDA_…` or the file's path."""
    held_back: Mapping[str, str] = field(default_factory=dict)
    """Secret's name → why it is not used: its address is named only by a file found in the working folder."""
    unknown: tuple[str, ...] = ()
    """A warning for each environment variable that looks like one of ours and is none."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told."""
        return (*self.held_back.values(), *self.unknown)


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    config_file: str | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Sourced:
    """Return the effective settings. Flags that are None count as not given.

    Raises ConfigError when a file cannot be read, is not TOML, or names something unknown, and when a value
    has the wrong type or is out of range; the message names the value and the place.
    """
    env = os.environ if environ is None else environ
    # Each setting's values, weakest first, with where they come from.
    found: dict[str, list[tuple[str, Any]]] = {f.name: [] for f in fields(Settings)}
    for variable, name in OTHER_VARIABLES.items():
        if env.get(variable):
            found[name].append((f"environment {variable}", env[variable]))
    named = config_file or env.get("CORRIGENDA_CONFIG")
    own, project = (Path(named), None) if named else _standard_files(cwd or Path.cwd())
    for path in (own, project):
        for name, value in ({} if path is None else _read_file(path)).items():
            found[name].append((str(path), value))
    for name, given in found.items():
        variable = f"CORRIGENDA_{name.upper()}"
        if env.get(variable):
            given.append((f"environment {variable}", env[variable]))
    for name, value in (flags or {}).items():
        found[_known(name)] += [] if value is None else [("flag", value)]
    sources = {name: given[-1][0] if given else "default" for name, given in found.items()}
    held_back = _hold_back(found, project)
    sources |= {name: given[-1][0] for name, given in found.items() if given}
    values = {name: [_converted(name, v, _place(name, place)) for place, v in given] for name, given in found.items()}
    settings = _settings({name: given[-1] for name, given in values.items() if given}, sources)
    return Sourced(settings=settings, sources=sources, held_back=held_back, unknown=_unknown_variables(env))


def override(settings: Settings, **values: Any) -> Settings:
    """Return `settings` with some values replaced, converted as flags are. None: not given. Raises as `load` does."""
    given = {_known(name): value for name, value in values.items()}
    return replace(settings, **{n: _converted(n, value, "argument") for n, value in given.items() if value is not None})


def _known(name: str) -> str:
    """Return `name`. Raises ConfigError, listing those there are, when it is no setting."""
    known = sorted(f.name for f in fields(Settings))
    if name not in known:
        raise ConfigError(f"unknown setting {name!r}; known are {', '.join(known)}")
    return name


def _standard_files(cwd: Path) -> tuple[Path | None, Path | None]:
    """Return the user's own configuration file and the one found in the working folder, where they are."""
    import platformdirs  # noqa: PLC0415  # only needed here, and the import costs start-up time

    own, project = Path(platformdirs.user_config_dir("corrigenda")) / FILE_NAME, cwd / FILE_NAME
    if own.is_file() and project.is_file() and own.samefile(project):
        return own, None
    return own if own.is_file() else None, project if project.is_file() else None


def _hold_back(found: dict[str, list[tuple[str, Any]]], project: Path | None) -> dict[str, str]:
    """Take the secrets out of `found` that would go to an address that only the project's file names.

    Returns, per secret, why it is not used. A secret that stands in that same file stays. Raises ConfigError
    where the project's file names a file to write to, or a cache to believe.
    """
    if project is None:
        return {}
    held: dict[str, str] = {}
    place = str(project)
    for secret, address in ADDRESSES.items():
        values = found[secret]
        if not values or not found[address] or found[address][-1][0] != place or values[-1][0] == place:
            continue
        remedy = "pass --base-url URL" if address == "base_url" else "set CORRIGENDA_HUB_URL"
        held[secret] = (
            f"{secret} ({values[-1][0]}) is held back: {address} comes from {place!r}, which was found in the working "
            f"folder and may be somebody else's; to send it there all the same, {remedy}, or --config {place}"
        )
        found[secret] = [value for value in values if value[0] == place]
    for name, why, remedy in _TRUSTED:
        if found[name] and found[name][-1][0] == place:
            raise ConfigError(
                f"{place}: {name} is not taken from a file found in the working folder, since it names {why}; pass "
                f"{remedy}, or --config {place}"
            )
    return held


def _unknown_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning for each variable that begins as ours do and names no setting. No value is shown."""
    known = [f"CORRIGENDA_{f.name.upper()}" for f in fields(Settings)] + ["CORRIGENDA_CONFIG"]
    warnings = []
    for name in sorted(name for name, value in env.items() if name.startswith("CORRIGENDA_") and value):
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
        warnings.append(f"the environment variable {name} sets nothing; the nearest that does is {near}")
    return tuple(warnings)


def _place(name: str, source: str) -> str:
    return f"flag --{name.replace('_', '-')}" if source == "flag" else source


def _settings(values: Mapping[str, Any], sources: Mapping[str, str]) -> Settings:
    """Return the settings. Raises ConfigError that says where the wrong value stands."""
    try:
        settings = Settings(**values)
        if is_policy_file(settings.policy):  # also an option that is given with its default value
            refuse_beside_file(settings.policy, [name for name in POLICY_OPTIONS if name in values])
        return settings
    except ConfigError as exc:
        named = re.search(rf"\b({'|'.join(sources)})\b", str(exc))  # every message begins with the setting's name
        if named is None or sources[named[1]] == "default":
            raise
        raise ConfigError(f"{_place(named[1], sources[named[1]])}: {exc}") from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise ConfigError(
            f"configuration file {str(path)!r} cannot be read: {exc.strerror}; check the path (--config)"
        ) from exc
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"configuration file {str(path)!r} is not valid TOML: {exc}") from exc
    try:
        return {_known(name): value for name, value in data.items()}
    except ConfigError as exc:
        raise ConfigError(f"configuration file {str(path)!r}: {exc}") from None


def _converted(name: str, value: Any, place: str) -> Any:
    """Return `value` as the setting's type. Raises ConfigError that names the value (not a secret) and the place."""
    kind = KINDS_OF[name].removesuffix(" | None")
    try:
        return _CONVERTERS[kind](value)
    except (TypeError, ValueError, OverflowError):
        # The cause would show a secret that the message does not.
        raise ConfigError(f"{place}: {name} must be {KINDS[kind]}, got {told(name, value)}") from None


def _to_float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return float(value)


def _to_int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError("not a whole number")
    return int(value)


def _to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _to_headers(value: Any) -> dict[str, str]:
    """Take a table, or `Name: value` lines separated by new lines."""
    if isinstance(value, str):
        pairs = [line.split(":", 1) for line in value.splitlines() if line.strip()]
        return {name.strip(): content.strip() for name, content in pairs}
    return {_to_str(k): _to_str(v) for k, v in dict(value).items()}


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "float": _to_float,
    "int": _to_int,
    "str": _to_str,
    "Mapping[str, str]": _to_headers,
}


def shown(sourced: Sourced) -> list[tuple[str, Any, str]]:
    """Return (name, value, source) per setting, sorted, without any secret."""
    rows = []
    for name in sorted(sourced.sources):
        value = getattr(sourced.settings, name)
        if name in SECRETS:
            unset = "(held back, not used)" if name in sourced.held_back else None
            value = "(set, not shown)" if value else unset
        elif name in ADDRESSES.values() and value is not None:
            value = without_credentials(value)
        rows.append((name, value, sourced.sources[name]))
    return rows

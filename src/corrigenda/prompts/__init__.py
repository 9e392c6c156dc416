"""The wording of every request, one TOML file per language: data, not code.

`load("en")` reads the file that ships with the package; `load_file(path)` reads a user's own, which may leave
out any table or key (English's is used then). Text in braces such as `{question}` is filled in by
`str.replace`, never by `str.format`, so that braces in the data mean nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError

LANGUAGES = ("en", "it")
"""Languages that have a prompt file of their own; any other text is handled with English prompts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """One language's wording. Index with a table and a key: `prompts.get("recall", "user")`."""

    language: str
    tables: Mapping[str, Mapping[str, Any]]

    def get(self, table: str, key: str) -> str:
        """Return one text. Raises ConfigError when it is missing or is not a text."""
        value = self.tables.get(table, {}).get(key)
        if not isinstance(value, str):
            raise ConfigError(f"prompts ({self.language}): [{table}] has no text {key!r}")
        return value

    def words(self, table: str, key: str) -> tuple[str, ...]:
        """Return one list of texts. Raises ConfigError when it is missing or is not a list of texts."""
        value = self.tables.get(table, {}).get(key)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise ConfigError(f"prompts ({self.language}): [{table}] has no list of texts {key!r}")
        return tuple(value)

    def fill(self, table: str, key: str, **values: str) -> str:
        """Return one text with each `{name}` replaced by `values[name]`, in one pass over the template.

        One pass, so that braces inside a value (an answer that holds `{reference}`) are left alone.
        """
        template = self.get(table, key)
        parts: list[str] = []
        rest = template
        while True:
            start = rest.find("{")
            end = rest.find("}", start + 1)
            if start < 0 or end < 0:
                return "".join(parts) + rest
            name = rest[start + 1 : end]
            if name in values:
                parts += [rest[:start], values[name]]
                rest = rest[end + 1 :]
            else:
                parts.append(rest[: start + 1])
                rest = rest[start + 1 :]


@lru_cache(maxsize=8)
def load(language: str) -> Prompts:
    """Return the wording for `language` (`en` or `it`). Raises ConfigError for any other."""
    if language not in LANGUAGES:
        raise ConfigError(f"no prompts for language {language!r}; there are {', '.join(LANGUAGES)}")
    text = resources.files(__package__).joinpath(f"{language}.toml").read_text("utf-8")
    return Prompts(language=language, tables=tomllib.loads(text))


def load_file(path: str | Path, *, base: str = "en") -> Prompts:
    """Return a user's wording: the tables of the TOML file at `path` over those of language `base`.

    Raises ConfigError when the file cannot be read, is not TOML, or has a table or key that nothing uses.
    """
    standard = load(base)
    try:
        own = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"prompts file {str(path)!r} cannot be read: {exc}") from exc
    merged: dict[str, dict[str, Any]] = {name: dict(table) for name, table in standard.tables.items()}
    for name, table in own.items():
        if name not in merged or not isinstance(table, dict):
            raise ConfigError(f"prompts file {str(path)!r}: unknown table {name!r}; known: {', '.join(merged)}")
        for key, value in table.items():
            if key not in merged[name]:
                known = ", ".join(merged[name])
                raise ConfigError(f"prompts file {str(path)!r}: [{name}] knows no {key!r}; known: {known}")
            merged[name][key] = value
    return Prompts(language=base, tables=merged)

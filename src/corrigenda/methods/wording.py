"""The wording of the methods' own requests: `wording.toml`, one table per method. English, as in their papers."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from types import MappingProxyType


@cache
def wording(method: str) -> MappingProxyType[str, str]:
    """Return the texts of `method` by name. KeyError for a method without a table in `wording.toml`."""
    text = resources.files("corrigenda.methods").joinpath("wording.toml").read_text("utf-8")
    return MappingProxyType(tomllib.loads(text)[method])


def fill(template: str, /, **values: str) -> str:
    """Return `template` with `{name}` replaced by `values[name]`; braces in the values are left alone.

    KeyError when the template names a value that was not given.
    """
    parts = []
    rest = template
    while (start := rest.find("{")) >= 0:
        end = rest.index("}", start)
        parts += [rest[:start], values[rest[start + 1 : end]]]
        rest = rest[end + 1 :]
    return "".join([*parts, rest])

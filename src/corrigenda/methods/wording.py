"""The wording of the methods' own requests: `wording.toml`, one table per method. English, as in their papers."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

from corrigenda.prompts import Prompts


@cache
def wording() -> Prompts:
    """Return the texts: `wording().fill("cove", "plan", question=…)`."""
    text = resources.files("corrigenda.methods").joinpath("wording.toml").read_text("utf-8")
    return Prompts(language="en", tables=tomllib.loads(text))

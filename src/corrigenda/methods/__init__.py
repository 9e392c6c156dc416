"""Every system of the comparison, a module each, behind one `Method` protocol.

| name | class | needs beside a chat model and a verifier |
|---|---|---|
| `base` | `base.Base` | |
| `self-check` | `self_check.SelfCheck` | |
| `nli-fixed` | `nli_fixed.NliFixed` | |
| `corrigenda`, `corrigenda:POLICY` | `corrigenda.PipelineMethod` | |
| `selfcheckgpt` | `selfcheckgpt.SelfCheckGPT` | |
| `factscore` | `factscore.FactScore` | a retriever |
| `rag` | `rag.Rag` | a retriever |
| `self-consistency` | `self_consistency.SelfConsistency` | |
| `self-refine` | `self_refine.SelfRefine` | |
| `dola` | `dola.Dola` | the extra `dola` |
| `cove` | `cove.Cove` | |

To add one: write its module, add a line to `_TABLE`, and run `python -m tests.methods_docs`; the suite in
`tests/conformance/test_method.py` takes it from there.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

from corrigenda.errors import ConfigError, MissingExtra
from corrigenda.methods.protocol import Method
from corrigenda.policies import POLICIES

Option = str | float | int


class _Entry(NamedTuple):
    module: str
    name: str
    needs: tuple[str, ...] = ()
    """Packages, and the extra that brings them."""
    extra: str = ""


_TABLE: Mapping[str, _Entry] = {
    "base": _Entry("base", "Base"),
    "self-check": _Entry("self_check", "SelfCheck"),
    "nli-fixed": _Entry("nli_fixed", "NliFixed"),
    "corrigenda": _Entry("corrigenda", "PipelineMethod"),
    "selfcheckgpt": _Entry("selfcheckgpt", "SelfCheckGPT"),
    "factscore": _Entry("factscore", "FactScore"),
    "rag": _Entry("rag", "Rag"),
    "self-consistency": _Entry("self_consistency", "SelfConsistency"),
    "self-refine": _Entry("self_refine", "SelfRefine"),
    "dola": _Entry("dola", "Dola", ("torch", "transformers"), "dola"),
    "cove": _Entry("cove", "Cove"),
}

METHODS = tuple(_TABLE)
"""The names, in the order of every table and report. `corrigenda:POLICY` is `corrigenda` under that policy."""


def method_class(name: str) -> type[Method]:
    """Return the class of the method called `name`, whose `traits` say what it is. Raises ConfigError."""
    entry = _entry(name)
    module = importlib.import_module(f"corrigenda.methods.{entry.module}")
    return cast("type[Method]", getattr(module, entry.name))


def make(name: str, options: Mapping[str, Option] | None = None) -> Method:
    """Return the method called `name`, with its own options; a text is read as the number an option needs.

    Raises ConfigError for an unknown name or option and a value that does not fit, and MissingExtra, before
    anything is imported, for a method whose packages are not installed.
    """
    entry = _entry(name)
    for package in entry.needs:
        if find_spec(package) is None:
            raise MissingExtra(f"the method {name!r}", package, entry.extra)
    given = dict(options or {})
    policy = name.partition(":")[2]
    if policy and given.setdefault("policy", policy) != policy:
        raise ConfigError(f"method {name!r} has the policy in its name; leave out policy = {given['policy']!r}")
    made = method_class(name)
    known = options_of(name)
    for key in given:
        if key not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"method {name!r} has no option {key!r}; {there}")
    return made(**{key: _fitting(name, key, value, known[key][0]) for key, value in given.items()})


def options_of(name: str) -> dict[str, tuple[str, Any]]:
    """Return a method's options: name → (type as it is written, default). Raises ConfigError for an unknown name."""
    return {f.name: (str(f.type), f.default) for f in fields(cast("Any", method_class(name)))}


def traits_table(names: tuple[str, ...] = METHODS) -> str:
    """Return the methods' traits as a Markdown table, made from their classes."""
    rows = [
        "| method | external retrieval | claim level | adaptive threshold | corrects | calls per answer |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        traits = method_class(name).traits
        marks = (traits.retrieval, traits.claim_level, traits.adaptive, traits.corrects)
        cells = [f"`{name}`", *("yes" if mark else "no" for mark in marks), traits.calls.replace("|", "\\|")]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _entry(name: str) -> _Entry:
    kind, colon, policy = name.partition(":")
    if kind not in _TABLE or (colon and (kind != "corrigenda" or policy not in POLICIES)):
        variants = ", ".join(f"corrigenda:{each}" for each in POLICIES)
        raise ConfigError(f"unknown method {name!r}; there are {', '.join(METHODS)}; and {variants}")
    return _TABLE[kind]


def _fitting(name: str, key: str, value: Option, kind: str) -> Option | bool:
    """Return an option's value in the type it is declared with (`int`, `float | None`, …). Raises ConfigError."""
    reader, what = _READERS.get(kind.removesuffix(" | None"), (_text, "a text"))
    try:
        return reader(value)
    except ValueError:
        raise ConfigError(f"method {name!r}: {key} must be {what}, got {value!r}") from None


def _whole(value: Option) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _number(value: Option) -> float:
    if isinstance(value, bool) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _truth(value: Option) -> bool:
    truths = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in truths:
        raise ValueError
    return truths[value.lower()]


def _text(value: Option) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


_READERS: Mapping[str, tuple[Callable[[Option], Option | bool], str]] = {
    "int": (_whole, "a whole number"),
    "float": (_number, "a number"),
    "bool": (_truth, "true or false"),
    "str": (_text, "a text"),
}

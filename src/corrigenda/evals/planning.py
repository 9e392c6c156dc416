"""From what was asked for to a plan: methods with their options, defaults that fit the data, the manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from corrigenda import __version__
from corrigenda.errors import ConfigError, InputError
from corrigenda.evals.fingerprints import of_method, of_settings
from corrigenda.evals.items import DataSet
from corrigenda.evals.needs import skipped_kinds
from corrigenda.evals.records import RECORD_SCHEMA
from corrigenda.evals.run import Plan
from corrigenda.methods import make
from corrigenda.methods.protocol import Method
from corrigenda.report import plain
from corrigenda.settings import ADDRESSES, SECRETS, Settings
from corrigenda.terminal import without_credentials

DEFAULT_METHODS = ("base", "self-check", "nli-fixed", "corrigenda", "selfcheckgpt")
"""What is compared when nobody says; those of them that can take the data set."""
DEFAULT_SEED = 7
"""A run always has a seed: it is what lets methods share calls, and a run be made again."""
REMOTE_CONCURRENCY = 4
FOLDER = "corrigenda-eval"
"""Where runs go when nobody says, in the working folder."""

_ELSEWHERE = ("seed", "judge", "llm", "nli")
"""Settings that the manifest has under names of their own."""
_IMMATERIAL = ("models_dir", "cache_dir", "hub_url", "request_timeout", "retries", "script_log")
"""Settings that do not change what a run measures."""


def method_names(text: str | None) -> tuple[str, ...] | None:
    """Return the names of a list with commas; None for None. Raises ConfigError for an empty or repeated name."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ConfigError(
            f"--methods {text!r} has an empty name; give names with commas between, such as base,corrigenda"
        )
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--methods names {name!r} twice; name it once")
    return names


def method_options(settings: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return method → option → value from texts of the form `method.option=value`. Raises ConfigError."""
    found: dict[str, dict[str, str]] = {}
    for text in settings:
        match = re.fullmatch(r"([^.=]+)\.([^.=]+)=(.*)", text, re.DOTALL)
        if match is None:
            raise ConfigError(f"--set {text!r} must have the form method.option=value, such as selfcheckgpt.n=10")
        method, option, value = (part.strip() for part in match.groups())
        if option in found.setdefault(method, {}):
            raise ConfigError(f"--set {method}.{option} is given twice; give it once")
        found[method][option] = value
    return found


def make_methods(
    names: Sequence[str] | None, options: Mapping[str, Mapping[str, str]], data: DataSet, *, chat: bool, retriever: bool
) -> dict[str, Method]:
    """Return the methods of a run by name; without `names`, those of the default ones that can take the data.

    `base` is none of those where there are only claims, of which it says nothing. Raises ConfigError for options of a
    method that is not run, MissingExtra for one whose packages are missing, and as `methods.make` does.
    """
    chosen = tuple(names) if names is not None else _default_names(data, chat=chat, retriever=retriever)
    return made(chosen, options)


def made(names: Sequence[str], options: Mapping[str, Mapping[str, str]]) -> dict[str, Method]:
    """Return these methods with their options. Raises as `make_methods` does."""
    for name in options:
        if name not in names:
            raise ConfigError(f"--set names the method {name!r}, which is not run; the methods are {', '.join(names)}")
    return {name: make(name, options.get(name)) for name in names}


def _default_names(data: DataSet, *, chat: bool, retriever: bool) -> tuple[str, ...]:
    found = []
    for name in DEFAULT_METHODS:
        if name == "base" and all(item.kind == "claim" for item in data.items):
            continue
        try:
            skipped_kinds(data, {name: make(name)}, chat=chat, retriever=retriever)
        except InputError:
            continue
        found.append(name)
    if not found:
        skipped_kinds(data, {name: make(name) for name in DEFAULT_METHODS}, chat=chat, retriever=retriever)
    return tuple(found)


def concurrency_for(settings: Settings) -> int:
    """Return how many items to work on at a time: one where a local model computes, which would only share its time."""
    verifier = settings.nli.removeprefix("chat:") if settings.nli.startswith("chat:") else settings.nli
    local = settings.llm.startswith("local") or verifier.startswith("local") or verifier == "chat"
    return 1 if local else REMOTE_CONCURRENCY


def make_plan(
    data: DataSet,
    methods: Mapping[str, Method],
    settings: Settings,
    *,
    repeats: int = 1,
    concurrency: int | None = None,
    correct: bool | None = None,
    reuse: bool = True,
    retry_failed: bool = False,
) -> Plan:
    """Return the plan. Raises InputError when a method cannot take the data, ConfigError for numbers below 1."""
    for name, value in (("repeats", repeats), ("concurrency", concurrency)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} must be at least 1, got {value!r}")
    return Plan(
        data=data,
        methods=methods,
        skipped=skipped_kinds(data, methods, chat=settings.llm != "none", retriever=settings.retrieve is not None),
        seed=DEFAULT_SEED if settings.seed is None else settings.seed,
        repeats=repeats,
        concurrency=concurrency_for(settings) if concurrency is None else concurrency,
        correct=correct,
        reuse=reuse,
        own_prompts=settings.prompts is not None,
        retry_failed=retry_failed,
    )


def manifest_of(
    plan: Plan,
    settings: Settings,
    *,
    task: str | None,
    split: str | None,
    limit: int | None,
    wiki: Path | None = None,
    detokenise: str = "auto",
) -> dict[str, Any]:
    """Return what a run is made of, as plain JSON values without secrets; see `evals.manifest`.

    What the items are is not in here: each record has the checksum of its own, so that more may be drawn. Raises
    InputError or ModelError when a file that the settings name cannot be read.
    """
    data = plan.data
    return {
        "schema": RECORD_SCHEMA,
        "corrigenda": __version__,
        "dataset": {"name": data.name, "sha256": data.sha256, "task": task, "split": split},
        "items": len(data.items),
        "limit": limit,
        "seed": plan.seed,
        "repeats": plan.repeats,
        "correct": plan.correct,
        "reuse": plan.reuse,
        "concurrency": [plan.concurrency],
        "models": {"chat": settings.llm, "verifier": settings.nli, "judge": settings.judge or "nli"},
        "methods": {name: _options(method) for name, method in plan.methods.items()},
        "settings": shown_settings(settings),
        "files": of_settings(settings),
        "data": {
            "file": data.source,
            "wiki": None if wiki is None else str(wiki),
            "detokenise": detokenise,
            "counts": dict(data.counts),
            "notes": list(data.notes),
        },
    }


def _options(method: Method) -> dict[str, Any]:
    """Return a method's options, and the checksum of the model that it brings."""
    options: dict[str, Any] = plain(method)
    checksum = of_method(method)
    return options if checksum is None else options | {"model_checksum": checksum}


def shown_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that bear on what is measured, without secrets."""
    left_out = {*SECRETS, *_ELSEWHERE, *_IMMATERIAL}
    found = {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in left_out}
    for name in ADDRESSES.values():
        if found.get(name) is not None:
            found[name] = without_credentials(found[name])
    return found


def folder_for(data: DataSet, *, task: str | None, split: str | None) -> Path:
    """Return the folder of a run that names none: below the working folder, named after the data."""
    parts = [data.name, *(part for part in (task, split) if part is not None)]
    return Path(FOLDER) / (re.sub(r"[^\w.-]+", "-", "-".join(parts)).strip("-.") or "data")

"""From names and options to methods."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import corrigenda.methods as methods
from corrigenda.errors import ConfigError, MissingExtra
from corrigenda.methods import METHODS, make, options_of, traits_table


def test_the_names_are_those_of_the_comparison_in_their_order() -> None:
    assert METHODS == (
        "base",
        "self-check",
        "nli-fixed",
        "corrigenda",
        "selfcheckgpt",
        "factscore",
        "rag",
        "self-consistency",
        "self-refine",
        "dola",
        "cove",
    )


@pytest.mark.parametrize(
    ("name", "options", "made"),
    [
        ("base", None, "Base()"),
        ("nli-fixed", {}, "NliFixed(threshold=0.7)"),
        ("nli-fixed", {"threshold": "0.8"}, "NliFixed(threshold=0.8)"),
        ("selfcheckgpt", {"n": "3", "temperature": 1}, "SelfCheckGPT(n=3, temperature=1.0, threshold=0.5)"),
        ("self-consistency", {"n": 4}, "SelfConsistency(n=4, temperature=None)"),
        ("self-refine", {"rounds": 1}, "SelfRefine(rounds=1)"),
        ("self-check", {"retries": 0}, "SelfCheck(retries=0)"),
        (
            "corrigenda:bounded",
            {"floor": "0.4", "policy": "bounded"},
            "PipelineMethod(policy='bounded', k=None, threshold=None, floor=0.4, ceiling=None, alpha=None)",
        ),
    ],
)
def test_options_are_read_in_the_types_they_are_declared_with(name: str, options: Any, made: str) -> None:
    assert repr(make(name, options)) == made


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bass", {}, r"unknown method 'bass'; there are base, self-check, .*, cove; and corrigenda:paper, "),
        ("corrigenda:best", {}, "unknown method 'corrigenda:best'"),
        ("corrigenda:", {}, "unknown method 'corrigenda:'"),
        ("base:paper", {}, "unknown method 'base:paper'"),
        ("base", {"n": 3}, "method 'base' has no option 'n'; it has none"),
        ("selfcheckgpt", {"samples": 3}, "has no option 'samples'; it has n, temperature, threshold"),
        ("selfcheckgpt", {"n": "many"}, "method 'selfcheckgpt': n must be a whole number, got 'many'"),
        ("selfcheckgpt", {"n": 2.5}, "n must be a whole number, got 2.5"),
        ("selfcheckgpt", {"n": True}, "n must be a whole number, got True"),
        ("selfcheckgpt", {"n": 0}, "n must be from 1 to 100, got 0"),
        ("selfcheckgpt", {"temperature": "nan"}, "temperature must be a number, got 'nan'"),
        ("selfcheckgpt", {"temperature": 3}, "temperature must be from 0 to 2, got 3.0"),
        ("selfcheckgpt", {"threshold": -1}, "threshold must be from 0 to 1, got -1.0"),
        ("self-consistency", {"n": 1}, "n must be from 2 to 100, got 1"),
        ("self-consistency", {"temperature": -1}, "temperature must be from 0 to 2, got -1.0"),
        ("self-refine", {"rounds": 0}, "rounds must be from 1 to 10, got 0"),
        ("self-check", {"retries": 11}, "retries must be from 0 to 10, got 11"),
        ("nli-fixed", {"threshold": 2}, "threshold must be a number from 0 to 1, got 2.0"),
        ("corrigenda", {"policy": "best"}, "unknown policy 'best'"),
        ("corrigenda", {"policy": 1}, "policy must be a text, got 1"),
        ("corrigenda:paper", {"policy": "fixed"}, "has the policy in its name; leave out policy = 'fixed'"),
        ("corrigenda:paper", {"floor": 0.2}, "policy 'paper' has no option 'floor'; it has k"),
        ("corrigenda:bounded", {"ceiling": 1}, "ceiling must be below 1"),
    ],
)
def test_what_does_not_fit_is_named_with_the_remedy(name: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(name, options)


def test_a_method_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "find_spec", lambda name: None if name == "torch" else importlib.util.find_spec(name))
    with pytest.raises(MissingExtra, match=r"the method 'dola' needs the package 'torch'.*corrigenda\[dola\]"):
        make("dola")


def test_the_traits_are_a_table_of_the_classes() -> None:
    table = traits_table(("base", "selfcheckgpt")).splitlines()
    assert table[2:] == ["| `base` | no | no | no | no | 1 |", "| `selfcheckgpt` | no | yes | no | no | 1 + N |"]
    assert options_of("selfcheckgpt") == {"n": ("int", 5), "temperature": ("float", 1.0), "threshold": ("float", 0.5)}

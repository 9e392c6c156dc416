"""What was run, for the summary: from one manifest, from several, and the policies from the records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.eval_records import outcome, record, report

from corrigenda.evals.described import policies_of, run_of
from corrigenda.types import Decision

MANIFEST: dict[str, Any] = {
    "schema": "1.0",
    "corrigenda": "0.1",
    "dataset": {"name": "claims:d", "sha256": "abc", "task": "claim", "split": None},
    "items": 5,
    "limit": 5,
    "seed": 7,
    "repeats": 1,
    "correct": None,
    "reuse": True,
    "concurrency": [1],
    "models": {"chat": "none", "verifier": "chat", "judge": "lexical"},
    "methods": {"base": {}, "m": {"n": 5}},
    "settings": {"policy": "bounded", "k": 0.7, "floor": None},
    "files": {"verifier": "def"},
    "data": {
        "file": "some/where/d.jsonl",
        "wiki": None,
        "detokenise": "auto",
        "counts": {"rows": 6, "duplicate": 1},
        "notes": ["licence Apache-2.0"],
    },
}


def test_a_run_is_described_from_its_manifest() -> None:
    assert run_of([MANIFEST], []) == {
        "version": "0.1",
        "seed": 7,
        "repeats": 1,
        "items": 5,
        "limit": 5,
        "task": "claim",
        "split": None,
        "dataset": {
            "name": "claims:d",
            "sha256": "abc",
            "file": "d.jsonl",
            "counts": {"rows": 6, "duplicate": 1},
        },
        "correct": None,
        "reuse": True,
        "concurrency": [1],
        "models": {"chat": "none", "verifier": "chat", "judge": "lexical"},
        "settings": {"policy": "bounded", "k": 0.7, "floor": None},
        "methods": {"base": {}, "m": {"n": 5}},
        "files": {"verifier": "def"},
        "policies": {},
        "notes": ["licence Apache-2.0"],
    }


@pytest.mark.parametrize("file", ["https://x/a/b.csv", "the package's own files"])
def test_of_an_address_all_is_told(file: str) -> None:
    assert run_of([{**MANIFEST, "data": {"file": file}}], [])["dataset"]["file"] == file


def test_a_manifest_with_little_in_it_is_described_as_far_as_it_goes() -> None:
    found = run_of([{"schema": "1.0", "corrigenda": "0.1", "dataset": {"name": "d"}, "methods": {"m": {}}}], [])
    assert (found["version"], found["seed"], found["dataset"]["name"], found["notes"]) == ("0.1", None, "d", [])


def test_where_several_runs_differ_nothing_is_told_but_that_they_do() -> None:
    other = {
        **MANIFEST,
        "seed": 8,
        "settings": {"policy": "bounded", "k": 0.7, "floor": 0.6},
        "methods": {"m": {"n": 6}, "new": {"x": 1}},
        "data": {**MANIFEST["data"], "notes": ["licence Apache-2.0", "invented"]},
    }
    found = run_of([MANIFEST, other], [])
    assert (found["version"], found["seed"], found["settings"]) == (
        "0.1",
        None,
        {"policy": "bounded", "k": 0.7, "floor": None},
    )
    assert found["methods"] == {"base": {}, "m": {"n": None}, "new": {"x": 1}}
    assert found["notes"] == [
        "These are 2 runs, which differ in seed, settings.floor, methods.m.n.",
        "licence Apache-2.0",
        "invented",
    ]


def test_times_under_several_loads_are_told_not_to_be_alike() -> None:
    assert run_of([{**MANIFEST, "concurrency": [1, 4]}], [])["notes"][0] == (
        "The run was made with several numbers of items at a time (1, 4): its times are not alike."
    )


def test_the_policies_are_those_that_decided() -> None:
    def decided(method: str, **options: Any) -> Any:
        decision = Decision(policy="bounded", k=0.7, mu=0.1, sigma=0.1, tau=0.5, provisional=True, **options)
        return record(1, method, made=replace(outcome(), report=replace(report(), decision=decision)))

    records = [decided("m", floor=0.5), decided("m", floor=0.5), decided("n", floor=0.5), decided("n", floor=0.6)]
    shared = {"policy": "bounded", "k": 0.7, "ceiling": None, "threshold": None, "alpha": None, "provisional": True}
    assert policies_of([*records, record(2, "base", made=outcome()), record(3)]) == {
        "m": {**shared, "floor": 0.5},
        "n": {**shared, "floor": None},
    }

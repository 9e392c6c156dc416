"""docs/results.md is what benchmarks/results.py makes of the summaries that are kept; and what it makes of one."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which is part of no package."""
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where a dataclass looks for its own module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_kept_summaries_say(results: ModuleType) -> None:
    if not list((ROOT / "docs" / "results").glob("*.json")):
        pytest.skip("no summary is kept in docs/results yet: python benchmarks/results.py --data DIR makes them")
    written = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert written == results.page(), "write the page again: python benchmarks/results.py --write"


def test_every_kept_summary_is_of_an_experiment(results: ModuleType) -> None:
    """One that is of none would not be on the page, and nobody would miss it."""
    kept = {path.stem for path in (ROOT / "docs" / "results").glob("*.json")}
    assert kept <= {experiment.name for experiment in results.EXPERIMENTS}


def found(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": 4}


KEPT: dict[str, Any] = {
    "command": "corrigenda eval mini --task claim",
    "made": "2026-01-02",
    "corrigenda": "0.1.0",
    "machine": "a machine",
    "summary": {
        "kinds": ["claim"],
        "items": 4,
        "groups": 3,
        "models": {"judge": [], "verifier": ["onnx:one", "onnx:two"], "chat": ["local:x"]},
        "notes": ["A note with `code`."],
        "methods": {
            "nli-fixed": {"claim_accuracy": found(0.75, 0.5, 1.0), "claim_recall": found(0.5), "coverage": found(None)},
            "corrigenda": {"claim_accuracy": found(1.0), "claim_recall": found(None)},
        },
    },
    "sweep": [
        {
            "policy": "paper",
            "k": 0.5,
            "floor": None,
            "ceiling": None,
            "threshold": None,
            "composed": 4,
            "metrics": {
                "claim_precision": found(0.5),
                "claim_recall": found(1.0),
                "claim_f1": found(2 / 3, 0.25, 0.9),
                "claim_false_positive_rate": found(None),
            },
        }
    ],
}


def test_a_small_page_reads_as_this(results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "HERE", tmp_path)
    monkeypatch.setattr(results, "KEPT", tmp_path)
    first = results.Experiment(name="first", title="The first", arguments=())
    monkeypatch.setattr(results, "EXPERIMENTS", (first, results.Experiment(name="not run", title="-", arguments=())))
    (tmp_path / "results_head.md").write_text("# Results\n\nA head.\n", encoding="utf-8")
    (tmp_path / "results_discussion.md").write_text("What it means.\n", encoding="utf-8")
    (tmp_path / "first.json").write_text(json.dumps(KEPT), encoding="utf-8")
    assert [line.rstrip() for line in results.page().splitlines()] == [
        "# Results",
        "",
        "A head.",
        "",
        "What it means.",
        "",
        "## The first",
        "",
        "    corrigenda eval mini --task claim",
        "",
        "4 items in 3 groups, made on 2026-01-02 with corrigenda",
        "0.1.0 (a machine). judge: none; verifier: onnx:one, onnx:two; chat: local:x.",
        "",
        "| method | accuracy | recall |",
        "|---|---|---|",
        "| `nli-fixed` | 0.75 (0.50 to 1.00) | 0.50 |",
        "| `corrigenda` | 1.00 | – |",
        "",
        "* A note with `code`.",
        "",
        "The same scores decided anew (`corrigenda eval sweep`), 4 claims at a time as if they were one answer; no "
        "model ran again:",
        "",
        "| policy | precision | recall | F1 | right claims flagged |",
        "|---|---|---|---|---|",
        "| paper (k 0.5) | 0.50 | 1.00 | 0.67 | – |",
    ]

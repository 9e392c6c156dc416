"""The files of an evaluation, and that the paper's numbers never pass for ours."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from tests.eval_summaries import full_summary, records

from corrigenda.errors import MissingExtra
from corrigenda.evals import paper_numbers, plots
from corrigenda.evals.outputs import write_outputs
from corrigenda.evals.summary import summarise
from corrigenda.files import OutputFailed

pytest.importorskip("matplotlib", reason="the extra `eval` is not installed")


def test_three_files_are_written_that_say_the_same(tmp_path: Path) -> None:
    full = full_summary()
    summary = {name: value for name, value in full.items() if name not in ("sweep", "ablation", "errors")}
    paths = write_outputs(tmp_path / "out", records(), summary, sweep=full["sweep"], ablation=full["ablation"])
    assert [path.name for path in paths] == ["summary.json", "report.md", "report.html"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in paths)
    written = json.loads(paths[0].read_text("utf-8"))
    assert {name: written[name] for name in full if name != "errors"} == json.loads(
        json.dumps({name: value for name, value in full.items() if name != "errors"})
    )
    assert written["errors"]["corrigenda"]["errors"] == full["errors"]["corrigenda"]["errors"]
    assert "sweep" not in summary
    assert {"<!doctype html>", "# Evaluation on truthfulqa"} == {
        p.read_text("utf-8").splitlines()[0] for p in paths[1:]
    }
    again = [path.read_bytes() for path in paths]
    write_outputs(tmp_path / "out", records(), summary, sweep=full["sweep"], ablation=full["ablation"])
    assert [path.read_bytes() for path in paths] == again


def test_a_full_disk_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "summary.json").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputFailed, match=r"the summary '.*summary\.json' cannot be written: No space left on device"):
        write_outputs(tmp_path, records(), summarise(records(), resamples=5))
    assert (tmp_path / "summary.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_without_matplotlib_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda package: None)
    with pytest.raises(MissingExtra, match="plots of an evaluation needs the package 'matplotlib'"):
        write_outputs(tmp_path, records(), summarise(records(), resamples=5))
    assert list(tmp_path.iterdir()) == []


def test_the_papers_numbers_never_enter_a_summary() -> None:
    methods = full_summary()["methods"]
    assert list(methods) == ["base", "nli-fixed", "corrigenda"]
    published = paper_numbers.PAPER["truthfulqa"]
    for method, metrics in methods.items():
        assert metrics["accuracy"]["value"] != published[method]["accuracy"]
        assert metrics["accuracy"]["n"] == 10
        assert metrics.keys() & {"F1", "hallucination rate"} == set()
    assert paper_numbers.for_datasets(["mini", "fever"]) == {"fever": paper_numbers.PAPER["fever"]}


def test_the_papers_numbers_are_the_published_ones() -> None:
    """Wrong answers are at most 1 - accuracy; a slip of a digit would show."""
    for dataset, rows in paper_numbers.PAPER.items():
        for method, row in rows.items():
            if "hallucination rate" in row:
                gap = 1 - row["accuracy"] - row["hallucination rate"]
                assert 0 <= round(gap, 4) <= 0.04, (dataset, method)

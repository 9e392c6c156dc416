"""`corrigenda index`, as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corrigenda import cli, index_command
from corrigenda.retrieval.build import Progress
from corrigenda.types import Passage
from tests.passages import PASSAGES, write_jsonl


@pytest.fixture
def index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert cli.main(["index", "build", str(write_jsonl(tmp_path / "p.jsonl")), str(tmp_path / "index")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == [f"index     {tmp_path / 'index'}", "passages  8"]
    assert err.startswith("corrigenda: 8 passages, 100% of ")
    return tmp_path / "index"


def test_what_an_index_holds(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["index", "info", str(index), "--verify"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "checked   every checksum"
    assert cli.main(["index", "info", str(index), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"passages": 8}


def test_searching(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["index", "search", str(index), "rhone rivers", "-k", "1"]) == 0
    head, text = capsys.readouterr().out.splitlines()
    assert head.startswith("1. Lyon [lyon] ")
    assert text == PASSAGES[1].text
    for path in (index, index.parent / "p.jsonl"):
        assert cli.main(["index", "search", str(path), "rhone rivers", "--json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        assert [(row["id"], row["text"]) for row in found] == [(p.id, p.text) for p in (PASSAGES[1], PASSAGES[0])]


def test_a_search_that_finds_nothing_says_so(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["index", "search", str(index), "unheardof"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "corrigenda: no passage holds a word of the query\n")


def test_what_a_passage_says_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07"
    path = write_jsonl(tmp_path / "p.jsonl", [Passage(id=f"a{evil}\nb", title=f"T{evil}", text=f"Rome {evil} \n" * 99)])
    assert cli.main(["index", "search", str(path), "Rome"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines()[1].endswith("…")
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "nowhere", "index"], "the source 'nowhere' does not exist"),
        (
            ["info", "nowhere"],
            "does not exist; make one with: corrigenda index build SOURCE nowhere",
        ),
        (["search", "nowhere", "Rome"], "the index 'nowhere' does not exist"),
    ],
)
def test_mistakes_exit_with_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["index", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_k_out_of_range_exits_with_2(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["index", "search", str(index), "Rome", "-k", "0"]) == 2
    assert "must be a whole number of at least 1, got 0" in capsys.readouterr().err


def test_progress_at_a_terminal_and_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [Progress(passages=n, done=n, total=1000, seconds=n / 10) for n in (250, 260, 500, 1000)]
    for terminal in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        line = index_command._Line()
        for step in steps:
            line.show(step)
        shown = capsys.readouterr().err
        assert shown.count("passages") == (4 if terminal else 3)
        assert "250 passages, 25% of 0.0 MB, 10/s, 1:15 left" in shown
        assert "1,000 passages, 100% of 0.0 MB, 10/s\n" in shown


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (3661, "1:01:01")])
def test_times(seconds: float, shown: str) -> None:
    assert index_command._time(seconds) == shown

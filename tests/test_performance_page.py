"""docs/performance.md is what benchmarks/performance.py makes of the kept results; and what it makes of some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import measured, performance

KEPT = performance.DOCS / "performance"


def test_the_page_is_what_the_kept_results_say() -> None:
    if not list(KEPT.glob("*.json")):
        pytest.skip("no result is kept in docs/performance yet: make bench makes them")
    written = (performance.DOCS / "performance.md").read_text("utf-8")
    assert written == performance.page(KEPT), "write the page again: python -m benchmarks.performance --write"


def test_every_kept_result_is_of_a_part() -> None:
    """One that is of none would not be on the page, and nobody would miss it."""
    assert {path.stem for path in KEPT.glob("*.json")} <= {part.name for part in performance.PARTS}


def frame(**result: Any) -> dict[str, Any]:
    machine = {"processor": "a chip", "cores": 1, "memory_gib": 8.0, "system": "Linux x86_64", "python": "3.11.7"}
    return {
        "command": "python -m some.command",
        "made": "2026-01-02",
        "seconds": 12,
        "load_before": 0.25,
        "machine": machine,
        "versions": {"corrigenda": "0.1.0", "openai": "3.0"},
        "result": result,
    }


def test_a_small_page_reads_as_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "HERE", tmp_path)
    (tmp_path / "performance_head.md").write_text("# Performance\n\nA head.\n", encoding="utf-8")
    (tmp_path / "performance_discussion.md").write_text("What it means.\n", encoding="utf-8")
    starts = {"python -c pass": [0.125], "import corrigenda": [0.125], "corrigenda --help": [0.25]}
    measured.keep(tmp_path / "start.json", frame(seconds=starts))
    measured.keep(tmp_path / "nli.json", frame(text="1 core\nratio 3.00\n") | {"load_before": None})
    about = {part.name: part.about for part in performance.PARTS}
    assert performance.page(tmp_path).splitlines() == [
        "# Performance",
        "",
        "A head.",
        "",
        "What it means.",
        "",
        "## Verifiers: batches against one pair at a time",
        "",
        "    python -m some.command",
        "",
        about["nli"],
        "",
        "```",
        "1 core",
        "ratio 3.00",
        "```",
        "",
        "*2026-01-02, 12 s; a chip, 1 core, 8 GiB, Linux x86_64, Python 3.11.7; corrigenda 0.1.0, openai 3.0.*",
        "",
        "## Start",
        "",
        "    python -m some.command",
        "",
        about["start"],
        "",
        "| command             | seconds | beyond Python's own start |",
        "| ------------------- | ------: | ------------------------: |",
        "| `python -c pass`    |   0.125 |                         – |",
        "| `import corrigenda` |   0.125 |                     0.000 |",
        "| `corrigenda --help` |   0.250 |                     0.125 |",
        "",
        "Median of 1 starts in turns, with the shortest and the longest.",
        "",
        "Goal: both start within 0.3 s: reached.",
        "",
        "*2026-01-02, 12 s; a chip, 1 core, 8 GiB, Linux x86_64, Python 3.11.7; corrigenda 0.1.0, openai 3.0; "
        "load 0.25 before.*",
    ]


def test_a_part_is_run_and_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert performance.main(["--only", "calls", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "performance" / "calls.json").read_text("utf-8"))["result"]
    assert [(case["sentences"], case["wrong"]) for case in result["cases"]] == [
        *((4, 0), (4, 1), (4, 3)),
        *((17, 0), (17, 1), (17, 3)),
    ]
    assert "## Calls and tokens per answer" in (tmp_path / "performance.md").read_text("utf-8").splitlines()
    assert "**4 sentences (42 tokens), none is wrong**" in capfd.readouterr().out


def test_a_part_that_fails_leaves_the_page_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = performance.Part(name="start", title="Start", about="-", arguments=("benchmarks.start", "--no-such-flag"))
    monkeypatch.setattr(performance, "PARTS", (broken,))
    assert performance.main(["--out", str(tmp_path)]) == 1
    assert list((tmp_path / "performance").glob("*")) == []
    assert "failed, so that the page has no new figures of them: start" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--quick"], "--quick makes no figures to keep: say where they go with --out"),
        (["--only", "start,stop"], "unknown: stop; there are ask, calls, nli_peers, nli, batch, start"),
    ],
)
def test_bad_flags_are_refused(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        performance.main(given)
    assert told in capsys.readouterr().err

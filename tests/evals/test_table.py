"""The summary at a terminal: notes first, everything within the width, and nothing that drives the terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from tests.eval_summaries import EVIL, bare_summary, full_summary

from corrigenda.evals import report_more
from corrigenda.evals.report_parts import number
from corrigenda.evals.table import render, render_blocks

pytest.importorskip("scipy", reason="the extra `eval` is not installed")


def console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)


def printed(made: Console) -> str:
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


def test_a_small_summary_prints_as_this() -> None:
    made = console()
    render(bare_summary(), made)
    lines = [line.rstrip() for line in printed(made).splitlines()]
    assert lines == [
        "Evaluation on d",
        "- With 1 independent groups the intervals are rough, and too narrow near 0 and",
        "1.",
        "1 items in 1 groups; judge none; verifier none; chat none",
        "Under each value: its 95% interval, and n.",
        "",
        "Answers",
        "   accuracy",
        "m  1.00",
        "   1.00 to 1.00, 1",
        "",
        "Work per answer",
        "   calls            tokens           pairs",
        "m  0.00             0.00             0.00",
        "   0.00 to 0.00, 1  0.00 to 0.00, 1  0.00 to 0.00, 1",
        "",
        "Failures",
        "   failed items",
        "m  0",
        "   0 to 0, 1",
    ]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_it_fits_the_width_and_holds_the_summarys_numbers(width: int) -> None:
    made, summary = console(width), full_summary()
    render(summary, made)
    text = printed(made)
    assert max(map(len, text.splitlines())) <= width
    for metrics in summary["methods"].values():
        for metric in ("accuracy", "claim_f1", "answer_recall", "false_fixed", "latency_mean"):
            value = metrics[metric]["value"]
            assert value is None or number(metric, value, 2) in text
    assert text.index("The judge") < text.index("Answers") < text.index("Paired tests")


def test_the_parts_of_a_report_print_alone() -> None:
    made = console(100)
    render_blocks(report_more.sweep(full_summary()["sweep"]), made)
    render_blocks(report_more.ablation(full_summary()["ablation"]), made)
    render_blocks(report_more.errors(full_summary()["errors"]), made)
    text = printed(made)
    assert max(map(len, text.splitlines())) <= 100
    assert "chosen on these" in text
    assert len(re.findall(r"^bounded, k ", text, re.MULTILINE)) > 4
    assert "accuracy: corrigenda" in text
    assert text.count("Under each value: its interval, and n.") == 3
    assert "Errors by kind and category" in text
    assert "  Question: Question " in text


def test_hostile_texts_do_not_drive_the_terminal() -> None:
    made = console()
    summary = full_summary() | {"notes": [EVIL], "datasets": [EVIL], "models": {"judge": [EVIL]}}
    summary["methods"] = {f"{EVIL}{i}": own for i, own in enumerate(summary["methods"].values())}
    render(summary, made)
    render_blocks(report_more.errors(summary["errors"]), made)
    assert "\x1b" not in printed(made)
    assert "\\x1b[2J" in printed(made)


def test_times_of_milliseconds_are_told_apart_and_names_stand_without_backticks() -> None:
    summary = bare_summary()
    latency = {"value": 0.00231, "low": 0.0019, "high": 0.0032, "n": 4}
    summary["methods"]["m"] |= {"latency_mean": latency}
    made = console()
    render(summary | {"notes": ["`accuracy` is that of `<all>`."]}, made)
    text = printed(made)
    assert "- accuracy is that of `<all>`." in text
    lines = [line.rstrip() for line in text.split("\nLatency\n")[1].splitlines()]
    assert lines[:3] == ["   mean", "m  2.31 ms", "   1.90 to 3.20 ms, 4"]


def test_what_was_run_stands_in_a_line_with_the_notes_on_the_data() -> None:
    made = console()
    run = {"version": "0.1.0", "seed": 7, "dataset": {"file": "c.jsonl", "sha256": "ab" * 32}, "notes": ["Made up."]}
    render(bare_summary() | {"run": run}, made)
    assert "corrigenda 0.1.0, seed 7, c.jsonl (SHA-256 abababababab…)\n- Made up.\n" in printed(made)

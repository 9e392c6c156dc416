"""`report.md`: whole tables, the summary's numbers, and hostile texts as text."""

from __future__ import annotations

import re

import pytest
from tests.eval_summaries import bare_summary, full_summary

from corrigenda.evals import report_md as module
from corrigenda.evals.report_md import escaped, report_md
from corrigenda.evals.report_parts import Bullets, Cell, Text, estimate, in_pieces, number, p_value

pytest.importorskip("scipy", reason="the extra `eval` is not installed")


@pytest.fixture(scope="module")
def text() -> str:
    return report_md(full_summary())


def test_a_small_report_reads_as_this() -> None:
    assert report_md(bare_summary()) == (
        """# Evaluation on d

## Read this first

> - With 1 independent groups the intervals are rough, and too narrow near 0 and 1.

## What was run

**The run**

|   |   |
|---|---|
| data sets | d |
| items | 1 (claim) in 1 groups |
| records | 1, 1 per item and method at most |
| judge | none |
| verifier | none |
| chat | none |
| intervals | 95%, bootstrap of groups, percentile interval, 5 resamples, seed 0 |

## Results

**Answers**

|   | m |
|---|---|
| accuracy | 1.000 (1.000 to 1.000, n = 1) |

**Detection of false claims**

|   | m |
|---|---|
| accuracy | 1.000 (1.000 to 1.000, n = 1) |
| false positive rate | 0.000 (0.000 to 0.000, n = 1) |

**Cost**

|   | m |
|---|---|
| calls per answer | 0.00 (0.00 to 0.00, n = 1) |
| prompt tokens per answer | 0.00 (0.00 to 0.00, n = 1) |
| completion tokens per answer | 0.00 (0.00 to 0.00, n = 1) |
| pairs verified per answer | 0.00 (0.00 to 0.00, n = 1) |

**Failures**

|   | m |
|---|---|
| failed items | 0 (0 to 0, n = 1) |
| failure rate | 0.000 (0.000 to 0.000, n = 1) |

## Tables of detection

**False claims and what was flagged**

|   | found | wrongly flagged | missed | rightly left | failed (true) | failed (unknown) | out |
|---|---|---|---|---|---|---|---|
| m | 0 | 0 | 0 | 1 | 0 | 0 | 0 |
"""
    )


def test_every_row_of_a_table_has_the_cells_of_its_head(text: str) -> None:
    width = 0
    for line in text.splitlines():
        if line.startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", line)) - 1
            width = width or cells
            assert cells == width, line
        else:
            width = 0


def test_every_number_is_in_the_summary(text: str) -> None:
    summary = full_summary()
    for method, metrics in summary["methods"].items():
        assert method in text
        for metric, found in metrics.items():
            cell = estimate(metric, found)
            if cell.text != "–":
                assert f"{cell.text} ({cell.detail})" in text
    for test in summary["tests"]:
        assert f"{test['second']} against {test['first']} |" in text
        assert f"| {escaped(p_value(test['p_holm']))} | {escaped(p_value(test['p']))} |" in text
    for row in summary["sweep"]:
        value = number("", row["metrics"]["claim_f1"]["value"])
        assert re.search(rf"\| {row['policy']}, [^|]*\|[^\n]*\| {value} \(", text)
    assert f"| {summary['errors']['corrigenda']['kinds']['false_negative']['count']} |" in text


def test_hostile_texts_make_no_markup(text: str) -> None:
    lines = [line for line in text.splitlines() if line.startswith("- Question: ")]
    assert lines
    for line in lines:
        assert not re.search(r"[<>]|(?<!\\)[|`\[\]*$]|://|\x1b", line)
    assert "&#60;script&#62;alert(" in lines[0]


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("0.525 (0.3 to 0.6, n = 40)", "0.525 (0.3 to 0.6, n = 40)"),
        ("corrigenda:paper, k 0.7", "corrigenda:paper, k 0.7"),
        ("In 2024 he left.", "In 2024 he left."),
        ("# a *b* _c_ `d` [e](f) | g ~h~", "\\# a \\*b\\* \\_c\\_ \\`d\\` \\[e\\](f) \\| g \\~h\\~"),
        ("<b>x</b> &lt;", "&#60;b&#62;x&#60;/b&#62; &#38;lt;"),
        ("http://e.x www.e.x a@e.x mailto:b", "http&#58;//e.x www&#46;e.x a&#64;e.x mailto&#58;b"),
        ("- x", "\\- x"),
        ("1. x", "1\\. x"),
        ("two\nlines \x1b[2J", "two lines \\\\x1b\\[2J"),
        ("\\", "\\\\"),
    ],
)
def test_markdown_is_escaped(raw: str, safe: str) -> None:
    assert escaped(raw) == safe


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.0000123, "0.0123 ms"),
        (0.00231, "2.31 ms"),
        (0.09996, "100 ms"),
        (0.1, "0.100 s"),
        (0.9996, "1.00 s"),
        (12.345, "12.3 s"),
        (99.96, "100 s"),
        (1234.5, "1,234 s"),
        (-0.002, "-2.00 ms"),
    ],
)
def test_times_have_three_significant_digits_and_their_unit(seconds: float | None, shown: str) -> None:
    assert number("latency_p95", seconds) == number("latency_mean", seconds, 2) == shown


def test_a_time_and_its_interval_have_one_unit() -> None:
    found = {"value": 0.0021, "low": 0.0019, "high": 0.0032, "n": 10}
    assert estimate("latency_mean", found) == Cell(text="2.10 ms", detail="1.90 to 3.20 ms, n = 10")
    assert estimate("latency_mean", found | {"high": 0.32}) == Cell(
        text="0.00210 s", detail="0.00190 to 0.320 s, n = 10"
    )
    assert estimate("latency_mean", found | {"low": None, "high": None}) == Cell(text="2.10 ms", detail="n = 10")
    assert estimate("accuracy", found | {"n": 2.5}) == Cell(text="0.002", detail="0.002 to 0.003, n = 2.5")


def test_names_in_sentences_are_code_in_markdown() -> None:
    for block in (Text(text="See `accuracy` and *that*."), Bullets(items=("See `accuracy` and *that*.",))):
        assert "See `accuracy` and \\*that\\*." in next(iter(module._block(block)))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("plain", [("plain", False)]),
        ("`a` b", [("", False), ("a", True), (" b", False)]),
        ("`eval sweep`", [("", False), ("eval sweep", True), ("", False)]),
        ("`<b>`", [("`<b>`", False)]),
        ("``a``", [("``a``", False)]),
        ("`a", [("`a", False)]),
        ("` a`", [("` a`", False)]),
    ],
)
def test_only_names_between_backticks_are_names(text: str, pieces: list[tuple[str, bool]]) -> None:
    assert list(in_pieces(text)) == pieces

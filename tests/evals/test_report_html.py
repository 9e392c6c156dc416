"""`report.html`, parsed: hostile texts stay texts, both themes are there, and every number is the summary's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from tests.eval_summaries import EVIL, bare_summary, full_summary

from corrigenda.evals import paper_numbers
from corrigenda.evals.plots import draw
from corrigenda.evals.report_html import report_html
from corrigenda.evals.report_parts import estimate, label_of
from corrigenda.terminal import one_line

pytest.importorskip("matplotlib", reason="the extra `eval` is not installed")

RUN: dict[str, Any] = {
    "version": "0.1.0",
    "seed": 7,
    "repeats": 1,
    "items": 1,
    "limit": 1,
    "task": "claim",
    "split": None,
    "dataset": {
        "name": "d",
        "file": "claims.jsonl",
        "sha256": "ab" * 32,
        "counts": {"rows": 10, "not_labelled": 2, "kept": 8},
    },
    "correct": None,
    "reuse": True,
    "concurrency": [1, 4],
    "models": {"chat": "none", "verifier": "onnx:deberta", "judge": "lexical"},
    "settings": {"language": "en", "checkable": False, "prompts": None},
    "methods": {"corrigenda": {}, "selfcheckgpt": {"n": 4, "temperature": None}},
    "policies": {
        "corrigenda": {"policy": "bounded", "k": 0.7, "floor": 0.5, "ceiling": 0.8, "alpha": None, "provisional": True},
        "nli-fixed": {"policy": "fixed", "threshold": 0.75, "provisional": False},
    },
    "files": {"verifier": "cd", "chat": None},
    "notes": ["Made up; see docs."],
}
"""As `evals.described.run_of` gives it."""
VOID = {"meta", "br", "use", "path"}


class Page(HTMLParser):
    """What a browser sees: the tags with their attributes and the texts, and tables as rows of texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(text)
        self.close()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        where = self.open[-1] if self.open else ""
        if data.strip():
            self.texts.append((where, data))
        if "caption" in self.open:
            self._caption = data
        elif {"td", "th"} & set(self.open):
            self._rows[-1][-1] += data

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(summary: dict[str, Any]) -> Page:
    return Page(report_html(summary, draw(summary)))


@pytest.fixture(scope="module")
def page() -> Page:
    return page_of(full_summary())


def test_every_tag_is_closed_and_none_comes_from_a_text(page: Page) -> None:
    assert page.open == []
    assert not {"script", "img", "iframe", "object", "embed", "link", "form", "base"} & {tag for tag, _ in page.tags}
    attributes = [name for _, found in page.tags for name in found]
    assert not [name for name in attributes if name.startswith("on")]


def test_hostile_texts_are_shown_as_they_are(page: Page) -> None:
    shown = [text for where, text in page.texts if where == "dd"]
    assert f"Question 0? {one_line(EVIL)}" in shown
    assert "\\x1b[2J" in one_line(EVIL)
    raw = report_html(full_summary(), draw(full_summary()))
    assert "<script" not in raw
    assert "\x1b" not in raw


def test_the_page_reaches_nothing_outside(page: Page) -> None:
    addresses = [v for _, found in page.tags for n, v in found.items() if n in ("href", "src", "srcset", "action")]
    assert addresses
    assert all(address is not None and address.startswith("#") for address in addresses)
    ids = [found["id"] for _, found in page.tags if "id" in found]
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in addresses if address} <= set(ids)
    policies = [found["content"] for found in page.attributes("meta") if found.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    css = [text for where, text in page.texts if where == "style"]
    assert len(css) == 1
    assert not re.search(r"url\(|@import|https?:", css[0])


def test_both_themes_and_narrow_pages_are_provided_for(page: Page) -> None:
    css = resources.files("corrigenda.evals").joinpath("report.css").read_text("utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")
    names = {"page", "text", "grid", *(f"series-{i}" for i in range(8))}
    for part in (light, dark.split("@media")[0]):
        assert names <= set(re.findall(r"--([a-z0-9-]+): #[0-9a-f]{6};", part))
    assert "@media (max-width: 40rem)" in css
    meta = {found.get("name"): found.get("content") for found in page.attributes("meta")}
    assert meta["viewport"] == "width=device-width, initial-scale=1"
    assert meta["color-scheme"] == "light dark"
    frames = [found for found in page.attributes("div") if found.get("class") == "table"]
    assert len(frames) == len(page.attributes("table"))
    assert all(found["tabindex"] == "0" and found["aria-label"] for found in frames)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, two: str) -> float:
    """WCAG 2.2, contrast ratio."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_colours_can_be_told_from_the_page_in_both_themes() -> None:
    css = resources.files("corrigenda.evals").joinpath("report.css").read_text("utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")
    for part in (light, dark.split("@media")[0]):
        colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", part))
        for name, least in (("text", 7.0), ("faint", 4.5), ("link", 4.5), *((f"series-{i}", 3.0) for i in range(8))):
            assert contrast(colours[name], colours["page"]) >= least, (name, colours[name])
        assert contrast(colours["text"], colours["warn"]) >= 7.0


def test_every_plot_has_its_words_and_one_without_data_says_why(page: Page) -> None:
    images = page.attributes("svg")
    assert [found["aria-labelledby"] for found in images] == [
        f"{name}-title {name}-description"
        for name in ("accuracy", "detection", "latency", "k", "reliability", "stages")
    ]
    assert all(found["role"] == "img" for found in images)
    bare = page_of(bare_summary())
    assert len(bare.attributes("svg")) == 2
    left_out = [text for where, text in bare.texts if where == "p" and "left out" in text]
    assert left_out == [
        "Latency against accuracy: left out. No method has both a latency and an accuracy.",
        "Accuracy of detection by k: left out. The scores were not decided again at several k: corrigenda eval sweep "
        "does that.",
        "Reliability of the scores: left out. No method gave scores that can be read as probabilities.",
        "Share of the time by stage: left out. No time was measured by stage.",
    ]


def results(page: Page) -> Iterator[tuple[str, str, str]]:
    """Yield (metric's label under its heading, method, cell) of the tables of results."""
    for caption in ("Answers", "Detection of false claims", "Detection of wrong answers", "Correction harm", "Cost"):
        (_, *methods), *rows = page.tables[caption]
        for label, *cells in rows:
            yield from ((f"{caption}: {label}", method, cell) for method, cell in zip(methods, cells, strict=True))


def test_the_numbers_are_the_summarys(page: Page) -> None:
    heading = {"claim": "Detection of false claims", "answer": "Detection of wrong answers"}
    shown = {(label, method): cell for label, method, cell in results(page)}
    checked = 0
    for method, metrics in full_summary()["methods"].items():
        for metric, found in metrics.items():
            cell = estimate(metric, found)
            text = f"{cell.text} {cell.detail}".strip()
            caption = heading.get(metric.partition("_")[0])
            labels = (
                [f"{caption}: {label_of(metric)}"]
                if caption
                else [k for k, m in shown if k.endswith(f": {label_of(metric)}")]
            )
            present = [shown[label, method] for label in labels if (label, method) in shown]
            assert text in present or cell.text == "–" or metric.startswith("failure")
            checked += text in present and cell.text != "–"
    assert checked > 60


def test_nothing_is_measured_anew(page: Page) -> None:
    """Every cell of the results is a value of the summary in its printed form, or a dash."""
    known = {"–"}
    for metrics in full_summary()["methods"].values():
        for metric, found in metrics.items():
            cell = estimate(metric, found)
            known.add(f"{cell.text} {cell.detail}".strip())
    assert {cell for _, _, cell in results(page)} <= known


def test_the_papers_numbers_stand_apart(page: Page) -> None:
    titles = [text for where, text in page.texts if where == "h2"]
    assert titles[0] == "Read this first"
    assert titles[-1] == paper_numbers.TITLE
    assert page.tables["The paper on truthfulqa"][1][:2] == ["base", "0.72"]
    other = page_of(bare_summary())
    assert paper_numbers.TITLE not in [text for _, text in other.texts]


def test_the_notes_come_first(page: Page) -> None:
    first = next(text for where, text in page.texts if where == "li" and text.startswith("The judge"))
    assert first == full_summary()["notes"][0]
    assert {"class": "warning", "role": "note"} in page.attributes("div")


def test_names_in_notes_are_code_and_nothing_else_is() -> None:
    notes = ["The items are of two kinds: `accuracy` is that of the `answer` alone.", f"It broke (`x` and {EVIL})."]
    page = page_of(bare_summary() | {"notes": notes})
    assert [text for where, text in page.texts if where == "code"] == ["accuracy", "answer", "x", "y"]
    html = report_html(bare_summary() | {"notes": notes}, draw(bare_summary()))
    assert "two kinds: <code>accuracy</code> is that" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_many_notes_do_not_fill_the_page() -> None:
    notes = [f"Note {i}." for i in range(12)]
    html = report_html(bare_summary() | {"notes": notes}, draw(bare_summary()))
    first, folded = html[html.index('<div class="warning"') :].split("<details><summary>6 more notes</summary>")[:2]
    assert [note for note in notes if f"<li>{note}</li>" in first] == notes[:6]
    assert [note for note in notes if f"<li>{note}</li>" in folded[: folded.index("</details>")]] == notes[6:]
    few = report_html(bare_summary() | {"notes": notes[:7]}, draw(bare_summary()))
    assert "more notes" not in few


def test_what_was_run_is_shown(page: Page) -> None:
    shown = page_of(bare_summary() | {"run": RUN})
    assert shown.tables["The run"] == [
        ["data sets", "d"],
        ["file", "claims.jsonl"],
        ["its SHA-256", "ab" * 32],
        ["rows of the data set", "rows 10, not labelled 2, kept 8"],
        ["taken of it", "task claim, limit 1"],
        ["items", "1 (claim) in 1 groups"],
        ["records", "1, 1 per item and method at most"],
        ["judge", "none (asked for as lexical)"],
        ["verifier", "none (asked for as onnx:deberta)"],
        ["chat", "none"],
        ["policy of corrigenda", "bounded, k 0.7, floor 0.5, ceiling 0.8, provisional (not calibrated)"],
        ["policy of nli-fixed", "fixed, threshold 0.75"],
        ["rewriting", "of answers, not of claims"],
        ["equal calls made once", "yes"],
        ["items at a time", "1, 4"],
        ["seed", "7"],
        ["corrigenda", "0.1.0"],
        ["intervals", "95%, bootstrap of groups, percentile interval, 5 resamples, seed 0"],
    ]
    assert shown.tables["Settings, options and checksums"] == [
        ["settings.language", "en"],
        ["settings.checkable", "no"],
        ["methods.selfcheckgpt.n", "4"],
        ["files.verifier", "cd"],
    ]
    assert ("li", "Made up; see docs.") in shown.texts
    assert "Settings, options and checksums" not in page.tables

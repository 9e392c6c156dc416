"""The plots: whole SVG that fits a page and both themes, with what they show in words."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from tests.eval_records import C, S, call, claim, outcome, question, verdict
from tests.eval_summaries import EVIL, bare_summary, full_summary

from corrigenda.errors import MissingExtra
from corrigenda.evals import plots
from corrigenda.evals.plots import Plot, draw
from corrigenda.evals.summary import summarise
from corrigenda.evals.svg import for_page

pytest.importorskip("matplotlib", reason="the extra `eval` is not installed")

NAMES = ["accuracy", "detection", "latency", "k", "reliability", "stages"]


@pytest.fixture(scope="module")
def drawn() -> dict[str, Plot]:
    return draw(full_summary())


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]


@pytest.mark.parametrize("name", NAMES)
def test_each_plot_is_whole_with_its_text_alternative(name: str, drawn: dict[str, Plot]) -> None:
    plot = drawn[name]
    assert plot.svg is not None
    root = ET.fromstring(plot.svg)
    assert root.tag == "svg"
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{name}-title {name}-description"
    title, description = root[0], root[1]
    assert (title.tag, title.get("id"), title.text) == ("title", f"{name}-title", plot.title)
    assert (description.tag, description.get("id"), description.text) == (
        "desc",
        f"{name}-description",
        plot.description,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_plot_loads_nothing_and_takes_its_colours_from_the_theme(name: str, drawn: dict[str, Plot]) -> None:
    svg = drawn[name].svg
    assert svg is not None
    assert not re.search(r"https?:|//|<script|<style|<image|<metadata|<!|@import", svg)
    assert "currentColor" in svg
    assert "var(--series-0)" in svg
    assert not re.search(r"#0b0b|#000000|#ffffff", svg)
    ids = re.findall(r'\bid="([^"]*)"', svg)
    assert len(ids) == len(set(ids))
    assert all(found.startswith(f"{name}-") for found in ids)
    assert {found[1:] for found in re.findall(r'(?:href="|url\()(#[^")]*)', svg)} <= set(ids)


def test_what_is_compared_is_told_apart_without_colour(drawn: dict[str, Plot]) -> None:
    svgs = {name: plot.svg or "" for name, plot in drawn.items()}
    assert svgs["accuracy"].count("<pattern") >= 2  # hatches
    assert svgs["stages"].count("<pattern") >= 2
    assert "stroke-dasharray" in svgs["k"]
    assert "stroke-dasharray" in svgs["reliability"]
    assert {"base", "nli-fixed", "corrigenda"} <= set(texts(svgs["latency"]))
    assert [t.strip() for t in texts(svgs["accuracy"]) if re.fullmatch(r" ?\d\.\d\d", t)].count("0.60") >= 2


def test_the_words_hold_the_numbers_of_the_summary(drawn: dict[str, Plot]) -> None:
    found = full_summary()["methods"]["corrigenda"]["accuracy"]
    interval = f"({found['low']:.3f} to {found['high']:.3f})"
    assert f"corrigenda {found['value']:.3f} {interval}" in drawn["accuracy"].description
    assert (
        f"accuracy: base {full_summary()['methods']['base']['accuracy']['value']:.3f}" in drawn["accuracy"].description
    )
    assert re.search(r"base 0\.8[45]\d s \(0\.\d{3} to 0\.\d{3} s\) at 0\.400", drawn["latency"].description)
    rows = {
        row["k"]: row["metrics"]["claim_accuracy"]["value"]
        for row in full_summary()["sweep"]
        if row["policy"] == "paper"
    }
    for k, value in rows.items():
        assert re.search(rf"paper: .*{value:.3f} \([^)]*\) at {k:g}", drawn["k"].description)
    assert "base: generate 0.800, correct 0.100, entail 0.100" in drawn["stages"].description


def test_a_plot_without_data_is_left_out_and_says_why() -> None:
    found = draw(bare_summary())
    assert {name: plot.description for name, plot in found.items()} == {
        "accuracy": "accuracy: m 1.000 (1.000 to 1.000).",
        "detection": "accuracy of detection, claims: m 1.000 (1.000 to 1.000).",
        "latency": "No method has both a latency and an accuracy.",
        "k": "The scores were not decided again at several k: corrigenda eval sweep does that.",
        "reliability": "No method gave scores that can be read as probabilities.",
        "stages": "No time was measured by stage.",
    }
    assert [name for name, plot in found.items() if plot.svg is None] == ["latency", "k", "reliability", "stages"]
    nothing = draw(bare_summary() | {"methods": {"m": {}}})
    assert nothing["accuracy"].description == "No accuracy was measured, since nothing judged the answers."
    assert nothing["detection"].description.startswith("No accuracy of detection was measured")


def test_hostile_names_are_text_and_mathematics_is_not_set() -> None:
    summary = full_summary()
    summary["methods"] = {f"$\\frac{{{i}}}$ {EVIL} 漢": own for i, own in enumerate(summary["methods"].values())}
    plot = draw(summary)["latency"]
    assert plot.svg is not None
    assert any(text.startswith("$\\frac{0}$ <…") for text in texts(plot.svg))
    assert "<script" not in plot.svg


def test_two_drawings_of_the_same_numbers_are_the_same(drawn: dict[str, Plot]) -> None:
    assert draw(full_summary()) == drawn


def test_the_users_own_style_does_not_matter(drawn: dict[str, Plot]) -> None:
    mpl = pytest.importorskip("matplotlib")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert draw(full_summary()) == drawn
        assert mpl.rcParams["font.size"] == 30


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda package: None)
    with pytest.raises(
        MissingExtra, match=r"plots of an evaluation needs the package 'matplotlib'.*corrigenda\[eval\]"
    ):
        draw(full_summary())


def test_a_drawing_is_made_fit_for_a_page() -> None:
    drawing = (
        '<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "x" "http://x">\n'
        '<svg xmlns:xlink="http://x" width="9pt" viewBox="0 0 9 9" xmlns="http://www.w3.org/2000/svg">'
        "<metadata>http://purl.org</metadata><defs><style>*{x: y}</style></defs>"
        '<g id="a" style="fill: #0b0b01; stroke: #0b0b12"><use xlink:href="#a"/><!-- c --></g>'
        '<path clip-path="url(#a)"/></svg>'
    )
    assert for_page(drawing, "n", "A & B", "<d>") == (
        '<svg role="img" viewBox="0 0 9 9" aria-labelledby="n-title n-description">'
        '<title id="n-title">A &amp; B</title><desc id="n-description">&lt;d&gt;</desc><defs></defs>'
        '<g id="n-a" style="fill: currentColor; stroke: var(--series-2)"><use href="#n-a"/></g>'
        '<path clip-path="url(#n-a)"/></svg>'
    )


MANY = [f"method {i}" for i in range(15)]
STAGES = [f"stage {i}" for i in range(15)]


@pytest.fixture(scope="module")
def many() -> dict[str, str]:
    """The plots of fifteen methods, each with another latency and fifteen stages."""
    records = [
        replace(
            question(i, i % 3 == 0, i % 2 == 0, method=method, latency_s=0.001 * (place + 1) * (2 + i)),
            outcome=outcome(verdict(C if i % 3 else S, 0.9 if i % 3 else 0.1)),
            calls=tuple(call(stage, 0.001) for stage in STAGES),
        )
        for place, method in enumerate(MANY)
        for i in range(6)
    ]
    return {name: plot.svg for name, plot in draw(summarise(records, resamples=5)).items() if plot.svg is not None}


def greys(svg: str) -> str:
    """A drawing without its colours; only the page's own stays what it is, since hollow things are filled with it."""
    return re.sub(r"currentColor|var\(--(?!page)[a-z0-9-]+\)", "grey", svg)


def test_fifteen_points_are_told_apart_without_colour(many: dict[str, str]) -> None:
    """A mark is the shapes drawn at one place: what they look like must differ from method to method."""
    svg = greys(many["latency"])
    shapes = dict(re.findall(r'<path id="(latency-[^"]+)" d="([^"]+)"', svg))
    ids = {name: "".join(d.split()) for name, d in shapes.items()}
    legend = ET.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")).find(".//g[@id='latency-legend_1']")
    assert legend is not None
    marks = []
    for group in legend.iter("g"):
        uses = [
            (ids[u.get("href", "#")[1:]], u.get("style", "")) for u in group.findall("./g/use") + group.findall("./use")
        ]
        if uses and re.fullmatch(r"latency-line2d_\d+", group.get("id", "")):
            marks.append(tuple((shape, re.sub(r"stroke-width[^;]*;?", "", style)) for shape, style in uses))
    assert len(marks) == len(MANY)
    assert len(set(marks)) == len(MANY)


def test_fifteen_stages_are_told_apart_without_colour_and_are_numbered(many: dict[str, str]) -> None:
    svg = greys(many["stages"])
    # Two stages may have one colour, and no two have one hatch.
    patterns = re.findall(r"<pattern [^>]*>(.*?)</pattern>", svg, re.DOTALL)
    assert len({re.sub(r"\s+", " ", pattern) for pattern in patterns}) == len(STAGES) - 1  # the first one is plain
    shown = Counter(texts(many["stages"]))
    assert [shown[f"{i + 1} {stage}"] for i, stage in enumerate(STAGES)] == [1] * len(STAGES)
    assert [shown[str(i + 1)] for i in range(len(STAGES))] == [len(MANY)] * len(STAGES)


@pytest.mark.parametrize("name", ["accuracy", "detection", "latency", "reliability", "stages"])
def test_each_of_fifteen_methods_is_named_once(name: str, many: dict[str, str]) -> None:
    shown = Counter(texts(many[name]))
    assert [shown[method] for method in MANY] == [1] * len(MANY)


def test_long_names_keep_their_ends() -> None:
    summary = full_summary()
    names = [f"corrigenda:/home/someone/policies/of/a/project/{name}.json" for name in ("one", "two", "three")]
    summary["methods"] = dict(zip(names, summary["methods"].values(), strict=True))
    svg = draw(summary)["latency"].svg
    assert svg is not None
    assert {f"corrigenda:/…{end}" for end in ("roject/one.json", "roject/two.json", "ject/three.json")} <= set(
        texts(svg)
    )


def test_latencies_of_milliseconds_have_an_axis_of_milliseconds(many: dict[str, str]) -> None:
    assert "mean latency (ms)" in texts(many["latency"])


def test_latency_and_accuracy_are_of_the_same_items() -> None:
    """Where there are claims beside the questions, a method's latency over both is set against nothing."""
    records = [
        *(question(i, False, True, method=m, latency_s=2.0) for m in ("base", "m") for i in range(3)),
        *(claim(f"c{i}", C, C, method="m", latency_s=8.0) for i in range(3)),
        *(claim(f"c{i}", C, C, method="claims only", latency_s=8.0) for i in range(3)),
    ]
    found = draw(summarise(records, resamples=5))
    assert found["latency"].description == (
        "Mean latency and accuracy of the items of the kind question: base 2.00 s (2.00 to 2.00 s) at 1.000 (1.000 to "
        "1.000); m 2.00 s (2.00 to 2.00 s) at 1.000 (1.000 to 1.000)."
    )
    assert "claims only" not in found["accuracy"].description
    assert "claims only" in found["detection"].description

"""The plots of an evaluation, drawn from its summary with matplotlib (the extra `eval`).

Each is readable without colour (hatches, markers, line styles, numbers at the bars), in light and dark (see `svg`),
and says in words what it shows. One that has nothing to show is left out and says why.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from corrigenda.errors import MissingExtra
from corrigenda.evals.report_more import sweep_level
from corrigenda.evals.report_parts import label_of, number
from corrigenda.evals.svg import BACKGROUND, FOREGROUND, GRID, SERIES, for_page
from corrigenda.evals.sweep import best_rows
from corrigenda.terminal import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCHES = ("", "//", "--", "\\\\", "||", "xx", "++", "/")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":", "-.")
WIDTH = 4.9
"""Inches, at 72 points each: as wide as a phone's page, so that text keeps its size there."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FOREGROUND,
    "axes.labelcolor": FOREGROUND,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": FOREGROUND,
    "xtick.color": FOREGROUND,
    "ytick.color": FOREGROUND,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}

Values = Mapping[str, Mapping[str, Any]]
"""What is compared, by name, each with `value`, `low` and `high`."""


class NoDataError(Exception):
    """There is nothing to draw; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """One plot, or why there is none."""

    name: str
    title: str
    svg: str | None
    """An `<svg>` element to stand in a page; None where there was nothing to draw."""
    description: str
    """What it shows, in words and numbers; why it was left out, where it was."""


def require_matplotlib() -> None:
    """Raise MissingExtra when matplotlib is not installed. Imports nothing."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("the plots of an evaluation", "matplotlib", "eval")


def draw(summary: Mapping[str, Any]) -> dict[str, Plot]:
    """Return every plot of a summary (with `sweep`, where one was made), by name. Raises MissingExtra."""
    require_matplotlib()
    import matplotlib as mpl  # noqa: PLC0415

    plots = {}
    for name, (title, make) in _PLOTS.items():
        svg = None
        try:
            with mpl.rc_context(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a letter that the measuring font lacks is drawn by the browser's
                mpl.rcdefaults()  # not the user's own style, which is for other plots
                mpl.rcParams.update({**_STYLE, "svg.hashsalt": name})
                drawing, description = make(summary)
            svg = for_page(drawing, name, title, description)
        except NoDataError as exc:
            description = str(exc)
        plots[name] = Plot(name=name, title=title, svg=svg, description=description)
    return plots


# What is drawn --------------------------------------------------------------------------------------------------------


def _accuracy(summary: Mapping[str, Any]) -> tuple[str, str]:
    names = ("accuracy", "hallucination_rate_before", "hallucination_rate_after")
    found = {name: _measured(summary["methods"], name) for name in names}
    if not any(found.values()):
        raise NoDataError("No accuracy was measured, since nothing judged the answers.")
    return _bars({label_of(name): values for name, values in found.items() if values})


def _detection(summary: Mapping[str, Any]) -> tuple[str, str]:
    found = {
        f"accuracy of detection, {level}s": values
        for level in ("claim", "answer")
        if (values := _measured(summary["methods"], f"{level}_accuracy"))
    }
    if not found:
        raise NoDataError("No accuracy of detection was measured: no method said of anything known that it is false.")
    return _bars(found)


def _latency(summary: Mapping[str, Any]) -> tuple[str, str]:
    times, rates = (_measured(summary["methods"], name) for name in ("latency_mean", "accuracy"))
    both = [name for name in times if name in rates]
    if not both:
        raise NoDataError("No method has both a latency and an accuracy.")
    axes, finish = _axes(3.4 + 0.18 * len(both))
    for i, name in enumerate(both):
        axes.errorbar(
            times[name]["value"],
            rates[name]["value"],
            xerr=_reach(times[name]),
            yerr=_reach(rates[name]),
            fmt=MARKERS[i % len(MARKERS)],
            color=SERIES[i % len(SERIES)],
            capsize=2,
            label=_name(name),
        )
    axes.set_xlabel("mean latency (s)")
    axes.set_ylabel("accuracy")
    axes.set_xlim(left=0)
    said = (f"{_name(n)} {_told('latency_mean', times[n])} s at {_told('accuracy', rates[n])}" for n in both)
    return finish(), f"Mean latency and accuracy: {'; '.join(said)}."


def _by_k(summary: Mapping[str, Any]) -> tuple[str, str]:
    rows = summary.get("sweep") or ()
    lines = dict(_k_lines(rows, f"{sweep_level(rows)}_accuracy")) if rows else {}
    if not lines:
        raise NoDataError("The scores were not decided again at several k: corrigenda eval sweep does that.")
    axes, finish = _axes(3.4 + 0.18 * len(lines))
    said = []
    for i, (name, points) in enumerate(lines.items()):
        low_high = [_reach(value) for value in points.values()]
        axes.errorbar(
            [k + (i - (len(lines) - 1) / 2) * 0.012 for k in points],  # side by side, so that no interval hides another
            [value["value"] for value in points.values()],
            yerr=[[ends[side][0] for ends in low_high] for side in (0, 1)],
            fmt=MARKERS[i % len(MARKERS)] + LINES[i % len(LINES)],
            color=SERIES[i % len(SERIES)],
            capsize=2,
            label=name,
        )
        said.append(f"{name}: " + ", ".join(f"{_told('', value)} at {k:g}" for k, value in points.items()))
    axes.set_xticks(sorted({k for points in lines.values() for k in points}))
    axes.set_xlabel("k")
    axes.set_ylabel("accuracy of detection")
    return finish(), f"Accuracy of detection by k. {'; '.join(said)}."


def _k_lines(rows: Sequence[Mapping[str, Any]], metric: str) -> Iterator[tuple[str, dict[float, Any]]]:
    """Yield a line (k → value) per policy that has a k; of `bounded`, the one with the bounds of its best row."""
    for best in best_rows(rows, metric):
        if best["k"] is not None:
            same = [r for r in rows if all(r[n] == best[n] for n in ("policy", "floor", "ceiling"))]
            points = {row["k"]: row["metrics"][metric] for row in sorted(same, key=lambda row: row["k"])}
            known = {k: value for k, value in points.items() if value["value"] is not None}
            bounds = "" if best["floor"] is None else f", floor {best['floor']:g}, ceiling {best['ceiling']:g}"
            yield f"{one_line(best['policy'])}{bounds}", known


def _stages(summary: Mapping[str, Any]) -> tuple[str, str]:
    shares = {
        method: {stage: found["value"] for stage, found in own.items() if found["value"]}
        for method, own in summary["stages"].items()
    }
    shares = {method: own for method, own in shares.items() if own}
    if not shares:
        raise NoDataError("No time was measured by stage.")
    stages = list(dict.fromkeys(stage for own in shares.values() for stage in own))
    axes, finish = _axes(1.1 + 0.34 * len(shares) + 0.12 * len(stages))
    places = range(len(shares))
    left = [0.0] * len(shares)
    for i, stage in enumerate(stages):
        widths = [own.get(stage, 0.0) for own in shares.values()]
        axes.barh(
            places,
            widths,
            left=left,
            height=0.7,
            color=SERIES[i % len(SERIES)],
            hatch=HATCHES[i % len(HATCHES)],
            edgecolor=BACKGROUND,
            label=_name(stage),
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [_name(method) for method in shares])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("share of the time")
    said = (
        f"{_name(method)}: " + ", ".join(f"{_name(stage)} {number('', share)}" for stage, share in own.items())
        for method, own in shares.items()
    )
    return finish(), f"Share of the time by stage. {'; '.join(said)}."


def _reliability(summary: Mapping[str, Any]) -> tuple[str, str]:
    found = {}
    for method, levels in summary["reliability"].items():
        bins = levels.get("claim") or levels.get("answer")
        if bins:
            found[method] = bins
    if not found:
        raise NoDataError("No method gave scores that can be read as probabilities.")
    axes, finish = _axes(3.6 + 0.18 * len(found))
    axes.plot([0, 1], [0, 1], color=FOREGROUND, linewidth=0.8, linestyle=(0, (1, 3)), label="perfectly calibrated")
    said = []
    for i, (method, bins) in enumerate(found.items()):
        axes.plot(
            [b["score"] for b in bins],
            [b["observed"] for b in bins],
            MARKERS[i % len(MARKERS)] + LINES[i % len(LINES)],
            color=SERIES[i % len(SERIES)],
            label=_name(method),
        )
        points = (f"{number('', b['observed'])} at {number('', b['score'])}" for b in bins)
        said.append(f"{_name(method)}: {', '.join(points)}")
    axes.set_xlabel("score, read as the probability of a hallucination")
    axes.set_ylabel("share hallucinated")
    return finish(), f"Share that is hallucinated by mean score. {'; '.join(said)}."


_PLOTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], tuple[str, str]]]] = {
    "accuracy": ("Accuracy and hallucination rate by method", _accuracy),
    "detection": ("Accuracy of detection by method", _detection),
    "latency": ("Latency against accuracy", _latency),
    "k": ("Accuracy of detection by k", _by_k),
    "reliability": ("Reliability of the scores", _reliability),
    "stages": ("Share of the time by stage", _stages),
}


# How it is drawn ------------------------------------------------------------------------------------------------------


def _axes(height: float) -> tuple[Axes, Callable[[], str]]:
    """Return the axes of a new drawing, and what adds the legend and returns the drawing as matplotlib's SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    canvas = FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)

    def finish() -> str:
        labels = axes.get_legend_handles_labels()[1]
        if labels:
            long = max(len(label) for label in labels) > 20
            figure.legend(loc="outside lower center", ncols=1 if long else 2, fontsize=9)
        out = io.StringIO()
        canvas.print_svg(out, metadata={"Date": None})  # type: ignore[no-untyped-call]
        return out.getvalue()

    return axes, finish


def _bars(groups: Mapping[str, Values]) -> tuple[str, str]:
    """Draw a bar with its interval and its number for each method in each group."""
    methods = list(dict.fromkeys(method for values in groups.values() for method in values))
    axes, finish = _axes(0.9 + (0.24 * len(groups) + 0.16) * len(methods) + 0.2 * len(groups))
    thickness = 0.8 / len(groups)
    for i, (label, values) in enumerate(groups.items()):
        places = [row + (i - (len(groups) - 1) / 2) * thickness for row, m in enumerate(methods) if m in values]
        found = [values[method] for method in methods if method in values]
        axes.barh(
            places,
            [value["value"] for value in found],
            height=thickness * 0.9,
            color=SERIES[i % len(SERIES)],
            hatch=HATCHES[i % len(HATCHES)],
            edgecolor=BACKGROUND,
            label=label,
        )
        for place, value in zip(places, found, strict=True):
            axes.errorbar(value["value"], place, xerr=_reach(value), fmt="none", ecolor=FOREGROUND, capsize=2)
            end = value["value"] if value["high"] is None else max(value["high"], value["value"])
            axes.annotate(
                f" {value['value']:.2f}",
                (end, place),
                xytext=(2, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
    axes.set_yticks(range(len(methods)), [_name(method) for method in methods])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    said = (
        f"{label}: " + ", ".join(f"{_name(method)} {_told('accuracy', value)}" for method, value in values.items())
        for label, values in groups.items()
    )
    return finish(), f"{'; '.join(said)}."


def _measured(methods: Mapping[str, Mapping[str, Any]], metric: str) -> dict[str, Any]:
    """Return, by method, the values of a metric that were measured."""
    return {name: own[metric] for name, own in methods.items() if own.get(metric, {}).get("value") is not None}


def _reach(value: Mapping[str, Any]) -> list[list[float]]:
    """Return how far the interval reaches below and above the value, as matplotlib takes it."""
    ends = (value["low"], value["high"])
    below, above = (value["value"] if end is None else end for end in ends)
    return [[max(0.0, value["value"] - below)], [max(0.0, above - value["value"])]]


def _told(metric: str, value: Mapping[str, Any]) -> str:
    interval = "" if value["low"] is None else f" ({number(metric, value['low'])} to {number(metric, value['high'])})"
    return f"{number(metric, value['value'])}{interval}"


def _name(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= 28 else f"{line[:27]}…"

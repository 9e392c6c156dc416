"""How the plots of an evaluation are drawn: axes, marks, bars, and the names and numbers at them.

Whatever is compared is told apart by shape, fill and hatch as well as by colour.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from corrigenda.evals.report_parts import told
from corrigenda.evals.svg import BACKGROUND, FOREGROUND, GRID, SERIES
from corrigenda.terminal import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HATCHES = (
    "",
    "///",
    "---",
    "...",
    "xxx",
    "|||",
    "\\\\\\",
    "ooo",
    "+++",
    "OO",
    "**",
    "//..",
    "--..",
    "||..",
    "\\\\..",
    "oo--",
)
"""What sets the parts of a bar apart, whatever their colours."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FILLS = ("full", "none", "bottom")
"""Each marker comes filled, hollow, and with its lower half filled, so that there are 24 of them."""
LEAST_NUMBERED = 0.04
"""Parts of a bar that are at least this wide (of 1) have their number in them."""
LINES = ("-", "--", ":", "-.")
WIDTH = 4.9
"""Inches, at 72 points each: as wide as a phone's page, so that text keeps its size there."""
STYLE: dict[Any, Any] = {
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


def axes_with_legend(height: float) -> tuple[Axes, Callable[[], str]]:
    """Return the axes of a new drawing, and what adds the legend and returns the drawing as matplotlib's SVG."""
    from matplotlib.container import ErrorbarContainer  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()

    def finish() -> str:
        handles, labels = axes.get_legend_handles_labels()
        if labels:
            long = max(len(label) for label in labels) > 20
            points = [handle[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles]
            figure.legend(
                points, labels, loc="outside lower center", ncols=1 if long else 2, fontsize=9, handleheight=1.1
            )
        return _as_svg(figure)

    return axes, finish


def square_panels(count: int) -> tuple[list[Axes], Callable[[], str]]:
    """Return `count` square axes from 0 to 1, side by side and below each other, and what returns the drawing."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = min(count, 3)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, 0.7 + rows * (WIDTH / columns)), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    panels = [axes for row in grid for axes in row]
    for axes in panels[count:]:
        axes.remove()
    for axes in panels[:count]:
        axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1), aspect="equal")
    for axes in panels[max(0, count - columns) : count]:
        axes.tick_params(labelbottom=True)  # also where the last row ends before its column
    figure.supxlabel("score, read as the probability of a hallucination", fontsize=10)
    figure.supylabel("share hallucinated", fontsize=10)
    return panels[:count], lambda: _as_svg(figure)


def _as_svg(figure: Figure) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    out = io.StringIO()
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return out.getvalue()


def mark(i: int, *, size: float = 7) -> dict[str, Any]:
    """Return the colour, shape and fill of the i-th series' points; no two of the first 24 look alike in grey."""
    colour, how = SERIES[i % len(SERIES)], FILLS[i // len(MARKERS) % len(FILLS)]
    return {
        "marker": MARKERS[i % len(MARKERS)],
        "color": colour,
        "fillstyle": "full" if how == "none" else how,
        "markerfacecolor": BACKGROUND if how == "none" else colour,
        "markerfacecoloralt": BACKGROUND,
        "markeredgecolor": colour,
        "markersize": size,
    }


def bars(groups: Mapping[str, Values]) -> tuple[str, str]:
    """Return the drawing of a bar with its interval and its number for each method in each group."""
    methods = list(dict.fromkeys(method for values in groups.values() for method in values))
    axes, finish = axes_with_legend(0.9 + (0.24 * len(groups) + 0.16) * len(methods) + 0.2 * len(groups))
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
            axes.errorbar(value["value"], place, xerr=reach(value), fmt="none", ecolor=FOREGROUND, capsize=2)
            end = value["value"] if value["high"] is None else max(value["high"], value["value"])
            axes.annotate(
                f" {value['value']:.2f}",
                (end, place),
                xytext=(2, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
    axes.set_yticks(range(len(methods)), [short_name(method) for method in methods])
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    said = (
        f"{label}: "
        + ", ".join(f"{short_name(method)} {told_with_interval('accuracy', value)}" for method, value in values.items())
        for label, values in groups.items()
    )
    return finish(), f"{'; '.join(said)}."


def measured(methods: Mapping[str, Mapping[str, Any]], metric: str) -> dict[str, Any]:
    """Return, by method, the values of a metric that were measured."""
    return {name: own[metric] for name, own in methods.items() if own.get(metric, {}).get("value") is not None}


def reach(value: Mapping[str, Any]) -> list[list[float]]:
    """Return how far the interval reaches below and above the value, as matplotlib takes it."""
    ends = (value["low"], value["high"])
    below, above = (value["value"] if end is None else end for end in ends)
    return [[max(0.0, value["value"] - below)], [max(0.0, above - value["value"])]]


def told_with_interval(metric: str, found: Mapping[str, Any]) -> str:
    """Return a value in words, with its interval where it has one."""
    value, ends = told(metric, found)
    return f"{value} ({ends})" if ends else value


def short_name(text: str) -> str:
    """Return a name on one line, of a long one (28 code points) both ends, since paths differ in their last."""
    line = one_line(text)
    return line if len(line) <= 28 else f"{line[:12]}…{line[-15:]}"

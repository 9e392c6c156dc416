"""The plots of an evaluation, drawn from its summary with matplotlib (the extra `eval`).

Each is readable without colour (hatches, markers, line styles, numbers at the bars), in light and dark (see `svg`),
and says in words what it shows. One that has nothing to show is left out and says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from textwrap import fill
from typing import Any

from corrigenda.errors import MissingExtra
from corrigenda.evals.plot_parts import (
    HATCHES,
    LEAST_NUMBERED,
    LINES,
    STYLE,
    Values,
    axes_with_legend,
    bars,
    mark,
    measured,
    reach,
    short_name,
    square_panels,
    told_with_interval,
)
from corrigenda.evals.report_more import sweep_level
from corrigenda.evals.report_parts import LEAST_SECONDS, label_of, number
from corrigenda.evals.svg import BACKGROUND, FOREGROUND, SERIES, for_page
from corrigenda.evals.sweep import best_rows
from corrigenda.terminal import one_line


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
                mpl.rcParams.update({**STYLE, "svg.hashsalt": name})
                drawing, description = make(summary)
            svg = for_page(drawing, name, title, description)
        except NoDataError as exc:
            description = str(exc)
        plots[name] = Plot(name=name, title=title, svg=svg, description=description)
    return plots


# What is drawn --------------------------------------------------------------------------------------------------------


def _accuracy(summary: Mapping[str, Any]) -> tuple[str, str]:
    names = ("accuracy", "hallucination_rate_before", "hallucination_rate_after")
    found = {name: measured(summary["methods"], name) for name in names}
    if not any(found.values()):
        raise NoDataError("No accuracy was measured, since nothing judged the answers.")
    return bars({label_of(name): values for name, values in found.items() if values})


def _detection(summary: Mapping[str, Any]) -> tuple[str, str]:
    found = {
        f"accuracy of detection, {level}s": values
        for level in ("claim", "answer")
        if (values := measured(summary["methods"], f"{level}_accuracy"))
    }
    if not found:
        raise NoDataError("No accuracy of detection was measured: no method said of anything known that it is false.")
    return bars(found)


def _latency(summary: Mapping[str, Any]) -> tuple[str, str]:
    kind, times, rates = _latency_and_accuracy(summary)
    longest = max(end for value in times.values() for end in (value["value"], value["high"]) if end is not None)
    unit, scale = ("s", 1.0) if longest >= LEAST_SECONDS else ("ms", 1000.0)
    axes, finish = axes_with_legend(3.4 + 0.18 * len(times))
    for i, name in enumerate(times):
        axes.errorbar(
            times[name]["value"] * scale,
            rates[name]["value"],
            xerr=[[end * scale for end in ends] for ends in reach(times[name])],
            yerr=reach(rates[name]),
            capsize=2,
            elinewidth=1,
            linestyle="none",
            label=short_name(name),
            zorder=3,  # a point above the intervals of all
            **mark(i),
        )
    axes.set_xlabel(f"mean latency ({unit})")
    axes.set_ylabel(f"accuracy of the items of the kind {kind}" if kind else "accuracy")
    axes.set_xlim(left=0)
    said = (
        f"{short_name(n)} {told_with_interval('latency_mean', times[n])} at {told_with_interval('accuracy', rates[n])}"
        for n in times
    )
    of_kind = f" of the items of the kind {kind}" if kind else ""
    return finish(), f"Mean latency and accuracy{of_kind}: {'; '.join(said)}."


def _latency_and_accuracy(summary: Mapping[str, Any]) -> tuple[str, Values, Values]:
    """Return the latencies and accuracies of the methods that have both, over the same items.

    Where the items are of several kinds, latency is over all of them and accuracy is not, so one kind stands alone,
    and is named.
    """
    parts = summary.get("parts") or {"": summary}
    for kind in ("", "question", "answer", "claim"):
        methods = parts[kind]["methods"] if kind in parts else {}
        times, rates = (measured(methods, name) for name in ("latency_mean", "accuracy"))
        both = [name for name in times if name in rates]
        if both:
            return kind, {name: times[name] for name in both}, {name: rates[name] for name in both}
    raise NoDataError("No method has both a latency and an accuracy.")


def _by_k(summary: Mapping[str, Any]) -> tuple[str, str]:
    rows = summary.get("sweep") or ()
    lines = dict(_k_lines(rows, f"{sweep_level(rows)}_accuracy")) if rows else {}
    if not lines:
        raise NoDataError("The scores were not decided again at several k: corrigenda eval sweep does that.")
    axes, finish = axes_with_legend(3.4 + 0.18 * len(lines))
    said = []
    for i, (name, points) in enumerate(lines.items()):
        low_high = [reach(value) for value in points.values()]
        axes.errorbar(
            [k + (i - (len(lines) - 1) / 2) * 0.012 for k in points],  # side by side, so that no interval hides another
            [value["value"] for value in points.values()],
            yerr=[[ends[side][0] for ends in low_high] for side in (0, 1)],
            linestyle=LINES[i % len(LINES)],
            capsize=2,
            label=name,
            **mark(i),
        )
        said.append(f"{name}: " + ", ".join(f"{told_with_interval('', value)} at {k:g}" for k, value in points.items()))
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
    axes, finish = axes_with_legend(1.1 + 0.34 * len(shares) + 0.12 * len(stages))
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
            label=f"{i + 1} {short_name(stage)}",
        )
        for place, start, width in zip(places, left, widths, strict=True):
            if width >= LEAST_NUMBERED:
                box = {"facecolor": BACKGROUND, "edgecolor": "none", "pad": 0.8}
                at = (start + width / 2, place)
                axes.annotate(str(i + 1), at, ha="center", va="center", fontsize=7, bbox=box)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [short_name(method) for method in shares])
    axes.set_ylim(len(shares) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("share of the time")
    said = (
        f"{short_name(method)}: "
        + ", ".join(f"{short_name(stage)} {number('', share)}" for stage, share in own.items())
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
    panels, finish = square_panels(len(found))
    said = []
    for (method, bins), axes in zip(found.items(), panels, strict=True):
        axes.plot([0, 1], [0, 1], color=FOREGROUND, linewidth=0.8, linestyle=(0, (1, 3)))
        axes.plot([b["score"] for b in bins], [b["observed"] for b in bins], linestyle="-", **mark(0, size=4))
        axes.set_title(fill(short_name(method), 20), fontsize=8)
        points = (f"{number('', b['observed'])} at {number('', b['score'])}" for b in bins)
        said.append(f"{short_name(method)}: {', '.join(points)}")
    return finish(), (
        "Share that is hallucinated by mean score, a panel for each method; on the dotted line the score would be the "
        f"share. {'; '.join(said)}."
    )


_PLOTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], tuple[str, str]]]] = {
    "accuracy": ("Accuracy and hallucination rate by method", _accuracy),
    "detection": ("Accuracy of detection by method", _detection),
    "latency": ("Latency against accuracy", _latency),
    "k": ("Accuracy of detection by k", _by_k),
    "reliability": ("Reliability of the scores", _reliability),
    "stages": ("Share of the time by stage", _stages),
}

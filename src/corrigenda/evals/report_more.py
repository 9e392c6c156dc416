"""The later sections of a report: tests, stages, counts, sweep, ablation, errors, and the paper's own numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from corrigenda.evals import paper_numbers
from corrigenda.evals.report_parts import (
    DASH,
    Block,
    Bullets,
    Cell,
    Example,
    Section,
    Table,
    Text,
    count,
    estimate,
    label_of,
    number,
    p_value,
    plain,
    shown,
)
from corrigenda.evals.sweep import NOTES as SWEEP_NOTES
from corrigenda.evals.sweep import best_rows
from corrigenda.terminal import one_line

TEST_NAMES = {"mcnemar": "McNemar, exact", "wilcoxon": "Wilcoxon, signed ranks"}
KIND_NAMES = {
    "false_negative": "False negatives",
    "false_positive": "False positives",
    "correction_error": "Correction errors",
}
_SHOWN_OF_SWEEP = ("precision", "recall", "f1", "accuracy", "false_positive_rate")


def sections(summary: Mapping[str, Any]) -> list[Section]:
    """Return the sections after the results, those for which the summary has something."""
    found = (
        ("Paired tests", tests(summary["tests"])),
        ("Time by stage", stages(summary["stages"])),
        ("Tables of detection", confusions(summary["counts"])),
        ("Reliability", reliability(summary["reliability"])),
        ("Sweep", sweep(summary.get("sweep", ()))),
        ("Ablation", ablation(summary.get("ablation"))),
        ("Errors", errors(summary.get("errors", {}))),
        (paper_numbers.TITLE, paper(summary)),
    )
    return [Section(title=title, blocks=tuple(blocks)) for title, iterator in found if (blocks := list(iterator))]


def tests(found: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the table of the paired tests."""
    rows = tuple(
        (
            Cell(text=f"{label_of(test['measure'])}: {one_line(test['second'])} against {one_line(test['first'])}"),
            estimate("latency_mean" if test["measure"] == "latency" else "", test["difference"]),
            *plain(p_value(test["p_holm"]), p_value(test["p"]), TEST_NAMES.get(test["test"], test["test"])),
            Cell(text=_discordant(test)),
        )
        for test in found
    )
    if rows:
        yield Text(
            text="Each difference is over the items that both methods have; p is corrected by Holm's method over the "
            "tests of a measure."
        )
        head = ("", "difference", "p, corrected", "p alone", "test", "items that decide")
        yield Table(caption="Paired tests", head=head, rows=rows)


def _discordant(test: Mapping[str, Any]) -> str:
    """Return what a test rests on: the items of which only one is right, or how the ranks lean."""
    if "only_first" in test:
        return f"{count(test['only_second'])} for, {count(test['only_first'])} against, of {count(test['n'])}"
    return (
        f"rank-biserial {number('', test['rank_biserial'])}, {count(test['n_different'])} of {count(test['n'])} differ"
    )


def stages(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the share of the time that each stage takes, stages down, methods across."""
    names = dict.fromkeys(stage for own in found.values() for stage in own)
    if names:
        rows = tuple(
            (Cell(text=one_line(stage)), *(_stage(own.get(stage)) for own in found.values())) for stage in names
        )
        yield Text(text="Share of a method's time, and seconds per item. Stages may run at the same time.")
        yield Table(caption="Time by stage", head=("stage", *map(one_line, found)), rows=rows)


def _stage(found: Mapping[str, Any] | None) -> Cell:
    cell = estimate("", found)
    if found is None or found["value"] is None:
        return cell
    return Cell(text=f"{cell.text} ({number('latency_mean', found['seconds'])})", detail=cell.detail)


_CELLS = ("tp", "fp", "fn", "tn", "failed_negative", "failed_unknown", "left_out")


def confusions(counts: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """Yield how often each method was right and wrong about what, by level."""
    for level, name in (("claim", "claims"), ("answer", "answers")):
        rows = tuple(
            plain(one_line(method), *(count(own[level].get(cell)) for cell in _CELLS))
            for method, own in counts.items()
            if level in own and any(own[level].values())
        )
        if rows:
            head = (
                "",
                "found",
                "wrongly flagged",
                "missed",
                "rightly left",
                "failed (true)",
                "failed (unknown)",
                "out",
            )
            yield Table(caption=f"False {name} and what was flagged", head=head, rows=rows, folded=True)


def reliability(found: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> Iterator[Block]:
    """Yield the bins of the reliability diagram, method by method."""
    for method, levels in found.items():
        for level, bins in levels.items():
            if bins:
                rows = tuple(
                    plain(
                        f"{number('', b['low'])} to {number('', b['high'])}",
                        number("", b["score"]),
                        number("", b["observed"]),
                        count(b["n"]),
                    )
                    for b in bins
                )
                head = ("score in", "mean score", "share hallucinated", "n")
                yield Table(caption=f"{one_line(method)}: scores of {level}s", head=head, rows=rows, folded=True)


def sweep(rows: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the best row of each policy, and all rows."""
    if not rows:
        return
    yield Bullets(items=SWEEP_NOTES)
    level = sweep_level(rows)
    yield _sweep_table("The best setting of each policy, by F1", best_rows(rows, f"{level}_f1"), level)
    yield _sweep_table("All settings", rows, level, folded=True)


def sweep_level(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return at what level a sweep is looked at: of claims where they are labelled, else of answers."""
    return "claim" if any("claim_f1" in row["metrics"] for row in rows) else "answer"


def _sweep_table(caption: str, rows: Sequence[Mapping[str, Any]], level: str, *, folded: bool = False) -> Table:
    metrics = [*(f"{level}_{name}" for name in _SHOWN_OF_SWEEP), "coverage"]
    return Table(
        caption=caption,
        head=("", *map(label_of, metrics), "τ out of reach"),
        rows=tuple(
            (
                Cell(text=_setting(row)),
                *(estimate(metric, row["metrics"].get(metric)) for metric in metrics),
                Cell(text=f"{count(row['unreachable'])} of {count(row['answers'])}"),
            )
            for row in rows
        ),
        folded=folded,
    )


def _setting(row: Mapping[str, Any]) -> str:
    """Return a row's policy and the options that it has, and whether its answers were made up."""
    options = (f"{name} {row[name]:g}" for name in ("k", "floor", "ceiling", "threshold") if row[name] is not None)
    composed = () if row["composed"] is None else (f"answers composed of {row['composed']} claims",)
    return ", ".join((one_line(row["policy"]), *options, *composed))


_ABLATED = (
    "accuracy",
    "hallucination_rate_after",
    "claim_precision",
    "claim_recall",
    "claim_f1",
    "claim_accuracy",
    "answer_f1",
    "answer_accuracy",
    "latency_mean",
)


def ablation(found: Mapping[str, Any] | None) -> Iterator[Block]:
    """Yield the steps with their metrics, and what each changed."""
    if not found:
        return
    if found["notes"]:
        yield Bullets(items=tuple(map(one_line, found["notes"])))
    steps = [step for step in found["steps"] if step["method"] is not None]
    head = ("", *(one_line(step["method"]) for step in steps))
    for caption, part in (("The steps", "metrics"), ("What each changes, against the step before", "change")):
        rows = []
        for metric in _ABLATED:
            cells = [estimate(metric, step[part].get(metric)) for step in steps]
            if any(cell.text != DASH for cell in cells):
                rows.append((Cell(text=_full_label(metric)), *cells))
        if rows:
            yield Table(caption=f"{caption} ({found['items']} items)", head=head, rows=tuple(rows))
    yield from tests([test for step in steps for test in step["tests"]])


def _full_label(metric: str) -> str:
    level = metric.partition("_")[0]
    return f"{label_of(metric)} ({level}s)" if level in ("claim", "answer") else label_of(metric)


def errors(found: Mapping[str, Any]) -> Iterator[Block]:
    """Yield how many errors of which kind and category there are, and examples of each."""
    rows = []
    for method, own in found.items():
        for kind, errors_of_kind in own["kinds"].items():
            for category, part in errors_of_kind["categories"].items():
                names = plain(one_line(method), KIND_NAMES.get(kind, kind), category.replace("_", " "))
                share = Cell(text=number("", part["share"]), detail="of the kind")
                rows.append((*names, Cell(text=count(part["count"])), share))
    if rows:
        head = ("method", "kind", "category", "errors", "share")
        yield Table(caption="Errors by kind and category", head=head, rows=tuple(rows))
    for method, own in found.items():
        for kind, errors_of_kind in own["kinds"].items():
            for category, part in errors_of_kind["categories"].items():
                for example in part["examples"]:
                    place = f"{one_line(method)}, {KIND_NAMES.get(kind, kind).lower()}, {category.replace('_', ' ')}"
                    yield Example(title=f"{place}: {one_line(example['item'])}", fields=tuple(_fields(example)))


def _fields(example: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, label in (
        ("what", "What happened"),
        ("question", "Question"),
        ("claim", "Claim"),
        ("answer", "Answer"),
        ("final_answer", "Final answer"),
        ("reference", "Reference"),
        ("label", "Gold label"),
        ("verdict", "Verdict"),
        ("rule", "Rule of the category"),
    ):
        value = example.get(name)
        if value is not None and value != "" and not (name == "final_answer" and value == example.get("answer")):
            yield label, shown(value)


def paper(summary: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the paper's numbers for the data sets that were run, apart from everything that was measured."""
    for dataset, rows in paper_numbers.for_datasets(summary["datasets"]).items():
        yield Text(text=paper_numbers.SOURCE)
        names = dict.fromkeys(name for metrics in rows.values() for name in metrics)
        yield Table(
            caption=f"The paper on {dataset}",
            head=("method", *map(label_of, names)),
            rows=tuple(
                plain(method, *(DASH if name not in metrics else f"{metrics[name]:g}" for name in names))
                for method, metrics in rows.items()
            ),
        )

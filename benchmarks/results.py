"""Make docs/results.md: run the evaluations that it shows, then write it from their summaries.

    python benchmarks/results.py --data DIR            runs what is missing, then writes
    python benchmarks/results.py --data DIR --only claims-mini,questions-mini
    python benchmarks/results.py --again               makes the numbers anew from the records; no model runs
    python benchmarks/results.py --write               only writes, from the summaries in docs/results/

DIR holds TruthfulQA.csv, fever_symmetric_dev.jsonl, fool_me_twice_dev.jsonl and climate_fever_pairs.jsonl, which
their authors publish. Records are kept in ./corrigenda-eval/results/, so that an interrupted run goes on where it
stopped. What the page shows is kept in docs/results/NAME.json, so that the page can be written again without them.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from corrigenda import __version__
from corrigenda.cli import main as corrigenda
from corrigenda.evals.records import Record
from corrigenda.evals.store import read
from corrigenda.evals.sweep import best_rows, sweep
from corrigenda.types import Verdict

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
KEPT = DOCS / "results"
RECORDS = Path("corrigenda-eval") / "results"
POLICIES = "corrigenda:bounded,corrigenda:paper,corrigenda:conformal"
DETECTORS = f"self-check,nli-fixed,{POLICIES}"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One evaluation of the page: what it is called there, and the command line that makes it."""

    name: str
    title: str
    arguments: tuple[str, ...]
    """What follows `corrigenda eval`; `{data}` is the folder of the data sets."""


EXPERIMENTS = (
    Experiment(
        name="claims-mini",
        title="The mini set's claims",
        arguments=("mini", "--task", "claim", "--limit", "all", "--methods", f"{DETECTORS},factscore"),
    ),
    Experiment(
        name="claims-fever-symmetric",
        title="FeverSymmetric claims",
        arguments=(
            *("claims", "--data", "{data}/fever_symmetric_dev.jsonl", "--limit", "80"),
            *("--methods", f"{DETECTORS},factscore"),
        ),
    ),
    Experiment(
        name="claims-fool-me-twice",
        title="Fool Me Twice claims",
        arguments=(
            *("claims", "--data", "{data}/fool_me_twice_dev.jsonl", "--limit", "40"),
            *("--methods", f"{DETECTORS},factscore"),
        ),
    ),
    Experiment(
        name="claims-climate-fever",
        title="Climate-FEVER pairs",
        arguments=(
            *("claims", "--data", "{data}/climate_fever_pairs.jsonl", "--limit", "40"),
            *("--methods", f"{DETECTORS},factscore"),
        ),
    ),
    Experiment(
        name="answers-truthfulqa",
        title="TruthfulQA: its own right and wrong answers, told apart",
        arguments=(
            *("truthfulqa", "--data", "{data}/TruthfulQA.csv", "--task", "answer", "--split", "test"),
            *("--limit", "60", "--no-correct", "--methods", DETECTORS),
        ),
    ),
    Experiment(
        name="questions-mini",
        title="The mini set's questions, answered and corrected",
        arguments=(
            *("mini", "--task", "question", "--limit", "8", "--methods"),
            f"base,{DETECTORS},selfcheckgpt,self-consistency,self-refine,cove,dola",
            *("--set", "selfcheckgpt.n=4", "--set", "self-consistency.n=4", "--set", "self-refine.rounds=1"),
            *("--set", "cove.questions=3", "--set", "dola.dtype=bfloat16"),
        ),
    ),
    Experiment(
        name="questions-truthfulqa",
        title="TruthfulQA questions, answered and corrected",
        arguments=(
            *("truthfulqa", "--data", "{data}/TruthfulQA.csv", "--task", "question", "--split", "test"),
            *("--limit", "8", "--methods", f"base,{DETECTORS},selfcheckgpt", "--set", "selfcheckgpt.n=4"),
        ),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments that are asked for, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", metavar="DIR", help="folder with the data sets")
    parser.add_argument("--only", metavar="NAMES", help="with commas between; default: all")
    parser.add_argument("--again", action="store_true", help="run nothing, make the numbers anew from the records")
    parser.add_argument("--write", action="store_true", help="run nothing, only write the page")
    arguments = parser.parse_args(argv)
    names = [e.name for e in EXPERIMENTS] if arguments.only is None else arguments.only.split(",")
    unknown = set(names) - {e.name for e in EXPERIMENTS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(e.name for e in EXPERIMENTS)}")
    if not (arguments.write or arguments.again) and arguments.data is None:
        parser.error("--data DIR is needed to run; --again and --write run nothing")
    for experiment in EXPERIMENTS:
        if experiment.name not in names or arguments.write:
            continue
        if not arguments.again:
            run(experiment, arguments.data)
        elif (RECORDS / experiment.name / "records.jsonl").exists():
            keep(experiment)
        (DOCS / "results.md").write_text(page(), encoding="utf-8")
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
    return 0


def run(experiment: Experiment, data: str) -> None:
    """Run one experiment, or what is left of it, and keep what the page shows. Exits when it fails."""
    given = [part.replace("{data}", data) for part in experiment.arguments]
    print(f"== {experiment.name}", file=sys.stderr, flush=True)
    code = corrigenda(["eval", *given, "--out", str(RECORDS / experiment.name)])
    if code:
        raise SystemExit(code)
    keep(experiment)


def keep(experiment: Experiment) -> None:
    """Keep what the page shows of the records that are there: made anew from them, no model runs."""
    folder = RECORDS / experiment.name
    code = corrigenda(["eval", "report", str(folder), "--out", str(folder)])
    if code:
        raise SystemExit(code)
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    # Texts of the data sets stay where they are: some may not be passed on.
    summary["errors"] = _counts(summary.get("errors") or {})
    made = datetime.fromtimestamp((folder / "records.jsonl").stat().st_mtime, UTC)
    kept = {
        "command": " ".join(["corrigenda eval", *(p.replace("{data}/", "") for p in experiment.arguments)]),
        "made": made.date().isoformat(),
        "corrigenda": __version__,
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "summary": {name: value for name, value in summary.items() if name not in ("sweep", "reliability", "stages")},
        "sweep": decided_anew(read(folder / "records.jsonl").records),
        "rare": where_false_is_rare(read(folder / "records.jsonl").records),
    }
    KEPT.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    (KEPT / f"{experiment.name}.json").write_text(text, encoding="utf-8")


BUNDLE = 4
"""Claims decided together where a data set has single claims: about as many as an answer has."""


def decided_anew(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Return the sweep rows that the page shows: the paper's rule at each k, and each other policy at its best."""
    single = all(record.kind == "claim" for record in records)
    rows = sweep(records, method="corrigenda:bounded", bundle=BUNDLE if single else None)
    best = best_rows(rows, "claim_f1" if single else "answer_f1")
    return [
        *(row for row in rows if row["policy"] == "paper"),
        *(row for row in best if row["policy"] != "paper"),
    ]


RARE = 0.2
"""Share of false claims in the second sweep: about what answers hold, where the data sets have half of them false."""
DRAWS = 20


def where_false_is_rare(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Return precision, recall, F1 and false positive rate per policy where one claim in five is false.

    Means over 20 draws: all the true claims, and as many of the false ones as make a fifth, decided BUNDLE at a time
    as if they were one answer. Empty for data that are not single claims.
    """
    own = [r for r in records if r.method == "corrigenda:bounded"]
    if any(record.kind != "claim" for record in own):
        return []
    true = [r for r in own if r.label is not Verdict.CONTRADICTED]
    false = [r for r in own if r.label is Verdict.CONTRADICTED]
    wanted = min(len(false), round(RARE / (1 - RARE) * len(true)))
    floor, ceiling = _shipped_bounds(own)
    policies: dict[str, dict[str, list[float]]] = {}
    for seed in range(DRAWS):
        drawn = [*true, *random.Random(seed).sample(false, wanted)]
        for name in ("paper", "fixed", "bounded"):
            rows = sweep(
                drawn,
                policies=(name,),
                ks=(0.7,),
                thresholds=(0.7,),
                floors=(floor,),
                ceilings=(ceiling,),
                bundle=BUNDLE,
                seed=seed,
            )
            found = policies.setdefault(name, {})
            for metric in ("claim_precision", "claim_recall", "claim_f1", "claim_false_positive_rate"):
                value = rows[0]["metrics"][metric]["value"]
                found.setdefault(metric, []).extend([] if value is None else [value])
    return [
        {"policy": name, "false": wanted, "true": len(true)}
        | {metric: fmean(values) if values else None for metric, values in found.items()}
        for name, found in policies.items()
    ]


def _shipped_bounds(records: Sequence[Record]) -> tuple[float, float]:
    decisions = [r.outcome.report.decision for r in records if r.outcome is not None and r.outcome.report is not None]
    bounds = {(d.floor, d.ceiling) for d in decisions if d is not None}
    ((floor, ceiling),) = bounds
    assert floor is not None
    assert ceiling is not None
    return floor, ceiling


def _counts(value: Any) -> Any:
    """Return the sorted errors without their examples."""
    if isinstance(value, Mapping):
        return {key: _counts(item) for key, item in value.items() if key != "examples"}
    return [_counts(item) for item in value] if isinstance(value, list) else value


# The page -----------------------------------------------------------------------------------------------------------

OPTIONS = ("k", "floor", "ceiling", "threshold")
COLUMNS = {
    "claim": (
        ("claim_accuracy", "accuracy"),
        ("claim_precision", "precision"),
        ("claim_recall", "recall"),
        ("claim_f1", "F1"),
        ("claim_auroc", "AUROC"),
        ("claim_ece", "ECE"),
        ("coverage", "decided"),
        ("latency_mean", "s per claim"),
    ),
    "answer": (
        ("answer_accuracy", "accuracy"),
        ("answer_precision", "precision"),
        ("answer_recall", "recall"),
        ("answer_f1", "F1"),
        ("answer_auroc", "AUROC"),
        ("coverage", "claims decided"),
        ("calls", "calls"),
        ("latency_mean", "s per answer"),
    ),
    "question": (
        ("accuracy", "correct"),
        ("hallucination_rate_before", "wrong before"),
        ("hallucination_rate_after", "wrong after"),
        ("true_broken", "right broken"),
        ("false_fixed", "wrong fixed"),
        ("answer_f1", "F1 of flags"),
        ("calls", "calls"),
        ("completion_tokens", "tokens written"),
        ("latency_mean", "s per answer"),
    ),
}


def page() -> str:
    """Return docs/results.md from what is kept of the experiments, with the discussion in its place."""
    parts = [(HERE / "results_head.md").read_text("utf-8").rstrip("\n"), ""]
    discussion = HERE / "results_discussion.md"
    if discussion.exists():
        parts += [discussion.read_text("utf-8").rstrip("\n"), ""]
    for experiment in EXPERIMENTS:
        path = KEPT / f"{experiment.name}.json"
        if path.exists():
            parts += _section(experiment, json.loads(path.read_text("utf-8")))
    return "\n".join(parts).rstrip("\n") + "\n"


def _section(experiment: Experiment, kept: Mapping[str, Any]) -> Iterator[str]:
    summary = kept["summary"]
    models = "; ".join(f"{role}: {', '.join(names) or 'none'}" for role, names in summary["models"].items())
    yield from (f"## {experiment.title}", "", f"    {kept['command']}", "")
    yield f"{summary['items']} items in {summary['groups']} groups, made on {kept['made']} with corrigenda"
    yield from (f"{kept['corrigenda']} ({kept['machine']}). {models}.", "")
    kind = summary["kinds"][0]
    yield from _table(COLUMNS[kind], summary["methods"])
    if summary.get("notes"):
        yield from (*(f"* {note}" for note in summary["notes"]), "")
    yield from _sweep(kept["sweep"], kind)
    yield from _rare(kept.get("rare", ()))


def _table(columns: Sequence[tuple[str, str]], methods: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    shown = [(metric, name) for metric, name in columns if any(_has(found, metric) for found in methods.values())]
    yield f"| method | {' | '.join(name for _, name in shown)} |"
    yield f"|---|{'---|' * len(shown)}"
    for method, found in methods.items():
        yield f"| `{method}` | {' | '.join(_cell(found.get(metric), metric) for metric, _ in shown)} |"
    yield ""


def _has(found: Mapping[str, Any], metric: str) -> bool:
    return (found.get(metric) or {}).get("value") is not None


def _cell(found: Mapping[str, Any] | None, metric: str) -> str:
    if found is None or found["value"] is None:
        return "–"
    digits = 0 if metric in ("true_broken", "false_fixed", "completion_tokens") else 1 if metric == "calls" else 2
    value = f"{found['value']:.{digits}f}"
    if metric in ("claim_accuracy", "claim_f1", "answer_accuracy", "answer_f1", "accuracy", "hallucination_rate_after"):
        return value if found["low"] is None else f"{value} ({found['low']:.2f} to {found['high']:.2f})"
    return value


def _sweep(rows: Sequence[Mapping[str, Any]], kind: str) -> Iterator[str]:
    """Yield the paper's rule at each k, and the default and the best setting of every other policy."""
    level = "claim" if kind == "claim" else "answer"
    if not rows:
        return
    first = rows[0]
    composed = f", {first['composed']} claims at a time as if they were one answer" if first["composed"] else ""
    yield from (f"The same scores decided anew (`corrigenda eval sweep`){composed}; no model ran again:", "")
    yield from (f"| policy | precision | recall | F1 | right {level}s flagged |", "|---|---|---|---|---|")
    for row in rows:
        options = ", ".join(f"{name} {row[name]:g}" for name in OPTIONS if row[name] is not None)
        metrics = row["metrics"]
        cells = [_cell(metrics.get(f"{level}_{name}"), name) for name in ("precision", "recall", "f1")]
        wrong = _cell(metrics.get(f"{level}_false_positive_rate"), "rate")
        yield f"| {row['policy']} ({options}) | {' | '.join(cells)} | {wrong} |"
    yield ""


def _rare(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    first = rows[0]
    yield f"The same with {first['false']} false claims among {first['true']} others, {BUNDLE} at a time, means over"
    yield from (
        f"{DRAWS} draws:",
        "",
        "| policy | precision | recall | F1 | right claims flagged |",
        "|---|---|---|---|---|",
    )
    for row in rows:
        names = ("claim_precision", "claim_recall", "claim_f1", "claim_false_positive_rate")
        cells = ["–" if row[name] is None else f"{row[name]:.2f}" for name in names]
        yield f"| {row['policy']} (as shipped) | {' | '.join(cells)} |"
    yield ""


if __name__ == "__main__":
    raise SystemExit(main())

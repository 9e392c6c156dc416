"""The part of a report that says what was run: data, models, settings, policies, and how it was counted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from corrigenda.evals.report_parts import DASH, Block, Bullets, Table, plain
from corrigenda.terminal import one_line

Rows = list[tuple[str, str]]


def run_blocks(summary: Mapping[str, Any]) -> Iterator[Block]:
    """Yield what was run: a table, the notes on the data, and the settings, which are folded.

    Where the summary has no `run` (see `described.run_of`) it is what the records say alone.
    """
    run = summary.get("run") or {}
    yield _table("The run", [*_of_data(summary, run), *_of_records(summary, run)])
    if run.get("notes"):
        yield Bullets(items=tuple(map(one_line, run["notes"])))
    settings = [
        (name, text) for part in ("settings", "methods", "files") for name, text in _leaves(run.get(part), part)
    ]
    if settings:
        yield _table("Settings, options and checksums", settings, folded=True)


def run_line(run: Mapping[str, Any]) -> str:
    """Return in a line what a run was made with: the version, the seed, the data."""
    file, checksum = _file(run)
    known = f", {file}" if file else ""
    known += f" (SHA-256 {checksum[:12]}…)" if checksum else ""
    return f"corrigenda {_told(run.get('version'))}, seed {_told(run.get('seed'))}{known}"


def _of_data(summary: Mapping[str, Any], run: Mapping[str, Any]) -> Rows:
    rows = [("data sets", ", ".join(summary["datasets"]))]
    file, checksum = _file(run)
    if file:
        rows.append(("file", file))
    if checksum:
        rows.append(("its SHA-256", checksum))
    counts = (run.get("dataset") or {}).get("counts")
    if counts:
        rows.append(("rows of the data set", _listed(counts)))
    chosen = [f"{name} {run[name]}" for name in ("task", "split", "limit") if run.get(name) is not None]
    if chosen:
        rows.append(("taken of it", ", ".join(chosen)))
    items = f"{summary['items']} ({', '.join(summary['kinds'])}) in {summary['groups']} groups"
    return [*rows, ("items", items)]


def _of_records(summary: Mapping[str, Any], run: Mapping[str, Any]) -> Rows:
    rows = [("records", f"{summary['records']}, {summary['repeats']} per item and method at most")]
    asked = run.get("models") or {}
    for role, names in summary["models"].items():
        met = ", ".join(names) or "none"
        as_asked = asked.get(role)
        rows.append((role, met if as_asked in (None, met) else f"{met} (asked for as {_told(as_asked)})"))
    policies = run.get("policies") or {}
    rows += [(f"policy of {method}", _policy(policy)) for method, policy in policies.items()]
    if run:
        correct = run.get("correct")
        rows += [
            ("rewriting", "of answers, not of claims" if correct is None else _told(correct)),
            ("equal calls made once", _told(run.get("reuse"))),
            ("items at a time", _told(run.get("concurrency"))),
            ("seed", _told(run.get("seed"))),
            ("corrigenda", _told(run.get("version"))),
        ]
    resampling = summary["resampling"]
    intervals = (
        f"{resampling['confidence']:.0%}, {resampling['method']}, {resampling['resamples']} resamples, "
        f"seed {resampling['seed']}"
    )
    return [*rows, ("intervals", intervals)]


def _file(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the data's file and its checksum; empty where it is not known."""
    dataset = run.get("dataset") or {}
    return str(dataset.get("file") or ""), str(dataset.get("sha256") or "")


def _policy(policy: Mapping[str, Any] | None) -> str:
    """Return a policy with the options that it has."""
    found = dict(policy or {})
    name, provisional = found.pop("policy", None), found.pop("provisional", None)
    options = _listed({option: value for option, value in found.items() if value is not None})
    return f"{_told(name)}{options and ', '}{options}{', provisional (not calibrated)' if provisional else ''}"


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield what stands at the ends of nested objects, each with its path; what is not set is left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    elif value is not None:
        yield name, _told(value)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_told(value)}" for name, value in values.items())


def _told(value: Any) -> str:
    """Return a value of the manifest for a reader."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_told, value)) or "none"
    return str(value)


def _table(caption: str, rows: Sequence[tuple[str, str]], *, folded: bool = False) -> Table:
    return Table(caption=caption, head=("", ""), rows=tuple(plain(*map(one_line, row)) for row in rows), folded=folded)

"""What was run, for the summary and the reports: the entry `run`, from manifests and records alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import PurePath
from typing import Any

from corrigenda.evals.manifest import differences
from corrigenda.evals.records import Record

OF_POLICIES = ("policy", "k", "floor", "ceiling", "threshold", "alpha", "provisional")


def run_of(manifests: Sequence[Mapping[str, Any]], records: Sequence[Record]) -> dict[str, Any]:
    """Return what was run, as plain JSON values; `manifests` has at least one, in the order of the runs.

    `version`, `seed`, `repeats`, `items`, `limit` (null: no limit), `task`, `split` (null: the data set's own, all),
    `dataset` (name, file, sha256, counts), `correct` (null: answers yes, claims no), `reuse`, `concurrency` (every
    value that was used), `models` as they were asked for, `settings`, `methods` with their options (null: that of the
    settings), `policies` with the options that decided, `files` (checksums) and `notes`. Where several runs are
    reported as one, a value in which they differ is null, and a note says so.
    """
    described = [_described(manifest) for manifest in manifests]
    notes = list(dict.fromkeys(note for run in described for note in run.pop("notes")))
    found = reduce(_common, described)
    return {**found, "policies": policies_of(records), "notes": [*_remarks(manifests, found), *notes]}


def policies_of(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Return, per method whose reports were decided by a policy, that policy and its options.

    Options that the policy does not have are null, and those that differ between its reports too.
    """
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        report = None if record.outcome is None else record.outcome.report
        if report is not None and report.decision is not None:
            own = {name: getattr(report.decision, name) for name in OF_POLICIES}
            found[record.method] = _common(found[record.method], own) if record.method in found else own
    return found


def _described(manifest: Mapping[str, Any]) -> dict[str, Any]:
    dataset, data = dict(manifest["dataset"]), manifest.get("data", {})
    where = {"task": dataset.pop("task", None), "split": dataset.pop("split", None)}
    file = data.get("file")
    return {
        "version": manifest["corrigenda"],
        **{name: manifest.get(name) for name in ("seed", "repeats", "items", "limit")},
        **where,
        # The name alone: where it lies on some machine tells a reader nothing.
        "dataset": {**dataset, "file": file and (file if "://" in file else PurePath(file).name)}
        | {"counts": data.get("counts", {})},
        **{name: manifest.get(name) for name in ("correct", "reuse", "concurrency")},
        **{name: dict(manifest.get(name, {})) for name in ("models", "settings", "methods", "files")},
        "notes": list(data.get("notes", ())),
    }


def _common(one: Any, two: Any) -> Any:
    """Return what two runs have in common: null for a value in which they differ; what one alone has is kept."""
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return {
            name: _common(one[name], two[name]) if name in one and name in two else (one if name in one else two)[name]
            for name in {**one, **two}
        }
    return one if one == two else None


def _remarks(manifests: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> list[str]:
    """Return what must be said of the run itself."""
    remarks = []
    differing = dict.fromkeys(name for other in manifests[1:] for name in differences(manifests[0], other))
    if differing:
        remarks.append(f"These are {len(manifests)} runs, which differ in {', '.join(differing)}.")
    concurrency = run.get("concurrency") or []
    if len(concurrency) > 1:
        counts = ", ".join(map(str, concurrency))
        remarks.append(f"The run was made with several numbers of items at a time ({counts}): its times are not alike.")
    return remarks

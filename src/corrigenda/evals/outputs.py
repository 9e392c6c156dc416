"""The files of an evaluation, made from its summary: `summary.json`, `report.md`, `report.html`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corrigenda.errors import InputError
from corrigenda.evals import store
from corrigenda.evals.errors_of import sort_errors
from corrigenda.evals.plots import draw
from corrigenda.evals.records import Record
from corrigenda.evals.report_html import report_html
from corrigenda.evals.report_md import report_md
from corrigenda.files import save

SUMMARY, MARKDOWN, PAGE = "summary.json", "report.md", "report.html"


def check_folder(directory: Path) -> None:
    """Raise InputError when files that the outputs would be written over are not of an evaluation.

    They are where the folder holds a run, or a summary that an evaluation wrote.
    """
    there = [name for name in (SUMMARY, MARKDOWN, PAGE) if (directory / name).exists()]
    if there and not store.holds_run(directory) and not _is_summary(directory / SUMMARY):
        raise InputError(
            f"{str(directory)!r} holds no run or report of corrigenda eval, but files of the same names "
            f"({', '.join(there)}), which are left alone; give another --out"
        )


def _is_summary(file: Path) -> bool:
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and {"schema", "datasets", "records", "methods"} <= data.keys()


def write_outputs(
    directory: Path,
    records: Sequence[Record],
    summary: Mapping[str, Any],
    *,
    sweep: Sequence[Mapping[str, Any]] | None = None,
    ablation: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the summary and both reports into `directory`, and return their paths.

    `sweep` and `ablation` (see the modules of those names) become keys of the summary where they are given, and
    `errors` are sorted from the records, with their examples; so every number of the reports stands in
    `summary.json`. Each file is written in one go: the old one stays until the new one is whole. Raises MissingExtra
    without matplotlib, before anything is written, and OutputFailed when a file cannot be.
    """
    whole = dict(summary)
    if sweep is not None:
        whole["sweep"] = list(sweep)
    if ablation is not None:
        whole["ablation"] = dict(ablation)
    whole["errors"] = sort_errors(records)
    plots = draw(whole)
    texts = {
        SUMMARY: json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        MARKDOWN: report_md(whole),
        PAGE: report_html(whole, plots),
    }
    for name, text in texts.items():
        save(directory / name, text, "the report" if name != SUMMARY else "the summary")
    return [directory / name for name in texts]

"""What an evaluation prints and writes at its end, from its records alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from corrigenda.errors import InputError
from corrigenda.evals.ablation import ablation
from corrigenda.evals.described import run_of
from corrigenda.evals.outputs import write_outputs
from corrigenda.evals.plots import require_matplotlib
from corrigenda.evals.records import Record
from corrigenda.evals.report_parts import Block
from corrigenda.evals.stats import require_eval
from corrigenda.evals.summary import summarise
from corrigenda.evals.sweep import sweep
from corrigenda.files import Page, tell, write, write_json
from corrigenda.progress import Progress
from corrigenda.terminal import one_line


def require_extras() -> None:
    """Raise MissingExtra when what makes the numbers and plots is not installed. Imports nothing."""
    require_eval()
    require_matplotlib()


def report(
    folder: Path, records: Sequence[Record], manifests: Sequence[Mapping[str, Any]] = (), *, as_json: bool
) -> None:
    """Compute the summary, write every output into `folder`, and print the table or, `as_json`, the summary alone.

    `manifests` are those of the runs that the records are of: where there are any, the summary gets `run`, which says
    what was run (`described.run_of`). With the summary go a sweep, where a method kept its reports, and an ablation,
    where two of its steps were run.
    Raises InputError without records, MissingExtra, and OutputFailed when a file cannot be written.
    """
    summary = summarise(records)
    if manifests:
        summary["run"] = run_of(manifests, records)
    swept: list[dict[str, Any]] | None = None
    steps: dict[str, Any] | None = None
    with suppress(InputError):  # nothing to decide again
        swept = sweep(records)
    with suppress(InputError):  # too few of its steps
        steps = ablation(records)
    paths = write_outputs(folder, records, summary, sweep=swept, ablation=steps)
    if as_json:
        write_json(paths[0].read_text("utf-8").removesuffix("\n"))
    else:
        show(lambda console: _table(summary, console))
    tell(f"written: {', '.join(str(path) for path in paths)}")


def _table(summary: dict[str, Any], console: Any) -> None:
    from corrigenda.evals.table import render  # noqa: PLC0415  # rich is loaded only where it prints

    render(summary, console)


def show(print_on: Callable[[Any], None]) -> None:
    """Print what `print_on` puts on a console, in one go."""
    from rich.console import Console  # noqa: PLC0415  # as above

    page = Page()
    print_on(Console(file=page, highlight=False, markup=False, emoji=False))
    write(page.getvalue().removesuffix("\n"))


def blocks(found: Iterable[Block]) -> None:
    """Print parts of a report."""
    from corrigenda.evals.table import render_blocks  # noqa: PLC0415  # as above

    show(lambda console: render_blocks(found, console))


def as_json(value: Any) -> None:
    """Print plain values as JSON."""
    write_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def follow(progress: Progress) -> Callable[[int, int, str], None]:
    """Return what shows downloads: notes may hold what servers said, and a broken standard error stops nothing."""

    def download(done: int, total: int, note: str) -> None:
        with suppress(OSError):
            progress.download(done, total, one_line(note))

    return download

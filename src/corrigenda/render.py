r"""A report for a person at a terminal. Every meaning is in the words; colour only repeats it.

Models' texts are untrusted: they are printed as plain text (never as markup) and control characters are shown
as `\x1b` and the like, so that an answer can't drive the terminal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from corrigenda.terminal import one_line, safe
from corrigenda.types import Claim, Edit, Report, Retrieval, Timing, Verdict

_STYLES = {
    "supported": "green",
    "verified": "green",
    "corrected": "green",
    "contradicted": "bold red",
    "failed": "bold red",
    "unverified": "yellow",
    "not_checkable": "dim",
    "abstained": "dim",
}
_BAR_WIDTH = 26


def render(report: Report, console: Console) -> None:
    """Print the report: answer, reference, claims, decision, what was retrieved, edits, final answer, timeline."""
    if report.question is not None:
        _block(console, "Question", report.question)
    _block(console, "Answer", report.answer)
    for i, reference in enumerate(report.references, start=1):
        number = f" {i}" if len(report.references) > 1 else ""
        cut = ", cut off at its token cap" if reference.truncated else ""
        _block(console, f"Reference{number} ({reference.source}{cut})", _shortened(reference.text))
    if report.claims:
        console.print(_claims_table(report.claims))
    console.print(_decision_line(report))
    for entry in report.retrieval:
        console.print(_retrieval_line(entry))
    if report.retrieval:
        console.print()
    for edit in report.edits:
        _print_edit(console, edit)
    if report.final_answer == report.answer:
        console.print(Text("Final answer: the same as the answer\n", style="bold"))
    else:
        _block(console, "Final answer", report.final_answer)
    status = Text("Status: ", style="bold")
    status.append(report.status.value, style=_STYLES[report.status.value])
    if report.reason:
        status.append(f" ({safe(report.reason)})")
    console.print(status)
    for warning in report.warnings:
        console.print(Text(f"Warning: {safe(warning)}", style="yellow"))
    _print_timeline(console, report)


def _block(console: Console, title: str, text: str) -> None:
    console.print(Text(safe(title), style="bold"))
    console.print(Text(safe(text) + "\n"))


def _shortened(text: str, limit: int = 1500) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters in all)"


def _claims_table(claims: tuple[Claim, ...]) -> Table:
    table = Table(title="Claims", title_justify="left", title_style="bold", expand=False)
    table.add_column("#", justify="right")
    table.add_column("claim", overflow="fold", ratio=1)
    table.add_column("span", no_wrap=True)
    table.add_column("P(ent/neu/con)", no_wrap=True)
    table.add_column("signed", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for number, claim in enumerate(claims):
        scores = claim.scores
        text = Text(safe(claim.text))
        if claim.reason and claim.verdict in (Verdict.FAILED, Verdict.NOT_CHECKABLE, Verdict.UNVERIFIED):
            text.append(f"\n{safe(claim.reason)}", style="dim")
        table.add_row(
            str(number),
            text,
            "-" if claim.span is None else f"{claim.span.start}-{claim.span.end}",
            "-" if scores is None else f"{scores.entailment:.2f}/{scores.neutral:.2f}/{scores.contradiction:.2f}",
            "-" if claim.signed is None else f"{claim.signed:+.3f}",
            Text(claim.verdict.value, style=_STYLES[claim.verdict.value]),
        )
    return table


def _decision_line(report: Report) -> Text:
    d = report.decision
    if d is None:
        return Text("Decision: none, no claim was scored\n", style="bold")
    parts = [
        f"policy {safe(d.policy)}" + (" (provisional)" if d.provisional else ""),
        *(f"{name} = {value:.4f}" for name, value in _numbers(report) if value is not None),
    ]
    text = Text("Decision: ", style="bold")
    text.append(", ".join(parts) + "\n", style="not bold")
    return text


def _numbers(report: Report) -> Iterator[tuple[str, float | None]]:
    d = report.decision
    assert d is not None
    yield from (("µ", d.mu), ("σ", d.sigma), ("k", d.k))
    if d.tau_raw is not None and d.tau_raw != d.tau:
        yield "µ + kσ", d.tau_raw
    yield from (("τ", d.tau), ("floor", d.floor), ("ceiling", d.ceiling), ("alpha", d.alpha))


def _retrieval_line(entry: Retrieval) -> Text:
    """Say what retrieval did for one claim; references are numbered as they are printed."""
    text = Text(f"Retrieved for claim {entry.claim}: ", style="bold")
    used = ", ".join(f"reference {p.reference + 1} ({one_line(p.title or p.id)})" for p in entry.passages)
    text.append(used or "nothing", style="not bold")
    for verdict, signed, between in (
        (entry.before, entry.before_signed, "; "),
        (entry.after, entry.after_signed, " → "),
    ):
        text.append(between, style="not bold")
        text.append(verdict.value, style=_STYLES[verdict.value])
        text.append("" if signed is None else f" ({signed:+.3f})", style="not bold")
    how = "decided by a passage" if entry.decides else one_line(entry.reason or "no passage decides it")
    text.append(f"; {how}", style="not bold")
    return text


def _print_edit(console: Console, edit: Edit) -> None:
    mark = "accepted" if edit.accepted else "not accepted"
    numbers = ", ".join(str(i) for i in edit.claims)
    console.print(Text(f"Edit ({edit.kind}, claim {numbers}, {mark}): {safe(edit.reason)}", style="bold"))
    before, after = Text("- ", style="red"), Text("+ ", style="green")
    old, new = _words(safe(edit.before)), _words(safe(edit.after or ""))
    for kind, a0, a1, b0, b1 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        before.append("".join(old[a0:a1]), style="" if kind == "equal" else "bold reverse")
        after.append("".join(new[b0:b1]), style="" if kind == "equal" else "bold reverse")
    console.print(before)
    if edit.after is not None:
        console.print(after)
    console.print()


def _words(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|[^\w\s]", text)


def _print_timeline(console: Console, report: Report) -> None:
    if not report.timings:
        return
    total = max(t.end_s for t in report.timings) or 1e-9
    console.print(Text(f"\nTimeline ({total:.3f} s)", style="bold"))
    stages = dict.fromkeys(t.stage for t in report.timings)
    for stage in stages:
        runs = [t for t in report.timings if t.stage == stage]
        busy = sum(t.end_s - t.start_s for t in runs)
        usage = report.usage.get(stage)
        cost = "" if usage is None else f"  {usage.calls} call{'s' if usage.calls != 1 else ''}"
        if usage is not None and usage.completion_tokens is not None:
            cost += f", {usage.prompt_tokens}+{usage.completion_tokens} tokens"
        line = Text(f"{safe(stage):<10} ")
        line.append(_bar(runs, total), style="cyan")
        line.append(f" {runs[0].start_s:6.2f} to {runs[-1].end_s:6.2f} s")
        if len(runs) > 1:
            line.append(f", busy {busy:.2f} s")
        line.append(cost)
        console.print(line)


def _bar(runs: list[Timing], total: float) -> str:
    cells = ["·"] * _BAR_WIDTH
    for run in runs:
        first = min(int(run.start_s / total * _BAR_WIDTH), _BAR_WIDTH - 1)
        last = min(int(run.end_s / total * _BAR_WIDTH), _BAR_WIDTH - 1)
        cells[first : last + 1] = ["█"] * (last - first + 1)
    return "".join(cells)

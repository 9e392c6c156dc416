"""What a reader must know before reading the numbers of a run: one sentence each, from the records alone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from corrigenda.evals.detect import group_key, item_key, unattributed
from corrigenda.evals.measures import calls_of
from corrigenda.evals.paired import by_method
from corrigenda.evals.records import Record
from corrigenda.types import Verdict

GOLD = "gold"
"""The judge's name in a record that gold labels alone decided (`judging.GOLD`)."""
FEW = 30
"""Below so many groups an interval is shown with a warning."""


def notes_on(records: Sequence[Record]) -> list[str]:
    """Return the notes on some records, what matters most first."""
    return [*_on_models(records), *_on_items(records), *_on_gold(records), *_on_cost(records)]


def _on_models(records: Sequence[Record]) -> list[str]:
    notes = []
    judges = sorted({r.judge for r in records if r.judge is not None and r.judge != GOLD})
    for role in ("verifier", "chat"):
        names = sorted({name for r in records if (name := r.models.get(role)) is not None})
        shared = [name for name in names for judge in judges if _same_model(name, judge)]
        if shared and role == "verifier":
            notes.append(
                f"The judge and the verifier are the same model ({shared[0]}): the judge shares the verifier's "
                "mistakes, so that corrections look better than they are; name another judge to know more."
            )
        elif shared:
            notes.append(f"The judge is the chat model that wrote the answers ({shared[0]}).")
        if len(names) > 1:
            notes.append(f"The records come from several models as {role} ({', '.join(names)}) and are not one run.")
    if len(judges) > 1:
        notes.append(f"Several judges decided ({', '.join(judges)}); their answers are not told apart here.")
    return notes


def _same_model(model: str, judge: str) -> bool:
    """Return whether a judge's name is a model's, alone or behind what kind of judge it is (`nli:…`)."""
    return judge == model or judge.endswith((f":{model}", f" {model}", f"({model})"))


def _on_items(records: Sequence[Record]) -> list[str]:
    notes = []
    methods = by_method(records)
    items = {name: {item_key(r) for r in own} for name, own in methods.items()}
    every = set().union(*items.values())
    groups = {group_key(r) for r in records}
    for name, own in methods.items():
        failed = [r for r in own if r.status == "failed"]
        if failed:
            reason, times = Counter(r.reason or "no reason was recorded" for r in failed).most_common(1)[0]
            notes.append(
                f"{len(failed)} of {len(own)} records of {name} failed and stay in the denominator "
                f"(most often, {times} times: {reason})."
            )
    short = [f"{name} {len(own)}" for name, own in items.items() if len(own) < len(every)]
    if short:
        notes.append(
            f"Not every method was run on all {len(every)} items ({', '.join(short)}): only the paired tests "
            "compare like with like."
        )
    kinds = sorted({r.kind for r in records})
    if len(kinds) > 1:
        notes.append(
            f"The items are of several kinds ({', '.join(kinds)}): `accuracy` is that of the answers, and time, calls "
            "and coverage are over all items; `parts` has each kind alone."
        )
    repeats = Counter(Counter((r.method, item_key(r)) for r in records).values())
    if max(repeats) > 1:
        notes.append(f"Items were run up to {max(repeats)} times; the repeats of an item share its weight.")
    if len(groups) < len(every):
        notes.append(
            f"The {len(every)} items form {len(groups)} groups, which are resampled whole; McNemar's and Wilcoxon's "
            "tests take items as independent, so trust the intervals of the differences more."
        )
    if len(groups) < FEW:
        notes.append(f"With {len(groups)} independent groups the intervals are rough, and too narrow near 0 and 1.")
    return notes


def _on_gold(records: Sequence[Record]) -> list[str]:
    notes = []
    open_items = {item_key(r) for r in records if r.label is Verdict.UNVERIFIED}
    if open_items:
        notes.append(f"{len(open_items)} items have the gold label `unverified` and are in no two-way measure.")
    for name, own in by_method(records).items():
        undecided = sum(r.after is not None and r.after.correct is None for r in own)
        if undecided:
            notes.append(f"{undecided} of {len(own)} final answers of {name} were not judged either way.")
        lost = sum(unattributed(r) for r in own)
        if lost:
            notes.append(f"{lost} verdicts of {name} belong to no labelled sentence and are not counted.")
        outcomes = [r.outcome for r in own if r.outcome is not None]
        scores = [j.score for o in outcomes for j in o.verdicts] + [o.score for o in outcomes]
        if any(score is not None and not 0 <= score <= 1 for score in scores):
            notes.append(f"Scores of {name} are no probabilities, so it has no calibration error.")
    return notes


def _on_cost(records: Sequence[Record]) -> list[str]:
    calls = [call for r in records for call in calls_of(r)]
    reused = sum(call.reused for call in calls)
    pairs, pairs_reused = sum(r.pairs.pairs for r in records), sum(r.pairs.reused for r in records)
    notes = []
    if reused or pairs_reused:
        notes.append(
            f"{reused} of {len(calls)} calls and {pairs_reused} of {pairs} pairs had been made for another method "
            "before and count with the seconds that they took then."
        )
    unknown = sum(call.prompt_tokens is None or call.completion_tokens is None for call in calls)
    if unknown:
        notes.append(
            f"The tokens of {unknown} of {len(calls)} calls are unknown; their items are left out of the tokens."
        )
    return notes

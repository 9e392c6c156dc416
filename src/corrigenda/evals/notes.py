"""What a reader must know before reading the numbers of a run: one sentence each, from the records alone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from corrigenda.evals.detect import group_key, item_key, unattributed
from corrigenda.evals.failures import GOLD, checkable, is_gold, judge_failures
from corrigenda.evals.judge import BROKE
from corrigenda.evals.measures import calls_of, correctness_parts, judged_kinds
from corrigenda.evals.paired import by_method
from corrigenda.evals.records import Record
from corrigenda.types import Verdict

SCRIPTED = "scripted:"
"""Stands in the name of a model whose replies, scores and times come from a file."""
FEW = 30
"""Below so many groups an interval is shown with a warning."""


def notes_on(records: Sequence[Record]) -> list[str]:
    """Return the notes on some records, what matters most first."""
    return [
        *_on_failures(records),
        *_on_models(records),
        *_on_items(records),
        *_on_unjudged(records),
        *_on_gold(records),
        *_on_cost(records),
    ]


def _on_failures(records: Sequence[Record]) -> list[str]:
    """Return what makes a run look like a success that is none."""
    notes = []
    reasons, asked = judge_failures(records)
    if reasons:
        notes.append(
            f"The judge failed on {len(reasons)} of {asked} answers, which are undecided "
            f"({_most_often([reason.removeprefix(BROKE) for reason in reasons])}); --retry-failed judges them anew."
        )
    broken = []
    for name, own in by_method(records).items():
        claims = [claim for record in own for claim in checkable(record)]
        why = [claim.reason or "no reason was recorded" for claim in claims if claim.verdict is Verdict.FAILED]
        if why:
            broken.append((f"{len(why)} of {len(claims)} claims of ", name, f" could not be scored ({why[0]})."))
    return notes + _together(broken)


def _most_often(reasons: Sequence[str]) -> str:
    reason, times = Counter(reasons).most_common(1)[0]
    return f"most often, {times} times: {reason}"


def _together(notes: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return notes on methods, each given as what stands before the name, the name, and what stands behind it.

    Those that say the same of several methods become one.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for before, name, after in notes:
        names.setdefault((before, after), []).append(name)
    return [f"{before}{', '.join(found)}{after}" for (before, after), found in names.items()]


def _on_models(records: Sequence[Record]) -> list[str]:
    notes = []
    named = {name for r in records for name in (*r.models.values(), r.judge) if name is not None}
    scripted = {name[name.index(SCRIPTED) :] for name in named if SCRIPTED in name}
    if scripted:
        notes.append(
            f"The models are scripted ({', '.join(sorted(scripted))}); times and rates are simulated, not measured."
        )
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
    broken = []
    for name, own in methods.items():
        failed = [r.reason or "no reason was recorded" for r in own if r.status == "failed"]
        if failed:
            why = f" failed and stay in the denominator ({_most_often(failed)})."
            broken.append((f"{len(failed)} of {len(own)} records of ", name, why))
    notes += _together(broken)
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


def _on_unjudged(records: Sequence[Record]) -> list[str]:
    """Return what makes the accuracies of methods those of different answers."""
    judged = judged_kinds(records)
    found = []
    for name, own in by_method(records).items():
        count = sum(part.get("unjudged_rate") == (1, 1) for part in correctness_parts(own, judged))
        why = (
            " with nothing to judge them by; they are in no accuracy and no hallucination rate, so only the paired "
            "tests compare like with like (--no-correct changes nothing)."
        )
        if count:
            found.append((f"{count} of {len(own)} answers were changed by ", name, why))
    return _together(found)


def _on_gold(records: Sequence[Record]) -> list[str]:
    notes = []
    open_items = {item_key(r) for r in records if r.label is Verdict.UNVERIFIED}
    if open_items:
        notes.append(f"{len(open_items)} items have the gold label `unverified` and are in no two-way measure.")
    open_answers, lost, odd = [], [], []
    for name, own in by_method(records).items():
        judged = [r.after.correct for r in own if r.after is not None and not _is_open(r)]
        undecided = judged.count(None)
        if undecided:
            counts = f"{undecided} of {len(judged)} final answers of "
            open_answers.append((counts, name, " were not judged either way."))
        stray = sum(unattributed(r) for r in own)
        if stray:
            lost.append((f"{stray} verdicts of ", name, " belong to no labelled sentence and are not counted."))
        outcomes = [r.outcome for r in own if r.outcome is not None]
        scores = [j.score for o in outcomes for j in o.verdicts] + [o.score for o in outcomes]
        if any(score is not None and not 0 <= score <= 1 for score in scores):
            odd.append(("Scores of ", name, " are no probabilities, so there is no calibration error."))
    return [*notes, *_together(open_answers), *_together(lost), *_together(odd)]


def _is_open(record: Record) -> bool:
    """Return whether there is nothing to judge an answer by: it is as it was, and its gold label is `unverified`."""
    return record.label is Verdict.UNVERIFIED and record.after is not None and is_gold(record.after)


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

"""The labelled scores that a policy is fitted to: read from an evaluation's records, or from a plain file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from corrigenda.errors import InputError
from corrigenda.evals import store
from corrigenda.evals.datasets import files
from corrigenda.evals.datasets.labels import ANSWER_LABELS, verdict_of
from corrigenda.evals.detect import group_key, item_key
from corrigenda.evals.records import Record
from corrigenda.types import Verdict

METHOD = "corrigenda"
"""The method whose scores are taken where records hold several that have some."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledScore:
    """The signed score of one claim, with the gold label of what it belongs to.

    What is counted is a *unit*: a claim, or a labelled sentence with all its claims, which is flagged when any of
    them is.
    """

    signed: float | None
    """Signed score in [-1, 1] (spec §2); None when the check broke or there was nothing to score."""
    label: Verdict | None
    """Gold label of its unit: supported, contradicted, unverified (in no two-way measure). None: not labelled; the
    score still takes part in the µ and σ of its answer."""
    answer: str
    """Claims of the same answer are decided together."""
    group: str
    """What is never split between fitting and measuring: the same question, the same text."""
    unit: str
    """Scores of one answer that share it share a label."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file that scores were read from."""

    name: str
    """The file's name without its folder."""
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """Labelled scores, and where they come from."""

    scores: tuple[LabelledScore, ...]
    verifier: str | None
    """Whose scores they are; None when the files do not say."""
    sources: tuple[Source, ...]
    notes: tuple[str, ...] = ()
    """What was left out, a sentence each."""


def read_scores(paths: Sequence[str | Path], *, method: str | None = None) -> Labelled:
    """Return the labelled scores of evaluations (their folders or record files) and of plain JSONL files.

    A plain row has `signed` (a number from -1 to 1, or null) and `label` (supported, contradicted, unverified, or
    the words of a known data set); it may have `group` and `answer`, texts or whole numbers that say which rows belong
    together. Without `answer` a row is an answer of its own; without `group` an answer is a group of its own.

    Of records, those of `method` are taken (without one: of `corrigenda`, or of the only method that has scores),
    each item once. Raises InputError, naming the file and the line, when something cannot be read, when the scores
    come from several verifiers or methods, and when there is no labelled score.
    """
    scores: list[LabelledScore] = []
    sources: list[Source] = []
    runs: list[Path] = []
    for path in map(Path, paths):
        file = path / store.RECORDS if path.is_dir() else path
        source = files.read(file, "the file of scores")
        sources.append(Source(name=file.name, sha256=source.sha256))
        if _is_records(source.data):
            runs.append(path)
        else:
            scores += _plain(source)
    verifier, notes = None, list[str]()
    if runs:
        if scores:
            raise InputError("records of an evaluation and plain scores cannot be fitted together; name one kind")
        stored = store.read_all(runs)
        chosen, left_out = _of_one_method(stored.records, method)
        verifier = _verifier(chosen)
        notes += [*stored.warnings, *left_out]
        scores += [score for record in chosen for score in _of_record(record)]
    if not any(score.label is not None for score in scores):
        raise InputError(
            f"there is no labelled claim in {', '.join(repr(str(p)) for p in paths)}; a policy is fitted to records of "
            "claims or of answers with labelled sentences, or to rows of signed and label"
        )
    return Labelled(scores=tuple(scores), verifier=verifier, sources=tuple(sources), notes=tuple(notes))


def _is_records(data: bytes) -> bool:
    """Return whether the first line is an evaluation's record; what it lacks otherwise is told when it is read."""
    for line in data.split(b"\n"):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                return False
            return isinstance(row, dict) and "signed" not in row and {"item", "method"} <= row.keys()
    return False


# Plain files ---------------------------------------------------------------------------------------------------------


def _plain(source: files.Source) -> Iterable[LabelledScore]:
    for row in files.json_rows(source):
        row.require("signed", "label")
        place = f"{source.name}:{row.number}"
        own, group = _id(row, "answer"), _id(row, "group")
        answer = f"{source.name}:{own}" if own else place
        label = row.values["label"]
        yield LabelledScore(
            signed=_signed(row),
            label=None if label is None else verdict_of(row, "label", label, ANSWER_LABELS),
            answer=answer,
            group=group or answer,
            unit=place,
        )


def _id(row: files.Row, name: str) -> str:
    value = row.values.get(name)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else row.text(name)


def _signed(row: files.Row) -> float | None:
    value = row.values["signed"]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise row.error(f"'signed' must be a number from -1 to 1, or null, got {files.shown(value)}")
    return float(value)


# Records -------------------------------------------------------------------------------------------------------------


def _of_one_method(records: Sequence[Record], wanted: str | None) -> tuple[list[Record], list[str]]:
    """Return the records of one method, each item once, and what was left out. Raises InputError."""
    names = sorted({r.method for r in records if r.outcome and any(v.signed is not None for v in r.outcome.verdicts)})
    method = wanted or (METHOD if METHOD in names or len(names) != 1 else names[0])
    if method not in names:
        known = f"there are scores of {', '.join(map(repr, names))}" if names else "no record has signed scores"
        raise InputError(f"the records have no signed scores of the method {method!r}; {known} (--method)")
    first: dict[str, Record] = {}
    count = 0
    for record in records:
        if record.method == method and _labels(record):
            count += 1
            known_one = first.setdefault(item_key(record), record)
            if record.repeat < known_one.repeat:
                first[item_key(record)] = record
    notes = [f"the scores are those of the method {method!r}"] if len(names) > 1 else []
    if count > len(first):
        notes.append(f"{count - len(first)} repeated records are left out: each item counts once")
    without = sum(r.method == method and not _labels(r) for r in records)
    if without:
        notes.append(f"{without} records without labelled claims are left out")
    return list(first.values()), notes


def _verifier(records: Sequence[Record]) -> str | None:
    names = sorted({name for record in records if (name := record.models.get("verifier")) is not None})
    if len(names) > 1:
        raise InputError(
            f"the records hold scores of several verifiers ({', '.join(map(repr, names))}); a policy is fitted for one"
        )
    return names[0] if names else None


def _labels(record: Record) -> dict[int | None, Verdict]:
    """Return the gold labels of a record's units: of the claim (under None), or by the index of the sentence."""
    if record.kind == "claim":
        return {} if record.label is None else {None: record.label}
    if record.kind == "answer":
        return {i: label for i, label in enumerate(record.sentence_labels or ()) if label is not None}
    return {}


def _of_record(record: Record) -> Iterable[LabelledScore]:
    """Yield the scores of a record. A labelled unit without one is kept: a claim that is not found is a miss."""
    labels = _labels(record)
    left = dict(labels)

    def one(signed: float | None, place: int | None) -> LabelledScore:
        key, group = item_key(record), group_key(record)
        return LabelledScore(signed=signed, label=labels.get(place), answer=key, group=group, unit=f"{key}\0{place}")

    for judged in () if record.outcome is None else record.outcome.verdicts:
        if judged.signed is not None and math.isfinite(judged.signed):
            place = None if record.kind == "claim" else judged.sentence
            left.pop(place, None)
            yield one(judged.signed, place)
    for place in left:
        yield one(None, place)

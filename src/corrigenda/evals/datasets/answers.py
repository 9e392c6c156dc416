"""Any JSONL file of answers that are given, with a question or contexts or both, and gold labels where there are any.

A row has `answer`, and `question` or `contexts` or both. `contexts` is a text or a list; an entry is a text or an
object with `text` and `source`. Optional are `label` (of the whole answer), `labels` (of its sentences), `correct` and
`incorrect` (lists of answers to the question), `id`, `category` and `tags`.
"""

from __future__ import annotations

from corrigenda.errors import InputError
from corrigenda.evals.datasets.files import Row, Source, distinct, json_rows, shown
from corrigenda.evals.datasets.groups import grouped
from corrigenda.evals.datasets.labels import ANSWER_LABELS, SENTENCE_LABELS, verdict_of
from corrigenda.evals.items import DataSet, Item
from corrigenda.sentences import split_sentences
from corrigenda.types import Reference, Span, Verdict

_WORST_FIRST = (Verdict.CONTRADICTED, Verdict.UNVERIFIED, Verdict.SUPPORTED)


def read(source: Source, *, language: str = "en") -> DataSet:
    """Return the answers of a file as items of the kind `answer`, each as it was received.

    Sentence labels are in the order of the sentences as the pipeline splits the answer (`language` is for that); a
    row whose labels belong to other pieces of text gives those in `sentences`. Rows that share a question, an answer
    or a context are one group. Rows without an answer, or with neither a question nor contexts, are left out and
    counted. Raises InputError, naming file, line and value.
    """
    rows, repeated = distinct(json_rows(source))
    items = [item for row in rows if (item := _item(row, language)) is not None]
    if not items:
        raise InputError(f"{source.name!r} has no complete row: each needs an 'answer', and a 'question' or 'contexts'")
    return DataSet(
        name=f"answers:{source.stem}",
        items=grouped(items),
        source=source.name,
        sha256=source.sha256,
        counts={
            "rows": len(rows) + repeated,
            "duplicate": repeated,
            "incomplete": len(rows) - len(items),
            "kept": len(items),
            "labelled": sum(item.label is not None for item in items),
            "with_sentence_labels": sum(item.sentence_labels is not None for item in items),
        },
    )


def _item(row: Row, language: str) -> Item | None:
    row.require("answer")
    answer, question, contexts = row.values["answer"] or "", row.text("question") or None, _contexts(row)
    if not row.checked("answer", answer).strip() or (question is None and contexts is None):
        return None
    label = row.values.get("label")
    return Item(
        id=row.id(),
        kind="answer",
        question=question,
        answer=answer,
        contexts=contexts,
        correct=row.texts("correct"),
        incorrect=row.texts("incorrect"),
        label=None if label is None else verdict_of(row, "label", label, ANSWER_LABELS),
        sentence_labels=_sentence_labels(row, answer, language),
        tags=row.tags(),
    )


def _contexts(row: Row) -> tuple[Reference, ...] | None:
    """Return the contexts; None when none are given at all, which is something else than an empty list."""
    value = row.values.get("contexts")
    if value is None:
        if "context" in row.values:
            raise row.error("has a column 'context'; its name is 'contexts', a text or a list")
        return None
    entries = value if isinstance(value, list) else [value]
    found = []
    for number, entry in enumerate(entries, 1):
        name = "context" if len(entries) == 1 else f"context {number}"
        text, own = (entry.get("text"), entry.get("source")) if isinstance(entry, dict) else (entry, None)
        checked = row.checked("contexts", text)
        if checked.strip():
            found.append(Reference(text=checked, source=name if own is None else row.checked("source", own)))
    return tuple(found)


def _sentence_labels(row: Row, answer: str, language: str) -> tuple[Verdict | None, ...] | None:
    """Return a label for each sentence of the answer; None when the row has no labels."""
    value = row.values.get("labels")
    if value is None:
        return None
    if not isinstance(value, list):
        raise row.error(f"'labels' must be a list, one label a sentence, got {shown(value)}")
    labels = [None if one is None else verdict_of(row, "labels", one, SENTENCE_LABELS) for one in value]
    spans = [sentence.span for sentence in split_sentences(answer, language)]
    pieces = row.texts("sentences")
    if not pieces:
        if len(labels) != len(spans):
            raise row.error(
                f"has {len(labels)} 'labels' for an answer of {len(spans)} sentences (the last begins "
                f"{shown(spans[-1].text_of(answer)) if spans else 'nowhere'}); give one for each, or in 'sentences' "
                f"the texts that the labels belong to"
            )
        return tuple(labels)
    if len(pieces) != len(labels):
        raise row.error(f"has {len(labels)} 'labels' for {len(pieces)} 'sentences'; give one for each")
    labelled = list(zip(_places(row, answer, pieces), labels, strict=True))
    return tuple(_worst([label for place, label in labelled if place.overlaps(span)]) for span in spans)


def _places(row: Row, answer: str, pieces: tuple[str, ...]) -> list[Span]:
    """Return where each of the pieces stands in the answer. Raises InputError when they are not in it, in order."""
    places, end = [], 0
    for piece in pieces:
        start = answer.find(piece, end)
        if start < 0:
            raise row.error(
                f"the sentence {shown(piece)} is not in the answer behind the one before it; copy it exactly"
            )
        end = start + len(piece)
        places.append(Span(start, end))
    return places


def _worst(labels: list[Verdict | None]) -> Verdict | None:
    return next((verdict for verdict in _WORST_FIRST if verdict in labels), None)

"""The data set that comes with the package, so that an evaluation runs anywhere: small, and written for it.

Questions with correct and incorrect answers, and claims with evidence in five categories (numbers, dates, negation,
units, entities). What it measures is how a change behaves, not how good a system is: it is far too small for that.
"""

from __future__ import annotations

import hashlib
from importlib import resources

from corrigenda.evals.datasets import claims
from corrigenda.evals.datasets.draws import given_answers, pick
from corrigenda.evals.datasets.files import Row, Source, distinct, json_rows
from corrigenda.evals.items import DataSet, Item

TASKS = ("question", "answer", "claim", "all")
QUESTIONS, CLAIMS = "mini_questions.jsonl", "mini_claims.jsonl"
NOTES = (
    "a small set of our own writing, Apache-2.0: it shows how a change behaves, not how good a system is",
    "the texts of many claims' evidence are invented; they are to be taken as true",
)


def read(task: str | None = None, *, seed: int = 7) -> DataSet:
    """Return the items of a task; without one, the questions and the claims.

    `question`, `claim`; `answer`: two given answers to each question, a correct one and an incorrect one that is drawn
    with the seed; `all`: all three.
    """
    source = packaged(QUESTIONS)
    questions = [_question(row) for row in distinct(json_rows(source))[0]]
    checked = claims.read(packaged(CLAIMS), detokenise="off")
    items: list[Item] = []
    if task in (None, "question", "all"):
        items += questions
    if task in ("answer", "all"):
        for question in questions:
            wrong = pick(seed, question.id, question.incorrect)
            items += given_answers(question, question.correct[0], wrong, seed)
    if task in (None, "claim", "all"):
        items += checked.items
    return DataSet(
        name="mini",
        items=tuple(items),
        source="the package's own files",
        sha256=hashlib.sha256(source.data + packaged(CLAIMS).data).hexdigest(),
        counts={"rows": len(questions) + len(checked.items), "kept": len(questions) + len(checked.items)},
        notes=NOTES,
    )


def packaged(name: str) -> Source:
    """Return a data file of the package."""
    return Source(name=name, data=resources.files("corrigenda.evals").joinpath("data", name).read_bytes())


def _question(row: Row) -> Item:
    row.require("question", "correct", "incorrect")
    return Item(
        id=row.id(),
        kind="question",
        question=row.text("question"),
        correct=row.texts("correct"),
        incorrect=row.texts("incorrect"),
        group=row.id(),
        tags=row.tags(),
    )

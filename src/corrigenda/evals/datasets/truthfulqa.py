"""TruthfulQA (Lin, Hilton and Evans 2022, "Measuring How Models Mimic Human Falsehoods", arXiv:2109.07958).

A CSV file with a question, its best answer, and lists of correct and incorrect answers, a row each. There is the
first release and the revision of January 2025, which has the column `Best Incorrect Answer` and fewer rows.

The lists are treated as the authors' code does (`split_multi_answer`, `format_best`, and the rule of its generative
metrics): split at `;`, stripped, blanks dropped, a full stop put behind each answer that has none, and "I have no
comment." added to the correct ones.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from corrigenda.errors import InputError
from corrigenda.evals.datasets.draws import given_answers, pick
from corrigenda.evals.datasets.files import Source, text_of
from corrigenda.evals.items import DataSet, Item

URL = "https://raw.githubusercontent.com/sylinrl/TruthfulQA/main/TruthfulQA.csv"
KNOWN = {"f4fcc4a841d4474c46a4719c295c6df5f12eef14c187fbb9637a29e70d9ece00": "the first release"}
"""SHA-256 of the files that we know."""
TASKS = ("question", "answer", "binary")
REQUIRED = ("Question", "Best Answer", "Correct Answers", "Incorrect Answers")
BEST_INCORRECT = "Best Incorrect Answer"
NO_COMMENT = "I have no comment."
_LONGEST = 131_072
"""Characters of one field that the csv module takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One row, its cells as the file has them but for white space around them."""

    question: str
    best_answer: str
    best_incorrect_answer: str | None
    """None where the file has no such column, as the first release."""
    correct_answers: tuple[str, ...]
    incorrect_answers: tuple[str, ...]
    type: str
    category: str
    source: str

    @property
    def key(self) -> str:
        """What the question is recognised by: letter case and white space don't count."""
        return " ".join(self.question.split()).casefold()

    @property
    def complete(self) -> bool:
        """Whether there is a question, a best answer, a correct one, and an incorrect one that isn't correct too."""
        return bool(self.question and self.best_answer and self.correct_answers and self.wrong_answers)

    @property
    def wrong_answers(self) -> tuple[str, ...]:
        """The incorrect answers that are not also among the correct ones (two rows have one in both lists)."""
        correct = {_closed(answer) for answer in self.correct_answers}
        return tuple(answer for answer in self.incorrect_answers if _closed(answer) not in correct)


def read(source: Source, *, task: str = "question", seed: int = 7) -> DataSet:
    """Return the items of a TruthfulQA file; duplicate questions and incomplete rows are left out and counted.

    `question`: the question with its lists of answers; the method answers. `answer`: two items per question, the
    best answer and an incorrect one that is drawn with the seed. `binary`: the same with the revision's best
    incorrect answer. Raises InputError for a file that is not whole or not of that form.
    """
    rows = read_rows(source)
    if task == "binary" and rows[0].best_incorrect_answer is None:
        raise InputError(
            f"{source.name!r} has no column {BEST_INCORRECT!r}, which the task 'binary' needs; take the revision of "
            f"January 2025, or the task 'answer', which draws from all incorrect answers"
        )
    kept: dict[str, Question] = {}
    duplicate = incomplete = 0
    for row in rows:
        if not row.complete or (task == "binary" and not row.best_incorrect_answer):
            incomplete += 1
        elif row.key in kept:
            duplicate += 1
        else:
            kept[row.key] = row
    if not kept:
        raise InputError(f"{source.name!r} has no complete row: each needs {', '.join(map(repr, REQUIRED))}")
    return DataSet(
        name="truthfulqa",
        items=tuple(item for row in kept.values() for item in _items(row, task, seed)),
        source=source.name,
        sha256=source.sha256,
        counts={"rows": len(rows), "kept": len(kept), "duplicate": duplicate, "incomplete": incomplete},
        notes=_notes(source, rows[0]),
    )


def _notes(source: Source, first: Question) -> tuple[str, ...]:
    revised = "" if first.best_incorrect_answer is None else ", with the column of the revision of January 2025"
    known = KNOWN.get(source.sha256, f"unknown revision{revised}, sha256 {source.sha256}")
    return (f"TruthfulQA, {known}", "licence Apache-2.0")


def _items(row: Question, task: str, seed: int) -> tuple[Item, ...]:
    # The id comes from the question, so that it is the same in every revision and order of the file.
    name = "tqa-" + hashlib.sha256(row.key.encode()).hexdigest()[:10]
    correct = tuple(_closed(answer) for answer in row.correct_answers)
    question = Item(
        id=name,
        kind="question",
        question=row.question,
        correct=correct if NO_COMMENT in correct else (*correct, NO_COMMENT),
        incorrect=tuple(_closed(answer) for answer in row.incorrect_answers),
        group=name,
        tags={label: value for label, value in (("category", row.category), ("type", row.type)) if value},
    )
    if task == "question":
        return (question,)
    wrong = (row.best_incorrect_answer or "") if task == "binary" else pick(seed, name, row.wrong_answers)
    return given_answers(question, _closed(row.best_answer), _closed(wrong), seed)


def _closed(answer: str) -> str:
    return answer if answer.endswith(".") else answer + "."


def _listed(cell: str) -> tuple[str, ...]:
    return tuple(answer for part in cell.split(";") if (answer := part.strip()))


def read_rows(source: Source) -> list[Question]:
    """Return every row of the file, in order, complete or not.

    A row that ends early has blank cells; one with more cells than there are columns is refused, since a comma or a
    quotation mark is wrong then. Raises InputError, with the line.
    """
    records = list(_records(source))
    columns = [name.strip() for name in records[0][1]] if records else []
    if not set(REQUIRED) <= set(columns) or any(name and columns.count(name) > 1 for name in columns):
        raise InputError(
            f"{source.name!r}, line 1: needs each of the columns {', '.join(map(repr, REQUIRED))} once; it has "
            f"{', '.join(map(repr, columns))}; give TruthfulQA.csv as its authors publish it"
        )
    if len(records) == 1:
        raise InputError(f"{source.name!r} has a header and no rows; get the whole file")
    line, last = records[-1]
    if len(last) < len(columns) and not source.data.endswith((b"\n", b"\r")):
        raise InputError(
            f"{source.name!r}, line {line}: the file ends in the middle of it, after {len(last)} of {len(columns)} "
            f"fields; get the whole file"
        )
    rows = []
    for line, cells in records[1:]:
        if len(cells) > len(columns):
            raise InputError(
                f"{source.name!r}, line {line}: has {len(cells)} fields for {len(columns)} columns; put a field that "
                f"holds a comma into quotation marks"
            )
        padded = [cell.strip() for cell in cells] + [""] * (len(columns) - len(cells))
        rows.append(_question(dict(zip(columns, padded, strict=True))))
    return rows


def _question(cells: Mapping[str, str]) -> Question:
    return Question(
        question=cells["Question"],
        best_answer=cells["Best Answer"],
        best_incorrect_answer=cells.get(BEST_INCORRECT),
        correct_answers=_listed(cells["Correct Answers"]),
        incorrect_answers=_listed(cells["Incorrect Answers"]),
        type=cells.get("Type", ""),
        category=cells.get("Category", ""),
        source=cells.get("Source", ""),
    )


def _records(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of the CSV file with the line that it begins on."""
    reader = csv.reader(io.StringIO(text_of(source), newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            raise InputError(
                f"{source.name!r}, the row that begins on line {line}: {exc}; a quotation mark in it is not closed or "
                f"not doubled, or a field has more than {_LONGEST:,} characters; put the row right"
            ) from exc
        if len(record) > 1 or "".join(record).strip():
            yield line, record

"""TruthfulQA: both releases, the authors' rules for lists of answers, the split, and files that are not whole."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corrigenda.errors import InputError
from corrigenda.evals.datasets import load
from corrigenda.evals.datasets.files import Source
from corrigenda.evals.datasets.truthfulqa import Question, read, read_rows
from corrigenda.evals.items import DataSet, Item
from corrigenda.types import Verdict

HEADER = "Type,Category,Question,Best Answer,Correct Answers,Incorrect Answers,Source"
REVISED = HEADER.replace("Best Answer,", "Best Answer,Best Incorrect Answer,")
ROW = "Adversarial,Myths,Is it so?,No,No; It is not,Yes; It is; No,https://example.org/a;b"


def source(text: str | bytes) -> Source:
    return Source(name="t.csv", data=text if isinstance(text, bytes) else text.encode())


def file_of(*rows: str, header: str = HEADER) -> Source:
    return source("".join(f"{row}\r\n" for row in (header, *rows)))


def questions(number: int) -> list[str]:
    return [f"Adversarial,Myths,Is it {n}?,No,No {n},Yes {n}; It is {n},x" for n in range(number)]


def revised(number: int) -> Source:
    rows = (f"A,M,Is it {n}?,No {n},Yes {n},No {n}; Never {n},It is {n}; Yes {n},x" for n in range(number))
    return file_of(*rows, header=REVISED)


def names(data: DataSet) -> list[str]:
    return [item.id for item in data.items]


def test_a_row_becomes_a_question_with_both_lists() -> None:
    data = read(file_of(ROW))
    assert data.items == (
        Item(
            id="tqa-0a9fdde7f3",
            kind="question",
            question="Is it so?",
            correct=("No.", "It is not.", "I have no comment."),
            incorrect=("Yes.", "It is.", "No."),
            group="tqa-0a9fdde7f3",
            tags={"category": "Myths", "type": "Adversarial"},
        ),
    )
    assert data.counts == {"rows": 1, "kept": 1, "duplicate": 0, "incomplete": 0}
    assert (data.name, data.source, data.sha256) == ("truthfulqa", "t.csv", file_of(ROW).sha256)
    assert data.notes == (f"TruthfulQA, unknown revision, sha256 {data.sha256}", "licence Apache-2.0")


def test_no_comment_is_added_where_it_is_not_there_yet() -> None:
    item = read(file_of('A,M,Is it so?,No,"I have no comment;No.;",Yes,x')).items[0]
    assert item.correct == ("I have no comment.", "No.")


@pytest.mark.parametrize("marked", [True, False])
def test_the_shared_case_of_the_revision(shared_cases: dict[str, dict[str, Any]], marked: bool) -> None:
    case = shared_cases["PC-35"]
    data = base64.b64decode(case["input"]["csv_utf8_with_bom_base64"])
    expected = case["expected"]["record"]
    assert read_rows(source(data if marked else data.removeprefix(b"\xef\xbb\xbf"))) == [
        Question(
            type=expected["type"],
            category="Myths",
            question=expected["question"],
            best_answer=expected["best_answer"],
            best_incorrect_answer=expected["best_incorrect_answer"],
            correct_answers=tuple(expected["correct_answers"]),
            incorrect_answers=tuple(expected["incorrect_answers"]),
            source=expected["source"],
        )
    ]
    assert case["input"]["old_header"] == HEADER


def test_two_given_answers_make_one_group_and_their_order_is_drawn() -> None:
    rows = file_of(*questions(20))
    items = read(rows, task="answer", seed=7).items
    pairs = [items[place : place + 2] for place in range(0, 40, 2)]
    for one, two in pairs:
        assert one.group == two.group
        good, bad = (one, two) if one.label is Verdict.SUPPORTED else (two, one)
        number = (good.question or "").strip("Is it?")
        assert (good.kind, good.answer, good.label) == ("answer", "No.", "supported")
        assert bad.answer in (f"Yes {number}.", f"It is {number}.")
        assert (bad.kind, bad.label) == ("answer", "contradicted")
        assert bad.correct == good.correct == (f"No {number}.", "I have no comment.")
    assert len({item.id for item in items}) == 40
    assert {pair[0].label for pair in pairs} == {"supported", "contradicted"}
    assert {(bad.answer or "")[:3] for bad in items if bad.label is Verdict.CONTRADICTED} == {"Yes", "It "}
    assert read(rows, task="answer", seed=7).items == items
    assert read(rows, task="answer", seed=8).items != items


def test_an_answer_in_both_lists_is_never_drawn_as_incorrect() -> None:
    items = read(file_of("A,M,Is it so?,No,No; Unknown,Unknown.; Yes,x"), task="answer").items
    assert {item.answer for item in items} == {"No.", "Yes."}


def test_a_binary_choice_takes_the_best_incorrect_answer() -> None:
    items = read(revised(20), task="binary").items
    pairs = {number: {items[2 * number].answer, items[2 * number + 1].answer} for number in range(20)}
    assert pairs == {n: {f"No {n}.", f"Yes {n}."} for n in range(20)}
    assert {item.label for item in items[::2]} == {"supported", "contradicted"}


def test_a_binary_choice_needs_the_revision() -> None:
    with pytest.raises(
        InputError, match=r"'t\.csv' has no column 'Best Incorrect Answer', which the task 'binary' needs"
    ):
        read(file_of(ROW), task="binary")


def test_the_revision_is_told() -> None:
    told = read(revised(1)).notes[0]
    assert told.startswith("TruthfulQA, unknown revision, with the column of the revision of January 2025, sha256 ")


def test_duplicates_and_incomplete_rows_are_dropped_and_counted() -> None:
    data = read(
        file_of(
            ROW,
            ROW.replace("Is it so?", " is  IT so? ").replace("Yes", "Maybe"),
            "A,M,,No,No,Yes,x",
            "A,M,No best?,,No,Yes,x",
            "A,M,No correct?,No,;,Yes,x",
            "A,M,No incorrect?,No,No,,x",
            "A,M,Only correct ones?,No,No,No,x",
            "A,M,Short?",
            ",,,,,,",
            "",
            "A,M,No source?,No,No,Yes",
        )
    )
    assert [item.question for item in data.items] == ["Is it so?", "No source?"]
    assert data.counts == {"rows": 10, "kept": 2, "duplicate": 1, "incomplete": 7}


def test_a_file_without_a_complete_row_is_refused() -> None:
    with pytest.raises(InputError, match=r"'t\.csv' has no complete row: each needs 'Question', 'Best Answer', "):
        read(file_of("A,M,Is it so?,,,,"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + "\r\n", r"'t\.csv' has a header and no rows; get the whole file"),
        (
            HEADER.replace("Best Answer,", "") + "\n" + ROW,
            r"'t\.csv', line 1: needs each of the columns .*'Best Answer'.* once; it has 'Type', 'Category', ",
        ),
        (HEADER + ",Source\n" + ROW, r"line 1: needs each of the columns"),
        (f"{HEADER}\n{ROW}\n{ROW},more\n", r"line 3: has 8 fields for 7 columns; put a field that holds a comma into"),
        (
            f"{HEADER}\n{ROW}\nA,M,Is it cut?,No,N",
            r"line 3: the file ends in the middle of it, after 5 of 7 fields; get",
        ),
        (
            f'{HEADER}\n{ROW}\nA,M,"Is it\nopen?,No\n{ROW}\n',
            r"the row that begins on line 3: unexpected end of data; a qu",
        ),
        (f'{HEADER}\nA,M,"Is it" so?,No,No,Yes,x\n', r"the row that begins on line 2: ',' expected after '\"'"),
        (f"{HEADER}\nA,M,{'x' * 140_000},No,No,Yes,x\n", r"line 2: field larger than field limit \(131072\)"),
        (f'{HEADER}\n{ROW}\nA,M,"{ROW * 2000}', r"the row that begins on line 3: field larger .* is not closed"),
        (f"{HEADER}\n{ROW}\n".encode() + b"A,M,caf\xe9?,No,No,Yes,x\n", r"'t\.csv', line 3, byte 8: 0xe9 is not UTF-8"),
        ("", r"the data set 't\.csv' is empty"),
        ('""\n', r"line 1: needs each of the columns"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_with_its_place(content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(source(content))


def test_the_first_release_as_it_is(shared_data: Path) -> None:
    data = load("truthfulqa", path=shared_data / "TruthfulQA.csv")
    assert data.counts == {"rows": 817, "kept": 817, "duplicate": 0, "incomplete": 0, "items": 817}
    assert data.notes == ("TruthfulQA, the first release", "licence Apache-2.0")
    assert len({item.tags["category"] for item in data.items}) == 38
    assert len(set(names(data))) == 817
    assert all("I have no comment." in item.correct for item in data.items)


def test_the_split_of_the_first_release(shared_data: Path, tmp_path: Path) -> None:
    original = shared_data / "TruthfulQA.csv"
    validation, test = (load("truthfulqa", path=original, split=part) for part in ("validation", "test"))
    assert (len(validation.items), len(test.items)) == (164, 653)
    assert not set(names(validation)) & set(names(test))
    lines = original.read_bytes().decode("utf-8-sig").split("\r\n")
    turned = tmp_path / "turned.csv"
    turned.write_text("\n".join([lines[0], *reversed(lines[1:])]), encoding="utf-8")
    assert set(names(load("truthfulqa", path=turned, split="validation"))) == set(names(validation))
    other = load("truthfulqa", path=original, split="validation", seed=8)
    assert len(other.items) == 164
    assert set(names(other)) != set(names(validation))


def test_both_answers_to_a_question_stay_on_one_side(shared_data: Path) -> None:
    validation = load("truthfulqa", path=shared_data / "TruthfulQA.csv", task="answer", split="validation")
    assert Counter(Counter(item.group for item in validation.items).values()) == {2: 164}
    assert Counter(item.label for item in validation.items) == {Verdict.SUPPORTED: 164, Verdict.CONTRADICTED: 164}

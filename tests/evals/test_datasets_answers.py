"""Answers that are given: with questions, contexts and labels, of the whole or of each sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corrigenda.errors import InputError
from corrigenda.evals.datasets.answers import read
from corrigenda.evals.datasets.files import Source
from corrigenda.evals.items import Item
from corrigenda.types import Reference, Verdict

S, C, U = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNVERIFIED
ANSWER = "Rome has 5 hills. It is in Italy."


def source(*rows: dict[str, Any]) -> Source:
    return Source(name="mine.jsonl", data="".join(json.dumps(row) + "\n" for row in rows).encode())


def row(**more: Any) -> dict[str, Any]:
    return {"question": "How many hills has Rome?", "answer": ANSWER, **more}


def one(**more: Any) -> Item:
    return read(source(row(**more))).items[0]


def test_a_row_becomes_an_answer_as_it_was_received() -> None:
    data = read(
        source(
            row(
                id="hills",
                answer=f" {ANSWER}\n",
                contexts="Rome has seven hills.",
                label="incorrect",
                labels=["contradicted", None],
                correct=["Seven."],
                incorrect="Five.",
                category="cities",
            )
        )
    )
    assert data.items == (
        Item(
            id="hills",
            kind="answer",
            question="How many hills has Rome?",
            answer=f" {ANSWER}\n",
            contexts=(Reference(text="Rome has seven hills.", source="context"),),
            correct=("Seven.",),
            incorrect=("Five.",),
            label=C,
            sentence_labels=(C, None),
            group="hills",
            tags={"category": "cities"},
        ),
    )
    assert (data.name, data.notes) == ("answers:mine", ())
    assert data.counts == {
        "rows": 1,
        "duplicate": 0,
        "incomplete": 0,
        "kept": 1,
        "labelled": 1,
        "with_sentence_labels": 1,
    }


def test_contexts_that_are_not_given_are_not_the_same_as_none() -> None:
    assert (one().contexts, one(contexts=None).contexts) == (None, None)
    assert (one(contexts=[]).contexts, one(contexts=" ").contexts) == ((), ())


def test_contexts_may_have_a_source() -> None:
    assert one(contexts=["One.", {"text": "Two.", "source": "two.txt"}, {"text": "Three."}, ""]).contexts == (
        Reference(text="One.", source="context 1"),
        Reference(text="Two.", source="two.txt"),
        Reference(text="Three.", source="context 3"),
    )


@pytest.mark.parametrize(
    ("label", "verdict"),
    [("correct", S), ("Incorrect", C), (True, S), (False, C), ("REFUTES", C), ("unverified", U), (None, None)],
)
def test_the_label_of_the_whole_answer(label: object, verdict: Verdict | None) -> None:
    assert one(label=label).label is verdict


def test_labels_of_sentences_may_be_those_of_selfcheckgpt() -> None:
    answer = "Rome is old. It is a city. It has 5 hills. It is big."
    labels = ["accurate", "minor_inaccurate", "major_inaccurate", None]
    assert one(answer=answer, labels=labels).sentence_labels == (S, C, C, None)


def test_labels_of_other_pieces_go_to_the_sentences_that_they_touch_the_worst_first() -> None:
    labelled = one(
        answer="Rome is old, and it has 5 hills. It is in Italy. Who knows?",
        sentences=["Rome is old,", "and it has 5 hills.", "It is in Italy."],
        labels=["supported", "contradicted", "unverified"],
    )
    assert labelled.sentence_labels == (C, U, None)


def test_rows_that_share_a_question_an_answer_or_a_context_are_one_group() -> None:
    data = read(
        source(
            row(id="d", answer="Five."),
            row(id="c", answer="Six.", contexts="Rome has hills."),
            row(id="b", question="What has Rome?", answer="Hills.", contexts=["Rome has hills."]),
            row(id="a", question="And Oslo?", answer="Hills."),
            row(id="e", question="And Bern?", answer="Bears."),
        )
    )
    assert [item.group for item in data.items] == ["a", "a", "a", "a", "e"]


def test_incomplete_rows_are_dropped_and_counted_and_repetitions_too() -> None:
    data = read(
        source(row(), row(), row(answer=""), row(answer=None), row(question=" "), row(question=None, contexts=[]))
    )
    assert [item.id for item in data.items] == ["line-1", "line-6"]
    assert {name: data.counts[name] for name in ("rows", "duplicate", "incomplete", "kept")} == {
        "rows": 6,
        "duplicate": 1,
        "incomplete": 3,
        "kept": 2,
    }
    with pytest.raises(
        InputError, match=r"'mine\.jsonl' has no complete row: each needs an 'answer', and a 'question' "
    ):
        read(source(row(answer="")))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"question": "Why?"},
            r"'mine\.jsonl', line 1: column 'answer' is missing; needed are 'answer', and the row has ",
        ),
        (row(answer=5), r"line 1: 'answer' must be a text, got 5"),
        (row(context="Rome."), r"line 1: has a column 'context'; its name is 'contexts', a text or a list"),
        (row(contexts=[{"body": "Rome."}]), r"line 1: 'contexts' must be a text, got None"),
        (row(contexts=[{"text": "Rome.", "source": 1}]), r"line 1: 'source' must be a text, got 1"),
        (
            row(label="good"),
            r"line 1: 'label' is 'good', which is no known label; write one of CORRECT, INCORRECT, TRUE",
        ),
        (row(labels="accurate"), r"line 1: 'labels' must be a list, one label a sentence, got 'accurate'"),
        (row(labels=["accurate", "fine"]), r"line 1: 'labels' is 'fine', which is no known label"),
        (
            row(labels=["accurate"]),
            r"has 1 'labels' for an answer of 2 sentences \(the last begins 'It is in Italy\.'\); give one for each",
        ),
        (
            row(labels=["accurate"], sentences=["a", "b"]),
            r"line 1: has 1 'labels' for 2 'sentences'; give one for each",
        ),
        (
            row(labels=["accurate"], sentences=["It was in Italy."]),
            r"line 1: the sentence 'It was in Italy\.' is not in the answer behind the one before it; copy it exactly",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(source(bad))

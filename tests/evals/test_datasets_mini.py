"""The data set that comes with the package: of the sizes that it says, in order, and of our own writing."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from corrigenda.evals.datasets import load, mini
from corrigenda.sentences import split_sentences
from corrigenda.types import Verdict

QUESTIONS = load("mini", task="question").items
CLAIMS = load("mini", task="claim").items
ROWS = [json.loads(line) for line in mini.packaged(mini.CLAIMS).data.decode().splitlines()]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def sentences(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


def test_what_is_in_it() -> None:
    data = load("mini")
    assert data.items == (*QUESTIONS, *CLAIMS)
    assert data.counts == {"rows": 100, "kept": 100, "items": 100}
    assert (len(QUESTIONS), len(CLAIMS)) == (40, 60)
    assert Counter(str(item.label) for item in CLAIMS) == {"supported": 25, "contradicted": 25, "unverified": 10}
    one = {"supported": 5, "contradicted": 5, "unverified": 2}
    for category in ("numbers", "dates", "negation", "units", "entities"):
        assert Counter(str(item.label) for item in CLAIMS if item.tags == {"category": category}) == one
    assert Counter(item.tags["category"] for item in QUESTIONS) == {
        "everyday": 6,
        "misconception": 8,
        "dates": 6,
        "numbers": 5,
        "geography": 5,
        "science": 5,
        "people": 5,
    }


def test_a_claim_is_one_sentence_and_its_evidence_the_sentences_that_it_lists() -> None:
    for item, row in zip(CLAIMS, ROWS, strict=True):
        assert item.contexts is not None
        (context,) = item.contexts
        assert sentences(item.answer or "") == [row["claim"]]
        assert sentences(context.text) == row["evidence"]
        assert 1 <= len(row["evidence"]) <= 3
    assert Counter(len(row["evidence"]) for row in ROWS)[1] < 40


def test_each_question_has_two_to_four_answers_of_one_sentence_on_both_sides() -> None:
    for item in QUESTIONS:
        assert (item.question or "").endswith("?")
        assert 2 <= len(item.correct) <= 4
        assert 2 <= len(item.incorrect) <= 4
        for answer in (*item.correct, *item.incorrect):
            assert sentences(answer) == [answer]
            assert answer.endswith(".")


def test_nothing_is_there_twice() -> None:
    texts = [item.question for item in QUESTIONS] + [a for item in QUESTIONS for a in (*item.correct, *item.incorrect)]
    texts += [item.answer for item in CLAIMS] + [" ".join(row["evidence"]) for row in ROWS]
    assert [text for text, times in Counter(texts).items() if times > 1] == []
    assert len({item.id for item in load("mini", task="all").items}) == 40 + 80 + 60
    assert len({item.group for item in CLAIMS}) == 60


def test_given_answers_are_a_correct_and_an_incorrect_one() -> None:
    items = load("mini", task="answer").items
    by_id = {item.id: item for item in QUESTIONS}
    assert Counter(item.label for item in items) == {Verdict.SUPPORTED: 40, Verdict.CONTRADICTED: 40}
    for item in items:
        question = by_id[item.group]
        assert item.answer in (question.correct if item.label is Verdict.SUPPORTED else question.incorrect)
    assert load("mini", task="answer").items == items
    assert load("mini", task="answer", seed=8).items != items


def test_it_shares_nothing_with_truthfulqa(shared_data: Path) -> None:
    theirs = load("truthfulqa", path=shared_data / "TruthfulQA.csv").items
    texts = {frozenset(words(text)) for item in theirs for text in (*item.correct, *item.incorrect)}
    asked = [words(item.question or "") for item in theirs]
    for item in QUESTIONS:
        mine = words(item.question or "")
        assert max(len(mine & other) / len(mine | other) for other in asked) < 0.6, item.question
        for answer in (*item.correct, *item.incorrect):
            assert frozenset(words(answer)) not in texts, answer


@pytest.mark.parametrize("task", [None, "question", "answer", "claim", "all"])
def test_every_task_says_what_it_is(task: str | None) -> None:
    data = load("mini", task=task)
    assert data.notes[0].startswith("a small set of our own writing, Apache-2.0")
    assert re.fullmatch("[0-9a-f]{64}", data.sha256 or "")

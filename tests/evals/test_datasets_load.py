"""`load`: what is asked for must fit the data set, and draws depend on the seed alone."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from corrigenda.errors import InputError
from corrigenda.evals.datasets import DATASETS, load
from corrigenda.evals.items import DataSet


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    """A hundred claims on fifty texts."""
    path = tmp_path / "claims.jsonl"
    rows = [{"id": n, "claim": f"Claim {n}.", "evidence": f"Text {n // 2}.", "label": "SUPPORTS"} for n in range(100)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def numbers(data: DataSet) -> list[int]:
    return [int(item.id) for item in data.items]


def test_the_table() -> None:
    assert list(DATASETS) == ["truthfulqa", "fever", "claims", "answers", "mini"]
    assert {name: entry.data for name, entry in DATASETS.items()} == {
        "truthfulqa": "optional",
        "fever": "needed",
        "claims": "needed",
        "answers": "needed",
        "mini": "none",
    }


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("truthful", {}, r"no data set is named 'truthful'; there are truthfulqa, fever, claims, answers, mini"),
        ("claims", {}, r"the data set 'claims' needs a file; give it with --data FILE"),
        ("mini", {"path": "x.jsonl"}, r"'mini' comes with the package and takes no file, got 'x\.jsonl'"),
        ("mini", {"wiki": "wiki"}, r"the data set 'mini' takes no wiki folder, got 'wiki'; only 'fever' does"),
        ("mini", {"task": "binary"}, r"'mini' has no task 'binary'; it has question, answer, claim, all"),
        ("mini", {"split": "train"}, r"split 'train' is unknown; there are validation, test, all"),
        ("mini", {"limit": 0}, r"limit must be a whole number of items, at least 1, got 0"),
        ("mini", {"limit": True}, r"limit must be a whole number of items, at least 1, got True"),
        ("mini", {"limit": 2.5}, r"limit must be a whole number of items, at least 1, got 2\.5"),
        ("claims", {"path": "absent.jsonl"}, r"the data set 'absent\.jsonl' cannot be read: No such file"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(name, **options)


def test_a_limit_draws_and_keeps_the_order(claims: Path) -> None:
    ten, twenty = (load("claims", path=claims, limit=limit) for limit in (10, 20))
    assert numbers(ten) == sorted(numbers(ten)) != list(range(10))
    assert len(ten.items) == ten.counts["items"] == 10
    assert ten.counts["kept"] == 100
    assert set(numbers(ten)) < set(numbers(twenty))
    assert ten.notes == ("10 of 100 items, drawn with seed 7",)
    assert numbers(load("claims", path=claims, limit=10, seed=8)) != numbers(ten)


def test_a_group_is_parted_where_its_link_was_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "chain.jsonl"
    rows = [{"id": n, "claim": f"Claim {n // 2}.", "evidence": f"Text {(n + 1) // 2}."} for n in range(40)]
    path.write_text("".join(json.dumps(row | {"label": "SUPPORTS"}) + "\n" for row in rows))
    assert {item.group for item in load("claims", path=path).items} == {"0"}
    drawn = load("claims", path=path, limit=20)
    chosen = numbers(drawn)
    together = [item.group == before.group for before, item in pairwise(drawn.items)]
    assert together == [later == earlier + 1 for earlier, later in pairwise(chosen)]
    assert 1 < sum(together) < 19


def test_the_two_answers_to_a_question_stay_one_group(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"Is it {n}?,No,No,Yes" for n in range(20)]
    path.write_text("\n".join(["Question,Best Answer,Correct Answers,Incorrect Answers", *rows, ""]))
    drawn = load("truthfulqa", path=path, task="answer", limit=30)
    assert len({item.group for item in drawn.items}) == len({item.question for item in drawn.items}) < 30


def test_a_limit_beyond_the_end_takes_all(claims: Path) -> None:
    assert load("claims", path=claims, limit=1000) == load("claims", path=claims, split="all")


def test_a_split_never_parts_a_group(claims: Path) -> None:
    validation, test = (load("claims", path=claims, split=part) for part in ("validation", "test"))
    assert (len(validation.items), len(test.items)) == (20, 80)
    assert sorted(numbers(validation) + numbers(test)) == list(range(100))
    assert not {item.group for item in validation.items} & {item.group for item in test.items}
    assert validation.notes == ("validation part: 20 of 100 items, 10 of 50 groups, seed 7",)


def test_draws_do_not_depend_on_the_order_of_the_rows(claims: Path, tmp_path: Path) -> None:
    turned = tmp_path / "turned.jsonl"
    turned.write_text("".join(f"{line}\n" for line in reversed(claims.read_text().splitlines())))
    asked: dict[str, Any] = {"split": "test", "limit": 7}
    assert set(numbers(load("claims", path=claims, **asked))) == set(numbers(load("claims", path=turned, **asked)))


def test_a_part_of_a_single_group_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"claim": "A.", "evidence": "A.", "label": "SUPPORTS"}\n')
    assert len(load("claims", path=path, split="validation").items) == 1
    with pytest.raises(InputError, match=r"the test part of '.*one\.jsonl' is empty: all its rows belong to one group"):
        load("claims", path=path, split="test")

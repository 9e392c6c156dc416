from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.batches import RUN, lines, many, prepare, started, timeless
from tests.scripted import ASKED

from corrigenda.batch.state import State

ROWS = 500
KILLS = 20
EACH = 24
"""Rows that a run which is killed may begin."""
SLOW = [{**rule, "first_token_s": 0.01} for rule in ASKED]


def run(folder: Path) -> int:
    process = started(folder, *RUN)
    process.communicate()
    return process.returncode


def rows_in(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM rows").fetchone()[0])
    except sqlite3.Error:  # it is just being made
        return 0


def kept(path: Path) -> dict[int, Any]:
    with closing(State(path)) as state:
        return {done.number: done for done in state.all()} if state.manifest is not None else {}


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_a_batch_that_is_killed_at_twenty_moments_gives_the_output_of_an_unbroken_run(tmp_path: Path) -> None:
    dice = random.Random(5)
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
        prepare(tmp_path / name, many(ROWS), chat=SLOW)
    assert run(tmp_path / "whole") == 0

    state = tmp_path / "broken" / "out.jsonl.state"
    seen: dict[int, Any] = {}
    for kill in range(KILLS):
        # A fast machine would be through before the last kill; so each run begins few rows.
        process = started(tmp_path / "broken", *RUN, "--concurrency", "8", "--max-rows", str(EACH))
        if kill % 5:  # while rows are made
            goal = len(seen) + dice.randint(1, EACH - 8)
            while process.poll() is None and rows_in(state) < goal:
                time.sleep(0.001)
            time.sleep(dice.random() * 0.03)
        else:  # before the first one, or anywhere
            time.sleep(dice.random())
        process.kill()
        process.communicate()
        now = kept(state) if state.exists() else {}
        assert {number: now.get(number) for number in seen} == seen, "a row was lost, or done again"
        seen = now
    assert 0 < len(seen) < ROWS

    assert run(tmp_path / "broken") == 0
    final = lines(tmp_path / "broken" / "out.jsonl")
    assert timeless(final) == timeless(lines(tmp_path / "whole" / "out.jsonl"))
    assert [row["id"] for row in final] == [f"r{n}" for n in range(ROWS)]
    assert {n: final[n].get("report") for n in seen} == {n: done.report for n, done in seen.items()}
    assert sorted(p.name for p in (tmp_path / "broken").glob("*out*")) == [
        "out.jsonl",
        "out.jsonl.lock",
        "out.jsonl.state",
        "out.jsonl.summary.json",
    ]

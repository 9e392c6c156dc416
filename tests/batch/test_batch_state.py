from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from corrigenda.batch.rows import PAIRS, Done, Row, Spent, pack, unpack_done, unpack_row
from corrigenda.batch.state import Slow, State, locked, state_path
from corrigenda.errors import InputError
from corrigenda.files import OutputFailed
from corrigenda.types import Reference

MANIFEST = {"format": 1, "corrigenda": "0"}
REPORT = {"status": "verified", "claims": []}


def begun(path: Path) -> State:
    state = State(path)
    state.begin(MANIFEST)
    return state


def good(number: int, seconds: float = 1.0) -> Done:
    return Done(number=number, id=f"r{number}", report=REPORT, seconds=seconds)


def bad(number: int) -> Done:
    return Done(number=number, id=f"r{number}", error="no connection", kind="Unreachable", seconds=0.5)


def test_records_travel_as_json() -> None:
    row = Row(number=3, id="x", answer="A.", contexts=(Reference(text="one", source="page"),))
    done = Done(number=3, id="x", report=REPORT, seconds=1.5, spent={"recall": Spent(calls=2, reused=1)})
    assert unpack_row(pack(row)) == row
    assert unpack_row(pack(Row(number=0, id="y", question="?"))) == Row(number=0, id="y", question="?")
    assert unpack_done(pack(done)) == done


def test_what_a_row_cost_is_added_up_without_its_pairs() -> None:
    spent = {
        "generate": Spent(calls=1, prompt_tokens=10, completion_tokens=5),
        "recall": Spent(calls=1, unreported=1),
        PAIRS: Spent(calls=7),
    }
    done = Done(number=0, id="x", spent=spent)
    assert (done.calls, done.tokens, done.status, done.failed) == (2, 15, "failed", True)


def test_rows_come_back_in_the_order_of_the_input(tmp_path: Path) -> None:
    rows = [good(2), bad(0), good(1, seconds=3.0)]
    with closing(begun(tmp_path / "s")) as state:
        for row in rows:
            assert state.put(row) == row
    with closing(State(tmp_path / "s")) as state:
        assert state.manifest == MANIFEST
        assert list(state.all()) == [rows[1], rows[2], rows[0]]
        assert state.counts() == {"failed": 1, "verified": 2}
        assert state.slowest(2) == [Slow("r1", 3.0), Slow("r2", 1.0)]
        assert [state.seconds_at(share) for share in (0, 0.5, 0.95)] == [0.5, 1.0, 3.0]
        assert state.missing(0, 5) == {3, 4}
        assert state.missing(0, 5, retry_failed=True) == {0, 3, 4}


def test_a_row_that_is_done_again_replaces_the_old_one_and_its_cost_is_added(tmp_path: Path) -> None:
    with closing(begun(tmp_path / "s")) as state:
        state.put(Done(number=0, id="r0", error="e", kind="K", spent={"recall": Spent(calls=1, unreported=1)}))
        state.put(Done(number=0, id="r0", report=REPORT, spent={"recall": Spent(calls=1, prompt_tokens=9)}))
        assert [done.status for done in state.all()] == ["verified"]
        assert state.spent() == {"recall": Spent(calls=2, prompt_tokens=9, unreported=1)}


def test_an_empty_state_has_no_seconds(tmp_path: Path) -> None:
    with closing(begun(tmp_path / "s")) as state:
        assert state.seconds_at(0.5) is None


@pytest.mark.parametrize("value", [math.nan, {1, 2}])
def test_what_json_cannot_hold_is_kept_as_a_failure(tmp_path: Path, value: object) -> None:
    with closing(begun(tmp_path / "s")) as state:
        kept = state.put(Done(number=0, id="x", report={"status": "verified", "claims": value}))
        assert kept.failed
        assert str(kept.error).startswith("what was made of it cannot be written as JSON: ")
        assert list(state.all()) == [kept]


def test_a_lone_surrogate_is_kept(tmp_path: Path) -> None:
    done = Done(number=0, id="x", report={"status": "verified", "claims": [], "answer": "\ud800"})
    with closing(begun(tmp_path / "s")) as state:
        assert state.put(done) == done
        assert list(state.all()) == [done]


def test_a_full_disk_is_told_and_the_state_stays_usable(tmp_path: Path) -> None:
    path = tmp_path / "s"
    noise = Done(number=1, id="r1", error="".join(chr(0x4E00 + n * 7919 % 20000) for n in range(50_000)), kind="K")
    with closing(begun(path)) as state:
        state.put(good(0))
        pages = state._database.execute("PRAGMA page_count").fetchone()[0]
        state._database.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(OutputFailed, match=r"s' cannot be written or read: database or disk is full; make room"):
            state.put(noise)
    with closing(State(path)) as state:
        assert list(state.all()) == [good(0)]
        state.put(noise)
        assert [done.number for done in state.all()] == [0, 1]


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but a text of some length " * 20)
    with closing(sqlite3.connect(tmp_path / "other")) as database:
        database.execute("CREATE TABLE mine (x)")
    for name in ("text", "other"):
        with pytest.raises(InputError, match=f"{name}' is no state of corrigenda batch, or is damaged; move it away"):
            State(tmp_path / name)


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    with closing(State(tmp_path / "s")) as state:
        state.begin({"format": 99})
    with pytest.raises(
        InputError, match=r"s' is a state of format 99; this version of corrigenda goes on from 1; go on"
    ):
        State(tmp_path / "s")


def test_two_runs_on_one_output_are_refused(tmp_path: Path) -> None:
    output = tmp_path / "sub" / "out.jsonl"
    message = r"another run is writing to '.*out\.jsonl'; wait for it"
    with locked(output), pytest.raises(InputError, match=message), locked(output):
        pass
    with locked(output):
        pass
    assert state_path(output).name == "out.jsonl.state"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = r"the folder of the output '.*out\.jsonl' cannot be written: .*; name another"
    with pytest.raises(InputError, match=message), locked(tmp_path / "file" / "out.jsonl"):
        pass

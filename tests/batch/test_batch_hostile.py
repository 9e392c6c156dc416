"""What nobody should give to a batch, and what it must bear: no traceback, and nothing that was paid for is lost."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from tests.batches import MODELS, ROWS, RUN, batch, lines, prepare, timeless, write_lines
from tests.fake_openai import FakeOpenAI, answer
from tests.scripted import FIVE_HILLS

from corrigenda.batch.rows import Done
from corrigenda.batch.state import State

CHECKED: dict[str, Any] = {"answer": "Rome has seven hills.", "contexts": ["Rome stands on seven hills."]}
WITHOUT = ("--llm", "none", *MODELS[2:], "--cache-dir", "cache")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return prepare(tmp_path)


def test_an_id_that_no_file_can_hold_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "in.jsonl").write_text('{"id": "a\\ud800", "answer": "x", "contexts": ["x"]}\n', "utf-8")
    code, out, err = batch(capsys, *RUN)
    assert (code, out) == (2, "")
    assert "'in.jsonl', line 1: 'id' holds half a character (a lone surrogate)" in err


def test_a_kind_of_failure_that_is_not_listed_is_counted_without_an_example(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(here, [*({"answer": " ", "contexts": ["x"]} for _ in range(100)), {"question": "Which?"}], chat=[])
    code, out, _ = batch(capsys, *RUN, "--concurrency", "1")
    assert code == 3
    assert "failed    100 InputError, the first 1: the answer is empty; give its text" in out
    assert "failed    1 BadReply\n" in out


@pytest.mark.parametrize("first", [WITHOUT, (*MODELS[:2], "--nli", "onnx:./nowhere", "--cache-dir", "cache")])
def test_a_run_that_did_nothing_binds_no_other(
    here: Path, capsys: pytest.CaptureFixture[str], first: tuple[str, ...]
) -> None:
    code, _, _ = batch(capsys, "in.jsonl", "out.jsonl", *first)
    assert code == 2
    code, _, err = batch(capsys, *RUN)
    assert (code, len(lines(here / "out.jsonl"))) == (0, 4), err


def test_wrong_settings_with_overwrite_lose_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    code, _, _ = batch(capsys, "in.jsonl", "out.jsonl", *WITHOUT, "--overwrite")
    assert code == 2
    code, _, err = batch(capsys, *RUN)
    assert (code, "4 are done" in err) == (0, True)


def test_an_output_beside_an_empty_state_is_not_written_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "out.jsonl").write_text("precious\n")
    (here / "out.jsonl.state").touch()
    code, _, err = batch(capsys, *RUN)
    assert (code, (here / "out.jsonl").read_text()) == (2, "precious\n")
    assert "exists, and there is no state of a run beside it" in err


def test_an_output_that_is_a_folder_is_refused_before_anything_is_paid_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "out.jsonl").mkdir()
    code, _, err = batch(capsys, *RUN, "--overwrite")
    assert code == 2
    assert "the output 'out.jsonl' is a folder; name a file" in err
    assert not (here / "out.jsonl.state").exists()


@pytest.mark.parametrize("payload", [b"\0\xff", b"", "text", None])
def test_a_damaged_entry_of_the_state_is_told(here: Path, capsys: pytest.CaptureFixture[str], payload: object) -> None:
    batch(capsys, *RUN)
    whole = (here / "out.jsonl").read_bytes()
    state = sqlite3.connect(here / "out.jsonl.state")
    state.execute("CREATE TABLE other (number INTEGER PRIMARY KEY, payload)")
    state.execute("INSERT INTO other SELECT * FROM payloads")
    state.execute("DROP TABLE payloads")
    state.execute("ALTER TABLE other RENAME TO payloads")
    state.execute("UPDATE payloads SET payload = ? WHERE number = 1", (payload,))
    state.commit()
    state.close()
    code, _, err = batch(capsys, *RUN)
    assert (code, (here / "out.jsonl").read_bytes()) == (2, whole)
    assert "'out.jsonl.state' is no state of corrigenda batch, or is damaged" in err


@pytest.mark.parametrize("kept", [50, 4096, 20_000])
def test_a_state_that_was_cut_short_is_told(here: Path, capsys: pytest.CaptureFixture[str], kept: int) -> None:
    batch(capsys, *RUN)
    state = here / "out.jsonl.state"
    state.write_bytes(state.read_bytes()[:kept])
    code, _, err = batch(capsys, *RUN)
    assert code == 2
    assert "'out.jsonl.state' is no state of corrigenda batch, or is damaged" in err


def parquet(path: Path, names: list[str], *columns: Any) -> None:
    pq.write_table(
        pa.Table.from_arrays([pa.array(c) if isinstance(c, list) else c for c in columns], names=names), path
    )


def test_a_parquet_column_that_is_there_twice_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet(here / "in.parquet", ["answer", "answer", "contexts"], ["A."], ["B."], [["C."]])
    code, _, err = batch(capsys, "in.parquet", *RUN[1:])
    assert code == 2
    assert "'in.parquet' has the column 'answer' twice" in err


def test_a_parquet_value_that_python_cannot_hold_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])
    parquet(here / "in.parquet", ["answer", "contexts"], broken, [["C."]])
    code, _, err = batch(capsys, "in.parquet", *RUN[1:])
    assert (code, "'in.parquet', row 1: 'answer' cannot be read" in err) == (2, True)
    parquet(here / "in.parquet", ["id", "answer", "contexts"], pa.array([2**62], pa.timestamp("us")), ["A."], [["C."]])
    code, _, err = batch(capsys, "in.parquet", *RUN[1:])
    assert (code, "'in.parquet', row 1: 'id' cannot be read" in err) == (2, True)


@pytest.mark.parametrize("name", ["in.jsonl", "in.parquet"])
def test_a_named_column_that_no_row_has_is_refused(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    rows = [{"question": "How many hills has Rome?", "output": "Rome has 5 hills."}]
    write_lines(here / "in.jsonl", rows)
    pq.write_table(pa.Table.from_pylist(rows), here / "in.parquet")
    code, _, err = batch(capsys, name, *RUN[1:], "--column", "answer=outptu")
    assert code == 2
    assert "no row of the input has the column 'outptu' (--column answer=outptu); check its name" in err


def test_what_is_recalled_is_told_before_it_is_paid_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(here / "in.jsonl", [*ROWS, {**CHECKED, "id": "x", "contexts": None, "question": "Which?"}])
    _, _, err = batch(capsys, *RUN)
    assert "5 rows, 1 of them to be asked, 2 answers without contexts;" in err


def test_the_same_rows_give_the_same_from_both_formats_to_both_formats(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {name: [row.get(name) for row in ROWS] for name in ("id", "question", "answer", "contexts")}
    pq.write_table(pa.table(columns), here / "in.parquet")
    batch(capsys, *RUN)
    code, _, err = batch(capsys, "in.parquet", "from.jsonl", *RUN[2:])
    assert code == 0, err
    assert timeless(lines(here / "from.jsonl")) == timeless(lines(here / "out.jsonl"))
    batch(capsys, "in.parquet", "from.parquet", *RUN[2:])
    made = [{"id": row["id"], "report": json.loads(row["report"])} for row in pq.read_table("from.parquet").to_pylist()]
    assert timeless(made) == timeless(lines(here / "out.jsonl"))


def test_an_input_that_can_be_read_only_once_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(here / "pipe.jsonl")
    code, _, err = batch(capsys, "pipe.jsonl", *RUN[1:])
    assert code == 2
    assert "the input 'pipe.jsonl' is no file, and is read more than once; write it to a file" in err


def test_a_failed_report_is_in_no_rate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = [{"hypothesis_contains": "Broken", "error": "this pair cannot be scored"}, *FIVE_HILLS]
    rows = [{**CHECKED, "id": "a", "answer": "Rome has 5 hills."}, {**CHECKED, "id": "b", "answer": "Broken is this."}]
    prepare(here, rows, nli=broken)
    code, out, _ = batch(capsys, *RUN, "--json", "--no-correct")
    summary = json.loads(out)
    assert (code, summary["rows"]["by_status"]["failed"]) == (0, 1)
    assert {name: (rate["contradicted"], rate["n"]) for name, rate in summary["hallucination_rate"].items()} == {
        "answers": (1, 1),
        "claims": (1, 1),
    }


def test_an_output_that_was_deleted_is_written_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    whole = (here / "out.jsonl").read_bytes()
    (here / "out.jsonl").unlink()
    code, _, err = batch(capsys, *RUN)
    assert (code, (here / "out.jsonl").read_bytes(), "4 are done" in err) == (0, whole, True)


def test_an_input_that_changes_is_noticed_before_another_row_begins(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = State.put

    def changed(self: State, done: Done) -> Done:
        os.utime(here / "in.jsonl", (1, 1))
        return put(self, done)

    monkeypatch.setattr(State, "put", changed)
    code, out, err = batch(capsys, *RUN, "--concurrency", "1")
    assert (code, out) == (2, "")
    assert "the input 'in.jsonl' was changed while it was read; what is done is kept" in err
    monkeypatch.undo()
    monkeypatch.chdir(here)
    code, _, err = batch(capsys, *RUN)
    assert (code, "; 1 are done;" in err) == (0, True)


def test_tokens_that_no_server_can_mean_are_not_known(
    here: Path, capsys: pytest.CaptureFixture[str], server: FakeOpenAI
) -> None:
    server.default = answer("Rome has seven hills.", usage={"prompt_tokens": 3, "completion_tokens": 10**30})
    code, out, err = batch(
        capsys, *RUN, "--json", "--llm", "openai:m", "--base-url", server.base_url, "--budget-tokens", "100000"
    )
    assert code == 0, err
    calls = json.loads(out)["calls"]
    assert (calls["completion_tokens"], calls["without_tokens"]) == (0, calls["made"])


def test_a_line_of_the_output_is_one_line_to_everyone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\u2028b\u2029c\x85d"
    prepare(here, [{**CHECKED, "id": name}])
    assert batch(capsys, *RUN)[0] == 0
    assert [row["id"] for row in lines(here / "out.jsonl")] == [name]


@pytest.mark.parametrize("name", ["out.jsonl.gz", "out.parquet"])
def test_a_run_that_stops_before_its_first_row_leaves_an_empty_output_and_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, out, err = batch(capsys, "in.jsonl", name, *RUN[2:], "--deadline", "0.000001")
    assert (code, "rows      0 of 4 done\n" in out) == (0, True), err
    code, out, err = batch(capsys, "in.jsonl", name, *RUN[2:])
    assert (code, "rows      4 of 4 done: 2 corrected, 2 verified\n" in out) == (0, True), err

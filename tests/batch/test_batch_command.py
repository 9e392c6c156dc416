from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet as pq
from tests.batches import MODELS, ROWS, RUN, batch, lines, many, prepare, started, timeless, write_lines
from tests.scripted import ASKED, ENTAIL

from corrigenda.batch import inputs
from corrigenda.batch.command import parser
from corrigenda.batch.state import locked


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the scripted models and four rows."""
    monkeypatch.chdir(tmp_path)
    return prepare(tmp_path)


def summary(folder: Path, name: str = "out.jsonl") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.summary.json").read_text("utf-8"))
    return found


def test_every_row_gets_its_report_in_the_order_of_the_input(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = batch(capsys, *RUN)
    assert code == 0
    found = lines(here / "out.jsonl")
    assert [(row["id"], row["report"]["status"], row["report"]["final_answer"]) for row in found] == [
        ("asked", "corrected", "Rome has seven hills. It is in Italy."),
        ("wrong", "corrected", "Rome has seven hills."),
        ("right", "verified", "Rome has seven hills."),
        ("recalled", "verified", "Rome has seven hills."),
    ]
    assert "rows      4 of 4 done: 2 corrected, 2 verified" in out
    assert "answers   50.0% have a contradicted claim (95%: 15.0% to 85.0%), of 4" in out
    assert "4 rows, 1 of them to be asked, 1 answers without contexts; 0 are done; the state is in" in err
    assert "4 of 4 rows, took" in err
    assert summary(here)["complete"]
    assert sorted(p.name for p in here.glob("out*")) == [
        "out.jsonl",
        "out.jsonl.lock",
        "out.jsonl.state",
        "out.jsonl.summary.json",
    ]


def test_json_prints_the_summary_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = batch(capsys, *RUN, "--json", "--price-prompt", "1", "--price-completion", "4")
    assert (code, json.loads(out)) == (0, summary(here))
    assert summary(here)["calls"]["price_per_million"] == {"prompt": 1.0, "completion": 4.0}


def test_parquet_in_and_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert batch(capsys, *RUN)[0] == 0
    assert batch(capsys, "in.jsonl", "out.parquet", *RUN[2:])[0] == 0
    table = pq.read_table(here / "out.parquet").to_pylist()
    assert [row["status"] for row in table] == ["corrected", "corrected", "verified", "verified"]
    assert [timeless(json.loads(row["report"])) for row in table] == [
        timeless(row["report"]) for row in lines(here / "out.jsonl")
    ]


def test_a_run_that_stopped_at_its_budget_goes_on_to_the_same_output(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(here / "in.jsonl", many(20))
    batch(capsys, "in.jsonl", "whole.jsonl", *RUN[2:])
    for done in (6, 12, 18):
        code, out, err = batch(capsys, *RUN, "--max-rows", "6")
        assert (code, f"rows      {done} of 20 done" in out) == (0, True)
        assert (
            f"stopped with {20 - done} of 20 rows left: the budget of 6 rows (--max-rows) is used up; the same command "
            "goes on from here"
        ) in err
        assert len(lines(here / "out.jsonl")) == done
        assert (summary(here)["complete"], summary(here)["rows"]["left"]) == (False, 20 - done)
    assert batch(capsys, *RUN, "--max-rows", "6")[0] == 0
    assert timeless(lines(here / "out.jsonl")) == timeless(lines(here / "whole.jsonl"))
    assert summary(here)["rows"] == summary(here, "whole.jsonl")["rows"]


def test_a_run_that_is_complete_calls_nothing_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN, "--script-log", "log.jsonl")
    before, whole = lines(here / "log.jsonl"), (here / "out.jsonl").read_bytes()
    (here / "out.jsonl").unlink()
    code, out, _ = batch(capsys, *RUN, "--script-log", "log.jsonl")
    assert (code, lines(here / "log.jsonl"), (here / "out.jsonl").read_bytes()) == (0, before, whole)
    assert "rows      4 of 4 done" in out


def test_what_was_recalled_and_scored_is_reused_in_another_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    assert (summary(here)["calls"]["by_stage"]["recall"]["calls"], summary(here)["pairs"]["scored"]) == (1, 3)
    batch(capsys, "in.jsonl", "again.jsonl", *RUN[2:])
    again = summary(here, "again.jsonl")
    assert (again["calls"]["by_stage"]["recall"]["reused"], again["pairs"]["scored"]) == (2, 0)
    batch(capsys, "in.jsonl", "anew.jsonl", *RUN[2:], "--no-cache")
    assert summary(here, "anew.jsonl")["pairs"]["scored"] == 3


FAILING = [{"stage": "recall", "error": {"status": 503, "body": "down"}}, *ASKED]


def test_failed_rows_are_listed_and_retried_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(here, chat=FAILING)
    code, out, err = batch(capsys, *RUN)
    assert code == 0
    assert "2 of 4 rows failed; out.jsonl says why each did; --retry-failed does them again" in err
    assert [row["report"]["status"] for row in lines(here / "out.jsonl")] == [
        "failed",
        "corrected",
        "verified",
        "failed",
    ]
    assert [each["id"] for each in summary(here)["failures"]["listed"]] == ["asked", "recalled"]
    assert "down" in summary(here)["failures"]["listed"][0]["reason"]
    assert "failed    2 failed report, the first asked: " in out
    assert batch(capsys, *RUN)[0] == 0
    assert summary(here)["this_run"]["rows"] == 0
    assert batch(capsys, *RUN, "--retry-failed")[0] == 0
    assert summary(here)["this_run"]["rows"] == 2


def test_retry_failed_does_just_those(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = [{"stage": "recall", "error": {"status": 503, "body": "down"}, "times": 1}, *ASKED]
    prepare(here, chat=once)
    write_lines(here / "in.jsonl", [ROWS[0] | {"id": "first"}, *ROWS[1:3]])
    batch(capsys, *RUN)
    assert summary(here)["rows"]["by_status"] == {"corrected": 1, "failed": 1, "verified": 1}
    # A new process begins the script anew, so that the rule fails once more, and then no more.
    (here / "log.jsonl").write_text("")
    batch(capsys, *RUN, "--retry-failed", "--script-log", "log.jsonl")
    assert summary(here)["this_run"]["rows"] == 1
    assert {line.get("stage") for line in lines(here / "log.jsonl") if "stage" in line} == {"generate", "recall"}


def test_every_row_failed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(here / "in.jsonl", [{"answer": "  ", "question": "?"}])
    code, _, err = batch(capsys, *RUN)
    assert (code, "1 of 1 rows failed" in err) == (3, True)
    assert lines(here / "out.jsonl") == [
        {"id": "1", "error": "the answer is empty; give its text", "kind": "InputError"}
    ]


def test_a_backend_that_has_gone_stops_the_run(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corrigenda.batch.going.IN_A_ROW", 5)
    prepare(here, chat=[{"error": {"status": 401, "body": "wrong key"}}])
    write_lines(here / "in.jsonl", [{"question": f"{n}?"} for n in range(100)])
    code, _, err = batch(capsys, *RUN, "--concurrency", "2")
    assert code == 3
    assert re.search(r"stopped with 9\d of 100 rows left: 5 rows in a row failed, the last with: .*wrong key", err)


@pytest.mark.parametrize(("what", "expected"), [("contradicted", 1), ("failed", 0)])
def test_fail_on(here: Path, capsys: pytest.CaptureFixture[str], what: str, expected: int) -> None:
    assert batch(capsys, *RUN, "--fail-on", what)[0] == expected


def test_fail_on_failed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(here / "in.jsonl", [*ROWS, {"id": "empty", "answer": " ", "question": "?"}])
    assert batch(capsys, *RUN, "--fail-on", "failed")[0] == 1


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, err = batch(capsys, *arguments)
    assert (code, out) == (2, "")
    return err


def test_an_output_that_no_run_left_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "out.jsonl").write_text("mine")
    assert "the output 'out.jsonl' exists, and there is no state of a run beside it; name another output" in refused(
        capsys, *RUN
    )
    assert (here / "out.jsonl").read_text() == "mine"
    assert batch(capsys, *RUN, "--overwrite")[0] == 0
    assert len(lines(here / "out.jsonl")) == 4


def test_another_input_is_refused_and_loses_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    whole = (here / "out.jsonl").read_bytes()
    write_lines(here / "in.jsonl", [*ROWS, {"question": "?"}])
    err = refused(capsys, *RUN)
    assert (
        "out.jsonl.state' is of another run: input: file 1 has another content ('in.jsonl' there, 'in.jsonl' here)"
        in err
    )
    write_lines(here / "in.jsonl", ROWS)
    write_lines(here / "more.jsonl", [{"question": "?"}])
    two = ("in.jsonl", "more.jsonl", *RUN[1:])
    assert "is of another run: input: 1 files there, 2 here; run it as it was" in refused(capsys, *two)
    assert (here / "out.jsonl").read_bytes() == whole


def test_the_same_input_under_another_name_is_the_same_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN, "--max-rows", "1")
    (here / "in.jsonl").rename(here / "moved.jsonl")
    assert batch(capsys, "moved.jsonl", *RUN[1:])[0] == 0
    assert summary(here)["this_run"]["rows"] == 3


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        (["--k", "0.5"], "settings.k: 0.7 there, 0.5 here"),
        (["--no-correct"], "correct: true there, false here"),
        (["--column", "answer=answer"], 'columns.answer: null there, "answer" here'),
    ],
)
def test_other_settings_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], difference: str
) -> None:
    batch(capsys, *RUN)
    assert (
        f"out.jsonl.state' is of another run: {difference}; run it as it was, name another output, or begin"
        in refused(capsys, *RUN, *arguments)
    )
    assert batch(capsys, *RUN, *arguments, "--overwrite")[0] == 0


def test_settings_that_change_no_report_may_change(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN, "--max-rows", "1")
    assert batch(capsys, *RUN, "--concurrency", "1", "--retries", "5", "--request-timeout", "9")[0] == 0


def test_another_version_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    with closing(sqlite3.connect(here / "out.jsonl.state")) as database, database:
        database.execute('UPDATE manifest SET text = replace(text, \'"corrigenda": "\', \'"corrigenda": "0.0.\')')
    assert re.search('is of another run: corrigenda: "0.0.+" there, ".+" here; run it as it was', refused(capsys, *RUN))


def test_another_script_is_another_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    prepare(here, nli=[{"scores": ENTAIL}])
    assert "is of another run: files.verifier: " in refused(capsys, *RUN)


def test_a_bad_input_with_overwrite_loses_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, *RUN)
    (here / "in.jsonl").write_text("{")
    assert "'in.jsonl', line 1 is not JSON" in refused(capsys, *RUN, "--overwrite")
    prepare(here)
    assert batch(capsys, *RUN)[0] == 0
    assert summary(here)["this_run"]["rows"] == 0


def test_a_bad_input_begins_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(here / "in.jsonl", [{"id": "x", "question": "?"}, {"id": "x", "question": "?"}])
    refused(capsys, *RUN)
    assert sorted(p.name for p in here.glob("out*")) == ["out.jsonl.lock"]


def test_two_runs_on_one_output_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(here / "out.jsonl"):
        assert "another run is writing to 'out.jsonl'; wait for it, or give this one an output" in refused(capsys, *RUN)


def test_asking_needs_a_chat_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(here / "in.jsonl", [*ROWS[1:], ROWS[0]])
    assert "'in.jsonl', line 4 has no answer, and asking needs a chat model; set llm" in refused(
        capsys, *RUN[:2], "--llm", "none", *MODELS[2:]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-rows", "0"], "--max-rows must be at least 1, got 0"),
        (["--concurrency", "0"], "--concurrency must be at least 1, got 0"),
        (
            ["--column", "text=x"],
            "--column must be FIELD=NAME with a field from id, question, answer, contexts, got 'tex",
        ),
    ],
)
def test_wrong_values_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in refused(capsys, *RUN, *arguments)


@pytest.mark.parametrize("value", ["0", "soon", "-5", "5d"])
def test_a_deadline_that_is_no_time_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args([*RUN, f"--deadline={value}"])
    assert "is no time above 0; write seconds, or 90s, 15m, 2h" in capsys.readouterr().err


def test_a_deadline_has_units_and_a_price_is_a_number() -> None:
    found = [parser().parse_args([*RUN, "--deadline", value]).deadline for value in ("90", "90s", "15m", "2h")]
    assert found == [90, 90, 900, 7200]
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args([*RUN, "--price-prompt", "free"])


def test_without_pyarrow_the_extra_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "find_spec", lambda name: None)
    assert "corrigenda batch needs the package 'pyarrow', which is not installed; run: pip install" in refused(
        capsys, *RUN
    )


SLOW = [{**rule, "first_token_s": 0.05} for rule in ASKED]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_what_is_in_flight_and_writes_the_output(tmp_path: Path, number: int, code: int) -> None:
    prepare(tmp_path, many(400), chat=SLOW)
    process = started(tmp_path, *RUN, "--concurrency", "2")
    wait_for_rows(tmp_path, process, 3)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "stopping: the rows in flight are finished; once more gives them up" in err
    assert "rows left: interrupted; the same command goes on from here" in err
    found = summary(tmp_path)
    assert len(lines(tmp_path / "out.jsonl")) == found["rows"]["done"] >= 3
    assert not found["complete"]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent")
def test_a_second_signal_gives_up_what_is_in_flight(tmp_path: Path) -> None:
    prepare(tmp_path, many(8), chat=[{"reply": "Rome.", "first_token_s": 3600}])
    process = started(tmp_path, *RUN)
    wait_for_rows(tmp_path, process, 2)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    for line in process.stderr:
        if "once more gives them up" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert {row["kind"] for row in lines(tmp_path / "out.jsonl")} == {"InputError"}


def wait_for_rows(folder: Path, process: subprocess.Popen[str], count: int) -> None:
    """Wait until the state of a run that goes on has so many rows."""
    path = folder / "out.jsonl.state"
    while process.poll() is None:
        if path.exists() and rows_in(path) >= count:
            return
    raise AssertionError(process.communicate())


def rows_in(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM rows").fetchone()[0])
    except sqlite3.Error:  # it is just being made
        return 0


def test_help_is_shown_without_anything_heavy() -> None:
    code = (
        "import sys, contextlib, io\n"
        "import corrigenda.cli\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    corrigenda.cli.main(['batch', '--help'])\n"
        "print(sorted({'pyarrow', 'ray', 'openai', 'asyncio', 'sqlite3'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

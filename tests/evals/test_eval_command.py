from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.eval_commands import RUN, evaluate, prepare, told
from tests.evaluating import CHAT, data_set
from tests.scripted import ENTAIL

from corrigenda.errors import ConfigError
from corrigenda.evals import plots, stats
from corrigenda.evals.items import Item
from corrigenda.evals.judge import LexicalJudge
from corrigenda.evals.judge_check import check, measured
from corrigenda.evals.planning import concurrency_for, folder_for, method_names, method_options
from corrigenda.evals.progress import Counter, duration
from corrigenda.evals.store import read
from corrigenda.settings import Settings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the scripted models and the questions as a TruthfulQA file."""
    monkeypatch.chdir(tmp_path)
    return prepare(tmp_path)


THREE = ["--methods", "base,nli-fixed,corrigenda", "--judge", "lexical", "--decomposer", "deterministic"]


def test_a_run_prints_its_table_and_writes_its_outputs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, *RUN, *THREE)
    assert code == 0
    folder = here / "corrigenda-eval" / "truthfulqa"
    assert {"records.jsonl", "manifest.json", "summary.json", "report.md", "report.html"} <= {
        p.name for p in folder.iterdir()
    }
    assert len(read(folder).records) == 9
    assert "Evaluation on truthfulqa" in out
    assert "records go to corrigenda-eval/truthfulqa/records.jsonl; 0 of 9 are there" in err
    assert "9 of 9 records" in err
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert {name: round(m["accuracy"]["value"], 3) for name, m in summary["methods"].items()} == {
        "base": 0.333,
        "nli-fixed": 0.667,
        "corrigenda": 0.667,
    }
    assert summary["models"] == {
        "judge": ["lexical"],
        "verifier": ["scripted:nli.json"],
        "chat": ["scripted:chat.json"],
    }


def test_json_prints_the_summary_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, *RUN, *THREE, "--json", "--out", "run")
    assert code == 0
    assert json.loads(out) == json.loads((here / "run" / "summary.json").read_text("utf-8"))


def test_the_judge_that_is_the_verifier_is_told_at_the_top(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = told(capsys, *RUN, "--methods", "base")
    assert " ".join(out.split()).startswith(
        "Evaluation on truthfulqa - The models are scripted (scripted:chat.json, scripted:nli.json); times and rates "
        "are simulated, not measured. - The judge and the verifier are the same model (scripted:nli.json): the judge"
    )


def test_of_the_mini_set_a_few_of_each_kind_are_taken_unless_told_otherwise(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "nli.json").write_text(json.dumps({"rules": [{"scores": ENTAIL}]}))
    none = ["--llm", "none", "--nli", "scripted:nli.json", "--methods", "nli-fixed", "--task", "claim"]
    code, _, err = told(capsys, "mini", *none)
    assert code == 0
    assert "12 of 60 items of the kind claim, drawn with seed 7; --limit N takes N items, --limit all takes all" in err
    assert "12 of 12 records" in err
    assert "60 of 60 records" in told(capsys, "mini", *none, "--limit", "all")[2]


def test_a_run_that_is_there_is_not_made_again_and_may_grow(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(*RUN, "--methods", "base", "--limit", "2", "--out", "run", "--judge", "lexical")
    evaluate(*RUN, "--methods", "base,nli-fixed", "--out", "run", "--judge", "lexical", "--repeats", "2")
    capsys.readouterr()
    records = read(here / "run").records
    assert len(records) == 12
    log = ("--script-log", "log.jsonl")
    code, _, err = told(capsys, *RUN, "--methods", "base", "--out", "run", "--judge", "lexical", *log)
    assert (code, "3 of 3 are there" in err) == (0, True)
    assert not (here / "log.jsonl").exists()
    assert read(here / "run").records == records
    manifest = json.loads((here / "run" / "manifest.json").read_text())
    assert (manifest["limit"], manifest["items"], manifest["repeats"], [*manifest["methods"]]) == (
        None,
        3,
        2,
        ["base", "nli-fixed"],
    )


def test_a_manifest_holds_no_secret(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:hidden@localhost:1/v1?key=hidden")
    evaluate(*RUN, "--methods", "base", "--judge", "lexical", "--out", "run")
    text = (here / "run" / "manifest.json").read_text()
    assert "secret" not in text
    assert "hidden" not in text
    assert json.loads(text)["models"] == {
        "chat": "scripted:chat.json",
        "verifier": "scripted:nli.json",
        "judge": "lexical",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "base,foo"], "unknown method 'foo'; there are base, self-check"),
        (["--methods", "base,,rag"], "--methods 'base,,rag' has an empty name"),
        (["--methods", "base,base"], "--methods names 'base' twice"),
        (["--methods", "base", "--set", "rag.k=3"], "--set names the method 'rag', which is not run"),
        (["--methods", "base", "--set", "base.x=3"], "method 'base' has no option 'x'"),
        (["--set", "nonsense"], "--set 'nonsense' must have the form method.option=value"),
        (["--methods", "rag"], "the method 'rag' needs a retriever, or contexts"),
        (["--methods", "base", "--llm", "none"], "have no answer, and there is no chat model to give one"),
        (["--methods", "base", "--limit", "few"], "--limit must be a whole number, or all, got 'few'"),
        (["--methods", "base", "--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--methods", "base", "--concurrency", "0"], "--concurrency must be at least 1, got 0"),
        (
            ["--methods", "base", "--judge", "oracle"],
            "flag --judge: unknown judge 'oracle'; it must have one of the forms",
        ),
        (["--methods", "base", "--task", "poem"], "the data set 'truthfulqa' has no task 'poem'"),
        (["--methods", "base", "--judge", "nli:scripted:missing.json"], "missing.json"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_run(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str
) -> None:
    code, out, err = told(capsys, *RUN, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not list(here.glob("corrigenda-eval/*/summary.json"))


def test_another_run_in_the_folder_is_refused_unless_it_is_set_aside(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(*RUN, "--methods", "base", "--judge", "lexical")
    code, _, err = told(capsys, *RUN, "--methods", "base", "--judge", "lexical", "--temperature", "0")
    assert code == 2
    assert "holds another run: settings.temperature: 0.7 there, 0.0 here; give another --out" in err
    assert evaluate(*RUN, "--methods", "base", "--judge", "lexical", "--temperature", "0", "--force") == 0
    assert (here / "corrigenda-eval" / "truthfulqa" / "records.jsonl.1").exists()


@pytest.mark.parametrize("name", ["report.md", "report.html", "summary.json", "manifest.json"])
def test_files_of_something_else_are_never_written_over(
    done: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    mine = done.parent / "mine"
    mine.mkdir()
    (mine / name).write_text('{"mine": true}')
    for arguments in ([*RUN, "--methods", "base", "--judge", "lexical", "--force"], ["report", "run"]):
        if (arguments[0], name) == ("report", "manifest.json"):
            continue  # a report writes none
        code, _, err = told(capsys, *arguments, "--out", "mine")
        assert code == 2
        assert "'mine' holds no run" in err
        assert "left alone; give another --out" in err
    assert {path.name: path.read_text() for path in mine.iterdir()} == {name: '{"mine": true}'}


def test_a_run_in_which_everything_fails_ends_with_3(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "chat.json").write_text(json.dumps({"rules": [{"error": {"status": 500, "body": "out of order"}}]}))
    code, out, err = told(capsys, *RUN, "--methods", "base", "--judge", "lexical")
    assert code == 3
    assert "3 of 3 records, 3 failed" in err
    assert "3 of 3 records of base failed" in out


def test_a_missing_extra_is_told_before_anything_runs(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (stats, plots):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    code, _, err = told(capsys, *RUN, "--methods", "base")
    assert code == 2
    assert 'run: pip install "corrigenda[eval]"' in err
    assert not (here / "corrigenda-eval").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_ctrl_c_leaves_a_run_that_goes_on(here: Path) -> None:
    slow = [{**rule, "first_token_s": 0.3} for rule in CHAT]
    (here / "chat.json").write_text(json.dumps({"rules": slow}))
    command = [
        sys.executable,
        "-m",
        "corrigenda",
        "eval",
        *RUN,
        "--methods",
        "base",
        "--judge",
        "lexical",
        "--out",
        "run",
    ]
    process = subprocess.Popen(
        [*command, "--concurrency", "1"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    records = here / "run" / "records.jsonl"
    while not (records.exists() and records.read_bytes()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the same command goes on from the records in run/records.jsonl" in err
    begun = read(here / "run").records
    assert 1 <= len(begun) < 3
    assert evaluate(*RUN, "--methods", "base", "--judge", "lexical", "--out", "run") == 0
    assert len(read(here / "run").records) == 3
    assert read(here / "run").records[: len(begun)] == begun


# Words --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def done(here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    evaluate(*RUN, *THREE, "--out", "run")
    capsys.readouterr()
    return here / "run"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["sweep", "run", "--k", "0.3,0.7", "--policies", "paper"], "paper, k 0.3"),
        (["ablation", "run"], "The steps (3 items)"),
        (["errors", "run", "--examples", "1"], "Errors by kind and category"),
    ],
)
def test_words_work_on_the_records_of_a_run(
    done: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], shown: str
) -> None:
    code, out, _ = told(capsys, *arguments)
    assert code == 0
    assert shown in out
    code, out, _ = told(capsys, *arguments, "--json")
    assert code == 0
    assert json.loads(out)


def test_a_report_is_made_again_from_the_records(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "report", "run", "--out", "other", "--json")
    assert code == 0
    assert json.loads(out) == json.loads((done / "summary.json").read_text("utf-8"))
    assert (done.parent / "other" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["errors", "nowhere"], "the record file 'nowhere' cannot be read"),
        (["report", "run", "run"], "the report of several runs belongs to none of their folders"),
        (["errors", "run", "--examples", "-1"], "--examples must be at least 0, got -1"),
        (["ablation", "run", "--full", "rag"], "rag"),
    ],
)
def test_mistakes_in_words_are_told(
    done: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str
) -> None:
    code, _, err = told(capsys, *arguments)
    assert code == 2
    assert message in err


def test_a_list_that_is_none_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        evaluate("sweep", "run", "--k", "a,b")
    assert "'a,b' is no list of numbers with commas between" in capsys.readouterr().err


# The judge measured -------------------------------------------------------------------------------------------------


def test_a_judge_is_measured_on_answers_that_are_held_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [
        Item(id="a", kind="question", correct=("seven hills", "seven hills in all"), incorrect=("five", "just five")),
        Item(id="b", kind="question", correct=("red", "red, red"), incorrect=("blue", "green")),
        Item(id="c", kind="question", correct=("only one", "I have no comment."), incorrect=("x", "y")),
    ]

    async def asked() -> Any:
        return await check(LexicalJudge(), items, seed=1)

    results = asyncio.run(asked())
    assert [(r.item, r.case) for r in results] == [(i, c) for i in "ab" for c in ("accepted", "incorrect", "both")]
    found = measured("lexical", results, seed=1)
    assert (found["judge"], found["questions"]) == ("lexical", 2)
    assert found["accuracy"]["value"] == 1.0
    assert found["accepted"]["right"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 2}
    code, out, _ = told(capsys, "judge", "mini", "--judge", "lexical", "--limit", "5", "--task", "question")
    assert code == 0
    assert out.startswith("judge     lexical\nquestions ")
    code, out, _ = told(capsys, "judge", "mini", "--judge", "lexical", "--limit", "5", "--task", "question", "--json")
    assert {row["case"] for row in json.loads(out)["answers"]} == {"accepted", "incorrect", "both"}


def test_a_judge_needs_answers_to_be_measured_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "judge", *RUN, "--judge", "lexical")
    assert code == 2
    assert "a judge is measured on items with at least two accepted and two incorrect answers" in err


# Small parts --------------------------------------------------------------------------------------------------------


def test_names_and_options_of_methods() -> None:
    assert method_names(None) is None
    assert method_names("base, corrigenda:paper") == ("base", "corrigenda:paper")
    assert method_options(["a-b:c.n=10", "a-b:c.text=x=y.z", "d.e= 1 "]) == {
        "a-b:c": {"n": "10", "text": "x=y.z"},
        "d": {"e": "1"},
    }
    with pytest.raises(ConfigError, match=r"--set a\.b is given twice"):
        method_options(["a.b=1", "a.b=2"])


@pytest.mark.parametrize(
    ("settings", "items"),
    [
        ({"llm": "local"}, 1),
        ({"llm": "openai:x", "nli": "chat"}, 1),
        ({"llm": "openai:x", "nli": "chat:local"}, 1),
        ({"llm": "openai:x", "nli": "chat:openai:x"}, 4),
        ({"llm": "openai:x", "nli": "onnx:x"}, 4),
    ],
)
def test_how_many_items_are_worked_on_at_a_time(settings: dict[str, Any], items: int) -> None:
    assert concurrency_for(Settings(**settings)) == items


@pytest.mark.parametrize(
    ("name", "task", "split", "folder"),
    [
        ("mini", None, None, "corrigenda-eval/mini"),
        ("claims:my file/x", None, None, "corrigenda-eval/claims-my-file-x"),
        ("truthfulqa", "answer", "test", "corrigenda-eval/truthfulqa-answer-test"),
        ("../..", None, None, "corrigenda-eval/data"),
    ],
)
def test_a_run_goes_to_a_folder_named_after_its_data(
    name: str, task: str | None, split: str | None, folder: str
) -> None:
    assert folder_for(data_set(name=name), task=task, split=split) == Path(folder)


def test_progress_tells_rate_and_time_left_in_sparse_lines(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with Counter(10, "records", 2, clock=lambda: now[0]) as counter:
        for step in range(8):
            now[0] += 20
            counter.add(f"item {step}", failed=step == 3)
    assert capsys.readouterr().err.splitlines() == [
        "corrigenda: 2 of 10 records",
        "corrigenda: 5 of 10 records, 3.0 a minute, 1 min 40 s left",
        "corrigenda: 8 of 10 records, 1 failed, 3.0 a minute, 40 s left",
        "corrigenda: 10 of 10 records, 1 failed, took 2 min 40 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_lengths_of_time_for_a_person(seconds: float, text: str) -> None:
    assert duration(seconds) == text

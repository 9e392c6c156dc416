"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corrigenda import __version__
from corrigenda.cli import main
from corrigenda.report import from_dict

CHAT = {
    "rules": [
        {"stage": "generate", "reply": "Rome has 5 hills. It is in Italy."},
        {"stage": "recall", "reply": "Rome stands on seven hills. Rome is in Italy."},
        {"stage": "correct", "reply": "Rome has seven hills."},
    ]
}
NLI = {
    "rules": [
        {"hypothesis_contains": "5 hills", "scores": [0.01, 0.01, 0.98]},
        {"hypothesis_contains": "maybe", "scores": [0.01, 0.98, 0.01]},
        {"scores": [0.98, 0.01, 0.01]},
    ]
}


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags that select scripted models, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "chat.json").write_text(json.dumps(CHAT), "utf-8")
    (tmp_path / "nli.json").write_text(json.dumps(NLI), "utf-8")
    (tmp_path / "rome.txt").write_text("Rome stands on seven hills.", "utf-8")
    return ["--llm", "scripted:chat.json", "--nli", "scripted:nli.json", "--decomposer", "deterministic"]


def test_ask_prints_everything_a_person_needs(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "How many hills has Rome?", *models]) == 0
    out = capsys.readouterr().out
    for part in (
        "Question\nHow many hills has Rome?",
        "Answer\nRome has 5 hills. It is in Italy.",
        "Reference (recall)\nRome stands on seven hills. Rome is in Italy.",
        "Decision: policy bounded (provisional), µ = 0.0000, σ = 0.9800, k = 0.7000,",
        "τ = 0.6860",
        "- Rome has 5 hills.\n+ Rome has seven hills.",
        "Final answer\nRome has seven hills. It is in Italy.",
        "Status: corrected",
        "Timeline (",
    ):
        assert " ".join(part.split()) in " ".join(out.split())  # a terminal's width decides where lines end
    assert "0.01/0.01/0.98" in out
    assert "contradicted" in out


def test_json_is_the_report_alone_on_standard_output(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--answer", "Rome has 5 hills.", "--context", "rome.txt", "--json", *models]) == 0
    captured = capsys.readouterr()
    report = from_dict(json.loads(captured.out))
    assert (report.final_answer, report.references[0].source) == ("Rome has seven hills.", "rome.txt")
    assert captured.err == ""


@pytest.mark.parametrize(
    ("answer", "fail_on", "code"),
    [
        ("Rome has 5 hills.", None, 0),
        ("Rome has 5 hills.", "contradicted", 1),
        ("Rome has 5 hills.", "unverified", 0),  # repaired, and nothing else is left
        ("Rome has 5 hills. It maybe is big.", "unverified", 1),
        ("How many hills has Rome?", "unverified", 1),  # no claim is not verified
        ("How many hills has Rome?", "contradicted", 0),
        ("I don't know.", "unverified", 1),
        ("Rome maybe is big.", "contradicted", 0),
        ("Rome maybe is big.", "unverified", 1),
        ("Rome is big.", "unverified", 0),
    ],
)
def test_fail_on(answer: str, fail_on: str | None, code: int, models: list[str]) -> None:
    flags = [] if fail_on is None else ["--fail-on", fail_on]
    assert main(["check", "--answer", answer, "--context", "rome.txt", *models, *flags]) == code


def test_an_answer_from_standard_input_and_several_contexts(models: list[str], tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("Rome is in Italy.", "utf-8")
    command = [sys.executable, "-m", "corrigenda", "check", "--answer-file", "-", "--context", "rome.txt", "two.txt"]
    done = subprocess.run(
        [*command, "--json", *models], input=b"Rome has 5 hills.\r\n", capture_output=True, check=True
    )
    report = from_dict(json.loads(done.stdout))
    assert report.final_answer == "Rome has seven hills.\r\n"
    assert [r.source for r in report.references] == ["rome.txt", "two.txt"]


BAD_FILES: list[tuple[str, bytes | None, str]] = [
    ("missing.txt", None, "context file 'missing.txt' cannot be read: No such file or directory; give the path of a"),
    ("", None, "the context file has an empty name; give a path, or - for standard input"),
    ("a\0b", None, "context file 'a\\x00b' cannot be read: embedded null byte; give the path"),
    ("binary.txt", b"ab\x00cd", "context file 'binary.txt' is a binary file"),
    ("latin1.txt", b"citt\xe0", "context file 'latin1.txt' is not UTF-8 (byte 4 is 0xe0)"),
    ("huge.txt", b"a" * 5_000_001, "context file 'huge.txt' is larger than 5,000,000 bytes"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=[b[0] for b in BAD_FILES])
def test_bad_context_files(
    name: str, content: bytes | None, message: str, models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    assert main(["check", "--answer", "Rome is big.", "--context", name, *models]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", " "], "the question is empty"),
        (["check", "--answer", "", "--context", "rome.txt"], "the answer is empty"),
        (["check", "--answer", "x"], "there is nothing to check against; give --context FILE, or --question TEXT"),
        (["check", "--answer", "x", "--question", "", "--context", "rome.txt"], "the question is empty"),
        (["ask", "Cos\udce8?"], r"the argument 'Cos\udce8?' is not valid UTF-8; convert it, or put a text into a"),
        (["check", "--answer", "citt\udce0", "--context", "rome.txt"], r"the argument 'citt\udce0' is not valid UTF-8"),
        (["check", "--answer", "x", "--context", "citt\udce0"], r"the argument 'citt\udce0' is not valid UTF-8"),
        (["check", "--answer-file", "", "--context", "rome.txt"], "the answer file has an empty name; give a path"),
        (["check", "--answer", "x", "--context", "rome.txt", "--nli", "chat:none"], "unknown nli 'chat:none'"),
        (["ask", "What?", "--base-url", "ftp://me:hush@h\x1b[2J"], r"or https://, got 'ftp://***@h\x1b[2J'"),
        (["ask", "What?", "--policy", "strict"], "unknown policy 'strict'; there are bounded, conformal, fixed, paper"),
        (["ask", "What?", "--k", "nan"], "k must be a finite number of at least 0, got nan"),
        (["ask", "What?", "--policy", "fixed", "--threshold", "7"], "threshold must be a number from 0 to 1, got 7.0"),
        (["ask", "What?", "--config", "none.toml"], "configuration file 'none.toml' cannot be read"),
        (["ask", "What?", "--prompts", "none.toml"], "prompts file 'none.toml' cannot be read"),
        (["ask", "What?", "--llm", "scripted:none.json"], "none.json"),
    ],
)
def test_bad_input_exits_with_2_and_one_clear_line(
    arguments: list[str], message: str, models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    own = {a for a in arguments if a.startswith("--")}
    flags = [f for pair in zip(models[::2], models[1::2], strict=True) if pair[0] not in own for f in pair]
    assert main([*arguments, *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("corrigenda: ")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_backend_that_fails_exits_with_3(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("chat.json").write_text(json.dumps({"rules": [{"error": {"status": 503, "body": "down"}}]}), "utf-8")
    assert main(["ask", "What is Rome?", *models]) == 3
    assert "down" in capsys.readouterr().err


def test_a_failed_check_exits_with_3_and_still_prints_the_answer(
    models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("nli.json").write_text(json.dumps({"rules": [{"error": "out of memory"}]}), "utf-8")
    assert main(["check", "--answer", "Rome is big.", "--context", "rome.txt", "--json", *models]) == 3
    report = from_dict(json.loads(capsys.readouterr().out))
    assert (report.final_answer, report.status.value) == ("Rome is big.", "failed")


def test_usage_errors_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["ask"], ["check"], ["nonsense"], ["check", "--answer", "a", "--answer-file", "b"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
    assert "usage: corrigenda" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"corrigenda {__version__}\n"


def test_config_shows_values_and_sources_but_no_secret(
    models: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("corrigenda.toml").write_text('policy = "paper"\n', "utf-8")
    monkeypatch.setenv("CORRIGENDA_K", "0.5")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert main(["config", "--references", "2", "--json"]) == 0
    out = capsys.readouterr().out
    rows: dict[str, Any] = json.loads(out)
    assert rows["policy"]["value"] == "paper"
    assert rows["policy"]["source"].endswith("corrigenda.toml")
    assert rows["k"] == {"value": 0.5, "source": "environment CORRIGENDA_K"}
    assert rows["references"] == {"value": 2, "source": "flag"}
    assert rows["api_key"] == {"value": "(set, not shown)", "source": "environment OPENAI_API_KEY"}
    assert main(["config"]) == 0
    text = capsys.readouterr().out
    assert "references" in text
    assert "sk-very-secret" not in out + text


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Corrigenda report"


def test_an_answer_cannot_drive_the_terminal(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    evil = "Rome is \x1b[2J\x1b]0;owned\x07 big [bold red]not markup[/] \u202egnihton."
    assert main(["check", "--answer", evil, "--context", "rome.txt", *models]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert "\\x1b[2J" in out
    assert "[bold red]not markup[/]" in out


def test_the_request_log_of_scripted_models(models: list[str]) -> None:
    assert main(["ask", "How many hills?", *models, "--script-log", "log.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("log.jsonl").read_text("utf-8").splitlines()]
    assert {line.get("stage") for line in lines if "stage" in line} >= {"generate", "recall", "correct"}


def test_what_comes_from_outside_cannot_drive_the_terminal(
    models: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b[2J\x9b1m\u202e\u2028"
    seen = r"\x1b[2J\x9b1m\u202e\u2028"
    body = f"down{evil}\ncorrigenda: all is well\r\nreally"
    Path("chat.json").write_text(json.dumps({"rules": [{"error": {"status": 503, "body": body}}]}), "utf-8")
    assert main(["ask", "What is Rome?", *models]) == 3
    err = capsys.readouterr().err
    assert err.endswith("503: down\\x1b[2J\\x9b1m\\u202e corrigenda: all is well really\n")
    assert err.count("\n") == 1
    Path(f"rome{evil}.txt").write_text(f"Rome {evil}.", "utf-8")
    assert main(["check", "--answer", "Rome is big.", "--context", f"rome{evil}.txt", *models]) == 0
    out = capsys.readouterr().out
    assert f"Reference (rome{seen}.txt)\nRome {seen}.\n" in out
    monkeypatch.setenv("CORRIGENDA_LLM", f"scripted:{evil}")
    assert main(["config"]) == 0
    out += capsys.readouterr().out
    assert rf"scripted:{seen[:-6]}" in out
    assert main(["models", "list", "--models-dir", f"m{evil}"]) == 0
    out += capsys.readouterr().out
    assert f"m{seen}" in out
    with pytest.raises(SystemExit, match="2"):
        main(["ask", "What?", f"--{evil}"])
    out += capsys.readouterr().err
    assert main(["check", "--answer", f"Rome {evil}.", "--context", "rome.txt", "--json", *models]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["answer"] == f"Rome {evil}."
    assert not set(evil) - set("[2J1m") & set(out + text)


NOTES = "Rome has 5 hills. µ 😀 €"


def run(
    arguments: list[str], models: list[str], *, shell: str = '"$@"', **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a shell, so that its standard output can be what no test framework allows."""
    command = [sys.executable, "-m", "corrigenda", *arguments, *(models if arguments[0] == "check" else [])]
    return subprocess.run(
        ["bash", "-c", shell, "bash", *command], capture_output=True, text=True, env=os.environ | env, check=False
    )


CHECK = ["check", "--answer", NOTES, "--context", "rome.txt"]
FULL = "corrigenda: standard output cannot be written: No space left on device; make room, or send it somewhere else\n"
posix = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@posix
@pytest.mark.parametrize("arguments", [CHECK, [*CHECK, "--json"], ["config"], ["schema"], ["--version"], ["ask", "-h"]])
def test_a_full_disk_is_told(arguments: list[str], models: list[str]) -> None:
    done = run(arguments, models, shell='"$@" >/dev/full')
    assert (done.returncode, done.stderr) == (3, FULL)


@posix
def test_a_closed_output_is_told_and_a_broken_standard_error_changes_nothing(models: list[str]) -> None:
    done = run(CHECK, models, shell='"$@" >&-')
    assert (done.returncode, done.stderr[:45]) == (3, "corrigenda: standard output is closed, so tha")
    assert run(["ask", ""], models, shell='"$@" 2>/dev/full').returncode == 2
    done = run(["check", "--answer-file", "-", "--context", "rome.txt"], models, shell='"$@" <&-')
    assert (done.returncode, done.stderr[:63]) == (2, "corrigenda: answer file '-': standard input is closed; give a f")


@posix
@pytest.mark.parametrize("arguments", [CHECK, [*CHECK, "--json"], ["schema"]])
def test_a_reader_that_goes_away_is_no_failure(arguments: list[str], models: list[str]) -> None:
    done = run(arguments, models, shell='"$@" | true; exit ${PIPESTATUS[0]}')
    assert (done.returncode, done.stderr) == (0, "")
    if arguments[0] == "check":
        done = run([*arguments, "--fail-on", "contradicted"], models, shell='"$@" | true; exit ${PIPESTATUS[0]}')
        assert (done.returncode, done.stderr) == (1, "")


def test_an_encoding_that_lacks_a_character(models: list[str]) -> None:
    plain = run(CHECK, models, PYTHONIOENCODING="ascii")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert plain.stdout.startswith("Answer\nRome has 5 hills. \\xb5 \\U0001f600 \\u20ac\n")
    for encoding in ("ascii", "latin-1", "ascii:replace"):
        done = run([*CHECK, "--json"], models, PYTHONIOENCODING=encoding)
        assert json.loads(done.stdout)["answer"] == NOTES


def test_a_secret_that_is_held_back_is_told_once(
    models: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("corrigenda.toml").write_text('base_url = "https://evil.example/v1?key=hush"\n', "utf-8")
    monkeypatch.setenv("CORRIGENDA_API_KEY", "sk-very-secret")
    assert main(["check", "--answer", "Rome is big.", "--context", "rome.txt", *models]) == 0
    err = capsys.readouterr().err
    start = "corrigenda: warning: api_key (environment CORRIGENDA_API_KEY) is held back: base_url comes from "
    assert (err.startswith(start), err.count("\n")) == (True, 1)
    assert main(["config"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(start)
    lines = [
        line.split(maxsplit=1)[1] for line in captured.out.splitlines() if line.startswith(("api_key", "base_url"))
    ]
    assert lines == [
        "(held back, not used)  (environment CORRIGENDA_API_KEY)",
        f"https://evil.example/v1?key=***  ({Path.cwd() / 'corrigenda.toml'})",
    ]
    assert "sk-very-secret" not in err + captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["calibrate-nli", "--help"], "corrigenda calibrate-nli"),
        (["bench", "latency", "--help"], "corrigenda bench latency"),
        (["bench", "nli", "--help"], "corrigenda bench nli"),
        (["bench", "--help"], "corrigenda bench"),
    ],
)
def test_commands_with_options_of_their_own(
    arguments: list[str], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    assert capsys.readouterr().out.startswith(f"usage: {program} ")


def test_a_model_file_that_is_not_there_is_told_before_any_work(
    models: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*models[2:], "--llm", "local:none.gguf"]
    assert main(["check", "--answer", "Rome has 5 hills.", "--context", "rome.txt", *flags]) == 3
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "there is no model file at 'none.gguf'" in captured.err

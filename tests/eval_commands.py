"""A working folder with scripted models and a small data set, and `corrigenda eval` called in it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from corrigenda.cli import main
from tests.evaluating import CHAT, ITEMS, NLI
from tests.scripted import Rules

RUN = ("truthfulqa", "--data", "qa.csv", "--llm", "scripted:chat.json", "--nli", "scripted:nli.json")


def prepare(folder: Path) -> Path:
    """Write the scripts of both models, and the hand-made questions as a TruthfulQA file."""
    script(folder / "chat.json", CHAT)
    script(folder / "nli.json", NLI)
    with (folder / "qa.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"])
        for item in ITEMS:
            right, wrong = item.correct[0], item.incorrect[0]
            rows.writerow(["T", "C", item.question, right, right, wrong, "ours"])
    return folder


def script(path: Path, rules: Rules) -> None:
    path.write_text(json.dumps({"rules": rules}), encoding="utf-8")


def evaluate(*arguments: str) -> int:
    return main(["eval", *arguments])


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code and what was printed on both streams; what was printed before is dropped."""
    capsys.readouterr()
    code = evaluate(*arguments)
    out, err = capsys.readouterr()
    return code, out, err

"""A folder with scripted models and rows, and `corrigenda batch` called in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from corrigenda.cli import main
from tests.scripted import ASKED, FIVE_HILLS, Rules

MODELS = ("--llm", "scripted:chat.json", "--nli", "scripted:nli.json", "--decomposer", "deterministic")
RUN = ("in.jsonl", "out.jsonl", *MODELS, "--cache-dir", "cache")
ROWS: list[dict[str, Any]] = [
    {"id": "asked", "question": "How many hills has Rome?"},
    {"id": "wrong", "answer": "Rome has 5 hills.", "contexts": ["Rome stands on seven hills."]},
    {"id": "right", "answer": "Rome has seven hills.", "contexts": ["Rome stands on seven hills."]},
    {"id": "recalled", "question": "How many hills has Rome?", "answer": "Rome has seven hills."},
]


def prepare(
    folder: Path, rows: Sequence[Mapping[str, Any]] = ROWS, chat: Rules = ASKED, nli: Rules = FIVE_HILLS
) -> Path:
    """Write the scripts of both models, and the rows as `in.jsonl`."""
    (folder / "chat.json").write_text(json.dumps({"rules": chat}), "utf-8")
    (folder / "nli.json").write_text(json.dumps({"rules": nli}), "utf-8")
    write_lines(folder / "in.jsonl", rows)
    return folder


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def batch(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code and what was printed on both streams; what was printed before is dropped."""
    capsys.readouterr()
    code = main(["batch", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def timeless(value: Any) -> Any:
    """Return an output without what differs between equal runs: the seconds."""
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name != "timings"}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def many(count: int) -> list[dict[str, Any]]:
    """Return rows of all kinds: asked, checked, some of them failing."""
    kinds: list[dict[str, Any]] = [
        {"question": "How many hills has Rome, asked {}?"},
        {"answer": "Rome has 5 hills. Row {} is fine.", "contexts": ["Rome stands on seven hills."]},
        {"answer": "Row {} is right.", "question": "How many hills has Rome?"},
        {"answer": "  ", "question": "An empty answer in row {}?"},
    ]
    return [
        {"id": f"r{n}"} | {k: v.format(n) if isinstance(v, str) else v for k, v in kinds[n % 4].items()}
        for n in range(count)
    ]


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "corrigenda", "batch", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

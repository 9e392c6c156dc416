"""`corrigenda serve` as a process: it starts, says where, stops when it is told to, and finishes what is in flight."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import corrigenda
from corrigenda.errors import ConfigError
from corrigenda.server.serve import bound
from tests.scripted import ANSWER, ASKED, FIVE_HILLS
from tests.server.kit import FINAL, PATIENCE_S, QUESTION

SPEED = {"first_token_s": 0.2, "tokens_per_s": 20}
"""Slow enough for a signal to come in the middle of an answer."""


def command(tmp_path: Path, *flags: str) -> list[str]:
    chat, nli = tmp_path / "chat.json", tmp_path / "nli.json"
    chat.write_text(json.dumps({"rules": [{**ASKED[0], **SPEED}, *ASKED[1:]]}))
    nli.write_text(json.dumps({"rules": FIVE_HILLS}))
    models = ["--llm", f"scripted:{chat}", "--nli", f"scripted:{nli}", "--decomposer", "deterministic"]
    return [sys.executable, "-m", "corrigenda", "serve", "--port", "0", *models, *flags]


def environment() -> dict[str, str]:
    """Return an environment in which the command is the one under test."""
    return {**os.environ, "PYTHONPATH": str(Path(corrigenda.__file__).parents[1])}


@contextmanager
def started(argv: Sequence[str], cwd: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the command; give the process and the port that it names once it listens."""
    process = subprocess.Popen(
        argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("corrigenda serves http://127.0.0.1:"), line + (
            process.stderr.read() if process.stderr else ""
        )
        yield process, int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
    finally:
        process.kill()
        process.communicate()


def run(argv: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env=environment())


def ask(port: int, **more: Any) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        body = json.dumps({"model": "m", "messages": QUESTION, **more})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_lets_every_client_finish(tmp_path: Path, number: signal.Signals) -> None:
    with started(command(tmp_path), tmp_path) as (process, port):
        assert ask(port, corrigenda={"mode": "off"})[0] == 200
        outcomes: list[tuple[int, bytes]] = []
        threads = [
            threading.Thread(target=lambda stream=bool(n % 2): outcomes.append(ask(port, stream=stream)))
            for n in range(20)
        ]
        for thread in threads:
            thread.start()
        pause = threading.Event()
        for _ in range(100 * PATIENCE_S):
            if working(port) == 20:
                break
            pause.wait(0.01)
        process.send_signal(number)
        for thread in threads:
            thread.join(30)
        assert process.wait(30) == 0
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert [status for status, _ in outcomes] == [200] * 20
    for _, body in outcomes:
        if body.startswith(b"data: "):
            pieces = [json.loads(part.removeprefix("data: ")) for part in body.decode().split("\n\n")[:-2]]
            assert "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces) == FINAL
            assert body.endswith(b"data: [DONE]\n\n")
        else:
            assert json.loads(body)["choices"][0]["message"]["content"] == FINAL
    requests = [line for line in lines if line["event"] == "request" and line["route"] == "/v1/chat/completions"]
    assert len(requests) == 21
    assert not any(ANSWER in json.dumps(line) for line in lines)


def working(port: int) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return float(next(line for line in text.splitlines() if line.startswith("corrigenda_working ")).split()[1])


def test_models_that_cannot_be_loaded_end_the_server(tmp_path: Path) -> None:
    argv = [*command(tmp_path), "--nli", f"onnx:{tmp_path / 'nothing-here'}"]
    done = run(argv, tmp_path)
    assert done.returncode in (2, 3)
    assert "nothing-here" in done.stderr.splitlines()[-1]


def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*; choose another --port"),
            bound("127.0.0.1", port, 1.0),
        ):
            pass
    argv = [*command(tmp_path), "--host", "localhost\\name", "--allow-open"]
    done = run(argv, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no address of this machine" in done.stderr


def test_what_would_be_careless_is_refused_before_anything_is_bound(tmp_path: Path) -> None:
    argv = [*command(tmp_path), "--host", "0.0.0.0"]
    done = run(argv, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "without API keys would let everybody" in done.stderr

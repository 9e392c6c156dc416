"""Load on `corrigenda serve`, on this machine's loopback: `python benchmarks/server.py [--seconds 60]`.

Three processes: this one makes the load, one serves, and with `--http` a third one is the upstream. The chat model
and the verifier are scripted, at the speed of an API (first token after 0.4 s, 80 tokens a second; a call of the
verifier takes 20 ms): these times are simulated, all others are measured. What is compared is a request to the server
with the same request to the upstream alone, both with the same number of requests in flight.

One answer in four is wrong and gets corrected, which takes one more call of the model behind the last sentence.

Then come clients that vanish or hardly read, one after the other; afterwards nothing of them may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRONG = (
    "Rome was built on 5 hills along the river Tiber. It has been the capital of Italy since 1871. "
    "The city is also home to the Vatican, the smallest state in the world."
)
RIGHT = WRONG.replace("5 hills", "seven hills")
REFERENCE = (
    "Rome was built on seven hills along the Tiber. It became the capital of Italy in 1871. The Vatican lies in it."
)
SPEED = {"first_token_s": 0.4, "tokens_per_s": 80}
# By their texts and not by their stage: over HTTP an upstream is not told the stage.
CHAT = {
    "defaults": SPEED | {"usage": {"prompt_tokens": 30, "completion_tokens": 45}},
    "rules": [
        {"contains": "You recall facts.", "reply": REFERENCE},
        {"contains": "You correct one sentence", "reply": "Rome was built on seven hills along the river Tiber."},
        {"contains": "How many hills", "reply": WRONG},
        {"reply": RIGHT},
    ],
}
NLI = {
    "seconds_per_call": 0.02,
    "rules": [{"hypothesis_contains": "5 hills", "scores": [0.01, 0.01, 0.98]}, {"scores": [0.98, 0.01, 0.01]}],
}
QUESTIONS = {True: "How many hills was Rome built on?", False: "Where was Rome built?"}
"""A question whose answer is wrong and has to be corrected, and one whose answer is right."""
WRONG_ONE_IN = 4


@dataclass(kw_only=True)
class Load:
    """What a phase of load gave: seconds of each request, and of each stream until its first text; failures."""

    right_s: list[float] = field(default_factory=list)
    """Of answers with nothing to correct."""
    wrong_s: list[float] = field(default_factory=list)
    """Of answers with something to correct."""
    first_s: list[float] = field(default_factory=list)
    """Until the first text of a stream."""
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(kw_only=True)
class Server:
    """A server process."""

    process: subprocess.Popen[str]
    port: int

    def memory_mb(self) -> float:
        """Return the resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        """Return how many files and sockets are open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextmanager
def serve(folder: Path, *flags: str, log: bool = False) -> Iterator[Server]:
    """Run `corrigenda serve` on a free port."""
    command = [sys.executable, "-m", "corrigenda", "serve", "--port", "0", "--decomposer", "deterministic", *flags]
    with (folder / "log.jsonl").open("a") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if port is None:
                raise SystemExit(f"the server did not start: {(folder / 'log.jsonl').read_text()}")
            yield Server(process=process, port=int(port[1]))
        finally:
            process.terminate()
            process.wait(180)


async def request(port: int, body: Any) -> tuple[int, float, bytes]:
    """Send one request over a connection of its own; return status, seconds until the first text, and the body."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_raw(body))
        head = await reader.readuntil(b"\r\n\r\n")
        first, parts = 0.0, []
        while part := await reader.read(65_536):
            parts.append(part)
            if not first and b'"delta":{"content":"' in part.replace(b'"content":"",', b""):
                first = time.perf_counter() - began
        return int(head.split(b" ", 2)[1]), first, b"".join(parts)
    finally:
        writer.close()


def _raw(body: Any) -> bytes:
    sent = json.dumps(body).encode()
    # HTTP/1.0: the body then comes as it is, and the connection ends with it.
    head = f"POST /v1/chat/completions HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {len(sent)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + sent


def _asked(wrong: bool, **more: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": [{"role": "user", "content": QUESTIONS[wrong]}], **more}


def _said(reply: bytes, stream: bool) -> str | None:
    """Return the text of a reply; None where it is not whole."""
    if not stream:
        choice = json.loads(reply)["choices"][0]
        return str(choice["message"]["content"]) if choice["finish_reason"] == "stop" else None
    if not reply.endswith(b"data: [DONE]\n\n"):
        return None
    pieces = [json.loads(part.removeprefix("data: ")) for part in reply.decode().split("\n\n")[:-2]]
    return "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)


async def through(port: int, mode: str, load: Load, number: int) -> None:
    """Ask the server once, and judge the reply."""
    wrong, stream = number % WRONG_ONE_IN == 0, number // WRONG_ONE_IN % 2 == 0
    body = _asked(wrong, stream=stream, corrigenda={"mode": mode})
    began = time.perf_counter()
    try:
        status, first, reply = await request(port, body)
    except (OSError, asyncio.IncompleteReadError) as exc:
        load.failures[type(exc).__name__] += 1
        return
    took = time.perf_counter() - began
    if status != 200 or _said(reply, stream) != (WRONG if wrong and mode == "off" else RIGHT):
        load.failures[f"status {status}" if status != 200 else "wrong reply"] += 1
        return
    (load.wrong_s if wrong else load.right_s).append(took)
    if first:
        load.first_s.append(first)


async def loaded(ask: Callable[[Load, int], Awaitable[None]], concurrency: int, seconds: float) -> Load:
    """Keep `concurrency` requests in flight for so long; half of them are streams."""
    load, end, numbers = Load(), time.perf_counter() + seconds, itertools.count()

    async def work() -> None:
        # Spread over a second, so that they do not march in step.
        await asyncio.sleep(random.random())
        while time.perf_counter() < end:
            await ask(load, next(numbers))

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return load


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of `values` at `share`, or NaN where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def row(name: str, load: Load, seconds: float) -> str:
    """Return a line about a phase."""
    cells = [1000 * quantile(times, q) for times in (load.right_s, load.wrong_s, load.first_s) for q in (0.5, 0.95)]
    replies, failed = len(load.right_s) + len(load.wrong_s), sum(load.failures.values())
    return f"{name:<22}{replies:>8}{replies / seconds:>8.1f}{failed:>8}{''.join(f'{cell:9.0f}' for cell in cells)}"


async def under_load(server: Server, upstream: int, arguments: argparse.Namespace) -> bool:
    """Measure, print, and return whether every request was served."""
    seconds, many = arguments.seconds, arguments.concurrency
    direct = await loaded(lambda load, n: through(upstream, "off", load, n), many, seconds)
    await loaded(lambda load, n: through(server.port, "correct", load, n), many, min(seconds, 5))  # warm up
    memory: list[float] = []

    async def watch() -> None:
        while True:
            memory.append(server.memory_mb())
            await asyncio.sleep(0.5)

    watching, used = asyncio.create_task(watch()), server.cpu_s()
    corrected = await loaded(lambda load, n: through(server.port, "correct", load, n), many, seconds)
    watching.cancel()
    used = server.cpu_s() - used
    print(f"\n{many} requests in flight, {seconds:g} s each; milliseconds to the end, and to the first text")
    names = ("replies", "per s", "failed", *(f"{what} p{q}" for what in ("right", "wrong", "1st") for q in (50, 95)))
    print(f"{'':<22}{''.join(f'{name:>{8 if n < 3 else 9}}' for n, name in enumerate(names))}")
    print(row("upstream alone", direct, seconds))
    print(row("checked and corrected", corrected, seconds))
    for what in ("right", "wrong"):
        times = [getattr(load, f"{what}_s") for load in (corrected, direct)]
        added = [1000 * (quantile(times[0], share) - quantile(times[1], share)) for share in (0.5, 0.95)]
        print(f"added latency of {what} answers: p50 {added[0]:.0f} ms, p95 {added[1]:.0f} ms")
    served = len(corrected.right_s) + len(corrected.wrong_s)
    print(f"processor time of the server: {1000 * used / max(1, served):.1f} ms a request, {used / seconds:.0%} of one")
    quarter = max(1, len(memory) // 4)
    early, late = statistics.median(memory[:quarter]), statistics.median(memory[-quarter:])
    print(f"memory of the server: {early:.1f} MB in the first quarter, {late:.1f} MB in the last one")
    for load in (direct, corrected):
        if load.failures:
            print(f"failures: {dict(load.failures)}")
    return not direct.failures and not corrected.failures


def vanishing(server: Server, count: int) -> bool:
    """Let clients come that leave or hardly read, one after the other; return whether nothing of them is left."""
    body = _raw(_asked(wrong=True, stream=True))
    for number in range(200):  # what is allocated once is allocated now
        _misbehave(server.port, body, number)
    _settle(server)
    memory, files = server.memory_mb(), server.open_files()
    began = time.perf_counter()
    for number in range(count):
        _misbehave(server.port, body, number)
    took = time.perf_counter() - began
    _settle(server)
    working, waiting = _numbers(server.port, "corrigenda_working"), _numbers(server.port, "corrigenda_waiting")
    grown, more = server.memory_mb() - memory, server.open_files() - files
    print(f"\n{count} clients that vanish or hardly read, one after the other, in {took:.1f} s")
    print(f"left over: {working:.0f} at work, {waiting:.0f} waiting, {more} open files, {grown:+.1f} MB of memory")
    return working == waiting == 0 and more <= 0


def _misbehave(port: int, body: bytes, number: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        kind = number % 4
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
        if kind == 0:
            plain.sendall(body[: len(body) // 2])
            return
        plain.sendall(body)
        if kind == 1:
            return
        if kind == 2:
            plain.recv(200)
            return
        for _ in range(5):
            plain.recv(20)
            time.sleep(0.001)


def _settle(server: Server) -> None:
    for _ in range(100):
        if _numbers(server.port, "corrigenda_working") == 0 and _numbers(server.port, "corrigenda_waiting") == 0:
            break
        time.sleep(0.1)
    time.sleep(0.5)


def _numbers(port: int, name: str) -> float:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        text = plain.makefile("rb").read().decode()
    return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of each phase of load (default: 60)")
    parser.add_argument("--concurrency", type=int, default=200, help="requests in flight (default: 200)")
    parser.add_argument("--clients", type=int, default=10_000, help="that vanish or hardly read (default: 10,000)")
    parser.add_argument("--http", action="store_true", help="the upstream is a server of its own, called over HTTP")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in (("chat.json", CHAT), ("nli.json", NLI), ("fast.json", CHAT | {"defaults": {}})):
            (folder / file).write_text(json.dumps(content), "utf-8")
        (folder / "quick.json").write_text(json.dumps({"rules": NLI["rules"]}), "utf-8")
        nli = ("--nli", f"scripted:{folder / 'nli.json'}")
        scripted = ("--llm", f"scripted:{folder / 'chat.json'}", *nli)
        good = True
        with serve(folder, *scripted) as upstream:
            flags = ("--llm", "openai:scripted", "--base-url", f"http://127.0.0.1:{upstream.port}/v1", *nli)
            with serve(folder, *(flags if arguments.http else scripted)) as server:
                good &= asyncio.run(under_load(server, upstream.port, arguments))
        fast = ("--llm", f"scripted:{folder / 'fast.json'}", "--nli", f"scripted:{folder / 'quick.json'}")
        with serve(folder, *fast) as server:
            good &= vanishing(server, arguments.clients)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())

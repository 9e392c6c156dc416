"""Load on `corrigenda serve`, on this machine's loopback: `python benchmarks/server.py [--seconds 60]`.

Three processes: this one makes the load, one serves, and with `--http` a third one is the upstream. The chat model
and the verifier are scripted, at the speed of an API (first token after 0.4 s, 80 tokens a second; a call of the
verifier takes 20 ms): these times are simulated, all others are measured. What is compared is a request to the server
with the same request to the upstream alone, both with the same number of requests in flight.

Then come clients that vanish or hardly read, one after the other; afterwards nothing of them may be left.
"""

from __future__ import annotations

import argparse
import asyncio
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

ANSWER = (
    "Rome was built on 5 hills along the river Tiber. It has been the capital of Italy since 1871. "
    "The city is also home to the Vatican, the smallest state in the world."
)
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
        {"reply": ANSWER},
    ],
}
NLI = {
    "seconds_per_call": 0.02,
    "rules": [{"hypothesis_contains": "5 hills", "scores": [0.01, 0.01, 0.98]}, {"scores": [0.98, 0.01, 0.01]}],
}
QUESTION = [{"role": "user", "content": "How many hills was Rome built on?"}]


@dataclass(kw_only=True)
class Load:
    """What a phase of load gave: seconds of each request, and of each stream until its first text; failures."""

    whole_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
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
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(sent)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + sent


async def through(port: int, mode: str, load: Load, stream: bool) -> None:
    """Ask the server once, and judge the reply."""
    body = {"model": "scripted", "messages": QUESTION, "stream": stream, "corrigenda": {"mode": mode}}
    began = time.perf_counter()
    try:
        status, first, reply = await request(port, body)
    except (OSError, asyncio.IncompleteReadError) as exc:
        load.failures[type(exc).__name__] += 1
        return
    took = time.perf_counter() - began
    expected = "seven hills along" if mode == "correct" else "5 hills along"
    ended = b"data: [DONE]" in reply if stream else b'"finish_reason":"stop"' in reply
    if status != 200 or not ended or expected.encode() not in reply:
        load.failures[f"status {status}" if status != 200 else "wrong reply"] += 1
        return
    load.whole_s.append(took)
    if first:
        load.first_s.append(first)


async def loaded(ask: Callable[[Load, bool], Awaitable[None]], concurrency: int, seconds: float) -> Load:
    """Keep `concurrency` requests in flight for so long; half of them are streams."""
    load, end = Load(), time.perf_counter() + seconds

    async def work(number: int) -> None:
        # Spread over a second, so that they do not march in step.
        await asyncio.sleep(random.random())  # noqa: S311
        while time.perf_counter() < end:
            await ask(load, number % 2 == 0)

    await asyncio.gather(*(work(n) for n in range(concurrency)))
    return load


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of `values` at `share`, or NaN where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def row(name: str, load: Load, seconds: float) -> str:
    """Return a line about a phase."""
    cells = [f"{1000 * quantile(load.whole_s, q):8.0f}" for q in (0.5, 0.95, 0.99)]
    cells += [f"{1000 * quantile(load.first_s, q):8.0f}" for q in (0.5, 0.95)]
    failed = sum(load.failures.values())
    return f"{name:<22}{len(load.whole_s):>9}{len(load.whole_s) / seconds:>8.1f}{failed:>8}{''.join(cells)}"


async def under_load(server: Server, upstream: int, arguments: argparse.Namespace) -> bool:
    """Measure, print, and return whether every request was served."""
    seconds, many = arguments.seconds, arguments.concurrency
    direct = await loaded(lambda load, s: through(upstream, "off", load, s), many, seconds)
    await loaded(lambda load, s: through(server.port, "correct", load, s), many, min(seconds, 5))
    memory: list[float] = []

    async def watch() -> None:
        while True:
            memory.append(server.memory_mb())
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch())
    corrected = await loaded(lambda load, s: through(server.port, "correct", load, s), many, seconds)
    watching.cancel()
    print(f"\n{many} requests in flight, {seconds:g} s each; milliseconds")
    print(f"{'':<22}{'replies':>9}{'per s':>8}{'failed':>8}{'p50':>8}{'p95':>8}{'p99':>8}{'1st p50':>8}{'1st p95':>8}")
    print(row("upstream alone", direct, seconds))
    print(row("checked and corrected", corrected, seconds))
    for share in (0.5, 0.95):
        added = 1000 * (quantile(corrected.whole_s, share) - quantile(direct.whole_s, share))
        print(f"added latency, p{100 * share:.0f}: {added:.0f} ms")
    quarter = max(1, len(memory) // 4)
    early, late = statistics.median(memory[:quarter]), statistics.median(memory[-quarter:])
    print(f"memory of the server: {early:.1f} MB in the first quarter, {late:.1f} MB in the last one")
    for load in (direct, corrected):
        if load.failures:
            print(f"failures: {dict(load.failures)}")
    return not direct.failures and not corrected.failures


def vanishing(server: Server, count: int) -> bool:
    """Let clients come that leave or hardly read, one after the other; return whether nothing of them is left."""
    body = _raw({"model": "scripted", "messages": QUESTION, "stream": True})
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

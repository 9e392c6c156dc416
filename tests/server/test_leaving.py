"""Clients that leave: their work is stopped, upstream too, and the next request is served."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

import pytest

from tests.fake_openai import FakeOpenAI, chunk, events
from tests.scripted import ANSWER, ASKED
from tests.server.kit import QUESTION, Running, proxying, scripted, staged, streamed


def sent(server: Running, **more: Any) -> socket.socket:
    """Return a connection over which a chat request has been sent."""
    body = json.dumps({"model": "m", "messages": QUESTION, **more}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    plain = server.connect()
    plain.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    return plain


def leave(plain: socket.socket) -> None:
    """Close at once, as a client that is killed does."""
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()


def idle(server: Running) -> bool:
    gate = server.app.state.gate
    return (gate.working, gate.waiting) == (0, 0)


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"n": 2}, {"n": 2, "stream": True}])
def test_a_client_that_hangs_up_cancels_the_upstream_call(server: FakeOpenAI, more: dict[str, Any]) -> None:
    server.default = staged(events(chunk("Rome has 5 hills. It is"), done=False, hold=True))
    with proxying(server, request_timeout=30.0) as proxy:
        plain = sent(proxy, **more, corrigenda={"language": "en"})  # which needs no long sample of the answer
        assert server.asked.wait(10)
        if more == {"stream": True}:
            assert b"200 OK" in plain.recv(500)
        leave(plain)
        assert server.hung_up.wait(10)
        proxy.until(lambda: idle(proxy))
        server.default = staged(streamed("Rome has seven hills."))
        assert proxy.chat().status == 200
        proxy.until(lambda: len(proxy.served) == 2)
    assert [(s.status, s.error) for s in proxy.served] == [(499, "client_gone"), (200, None)]


def test_who_leaves_the_queue_frees_its_place() -> None:
    slow = [{"stage": "generate", "reply": ANSWER, "first_token_s": 60}, *ASKED[1:]]
    with scripted(slow, limits={"concurrency": 1, "queue": 1}) as server:
        gate = server.app.state.gate
        first, second = sent(server), None
        server.until(lambda: gate.working == 1)
        second = sent(server)
        server.until(lambda: gate.waiting == 1)
        assert server.chat().status == 429
        leave(second)
        server.until(lambda: gate.waiting == 0)
        leave(first)
        server.until(lambda: idle(server))


def test_a_half_sent_request_is_forgotten() -> None:
    with scripted() as server:
        plain = server.connect()
        plain.sendall(
            b"POST /v1/verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        leave(plain)
        server.until(lambda: len(server.served) == 1)
        assert (server.served[0].status, server.served[0].error) == (499, "client_gone")
        assert server.chat().status == 200


def test_a_client_that_stops_reading_is_dropped() -> None:
    long = "Rome has seven hills. " * 12_000  # as events 19 MB, more than any buffer on the way takes
    rules = [{"stage": "generate", "reply": long}, *ASKED[1:]]
    with scripted(rules, [{"scores": [0.98, 0.01, 0.01]}], limits={"write_s": 0.3, "output_tokens": 100_000}) as server:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before it connects, when it still counts
        plain.connect(("127.0.0.1", server.port))
        body = json.dumps({"model": "m", "messages": QUESTION, "corrigenda": {"mode": "off"}, "stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        plain.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        server.until(lambda: len(server.served) == 1)
        assert (server.served[0].status, server.served[0].error) == (499, "client_gone")
        server.until(lambda: not server.server.server_state.connections)
        plain.close()


def test_many_vanishing_clients_leave_nothing_behind() -> None:
    slow = [{"stage": "generate", "reply": ANSWER, "first_token_s": 60}, *ASKED[1:]]
    with scripted(slow) as server:

        def tasks() -> int:
            async def count() -> int:
                return len(asyncio.all_tasks())

            return asyncio.run_coroutine_threadsafe(count(), server.loop).result(10)

        before = tasks()
        for number in range(60):
            leave(sent(server, stream=bool(number % 2)))
        server.until(lambda: len(server.served) == 60 and idle(server))
        server.until(lambda: tasks() == before)
        server.until(lambda: not server.server.server_state.connections)

"""A chat server on a local socket that answers with the bytes it is told to; what it got is recorded.

Real sockets and real HTTP: nothing of the client is patched. Replies are taken from `script` in order, and
when that is empty, from `default`.
"""

import json
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the server sends for one request: the body in pieces, each written to the socket by itself."""

    chunks: Sequence[bytes] = ()
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    pause_s: float = 0.0
    """Before each chunk."""
    cut: bool = False
    """Close the connection in the middle of the body."""
    hold: bool = False
    """After the chunks, wait until the client hangs up (5 s at most)."""


@dataclass(frozen=True, kw_only=True)
class Received:
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any


def json_reply(value: Any, *, status: int = 200, **headers: str) -> Reply:
    return Reply(
        chunks=[json.dumps(value).encode()],
        status=status,
        headers={name.replace("_", "-"): content for name, content in headers.items()},
    )


def answer(text: str | None, *, finish_reason: str | None = "stop", usage: Any = None, **message: Any) -> Reply:
    value: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish_reason,
            }
        ],
    }
    if usage is not None:
        value["usage"] = usage
    return json_reply(value)


def error(status: int, body: Any, **headers: str) -> Reply:
    return json_reply(body, status=status, **headers)


def events(*chunks: Any, done: bool = True, **settings: Any) -> Reply:
    """Return a stream of one event a chunk; a string is sent as it is."""
    body = [c.encode() if isinstance(c, str) else f"data: {json.dumps(c)}\n\n".encode() for c in chunks]
    return Reply(chunks=[*body, *([b"data: [DONE]\n\n"] if done else [])], content_type="text/event-stream", **settings)


def chunk(text: str | None = None, *, finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    content = {} if text is None else {"content": text}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {**content, **delta}, "finish_reason": finish_reason}],
    }


class FakeOpenAI:
    """The server's side of a test."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.script: list[Reply] = []
        self.default: Reply | Callable[[Any], Reply] = answer("Rome has seven hills.")
        """A reply, or what makes one out of a request's body."""
        self.received: list[Received] = []
        self.on_get: Reply | None = None
        """The reply to a GET (the list of models); None: two models."""
        self.got: list[tuple[str, dict[str, str]]] = []
        """Paths and headers (names in lower case) of the GETs that came."""
        self.asked = threading.Event()
        """Set once a request has come."""
        self.hung_up = threading.Event()
        """Set once a client has left before its reply was whole."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[Any]:
        return [r.body for r in self.received]

    def next_reply(self, body: Any) -> Reply:
        if self.script:
            return self.script.pop(0)
        return self.default if isinstance(self.default, Reply) else self.default(body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    fake: FakeOpenAI

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(raw)
        self.fake.received.append(
            Received(path=self.path, headers={k.lower(): v for k, v in self.headers.items()}, body=body)
        )
        self.fake.asked.set()
        try:
            self._send(self.fake.next_reply(body))
        except (BrokenPipeError, ConnectionResetError):
            self.fake.hung_up.set()
            self.close_connection = True

    def do_GET(self) -> None:
        self.fake.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        models = [{"id": name, "object": "model"} for name in ("upstream-model", "other/model")]
        self._send(self.fake.on_get or json_reply({"object": "list", "data": models}))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in reply.chunks:
            if reply.pause_s:
                time.sleep(reply.pause_s)
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if reply.hold:
            self._wait_for_the_client_to_leave()
        if reply.hold or reply.cut:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _wait_for_the_client_to_leave(self) -> None:
        readable, _, _ = select.select([self.connection], [], [], 5)
        if readable and self.connection.recv(1) == b"":
            self.fake.hung_up.set()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet about clients that hang up."""


@contextmanager
def fake_openai() -> Iterator[FakeOpenAI]:
    """Run a server on a free port of the loopback interface."""

    class Handler(_Handler):
        pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        Handler.fake = FakeOpenAI(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield Handler.fake
        finally:
            server.shutdown()
            thread.join()

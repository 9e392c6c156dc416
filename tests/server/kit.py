"""The real server on a local socket, in a thread of the test, and clients for it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import uvicorn
from openai import OpenAI
from starlette.applications import Starlette

from corrigenda import Corrigenda, Settings
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.ports import ChatModel, Entailer
from corrigenda.server.app import create_app
from corrigenda.server.limits import Limits
from corrigenda.server.options import ServerOptions
from corrigenda.server.serve import bound
from corrigenda.server.served import Served
from tests.fake_openai import FakeOpenAI, Reply, answer, chunk, events
from tests.scripted import ASKED, FIVE_HILLS, Rules, make

UPSTREAM_KEY = "sk-the-key-of-the-upstream"
QUESTION: list[Any] = [{"role": "user", "content": "How many hills has Rome?"}]
FINAL = "Rome has seven hills. It is in Italy."
PATIENCE_S = 10
"""How long a test waits for what must come; nothing is timed."""


@dataclass(kw_only=True)
class Answered:
    """A reply as it came over the socket."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error of a reply that is one, after checking its form."""
        error = self.json["error"]
        assert set(error) >= {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert isinstance(error["type"], str)
        return dict(error)

    @property
    def events(self) -> list[Any]:
        """The data of a stream's events, JSON read; comments left out."""
        assert self.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in self.body.decode().split("\n\n") if line and not line.startswith(":")]
        assert all(line.startswith("data: ") for line in lines)
        return [d if d == "[DONE]" else json.loads(d) for d in (line.removeprefix("data: ") for line in lines)]


@dataclass(kw_only=True)
class Running:
    """A server that runs."""

    port: int
    app: Starlette
    server: uvicorn.Server
    loop: asyncio.AbstractEventLoop
    served: list[Served] = field(default_factory=list)
    """The records of the requests that are over."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, key: str = "none", **more: Any) -> OpenAI:
        """Return the official client; use it as a context manager."""
        return OpenAI(base_url=f"{self.base_url}/v1", api_key=key, **{"max_retries": 0, "timeout": 30, **more})

    def call(
        self, path: str, body: Any = None, *, method: str | None = None, raw: bytes | None = None, **headers: str
    ) -> Answered:
        """Send one request over a connection of its own. Names of headers have `_` for `-`."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
            own = {} if sent is None else {"content-type": "application/json"}
            given = own | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method or ("GET" if sent is None else "POST"), path, sent, given)
            reply = connection.getresponse()
            got = {name.lower(): value for name, value in reply.getheaders()}
            return Answered(status=reply.status, headers=got, body=reply.read())
        finally:
            connection.close()

    def chat(
        self, *, own: Any = None, messages: Any = QUESTION, mode: str | None = None, key: str | None = None, **more: Any
    ) -> Answered:
        """Send a chat request; `own` is the field `corrigenda`, `mode` the header X-Corrigenda."""
        body = {"model": "m", "messages": messages, **more} | ({} if own is None else {"corrigenda": own})
        headers: dict[str, Any] = {} if mode is None else {"x_corrigenda": mode}
        headers |= {} if key is None else {"authorization": f"Bearer {key}"}
        return self.call("/v1/chat/completions", body, **headers)

    def connect(self) -> socket.socket:
        """Return a plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        pause = threading.Event()
        for _ in range(100 * PATIENCE_S):
            if holds():
                return
            pause.wait(0.01)
        raise AssertionError("what was waited for did not come")


@contextmanager
def serving(corrigenda: Corrigenda, **options: Any) -> Iterator[Running]:
    """Run the app on a free port; `options` are those of ServerOptions, and of Limits in `limits`."""
    served: list[Served] = []
    limits = Limits(**options.pop("limits", {}))
    app = create_app(corrigenda, ServerOptions(limits=limits, observers=(served.append,), **options))
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    loops: list[asyncio.AbstractEventLoop] = []

    with bound("127.0.0.1", 0, limits.write_s) as sock:

        async def run() -> None:
            loops.append(asyncio.get_running_loop())
            await server.serve(sockets=[sock])
            await corrigenda.aclose()

        thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        thread.start()
        try:
            running = Running(port=sock.getsockname()[1], app=app, server=server, loop=None)  # type: ignore[arg-type]
            running.until(lambda: server.started)
            running.loop, running.served = loops[0], served
            yield running
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
    for name in ("corrigenda.server", "uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()


def scripted(chat: Rules | None = ASKED, nli: Rules = FIVE_HILLS, **more: Any) -> AbstractContextManager[Running]:
    """Run a server over scripted models."""
    settings = {name: more.pop(name) for name in list(more) if name in Settings.__dataclass_fields__}
    return serving(make(chat, nli, **settings), **more)


def over(chat: ChatModel | None, nli: Entailer, **settings: Any) -> Corrigenda:
    """Return the pipeline over the test's own objects."""
    base = Settings(**({"llm": "none", "decomposer": "deterministic"} | settings))
    return Corrigenda(llm=chat, nli=nli, settings=base)


def proxying(upstream: FakeOpenAI, nli: Rules | Entailer = FIVE_HILLS, **more: Any) -> AbstractContextManager[Running]:
    """Run a server in front of an OpenAI-compatible upstream."""
    settings = {name: more.pop(name) for name in list(more) if name in Settings.__dataclass_fields__}
    base: dict[str, Any] = {
        "llm": "openai:upstream-model",
        "base_url": upstream.base_url,
        "api_key": UPSTREAM_KEY,
        "decomposer": "deterministic",
        "retries": 0,
        "request_timeout": 5.0,
    }
    entailer = nli if not isinstance(nli, list) else ScriptedEntailer({"rules": nli})
    return serving(Corrigenda(nli=entailer, settings=Settings(**(base | settings))), **more)


def staged(generate: Reply | Callable[[Any], Reply], **others: Reply) -> Callable[[Any], Reply]:
    """Return a default for FakeOpenAI that tells the stages apart by their system messages.

    `recall` and `correct` may be given; the client's own requests get `generate`.
    """
    replies = {"recall": answer("Rome stands on seven hills."), "correct": answer("Rome has seven hills.")} | others

    def reply(body: Any) -> Reply:
        system = str(body["messages"][0]["content"]) if body["messages"] else ""
        for stage, beginning in (("recall", "You recall facts."), ("correct", "You correct one sentence")):
            if system.startswith(beginning):
                return replies[stage]
        return generate if isinstance(generate, Reply) else generate(body)

    return reply


def streamed(*texts: str, usage: Any = None, finish_reason: str | None = "stop", **more: Any) -> Reply:
    """Return a streamed reply of these pieces."""
    last = [chunk(finish_reason=finish_reason)] if finish_reason is not None else []
    counted = [{"choices": [], "usage": usage}] if usage is not None else []
    return events(*(chunk(text) for text in texts), *last, *counted, **more)

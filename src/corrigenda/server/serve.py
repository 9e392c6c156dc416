"""`corrigenda serve`: flags, socket, signals. Everything else is in the app."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from corrigenda.errors import ConfigError, MissingExtra
from corrigenda.files import read_text, write
from corrigenda.flags import add_settings, effective_settings

if TYPE_CHECKING:
    import uvicorn

    from corrigenda.api import Corrigenda
    from corrigenda.server.engine import Engine
    from corrigenda.server.options import ServerOptions
    from corrigenda.settings import Settings
    from corrigenda.telemetry import Telemetry

_NEEDS = ("starlette", "uvicorn", "prometheus_client", "pydantic")
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_KEEP_ALIVE_S = 30
"""For so long an idle connection is kept. Clients close theirs sooner, so that none sends into one that is closing."""
_SPARE_S = 5
"""How much longer than a request's deadline a stop waits for what is in flight."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return 0. Raises CorrigendaError."""
    arguments = _parser().parse_args(argv)
    for package in _NEEDS:
        if find_spec(package) is None:
            raise MissingExtra("corrigenda serve", package, "server")
    if arguments.new_key is not None or arguments.hash_key is not None:
        return _make_key(arguments)
    from corrigenda.server.logs import set_up  # noqa: PLC0415  # optional packages, and help must be instant

    settings = effective_settings(arguments)
    options = _options(arguments, settings)
    set_up(texts=options.log_texts)
    telemetry = _telemetry(arguments)
    if telemetry is not None:
        options = replace(options, telemetry=telemetry)
    try:
        asyncio.run(_run(settings, options, arguments.host, arguments.port))
    finally:
        if telemetry is not None:
            telemetry.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    from corrigenda.server.limits import FLAGS, Limits  # noqa: PLC0415  # as above

    parser = argparse.ArgumentParser(
        prog="corrigenda serve",
        description="Serve an OpenAI-compatible API whose answers are checked and corrected, and a page for people.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="port; 0 for any that is free (default: 8080)")
    parser.add_argument(
        "--mode", choices=("correct", "check", "off"), default="correct", help="for requests that say none"
    )
    parser.add_argument("--fail-closed", action="store_true", help="give out no answer whose check broke: 502 instead")
    parser.add_argument(
        "--allow-model", metavar="NAME", action="append", default=[], help="upstream model that may be asked for"
    )
    parser.add_argument("--no-page", action="store_true", help="no page for people at /")
    parser.add_argument("--log-texts", action="store_true", help="log questions and answers, too")
    access = parser.add_argument_group("access")
    access.add_argument("--api-keys", metavar="FILE", help="file of API keys, hashed, as --new-key makes its lines")
    access.add_argument("--new-key", metavar="NAME", help="print a new key and its line for the file, and end")
    access.add_argument("--hash-key", metavar="NAME", help="print the line for a key read from standard input, and end")
    access.add_argument("--allow-open", action="store_true", help="bind beyond loopback without keys, and to any name")
    access.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="another name that requests may use"
    )
    traces = parser.add_argument_group("traces")
    traces.add_argument(
        "--otlp",
        metavar="URL",
        nargs="?",
        const="",
        help=f"send OpenTelemetry traces of reports to this collector (no URL: that of {_ENDPOINT})",
    )
    traces.add_argument("--otlp-texts", action="store_true", help="with questions, answers and claims")
    limits = parser.add_argument_group("limits")
    for field in fields(Limits):
        kind = int if field.type == "int" else float
        help_text = f"{_HELP[field.name]} (default: {field.default:,})"
        limits.add_argument(
            f"--{FLAGS[field.name]}", dest=field.name, metavar="N", type=kind, default=field.default, help=help_text
        )
    add_settings(parser)
    return parser


_HELP = {
    "body_bytes": "bytes of a request",
    "messages": "messages of a conversation",
    "answer_chars": "characters of an answer, or a question, that is given for checking",
    "output_tokens": "tokens of an answer that the model makes",
    "contexts": "passages to check against, in one request",
    "context_chars": "characters of these together",
    "batch": "answers in one call of /v1/verify",
    "concurrency": "requests worked on at a time",
    "queue": "requests that wait; the next one gets 429",
    "deadline_s": "seconds for a request",
    "read_s": "seconds for a request's body to arrive",
    "write_s": "seconds that a client may leave its reply unread",
}


def _make_key(arguments: argparse.Namespace) -> int:
    from corrigenda.server.keys import line_for, new_key  # noqa: PLC0415  # as above

    if arguments.hash_key is not None:
        write(line_for(arguments.hash_key, read_text("-", "API key").strip()))
        return 0
    key = new_key()
    line = line_for(arguments.new_key, key)
    write(f"key, for the client (it is shown this once): {key}\nline, for the file of --api-keys: {line}")
    return 0


def _options(arguments: argparse.Namespace, settings: Settings) -> ServerOptions:
    """Return the options that the flags mean. Raises ConfigError, also where it would be careless to start."""
    from corrigenda.server.edge import is_loopback  # noqa: PLC0415  # as above
    from corrigenda.server.keys import read_keys  # noqa: PLC0415
    from corrigenda.server.limits import Limits  # noqa: PLC0415
    from corrigenda.server.options import ServerOptions  # noqa: PLC0415

    if not 0 <= arguments.port <= 65_535:
        raise ConfigError(f"--port must be from 0 to 65535, got {arguments.port}")
    limits: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in fields(Limits)}
    if settings.timeout is not None:
        limits["deadline_s"] = min(limits["deadline_s"], settings.timeout)
    keys = None if arguments.api_keys is None else read_keys(arguments.api_keys)
    local = is_loopback(arguments.host)
    if keys is None and not local and not arguments.allow_open:
        raise ConfigError(
            f"binding to {arguments.host!r} without API keys would let everybody who reaches this machine use its "
            "models; give --api-keys FILE (`corrigenda serve --new-key NAME` makes one), or --allow-open where "
            "something in front of the server keeps others out"
        )
    hosts = None
    if arguments.allow_host or (keys is None and not arguments.allow_open):
        names = ("localhost", "127.0.0.1", "::1", arguments.host, *arguments.allow_host)
        hosts = frozenset(name.lower().strip("[]") for name in names)
    return ServerOptions(
        limits=Limits(**limits),
        keys=keys,
        hosts=hosts,
        mode=arguments.mode,
        fail_closed=arguments.fail_closed,
        allowed_models=tuple(arguments.allow_model),
        log_texts=arguments.log_texts,
        page=not arguments.no_page,
    )


def _telemetry(arguments: argparse.Namespace) -> Telemetry | None:
    """Return what sends traces, where that was asked for. Raises ConfigError."""
    if arguments.otlp is None:
        if arguments.otlp_texts:
            raise ConfigError("--otlp-texts says what is sent, and nothing is without --otlp; give both or neither")
        return None
    from corrigenda.telemetry import Telemetry  # noqa: PLC0415  # as above

    endpoint = arguments.otlp or os.environ.get(_ENDPOINT)
    if not endpoint:
        raise ConfigError(f"--otlp needs the collector's address (http://localhost:4318), or {_ENDPOINT} set to it")
    return Telemetry.exporting(endpoint, content=arguments.otlp_texts)


async def _run(settings: Settings, options: ServerOptions, host: str, port: int) -> None:
    """Serve until a signal comes, or until it is clear that the models cannot be loaded."""
    import uvicorn  # noqa: PLC0415  # as above

    from corrigenda.api import Corrigenda  # noqa: PLC0415
    from corrigenda.server.app import create_app  # noqa: PLC0415

    corrigenda = Corrigenda(settings=settings, progress=_Download())
    app = create_app(corrigenda, options)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(options.limits.deadline_s) + _SPARE_S,
    )
    with bound(host, port, options.limits.write_s) as sock, _signals():
        name, number = sock.getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        write(f"corrigenda serves http://{shown}:{number}/ (API below /v1, described at /docs); Ctrl-C stops it")
        sys.stdout.flush()
        await _until_stopped(uvicorn.Server(config), sock, app.state.engine, corrigenda)


async def _until_stopped(server: uvicorn.Server, sock: socket.socket, engine: Engine, corrigenda: Corrigenda) -> None:
    loading = asyncio.create_task(engine.load())
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    await asyncio.wait({loading, serving}, return_when=asyncio.FIRST_COMPLETED)
    if loading.done() and loading.exception() is not None:
        server.should_exit = True
    await serving
    if not loading.done():
        # A download or a model's loading cannot be interrupted, and Python would wait for its thread.
        logging.shutdown()
        os._exit(0)
    await corrigenda.aclose()
    loading.result()


@contextmanager
def bound(host: str, port: int, patience_s: float) -> Iterator[socket.socket]:
    """Give a socket that listens. Raises ConfigError when the address cannot be had.

    Where the system can, a connection is dropped when what was sent is not taken for `patience_s` seconds: a client
    that stops reading would otherwise keep its connection, and what waits in it, for ever.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as exc:
        raise ConfigError(f"--host {host!r} is no address of this machine: {exc.strerror or exc}") from exc
    with socket.socket(family, kind, protocol) as sock:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * patience_s))
        try:
            sock.bind(address)
            sock.listen(2048)
        except OSError as exc:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {exc.strerror or exc}; choose another --port or --host"
            ) from exc
        sock.setblocking(False)
        yield sock


@contextmanager
def _signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the server and nothing more: it raises them again when it has stopped."""
    known = [signal.SIGINT, signal.SIGTERM]
    before = [signal.signal(number, lambda *_: None) for number in known]
    try:
        yield
    finally:
        for number, handler in zip(known, before, strict=True):
            signal.signal(number, handler)


class _Download:
    """Logs a download's beginning, each tenth of it, and its end."""

    def __init__(self) -> None:
        self._told: tuple[str, int] | None = None

    def __call__(self, done: int, total: int, note: str) -> None:
        from corrigenda.server.logs import NAME  # noqa: PLC0415  # as above

        now = note, int(10 * done / total) if total else -1
        if now != self._told:
            self._told = now
            fields = {"note": note, "done_bytes": done, "total_bytes": total}
            logging.getLogger(NAME).info("download", extra={"fields": fields})

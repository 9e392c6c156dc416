"""The outermost layer: who may come in, what goes wrong on the way, and the record of each request.

It is what makes sure that every request gets a well-formed end: an error in OpenAI's form where no status was sent
yet, an error event and `[DONE]` where a stream had begun.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from corrigenda.server.bodies import ClientGone, Exchange, encoded
from corrigenda.server.logs import NAME
from corrigenda.server.options import ServerOptions
from corrigenda.server.problems import ApiError, internal, translated
from corrigenda.server.served import Served

Endpoint = Callable[[Exchange, Served], Awaitable[None]]
CLIENT_GONE = 499
"""As nginx calls it: the client hung up before the reply was whole."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_OPEN_PATHS = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
"""These, and what is below `/page/`, need no key, where there are keys. All others do."""


class Edge:
    """ASGI middleware; see the module's docstring."""

    def __init__(self, app: ASGIApp, *, options: ServerOptions, hide: Callable[[str], str]) -> None:
        """`hide` removes the upstream's secrets from a text."""
        self._app = app
        self._options = options
        self._hide = hide

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        served = Served(
            request_id=_request_id(headers.get("x-request-id")),
            method=scope["method"],
            headers={k: v for k, v in headers.items() if k not in ("authorization", "cookie", "proxy-authorization")},
        )

        async def marked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.started = True
                served.status = message["status"]
                own = [(b"x-request-id", served.request_id.encode("ascii")), (b"x-content-type-options", b"nosniff")]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        exchange = Exchange(scope, receive, marked, self._options.limits)
        scope["corrigenda"] = exchange, served
        try:
            self._admit(_path(scope), headers, served)
            await self._app(scope, receive, marked)
        except ClientGone:
            served.status, served.error = CLIENT_GONE, "client_gone"
        except asyncio.CancelledError:  # the server stops, and has waited long enough
            await self._fail(exchange, served, ApiError(503, "the server is shutting down", code="shutting_down"))
            raise
        except Exception as exc:
            await self._fail(exchange, served, exc)
        finally:
            served.over()
            self._tell(served)

    def _admit(self, path: str, headers: Mapping[str, str], served: Served) -> None:
        """Raise ApiError for a request that may not come in."""
        hosts = self._options.hosts
        if hosts is not None and _host(headers.get("host", "")) not in hosts:
            raise ApiError(
                421, "this server is not meant under this name; see --allow-host and --api-keys", code="wrong_host"
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy in front may go by the other one, and take what follows for somebody else's request.
            message = "a request must not have both Content-Length and Transfer-Encoding"
            raise ApiError(400, message, code="two_lengths", headers={"Connection": "close"})
        keys = self._options.keys
        if keys is None or path in _OPEN_PATHS or path.startswith("/page/"):
            return
        scheme, _, key = headers.get("authorization", "").partition(" ")
        served.key = keys.name_of(key.strip()) if scheme.lower() == "bearer" else None
        if served.key is None:
            raise ApiError(
                401,
                "an API key of this server is needed: Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def _fail(self, exchange: Exchange, served: Served, exc: Exception) -> None:
        """Tell the client what went wrong, in the form that fits how far its reply has come."""
        error = translated(exc, self._hide) or internal()
        served.error = error.word
        if error.status >= 500:
            served.exception = exc
        with suppress(ClientGone):
            if not exchange.started:
                await exchange.reply(error.status, error.body(), error.headers)
            elif not exchange.complete:
                await exchange.event(error.event())
                await exchange.done()
                served.status = error.status
            return
        served.status = CLIENT_GONE

    def _tell(self, served: Served) -> None:
        for observer in self._options.observers:
            try:
                observer(served)
            except Exception:
                logging.getLogger(NAME).exception("an observer failed")


class Called:
    """An endpoint as an ASGI application for a route, where a plain function is taken for something else."""

    def __init__(self, work: Endpoint) -> None:
        """`work` serves a request."""
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that came through the edge."""
        await self._work(*scope["corrigenda"])


async def refused(request: Request, exc: Exception) -> Response:
    """Return the routes' own refusals (404, 405) in OpenAI's form."""
    assert isinstance(exc, HTTPException)
    said = {404: "there is nothing at this path; see /docs", 405: "this path does not take this method; see /docs"}
    error = ApiError(exc.status_code, said.get(exc.status_code, str(exc.detail)))
    request.scope["corrigenda"][1].error = error.kind
    return Response(encoded(error.body()), error.status, exc.headers, "application/json")


def _path(scope: Scope) -> str:
    """Return the path as the routes see it: without that of the app, where it is mounted below one."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def _request_id(given: str | None) -> str:
    return given if given is not None and _ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"


def _host(header: str) -> str:
    """Return the name of a Host header, without the port, in lower case."""
    name = header.strip().lower()
    return name.partition("]")[0].removeprefix("[") if name.startswith("[") else name.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Return whether a server that is bound to `host` can be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False

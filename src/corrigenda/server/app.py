"""The app: routes only. One `Corrigenda` object makes all its reports; there are no globals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from corrigenda.api import Corrigenda
from corrigenda.server import chat, describe, health, verify
from corrigenda.server.bodies import Exchange
from corrigenda.server.edge import Called, Edge, refused
from corrigenda.server.engine import Engine
from corrigenda.server.limits import Gate
from corrigenda.server.logs import RequestLog
from corrigenda.server.metrics import TYPE, Metrics
from corrigenda.server.options import ServerOptions
from corrigenda.server.page import page_routes
from corrigenda.server.served import Served
from corrigenda.server.service import Service

Work = Callable[[Service, Exchange, Served], Awaitable[None]]


def create_app(corrigenda: Corrigenda, options: ServerOptions | None = None) -> Starlette:
    """Return an ASGI app that serves reports of `corrigenda`, which stays the caller's to close.

    `app.state.engine` is its `Engine`; `await app.state.engine.load()` loads the models before the first request does.
    `app.state.gate` says how many requests are worked on and wait.
    The app belongs to the event loop that it is first used in.
    """
    options = options or ServerOptions()
    gate = Gate(options.limits.concurrency, options.limits.queue)
    metrics = Metrics(gate)
    log = RequestLog(texts=options.log_texts)
    options = replace(options, observers=(metrics.observe, log.observe, *options.observers))
    engine = Engine(corrigenda, options, metrics.called)
    service = Service(options=options, engine=engine, gate=gate)
    description = describe.openapi(keys=options.keys is not None)
    page = describe.docs_page(description).encode("utf-8")

    async def schema(_: Service, exchange: Exchange, served: Served) -> None:
        await exchange.reply(200, description)

    async def docs(_: Service, exchange: Exchange, served: Served) -> None:
        await exchange.reply_raw(200, page, describe.PAGE_HEADERS)

    async def numbers(_: Service, exchange: Exchange, served: Served) -> None:
        await exchange.reply_raw(200, metrics.text(), {"content-type": TYPE})

    def route(path: str, work: Work, method: str = "GET") -> Route:
        async def marked(exchange: Exchange, served: Served) -> None:
            served.route = path
            await work(service, exchange, served)

        return Route(path, Called(marked), methods=[method])

    app = Starlette(
        routes=[
            route("/v1/chat/completions", chat.chat_completions, "POST"),
            route("/v1/verify", verify.verify, "POST"),
            route("/v1/decide", verify.decide, "POST"),
            route("/v1/models", health.models),
            route("/v1/models/{name:path}", health.model),
            route("/healthz", health.healthz),
            route("/readyz", health.readyz),
            route("/metrics", numbers),
            route("/openapi.json", schema),
            route("/docs", docs),
            *(page_routes() if options.page else ()),
        ],
        middleware=[Middleware(Edge, options=options, hide=engine.hide)],
        exception_handlers={HTTPException: refused},
    )
    # To a client behind a proxy that speaks TLS, a redirect would name http://, and its key would go there in the open.
    app.router.redirect_slashes = False
    app.state.engine = engine
    app.state.gate = gate
    return app

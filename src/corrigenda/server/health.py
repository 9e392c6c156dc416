"""GET /v1/models, /healthz, /readyz."""

from __future__ import annotations

from corrigenda.server.bodies import Exchange
from corrigenda.server.problems import ApiError
from corrigenda.server.served import Served
from corrigenda.server.service import Service


async def models(service: Service, exchange: Exchange, served: Served) -> None:
    """List the models that a chat request may name: the upstream's own list, or the one that answers."""
    found = await exchange.unless_gone(service.engine.models())
    await exchange.reply(200, {"object": "list", "data": found})


async def model(service: Service, exchange: Exchange, served: Served) -> None:
    """Describe one of these models. Raises ApiError 404 for another name."""
    name = exchange.scope["path_params"]["name"]
    for each in await exchange.unless_gone(service.engine.models()):
        if each["id"] == name:
            await exchange.reply(200, each)
            return
    raise ApiError(404, f"there is no model {name[:200]!r} here", param="model", code="model_not_found")


async def healthz(service: Service, exchange: Exchange, served: Served) -> None:
    """Say that the process answers. It says nothing about the models."""
    await exchange.reply(200, {"status": "ok"})


async def readyz(service: Service, exchange: Exchange, served: Served) -> None:
    """Say whether requests can be served now: the models are loaded, and the upstream answers."""
    trouble = await service.engine.trouble()
    if trouble is None:
        await exchange.reply(200, {"status": "ready"})
    else:
        await exchange.reply(503, {"status": "not ready", "reason": trouble}, {"retry-after": "5"})

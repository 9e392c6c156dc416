"""The page for people at `/`: static files, served from memory with headers that let them reach nobody else.

The files lie in `page/`: one HTML document, style sheets and ES modules that the browser loads as they are, without
a build step. The modules call the API beside the page (`v1/…`, relative to it) and no other address, and they put
text in as text only; the Content-Security-Policy below makes a browser hold both, also should a module be wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

DOCUMENT = "index.html"
_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # No string is ever parsed as HTML or as a script, whoever wrote it.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of the document and of every file of it, beside the `nosniff` that the server gives every reply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asset:
    """One file of the page, as it is sent."""

    body: bytes
    media_type: str
    etag: str
    """Strong, from the content, so that a browser asks again and gets 304 until the server was updated."""


def read_assets() -> dict[str, Asset]:
    """Return the page's files by name, read from the installed package."""
    found = {}
    for file in resources.files("corrigenda").joinpath("server", "page").iterdir():
        media_type = _TYPES.get(file.name[file.name.rfind(".") :])
        if media_type is not None:
            body = file.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[file.name] = Asset(body=body, media_type=media_type, etag=etag)
    return found


def page_routes() -> list[Route]:
    """Return the routes of the page: the document at `/`, its files under `/page/`. They need no API key.

    The files are read once, here. A name that is not among them gets 404; nothing is looked up on the disk.
    """
    from starlette.exceptions import HTTPException  # noqa: PLC0415  # the extra `server` is optional
    from starlette.routing import Route  # noqa: PLC0415

    assets = read_assets()

    async def document(request: Request) -> Response:
        return _reply(request, assets[DOCUMENT])

    async def file(request: Request) -> Response:
        asset = assets.get(request.path_params["name"])
        if asset is None:
            raise HTTPException(404, "the page has no such file")
        return _reply(request, asset)

    return [Route("/", document, name="page"), Route("/page/{name}", file, name="page file")]


def _reply(request: Request, asset: Asset) -> Response:
    from starlette.responses import Response  # noqa: PLC0415

    # `no-cache` means: keep it, but ask each time. The modules import each other by plain names, so that after an
    # update a browser must not mix old ones with new ones.
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache", "ETag": asset.etag}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")}
    if asset.etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)

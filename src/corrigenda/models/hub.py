"""Fetching a file from a model hub over HTTPS, going on where an earlier attempt stopped."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from corrigenda.models.partial import Partial
from corrigenda.models.registry import HubSource, Model

try:
    import httpx2 as httpx
except ImportError:  # the `openai` library brings httpx2 from its version 3 on, httpx before
    import httpx  # type: ignore[import-not-found,no-redef,unused-ignore]

CONNECT_SECONDS = 3.0
"""An unreachable hub must not keep the next source waiting."""
READ_SECONDS = 30.0
"""Longest silence in the middle of a download."""
TRIES_WITHOUT_PROGRESS = 3
"""How often a connection may break without a new byte before the hub is given up."""


class SourceFailed(Exception):
    """A source can't give the file; the text says why. The next one is tried."""


def fetch(
    model: Model,
    source: HubSource,
    partial: Partial,
    *,
    hub_url: str,
    hub_token: str | None,
    report: Callable[[int], None],
) -> None:
    """Fill `partial` from the hub at `hub_url`. `report(bytes)` follows the size of the file.

    `hub_token` goes into a header of requests to that hub alone and into no message. Raises SourceFailed.
    """
    url = f"{hub_url.rstrip('/')}/{source.repo}/resolve/main/{source.file}"
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {hub_token}"} if hub_token else {})
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    failures = 0
    try:
        with httpx.Client(headers=headers, timeout=timeout, follow_redirects=True) as client:
            while partial.size < model.size:
                before = partial.size
                try:
                    _read(client, url, model, partial, report)
                except (httpx.ConnectError, httpx.UnsupportedProtocol) as exc:
                    raise SourceFailed(f"{_host(hub_url)} is not reachable ({exc})") from exc
                except httpx.TransportError as exc:
                    failures = 0 if partial.size > before else failures + 1
                    if failures >= TRIES_WITHOUT_PROGRESS or isinstance(exc, httpx.ConnectTimeout):
                        reason = str(exc) or type(exc).__name__
                        raise SourceFailed(f"the connection to {_host(hub_url)} broke ({reason})") from exc
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
        raise SourceFailed(f"{_host(hub_url)}: {type(exc).__name__}: {exc}") from exc


def _read(client: httpx.Client, url: str, model: Model, partial: Partial, report: Callable[[int], None]) -> None:
    """Make one request for the rest of the file. Raises SourceFailed, or an error of httpx's."""
    wanted = {"Range": f"bytes={partial.size}-"} if partial.size else {}
    with client.stream("GET", url, headers=wanted) as response:
        host = _host(url)
        if response.status_code not in (200, 206):
            raise SourceFailed(f"{host} answered with HTTP status {response.status_code} for {model.file}")
        if response.headers.get("content-type", "").startswith("text/html"):
            raise SourceFailed(f"{host} answered with a web page instead of {model.file}")
        start, total = _offered(response)
        if total is not None and total != model.size:
            raise SourceFailed(f"{host} offers {total} bytes for {model.file}, which has {model.size}")
        if start != partial.size:
            if start != 0:
                raise SourceFailed(f"{host} answered with bytes from {start} on instead of {partial.size}")
            partial.restart()  # the server takes no ranges
        for data in response.iter_bytes():
            if partial.size + len(data) > model.size:
                raise SourceFailed(f"{host} sends more than the {model.size} bytes of {model.file}")
            partial.append(data)
            report(partial.size)
    if partial.size < model.size and total is None:
        raise httpx.ReadError("the file ended early")


def _offered(response: httpx.Response) -> tuple[int, int | None]:
    """Return at which byte the response starts, and the size of the whole file where the server says."""
    if response.status_code == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", ""))
        if match is None:
            raise SourceFailed(f"{response.url.host} answered with a range that makes no sense")
        return int(match[1]), None if match[2] == "*" else int(match[2])
    length = response.headers.get("content-length", "")
    return 0, int(length) if length.isdigit() else None


def _host(url: str) -> str:
    """Return the host of an address for messages, without any user name or password in it."""
    try:
        return urlsplit(url).hostname or "the hub"
    except ValueError:
        return "the hub"

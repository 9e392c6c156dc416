"""Fetching a data set from where its authors publish it, once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

from corrigenda.errors import InputError
from corrigenda.evals.datasets.files import Source, read
from corrigenda.terminal import without_credentials

try:
    import httpx2 as httpx
except ImportError:  # the `openai` library brings httpx2 from its version 3 on, httpx before
    import httpx  # type: ignore[import-not-found,no-redef,unused-ignore]

Progress = Callable[[int, int, str], None]
"""Called with how far it is, the whole (0: not known), and a note for a person."""

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
"""Longest silence in the middle of a download."""
TRIES = 3
MAX_BYTES = 50_000_000
"""No data set that is fetched here comes near; what is larger is something else."""


def default_dir() -> Path:
    """Return the folder for data sets in the user's cache."""
    return platformdirs.user_cache_path("corrigenda") / "datasets"


def fetched(name: str, url: str, *, cache_dir: str | Path | None = None, progress: Progress | None = None) -> Source:
    """Return the file of the data set `name`, from the cache, or from `url` into the cache.

    What is in the cache is compared with the SHA-256 that was noted when it was downloaded. Raises InputError, with
    the address and what to do, when it can't be had, can't be kept, or is no longer what was downloaded.
    """
    folder = default_dir() if cache_dir is None else Path(cache_dir).expanduser()
    target = folder / (Path(urlsplit(url).path).name or name)
    noted = target.with_name(target.name + ".sha256")
    if target.is_file() and noted.is_file():
        source = read(target)
        if noted.read_text("utf-8", errors="replace").split()[:1] != [source.sha256]:
            raise InputError(
                f"{str(target)!r} is not what was downloaded (its SHA-256 is now {source.sha256}); delete it to get it "
                f"anew, or give the file that you want with --data FILE"
            )
        return source
    data = _download(name, url, progress or (lambda done, total, note: None))
    digest = hashlib.sha256(data).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The note last: a file without one is fetched again.
        _write(target, data)
        _write(noted, f"{digest}  {target.name}\n".encode())
    except OSError as exc:
        raise InputError(
            f"the data set {name!r} cannot be kept in {str(folder)!r}: {exc.strerror or exc}; make room there, or "
            f"download {without_credentials(url)} yourself and give it with --data FILE"
        ) from exc
    return Source(name=str(target), data=data)


def _write(target: Path, data: bytes) -> None:
    """Write a file in one step, so that an interrupted or a second process never leaves half of one."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(data)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


class _Refused(Exception):
    """The server answers, but not with the file; trying again is no use."""


def _download(name: str, url: str, progress: Progress) -> bytes:
    """Return the content at `url`. A connection that breaks is tried again. Raises InputError."""
    reason = ""
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        headers = {"Accept-Encoding": "identity"}  # so that the length that the server names is that of the file
        with httpx.Client(headers=headers, timeout=timeout, follow_redirects=True) as client:
            for _ in range(TRIES):
                try:
                    return _get(client, name, url, progress)
                except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as exc:
                    reason = f"it is not reachable: {str(exc) or type(exc).__name__}"
                    break
                except httpx.TransportError as exc:
                    reason = f"the connection broke: {str(exc) or type(exc).__name__}"
    except _Refused as exc:
        reason = str(exc)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
        reason = f"{type(exc).__name__}: {exc}"
    raise InputError(
        f"the data set {name!r} could not be downloaded from {without_credentials(url)} ({reason}); download it on a "
        f"machine that reaches that address, and give the file with --data FILE"
    )


def _get(client: httpx.Client, name: str, url: str, progress: Progress) -> bytes:
    with client.stream("GET", url) as response:
        if response.status_code != 200:
            raise _Refused(f"the server answered with HTTP status {response.status_code}")
        if response.headers.get("content-type", "").startswith("text/html"):
            raise _Refused("the server answered with a web page")
        length = response.headers.get("content-length", "")
        total = int(length) if length.isdigit() else 0
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            progress(len(data), max(total, len(data)), f"downloading {name}")
            if len(data) > MAX_BYTES:
                raise _Refused(f"the server sends more than {MAX_BYTES:,} bytes")
    return bytes(data)

"""A model hub on a local socket that serves one file, and misbehaves as told; and wheels that hold parts of it."""

from __future__ import annotations

import hashlib
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from corrigenda.models import HubSource, Model, PackageSource

DATA = b"GGUF" + bytes(i * 7 % 251 for i in range(2496))
PART = 1000
HUB = HubSource(repo="org/tiny", file="tiny.gguf")
PACKAGES = PackageSource(prefix="tiny-model-part", parts=3, version="0.1.0", part_size=PART)


def model(*sources: HubSource | PackageSource) -> Model:
    """Return the entry for DATA with these sources (default: both)."""
    return Model(
        name="tiny",
        file="tiny.gguf",
        size=len(DATA),
        sha256=hashlib.sha256(DATA).hexdigest(),
        licence="Apache-2.0",
        purpose="tests",
        sources=sources or (HUB, PACKAGES),
    )


@dataclass
class FakeHub:
    """What the hub does with requests, and which it got."""

    url: str = ""
    data: bytes = DATA
    status: int = 200
    ranges: bool = True
    cut_after: list[int] = field(default_factory=list)
    """For each request in turn: after how many bytes the connection is cut."""
    content_type: str = "application/octet-stream"
    chunked: bool = False
    delay_s: float = 0.0
    requests: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    """Path, Range and Authorization of each request."""


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Run a hub until the end of the block."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            hub.requests.append((self.path, wanted, self.headers.get("Authorization")))
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.ranges else 0
            body = hub.data[start:] if hub.status == 200 else b"no"
            self.send_response(206 if start else hub.status)
            self.send_header("Content-Type", hub.content_type)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(hub.data) - 1}/{len(hub.data)}")
            self.send_header("Connection", "close")
            if not hub.chunked:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.close_connection = True
            cut = hub.cut_after.pop(0) if hub.cut_after else len(body)
            for position in range(0, min(cut, len(body)), 100):
                self.wfile.write(body[position : min(position + 100, cut)])
                self.wfile.flush()
                time.sleep(hub.delay_s)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def build_wheel(folder: Path, number: int, content: bytes, *, members: int = 1) -> Path:
    """Write the wheel of one part, as small as pip accepts it."""
    package, info = f"tiny_model_part{number}", f"tiny_model_part{number}-0.1.0.dist-info"
    path = folder / f"{package}-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member in range(members):
            archive.writestr(f"{package}/data/part{number:02}{'x' * member}.bin", content)
        archive.writestr(f"{package}/__init__.py", "raise SystemExit('code of a part must never run')\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-model-part{number}\nVersion: 0.1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def part(number: int) -> bytes:
    """Return the bytes of one part, counted from 1."""
    return DATA[(number - 1) * PART : number * PART]

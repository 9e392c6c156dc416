"""For every test: an environment without the developer's settings, and no connection beyond this machine."""

import ipaddress
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import FakeOpenAI, fake_openai

_SETTINGS = re.compile(r"(OPENAI|CORRIGENDA|AZURE|HF|HUGGING_?FACE)_.*|(https?|all|no|ftp)_proxy", re.IGNORECASE)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables that change what a backend talks to, and the proxies."""
    for name in list(os.environ):
        if _SETTINGS.fullmatch(name):
            monkeypatch.delenv(name)


class OutboundBlocked(RuntimeError):
    """A test tried to reach another machine. No OSError, so that nothing takes it for a server that is down."""


def _is_local(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block connections and name look-ups for anything but the loopback interface."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(host: Any) -> None:
        if not _is_local(host):
            raise OutboundBlocked(f"tests must not reach {host!r}")

    def checked_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            check(address[0])
        connect(self, address)

    def checked_connect_ex(self: socket.socket, address: Any) -> int:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            check(address[0])
        return connect_ex(self, address)

    def checked_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        check(host)
        return getaddrinfo(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", checked_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", checked_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", checked_getaddrinfo)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    """A chat server on a local socket; see fake_openai.py."""
    with fake_openai() as fake:
        yield fake


@pytest.fixture(scope="session")
def shared_cases() -> dict[str, dict[str, Any]]:
    """Cases with known right values that are kept beside the project, by id; the test is skipped without them."""
    path = Path(__file__).parents[2] / "shared" / "cases" / "cases.jsonl"
    if not path.is_file():
        pytest.skip("the folder of shared cases is not beside the project")
    cases = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return {case["id"]: case for case in cases}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of published data sets that is kept beside the project; the test is skipped without it."""
    path = Path(__file__).parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the folder of published data sets is not beside the project")
    return path

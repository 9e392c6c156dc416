"""Who may come in: API keys, host names, and what the server refuses to be bound to."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from corrigenda.errors import ConfigError, InputError
from corrigenda.server.app import create_app
from corrigenda.server.edge import is_loopback
from corrigenda.server.keys import Keys, line_for, new_key, read_keys
from corrigenda.server.options import ServerOptions
from corrigenda.server.serve import _options, _parser, main
from corrigenda.settings import Settings
from tests.fake_openai import FakeOpenAI, answer
from tests.scripted import ASKED, make
from tests.server.kit import FINAL, QUESTION, proxying, scripted

KEY, OTHER = new_key(), new_key()


def keys(tmp_path: Path, **given: str) -> Keys:
    path = tmp_path / "keys"
    path.write_text("# ours\n\n" + "\n".join(line_for(name, key) for name, key in given.items()) + "\n")
    return read_keys(path)


def test_only_who_has_a_key_comes_in(tmp_path: Path) -> None:
    with scripted(keys=keys(tmp_path, alice=KEY, bob=OTHER)) as server:
        with server.client(KEY) as client:
            reply = client.chat.completions.create(model="m", messages=QUESTION)
            assert reply.choices[0].message.content == FINAL
        with server.client(new_key()) as client, pytest.raises(openai.AuthenticationError, match="an API key of this"):
            client.chat.completions.create(model="m", messages=QUESTION)
        statuses = {
            path: (server.call(path).status, server.call(path, authorization=f"bearer {OTHER} ").status)
            for path in ("/v1/models", "/metrics", "/v1/nothing", "/healthz", "/readyz", "/docs", "/openapi.json", "/")
        }
        refused = server.call("/v1/verify", {"answer": "a"}, authorization=f"Basic {KEY}")
    assert statuses == {
        "/v1/models": (401, 200),
        "/metrics": (401, 200),
        "/v1/nothing": (401, 404),
        "/healthz": (200, 200),
        "/readyz": (503, 503) if not server.app.state.engine.loaded else (200, 200),
        "/docs": (200, 200),
        "/openapi.json": (200, 200),
        "/": (200, 200),
    }
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.error["code"] == "invalid_api_key"
    assert [s.key for s in server.served[:3]] == ["alice", None, None]
    assert KEY not in repr([(s, dict(s.headers)) for s in server.served])


def test_keys_are_hashed_with_a_salt() -> None:
    lines = [line_for("alice", KEY) for _ in range(2)]
    assert lines[0] != lines[1]
    assert all(KEY not in line for line in lines)


def test_every_key_of_a_file_is_told_apart(tmp_path: Path) -> None:
    found = keys(tmp_path, alice=KEY, bob=OTHER)
    assert len(found) == 2
    assert [found.name_of(key) for key in (KEY, OTHER, new_key(), "", "é\ud83e")] == ["alice", "bob", None, None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"holds no key; make one with"),
        ("# nothing\n", r"holds no key"),
        ("alice sk-plain-text-key-in-the-file\n", r"line 1: not a name and a hash; make a line with"),
        ("a b\n", r"line 1: not a name"),
        (f"{line_for('alice', KEY)}\n{line_for('alice', OTHER)}\n", r"line 2: there are two keys called 'alice'"),
        ("\udcff", r"is not UTF-8"),
    ],
)
def test_a_file_of_keys_that_is_wrong_is_refused_without_showing_it(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=message) as info:
        read_keys(path)
    assert "plain-text" not in str(info.value)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_keys(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "key"), [("a b", KEY), ("", KEY), ("a", "short"), ("a", "x" * 30 + " y"), ("a", "é" * 30)]
)
def test_keys_that_cannot_be_used_are_refused(name: str, key: str) -> None:
    with pytest.raises(InputError, match=r"the name of a key must|an API key must have at least 24"):
        line_for(name, key)


def test_the_command_makes_keys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["--new-key", "alice"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    path = tmp_path / "keys"
    path.write_text(second.rpartition(": ")[2])
    assert read_keys(path).name_of(first.rpartition(": ")[2]) == "alice"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{KEY}\n".encode())))
    assert main(["--hash-key", "bob"]) == 0
    path.write_text(capsys.readouterr().out)
    assert read_keys(path).name_of(KEY) == "bob"


# Host names and addresses ---------------------------------------------------------------------------------------------


def test_an_open_server_on_loopback_answers_to_its_own_names_only() -> None:
    with scripted(hosts=frozenset({"localhost", "127.0.0.1", "::1"})) as server:
        statuses = {
            host: server.call("/healthz", host=host).status
            for host in (
                "localhost:1",
                "127.0.0.1",
                "LOCALHOST",
                "[::1]:80",
                "evil.example",
                "localhost.evil.example",
                "",
            )
        }
        refused = server.call("/", host="evil.example")
    assert statuses == {
        "localhost:1": 200,
        "127.0.0.1": 200,
        "LOCALHOST": 200,
        "[::1]:80": 200,
        "evil.example": 421,
        "localhost.evil.example": 421,
        "": 421,
    }
    assert refused.error["code"] == "wrong_host"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.0.7", "", "example.org")),
    ],
)
def test_what_is_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def options(*argv: str, **settings: Any) -> Any:
    return _options(_parser().parse_args(list(argv)), Settings(**settings))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org"])
def test_binding_beyond_loopback_without_keys_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"without API keys would let everybody .* use its models; give --api-keys FILE"
    ):
        options("--host", host)
    assert options("--host", host, "--allow-open").hosts is None
    (tmp_path / "keys").write_text(line_for("alice", KEY))
    made = options("--host", host, "--api-keys", str(tmp_path / "keys"))
    assert (made.keys is not None, made.hosts) == (True, None)


def test_flags_become_options(tmp_path: Path) -> None:
    assert options().hosts == {"localhost", "127.0.0.1", "::1"}
    made = options("--allow-host", "Box.lan", "--mode", "check", "--fail-closed", "--no-page", "--allow-model", "a")
    assert (made.hosts, made.mode, made.fail_closed, made.page, made.allowed_models) == (
        {"localhost", "127.0.0.1", "::1", "box.lan"},
        "check",
        True,
        False,
        ("a",),
    )
    limits = options("--max-body", "5", "--queue", "0", "--deadline", "7.5").limits
    assert (limits.body_bytes, limits.queue, limits.deadline_s) == (5, 0, 7.5)
    assert options(timeout=3.0).limits.deadline_s == 3.0
    with pytest.raises(ConfigError, match="--port must be from 0 to 65535, got 70000"):
        options("--port", "70000")
    with pytest.raises(ConfigError, match="--concurrency must be from 1 to"):
        options("--concurrency", "0")
    assert isinstance(_parser(), argparse.ArgumentParser)


def test_models_may_be_restricted(server: FakeOpenAI) -> None:
    server.default = answer("Hello.")
    with proxying(server, allowed_models=("good",)) as proxy:
        found = {
            model: proxy.chat(model=model, n=2).status for model in ("good", "bad", "corrigenda", "upstream-model")
        }
        assert proxy.chat(model="bad").error["code"] == "model_not_found"
    assert found == {"good": 200, "bad": 404, "corrigenda": 200, "upstream-model": 200}


# Ways around ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "/sub", "/v1"])
def test_a_key_is_needed_too_where_the_app_is_mounted_below_a_path(tmp_path: Path, below: str) -> None:
    async def found() -> dict[str, int]:
        corrigenda = make(ASKED)
        app = create_app(corrigenda, ServerOptions(keys=keys(tmp_path, alice=KEY)))
        outer = Starlette(routes=[Mount(below, app=app)]) if below else app
        transport = httpx.ASGITransport(app=outer)
        async with corrigenda, httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            asked = {"messages": QUESTION}
            chat = await client.post(f"{below}/v1/chat/completions", json=asked)
            allowed = {"Authorization": f"Bearer {KEY}"}
            good = await client.post(f"{below}/v1/chat/completions", json=asked, headers=allowed)
            statuses = {"chat": chat.status_code, "with a key": good.status_code}
            for path in ("/metrics", "/v1/models", "/nothing", "/healthz", "/docs", "/page/style.css"):
                statuses[path] = (await client.get(f"{below}{path}")).status_code
            return statuses

    statuses = asyncio.run(found())
    assert statuses.pop("/page/style.css") in (200, 404)
    assert statuses == {
        "chat": 401,
        "with a key": 200,
        "/metrics": 401,
        "/v1/models": 401,
        "/nothing": 401,
        "/healthz": 200,
        "/docs": 200,
    }


def test_nothing_is_redirected(tmp_path: Path) -> None:
    # A redirect names http://, and a client behind a proxy with TLS would send its key there in the open.
    with scripted(keys=keys(tmp_path, alice=KEY)) as server:
        got = server.call("/v1/verify/", {"answer": "a"}, authorization=f"Bearer {KEY}")
        assert (got.status, got.error["type"], "location" in got.headers) == (404, "not_found_error", False)


def test_a_body_with_two_lengths_is_refused() -> None:
    # A proxy in front may have taken the other one, and what follows for a request of somebody else's.
    head = b"POST /v1/verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with scripted() as server, server.connect() as plain:
        plain.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + hidden)
        reply = plain.makefile("rb").read()  # to the end: the connection is closed
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert reply.count(b"HTTP/1.1") == 1
    assert b"both Content-Length and Transfer-Encoding" in reply


@pytest.mark.parametrize("line", ["\ufeff{}", "{}\r", "\t{}"])
def test_a_file_of_keys_from_another_editor_is_read(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(f"{line.format(line_for('alice', KEY).replace(' ', chr(9)))}\n".encode())
    assert read_keys(path).name_of(KEY) == "alice"

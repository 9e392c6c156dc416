"""What a request may hold and what is refused, always in OpenAI's form of an error and never with a 500."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from corrigenda.errors import ConfigError
from corrigenda.server.bodies import DEPTH, encoded, parse
from corrigenda.server.limits import Limits
from corrigenda.server.problems import ApiError
from tests.scripted import ANSWER, ASKED
from tests.server.kit import FINAL, QUESTION, Running, scripted


def test_request_forms_and_misuse(shared_cases: dict[str, Any]) -> None:
    case = shared_cases["PC-37"]
    with scripted() as server:
        plain = server.chat(messages=[{"role": "user", "content": "What is Rome?"}]).json
        for number, request in enumerate(case["input"]["requests"]):
            if "body" in request:
                raw = json.dumps(request["body"]).encode()
            else:
                raw = bytes.fromhex(request["raw_hex"]) if "raw_hex" in request else request["raw"].encode()
            got = server.call("/v1/chat/completions", raw=raw)
            assert got.status == request["want"], request
            if number == 0:
                assert got.json["choices"] == plain["choices"]
            if got.status == 400:
                assert got.error["type"] == "invalid_request_error"
                assert "Traceback" not in got.body.decode()
        assert server.chat().status == 200


WRONG: list[tuple[dict[str, Any], str | None, str]] = [
    ({"messages": []}, "messages", "messages: List should have at least 1 item after validation, not 0"),
    ({"messages": [{"role": "judge", "content": "x"}]}, "messages.0.role", "messages.0.role: Input should be "),
    ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content", "messages.0.content: Input should be "),
    ({"messages": [{"role": "user", "content": " "}]}, "messages.0.content", "the last user message is empty"),
    ({"messages": [{"role": "user", "content": None}]}, "messages.0.content", "messages.0.content must be a text"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        "messages.0.content.0.text",
        "messages.0.content.0.text must be a text",
    ),
    ({"temperature": 3}, "temperature", "temperature: Input should be less than or equal to 2"),
    ({"temperature": True}, "temperature", "temperature: Input should be a valid number"),
    ({"max_tokens": -1}, "max_tokens", "max_tokens: Input should be greater than or equal to 1"),
    ({"max_tokens": 5000}, "max_tokens", "max_tokens may be 4096 at most on this server, got 5000"),
    ({"n": 0}, "n", "n: Input should be greater than or equal to 1"),
    ({"stream": "yes"}, "stream", "stream: Input should be a valid boolean"),
    ({"corrigenda": 7}, "corrigenda", "corrigenda: Input should be a valid dictionary"),
    ({"corrigenda": {"polcy": "paper"}}, "corrigenda.polcy", "unknown field 'corrigenda.polcy'; see /docs"),
    ({"corrigenda": {"top-k": 1}}, "corrigenda.top-k", "unknown field 'corrigenda.top-k'; see /docs"),
    ({"corrigenda": {"str": 1}}, "corrigenda.str", "unknown field 'corrigenda.str'; see /docs"),
    ({"corrigenda": {"": 1}}, "corrigenda.", "unknown field 'corrigenda.'; see /docs"),
    ({"corrigenda": {"a" * 5000: 1}}, f"corrigenda.{'a' * 60}…", f"unknown field 'corrigenda.{'a' * 60}…'; see /docs"),
    (
        {"corrigenda": {"contexts": [{"text": "a", "x-y": 1}]}},
        "corrigenda.contexts.0.x-y",
        "unknown field 'corrigenda.contexts.0.x-y'; see /docs",
    ),
    ({"corrigenda": {"policy": "strict"}}, "corrigenda.policy", "corrigenda.policy: Input should be 'paper', "),
    ({"corrigenda": {"k": -0.1}}, "corrigenda.k", "corrigenda.k: Input should be greater than or equal to 0"),
    ({"corrigenda": {"mode": "fix"}}, "corrigenda.mode", "corrigenda.mode: Input should be 'off', "),
    ({"corrigenda": {"decision": "whole"}}, "corrigenda.decision", "corrigenda.decision: Input should be "),
    ({"corrigenda": {"language": "English"}}, "corrigenda.language", "corrigenda.language: String should match "),
    ({"corrigenda": {"deadline": 0}}, "corrigenda.deadline", "corrigenda.deadline: Input should be greater than 0"),
    (
        {"corrigenda": {"deadline": 121}},
        "corrigenda.deadline",
        "corrigenda.deadline may be 120 s at most on this server, got 121",
    ),
    ({"corrigenda": {"contexts": [7]}}, "corrigenda.contexts.0", "corrigenda.contexts.0: Input should be "),
    ({"corrigenda": {"contexts": ["a"] * 65}}, "corrigenda.contexts", "there are 65 contexts; this server takes 64"),
    (
        {"corrigenda": {"contexts": ["a" * 400_001]}},
        "corrigenda.contexts",
        "the contexts have more than 400000 characters, this server's limit",
    ),
    ({"messages": QUESTION * 257}, "messages", "there are 257 messages; this server takes 256"),
]


def test_wrong_fields_are_named() -> None:
    with scripted() as server:
        for more, param, message in WRONG:
            got = server.chat(**more)
            assert got.status == 400, more
            assert got.error["param"] == param, more
            assert got.error["message"].startswith(message), more
        header = server.chat(mode="maybe")
    assert (header.status, header.error["param"]) == (400, "X-Corrigenda")
    assert header.error["message"] == "the header X-Corrigenda must be off, check or correct, got 'maybe'"


def test_the_official_client_raises_what_it_has_for_such_errors() -> None:
    with scripted() as server, server.client() as client:
        with pytest.raises(openai.BadRequestError, match=r"unknown field 'corrigenda\.x'") as info:
            client.chat.completions.create(model="m", messages=QUESTION, extra_body={"corrigenda": {"x": 1}})
        assert (info.value.param, info.value.code) == ("corrigenda.x", "unknown_field")
        with pytest.raises(openai.NotFoundError, match="there is nothing at this path"):
            client.embeddings.create(model="m", input="x")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "the body is not valid JSON: Expecting value (at character 0)"),
        (b"{", "the body is not valid JSON: Expecting property name enclosed in double quotes (at character 1)"),
        (b'{"a": NaN}', "the body is not valid JSON: NaN is no JSON number"),
        (b'{"a": -Infinity}', "the body is not valid JSON: -Infinity is no JSON number"),
        (b'{"a": 1e999}', "the body is not valid JSON: a number is too large"),
        (b'{"a": "\xff"}', "the body is not valid UTF-8 (at byte 7)"),
        (b'{"a": "\\ud83e"}', "the body holds half of a surrogate pair, which is no character"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), "the body is nested too deeply"),
        (b'[{"a":' * (DEPTH // 2) + b"[]" + b"}]" * (DEPTH // 2), "the body is nested too deeply"),
        (b"1" * 5000, "the body is not valid JSON: Exceeds the limit (4300 digits) for integer string conversion"),
    ],
)
def test_json_is_read_strictly(raw: bytes, message: str) -> None:
    with pytest.raises(ApiError, match=r"^the body") as info:
        parse(raw)
    assert (info.value.status, info.value.message[: len(message)]) == (400, message)


def test_json_is_read_and_written_in_full() -> None:
    value = {"a": [1, 2.5, None, True, "Perù 🧭 \u2028"], "b": {"c": "\\ud83e"}}
    assert parse(json.dumps(value).encode()) == value
    assert parse(encoded(value)) == value
    assert parse(b'"\\ud83e\\udded"') == "🧭"
    assert parse(b"[" * DEPTH + b"]" * DEPTH)
    brackets = ["[" * 500, {'"[{\\': '\\"' + "{[" * 500}, *([[]] * 500)]
    assert parse(json.dumps(brackets).encode()) == brackets
    assert encoded("a\ud83eb") == '"a\ufffdb"'.encode()


def test_other_content_types_and_sizes_are_refused() -> None:
    with scripted(limits={"body_bytes": 1000}) as server:
        body = json.dumps({"model": "m", "messages": QUESTION})
        form = server.call("/v1/chat/completions", raw=body.encode(), content_type="text/plain")
        assert (form.status, form.error["code"]) == (415, "not_json")
        large = server.call("/v1/verify", {"answer": "a" * 2000})
        assert (large.status, large.error["code"]) == (413, "too_large")
        with server.connect() as plain:
            plain.sendall(
                b"POST /v1/verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + (b"100\r\n" + b"a" * 256 + b"\r\n") * 5
            )
            plain.shutdown(1)
            head = plain.makefile("rb").read()
        assert head.startswith(b"HTTP/1.1 413 ")
        assert (
            server.call("/v1/chat/completions", raw=body.encode(), content_type="application/json; x=1").status == 200
        )


def test_a_body_that_never_comes_is_not_waited_for() -> None:
    with scripted(limits={"read_s": 0.2}) as server, server.connect() as plain:
        plain.sendall(
            b"POST /v1/verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9\r\n\r\n{"
        )
        reply = plain.makefile("rb").read()  # to the end: the connection is closed
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"too_slow"' in reply


def test_paths_and_methods_that_there_are_not() -> None:
    with scripted() as server:
        found = [
            (path, method, got.status, got.error["type"], got.headers["x-request-id"][:4])
            for path, method in [("/v1/nothing", "GET"), ("/v1/verify", "GET"), ("/healthz", "DELETE"), ("/v1", "PUT")]
            for got in [server.call(path, method=method)]
        ]
    assert found == [
        ("/v1/nothing", "GET", 404, "not_found_error", "req-"),
        ("/v1/verify", "GET", 405, "invalid_request_error", "req-"),
        ("/healthz", "DELETE", 405, "invalid_request_error", "req-"),
        ("/v1", "PUT", 404, "not_found_error", "req-"),
    ]


def test_a_fault_of_the_servers_own_is_told_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as server:
        monkeypatch.setattr(server.app.state.engine, "check", None)
        got = server.call("/v1/verify", {"answer": "Rome has 5 hills.", "contexts": ["x"]})
    assert (got.status, got.error) == (
        500,
        {
            "message": "the server met an error of its own; its log says more under this request's id",
            "type": "api_error",
            "param": None,
            "code": None,
        },
    )
    assert isinstance(server.served[0].exception, TypeError)


# Queue and limits -----------------------------------------------------------------------------------------------------


def test_a_full_queue_is_429_with_when_to_come_back() -> None:
    slow = [{"stage": "generate", "reply": ANSWER, "first_token_s": 1}, *ASKED[1:]]

    async def ask(server: Running) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="none", max_retries=0) as client:
            asked = [client.chat.completions.create(model="m", messages=QUESTION) for _ in range(5)]
            return await asyncio.gather(*asked, return_exceptions=True)

    with scripted(slow, limits={"concurrency": 1, "queue": 1}) as server:
        outcomes = asyncio.run(ask(server))
        good = [o for o in outcomes if not isinstance(o, BaseException)]
        refused = [o for o in outcomes if isinstance(o, openai.RateLimitError)]
        assert (len(good), len(refused)) == (2, 3)
        assert [o.choices[0].message.content for o in good] == [FINAL] * 2
        assert {o.code for o in refused} == {"queue_full"}
        assert {o.response.headers["retry-after"] for o in refused} <= {"1", "2"}
        assert server.chat().status == 200


def test_who_waits_too_long_for_a_turn_gets_504() -> None:
    slow = [{"stage": "generate", "reply": ANSWER, "first_token_s": 30}, *ASKED[1:]]
    with scripted(slow, limits={"concurrency": 1}) as server:
        with server.connect() as first:
            body = json.dumps({"model": "m", "messages": QUESTION}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            first.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
            gate = server.app.state.gate
            server.until(lambda: gate.working == 1)
            got = server.chat(own={"deadline": 0.2})
        server.until(lambda: gate.working == 0)
    assert (got.status, got.error["code"]) == (504, "deadline")
    assert got.error["message"] == "the request waited for its turn longer than its 0.2 s"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"body_bytes": 0}, "--max-body must be from 1 to 1e.09, got 0"),
        ({"queue": -1}, "--queue must be from 0 to 1e.09, got -1"),
        ({"deadline_s": float("nan")}, "--deadline must be from 0.001 to 1e.09, got nan"),
    ],
)
def test_limits_out_of_range_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Limits(**values)

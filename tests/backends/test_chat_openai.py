"""What is sent to an OpenAI-compatible server, and what is made of its whole replies."""

import asyncio
import gc
import json
import math
from collections.abc import Sequence
from typing import Any

import openai
import pytest
from tests.fake_openai import FakeOpenAI, Reply, answer, error, json_reply
from tests.openai_calls import KEY, SCHEMA, chat_for, complete, request, stream

from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.errors import (
    BackendError,
    BadReply,
    ConfigError,
    RateLimited,
)
from corrigenda.types import ChatRequest, Completion, Message, TokenUsage

# What is sent


def test_every_setting_is_sent_under_its_name(server: FakeOpenAI) -> None:
    asked = ChatRequest(
        stage="decompose",
        messages=(Message(role="system", content="Split."), Message(role="user", content="È così.")),
        temperature=0.0,
        top_p=0.9,
        max_tokens=50,
        seed=7,
        json_schema=SCHEMA,
    )
    complete(chat_for(server), asked)
    assert server.received[0].path == "/v1/chat/completions"
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Split."}, {"role": "user", "content": "È così."}],
            "temperature": 0.0,
            "top_p": 0.9,
            "max_tokens": 50,
            "seed": 7,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
            },
        }
    ]


def test_settings_that_are_not_given_are_left_out(server: FakeOpenAI) -> None:
    complete(chat_for(server))
    assert server.bodies == [{"model": "m", "messages": [{"role": "user", "content": "How many hills?"}]}]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": False},
        {"type": "array", "items": [{"type": "object", "properties": {}}]},
    ],
)
def test_a_schema_that_strict_mode_refuses_is_not_called_strict(server: FakeOpenAI, schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    complete(chat_for(server), request(json_schema=schema))
    assert server.bodies[0]["response_format"]["json_schema"] == {"name": "reply", "schema": schema}
    assert json.dumps(schema) == before


def test_the_librarys_environment_variables_change_nothing(server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "OPENAI_API_KEY": "sk-from-the-environment",
        "OPENAI_ADMIN_KEY": "sk-admin-from-the-environment",
        "OPENAI_ORG_ID": "org-from-the-environment",
        "OPENAI_PROJECT_ID": "proj-from-the-environment",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/from-the-environment",
        "OPENAI_CUSTOM_HEADERS": "X-Custom: from-the-environment\nAuthorization: Bearer from-the-environment",
        "OPENAI_WEBHOOK_SECRET": "from-the-environment",
    }.items():
        monkeypatch.setenv(name, value)
    complete(chat_for(server, headers={"X-Mine": "1"}))
    headers = server.received[0].headers
    assert "from-the-environment" not in json.dumps(headers)
    assert headers["authorization"] == "Bearer none"
    assert headers["x-mine"] == "1"
    assert "openai-organization" not in headers
    assert "openai-project" not in headers


def test_the_environment_does_not_redirect_calls_to_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    chat = OpenAIChat("m", api_key=KEY)

    async def address() -> str:
        client = await chat._client()
        await chat.aclose()
        return str(client.base_url)

    assert asyncio.run(address()) == "https://api.openai.com/v1/"


def test_key_and_headers_are_sent(server: FakeOpenAI) -> None:
    headers = {"X-Team": "blue"}
    complete(chat_for(server, api_key=f" {KEY}\n", headers=headers))
    sent = server.received[0].headers
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["x-team"] == "blue"
    assert headers == {"X-Team": "blue"}


def test_an_authorization_header_of_the_users_own_wins(server: FakeOpenAI) -> None:
    complete(chat_for(server, api_key=KEY, headers={"Authorization": "Basic abc"}))
    assert server.received[0].headers["authorization"] == "Basic abc"


def test_a_client_that_is_passed_in_is_neither_changed_nor_closed(server: FakeOpenAI) -> None:
    async def work() -> tuple[Completion, bool, dict[str, Any]]:
        client = openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, default_headers={"X-Mine": "1"})
        before = {k: v for k, v in vars(client).items() if not k.startswith("_")}
        chat = OpenAIChat("m", client=client)
        completion = await chat.complete(request())
        await chat.aclose()
        await chat.aclose()
        after = {k: v for k, v in vars(client).items() if k in before}
        assert after == before
        closed = client.is_closed()
        await client.close()
        return completion, closed, dict(server.received[0].headers)

    completion, closed, headers = asyncio.run(work())
    assert completion == Completion(text="Rome has seven hills.")
    assert closed is False
    assert headers["x-mine"] == "1"
    assert headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_object_serves_several_event_loops(server: FakeOpenAI, caplog: pytest.LogCaptureFixture) -> None:
    """Connections of a loop that ended without `aclose` are dropped, and nothing else comes of it."""
    chat = chat_for(server)
    texts = [asyncio.run(chat.complete(request())).text for _ in range(3)]
    asyncio.run(chat.aclose())
    del chat
    gc.collect()
    assert texts == ["Rome has seven hills."] * 3
    assert [r for r in caplog.records if r.name == "asyncio" and r.levelname != "DEBUG"] == []


def test_a_closed_object_says_so(server: FakeOpenAI) -> None:
    chat = chat_for(server)
    asyncio.run(chat.aclose())
    with pytest.raises(BackendError, match=r"openai:m is closed"):
        asyncio.run(chat.complete(request()))


# Settings that are refused at once


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (" ", {}, "names no model; write openai:MODEL"),
        ("m", {}, "openai:m needs an API key .* OPENAI_API_KEY .* base_url"),
        ("m", {"api_key": "  "}, "needs an API key"),
        ("m", {"api_key": "sk-é"}, "the API key holds characters"),
        ("m", {"api_key": "sk-1\nX: y"}, "the API key holds characters"),
        ("m", {"api_key": KEY, "timeout_s": 0}, "timeout of a chat server must be .* got 0"),
        ("m", {"api_key": KEY, "timeout_s": math.nan}, "timeout of a chat server must be .* got nan"),
        ("m", {"api_key": KEY, "max_retries": -1}, "retries must be at least 0, got -1"),
        ("m", {"base_url": "localhost:8000/v1"}, "must be an address that starts with http"),
        ("m", {"base_url": "http://[::1/v1"}, "must be an address that starts with http"),
        ("m", {"base_url": "http://h:99999/v1"}, "must be an address that starts with http"),
        ("m", {"api_key": KEY, "headers": {"A B": "1"}}, "'A B' is no name of an HTTP header"),
        ("m", {"api_key": KEY, "headers": {"A": "sec\nret"}}, "header 'A' holds characters"),
    ],
)
def test_bad_settings_are_refused_without_showing_secrets(model: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        OpenAIChat(model, **settings)
    assert "sk-" not in str(caught.value)
    assert "ret" not in str(caught.value).replace("retries", "")


def test_a_client_excludes_other_settings() -> None:
    client = openai.AsyncOpenAI(api_key=KEY)
    with pytest.raises(ConfigError, match="a client brings its own address"):
        OpenAIChat("m", client=client, base_url="http://localhost:1/v1")


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer x"}, {"api-key": "x"}])
def test_no_key_is_needed_where_a_header_has_it(headers: dict[str, str]) -> None:
    assert OpenAIChat("m", headers=headers).name == "openai:m"


# What comes back


def test_a_plain_answer(server: FakeOpenAI) -> None:
    server.default = answer("Rome has seven hills.", usage={"prompt_tokens": 9, "completion_tokens": 5})
    assert complete(chat_for(server)) == Completion(
        text="Rome has seven hills.", usage=TokenUsage(prompt_tokens=9, completion_tokens=5)
    )


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            answer(None, finish_reason="length", reasoning_content="5 hills"),
            Completion(text="", finish_reason="length"),
        ),
        (answer("", reasoning="5 hills"), Completion(text="")),
        (answer("<think>5 hills, no", finish_reason="length"), Completion(text="", finish_reason="length")),
        (answer("<think>5?</think>\n\nSeven."), Completion(text="Seven.")),
        (answer(None, refusal="I cannot."), Completion(text="", finish_reason="refusal", refusal="I cannot.")),
        (answer("Ro", finish_reason="content_filter"), Completion(text="Ro", finish_reason="content_filter")),
        (answer("x", finish_reason="tool_calls"), Completion(text="x", finish_reason="other")),
        (answer("x", finish_reason=None), Completion(text="x", finish_reason="other")),
        (answer("x", finish_reason="eos"), Completion(text="x")),
        (answer("x", usage={"prompt_tokens": None, "completion_tokens": "5"}), Completion(text="x")),
        (answer("x", usage={"prompt_tokens": 0}), Completion(text="x", usage=TokenUsage(prompt_tokens=0))),
        (json_reply({"choices": [{"message": None}]}), Completion(text="", finish_reason="other")),
        (json_reply({"choices": [{"finish_reason": "stop"}]}), Completion(text="")),
    ],
)
def test_odd_answers(server: FakeOpenAI, reply: Reply, expected: Completion) -> None:
    server.default = reply
    assert complete(chat_for(server)) == expected


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(chunks=[b"<!doctype html><title>Log in</title>"], content_type="text/html"), "answered with HTML .*v1"),
        (Reply(chunks=[b"<html>hello</html>"]), "answered with HTML where JSON was expected: '<html>hello"),
        (Reply(chunks=[b"hello"], content_type="text/plain"), "answered with something else .*'hello'"),
        (Reply(chunks=[b"[1]"]), "answered with something else"),
        (Reply(chunks=[b"[" * 100_000]), "answered with something else"),
        (Reply(chunks=[b'{"choices": "\xff"}']), "answered with something else"),
        (json_reply({"object": "list", "data": []}), r"without 'choices'.*its keys: data, object$"),
        (json_reply({"choices": []}), "without 'choices'"),
        (json_reply({KEY: 1, "a\x1b[2J": 2}), r"without 'choices'.*its keys: a\\x1b\[2J, \*\*\*$"),
        (Reply(chunks=[b"<html>\x9b\x1b[2J"]), r"answered with HTML where JSON was expected: '<html>.\\x1b\[2J'"),
        (
            Reply(chunks=[b"\x1f\x8b\x08garbage"], headers={"Content-Encoding": "gzip"}),
            "body that cannot be decompressed",
        ),
        (json_reply({"choices": [None]}), "without 'choices'"),
    ],
)
@pytest.mark.parametrize("ask", [complete, stream])
def test_answers_that_cannot_be_used(server: FakeOpenAI, reply: Reply, message: str, ask: Any) -> None:
    server.default = reply
    with pytest.raises(BackendError, match=message if ask is complete else ".") as caught:
        ask(chat_for(server, api_key=KEY))
    assert isinstance(caught.value, BadReply) or ask is stream
    assert f"http://127.0.0.1:{server.port}" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("ask", [complete, stream])
def test_an_error_inside_a_good_status(server: FakeOpenAI, ask: Any) -> None:
    server.default = json_reply({"error": {"code": 429, "message": "slow down"}})
    with pytest.raises(RateLimited, match="answered 429: slow down"):
        ask(chat_for(server))
    server.default = json_reply({"error": "no such model"})
    with pytest.raises(BackendError, match="reported an error: no such model"):
        ask(chat_for(server))


# Log-probabilities and token counts


def logprobs(chat: OpenAIChat, labels: Sequence[str]) -> tuple[float, ...]:
    async def work() -> tuple[float, ...]:
        try:
            return await chat.label_logprobs(request(temperature=0.0), labels)
        finally:
            await chat.aclose()

    return asyncio.run(work())


def first_token(token: str, logprob: float, *others: tuple[Any, Any]) -> Reply:
    top = [{"token": t, "logprob": p} for t, p in others]
    content = [{"token": token, "logprob": logprob, "top_logprobs": top}]
    return json_reply({"choices": [{"message": {"content": token}, "logprobs": {"content": content}}]})


def test_label_logprobs(server: FakeOpenAI) -> None:
    server.default = first_token(
        "A", -0.5, ("A", -0.5), (" A", -2.0), ("B", -1.5), ("Bad", -0.1), (None, -1), ("C", None), ("D", 1e-9)
    )
    assert logprobs(chat_for(server), ["A", "B", "C", "D"]) == pytest.approx(
        (math.log(math.exp(-0.5) + math.exp(-2.0)), -1.5, -math.inf, 0.0), abs=1e-12
    )
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "How many hills?"}],
            "temperature": 0.0,
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": 20,
        }
    ]


def test_fewer_alternatives_are_asked_for_where_twenty_are_too_many(server: FakeOpenAI) -> None:
    server.script = [error(400, {"error": {"message": "top_logprobs must be at most 5"}})]
    server.default = first_token("A", -0.5)

    async def work() -> list[tuple[float, ...]]:
        chat = chat_for(server)
        results = [await chat.label_logprobs(request(), ["A"])]
        server.script = [error(422, {"detail": "top_logprobs: unknown"})]
        results += [await chat.label_logprobs(request(), ["A"]) for _ in range(2)]
        await chat.aclose()
        return results

    assert asyncio.run(work()) == [(-0.5,)] * 3
    assert [body.get("top_logprobs") for body in server.bodies] == [20, 5, 5, None, None]


@pytest.mark.parametrize(
    "reply",
    [
        answer("A"),
        json_reply({"choices": [{"logprobs": {"content": []}}]}),
        json_reply({"choices": [{"logprobs": {"content": [None]}}]}),
    ],
)
def test_a_server_without_logprobs(server: FakeOpenAI, reply: Reply) -> None:
    server.default = reply
    with pytest.raises(BadReply, match=r"gives no log-probabilities.*choose another verifier"):
        logprobs(chat_for(server), ["A"])


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("abcd", 2), ("Rome has seven hills.", 11), ("12345", 5), ("雪国", 6), ("è", 2)]
)
def test_token_counts_are_upper_estimates(text: str, count: int) -> None:
    assert OpenAIChat("m", api_key=KEY).count_tokens(text) == count

"""What is passed through: untouched, under the server's own key, and never without saying so."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.fake_openai import FakeOpenAI, Reply, answer, chunk, error, events, json_reply
from tests.server.kit import QUESTION, UPSTREAM_KEY, proxying, scripted, staged, streamed

TOOL: Any = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PASSED: dict[str, tuple[dict[str, Any], str]] = {
    "n": ({"n": 2}, "n: one answer is verified, not several"),
    "tools": ({"tools": [TOOL]}, "tools: replies in a conversation with tools are not verified"),
    "functions": ({"functions": [TOOL["function"]]}, "tools: replies in a conversation with tools are not verified"),
    "a search of the web": (
        {"web_search_options": {}},
        "tools: replies in a conversation with tools are not verified",
    ),
    "a tool's reply": (
        {
            "messages": [
                *QUESTION,
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
                {"role": "tool", "tool_call_id": "1", "content": "7"},
            ]
        },
        "tools: replies in a conversation with tools are not verified",
    ),
    "response_format": (
        {"response_format": {"type": "json_object"}},
        "response_format: replies in a form other than text are not verified",
    ),
    "image": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}]},
        "media: conversations with anything but text are not verified",
    ),
    "audio": (
        {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
        "media: conversations with anything but text are not verified",
    ),
    "logprobs": (
        {"logprobs": True},
        "logprobs: log-probabilities belong to the tokens of an answer that is not changed",
    ),
    "no user message": (
        {"messages": [{"role": "system", "content": "Say hello."}]},
        "no_question: there is no user message to check an answer to",
    ),
    "off": ({"corrigenda": {"mode": "off"}}, "off: verification was switched off for this request"),
}


@pytest.mark.parametrize("name", PASSED)
def test_the_request_goes_on_as_it_came_and_the_reply_says_so(server: FakeOpenAI, name: str) -> None:
    more, reason = PASSED[name]
    server.default = answer("Hello.", usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
    asked = {"model": "another-model", "messages": QUESTION, "user": "u-1", "x_unknown": [1.5, None]} | more
    with proxying(server) as proxy:
        reply = proxy.call("/v1/chat/completions", asked, authorization="Bearer sk-the-clients-own-key")
    assert reply.status == 200
    assert reply.json == {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        "corrigenda": {"status": "passed_through", "reason": reason},
    }
    assert reply.headers["x-corrigenda-status"] == "passed_through"
    [received] = server.received
    assert received.body == {k: v for k, v in asked.items() if k != "corrigenda"}
    assert received.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert "clients-own" not in str(received)
    assert proxy.served[0].passed == reason.partition(":")[0]


@pytest.mark.parametrize("name", PASSED)
def test_every_piece_of_a_stream_says_so(server: FakeOpenAI, name: str) -> None:
    more, reason = PASSED[name]
    server.default = events(chunk("Hel"), chunk("lo."), chunk(finish_reason="stop"), {"choices": [], "usage": {"x": 1}})
    with proxying(server) as proxy:
        reply = proxy.chat(stream=True, **more)
    beside = {"corrigenda": {"status": "passed_through", "reason": reason}}
    assert reply.events == [
        chunk("Hel") | beside,
        chunk("lo.") | beside,
        chunk(finish_reason="stop") | beside,
        {"choices": [], "usage": {"x": 1}} | beside,
        "[DONE]",
    ]
    assert reply.headers["x-corrigenda-status"] == "passed_through"
    assert server.bodies[0]["stream"] is True


def test_the_default_model_is_filled_in(server: FakeOpenAI) -> None:
    server.default = answer("Hello.")
    with proxying(server) as proxy:
        for model in (None, "corrigenda", "openai:upstream-model"):
            proxy.call("/v1/chat/completions", {"model": model, "messages": QUESTION, "n": 2})
    assert [body["model"] for body in server.bodies] == ["upstream-model"] * 3


def test_structured_output_of_the_official_client(server: FakeOpenAI) -> None:
    class City(BaseModel):
        name: str
        hills: int

    server.default = answer('{"name": "Rome", "hills": 7}')
    with proxying(server) as proxy, proxy.client() as client:
        reply = client.chat.completions.parse(model="m", messages=QUESTION, response_format=City)
    assert reply.choices[0].message.parsed == City(name="Rome", hills=7)
    assert (reply.model_extra or {})["corrigenda"]["status"] == "passed_through"
    assert server.bodies[0]["response_format"]["json_schema"]["name"] == "City"


def test_tool_calls_of_the_official_client(server: FakeOpenAI) -> None:
    call = {"id": "call-1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    server.default = answer(None, finish_reason="tool_calls", tool_calls=[call])
    with proxying(server) as proxy, proxy.client() as client:
        reply = client.chat.completions.create(model="m", messages=QUESTION, tools=[TOOL])
    calls = reply.choices[0].message.tool_calls
    assert calls is not None
    assert [c.id for c in calls] == ["call-1"]
    assert reply.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "verified"),
    [
        ({"n": 1, "tools": [], "tool_choice": "none", "logprobs": False, "response_format": {"type": "text"}}, True),
        ({"modalities": ["text"], "stop": None, "functions": None}, True),
    ],
)
def test_neutral_settings_do_not_keep_a_reply_from_being_verified(
    server: FakeOpenAI, fields: dict[str, Any], verified: bool
) -> None:
    server.default = staged(streamed("Rome has seven hills."))
    with proxying(server) as proxy:
        assert (proxy.chat(**fields).json["corrigenda"]["status"] == "verified") is verified


def test_the_verified_call_has_all_of_the_clients_settings(server: FakeOpenAI) -> None:
    server.default = staged(streamed("Rome has seven hills."))
    messages = [{"role": "developer", "content": "Be brief.", "name": "d"}, *QUESTION]
    given: dict[str, Any] = {
        "stop": ["\n\n"],
        "presence_penalty": 0.5,
        "logit_bias": {"50256": -100},
        "user": "u",
        "temperature": 0,
    }
    with proxying(server) as proxy:
        proxy.chat(messages=messages, model="another-model", max_completion_tokens=50, **given)
        proxy.chat(messages=messages, max_tokens=60)
        proxy.chat(messages=messages)
    bodies = [body for body in server.bodies if body["messages"] == messages]
    assert bodies[0] == {
        "model": "another-model",
        "messages": messages,
        "max_completion_tokens": 50,
        "stream": True,
        "stream_options": {"include_usage": True},
        **given,
    }
    assert (bodies[1]["max_tokens"], "max_completion_tokens" in bodies[1]) == (60, False)
    assert not {"max_tokens", "max_completion_tokens", "temperature", "top_p"} & set(bodies[2])
    recalled = [body["model"] for body in server.bodies if body["messages"] != messages]
    assert recalled == ["another-model", "m", "m"]


# An upstream that is no OpenAI-compatible server ----------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "param"),
    [
        ("n", "n"),
        ("tools", "tools"),
        ("response_format", "response_format"),
        ("image", "messages"),
        ("logprobs", "logprobs"),
    ],
)
def test_another_upstream_refuses_what_it_cannot_do(name: str, param: str, stream: bool) -> None:
    with scripted() as server:
        reply = server.chat(stream=stream, **PASSED[name][0])
    assert reply.status == 400
    assert reply.error == {
        "message": f"{param!r} is not supported by the model behind this server, which is no OpenAI-compatible server; "
        "leave it out, or start this server with --llm openai:MODEL",
        "type": "invalid_request_error",
        "param": param,
        "code": "unsupported_parameter",
    }


@pytest.mark.parametrize("field", [{"stop": "x"}, {"presence_penalty": 0.5}, {"logit_bias": {"1": 2}}, {"x_new": 1}])
def test_settings_that_another_upstream_cannot_follow_are_refused(field: dict[str, Any]) -> None:
    with scripted() as server:
        reply = server.chat(**field)
    assert (reply.status, reply.error["param"], reply.error["code"]) == (
        400,
        next(iter(field)),
        "unsupported_parameter",
    )


def test_settings_without_effect_are_taken_by_any_upstream() -> None:
    neutral: dict[str, Any] = {
        "stop": None,
        "presence_penalty": 0,
        "logit_bias": {},
        "user": "u",
        "metadata": {"a": "b"},
        "store": False,
    }
    with scripted() as server:
        assert server.chat(**neutral).status == 200


def test_mode_off_with_another_upstream_streams_the_answer_as_it_is() -> None:
    with scripted() as server:
        whole = server.chat(mode="off").json
        *pieces, usage, done = server.chat(mode="off", stream=True, stream_options={"include_usage": True}).events
    beside = {"status": "passed_through", "reason": "off: verification was switched off for this request"}
    assert whole["choices"][0]["message"]["content"] == "Rome has 5 hills. It is in Italy."
    assert whole["usage"] == {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    assert whole["corrigenda"] == beside
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in pieces) == "Rome has 5 hills. It is in Italy."
    assert all(piece["corrigenda"] == beside for piece in pieces)
    assert usage["usage"]["total_tokens"] == 30
    assert done == "[DONE]"


# Faults of the upstream -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (json_reply(["no", "object"]), 502, "upstream_error"),
        (Reply(chunks=[b"<html>"], content_type="text/html"), 502, "upstream_error"),
        (Reply(chunks=[b'{"choices": [{"index"'], cut=True), 502, "upstream_error"),
        (json_reply({"error": {"message": f"overloaded, {UPSTREAM_KEY}"}}), 502, "upstream_error"),
        (error(400, {"error": {"message": "n must be 1", "param": "n", "code": "bad_n"}}), 400, "bad_n"),
        (error(503, {"error": {"message": "down"}}), 502, "upstream_error"),
    ],
)
def test_an_upstream_that_fails_is_told_as_such(server: FakeOpenAI, reply: Reply, status: int, code: str) -> None:
    server.default = reply
    with proxying(server) as proxy:
        got = proxy.chat(n=2)
        assert UPSTREAM_KEY not in got.body.decode()
    assert (got.status, got.error["code"]) == (status, code)


@pytest.mark.parametrize(
    "reply",
    [
        events(chunk("Hel"), done=False, cut=True),
        events(chunk("Hel"), done=False),
        events(chunk("Hel"), "data: {nonsense\n\n"),
        events(chunk("Hel"), {"error": {"message": "overloaded"}}),
        events(chunk("Hel"), 'event: error\ndata: {"message": "overloaded"}\n\n'),
    ],
)
def test_a_stream_that_breaks_ends_with_an_error(server: FakeOpenAI, reply: Reply) -> None:
    server.default = reply
    with proxying(server) as proxy:
        *pieces, last, done = proxy.chat(n=2, stream=True).events
        assert [piece["choices"][0]["delta"]["content"] for piece in pieces] == ["Hel"]
        assert (last["error"]["status"], last["error"]["code"], done) == (502, "upstream_error", "[DONE]")
        with proxy.client() as client, pytest.raises(openai.APIError, match=r"upstream|overloaded|connection"):
            list(client.chat.completions.create(model="m", messages=QUESTION, n=2, stream=True))


def test_a_whole_stream_without_its_last_line_is_whole(server: FakeOpenAI) -> None:
    server.default = events(chunk("Hello."), chunk(finish_reason="stop"), done=False)
    with proxying(server) as proxy:
        assert [
            e if e == "[DONE]" else e["choices"][0]["finish_reason"] for e in proxy.chat(n=2, stream=True).events
        ] == [
            None,
            "stop",
            "[DONE]",
        ]


def test_the_deadline_holds_for_what_is_passed_through(server: FakeOpenAI) -> None:
    with proxying(server) as proxy:
        proxy.chat(n=2)  # the first call of the upstream sets up its client, which may take longer than the deadline
        server.default = events(chunk("Hel"), done=False, hold=True)
        stream = proxy.chat(n=2, stream=True, own={"deadline": 1.5}).events
        whole = proxy.chat(n=2, own={"deadline": 0.3})
    assert stream[0]["choices"][0]["delta"]["content"] == "Hel"
    assert (stream[1]["error"]["status"], stream[1]["error"]["code"], stream[2]) == (504, "deadline", "[DONE]")
    assert (whole.status, whole.error["code"]) == (504, "deadline")

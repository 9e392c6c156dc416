"""Bodies that try to reach further than a chat request may: into the upstream call, the access rules, the log."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from corrigenda.server import wire
from corrigenda.server.problems import ApiError
from tests.fake_openai import FakeOpenAI, Reply, answer, error
from tests.server.kit import UPSTREAM_KEY, proxying, scripted, staged, streamed

ODD: list[dict[str, Any]] = [
    {"x_unknown": [1.5, {"a": None}]},
    {"extra_headers": {"Authorization": "Bearer of-the-client", "X-Evil": "1"}},
    {"extra_query": {"admin": "1"}},
    {"extra_body": {"model": "another-model", "tools": ["t"]}},
    {"timeout": 1e-6},
    {"self": 1},
]


@pytest.mark.parametrize("fields", ODD)
@pytest.mark.parametrize("stream", [False, True])
def test_no_field_of_a_request_becomes_an_argument_of_the_upstream_call(
    server: FakeOpenAI, fields: dict[str, Any], stream: bool
) -> None:
    server.default = staged(streamed("Rome has seven hills."))
    with proxying(server, allowed_models=("upstream-model",)) as proxy:
        body = {"messages": [{"role": "user", "content": "How many hills?"}], "stream": stream} | fields
        got = proxy.call("/v1/chat/completions", body)
    assert got.status == 200, got.body
    [answered] = [r for r in server.received if r.body.get("stream")]
    assert {name: answered.body.get(name) for name in fields} == fields
    assert answered.body["model"] == "upstream-model"
    assert answered.path == "/v1/chat/completions"
    assert answered.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert "x-evil" not in answered.headers


@pytest.mark.parametrize("depth", [250, 500, 900])
def test_deep_nesting_is_the_clients_fault_wherever_it_stands(server: FakeOpenAI, depth: int) -> None:
    server.default = staged(streamed("Rome has seven hills."))
    deep = "[" * depth + "]" * depth
    bodies = {
        f'{{"messages": [{{"role": "user", "content": "How many?"}}], "x": {deep}}}': "chat/completions",
        f'{{"messages": [{{"role": "user", "content": "How many?"}}], "n": 2, "x": {deep}}}': "chat/completions",
        f'{{"messages": [{{"role": "user", "content": "How many?", "name": {deep}}}]}}': "chat/completions",
        f'{{"report": {{"schema": {deep}}}}}': "decide",
    }
    with proxying(server) as proxy:
        found = [proxy.call(f"/v1/{path}", raw=body.encode()) for body, path in bodies.items()]
    assert {(got.status, got.error["message"]) for got in found} == {(400, "the body is nested too deeply")}
    assert server.received == []


def test_nesting_that_a_json_schema_may_need_is_taken(server: FakeOpenAI) -> None:
    server.default = staged(streamed("Rome has seven hills."))
    deep: Any = "leaf"
    for _ in range(90):
        deep = {"properties": [deep]}
    with proxying(server) as proxy:
        assert proxy.chat(x=deep).status == 200
    assert next(r for r in server.bodies if r.get("stream"))["x"] == deep


def picky(body: Any) -> Reply:
    """Answer as a server that refuses some values, and caps by their older name."""
    if body.get("temperature", 0) > 1:
        return error(400, {"error": {"message": "temperature must be at most 1", "param": "temperature"}})
    if body.get("seed", 0) > 100:
        return error(400, {"error": {"message": "seed must be below 100"}})
    if "max_tokens" in body:
        said = {"message": "Unsupported parameter: 'max_tokens'; use 'max_completion_tokens'", "param": "max_tokens"}
        return error(400, {"error": said})
    return streamed("Rome has seven hills.")


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"temperature": 1.9}, "temperature must be at most 1"), ({"seed": 500}, "seed must be below 100")],
)
def test_a_setting_that_the_upstream_refuses_is_an_error_and_not_left_out(
    server: FakeOpenAI, fields: dict[str, Any], message: str
) -> None:
    server.default = staged(picky)
    with proxying(server) as proxy:
        got = proxy.chat(**fields)
        assert (got.status, got.error["message"]) == (400, message)
        assert proxy.chat(temperature=0.3, seed=7, max_tokens=50).status == 200
    [answered] = [body for body in server.bodies if body.get("stream") and "max_completion_tokens" in body]
    assert (answered["temperature"], answered["seed"], answered["max_completion_tokens"]) == (0.3, 7, 50)


def test_what_the_upstream_refuses_to_others_is_still_passed_on(server: FakeOpenAI) -> None:
    refusal = error(400, {"error": {"message": "no temperature here", "param": "temperature"}})
    # The recall of a reference sets a temperature of its own, learns that this server takes none, and does without.
    server.default = lambda body: (
        refusal
        if body.get("temperature") == 0
        else answer("Rome stands on seven hills.")
        if not body.get("stream")
        else streamed("Rome has seven hills.")
    )
    with proxying(server) as proxy:
        for _ in range(2):
            assert proxy.chat(temperature=0.3, model="upstream-model").status == 200
    asked = [body.get("temperature") for body in server.bodies if body.get("stream")]
    assert asked == [0.3, 0.3]


MANY = 30_000
MANY_FAULTS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "messages": ("chat/completions", {"messages": [1] * MANY}, "messages.0"),
    "parts": ("chat/completions", {"messages": [{"role": "user", "content": [1] * MANY}]}, "messages.0.content.0"),
    "contexts": ("verify", {"answer": "a", "contexts": [{}] * MANY}, "contexts.0.text"),
    "items": ("verify", {"items": [1] * MANY}, "items.0"),
    "names": ("verify", {"answer": "a"} | {f"x{n}": 1 for n in range(MANY)}, None),
}


@pytest.mark.parametrize("name", MANY_FAULTS)
def test_of_many_faults_one_is_looked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # To describe each of millions takes minutes, in which nobody else is served, and gigabytes.
    path, body, param = MANY_FAULTS[name]
    described: list[int] = []
    explained = wire._explained

    def counting(exc: ValidationError, where: str) -> ApiError:
        described.append(exc.error_count())
        return explained(exc, where)

    monkeypatch.setattr(wire, "_explained", counting)
    with scripted() as server:
        got = server.call(f"/v1/{path}", body)
    assert (got.status, got.error["param"]) == (400, param)
    if name == "names":
        assert got.error["message"] == f"the body: there are {MANY} faults; see /docs for what it may hold"
    else:
        assert described[0] <= 10

"""What can be seen of a server from outside: health, models, metrics, the log; and what must not be seen."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from corrigenda.errors import BackendError, ModelError
from corrigenda.server.edge import Edge
from corrigenda.server.logs import JsonLines, RequestLog, set_up
from corrigenda.server.options import ServerOptions
from corrigenda.server.served import Served
from tests.fake_openai import FakeOpenAI, error
from tests.scripted import ANSWER
from tests.server.kit import UPSTREAM_KEY, Running, proxying, scripted


@pytest.fixture
def log() -> Any:
    """The lines that the server's logger writes, as JSON."""
    stream = io.StringIO()
    set_up(texts=False, stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for name in ("corrigenda.server", "uvicorn", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)


# Health and models ----------------------------------------------------------------------------------------------------


def test_health_says_nothing_about_the_models_and_readiness_does() -> None:
    with scripted() as server:
        assert (server.call("/healthz").status, server.call("/healthz").json) == (200, {"status": "ok"})
        before = server.call("/readyz")
        server.chat()
        after = server.call("/readyz")
        server.app.state.engine.load_error = ModelError("the file is gone")
        broken = server.call("/readyz")
    assert (before.status, before.headers["retry-after"]) == (503, "5")
    assert before.json == {"status": "not ready", "reason": "the models are being loaded"}
    assert (after.status, after.json) == (200, {"status": "ready"})
    assert broken.json["reason"] == "the models cannot be loaded: the file is gone"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (None, None),
        (BackendError("a fault"), "the upstream cannot be reached: a fault"),
        ("401", "the upstream refuses this server's key"),
        ("403", None),
        ("404", None),
        ("500", "the upstream cannot be reached: http"),
    ],
)
def test_readiness_asks_the_upstream(
    server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, failure: Any, reason: str | None
) -> None:
    with proxying(server) as proxy:
        proxy.chat(n=2)
        upstream = proxy.app.state.engine._server
        if isinstance(failure, str):
            server.on_get = error(int(failure), {"error": {"message": "no"}})
        elif failure is None:
            server.on_get = None
        else:

            async def models(timeout_s: float) -> Any:
                raise failure

            monkeypatch.setattr(upstream, "models", models)
        got = proxy.call("/readyz")
        again = proxy.call("/readyz")
    assert got.json == again.json
    if reason is None:
        assert (got.status, got.json) == (200, {"status": "ready"})
    else:
        assert got.status == 503
        assert got.json["reason"].startswith(reason)
    assert len(server.got) <= 1
    assert all(headers["authorization"] == f"Bearer {UPSTREAM_KEY}" for _, headers in server.got)


def test_models_are_the_upstreams_own(server: FakeOpenAI) -> None:
    with proxying(server) as proxy, proxy.client() as client:
        assert [model.id for model in client.models.list()] == ["upstream-model", "other/model"]
        assert client.models.retrieve("other/model").id == "other/model"
        missing = proxy.call("/v1/models/none")
    assert (missing.status, missing.error["code"]) == (404, "model_not_found")
    with proxying(server, allowed_models=("other/model",)) as proxy, proxy.client() as client:
        assert [model.id for model in client.models.list()] == ["other/model"]


def test_another_upstream_is_the_one_model() -> None:
    with scripted() as server, server.client() as client:
        assert [model.id for model in client.models.list()] == ["scripted"]
        assert client.models.retrieve("scripted").owned_by == "corrigenda"


# Metrics --------------------------------------------------------------------------------------------------------------


def numbers(server: Running) -> dict[str, float]:
    got = server.call("/metrics")
    assert got.headers["content-type"].startswith("text/plain")
    lines = [line for line in got.body.decode().splitlines() if not line.startswith("#") and "_created" not in line]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_what_was_done() -> None:
    with scripted() as server:
        server.chat()
        server.chat(stream=True)
        server.chat(mode="off")
        server.chat(model=5)
        server.call("/nothing/here")
        report = server.call("/v1/verify", {"answer": ANSWER, "contexts": ["Seven."]}).json
        server.call("/v1/decide", {"report": report})
        found = numbers(server)
    expected = {
        'corrigenda_requests_total{route="/v1/chat/completions",status="200"}': 3,
        'corrigenda_requests_total{route="/v1/chat/completions",status="400"}': 1,
        'corrigenda_requests_total{route="/v1/verify",status="200"}': 1,
        'corrigenda_requests_total{route="/v1/decide",status="200"}': 1,
        'corrigenda_requests_total{route="other",status="404"}': 1,
        'corrigenda_reports_total{status="corrected"}': 3,
        'corrigenda_claims_total{verdict="contradicted"}': 3,
        'corrigenda_claims_total{verdict="supported"}': 3,
        'corrigenda_passed_through_total{reason="off"}': 1,
        'corrigenda_errors_total{code="invalid_request_error"}': 1,
        'corrigenda_errors_total{code="not_found_error"}': 1,
        'corrigenda_tokens_total{kind="completion",stage="generate"}': 20,
        'corrigenda_tokens_total{kind="prompt",stage="recall"}': 60,
        'corrigenda_stage_seconds_count{stage="generate"}': 2,
        "corrigenda_working": 0,
        "corrigenda_waiting": 0,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["corrigenda_verifier_pairs_sum"] >= 6


def test_no_label_holds_what_clients_choose() -> None:
    with scripted() as server:
        server.call("/v1/models/secret-name")
        server.call("/secret/path")
        server.chat(model="secret-model", own={"secret": 1})
        server.call("/healthz", x_request_id="secret-id")
        assert "secret" not in server.call("/metrics").body.decode()


# The log --------------------------------------------------------------------------------------------------------------


def test_each_request_is_one_line_without_texts(log: Any) -> None:
    with scripted() as server:
        server.call("/healthz")
        server.call("/v1/chat/completions", _chat("How many hills?"), x_request_id="r-1")
        server.call("/v1/verify", {"answer": "", "question": "secret?"}, x_request_id="r-2")
    first, second = log()
    times = {name: first.pop(name) for name in ("time", "seconds", "queued_s", "first_s") if name in first}
    assert times["time"].endswith("+00:00")
    assert first == {
        "level": "info",
        "event": "request",
        "request_id": "r-1",
        "method": "POST",
        "route": "/v1/chat/completions",
        "status": 200,
        "model": "scripted",
        "mode": "correct",
        "finish_reason": "stop",
        "reports": {"corrected": 1},
        "claims": {"contradicted": 1, "supported": 1},
    }
    assert (second["request_id"], second["status"], second["error"]) == ("r-2", 400, "invalid_request_error")
    assert "hills" not in json.dumps([first, second])
    assert "secret" not in json.dumps([first, second])


def _chat(question: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": question}]}


def test_a_failure_is_logged_by_its_kind_and_place_and_not_by_its_message(log: Any) -> None:
    with scripted([]) as server:  # the script's complaint quotes the request
        got = server.chat(messages=[{"role": "user", "content": "a very private question"}])
        assert got.status == 502
    [line] = log()
    assert (line["level"], line["status"], line["error"], line["exception"]) == (
        "warning",
        502,
        "upstream_error",
        "BadReply",
    )
    assert line["raised_at"]
    assert "private" not in json.dumps(line)


def test_texts_are_logged_only_when_asked_for(log: Any) -> None:
    with scripted(log_texts=True) as server:
        server.chat()
    [line] = log()
    assert line["texts"] == [
        {
            "question": "How many hills has Rome?",
            "answer": ANSWER,
            "final_answer": "Rome has seven hills. It is in Italy.",
        }
    ]


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "a\nb\x1b[2J\u2028c", None, None)
    line = JsonLines().format(record)
    assert json.loads(line)["event"] == "a\nb\x1b[2J\u2028c"
    assert line.isprintable()


def test_an_observer_that_raises_is_logged_and_stops_nothing(log: Any) -> None:
    def odd(served: Served) -> None:
        raise ValueError("private")

    with scripted() as server:
        options = server.app.user_middleware[0].kwargs["options"]
        assert isinstance(options, ServerOptions)
        edge = Edge(server.app, options=ServerOptions(observers=(odd,)), hide=str)
        edge._tell(Served(request_id="r", method="GET"))
        assert server.chat().status == 200
    assert [(line["event"], line.get("exception")) for line in log()] == [
        ("an observer failed", "ValueError"),
        ("request", None),
    ]
    assert "private" not in json.dumps(log())


def test_with_texts_an_exceptions_message_is_given() -> None:
    try:
        raise BackendError("said") from ValueError("cause")
    except BackendError as exc:
        served = Served(request_id="r", method="GET", status=502, exception=exc)
    stream = io.StringIO()
    set_up(texts=True, stream=stream)
    RequestLog(texts=True).observe(served)
    line = json.loads(stream.getvalue())
    assert (line["exception"], line["cause"], line["message"]) == ("BackendError", "ValueError", "said")
    logging.getLogger("corrigenda.server").handlers.clear()

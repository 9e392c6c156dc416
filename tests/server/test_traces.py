"""Traces of what the server does: off unless they are asked for, and each in the trace of its request."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from corrigenda.errors import BackendError
from tests.collector import Collector, collecting
from tests.fake_openai import FakeOpenAI, chunk, error, events
from tests.recorded import PARENT, REPORT_SPAN, TRACE, TRACEPARENT, Recorded
from tests.scripted import ANSWER
from tests.server.kit import QUESTION, Running, proxying, scripted, staged
from tests.server.test_leaving import leave, sent
from tests.server.test_serve import command, run, started

CONTEXT = "Rome, in Italy, stands on seven hills."
CHAT = {"model": "m", "messages": QUESTION}
VERIFY = {"answer": ANSWER, "contexts": [CONTEXT], "mode": "check"}


def places(recorded: Recorded) -> list[tuple[str, str]]:
    """Return the trace and the parent of each report's span."""
    assert all(span.parent is not None and span.parent.is_remote for span in recorded.reports)
    return [(f"{s.parent.trace_id:032x}", f"{s.parent.span_id:016x}") for s in recorded.reports if s.parent is not None]


def told(span: ReadableSpan) -> tuple[Any, ...]:
    attributes = span.attributes or {}
    return tuple(attributes.get(name) for name in ("corrigenda.mode", "corrigenda.status", "error.type"))


@pytest.mark.parametrize(
    ("path", "body", "mode", "status"),
    [
        ("/v1/chat/completions", CHAT, "ask", "corrected"),
        ("/v1/chat/completions", {**CHAT, "stream": True}, "ask", "corrected"),
        ("/v1/verify", VERIFY, "check", "contradicted"),
    ],
)
def test_a_report_belongs_to_the_trace_of_its_request(path: str, body: Any, mode: str, status: str) -> None:
    recorded = Recorded()
    with scripted(telemetry=recorded.telemetry) as server:
        assert server.call(path, body, traceparent=TRACEPARENT).status == 200
    assert places(recorded) == [(TRACE, PARENT)]
    assert [told(span) for span in recorded.reports] == [(mode, status, None)]
    [whole] = recorded.reports
    assert whole.context is not None
    below = [s for s in recorded.spans if s is not whole]
    assert {s.name for s in below} >= {"decompose", "entail", "decide"}
    assert {s.parent.span_id for s in below if s.parent is not None} == {whole.context.span_id}
    assert {s.context.trace_id for s in recorded.spans if s.context is not None} == {int(TRACE, 16)}
    assert {event.trace_id for event in recorded.events} == {int(TRACE, 16)}
    assert len(recorded.events) == 2
    assert "Rome" not in recorded.everything()


def test_each_answer_of_a_batch_is_a_report_in_the_same_trace() -> None:
    recorded = Recorded()
    with scripted(telemetry=recorded.telemetry) as server:
        items = [{"answer": ANSWER, "contexts": [CONTEXT]}, {"answer": "It is in Italy.", "contexts": [CONTEXT]}]
        assert server.call("/v1/verify", {"items": items, "mode": "check"}, traceparent=TRACEPARENT).status == 200
    assert places(recorded) == [(TRACE, PARENT)] * 2
    assert {told(span)[1] for span in recorded.reports} == {"contradicted", "verified"}


def test_without_a_traceparent_each_request_is_a_trace_of_its_own() -> None:
    recorded = Recorded()
    with scripted(telemetry=recorded.telemetry) as server:
        assert server.call("/v1/verify", VERIFY).status == 200
        for wrong in ("nonsense", f"00-{'0' * 32}-{PARENT}-01"):
            assert server.call("/v1/verify", VERIFY, traceparent=wrong).status == 200
    assert [span.parent for span in recorded.reports] == [None] * 3
    assert len({span.context.trace_id for span in recorded.reports if span.context is not None}) == 3


def test_a_trace_that_is_not_sampled_is_not_recorded() -> None:
    recorded = Recorded()
    with scripted(telemetry=recorded.telemetry) as server:
        assert server.call("/v1/verify", VERIFY, traceparent=f"{TRACEPARENT[:-1]}0").status == 200
    assert recorded.spans == []


def test_what_makes_no_report_is_not_recorded() -> None:
    recorded = Recorded()
    with scripted(telemetry=recorded.telemetry) as server:
        report = server.call("/v1/verify", VERIFY).json
        assert server.call("/v1/decide", {"report": report}).status == 200
        assert server.chat(mode="off").status == 200
        assert server.chat(messages=[]).status == 400
    assert [told(span)[0] for span in recorded.reports] == ["check"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_marks_the_span_and_quotes_nothing(server: FakeOpenAI, stream: bool) -> None:
    recorded = Recorded()
    server.default = staged(error(500, {"error": {"message": "no answer about Rome"}}))
    with proxying(server, telemetry=recorded.telemetry) as proxy:
        assert proxy.call("/v1/chat/completions", {**CHAT, "stream": stream}, traceparent=TRACEPARENT).status == 502
    assert places(recorded) == [(TRACE, PARENT)]
    assert [told(span) for span in recorded.reports] == [("ask", None, BackendError.__name__)]
    assert "Rome" not in recorded.everything()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_ends_the_span(server: FakeOpenAI, stream: bool) -> None:
    recorded = Recorded()
    server.default = staged(events(chunk("Rome has 5 hills. It is"), done=False, hold=True))
    with proxying(server, telemetry=recorded.telemetry, request_timeout=30.0) as proxy:
        plain = sent(proxy, stream=stream, corrigenda={"language": "en"})
        assert server.asked.wait(10)
        leave(plain)
        proxy.until(lambda: bool(recorded.reports))
    assert [told(span) for span in recorded.reports] == [("ask", None, "CancelledError")]


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def post(port: int, path: str, body: Any, **headers: str) -> int:
    return Running(port=port, app=None, server=None, loop=None).call(path, body, **headers).status  # type: ignore[arg-type]


def stopped(process: Any) -> list[Any]:
    """Stop a server and return its log's lines."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    return [json.loads(line) for line in process.stderr.read().splitlines()]


@pytest.mark.parametrize("named_by", ["flag", "environment"])
def test_the_command_sends_the_requests_trace_to_the_collector_that_is_named(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    flags = ["--otlp", collector.url]
    if named_by == "environment":
        flags = ["--otlp"]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with started(command(tmp_path, *flags), tmp_path) as (process, port):
        assert post(port, "/v1/chat/completions", CHAT, traceparent=TRACEPARENT) == 200
        assert post(port, "/v1/chat/completions", {**CHAT, "stream": True}, traceparent=TRACEPARENT) == 200
        stopped(process)
    spans, records = [], []
    for path, body in collector.got:
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            spans += [s for found in traces.resource_spans for scope in found.scope_spans for s in scope.spans]
        else:
            assert path == "/v1/logs"
            logs = ExportLogsServiceRequest.FromString(body)
            records += [r for found in logs.resource_logs for scope in found.scope_logs for r in scope.log_records]
        assert b"Rome" not in body
    reports = [span for span in spans if span.name == REPORT_SPAN]
    assert [(span.trace_id.hex(), span.parent_span_id.hex()) for span in reports] == [(TRACE, PARENT)] * 2
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert [(record.event_name, record.trace_id.hex()) for record in records] == [
        ("gen_ai.evaluation.result", TRACE)
    ] * 4


def test_without_the_flag_nothing_is_sent_wherever_the_environment_points(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "_TRACES", "_LOGS"):
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP{name}_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    with started(command(tmp_path), tmp_path) as (process, port):
        assert post(port, "/v1/chat/completions", CHAT, traceparent=TRACEPARENT) == 200
        stopped(process)
    assert collector.got == []


def test_a_collector_that_is_not_there_hinders_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with collecting() as gone:
        address = gone.url
    with started(command(tmp_path, "--otlp", address), tmp_path) as (process, port):
        assert post(port, "/v1/chat/completions", CHAT) == 200
        lines = stopped(process)
    assert [line["status"] for line in lines if line["event"] == "request"] == [200]
    assert "Failed to export spans batch due to timeout, max retries or shutdown." in {line["event"] for line in lines}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--otlp"], "--otlp needs the collector's address (http://localhost:4318), or OTEL_EXPORTER_OTLP_ENDPOINT"),
        (["--otlp", "localhost"], "the OTLP endpoint must be an address such as http://localhost:4318"),
        (["--otlp-texts"], "--otlp-texts says what is sent, and nothing is without --otlp"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    done = run([*command(tmp_path), *flags], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr

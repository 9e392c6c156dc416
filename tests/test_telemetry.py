"""Traces: the spans of a report and its stages, one event per claim, and no text unless it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from corrigenda import ConfigError, MissingExtra, Report, Retrieval, Status, Timing, Verdict, __version__
from corrigenda.telemetry import Telemetry
from tests.collector import Collector, collecting
from tests.recorded import PARENT, REPORT_SPAN, TRACE, TRACEPARENT, Recorded
from tests.scripted import ANSWER, ASKED, check, make


def asked(recorded: Recorded) -> Report:
    with make(ASKED) as c, recorded.telemetry.recording("ask") as recording:
        report = c.ask_sync("How many hills has Rome?")
        recording.report = report
    return report


def test_a_report_is_a_span_and_each_stage_one_below_it() -> None:
    recorded = Recorded()
    report = asked(recorded)
    whole = recorded.named(REPORT_SPAN)
    assert report.decision is not None
    assert dict(whole.attributes or {}) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": "corrigenda",
        "gen_ai.agent.version": __version__,
        "corrigenda.mode": "ask",
        "corrigenda.status": "corrected",
        "corrigenda.claims": 2,
        "corrigenda.claims.supported": 1,
        "corrigenda.claims.contradicted": 1,
        "corrigenda.claims.unverified": 0,
        "corrigenda.claims.not_checkable": 0,
        "corrigenda.claims.failed": 0,
        "corrigenda.edits": 1,
        "corrigenda.models.chat": "scripted",
        "corrigenda.models.verifier": "scripted",
        "corrigenda.models.decomposer": "deterministic",
        "corrigenda.policy": "bounded",
        "corrigenda.k": 0.7,
        "corrigenda.tau": report.decision.tau,
    }
    assert whole.status.is_unset
    assert whole.kind is trace.SpanKind.INTERNAL
    assert whole.context is not None
    stages = [s for s in recorded.spans if s is not whole]
    assert {s.name for s in stages} == {t.stage for t in report.timings}
    assert len(stages) == len(report.timings)
    for span in stages:
        assert span.parent is not None
        assert span.parent.span_id == whole.context.span_id
        assert (whole.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (whole.end_time or 0)


def test_a_stage_that_calls_the_chat_model_says_which_and_what_it_cost() -> None:
    recorded = Recorded()
    asked(recorded)
    generate, recall, entail = recorded.named("generate"), recorded.named("recall"), recorded.named("entail")
    assert dict(generate.attributes or {}) == {
        "corrigenda.stage": "generate",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "custom",
        "gen_ai.request.model": "scripted",
        "corrigenda.calls": 1,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
    }
    assert (recall.attributes or {})["gen_ai.usage.output_tokens"] == 7
    assert generate.kind is trace.SpanKind.CLIENT
    assert entail.kind is trace.SpanKind.INTERNAL
    assert "gen_ai.usage.output_tokens" not in (recorded.named("correct").attributes or {})
    assert (entail.attributes or {})["corrigenda.verifier"] == "scripted"


def test_spans_show_that_recall_runs_beside_generate() -> None:
    recorded = Recorded()
    report = check(ANSWER)
    timings = (
        Timing(stage="generate", start_s=0.0, end_s=0.5),
        Timing(stage="recall", start_s=0.1, end_s=0.4),
        Timing(stage="entail", start_s=0.4, end_s=0.6),
        Timing(stage="entail", start_s=0.7, end_s=0.8),
    )
    recorded.telemetry.record("ask", _with(report, timings=timings))
    start = recorded.named(REPORT_SPAN).start_time or 0
    placed = [(s.name, round(((s.start_time or 0) - start) / 1e9, 6)) for s in recorded.spans]
    assert placed == [(REPORT_SPAN, 0.0), ("generate", 0.0), ("recall", 0.1), ("entail", 0.4), ("entail", 0.7)]
    lengths = [round(((s.end_time or 0) - (s.start_time or 0)) / 1e9, 6) for s in recorded.spans]
    assert lengths == [0.8, 0.5, 0.3, 0.2, 0.1]


def test_a_stages_calls_are_told_once_however_often_it_ran() -> None:
    recorded = Recorded()
    timings = tuple(Timing(stage="entail", start_s=n, end_s=n + 0.5) for n in range(3))
    recorded.telemetry.record("check", _with(check(ANSWER, chat=ASKED), timings=timings))
    calls = [(s.attributes or {}).get("corrigenda.calls") for s in recorded.spans if s.name == "entail"]
    assert calls == [2, None, None]  # the answer's claims, and the rewrite's


def test_every_claim_is_an_event_at_the_answers_span() -> None:
    recorded = Recorded()
    asked(recorded)
    generate = recorded.named("generate").context
    assert generate is not None
    assert [e.event_name for e in recorded.events] == ["gen_ai.evaluation.result"] * 2
    assert [(e.trace_id, e.span_id) for e in recorded.events] == [(generate.trace_id, generate.span_id)] * 2
    assert [dict(e.attributes) for e in recorded.events] == [
        {
            "gen_ai.evaluation.name": "claim_support",
            "gen_ai.evaluation.score.label": "contradicted",
            "gen_ai.evaluation.score.value": -0.98,
            "corrigenda.claim.index": 0,
            "corrigenda.claim.sentence": 0,
            "corrigenda.claim.start": 0,
            "corrigenda.claim.end": 17,
        },
        {
            "gen_ai.evaluation.name": "claim_support",
            "gen_ai.evaluation.score.label": "supported",
            "gen_ai.evaluation.score.value": 0.98,
            "corrigenda.claim.index": 1,
            "corrigenda.claim.sentence": 1,
            "corrigenda.claim.start": 18,
            "corrigenda.claim.end": 33,
        },
    ]


def test_of_an_answer_that_was_given_the_events_are_at_the_reports_span() -> None:
    recorded = Recorded()
    with make(None) as c, recorded.telemetry.recording("check") as recording:
        recording.report = c.check_sync(ANSWER, context="Rome stands on seven hills.")
    whole = recorded.named(REPORT_SPAN).context
    assert whole is not None
    assert {e.span_id for e in recorded.events} == {whole.span_id}


def test_no_text_is_recorded_unless_it_is_asked_for() -> None:
    recorded = Recorded()
    with make(ASKED, nli=[{"error": "cannot score Rome"}]) as c, recorded.telemetry.recording("ask") as recording:
        recording.report = c.ask_sync("How many hills has Rome?")
    assert recording.report is not None
    assert recording.report.status is Status.FAILED
    for text in ("Rome", "hills", "Italy"):
        assert text not in recorded.everything()
    whole = recorded.named(REPORT_SPAN)
    assert (whole.status.status_code, whole.status.description) == (trace.StatusCode.ERROR, None)
    assert (whole.attributes or {})["error.type"] == "failed"
    assert [e.attributes["error.type"] for e in recorded.events] == ["failed", "failed"]


def test_texts_are_recorded_when_they_are_asked_for() -> None:
    recorded = Recorded(content=True)
    asked(recorded)
    attributes = recorded.named(REPORT_SPAN).attributes or {}
    assert json.loads(str(attributes["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "How many hills has Rome?"}]}
    ]
    assert json.loads(str(attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Rome has seven hills. It is in Italy."}],
            "finish_reason": "stop",
        }
    ]
    first = recorded.events[0].attributes
    assert first["corrigenda.claim.text"] == "Rome has 5 hills."
    assert first["corrigenda.claim.evidence"] == "Rome stands on seven hills."


def test_an_exception_marks_the_span_without_quoting_it() -> None:
    recorded = Recorded()
    with pytest.raises(ValueError, match="Rome"), recorded.telemetry.recording("ask"):
        raise ValueError("no answer about Rome")
    whole = recorded.named(REPORT_SPAN)
    assert ((whole.attributes or {})["error.type"], whole.status.description) == ("ValueError", None)
    assert whole.events == ()
    assert "Rome" not in recorded.everything()


def test_the_reports_span_is_current_inside_the_block_and_below_the_callers() -> None:
    recorded = Recorded()
    tracer = recorded.traces.get_tracer("an application")
    with tracer.start_as_current_span("request") as outer, recorded.telemetry.recording("check"):
        inside = trace.get_current_span().get_span_context()
    whole = recorded.named(REPORT_SPAN)
    assert whole.context == inside
    assert whole.parent is not None
    assert whole.parent.span_id == outer.get_span_context().span_id
    with recorded.telemetry.recording("check", current=False):
        assert not trace.get_current_span().get_span_context().is_valid


def test_the_trace_of_a_request_goes_on() -> None:
    recorded = Recorded()
    headers = {"Traceparent": TRACEPARENT, "Other": "x"}
    recorded.telemetry.record("check", check(ANSWER), headers=headers)
    with recorded.telemetry.recording("ask", headers={"traceparent": "nonsense"}):
        pass
    first, second = recorded.reports
    assert first.parent is not None
    assert (f"{first.parent.trace_id:032x}", f"{first.parent.span_id:016x}") == (TRACE, PARENT)
    assert second.parent is None
    assert {e.trace_id for e in recorded.events} == {first.parent.trace_id}


def test_without_a_trace_of_its_own_a_request_stays_in_the_applications() -> None:
    recorded = Recorded()
    with recorded.traces.get_tracer("an application").start_as_current_span("request") as outer:
        recorded.telemetry.record("check", check(ANSWER), headers={"Other": "x"})
        recorded.telemetry.record("check", check(ANSWER), headers={"traceparent": TRACEPARENT})
    first, second = (s.parent.span_id for s in recorded.reports if s.parent is not None)
    assert (first, f"{second:016x}") == (outer.get_span_context().span_id, PARENT)


def test_the_model_and_its_provider_come_from_the_reports_name_of_it() -> None:
    recorded = Recorded()
    report = _with(check(ANSWER, chat=ASKED), models={"chat": "openai:gpt-4o-mini", "verifier": None})
    recorded.telemetry.record("check", report)
    attributes = recorded.named("correct").attributes or {}
    assert attributes["gen_ai.provider.name"] == "openai"
    assert attributes["gen_ai.request.model"] == "gpt-4o-mini"


def test_retrieval_is_an_operation_of_its_own() -> None:
    recorded = Recorded()
    looked_up = Retrieval(
        claim=0,
        query="q",
        passages=(),
        signed=None,
        decides=False,
        before=Verdict.UNVERIFIED,
        before_signed=0.0,
        after=Verdict.UNVERIFIED,
        after_signed=0.0,
    )
    timings = (Timing(stage="retrieve", start_s=0.0, end_s=0.1),)
    recorded.telemetry.record("check", _with(check(ANSWER), timings=timings, retrieval=(looked_up,)))
    assert dict(recorded.named("retrieve").attributes or {}) == {
        "corrigenda.stage": "retrieve",
        "gen_ai.operation.name": "retrieval",
    }


def test_a_report_without_claims_or_timings_is_recorded_too() -> None:
    recorded = Recorded(content=True)
    bare = Report(question="q\ud800", answer="", final_answer="", status=Status.ABSTAINED)
    recorded.telemetry.record("ask", bare)
    [whole] = recorded.spans
    assert (whole.attributes or {})["corrigenda.status"] == "abstained"
    assert recorded.events == []
    str((whole.attributes or {})["gen_ai.input.messages"]).encode("utf-8")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def test_exporting_sends_spans_and_events_to_the_collector_that_was_named(collector: Collector) -> None:
    telemetry = Telemetry.exporting(collector.url + "/")
    telemetry.record("check", check(ANSWER))
    telemetry.close()
    bodies = dict(collector.got)
    assert sorted(bodies) == ["/v1/logs", "/v1/traces"]
    traces = ExportTraceServiceRequest.FromString(bodies["/v1/traces"])
    [resource] = traces.resource_spans
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert (names["service.name"], names["service.version"]) == ("corrigenda", __version__)
    assert REPORT_SPAN in {span.name for scope in resource.scope_spans for span in scope.spans}
    logs = ExportLogsServiceRequest.FromString(bodies["/v1/logs"])
    records = [r for found in logs.resource_logs for scope in found.scope_logs for r in scope.log_records]
    assert [record.event_name for record in records] == ["gen_ai.evaluation.result"] * 2
    assert b"Rome" not in bodies["/v1/traces"] + bodies["/v1/logs"]
    telemetry.close()  # a second time does nothing


def test_a_service_name_of_the_environment_is_kept(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-checker")
    telemetry = Telemetry.exporting(collector.url)
    telemetry.record("check", check(ANSWER))
    telemetry.close()
    traces = ExportTraceServiceRequest.FromString(dict(collector.got)["/v1/traces"])
    names = {a.key: a.value.string_value for a in traces.resource_spans[0].resource.attributes}
    assert names["service.name"] == "my-checker"


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://localhost", "http://", ""])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="the OTLP endpoint must be an address such as http://localhost:4318, got"):
        Telemetry.exporting(endpoint)


def test_without_providers_nothing_is_recorded_and_nothing_breaks() -> None:
    telemetry = Telemetry()
    telemetry.record("check", check(ANSWER))
    with telemetry.recording("check") as recording:
        recording.report = check(ANSWER)
    telemetry.close()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corrigenda.telemetry.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"opentelemetry.trace.* run: pip install \"corrigenda\[otel\]\""):
        Telemetry()
    monkeypatch.undo()

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("corrigenda.telemetry.find_spec", missing)
    with pytest.raises(MissingExtra, match=r"corrigenda\[otel\]"):
        Telemetry()


def test_the_pipeline_imports_no_opentelemetry() -> None:
    code = (
        "import sys, corrigenda.telemetry\n"
        "from corrigenda import Corrigenda\n"
        "from tests.scripted import check\n"
        "check('Rome has 5 hills.')\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _with(report: Report, **changes: Any) -> Report:
    return replace(report, **changes)

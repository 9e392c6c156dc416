"""OpenTelemetry traces of reports, for those who ask for them: nothing is recorded and nothing is sent otherwise.

Names follow the GenAI semantic conventions 0.1.0 (github.com/open-telemetry/semantic-conventions-genai, status
*development*). A report is a span `invoke_workflow corrigenda` with one child span for each run of a stage, made
of the finished report's timings, so that the pipeline knows nothing of OpenTelemetry. Every claim is an event
`gen_ai.evaluation.result`, as a log record, since OpenTelemetry gives up events on spans; it belongs to the span of
the stage that wrote the answer, or to the report's where the answer was given.

Questions, answers, claims, references and reasons are left out unless `content` is asked for.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from corrigenda import __version__
from corrigenda.errors import ConfigError, MissingExtra
from corrigenda.terminal import without_credentials
from corrigenda.types import Claim, Report, StageUsage, Status, Timing, Verdict

if TYPE_CHECKING:
    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

Value = str | int | float | bool | Sequence[str]
Mode = Literal["ask", "check"]
WORKFLOW = "corrigenda"
EVENT = "gen_ai.evaluation.result"
EVALUATION = "claim_support"
"""What the events measure; their score is the claim's signed score, in [-1, 1], and their label its verdict."""
_SECOND = 1_000_000_000
_NEEDS = "recording OpenTelemetry traces"


@dataclass(slots=True)
class Recording:
    """A report while it is recorded: put the finished report here."""

    report: Report | None = None


class Telemetry:
    """Records reports with the providers that it is given, or with those that the application has set up.

    Without either, OpenTelemetry drops what is recorded. No exporter is ever set up here but by `exporting`.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        content: bool = False,
    ) -> None:
        """Take the providers (None: the application's own). With `content`, texts are recorded too.

        Raises MissingExtra when opentelemetry is not installed.
        """
        _require("opentelemetry.trace")
        from opentelemetry import _logs, trace  # noqa: PLC0415  # optional, and only for those who ask

        self.content = content
        self._tracer: Tracer = trace.get_tracer("corrigenda", __version__, tracer_provider)
        self._logger: Logger = _logs.get_logger("corrigenda", __version__, logger_provider)
        self._owned: list[Any] = []

    @classmethod
    def exporting(cls, endpoint: str, *, content: bool = False) -> Telemetry:
        """Return one that sends what it records to an OTLP collector, over HTTP, and nowhere else.

        `endpoint` is the collector's address without a path (`http://localhost:4318`). Headers, certificates and the
        like come from the environment's `OTEL_EXPORTER_OTLP_…`, as for every OTLP exporter. Call `close` at the end.
        Raises ConfigError when the address is none, and MissingExtra.
        """
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = without_credentials(endpoint)
            raise ConfigError(f"the OTLP endpoint must be an address such as http://localhost:4318, got {shown!r}")
        _require("opentelemetry.exporter.otlp.proto.http")
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415  # as above
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk._logs import LoggerProvider as Logs  # noqa: PLC0415
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider as Traces  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        base = endpoint.rstrip("/")
        named = Resource.create({"service.version": __version__})
        if str(named.attributes.get("service.name", "")).startswith("unknown_service"):
            named = named.merge(Resource({"service.name": WORKFLOW}))
        traces, logs = Traces(resource=named), Logs(resource=named)
        traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces")))
        logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{base}/v1/logs")))
        made = cls(tracer_provider=traces, logger_provider=logs, content=content)
        made._owned = [traces, logs]
        return made

    def close(self) -> None:
        """Send what is left and stop the exporters that `exporting` made; providers that were given stay open.

        Where the collector does not answer, this takes half a minute at most.
        """
        ends = [threading.Thread(target=provider.shutdown, daemon=True) for provider in self._owned]
        self._owned.clear()
        for end in ends:  # beside each other, since each may have to wait for the collector
            end.start()
        for end in ends:
            end.join()

    @contextmanager
    def recording(
        self, mode: Mode, *, current: bool = True, headers: Mapping[str, str] | None = None
    ) -> Iterator[Recording]:
        """Record the report that the block makes and puts into the value's `report`; an exception marks the span.

        With `current` the report's span is the current one inside the block, so that other instrumentation's spans
        hang below it. Leave it off where the block spans the steps of an asynchronous generator. `headers` are those
        of the request that asked for the report: its trace (`traceparent`) goes on here.
        """
        from opentelemetry.trace import set_span_in_context, use_span  # noqa: PLC0415  # as above

        span = self._begin(mode, headers)
        recording = Recording()
        try:
            if current:
                with use_span(span, record_exception=False, set_status_on_exception=False):
                    yield recording
            else:
                yield recording
        except BaseException as exc:
            _fail(span, type(exc).__qualname__, str(exc) if self.content else None)
            raise
        finally:
            now = time.time_ns()
            if recording.report is not None:
                self._write(recording.report, span, set_span_in_context(span), now)
            span.end(now)

    def record(self, mode: Mode, report: Report, *, headers: Mapping[str, str] | None = None) -> None:
        """Record a report that has just been finished; its span begins when the report did. `headers` as above."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415  # as above

        now = time.time_ns()
        span = self._begin(mode, headers, now - round(_length(report) * _SECOND))
        self._write(report, span, set_span_in_context(span), now)
        span.end(now)

    def _begin(self, mode: Mode, headers: Mapping[str, str] | None, start: int | None = None) -> Span:
        """Begin the report's span, in the trace of `headers` or, where they name none, in the current one."""
        from opentelemetry.context import get_current  # noqa: PLC0415  # as above
        from opentelemetry.propagate import extract  # noqa: PLC0415

        # Names in headers are compared in lower case.
        around = extract({name.lower(): value for name, value in (headers or {}).items()}, get_current())
        name = f"invoke_workflow {WORKFLOW}"
        return self._tracer.start_span(name, context=around, attributes=_workflow(mode), start_time=start)

    def _write(self, report: Report, span: Span, below: Context, now: int) -> None:
        """Write what the report says to its span, its stages' spans and its claims' events."""
        span.set_attributes(_described(report) | (_texts(report) if self.content else {}))
        if report.status is Status.FAILED:
            _fail(span, "failed", report.reason if self.content else None)
        started = now - round(_length(report) * _SECOND)
        answered = below
        told: set[str] = set()
        for timing in report.timings:
            context = self._stage(report, timing, below, started, first=timing.stage not in told)
            told.add(timing.stage)
            if timing.stage == "generate":
                answered = context
        for index, claim in enumerate(report.claims):
            self._event(index, claim, answered, now)

    def _stage(self, report: Report, timing: Timing, below: Context, started: int, *, first: bool) -> Context:
        """Record one run of a stage; its first run carries what all of its calls cost."""
        from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415  # as above

        usage = report.usage.get(timing.stage)
        chats = usage is not None and timing.stage not in ("entail", "retrieve")
        attributes: dict[str, Value] = {"corrigenda.stage": timing.stage}
        if chats:
            attributes |= {"gen_ai.operation.name": "chat"} | _model(report.models.get("chat"))
        if timing.stage == "retrieve":
            attributes["gen_ai.operation.name"] = "retrieval"
        if timing.stage == "entail" and (verifier := report.models.get("verifier")):
            attributes["corrigenda.verifier"] = verifier
        if usage is not None and first:
            attributes |= _cost(usage)
        span = self._tracer.start_span(
            timing.stage,
            context=below,
            kind=SpanKind.CLIENT if chats else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=started + round(timing.start_s * _SECOND),
        )
        span.end(started + round(timing.end_s * _SECOND))
        return set_span_in_context(span)

    def _event(self, index: int, claim: Claim, context: Context, now: int) -> None:
        from opentelemetry._logs import SeverityNumber  # noqa: PLC0415  # as above

        attributes: dict[str, Value] = {
            "gen_ai.evaluation.name": EVALUATION,
            "gen_ai.evaluation.score.label": str(claim.verdict),
            "corrigenda.claim.index": index,
            "corrigenda.claim.sentence": claim.sentence,
        }
        if claim.signed is not None:
            attributes["gen_ai.evaluation.score.value"] = claim.signed
        if claim.span is not None:
            attributes |= {"corrigenda.claim.start": claim.span.start, "corrigenda.claim.end": claim.span.end}
        if claim.verdict is Verdict.FAILED:
            attributes["error.type"] = "failed"
        if self.content:
            attributes["corrigenda.claim.text"] = _encodable(claim.text)
            if claim.reason is not None:
                attributes["gen_ai.evaluation.explanation"] = _encodable(claim.reason)
            if claim.evidence is not None:
                attributes["corrigenda.claim.evidence"] = _encodable(claim.evidence.text)
        self._logger.emit(
            timestamp=now,
            context=context,
            severity_number=SeverityNumber.INFO,
            attributes=attributes,
            event_name=EVENT,
        )


def _require(package: str) -> None:
    """Raise MissingExtra when `package` is not installed."""
    try:
        found = find_spec(package)
    except ModuleNotFoundError:  # a package above it is missing
        found = None
    if found is None:
        raise MissingExtra(_NEEDS, package, "otel")


def _workflow(mode: Mode) -> dict[str, Value]:
    return {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": WORKFLOW,
        "gen_ai.agent.version": __version__,
        "corrigenda.mode": mode,
    }


def _described(report: Report) -> dict[str, Value]:
    """Return what the report says without any text of the question, the answer or the references."""
    found: dict[str, Value] = {"corrigenda.status": str(report.status), "corrigenda.claims": len(report.claims)}
    found |= {f"corrigenda.claims.{verdict}": len(report.with_verdict(verdict)) for verdict in Verdict}
    found["corrigenda.edits"] = sum(edit.accepted for edit in report.edits)
    for role, name in report.models.items():
        if name is not None:
            found[f"corrigenda.models.{role}"] = name
    decision = report.decision
    if decision is not None:
        found |= {"corrigenda.policy": decision.policy, "corrigenda.k": decision.k}
        found |= {} if decision.tau is None else {"corrigenda.tau": decision.tau}
    return found


def _texts(report: Report) -> dict[str, Value]:
    """Return the question and the final answer in the form that the conventions give messages."""
    found: dict[str, Value] = {"gen_ai.output.messages": _message("assistant", report.final_answer)}
    if report.question is not None:
        found["gen_ai.input.messages"] = _message("user", report.question)
    return found


def _message(role: str, text: str) -> str:
    parts: Mapping[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    message = parts if role == "user" else {**parts, "finish_reason": "stop"}
    return _encodable(json.dumps([message], ensure_ascii=False))


def _encodable(text: str) -> str:
    """Return `text` without lone surrogates, which no exporter can encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _model(name: str | None) -> dict[str, Value]:
    """Return provider and model of a chat model's name as the report has it (`openai:gpt-4o-mini`)."""
    kind, colon, model = (name or "").partition(":")
    if not colon:
        kind, model = "custom", name or ""
    found: dict[str, Value] = {"gen_ai.provider.name": kind}
    return found | {"gen_ai.request.model": model} if model else found


def _cost(usage: StageUsage) -> dict[str, Value]:
    found: dict[str, Value] = {"corrigenda.calls": usage.calls}
    if usage.prompt_tokens is not None:
        found["gen_ai.usage.input_tokens"] = usage.prompt_tokens
    if usage.completion_tokens is not None:
        found["gen_ai.usage.output_tokens"] = usage.completion_tokens
    return found


def _fail(span: Span, kind: str, message: str | None) -> None:
    """Mark the span as failed. The message may quote what was asked, so it is given only with `content`."""
    from opentelemetry.trace import Status as SpanStatus  # noqa: PLC0415  # as above
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    span.set_attribute("error.type", kind)
    span.set_status(SpanStatus(StatusCode.ERROR, message))


def _length(report: Report) -> float:
    """Return how many seconds the report took: its last stage ends where it was finished."""
    return max((timing.end_s for timing in report.timings), default=0.0)

"""A Telemetry that records into memory, and what it recorded."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from corrigenda.telemetry import Telemetry

REPORT_SPAN = "invoke_workflow corrigenda"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
"""What a request carries that is part of a trace."""


class Recorded:
    """A Telemetry over exporters in memory, and what they got."""

    def __init__(self, *, content: bool = False) -> None:
        self._spans, self._logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self.traces, logs = TracerProvider(), LoggerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self._spans))
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.telemetry = Telemetry(tracer_provider=self.traces, logger_provider=logs, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self._spans.get_finished_spans(), key=lambda s: (s.start_time or 0, -(s.end_time or 0)))

    def named(self, name: str) -> ReadableSpan:
        [found] = [s for s in self.spans if s.name == name]
        return found

    @property
    def events(self) -> list[Any]:
        return [data.log_record for data in self._logs.get_finished_logs()]

    @property
    def reports(self) -> list[ReadableSpan]:
        """The spans of whole reports."""
        return [s for s in self.spans if s.name == REPORT_SPAN]

    def everything(self) -> str:
        """Return all that was recorded, as text to search in."""
        return " ".join([*(s.to_json() for s in self.spans), *(repr(e) for e in self.events)])

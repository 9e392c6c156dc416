"""GET /metrics: what the server did, for Prometheus. One registry per app; no label holds what clients can choose."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from corrigenda.server.limits import Gate
from corrigenda.server.served import Served
from corrigenda.types import Report

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one app."""

    def __init__(self, gate: Gate) -> None:
        """Start at zero; `gate` is asked for its numbers whenever they are read."""
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "corrigenda_requests", "Requests that are over.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "corrigenda_request_seconds",
            "Seconds from a request's arrival to the end of its reply.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._first = Histogram(
            "corrigenda_first_text_seconds",
            "Seconds from a chat request's arrival to the first piece of its answer.",
            ("mode",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._reports = Counter("corrigenda_reports", "Reports by their status.", ("status",), registry=registry)
        self._claims = Counter("corrigenda_claims", "Claims by their verdict.", ("verdict",), registry=registry)
        self._passed = Counter(
            "corrigenda_passed_through",
            "Chat replies that were not verified, by reason.",
            ("reason",),
            registry=registry,
        )
        self._errors = Counter("corrigenda_errors", "Requests that failed, by code.", ("code",), registry=registry)
        self._stages = Histogram(
            "corrigenda_stage_seconds",
            "Seconds of each run of a stage.",
            ("stage",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "corrigenda_tokens", "Tokens that the upstream reported, by stage.", ("stage", "kind"), registry=registry
        )
        self._pairs = Histogram(
            "corrigenda_verifier_pairs", "Pairs in a call of the verifier.", buckets=_PAIRS, registry=registry
        )
        self._shared = Histogram(
            "corrigenda_verifier_requests",
            "Requests whose pairs share a call of the verifier.",
            buckets=_PAIRS,
            registry=registry,
        )
        working = Gauge("corrigenda_working", "Requests that are worked on.", registry=registry)
        working.set_function(lambda: gate.working)
        waiting = Gauge("corrigenda_waiting", "Requests that wait for their turn.", registry=registry)
        waiting.set_function(lambda: gate.waiting)

    def text(self) -> bytes:
        """Return all of it in Prometheus's text format, of which `TYPE` is the media type."""
        return generate_latest(self._registry)

    def called(self, pairs: int, requests: int) -> None:
        """Count a call of the verifier."""
        self._pairs.observe(pairs)
        self._shared.observe(requests)

    def observe(self, served: Served) -> None:
        """Count a request that is over."""
        self._requests.labels(served.route, str(served.status)).inc()
        self._seconds.labels(served.route).observe(served.seconds)
        if served.first_s is not None:
            self._first.labels(served.mode or "off").observe(served.first_s)
        if served.passed is not None:
            self._passed.labels(served.passed).inc()
        if served.error is not None:
            self._errors.labels(served.error).inc()
        for report in served.reports if served.route != "/v1/decide" else ():
            self._count(report)

    def _count(self, report: Report) -> None:
        self._reports.labels(report.status.value).inc()
        for claim in report.claims:
            self._claims.labels(claim.verdict.value).inc()
        for timing in report.timings:
            self._stages.labels(timing.stage).observe(timing.end_s - timing.start_s)
        for stage, usage in report.usage.items():
            for kind, count in _known(usage.prompt_tokens, usage.completion_tokens):
                self._tokens.labels(stage, kind).inc(count)


TYPE = CONTENT_TYPE_PLAIN_0_0_4


def _known(prompt: int | None, completion: int | None) -> Iterable[tuple[str, int]]:
    return [(kind, n) for kind, n in (("prompt", prompt), ("completion", completion)) if n is not None]

"""The log: one JSON object a line on standard error, one line per request, without any text of questions or answers.

Messages of exceptions may quote what was asked, so that of an error only its kind and the places in the code are
logged. With `log_texts` questions, answers and messages are logged too.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from corrigenda.server.served import Served
from corrigenda.terminal import safe_json

NAME = "corrigenda.server"
_FRAMES = 8
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are asked every few seconds; what goes well there is worth no line."""


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object; what the record's `fields` hold is merged in."""

    def __init__(self, *, texts: bool = False) -> None:
        """With `texts`, messages of exceptions are given."""
        super().__init__()
        self._texts = texts

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info is not None and record.exc_info[1] is not None:
            line |= described(record.exc_info[1], texts=self._texts)
        return safe_json(json.dumps(line, ensure_ascii=False, default=str))


def described(exc: BaseException, *, texts: bool) -> dict[str, Any]:
    """Return an exception's kind, its cause's, and where it was raised; with `texts` also what it says."""
    places = [
        f"{frame.filename.rsplit('site-packages/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(exc.__traceback__)[-_FRAMES:]
    ]
    found: dict[str, Any] = {"exception": type(exc).__name__, "raised_at": places}
    if exc.__cause__ is not None:
        found["cause"] = type(exc.__cause__).__name__
    return found | ({"message": str(exc)} if texts else {})


def set_up(*, texts: bool, stream: TextIO | None = None) -> None:
    """Let the server's logger, uvicorn's and OpenTelemetry's write JSON lines to `stream` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(texts=texts))
    for name in (NAME, "uvicorn", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == NAME else logging.WARNING)


class RequestLog:
    """Writes a line for every request that is over."""

    def __init__(self, *, texts: bool = False) -> None:
        """With `texts`, questions, answers and messages of errors are logged too."""
        self._logger = logging.getLogger(NAME)
        self._texts = texts

    def observe(self, served: Served) -> None:
        """Write the line."""
        if served.route in _QUIET and served.status < 400:
            return
        level = logging.ERROR if served.status == 500 else logging.WARNING if served.status > 500 else logging.INFO
        fields: dict[str, Any] = {
            "request_id": served.request_id,
            "method": served.method,
            "route": served.route,
            "status": served.status,
            "seconds": round(served.seconds, 4),
        }
        fields |= _known(served)
        if served.exception is not None:
            fields |= described(served.exception, texts=self._texts)
        if self._texts and served.reports:
            fields["texts"] = [
                {"question": r.question, "answer": r.answer, "final_answer": r.final_answer} for r in served.reports
            ]
        self._logger.log(level, "request", extra={"fields": fields})


def _known(served: Served) -> Mapping[str, Any]:
    """Return what else is known of a request, without what is not."""
    claims = Counter(claim.verdict.value for report in served.reports for claim in report.claims)
    known = {
        "queued_s": round(served.queued_s, 4) or None,
        "first_s": None if served.first_s is None else round(served.first_s, 4),
        "key": served.key,
        "model": served.model,
        "mode": served.mode,
        "stream": served.stream or None,
        "passed_through": served.passed,
        "finish_reason": served.finish_reason,
        "reports": dict(Counter(report.status.value for report in served.reports)) or None,
        "claims": dict(claims) or None,
        "error": served.error,
    }
    return {name: value for name, value in known.items() if value is not None}

"""The record of one request: filled as it is served, then handed to the log, the metrics and other observers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from corrigenda.types import Report


@dataclass(kw_only=True, slots=True)
class Served:
    """What is known about a request when it is over. It holds texts (in the reports): what is shown is up to you."""

    request_id: str
    method: str
    route: str = "other"
    """The path as the API has it (`/v1/verify`); `other` for a path that it doesn't have."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The request's headers, names in lower case, without Authorization and cookies."""
    started_ns: int = field(default_factory=time.time_ns)
    """When it arrived, in nanoseconds since 1970."""
    clock_s: float = field(default_factory=time.perf_counter)
    """When it arrived, on the clock `time.perf_counter`."""
    seconds: float = 0.0
    """How long it took, up to the last byte of the reply."""
    queued_s: float = 0.0
    """How long it waited for its turn."""
    first_s: float | None = None
    """Seconds from its arrival to the first piece of the answer; None where none was sent."""
    status: int = 0
    """HTTP status; 499 where the client hung up before the reply had begun or was whole."""
    key: str | None = None
    """The name of the API key."""
    model: str | None = None
    """The upstream model that answered."""
    mode: str | None = None
    """off, check or correct."""
    stream: bool = False
    passed: str | None = None
    """Why the reply was passed through unverified, where it was."""
    finish_reason: str | None = None
    reports: list[Report] = field(default_factory=list, repr=False)
    error: str | None = None
    """A word for what went wrong: an error's code, or the name of an exception."""
    exception: BaseException | None = field(default=None, repr=False)
    """The exception behind a reply with status 500 or more. Its text may hold parts of the request."""

    def over(self) -> None:
        """Stop the clock."""
        self.seconds = time.perf_counter() - self.clock_s

    def text_sent(self) -> None:
        """Note that a piece of the answer was sent now."""
        if self.first_s is None:
            self.first_s = time.perf_counter() - self.clock_s

"""How a server behaves, beside the settings of the `Corrigenda` object that it serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from corrigenda.server.keys import Keys
from corrigenda.server.limits import Limits
from corrigenda.server.served import Served

if TYPE_CHECKING:
    from corrigenda.telemetry import Telemetry

Mode = Literal["off", "check", "correct"]
"""`off`: the upstream's reply as it is. `check`: with a report. `correct`: and corrected where contradicted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """Everything about an app but the models."""

    limits: Limits = field(default_factory=Limits)
    keys: Keys | None = None
    """The API keys that are taken; None: the API is open to everyone who reaches it."""
    hosts: frozenset[str] | None = None
    """Names that the Host header may hold, without ports, in lower case; None: any. Guards an open API on loopback
    against pages of the web that point a name of their own at it."""
    mode: Mode = "correct"
    """For requests that choose none."""
    fail_closed: bool = False
    """True: an answer whose check broke is not given out; the client gets a 502."""
    allowed_models: tuple[str, ...] = ()
    """Names of upstream models that requests may ask for; empty: any."""
    batch_window_s: float = 0.003
    """How long pairs for the verifier wait for those of other requests."""
    batch_pairs: int = 64
    """Pairs in one call of the verifier, at most (more only where a single pair's windows are more)."""
    log_texts: bool = False
    """True: questions, answers and messages of errors are logged."""
    observers: Sequence[Callable[[Served], None]] = ()
    """Called with the record of each request when it is over; what they raise is logged and stops nothing."""
    telemetry: Telemetry | None = None
    """Records each report as a trace, in the request's own (`traceparent`) where that has one; None: nothing is
    recorded. It stays the caller's to close."""
    page: bool = True
    """Whether there is a page for people at `/`."""

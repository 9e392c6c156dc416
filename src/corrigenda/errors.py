"""Every exception that Corrigenda raises on purpose.

    CorrigendaError
    ├── InputError            the caller's question, answer, context or file is unusable          exit code 2
    │   └── ConfigError       a setting, a configuration file or a combination of them is wrong  exit code 2
    │       └── MissingExtra  an optional dependency is not installed; names the pip line        exit code 2
    ├── ModelError            a model cannot be had: no source, wrong hash, full disk, bad files exit code 3
    └── BackendError          a chat model or a verifier failed while it was used                exit code 3
        ├── Unreachable       no connection, or it was cut
        ├── TimedOut          no answer in time
        ├── Unauthorized      401 or 403
        ├── RateLimited       429 after the bounded retries
        ├── RequestRefused    another 4xx: the backend does not take this request
        └── BadReply          what came back cannot be used (not JSON, empty, no rule, parse failure)
            ├── ParseError    the model's text does not have the form that was asked for
            └── ReasoningLeaked  a stream gave out reasoning as if it were the answer

Messages name the value, the place and the remedy. No message contains a key or another secret. Exceptions of
other libraries are translated where they are met, with `raise … from exc`.
"""

from __future__ import annotations


class CorrigendaError(Exception):
    """Base of all errors that Corrigenda raises on purpose."""

    exit_code = 3


class InputError(CorrigendaError):
    """The caller's input is unusable; the message says which and what to do."""

    exit_code = 2


class ConfigError(InputError):
    """A setting is unknown, malformed, out of range, or does not fit another one."""


class MissingExtra(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        """Name `what` needs the import `package`, which `pip install "corrigenda[extra]"` brings."""
        super().__init__(
            f'{what} needs the package {package!r}, which is not installed; run: pip install "corrigenda[{extra}]"'
        )
        self.extra = extra


class ModelError(CorrigendaError):
    """A model's files cannot be had or cannot be trusted."""


class BackendError(CorrigendaError):
    """A chat model or a verifier failed while it was used."""

    status: int | None = None
    """The HTTP status that it stands for, where there was one."""
    retry_after_s: float | None = None
    """How many seconds the server wants to be left alone (`Retry-After`), where it said so."""


class Unreachable(BackendError):
    """No connection to the backend, or the connection was cut."""


class TimedOut(BackendError):
    """The backend did not answer in time."""


class Unauthorized(BackendError):
    """The backend refused the credentials (401 or 403)."""


class RateLimited(BackendError):
    """The backend still answered 429 after the bounded retries."""


class RequestRefused(BackendError):
    """The backend does not take this request (a 4xx other than 401, 403, 408 and 429)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """Keep the HTTP status, where there was one."""
        super().__init__(message)
        self.status = status


class BadReply(BackendError):
    """What came back cannot be used."""


class ReasoningLeaked(BadReply):
    """A streamed reply closed a block of reasoning that it never opened: what came before it is no answer."""

    def __init__(self, name: str) -> None:
        """Say so for the chat model `name`, with the remedy."""
        super().__init__(
            f"{name} sent reasoning without the tag that opens it, so that it was taken for the answer; let the server "
            "take reasoning out (vLLM: --reasoning-parser, llama.cpp: --reasoning-format), or ask again: an OpenAI-"
            "compatible server's replies are held back from now on until the reasoning has ended"
        )


class ParseError(BadReply):
    """A model's text does not have the form that was asked for."""

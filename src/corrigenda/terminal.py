r"""Text from outside, made harmless for a terminal, a log and a pipe. Pure.

Models, servers and files are untrusted: a control character in what they say could clear the screen, forge a line
or hide one. Everything that is printed for a person goes through `safe`, every message through `one_line`, and
every JSON text through `safe_json`.
"""

from __future__ import annotations

import json
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HIDDEN = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def safe(text: str) -> str:
    r"""Return `text` with control characters, direction overrides and lone surrogates made visible.

    New lines and tabs stay; the others become `\x1b`, `\u202e` and the like.
    """
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def one_line(text: str) -> str:
    """Return `text` as `safe` does, on one line, so that no message can look like two."""
    return safe(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def safe_json(text: str) -> str:
    """Return a JSON text that means the same, with what could drive a terminal written as an escape."""
    return _HIDDEN.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def ascii_json(text: str) -> str:
    """Return a JSON text that means the same, in ASCII alone: for an encoding that lacks its characters."""
    return _NOT_ASCII.sub(lambda m: json.dumps(m[0])[1:-1], safe_json(text))


def without_credentials(url: str) -> str:
    """Return an address without what may be secret in it: the user's name and password, and what a query says.

    It need not be well formed: whatever stands before the last `@` is taken for a name and password.
    """
    scheme, slashes, rest = url.partition("//") if "//" in url.partition("@")[0] else ("", "", url)
    _, at, rest = rest.rpartition("@")
    path, mark, query = rest.partition("?")
    shown = f"{scheme}{slashes}{'***@' if at else ''}{path}"
    if not mark:
        return shown
    parts = [f"{part.partition('=')[0]}=***" if "=" in part else "***" for part in query.split("&")]
    return f"{shown}?{'&'.join(parts)}"

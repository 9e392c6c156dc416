"""Secrets on their way to a server, and the forms in which it may say one back: as given, decoded, or encoded. Pure.

A server that echoes the request's headers shows a name and password of its address as HTTP does, in base64 (RFC 7617);
an error page may escape what it quotes.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import SplitResult, quote, unquote, unquote_plus

from corrigenda.errors import ConfigError

SHORTEST = 6
"""Shorter ones are words like `none` or a number, and hiding them would garble messages."""

SCHEMES = ("apikey", "basic", "bearer", "digest", "key", "negotiate", "token")
"""Words that say in an Authorization header what kind of key follows."""


def has_login(parts: SplitResult) -> bool:
    """Return whether an address holds a name or a password, which are then sent with every request."""
    return bool(parts.username or parts.password)


def forms_of(parts: SplitResult, secrets: Iterable[object]) -> list[str]:
    """Return every form of an address's and of other secrets that is long enough to be hidden, longest first.

    `secrets` are keys and values of headers; what is no text is left out. Longest first, so that a secret that contains
    another one is hidden whole.
    """
    plain = {*_of_address(parts), *(form for s in secrets if isinstance(s, str) for form in _of_header(s))}
    forms = {form for secret in plain if secret for form in _escaped(secret)}
    return sorted((form for form in forms if len(form) >= SHORTEST), key=lambda form: (-len(form), form))


def _of_address(parts: SplitResult) -> Iterator[str]:
    if has_login(parts):
        name, password = parts.username or "", parts.password or ""
        for user, word in ((name, password), (unquote(name), unquote(password))):
            yield from (user, word, f"{user}:{word}")
            yield from _in_base64(f"{user}:{word}")
    for part in re.split("[=&]", parts.query):
        yield from (part, unquote(part), unquote_plus(part))


def _of_header(value: str) -> Iterator[str]:
    """Yield a header's value, the key in it (`Bearer KEY`), and the name and password in the key of `Basic KEY`."""
    yield value
    scheme, _, key = value.strip().partition(" ")
    if scheme.lower() not in SCHEMES:
        return
    yield key.strip()
    if scheme.lower() == "basic":
        with suppress(binascii.Error, UnicodeDecodeError):
            login = base64.b64decode(key.strip(), validate=True).decode("utf-8")
            yield from (login, *login.split(":", 1))


def _in_base64(text: str) -> Iterator[str]:
    data = text.encode("utf-8", "surrogatepass")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        word = encode(data).decode("ascii")
        yield from (word, word.rstrip("="))


def _escaped(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as JSON, Python, HTML and addresses write it inside a text."""
    yield secret
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    yield from (html.escape(secret), quote(secret.encode("utf-8", "surrogatepass"), safe=""))


def checked_key(key: str | None) -> str:
    """Return the key without the white space that copying adds. Raises ConfigError, which does not show it."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds characters that no HTTP header may hold; copy it again")
    return key


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of the headers. Raises ConfigError that names a bad one and does not show its value."""
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ConfigError(f"{name!r} is no name of an HTTP header")
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(f"the value of the HTTP header {name!r} holds characters that no header may hold")
    return dict(headers)

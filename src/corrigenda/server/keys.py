"""API keys: a file of names and salted hashes, from which no key can be had back.

A line is `NAME sha256:SALT:HASH`, SALT and HASH in hexadecimal; empty lines and those that begin with `#` don't count.
A plain hash is enough because the keys are long and random (`new_key`), so that there is nothing to guess;
short ones are refused for that reason.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from corrigenda.errors import ConfigError, InputError

LEAST = 24
"""Characters of a key, at least."""
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_HASH = re.compile(r"sha256:([0-9a-f]{16,64}):([0-9a-f]{64})")


class Keys:
    """The keys that a server takes."""

    def __init__(self, entries: Iterable[tuple[str, bytes, bytes]]) -> None:
        """Take (name, salt, hash) of each key."""
        self._entries = tuple(entries)

    def name_of(self, key: str) -> str | None:
        """Return the name of the key, or None when it is none of these.

        Every entry is compared, each in constant time, so that the time taken tells nothing.
        """
        found = None
        raw = key.encode("utf-8", "surrogatepass")
        for name, salt, digest in self._entries:
            if hmac.compare_digest(_digest(salt, raw), digest):
                found = name
        return found

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._entries)


def read_keys(path: str | Path) -> Keys:
    """Read a file of keys. Raises ConfigError, naming the line and never its content, when it is unusable."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as exc:
        raise ConfigError(f"the file of API keys {str(path)!r} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the file of API keys {str(path)!r} is not UTF-8") from exc
    entries: dict[str, tuple[str, bytes, bytes]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *rest = line.split(maxsplit=1)
        parts = _HASH.fullmatch(rest[0].strip()) if rest else None
        if parts is None or not _NAME.fullmatch(name):
            raise ConfigError(
                f"{str(path)!r}, line {number}: not a name and a hash; make a line with `corrigenda serve --new-key "
                "NAME`, or from a key of your own with --hash-key NAME"
            )
        if name in entries:
            raise ConfigError(f"{str(path)!r}, line {number}: there are two keys called {name!r}")
        entries[name] = (name, bytes.fromhex(parts[1]), bytes.fromhex(parts[2]))
    if not entries:
        raise ConfigError(
            f"the file of API keys {str(path)!r} holds no key; make one with `corrigenda serve --new-key`"
        )
    return Keys(entries.values())


def new_key() -> str:
    """Return a new random key of 256 bits."""
    return f"ck-{secrets.token_urlsafe(32)}"


def line_for(name: str, key: str) -> str:
    """Return the line for a file of keys. Raises InputError when the name or the key cannot be used."""
    if not _NAME.fullmatch(name):
        raise InputError(f"the name of a key must be 1 to 64 letters, digits or ._@-, got {name!r}")
    if len(key) < LEAST or not (key.isascii() and key.isprintable()) or " " in key:
        raise InputError(f"an API key must have at least {LEAST} printable ASCII characters and no space")
    salt = secrets.token_bytes(16)
    return f"{name} sha256:{salt.hex()}:{_digest(salt, key.encode('ascii')).hex()}"


def _digest(salt: bytes, key: bytes) -> bytes:
    return hashlib.sha256(salt + key).digest()

"""Server-sent events, read from bytes that may be cut anywhere.

The chat libraries' own readers hide whether a stream ended with `[DONE]` or was cut, and some split lines at
characters (U+2028, U+0085) that JSON may hold as they are; hence this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event: its data lines joined by newlines, and its name (`message` when it has none)."""

    data: str
    name: str = "message"
    cut: bool = False
    """Whether the body ended before the blank line that ends an event, so that the data may be cut off."""


class EventReader:
    """Turns chunks of a `text/event-stream` body into events.

    Comments, unknown fields and events without data give nothing. An event that the end of the body cuts off
    is given all the same by `finish`, since some servers leave out the last blank line. Bytes that are not
    UTF-8 become U+FFFD, but a character is never damaged by where a chunk ends.
    """

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._buffer = b""
        self._data: list[str] = []
        self._name = ""
        self._kept = 0

    @property
    def waiting(self) -> int:
        """How much of an event that is not whole yet is kept, in bytes and characters."""
        return len(self._buffer) + self._kept

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Take the next bytes; yield the events that they complete."""
        self._buffer += chunk
        # Without an end of line in sight there is nothing to do; looking for one only in the new bytes keeps a
        # very long line linear. A carriage return that ended the last chunk is decided by this one's first byte.
        if b"\n" not in chunk and b"\r" not in self._buffer[-len(chunk) - 1 :]:
            return
        *lines, self._buffer = _LINE_END.split(self._buffer)
        for line in lines:
            yield from self._line(line)

    def finish(self) -> Iterator[Event]:
        """Yield the event that the end of the body cuts off, if there is one."""
        list(self._line(self._buffer.rstrip(b"\r")))
        for event in self._line(b""):
            yield Event(data=event.data, name=event.name, cut=True)
        self._buffer = b""

    def _line(self, line: bytes) -> Iterator[Event]:
        if not line:
            if self._data:
                yield Event(data="\n".join(self._data), name=self._name or "message")
            self._data, self._name, self._kept = [], "", 0
            return
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._kept += len(value)
        elif field == "event":
            self._name = value

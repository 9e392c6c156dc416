"""A set that only remembers whether something was there before, in 16 to 32 bytes for each entry."""

from __future__ import annotations

import hashlib
from array import array


class Seen:
    """Texts that came already, by a hash of 64 bits.

    Of 300,000 collections of ten million texts each, one is expected to take two different texts for the same.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._slots = array("Q", bytes(8 * 1024))
        self._count = 0

    def add(self, *parts: str) -> bool:
        """Add an entry that is made of `parts`; return whether it is new."""
        text = "\x00".join(parts).encode("utf-8", "surrogatepass")
        key = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1
        if not self._put(key):
            return False
        self._count += 1
        if 2 * self._count > len(self._slots):
            self._grow()
        return True

    def _put(self, key: int) -> bool:
        slots, mask = self._slots, len(self._slots) - 1
        place = key & mask
        while slots[place]:
            if slots[place] == key:
                return False
            place = (place + 1) & mask
        slots[place] = key
        return True

    def _grow(self) -> None:
        old = self._slots
        self._slots = array("Q", bytes(8 * 2 * len(old)))
        for key in old:
            if key:
                self._put(key)

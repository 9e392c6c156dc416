"""One download at a time, across processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corrigenda.locks import try_lock
from corrigenda.models.partial import disk_errors

WAIT_SECONDS = 0.3
"""How often a waiting process looks again."""


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on `path`. `waiting()` is called again and again while another process holds it.

    The lock is the system's own, not the file's existence, so that one left by a dead process is no lock. The
    file stays: deleting it while another process waits for it would let two in. Raises ModelError when it
    can't be made.
    """
    with disk_errors(path, 0):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        while not try_lock(file):
            waiting()
            time.sleep(WAIT_SECONDS)
        yield

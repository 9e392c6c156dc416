"""Locks on files, between processes: the system's own, so that one left by a dead process is no lock."""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def try_lock(file: IO[bytes]) -> bool:
        """Lock the file if no other process has; the system lets go when the process ends, however it ends."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def try_lock(file: IO[bytes]) -> bool:
        """Lock the file if no other process has; the system lets go when the process ends, however it ends."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

"""How many cores this process may use: what the scheduler, the container and the user say, whichever is least."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Where a container of Linux's control groups (version 2) finds its share of the processor's time."""


def usable_cores(environ: Mapping[str, str] | None = None, quota: Path = _QUOTA) -> int:
    """Return how many cores may be used; at least 1.

    The least of: the cores that this process may run on; a container's share of processor time, rounded up, since more
    threads than that are only held up; and `OMP_NUM_THREADS`, by which users and schedulers (Ray, for a worker's share
    of a machine) limit every numerical library.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    asked = (os.environ if environ is None else environ).get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        cores = min(cores, int(asked))
    return max(1, min(cores, _share(quota)))


def _share(quota: Path) -> int:
    """Return a container's share in whole cores; a very large number where there is no limit."""
    unlimited = 1 << 30
    try:
        allowed, period = quota.read_text("ascii").split()[:2]
        return unlimited if allowed == "max" else math.ceil(int(allowed) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return unlimited

"""What the models of a run have said: replies, label scores and pairs, each made once and bounded in memory.

For one event loop; see `corrigenda.shelf`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from corrigenda.report import plain
from corrigenda.shelf import Shelf
from corrigenda.types import Completion, Entailment

MAX_CALLS = 20_000
"""Replies and label scores that a memo keeps; those that were not used for longest go first."""
MAX_PAIRS = 200_000


class Memo:
    """What the models of a run have said so far, for one event loop. Bounded in memory."""

    def __init__(self, *, max_calls: int = MAX_CALLS, max_pairs: int = MAX_PAIRS) -> None:
        """Begin with nothing."""
        self.replies: Shelf[Completion] = Shelf(max_calls)
        self.labels: Shelf[tuple[float, ...]] = Shelf(max_calls)
        self.pairs: Shelf[Entailment] = Shelf(max_pairs)


def key_of(*parts: Any) -> bytes:
    """Return what a call is recognised by. JSON, so that no two calls look alike; a digest, so that it is small."""
    return hashlib.sha256(json.dumps(plain(parts), sort_keys=True).encode()).digest()

"""Stage 7: the answer with the accepted edits put in place. Pure.

Every character outside an accepted edit's span stays as it was, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from corrigenda.text import apply_edits
from corrigenda.types import Edit


def reassemble(answer: str, edits: Sequence[Edit]) -> str:
    """Return `answer` with each accepted edit's `after` in place of its span, in any order of `edits`.

    Raises ValueError when accepted edits overlap or lie outside the answer.
    """
    return apply_edits(answer, [(e.span, e.after) for e in edits if e.accepted and e.after is not None])

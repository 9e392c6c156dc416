"""Passages for the methods that need an external source: found by the kit's retriever, or the task's own contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from corrigenda.errors import InputError
from corrigenda.methods.common import block, usable
from corrigenda.methods.protocol import Kit, Task
from corrigenda.types import Reference
from corrigenda.windows import is_blank

SHOWN_LIMIT = 8_000
"""Code points of passages in one request: about half of a context of 4,096 tokens."""


class Found(NamedTuple):
    """A passage, as claims are checked against it and as a request shows it."""

    reference: Reference
    title: str | None = None


class Shown(NamedTuple):
    """Passages as a request shows them."""

    text: str
    """Each as data of its own, numbered from 1 and headed by its title where it has one."""
    left_out: int
    """How many passages are not there, or not there in full, for want of room."""


async def passages_for(queries: Sequence[str], task: Task, kit: Kit, *, k: int, method: str) -> list[list[Found]]:
    """Return, for each query, the passages to go by, best first; there may be none.

    Those that the kit's retriever finds (at most `k`); without a retriever the task's contexts, all of them and the
    same for every query. Blank ones are left out. Raises InputError when there is neither, and what the retriever
    raises.
    """
    if kit.retriever is not None:
        results = await kit.retriever.search(list(queries), k)
        return [[Found(p.reference, p.title) for p in found if not is_blank(p.text)] for found in results]
    if task.contexts is None:
        raise InputError(
            f"the method {method!r} needs passages, and there is neither an index to search nor a context; "
            "name an index (--retrieve DIR), or give contexts with the answer"
        )
    contexts = [Found(reference) for reference in usable(task.contexts)]
    return [contexts for _ in queries]


def shown(passages: Sequence[Found], *, best_last: bool = False) -> Shown:
    """Return passages as material for a request, at most `SHOWN_LIMIT` code points of them.

    What has no room is cut off the last that is shown, or left out: never the better one. `best_last` turns the
    order around, so that the best stands nearest to what follows.
    """
    blocks: list[str] = []
    room, left_out = SHOWN_LIMIT, 0
    for number, (reference, title) in enumerate(passages, 1):
        text = reference.text[: max(room, 0)]
        left_out += len(text) < len(reference.text)
        room -= len(text)
        if text:
            blocks.append(block("passage", f"[{number}] {title}\n{text}" if title else f"[{number}] {text}"))
    return Shown("\n".join(reversed(blocks) if best_last else blocks), left_out)


def told(left_out: int, total: int) -> list[str]:
    """Return a warning when passages were left out of a request or cut, else nothing."""
    if not left_out:
        return []
    return [f"{left_out} of {total} passages were cut or left out of the request, which takes {SHOWN_LIMIT} characters"]


def listed(passages: Sequence[Found]) -> list[dict[str, Any]]:
    """Return passages as plain JSON values, for an outcome's details."""
    return [{"source": p.reference.source, "text": p.reference.text} for p in passages]

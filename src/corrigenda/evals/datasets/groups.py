"""Which items are not independent of each other, because they share a question or a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from corrigenda.calibrate_nli.pairs import linked
from corrigenda.evals.items import Item


def grouped(items: Sequence[Item], *, within: bool = False) -> tuple[Item, ...]:
    """Return the items, each with the name of its group: the least id in it, whatever the order of the rows.

    Items that share a question, an answer (or claim) or a context are one group, also by way of others. `within`:
    only items that are one group already; groups are then parted where what linked them is no longer among the items.
    """
    numbers = linked([[(f"{item.group}\0" if within else "") + key for key in _keys(item)] for item in items])
    names: dict[int, str] = {}
    for number, item in zip(numbers, items, strict=True):
        names[number] = min(item.id, names.get(number, item.id))
    return tuple(replace(item, group=names[number]) for number, item in zip(numbers, items, strict=True))


def _keys(item: Item) -> Iterator[str]:
    if item.question is not None:
        yield f"question {item.question}"
    if item.answer is not None:
        yield f"answer {item.answer}"
    for context in item.contexts or ():
        yield f"context {context.text}"

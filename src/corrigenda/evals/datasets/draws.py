"""Seeded draws: a part of a data set, some of its items, one of several answers. None depends on the rows' order.

Everything is ranked by the SHA-256 of the seed and the thing's own name. So a draw is the same on every machine and
with every version of Python, a longer one holds the shorter one, and rows that are added or taken away move hardly
anything else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from corrigenda.errors import InputError
from corrigenda.evals.datasets.groups import grouped
from corrigenda.evals.items import DataSet, Item
from corrigenda.types import Verdict

SPLITS = ("validation", "test", "all")
VALIDATION_SHARE = 5
"""One group in five, rounded up, is for validation: 164 of TruthfulQA's 817 questions, as the paper has it."""


def rank(seed: int, name: str) -> bytes:
    """Return what `name` is sorted by under this seed."""
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).digest()


def pick(seed: int, name: str, choices: Sequence[str]) -> str:
    """Return one of the choices, drawn for `name`, whatever their order. There must be one."""
    return min(choices, key=lambda choice: rank(seed, f"{name}\0{choice}"))


def split(data: DataSet, part: str | None, seed: int) -> DataSet:
    """Return the validation part (a fifth of the groups, rounded up) or the test part (the others), or all.

    Whole groups go one way, so that no question and no text is in both. Raises InputError for another name.
    """
    if part in (None, "all"):
        return data
    if part not in SPLITS:
        raise InputError(f"split {part!r} is unknown; there are {', '.join(SPLITS)}")
    groups = sorted({item.group for item in data.items}, key=lambda group: rank(seed, group))
    size = -(-len(groups) // VALIDATION_SHARE)
    chosen = set(groups[:size] if part == "validation" else groups[size:])
    if not chosen:
        raise InputError(
            f"the {part} part of {data.source!r} is empty: all its rows belong to one group; leave out split"
        )
    items = tuple(item for item in data.items if item.group in chosen)
    told = f"{part} part: {len(items)} of {len(data.items)} items, {len(chosen)} of {len(groups)} groups, seed {seed}"
    return replace(data, items=items, notes=(*data.notes, told))


def draw(data: DataSet, limit: int | None, seed: int) -> DataSet:
    """Return `limit` of the items (None: all), drawn with the seed, in their own order.

    Groups are parted where what linked them was not drawn: among all pairs of a large file nearly everything may
    hang together by way of something else.

    Raises InputError when `limit` is no whole number of at least 1.
    """
    if limit is None:
        return data
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit must be a whole number of items, at least 1, got {limit!r}")
    if limit >= len(data.items):
        return data

    def key(place: int) -> bytes:
        return rank(seed, data.items[place].id)

    chosen = sorted(sorted(range(len(data.items)), key=key)[:limit])
    items = grouped([data.items[place] for place in chosen], within=True)
    told = f"{limit} of {len(data.items)} items, drawn with seed {seed}"
    return replace(data, items=items, notes=(*data.notes, told))


def given_answers(question: Item, best: str, wrong: str, seed: int) -> tuple[Item, Item]:
    """Return two items with an answer that is given: `best` (label supported) and `wrong` (label contradicted).

    They are one group; which of the two comes first is drawn, so that their order tells nothing.
    """
    name = question.id
    good = replace(question, id=f"{name}/correct", kind="answer", answer=best, label=Verdict.SUPPORTED)
    bad = replace(question, id=f"{name}/incorrect", kind="answer", answer=wrong, label=Verdict.CONTRADICTED)
    return (good, bad) if rank(seed, f"{name}\0order")[0] % 2 else (bad, good)

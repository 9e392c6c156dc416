"""Lay a hypothesis over a sentence of the premise, word for word, and pair their quantities."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from corrigenda.quantities.lexicon import Lexicon
from corrigenda.quantities.model import Quantity
from corrigenda.quantities.statement import DOWN, UP, Item
from corrigenda.quantities.values import TIME


@dataclass(frozen=True, slots=True)
class Match:
    """A premise sentence read as the hypothesis's words: the pairs of quantities, and where the words differ."""

    pairs: tuple[tuple[Quantity, Quantity], ...]
    positions: tuple[int, ...]
    """Index of each pair in the hypothesis's items."""
    flipped: bool
    """Whether one says up where the other says down."""
    rest: tuple[Item, ...]
    """What the premise says beyond."""


def align(premise: tuple[Item, ...], claim: tuple[Item, ...], lexicon: Lexicon) -> Match | None:
    """Return how the premise reads as the hypothesis, trying the readings from the fullest to the barest."""
    claim = fronted(claim, lexicon)
    timed = any(item.quantity and item.quantity.dimension in TIME for item in claim)
    for items in itertools.chain(_readings(premise), _later_starts(premise, claim, lexicon) if timed else ()):
        match = _match_items(fronted(items, lexicon), claim, lexicon)
        if match is not None:
            return match
    return None


def _readings(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    """Yield the sentence as it is, without what is in parentheses, and without the part after its first comma."""
    yield items
    bare = tuple(item for item in items if not item.aside)
    if len(bare) < len(items) and _droppable(tuple(item for item in items if item.aside), items):
        yield bare
    else:
        bare = items
    second = bare[0].segment + 1 if bare else 0
    inserted = tuple(item for item in bare if item.segment == second)
    if inserted and bare[-1].segment > second and _droppable(inserted, ()):
        yield tuple(item for item in bare if item.segment != second)


def _later_starts(premise: tuple[Item, ...], claim: tuple[Item, ...], lexicon: Lexicon) -> Iterator[tuple[Item, ...]]:
    """Yield the main clause after an opening such as "Filmed in Miami, …".

    Only for a hypothesis with a time of its own: an opening may set the time ("Before the war, …").
    """
    for i in range(1, len(premise)):
        if premise[i].key == claim[0].key and premise[i].segment > premise[i - 1].segment:
            opening = premise[:i]
            if not any(item.key in lexicon.hedges or item.key.startswith("<") for item in opening):
                yield premise[i:]
            return


def _droppable(aside: tuple[Item, ...], items: tuple[Item, ...]) -> bool:
    """Whether an aside changes nothing: it has no quantity, or only the one before it in another unit."""
    quantities = [item.quantity for item in aside if item.quantity]
    if not quantities:
        return not any(item.key.startswith("<") for item in aside)
    if len(aside) != 1 or not items or items.index(aside[0]) == 0:
        return False
    before = items[items.index(aside[0]) - 1].quantity
    return before is not None and before.dimension == quantities[0].dimension and _close(before, quantities[0])


def _close(left: Quantity, right: Quantity) -> bool:
    return left.low is not None and right.low is not None and abs(left.low - right.low) <= abs(left.low) / 20


def fronted(items: tuple[Item, ...], lexicon: Lexicon) -> tuple[Item, ...]:
    """Move a time that opens the sentence ("In 2004 Paramore formed") to its end."""
    if len(items) > 1 and items[0].quantity and items[0].quantity.dimension in TIME and not items[0].attributive:
        return (*items[1:], items[0])
    return items


def _match_items(premise: tuple[Item, ...], claim: tuple[Item, ...], lexicon: Lexicon) -> Match | None:
    pairs: list[tuple[Quantity, Quantity]] = []
    positions: list[int] = []
    flips = index = 0
    for position, wanted in enumerate(claim):
        attributed = bool(pairs) and claim[positions[-1]].attributive and pairs[-1][0].dimension == "date"
        while attributed and index < len(premise) and not _alike(premise[index], wanted):
            if premise[index].quantity or premise[index].key in lexicon.conjunctions:
                return None
            index += 1
        if index >= len(premise) or not _alike(premise[index], wanted):
            return None
        here = premise[index].quantity
        if here and wanted.quantity:
            pairs.append((here, wanted.quantity))
            positions.append(position)
        flips += here is None and premise[index].key != wanted.key
        index += 1
    rest = premise[index:]
    if not claim or flips > 1 or (rest and not _separate(premise, index, pairs, lexicon)):
        return None
    return Match(tuple(pairs), tuple(positions), flips == 1, rest)


def same_kind(left: Item, right: Item) -> bool | None:
    """Return None for two words; else whether both are quantities of one dimension in like places."""
    if left.quantity is None and right.quantity is None:
        return None
    if left.quantity is None or right.quantity is None:
        return False
    return left.quantity.dimension == right.quantity.dimension and left.attributive == right.attributive


def _alike(left: Item, right: Item) -> bool:
    kind = same_kind(left, right)
    return (left.key == right.key or {left.key, right.key} == {UP, DOWN}) if kind is None else kind


def _separate(premise: tuple[Item, ...], index: int, pairs: list[tuple[Quantity, Quantity]], lexicon: Lexicon) -> bool:
    """Whether what follows in the premise is another clause that leaves the matched one as it stands."""
    rest = premise[index:]
    dimensions = {p.dimension for p, _ in pairs}
    if any(item.quantity and item.quantity.dimension in dimensions for item in rest):
        return False
    attributive = any(
        item.attributive and item.quantity and item.quantity.dimension == "date" for item in premise[:index]
    )
    timed = any(item.quantity and item.quantity.dimension in TIME for item in rest)
    agent = rest[0].key in lexicon.agents and not timed
    begins = agent or rest[0].segment > premise[index - 1].segment or rest[0].key in lexicon.conjunctions
    return (begins or attributive) and not any(item.key in lexicon.hedges for item in rest)

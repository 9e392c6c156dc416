"""Dates of birth and death that a premise gives in parentheses after a name: "Ada Lovelace (1815–1852) was …"."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from corrigenda.quantities.align import fronted
from corrigenda.quantities.lexicon import Lexicon
from corrigenda.quantities.model import NumericVerdict, Quantity, QuantityKind
from corrigenda.quantities.statement import Item, Statement
from corrigenda.quantities.values import Relation, relate

_BORN = frozenset({("was", "born"), ("nacque",), ("è", "nato"), ("è", "nata")})
_DIED = frozenset({("died",), ("morì",), ("è", "morto"), ("è", "morta")})
_BIRTH_WORDS, _DEATH_WORDS = frozenset({"born", "b", "nato", "nata"}), frozenset({"died", "d", "morto", "morta"})


def compare_life_dates(premise: Statement, claim: Statement, lexicon: Lexicon) -> NumericVerdict | None:
    """Compare "NAME was born (died) DATE" with the dates after that name; None where the forms do not fit."""
    read = _read_claim(claim, lexicon)
    if read is None or claim.negations or claim.first in lexicon.unsafe_subjects:
        return None
    name, born, said = read
    if not _same_person(premise.items, name, lexicon):
        return None
    known = _life_dates(premise.items)[0 if born else 1]
    if known is None or known.uncertain or said.uncertain:
        return None
    relation = relate(known, said)
    if relation is Relation.OVERLAP:
        return None
    if relation is Relation.EQUAL:
        return NumericVerdict(kind="agree", reason=f"the same date with {known.text} and {said.text}")
    return NumericVerdict(kind="conflict", reason=f"{known.text} against {said.text}")


def _read_claim(claim: Statement, lexicon: Lexicon) -> tuple[tuple[str, ...], bool, Quantity] | None:
    """Return (the name's words, whether it is about birth, the date) of a plain statement of birth or death."""
    items = fronted(claim.items, lexicon)
    said = items[-1].quantity if items else None
    if said is None or said.dimension != "date" or any(item.quantity for item in items[:-1]):
        return None
    keys = tuple(item.key for item in items[:-1])
    for size in (1, 2):
        if len(keys) > size and keys[-size:] in _BORN | _DIED:
            return keys[:-size], keys[-size:] in _BORN, said
    return None


def _same_person(items: tuple[Item, ...], name: tuple[str, ...], lexicon: Lexicon) -> bool:
    """Whether the premise opens with that name, perhaps with more forenames, and nothing else."""
    opening = tuple(item for item in items if item.segment == 0 and not item.aside)
    first_aside = next((i for i, item in enumerate(items) if item.aside), 0)
    opening = opening[:first_aside]
    keys = [item.key for item in opening]
    if not keys or any(item.quantity for item in opening) or set(keys) & (lexicon.function | lexicon.copulas):
        return False
    return keys[-1] == name[-1] and set(name) <= set(keys)


def _life_dates(items: tuple[Item, ...]) -> tuple[Quantity | None, Quantity | None]:
    """Return (birth, death) from the first parentheses; None for what they do not say for certain."""
    start = next((i for i, item in enumerate(items) if item.aside), len(items))
    end = next((i for i in range(start, len(items)) if not items[i].aside), len(items))
    inside = items[start:end]
    keys = {item.key for item in inside}
    dates = [item.quantity for item in inside if item.quantity]
    if not dates or any(date.dimension != "date" for date in dates):
        return None, None
    if len(dates) == 1 and dates[0].kind is QuantityKind.RANGE and len(inside) == 1:
        return _ends(dates[0])
    if len(dates) == 2 and dates[0].high is not None and dates[1].low is not None and dates[0].high < dates[1].low:
        return dates[0], dates[1]
    if len(dates) == 1 and keys & _BIRTH_WORDS and not keys & _DEATH_WORDS:
        return dates[0], None
    if len(dates) == 1 and keys & _DEATH_WORDS and not keys & _BIRTH_WORDS:
        return None, dates[0]
    return None, None


def _ends(span: Quantity) -> tuple[Quantity | None, Quantity | None]:
    """Cut "1815–1852" into its years."""
    year = Fraction(371)
    birth = None if span.low is None else replace(span, high=span.low + year)
    death = None if span.high is None else replace(span, low=span.high - year)
    return birth, death

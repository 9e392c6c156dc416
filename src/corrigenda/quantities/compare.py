"""Compare a premise and a hypothesis by their quantities, direction and negation.

A verdict other than `unknown` needs a sentence of the premise that says the same as the hypothesis word for word
(but for articles, plurals, asides and a clause that follows), since a number that differs proves nothing when the
subject, the predicate or the time may differ too. A wrong conflict breaks a true claim, so each doubt is `unknown`.
"""

from __future__ import annotations

from corrigenda.quantities.align import Match, align, fronted, same_kind
from corrigenda.quantities.lexicon import Lexicon, lexicon_for
from corrigenda.quantities.life import compare_life_dates
from corrigenda.quantities.model import NumericVerdict, Quantity, QuantityKind
from corrigenda.quantities.statement import DOWN, UP, Item, Statement, read_statement
from corrigenda.quantities.tokens import sentence_spans
from corrigenda.quantities.values import TIME, Relation, relate, thousandfold

MAX_SENTENCE = 2_000
"""Longer sentences (in code points) are not read: they are no plain statements."""
MAX_PREMISE = 10_000
"""Only this many code points of a premise are read."""
MAX_SENTENCES = 250
"""And only this many sentences."""


def compare(premise: str, hypothesis: str, language: str = "en") -> NumericVerdict:
    """Say whether `hypothesis` agrees or conflicts with `premise`, where numbers, direction or negation decide it.

    `agree`: a sentence of the premise makes the same statement and every quantity of the hypothesis follows from
    it. `conflict`: it makes the same statement with one quantity that cannot be equal, the opposite direction or
    the opposite polarity. `open`: it makes the same statement with a bound or a range that the hypothesis's value
    lies in, so that it may hold or not ("at least 40" and "55"). `unknown`: everything else. `language` is a tag
    as for `find_quantities`. Never raises.
    """
    lexicon = lexicon_for(language)
    if len(hypothesis) > MAX_SENTENCE or len(sentence_spans(hypothesis)) != 1:
        return NumericVerdict(kind="unknown", reason="the hypothesis is not one plain sentence")
    claim = read_statement(hypothesis, language)
    wanted = {item.key for item in claim.items if len(item.key) > 2}
    statements = []
    for span in sentence_spans(premise[:MAX_PREMISE])[:MAX_SENTENCES]:
        text = span.text_of(premise)
        if len(text) <= MAX_SENTENCE:
            statements.append(read_statement(text, language))
    verdicts = [
        verdict
        for statement in statements
        if 2 * len(wanted & {item.key for item in statement.items}) >= len(wanted)
        if (verdict := _compare_statements(statement, claim, lexicon)).kind != "unknown"
    ]
    kinds = {verdict.kind for verdict in verdicts}
    if len(kinds) != 1:
        reason = "the premise says both" if kinds else "no sentence of the premise makes the same statement"
        return NumericVerdict(kind="unknown", reason=reason)
    if kinds == {"conflict"} and _said_elsewhere(statements, claim):
        return NumericVerdict(kind="unknown", reason="the premise gives the hypothesis's value too")
    return verdicts[0]


def _unknown(reason: str) -> NumericVerdict:
    return NumericVerdict(kind="unknown", reason=reason)


def _compare_statements(premise: Statement, claim: Statement, lexicon: Lexicon) -> NumericVerdict:
    if premise.question or claim.question:
        return _unknown("a question states nothing")
    match = align(premise.items, claim.items, lexicon)
    if match is None:
        return compare_life_dates(premise, claim, lexicon) or _by_negation(premise, claim, lexicon)
    if match.flipped:
        return _by_direction(premise, claim, match, lexicon)
    if premise.negations != claim.negations or premise.negated_at != claim.negated_at:
        return _by_negation(premise, claim, lexicon)
    return _by_value(premise, claim, match, lexicon)


def _by_value(premise: Statement, claim: Statement, match: Match, lexicon: Lexicon) -> NumericVerdict:
    """Decide on the same statement, with the quantities that `match` pairs."""
    relations = [relate(p, h) for p, h in match.pairs]
    different = [i for i, relation in enumerate(relations) if relation != Relation.EQUAL]
    if not different:
        return _agreement(claim, match) if match.pairs else _unknown("no quantity to compare")
    spans = {QuantityKind.BOUND, QuantityKind.RANGE}
    if all(relations[i] == Relation.OVERLAP and match.pairs[i][0].kind in spans for i in different):
        said = "; ".join(f"{match.pairs[i][0].text} leaves {match.pairs[i][1].text} open" for i in different)
        return NumericVerdict(kind="open", reason=said)
    if len(different) != 1 or relations[different[0]] != Relation.DISJOINT:
        return _unknown("no single quantity differs beyond doubt")
    left, right = match.pairs[different[0]]
    doubt = _plain_doubt(premise, claim, lexicon) or _value_doubt(match, different[0], claim, lexicon)
    if doubt:
        return _unknown(doubt)
    return NumericVerdict(kind="conflict", reason=f"{left.text} against {right.text}")


def _agreement(claim: Statement, match: Match) -> NumericVerdict:
    # Under a negation a weaker bound does not follow: "not 55" says nothing about "not at least 40".
    if claim.negations and any((p.low, p.high) != (h.low, h.high) for p, h in match.pairs):
        return _unknown("a negated bound")
    said = "; ".join(f"{p.text} and {h.text}" for p, h in match.pairs)
    return NumericVerdict(kind="agree", reason=f"the same statement with {said}")


# --- what makes a conflict doubtful -----------------------------------------------------------------------------


def _plain_doubt(premise: Statement, claim: Statement, lexicon: Lexicon) -> str:
    """Return why the two may both be true although they differ; empty when nothing speaks for it."""
    if premise.negations or claim.negations:
        return "a negation stands in both"
    return _common_doubt(premise, claim, lexicon)


def _common_doubt(premise: Statement, claim: Statement, lexicon: Lexicon) -> str:
    if claim.first in lexicon.unsafe_subjects or premise.first in lexicon.unsafe_subjects:
        return "the subject may be another one"
    matched = {item.key for item in claim.items} | claim.words
    hedged = sorted(matched & lexicon.hedges - _cue_words(claim))
    return f"{hedged[0]!r} leaves room for both" if hedged else ""


def _cue_words(statement: Statement) -> frozenset[str]:
    """Return the words of the quantities themselves: "more" in "more than 40" hedges nothing."""
    texts = (item.quantity.text.lower() for item in statement.items if item.quantity)
    keys = {item.key for item in statement.items}
    return frozenset(word for text in texts for word in text.split()) - keys


def _value_doubt(match: Match, which: int, claim: Statement, lexicon: Lexicon) -> str:
    premise, hypothesis = match.pairs[which]
    if premise.uncertain or hypothesis.uncertain:
        return f"{premise.text} or {hypothesis.text} can be read in two ways"
    if thousandfold(premise, hypothesis):
        return f"{premise.text} and {hypothesis.text} may differ in their separators only"
    items = fronted(claim.items, lexicon)
    position = match.positions[which]
    before = items[position - 1].key if position else ""
    item = items[position]
    if item.attributive and before not in lexicon.copulas:
        return "there may be several such things"
    if hypothesis.dimension in TIME:
        return _time_doubt(items, position, lexicon)
    if hypothesis.dimension == "ordinal":
        return "" if before in lexicon.copulas else "both ordinals may hold"
    return _amount_doubt(items, position, hypothesis, lexicon)


def _amount_doubt(items: tuple[Item, ...], position: int, hypothesis: Quantity, lexicon: Lexicon) -> str:
    item, before = items[position], items[position - 1].key if position else ""
    if item.definite and hypothesis.dimension != "percent":
        return "it tells which one is meant"
    others = any(i.quantity and i.quantity.dimension not in TIME for i in items if i is not item)
    if before in lexicon.conditions and (others or position + 1 < len(items)):
        return "it may be a condition"
    stated = before in lexicon.copulas | lexicon.valued or (
        before in lexicon.of and items[position - 2].key in lexicon.magnitudes
    )
    bound = hypothesis.kind in {QuantityKind.BOUND, QuantityKind.RANGE}
    if before == "s" or (bound and position and not stated):
        return "it tells which one is meant"
    if hypothesis.dimension == "count" and not hypothesis.noun and not stated:
        return "a bare number may be a name"
    return ""


def _time_doubt(items: tuple[Item, ...], position: int, lexicon: Lexicon) -> str:
    """Return a doubt: a time excludes another only for what happens once, and where it is not part of a name."""
    verb = next((i for i in range(len(items)) if _happens_once(items, i, lexicon)), len(items))
    if {other.word for other in items[:verb]} & lexicon.recurring:
        return "it may happen more than once"
    if not items[position].attributive and (verb > position or any(other.quantity for other in items[:verb])):
        return "both times may hold"
    return ""


def _happens_once(items: tuple[Item, ...], index: int, lexicon: Lexicon) -> bool:
    """Return whether the word is a verb of what happens once, and in the singular: "was founded", "died"."""
    if items[index].key in lexicon.once_active:
        return True
    before = {item.key for item in items[max(0, index - 2) : index]}
    return items[index].key in lexicon.once and bool(before & lexicon.singular)


def _said_elsewhere(statements: list[Statement], claim: Statement) -> bool:
    """Whether each quantity of the hypothesis stands in the premise, in sentences beyond a single one."""
    if len(statements) < 2:
        return False
    found = [item.quantity for statement in statements for item in statement.items if item.quantity]
    ours = [item.quantity for item in claim.items if item.quantity]
    return bool(ours) and all(
        any(q.dimension == mine.dimension and relate(q, mine) == Relation.EQUAL for q in found) for mine in ours
    )


# --- direction and negation -------------------------------------------------------------------------------------


def _by_direction(premise: Statement, claim: Statement, match: Match, lexicon: Lexicon) -> NumericVerdict:
    """Decide on up against down, with the same values or with the start and the end exchanged."""
    doubt = _plain_doubt(premise, claim, lexicon)
    if doubt or not match.pairs:
        return _unknown(doubt or "nothing ties the two directions to one time")
    straight = all(relate(p, h) == Relation.EQUAL for p, h in match.pairs)
    if not (straight or _exchanged(match.pairs)):
        return _unknown("the directions differ, and so do the values")
    left, right = ("up", "down") if any(i.key == UP for i in premise.items) else ("down", "up")
    said = ", ".join(p.text for p, _ in match.pairs), ", ".join(h.text for _, h in match.pairs)
    return NumericVerdict(kind="conflict", reason=f"{left} ({said[0]}) against {right} ({said[1]})")


def _exchanged(pairs: tuple[tuple[Quantity, Quantity], ...]) -> bool:
    """Return whether the first two quantities changed places and the others agree."""
    if len(pairs) < 2 or not all(relate(p, h) == Relation.EQUAL for p, h in pairs[2:]):
        return False
    (first, other_first), (second, other_second) = pairs[:2]
    same = first.dimension == second.dimension
    return same and relate(first, other_second) == relate(second, other_first) == Relation.EQUAL


def _by_negation(premise: Statement, claim: Statement, lexicon: Lexicon) -> NumericVerdict:
    """Decide on the same statement, denied on one side only by a plain "not" beside its verb."""
    if {premise.negations, claim.negations} != {0, 1}:
        return _unknown("no sentence of the premise makes the same statement")
    denied, plain = (premise, claim) if premise.negations else (claim, premise)
    at = denied.negated_at
    items = _without_support(denied, lexicon) if at else None
    beside = at and items is not None
    if not beside or items is None or any(item.key.startswith("<") and item.key not in {UP, DOWN} for item in items):
        return _unknown("the negation is not a plain one")
    supported = len(items) < len(denied.items)
    doubt = _common_doubt(premise, claim, lexicon) or _scope_doubt(denied, plain, lexicon)
    if doubt:
        return _unknown(doubt)
    if len(items) != len(plain.items) or not all(
        _alike_denied(a, b, supported) for a, b in zip(items, plain.items, strict=True)
    ):
        return _unknown("no sentence of the premise makes the same statement")
    side = "premise" if premise.negations else "hypothesis"
    return NumericVerdict(kind="conflict", reason=f"the same statement, but denied in the {side}")


def _scope_doubt(denied: Statement, plain: Statement, lexicon: Lexicon) -> str:
    if any(item.quantity and item.quantity.dimension not in TIME for item in denied.items[: denied.negated_at]):
        return "some may do what others do not"
    if any(item.attributive for item in denied.items):
        return "there may be several such things"
    if plain.words & lexicon.recurring or denied.words & lexicon.recurring:
        return "it may happen more than once"
    return ""


def _without_support(denied: Statement, lexicon: Lexicon) -> tuple[Item, ...] | None:
    """Return the items without a "did" that only carries the negation; None when "not" is not beside a verb."""
    at = denied.negated_at
    before = denied.items[at - 1].key if at else ""
    if lexicon.decimal == ",":
        return denied.items if at < len(denied.items) else None
    if before in lexicon.support or before + "s" in lexicon.support:
        return denied.items[: at - 1] + denied.items[at:]
    return denied.items if before in lexicon.auxiliaries or f"{before}s" in lexicon.auxiliaries else None


def _alike_denied(left: Item, right: Item, supported: bool) -> bool:
    if left.quantity and right.quantity:
        return bool(same_kind(left, right)) and relate(left.quantity, right.quantity) is Relation.EQUAL
    verbs = supported and _verb_stem(left.key) == _verb_stem(right.key)
    return same_kind(left, right) is None and (left.key == right.key or verbs)


def _verb_stem(word: str) -> str:
    """Cut a verb's ending ("approve", "approved"); irregular verbs stay apart, which leaves them undecided."""
    for ending in ("ied", "ed", "es", "e", "y"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)]
    return word

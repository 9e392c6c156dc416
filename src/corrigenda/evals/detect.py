"""From records to what is counted: one unit per labelled claim or sentence, and one per answer. Pure.

The positive class is the hallucination. A unit that failed is never flagged and never right, and it stays in the
denominator. `docs/metrics.md` has the whole table of what counts as what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corrigenda.evals.records import Record
from corrigenda.methods.protocol import Judged, Outcome
from corrigenda.types import Verdict

_TRUTH = {Verdict.CONTRADICTED: True, Verdict.SUPPORTED: False}
DECIDED = (Verdict.SUPPORTED, Verdict.CONTRADICTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One claim, sentence or answer, with what is true of it and what the method said."""

    item: str
    group: str
    """Units of a group are resampled together."""
    weight: float = 1.0
    """1 / the repeats of its item: an item that was run three times still counts once."""
    gold: bool | None
    """True: hallucinated. False: not. None: unknown, out of every two-way measure."""
    label: Verdict | None = None
    """The gold label in its three-way form; None where there is none."""
    flagged: bool = False
    verdict: Verdict | None = None
    """The method's verdict in its three-way form; None where it gives none."""
    score: float | None = None
    """Higher: more likely hallucinated."""
    failed: bool = False
    """The method said nothing because something broke."""
    sentence: int | None = None
    """The sentence's index, for a unit that is one."""

    @property
    def counted(self) -> bool:
        """Whether the unit is in the two-way accuracy: its truth is known, or it is wrong whatever the truth."""
        return self.gold is not None or (self.failed and self.label is None)

    @property
    def right(self) -> bool:
        """Whether the method is right about it: flagged if and only if hallucinated."""
        return not self.failed and self.gold is not None and self.flagged == self.gold


@dataclass(frozen=True, kw_only=True, slots=True)
class Confusion:
    """The table of detection, by weight (whole numbers without repeats)."""

    tp: float = 0.0
    fp: float = 0.0
    fn: float = 0.0
    tn: float = 0.0
    failed_negative: float = 0.0
    """Failed units that are not hallucinated: wrong, and in none of the four."""
    failed_unknown: float = 0.0
    """Failed units of which nobody knows what they would have been."""
    left_out: float = 0.0
    """Units whose truth is unknown or `unverified`."""

    @property
    def n(self) -> float:
        """Units in the two-way accuracy."""
        return self.tp + self.fp + self.fn + self.tn + self.failed_negative + self.failed_unknown


def item_key(record: Record) -> str:
    """Return what tells items apart, over data sets too."""
    return f"{record.dataset}\0{record.item}"


def group_key(record: Record) -> str:
    """Return the record's group; an item without one is its own."""
    return f"{record.dataset}\0{record.group or record.item}"


def repeat_weights(records: Iterable[Record]) -> dict[tuple[str, str], float]:
    """Return, per method and item, 1 / the number of its records."""
    counts = Counter((record.method, item_key(record)) for record in records)
    return {key: 1 / count for key, count in counts.items()}


def false_before(record: Record) -> bool | None:
    """Return whether the answer was wrong before anything was changed: by its gold labels, else by the judge.

    An answer is false when one of its labelled sentences is, and true when all its sentences are. None where
    nothing says so either way.
    """
    by_gold = false_by_gold(record)
    if by_gold is not None or record.label is not None:
        return by_gold
    return None if record.before is None or record.before.correct is None else not record.before.correct


def false_by_gold(record: Record) -> bool | None:
    """Return whether the gold labels of the answer, or of its sentences, make it false; None where they do not say."""
    if record.label is not None:
        return _TRUTH.get(record.label)
    if record.sentence_labels and Verdict.CONTRADICTED in record.sentence_labels:
        return True
    if record.sentence_labels and set(record.sentence_labels) == {Verdict.SUPPORTED}:
        return False
    return None


def false_after(record: Record) -> bool | None:
    """Return whether the final answer is wrong: one that was not changed is as wrong as before, else by the judge.

    None for an item that failed, and where nothing says so either way.
    """
    outcome = record.outcome
    if outcome is None:
        return None
    before = false_before(record) if outcome.final_answer == outcome.answer else None
    if before is not None:
        return before
    return None if record.after is None or record.after.correct is None else not record.after.correct


def says_of_answers(records: Iterable[Record]) -> bool:
    """Return whether a method says of answers that they are hallucinated or not. True when all its items failed."""
    outcomes = [r.outcome for r in records if r.outcome is not None]
    return not outcomes or any(o.flagged is not None for o in outcomes)


def says_of_claims(records: Iterable[Record]) -> bool:
    """Return whether a method gives verdicts, claim by claim. True when all its items failed."""
    outcomes = [r.outcome for r in records if r.outcome is not None]
    return not outcomes or any(o.verdicts for o in outcomes)


def _says_of_sentences(records: Iterable[Record]) -> bool:
    """Return whether a method's verdicts belong to sentences; those on an answer as a whole do not."""
    outcomes = [r.outcome for r in records if r.outcome is not None and r.kind == "answer"]
    return not outcomes or any(j.sentence is not None for o in outcomes for j in o.verdicts)


def three_way(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return one verdict for several: contradicted if any is, supported if all that can be checked are.

    `failed` when none is contradicted and one failed; None when there is none.
    """
    if not verdicts:
        return None
    checkable = [v for v in verdicts if v is not Verdict.NOT_CHECKABLE]
    if not checkable:
        return Verdict.NOT_CHECKABLE
    for verdict in (Verdict.CONTRADICTED, Verdict.FAILED):
        if verdict in checkable:
            return verdict
    return Verdict.SUPPORTED if all(v is Verdict.SUPPORTED for v in checkable) else Verdict.UNVERIFIED


def claim_units(records: Sequence[Record]) -> list[Unit]:
    """Return the claim-level units of one method's records: labelled claims, and labelled sentences of answers.

    A claim about which the method gives several verdicts is flagged when any is `contradicted`; its score is the
    highest. A method without verdicts is taken at its word about the whole answer, where that is one claim.
    """
    return [unit for found in claim_units_by_record(records) for unit in found]


def claim_units_by_record(records: Sequence[Record]) -> list[list[Unit]]:
    """Return `claim_units`, a list per record."""
    weights = repeat_weights(records)
    whole, parts, by_sentence = says_of_answers(records), says_of_claims(records), _says_of_sentences(records)
    found: list[list[Unit]] = []
    for record in records:
        weight = weights[record.method, item_key(record)]
        units: list[Unit] = []
        if record.kind == "claim" and record.label is not None and (whole or parts):
            units = [_claim_unit(record, weight, parts=parts)]
        elif record.kind == "answer" and record.sentence_labels and by_sentence:
            units = _sentence_units(record, record.sentence_labels, weight)
        found.append(units)
    return found


def answer_units(records: Sequence[Record]) -> list[Unit]:
    """Return the answer-level units of one method's records: one per question or given answer."""
    return [unit for found in answer_units_by_record(records) for unit in found]


def answer_units_by_record(records: Sequence[Record]) -> list[list[Unit]]:
    """Return `answer_units`, a list per record."""
    weights, says = repeat_weights(records), says_of_answers(records)
    return [[_answer_unit(r, weights[r.method, item_key(r)])] if says and r.kind != "claim" else [] for r in records]


def confusion(units: Iterable[Unit]) -> Confusion:
    """Return the table of detection over some units."""
    sums = dict.fromkeys(("tp", "fp", "fn", "tn", "failed_negative", "failed_unknown", "left_out"), 0.0)
    for unit in units:
        sums[_cell(unit)] += unit.weight
    return Confusion(**sums)


def unattributed(record: Record) -> int:
    """Return how many verdicts of an answer with labelled sentences belong to no labelled sentence's place."""
    if record.kind != "answer" or not record.sentence_labels or record.outcome is None:
        return 0
    count = len(record.sentence_labels)
    return sum(v.sentence is None or not 0 <= v.sentence < count for v in record.outcome.verdicts)


def verdict_counts(records: Iterable[Record]) -> Mapping[Verdict, int]:
    """Return how often each verdict was given."""
    return Counter(j.verdict for r in records if r.outcome is not None for j in r.outcome.verdicts)


def _cell(unit: Unit) -> str:
    if unit.gold is None:
        return "failed_unknown" if unit.failed and unit.label is None else "left_out"
    if unit.gold:
        return "tp" if unit.flagged else "fn"
    if unit.failed:
        return "failed_negative"
    return "fp" if unit.flagged else "tn"


def _claim_unit(record: Record, weight: float, *, parts: bool) -> Unit:
    outcome = record.outcome
    verdicts = () if outcome is None else outcome.verdicts
    said = three_way([j.verdict for j in verdicts])
    silent = outcome is None or (not verdicts and (parts or outcome.flagged is None))
    flagged = said is Verdict.CONTRADICTED or (
        not silent and said is None and outcome is not None and bool(outcome.flagged)
    )
    return _unit(
        record,
        weight,
        record.label,
        flagged=flagged and not silent,
        verdict=Verdict.FAILED if silent else said,
        score=_highest(verdicts) if verdicts else _score(outcome),
    )


def _sentence_units(record: Record, labels: Sequence[Verdict | None], weight: float) -> list[Unit]:
    units = []
    for index, label in enumerate(labels):
        if label is None:
            continue
        verdicts = [j for j in record.outcome.verdicts if j.sentence == index] if record.outcome is not None else []
        said = three_way([j.verdict for j in verdicts]) or Verdict.NOT_CHECKABLE
        units.append(
            _unit(
                record,
                weight,
                label,
                flagged=said is Verdict.CONTRADICTED,
                verdict=Verdict.FAILED if record.outcome is None else said,
                score=_highest(verdicts),
                sentence=index,
            )
        )
    return units


def _unit(
    record: Record,
    weight: float,
    label: Verdict | None,
    *,
    flagged: bool,
    verdict: Verdict | None,
    score: float | None,
    sentence: int | None = None,
) -> Unit:
    return Unit(
        item=item_key(record),
        group=group_key(record),
        weight=weight,
        gold=None if label is None else _TRUTH.get(label),
        label=label,
        flagged=flagged,
        verdict=verdict,
        score=score,
        failed=verdict is Verdict.FAILED,
        sentence=sentence,
    )


def _answer_unit(record: Record, weight: float) -> Unit:
    outcome, gold = record.outcome, false_before(record)
    return Unit(
        item=item_key(record),
        group=group_key(record),
        weight=weight,
        gold=gold,
        label=record.label,
        flagged=outcome is not None and bool(outcome.flagged),
        score=_score(outcome),
        failed=outcome is None or (gold is not None and _broke(outcome)),
    )


def _broke(outcome: Outcome) -> bool:
    """Return whether nothing was decided about an answer: the method does not say, or every check failed."""
    checkable = {j.verdict for j in outcome.verdicts} - {Verdict.NOT_CHECKABLE}
    return outcome.flagged is None or (checkable == {Verdict.FAILED} and not outcome.flagged)


def _score(outcome: Outcome | None) -> float | None:
    return None if outcome is None else outcome.score


def _highest(verdicts: Iterable[Judged]) -> float | None:
    return max((j.score for j in verdicts if j.score is not None), default=None)

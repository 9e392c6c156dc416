"""When the judge is asked, and what about: answers before and after a method changed them, each answer once.

| item | before | after |
|---|---|---|
| question | the judge, by the item's lists | the same |
| given answer or claim with a gold label | the label | the label where nothing was changed; else the judge |
| given answer without a label | the judge, where the item has lists | the same |

A claim has no lists. One that was changed is judged by its evidence, which is what a right claim agrees with, and by
the claim as it was: an accepted answer where its label is `supported`, an incorrect one where it is `contradicted`.
"""

from __future__ import annotations

from dataclasses import replace

from corrigenda.evals.failures import GOLD
from corrigenda.evals.items import Item
from corrigenda.evals.judge import Judge, broken
from corrigenda.evals.memo import key_of
from corrigenda.evals.records import Judgement
from corrigenda.methods.protocol import Outcome
from corrigenda.shelf import Shelf
from corrigenda.types import Verdict

MAX_KEPT = 10_000
_BY_LABEL = {Verdict.SUPPORTED: True, Verdict.CONTRADICTED: False}


class Judging:
    """A judge that is asked once about each answer of each item, so that equal answers are judged alike."""

    def __init__(self, judge: Judge) -> None:
        """Ask `judge`."""
        self._judge = judge
        self._shelf: Shelf[Judgement] = Shelf(MAX_KEPT)

    @property
    def name(self) -> str:
        """The judge's name."""
        return self._judge.name

    async def before_and_after(
        self, item: Item, outcome: Outcome
    ) -> tuple[Judgement | None, Judgement | None, str | None]:
        """Return the judgements on the answer and on the final answer, and the name of what decided."""
        changed = outcome.final_answer != outcome.answer
        asked = False
        if item.label is not None and item.kind != "question":
            before: Judgement | None = _gold(item.label)
        else:
            before = await self.judged(item, outcome.answer)
            asked = before is not None
        if not changed:
            return before, before, self.name if asked else GOLD if before is not None else None
        after = await self.judged(item, outcome.final_answer)
        asked = asked or after is not None
        return before, after, self.name if asked else GOLD if before is not None else None

    async def judged(self, item: Item, answer: str) -> Judgement | None:
        """Return the judgement on one answer; None when the item has nothing to judge by.

        Whatever a judge raises becomes an undecided judgement with the reason.
        """
        correct, incorrect = _lists(item)
        if not correct and not incorrect:
            return None
        key = key_of(item.question, answer, correct, incorrect)
        kept = await self._shelf.take(key)
        if kept is not None:
            return kept.value
        try:
            found = await self._judge.judge(item.question, answer, correct, incorrect)
            self._shelf.put(key, found, 0.0)
        except Exception as exc:  # a judge may have any fault; the answer is then undecided
            return broken(exc)
        finally:
            self._shelf.give_up(key)
        return found


def _gold(label: Verdict) -> Judgement:
    found = Judgement(correct=_BY_LABEL.get(label), reason=f"the gold label is {label.value!r}")
    return replace(found, details={"judge": GOLD})


def _lists(item: Item) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the accepted and the incorrect answers of an item."""
    if item.kind != "claim" or item.correct or item.incorrect:
        return item.correct, item.incorrect
    evidence = tuple(context.text for context in item.contexts or ())
    own = (item.answer,) if item.answer is not None else ()
    if not evidence or item.label not in _BY_LABEL:
        return (), ()
    return ((*evidence, *own), ()) if item.label is Verdict.SUPPORTED else (evidence, own)

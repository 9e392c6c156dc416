"""`base`: one generation, nothing checked. What every other method starts from and is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corrigenda.methods.common import examined
from corrigenda.methods.protocol import Kit, NeededInput, Outcome, Task, Traits


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """The chat model alone: the answer as it comes, with the settings of stage 1 (paper, Tables 2 and 3).

    It says nothing about the answer: no verdicts, `flagged` is None. An answer that is given is returned. Differs
    from the paper in the model only.
    """

    name: ClassVar[str] = "base"
    traits: ClassVar[Traits] = Traits(
        paper="The paper's base model: one generation at temperature 0.7, top-p 0.9, at most 256 tokens.",
        retrieval=False,
        claim_level=False,
        adaptive=False,
        corrects=False,
        calls="1",
        differs=("Any chat model takes the place of GPT-3.5 Turbo.",),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ()

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Return the answer, generated unless it is given. Raises InputError and BackendError."""
        answer = await examined(task, kit, self.name)
        return Outcome(answer=answer.text, final_answer=answer.text, warnings=answer.warnings)

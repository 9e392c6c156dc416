"""`nli-fixed`: claims, reference and verifier under one threshold for every answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corrigenda.methods.pipelined import run_pipeline
from corrigenda.methods.protocol import Kit, NeededInput, Outcome, Task, Traits
from corrigenda.policies import DEFAULT_THRESHOLD, Fixed


@dataclass(frozen=True, kw_only=True, slots=True)
class NliFixed:
    """The paper's NLI baseline (its Table 2): the same pipeline, decided by a fixed threshold of 0.7.

    It corrects too: in the paper's ablation (Table 4) it is the full system without the adaptive threshold.
    Raises ConfigError when the threshold is outside [0, 1].
    """

    threshold: float = DEFAULT_THRESHOLD
    """P(entailment) or P(contradiction) from which on a claim is supported or contradicted; from 0 to 1."""

    name: ClassVar[str] = "nli-fixed"
    traits: ClassVar[Traits] = Traits(
        paper="The paper's NLI baseline with a fixed threshold (Tables 2 to 4).",
        retrieval=False,
        claim_level=True,
        adaptive=False,
        corrects=True,
        calls="1 + r + d + f (r references recalled, none with contexts; d ≤ s sentences decomposed by the model)",
        differs=(
            "The verifier is the run's, not necessarily the paper's DeBERTa-v3-large.",
            "A rewrite is put to the verifier before it is accepted; the paper inserts it as it comes.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ()

    def __post_init__(self) -> None:
        """Check the threshold."""
        Fixed(threshold=self.threshold)

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Run the pipeline under `fixed`. Raises InputError and BackendError."""
        return await run_pipeline(task, kit, Fixed(threshold=self.threshold), self.name)

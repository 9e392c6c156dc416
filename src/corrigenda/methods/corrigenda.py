"""`corrigenda`: this system, under the policy of the settings or one of its own (`corrigenda:paper`, …)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corrigenda.errors import ConfigError
from corrigenda.methods.pipelined import run_pipeline
from corrigenda.methods.protocol import Kit, NeededInput, Outcome, Task, Traits
from corrigenda.policies import Policy, make_policy

_OPTIONS = ("k", "threshold", "floor", "ceiling", "alpha")


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineMethod:
    """The seven stages, decided by a policy over the scores of the whole answer.

    Each option stands in for the kit's; what is None is taken from there. The kit's `threshold` belongs to the
    kit's policy (the fixed one and a calibrated one are not the same thing), so another policy does not get it.
    Raises ConfigError for an unknown policy, a value out of range, or an option that the named policy does not have.
    """

    policy: str | None = None
    """paper, fixed, bounded or conformal; None: the kit's."""
    k: float | None = None
    """Sensitivity of τ = µ + kσ; at least 0."""
    threshold: float | None = None
    """Threshold of `fixed` and `conformal`; from 0 to 1."""
    floor: float | None = None
    """Lower bound of τ under `bounded`; from 0 to 1."""
    ceiling: float | None = None
    """Upper bound of τ under `bounded`; below 1."""
    alpha: float | None = None
    """Accepted share of true claims flagged, under `conformal`; between 0 and 1."""

    name: ClassVar[str] = "corrigenda"
    traits: ClassVar[Traits] = Traits(
        paper="This system; it starts from the paper's seven stages and its threshold τ = µ + kσ (Tables 2 to 5).",
        retrieval=False,
        claim_level=True,
        adaptive=True,
        corrects=True,
        calls="1 + r + d + f (r references recalled, none with contexts; d ≤ s sentences decomposed by the model)",
        differs=(
            "The policy is the settings' one; `corrigenda:paper` is the published rule, which cannot flag a few false "
            "claims among many true ones.",
            "Under `fixed` and `conformal` the threshold does not adapt to the answer.",
            "The verifier is the run's, not necessarily the paper's DeBERTa-v3-large.",
            "The reference is decoded greedily and has at most 96 tokens unless the settings say otherwise.",
            "A reference that is longer than the verifier reads is windowed, and the most confident window that is "
            "not neutral decides.",
            "Sentences that make one plain statement are decomposed by rule, without a call.",
            "A rewrite is put to the verifier before it is accepted; the paper inserts it as it comes.",
        ),
    )
    needs: ClassVar[tuple[NeededInput, ...]] = ()

    def __post_init__(self) -> None:
        """Check the options against the policy, where one is named."""
        if self.policy is not None:
            self._made(self.policy, {})

    def policy_for(self, kit: Kit) -> Policy:
        """Return the policy that decides. Raises ConfigError when the options do not fit it."""
        name = self.policy or kit.policy
        if self.policy is None and kit.fitted is not None:
            if self._own():
                option = next(iter(self._own()))
                raise ConfigError(f"{option} cannot be set beside a policy file, which fixes it; name a policy with it")
            return kit.fitted
        shared = {key: value for key, value in kit.policy_options.items() if key != "threshold" or name == kit.policy}
        return self._made(name, shared)

    def _made(self, name: str, shared: dict[str, float]) -> Policy:
        own = self._own()
        made = make_policy(name, **{**shared, **own})
        unused = [key for key in own if not hasattr(made, key)]
        if unused:
            known = ", ".join(key for key in _OPTIONS if hasattr(made, key))
            raise ConfigError(f"policy {name!r} has no option {unused[0]!r}; it has {known}")
        return made

    def _own(self) -> dict[str, float]:
        """Return the options that are given here."""
        return {key: getattr(self, key) for key in _OPTIONS if getattr(self, key) is not None}

    async def run(self, task: Task, kit: Kit) -> Outcome:
        """Run the pipeline. Raises InputError (ConfigError for options that do not fit) and BackendError."""
        return await run_pipeline(task, kit, self.policy_for(kit), self.name)

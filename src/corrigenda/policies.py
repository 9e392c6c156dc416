"""The four decision policies (spec §2): signed scores in, verdicts out. Pure; nothing is read or awaited.

A signed score is +P(entailment), 0 (neutral) or -P(contradiction), so its sign is the label. A score of None,
NaN or infinity is a failed check: it gets the verdict `failed` and takes no part in the statistics.

Every comparison has a tolerance of 1e-9, so that n equal scores are decided alike however their mean rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from corrigenda.errors import ConfigError
from corrigenda.types import Decision, Verdict

TOLERANCE = 1e-9
DEFAULT_K = 0.7
"""The paper's sensitivity, chosen by it on 164 validation questions of TruthfulQA."""
DEFAULT_THRESHOLD = 0.7
"""The paper's fixed threshold for its NLI baseline."""
DEFAULT_FLOOR = 0.5
"""Provisional: below it a contradiction is not even more probable than all else together."""
DEFAULT_CEILING = 0.9
"""Provisional: what a confident verifier reaches on plain contradictions."""
DEFAULT_ALPHA = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """What a policy returns: one verdict per score, how it came about, and what the user should know."""

    decision: Decision
    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...] = ()


class Policy(Protocol):
    """A decision rule over the scores of one answer."""

    @property
    def name(self) -> str:
        """The policy's name, as `--policy` takes it."""
        ...

    def decide(self, scores: Sequence[float | None]) -> Decided:
        """Return one verdict per signed score (each in [-1, 1] or None), in order."""
        ...


def statistics(scores: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return µ and the population σ (ddof 0) of the finite scores, or (None, None) when there are none."""
    finite = [s for s in scores if s is not None and math.isfinite(s)]
    if not finite:
        return None, None
    mu = math.fsum(finite) / len(finite)
    return mu, math.sqrt(math.fsum((s - mu) ** 2 for s in finite) / len(finite))


def _adaptive(scores: Sequence[float | None], k: float) -> tuple[float | None, float | None, float | None]:
    """Return µ, σ and µ + kσ; three times None when no score is finite."""
    mu, sigma = statistics(scores)
    return mu, sigma, None if mu is None or sigma is None else mu + k * sigma


def _decided(decision: Decision, tau: float | None, scores: Sequence[float | None], policy: str) -> Decided:
    """Decide by |s| against τ, with a warning where it is out of reach; without a τ every claim has failed."""
    if tau is None:
        return Decided(decision=decision, verdicts=(Verdict.FAILED,) * len(scores))
    return Decided(
        decision=decision,
        verdicts=_by_threshold(scores, tau, tau),
        warnings=_reach_warnings(tau, scores, policy),
    )


def conformal_threshold(true_claim_scores: Sequence[float], alpha: float) -> float:
    """Return the split-conformal threshold from signed scores of claims known to be true.

    A new true claim, exchangeable with these, is flagged (contradiction stronger than the threshold) with
    probability at most `alpha`, whatever the distribution (Vovk et al. 2005; Angelopoulos & Bates 2023, §1).
    Returns infinity, which flags nothing, when there are too few scores for `alpha`: n < 1/alpha - 1.
    Raises ConfigError when `alpha` is not in (0, 1) or a score is not in [-1, 1].
    """
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha must be between 0 and 1 (both excluded), got {alpha!r}")
    if any(not -1 <= s <= 1 for s in true_claim_scores):
        raise ConfigError("signed scores must be in [-1, 1]; one of the calibration scores is not")
    strengths = sorted(max(0.0, -s) for s in true_claim_scores)
    rank = math.ceil((len(strengths) + 1) * (1 - alpha) - TOLERANCE)
    return strengths[rank - 1] if rank <= len(strengths) else math.inf


def _by_threshold(scores: Sequence[float | None], support: float, flag: float) -> tuple[Verdict, ...]:
    """Return verdicts: entailment at or above `support`, contradiction at or below -`flag`."""

    def one(score: float | None) -> Verdict:
        if score is None or not math.isfinite(score):
            return Verdict.FAILED
        if score > 0 and score >= support - TOLERANCE:
            return Verdict.SUPPORTED
        if score < 0 and score <= -flag + TOLERANCE:
            return Verdict.CONTRADICTED
        return Verdict.UNVERIFIED

    return tuple(one(s) for s in scores)


def _reach_warnings(tau: float, scores: Sequence[float | None], policy: str) -> tuple[str, ...]:
    """Warn when τ lies above every score that could meet it, which makes both verdicts unreachable."""
    strengths = [abs(s) for s in scores if s is not None and math.isfinite(s)]
    strongest = max(strengths, default=0.0)
    if not strengths or strongest == 0 or tau <= strongest + TOLERANCE:
        return ()
    how = "no score can reach it" if tau > 1 + TOLERANCE else f"the strongest score of this answer is {strongest:.3f}"
    advice = "; try --policy bounded" if policy == "paper" else ""
    return (
        f"policy {policy!r}: the threshold τ = {tau:.4f} is unreachable ({how}), so no claim of this answer can be "
        f"supported or contradicted{advice}",
    )


def _check_unit(name: str, value: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}")


def _check_k(k: float) -> None:
    if not (math.isfinite(k) and k >= 0):
        raise ConfigError(f"k must be a finite number of at least 0, got {k!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Paper:
    """The published rule: τ = µ + kσ, nothing else. Kept for reproducing the paper.

    Blind spot: with a share p of the claims contradicted at -c and the rest supported at +c, nothing is
    flagged unless p >= k²/(1 + k²): 32.9% at k = 0.7. Raises ConfigError when k is negative or not finite.
    """

    k: float = DEFAULT_K

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_k(self.k)

    @property
    def name(self) -> str:
        """`paper`."""
        return "paper"

    def decide(self, scores: Sequence[float | None]) -> Decided:
        """Decide by |s| against τ; a negative τ leaves the decision to the label and -τ, as published."""
        mu, sigma, tau = _adaptive(scores, self.k)
        decision = Decision(policy=self.name, k=self.k, mu=mu, sigma=sigma, tau=tau, tau_raw=tau)
        return _decided(decision, tau, scores, self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixed:
    """One threshold for every answer: the paper's NLI baseline (Table 2). Raises ConfigError outside [0, 1]."""

    threshold: float = DEFAULT_THRESHOLD
    k: float = DEFAULT_K

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_unit("threshold", self.threshold)
        _check_k(self.k)

    @property
    def name(self) -> str:
        """`fixed`."""
        return "fixed"

    def decide(self, scores: Sequence[float | None]) -> Decided:
        """Decide by |s| against the threshold. µ, σ and µ + kσ are reported and not used."""
        mu, sigma, raw = _adaptive(scores, self.k)
        return Decided(
            decision=Decision(
                policy=self.name,
                k=self.k,
                mu=mu,
                sigma=sigma,
                tau=self.threshold,
                tau_raw=raw,
                threshold=self.threshold,
            ),
            verdicts=_by_threshold(scores, self.threshold, self.threshold),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    """τ = clip(µ + kσ, floor, ceiling): adapts like the paper's rule and keeps both verdicts reachable.

    0 <= floor <= ceiling < 1, else ConfigError. `provisional` marks bounds that were not calibrated.
    """

    k: float = DEFAULT_K
    floor: float = DEFAULT_FLOOR
    ceiling: float = DEFAULT_CEILING
    provisional: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_k(self.k)
        _check_unit("floor", self.floor)
        _check_unit("ceiling", self.ceiling)
        if self.floor > self.ceiling:
            raise ConfigError(f"floor must not exceed ceiling, got floor {self.floor!r} and ceiling {self.ceiling!r}")
        if self.ceiling >= 1:
            raise ConfigError(f"ceiling must be below 1, or no score could be sure to reach it, got {self.ceiling!r}")

    @property
    def name(self) -> str:
        """`bounded`."""
        return "bounded"

    def decide(self, scores: Sequence[float | None]) -> Decided:
        """Decide by |s| against the clipped τ."""
        mu, sigma, raw = _adaptive(scores, self.k)
        tau = None if raw is None else min(max(raw, self.floor), self.ceiling)
        decision = Decision(
            policy=self.name,
            k=self.k,
            mu=mu,
            sigma=sigma,
            tau=tau,
            tau_raw=raw,
            floor=self.floor,
            ceiling=self.ceiling,
            provisional=self.provisional,
        )
        return _decided(decision, tau, scores, self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Conformal:
    """Flags a contradiction stronger than a threshold calibrated so that P(flag | true claim) <= alpha.

    `threshold` comes from `conformal_threshold` on labelled claims scored by the same verifier; until it does,
    it is `provisional` and guarantees nothing. The guarantee concerns flags; an entailment is supported from
    `support` on. Raises ConfigError when a value is out of range.
    """

    threshold: float = DEFAULT_CEILING
    alpha: float = DEFAULT_ALPHA
    support: float = DEFAULT_FLOOR
    k: float = DEFAULT_K
    provisional: bool = True

    def __post_init__(self) -> None:
        """Check the settings; a threshold of infinity flags nothing and is allowed."""
        if self.threshold != math.inf:
            _check_unit("threshold", self.threshold)
        _check_unit("support", self.support)
        _check_k(self.k)
        if not 0 < self.alpha < 1:
            raise ConfigError(f"alpha must be between 0 and 1 (both excluded), got {self.alpha!r}")

    @property
    def name(self) -> str:
        """`conformal`."""
        return "conformal"

    def decide(self, scores: Sequence[float | None]) -> Decided:
        """Flag strictly above the threshold: the calibration counts a tie as not flagged."""
        mu, sigma, raw = _adaptive(scores, self.k)
        finite = self.threshold if math.isfinite(self.threshold) else None
        warnings = []
        if self.provisional:
            warnings.append(
                "policy 'conformal': its threshold was not calibrated for this verifier, so the bound "
                f"P(flagging a true claim) <= {self.alpha:g} is not guaranteed"
            )
        if finite is None or finite >= 1:
            warnings.append("policy 'conformal': too few calibration claims for this alpha, so nothing can be flagged")
        return Decided(
            decision=Decision(
                policy=self.name,
                k=self.k,
                mu=mu,
                sigma=sigma,
                tau=finite,
                tau_raw=raw,
                threshold=finite,
                alpha=self.alpha,
                provisional=self.provisional,
            ),
            # Twice the tolerance: `_by_threshold` gives a tie to the flag, here a tie must not be flagged.
            verdicts=_by_threshold(scores, self.support, self.threshold + 2 * TOLERANCE),
            warnings=tuple(warnings),
        )


def _only(options: dict[str, float], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _make_paper(options: dict[str, float]) -> Policy:
    return replace(Paper(), **_only(options, "k"))


def _make_fixed(options: dict[str, float]) -> Policy:
    return replace(Fixed(), **_only(options, "k", "threshold"))


def _make_bounded(options: dict[str, float]) -> Policy:
    return replace(Bounded(), **_only(options, "k", "floor", "ceiling"))


def _make_conformal(options: dict[str, float]) -> Policy:
    return replace(Conformal(), **_only(options, "k", "threshold", "alpha"))


POLICIES: dict[str, Callable[[dict[str, float]], Policy]] = {
    "paper": _make_paper,
    "fixed": _make_fixed,
    "bounded": _make_bounded,
    "conformal": _make_conformal,
}


def make_policy(name: str, **options: float | None) -> Policy:
    """Return the policy called `name` with those of `options` that it has and that are not None.

    Options: k, threshold, floor, ceiling, alpha. Raises ConfigError for an unknown name or a value out of range.
    """
    if name not in POLICIES:
        raise ConfigError(f"unknown policy {name!r}; there are {', '.join(sorted(POLICIES))}")
    return POLICIES[name]({key: value for key, value in options.items() if value is not None})

"""What the verdicts and the edits of an answer come to as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from corrigenda.checkable import ABSTENTION, REFUSAL
from corrigenda.types import Claim, Edit, Status, Verdict


def status_of(claims: Sequence[Claim], edits: Sequence[Edit]) -> tuple[Status, str | None]:
    """Return the answer's status and, where it needs saying, why. See `corrigenda.types.Status`.

    A claim that was repaired counts as contradicted, also where a later decision found it in doubt only: the final
    answer no longer makes it.
    """
    repaired = {i for e in edits if e.accepted and e.kind != "hedge" for i in e.claims}
    flagged = {i for i, c in enumerate(claims) if c.verdict is Verdict.CONTRADICTED} | repaired
    checkable = [c for c in claims if c.verdict is not Verdict.NOT_CHECKABLE]
    failed = [c for c in checkable if c.verdict is Verdict.FAILED]
    if flagged and not edits:  # correcting was not asked for
        return Status.CONTRADICTED, f"{len(flagged)} of {len(claims)} claims are contradicted"
    if flagged:
        left, tried = flagged - repaired, {i for e in edits for i in e.claims}
        if left:
            how = "could not be repaired" if left <= tried else "still stand in the answer"
            return Status.CONTRADICTED, f"{len(left)} of {len(flagged)} contradicted claims {how}"
        return Status.CORRECTED, None
    if not checkable:
        if any(c.reason in (REFUSAL, ABSTENTION) for c in claims):
            return Status.ABSTAINED, "the answer says that it does not know, or refuses"
        return Status.UNVERIFIED, "the answer makes no claim that can be checked"
    if len(failed) == len(checkable):
        return Status.FAILED, failed[0].reason
    if all(c.verdict is Verdict.SUPPORTED for c in checkable):
        return Status.VERIFIED, None
    supported = sum(c.verdict is Verdict.SUPPORTED for c in checkable)
    return Status.UNVERIFIED, f"{supported} of {len(checkable)} claims are supported"


def late_verdicts(claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return a warning where claims left by another verdict than the one that they have now."""
    late = sum(c.released is not None and c.released.verdict is not c.verdict for c in claims)
    if not late:
        return ()
    return (
        f"{late} of {len(claims)} claims left by another verdict than the final one: a sentence that is released early "
        "is decided over the scores up to it (each claim's `released` says how)",
    )

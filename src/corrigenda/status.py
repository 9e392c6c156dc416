"""What the verdicts and the edits of an answer come to as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from corrigenda.checkable import ABSTENTION, REFUSAL
from corrigenda.types import Claim, Edit, Status, Verdict


def status_of(claims: Sequence[Claim], edits: Sequence[Edit]) -> tuple[Status, str | None]:
    """Return the answer's status and, where it needs saying, why. See `corrigenda.types.Status`."""
    repaired = {i for e in edits if e.accepted and e.kind != "hedge" for i in e.claims}
    flagged = {i for i, c in enumerate(claims) if c.verdict is Verdict.CONTRADICTED}
    checkable = [c for c in claims if c.verdict is not Verdict.NOT_CHECKABLE]
    failed = [c for c in checkable if c.verdict is Verdict.FAILED]
    if flagged and not edits:  # correcting was not asked for
        return Status.CONTRADICTED, f"{len(flagged)} of {len(claims)} claims are contradicted"
    if flagged:
        left = len(flagged - repaired)
        if left:
            return Status.CONTRADICTED, f"{left} of {len(flagged)} contradicted claims could not be repaired"
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

"""Deciding a stored report anew, from its scores alone: no model runs, and nothing is corrected again. Pure.

What a retrieved passage decided keeps that evidence; the threshold is set, as in the first decision, by the scores
without the passages.
"""

from __future__ import annotations

import re
from dataclasses import replace

from corrigenda.errors import InputError
from corrigenda.guards import require_finite
from corrigenda.policies import Policy
from corrigenda.stages.decide import PASSAGE, REFERENCE, verdict_at, with_verdict
from corrigenda.status import late_verdicts, status_of
from corrigenda.types import SCHEMA_VERSION, Claim, Decision, Report, Retrieval, Verdict

_OF_A_POLICY = re.compile(r"policy '|the policy '|decided anew |\d+ of \d+ claims left ")
"""How the warnings begin that are about a decision."""


def redecide(report: Report, policy: Policy) -> Report:
    """Return `report` with its claims decided by `policy`: verdicts, reasons, decision, status and warnings are new.

    The edits and the final answer stay as they are; a warning says so where there is something to say. A report
    without scores (nothing could be checked) comes back as it is. Raises InputError where the report contradicts
    itself, and what a policy of the caller's own raises.
    """
    entries = {entry.claim: entry for entry in report.retrieval}
    for index in entries:
        if not 0 <= index < len(report.claims):
            raise InputError(f"not a corrigenda report: retrieval names claim {index} of {len(report.claims)}")
    scores = [_score(claim, entries.get(index)) for index, claim in enumerate(report.claims)]
    passages_only = all(score is None for score in scores)  # then these set the threshold, too
    if passages_only:
        scores = [claim.signed for claim in report.claims]
    if all(score is None for score in scores):
        return report
    judged = [i for i, claim in enumerate(report.claims) if scores[i] is not None or claim.verdict is Verdict.FAILED]
    decided = policy.decide([scores[i] for i in judged])
    require_finite(decided.decision)
    verdicts = dict(zip(judged, decided.verdicts, strict=True))
    claims = []
    for index, claim in enumerate(report.claims):
        verdict, by = verdicts.get(index, claim.verdict), REFERENCE
        if index in entries and entries[index].decides and claim.signed is not None:
            by = PASSAGE
            verdict = verdict if passages_only else verdict_at(claim.signed, decided.decision, policy)
        claims.append(with_verdict(claim, verdict, by))
    retrieval = tuple(
        replace(
            entry,
            before=entry.before if passages_only else verdicts.get(entry.claim, entry.before),
            after=claims[entry.claim].verdict,
        )
        for entry in report.retrieval
    )
    after = replace(report, claims=tuple(claims), decision=decided.decision, retrieval=retrieval, schema=SCHEMA_VERSION)
    return _told(report, after, decided.warnings)


def _score(claim: Claim, entry: Retrieval | None) -> float | None:
    """Return the score by which a claim enters the decision: the one that it had before passages were read."""
    return claim.signed if entry is None else entry.before_signed


def _told(before: Report, after: Report, warnings: tuple[str, ...]) -> Report:
    """Return the report with its status, and with the warnings of the decision that stands in it now."""
    status, reason = before.status, before.reason
    if (status, reason) == status_of(before.claims, before.edits):  # else it is about something other than verdicts
        status, reason = status_of(after.claims, after.edits)
    kept = tuple(text for text in before.warnings if not _OF_A_POLICY.match(text))
    warnings = (*warnings, *late_verdicts(after.claims))
    note = f"decided anew {_how(before.decision)}: no model ran, and the edits and the final answer are as they were"
    return replace(after, status=status, reason=reason, warnings=tuple(dict.fromkeys((*kept, *warnings, note))))


def _how(decision: Decision | None) -> str:
    return "" if decision is None else f"(before: policy {decision.policy!r}, k {decision.k:g})"

"""`sweep`: decide the stored scores again, under other policies and settings. No model runs.

What is decided again are the verdicts, from the signed scores in the reports of the records. **The corrected text
can't be**: another verdict would need another rewrite, which needs the model; so a sweep has detection and coverage,
and no accuracy of final answers. Passages that a run retrieved for its own verdicts stay as they are, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corrigenda.errors import InputError
from corrigenda.evals.detect import verdict_counts
from corrigenda.evals.measures import DETECTION_METRICS, Level, coverage_rows, detection_rows, groups_of, units_of
from corrigenda.evals.paired import by_method
from corrigenda.evals.records import Record
from corrigenda.evals.stats import Estimate
from corrigenda.evals.summary import Draws, check_records, drawn_once, levels_of, names_by_population, narrowed
from corrigenda.methods.protocol import Judged, Outcome
from corrigenda.policies import Policy, make_policy
from corrigenda.types import Claim, Report, Status, Verdict

KS = (0.3, 0.5, 0.7, 1.0)
"""The sensitivities that the paper tried."""
FLOORS = (0.5, 0.6, 0.7)
CEILINGS = (0.7, 0.8, 0.9)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
SWEPT = ("paper", "fixed", "bounded")
NOTES = (
    "Verdicts were decided again from stored scores; the corrected text can't be, since a rewrite needs the model.",
    "The best setting of a sweep looks better than it will be on other data: it was chosen on these.",
)
"""What a reader of any sweep must know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """A policy with its options, those that it has."""

    policy: str
    options: Mapping[str, float]

    def make(self) -> Policy:
        """Return the policy. Raises ConfigError for an unknown name or a value out of range."""
        return make_policy(self.policy, **self.options)


def settings(
    *,
    ks: Sequence[float] = KS,
    policies: Sequence[str] = SWEPT,
    floors: Sequence[float] = FLOORS,
    ceilings: Sequence[float] = CEILINGS,
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[Setting]:
    """Return every combination that a policy can use; a floor above a ceiling is left out.

    Raises ConfigError for an unknown policy or a value out of range.
    """
    found: list[Setting] = []
    for policy in policies:
        if policy in ("fixed", "conformal"):
            found += [Setting(policy=policy, options={"threshold": t}) for t in thresholds]
        elif policy == "bounded":
            found += [
                Setting(policy=policy, options={"k": k, "floor": low, "ceiling": high})
                for k in ks
                for low in floors
                for high in ceilings
                if low <= high
            ]
        else:
            found += [Setting(policy=policy, options={"k": k}) for k in ks]
    for setting in found:
        setting.make()
    return found


def sweep(
    records: Sequence[Record],
    *,
    ks: Sequence[float] = KS,
    policies: Sequence[str] = SWEPT,
    floors: Sequence[float] = FLOORS,
    ceilings: Sequence[float] = CEILINGS,
    thresholds: Sequence[float] = THRESHOLDS,
    bundle: int | None = None,
    method: str | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return one row per setting: the policy and its options, metrics with intervals, verdicts.

    A row has `method`, `policy`, `k`, `floor`, `ceiling`, `threshold` (None where the policy has none), `composed`
    (N when the answers were made up of N claims each, else None), `answers`, `claims`, `unreachable` (answers whose
    scores could not reach the threshold), `verdicts` (verdict → how many) and `metrics` (name → value, low, high, n).

    `method` chooses whose reports are decided again; by default the first method that has any. `bundle` deals single
    claims, shuffled by `seed`, into answers of that many, which are decided together; what is left over is not used.
    Raises InputError when there is no report to decide, or too few claims for one bundle, ConfigError for settings
    out of range, MissingExtra without the extra `eval`.
    """
    check_records(records)
    chosen = settings(ks=ks, policies=policies, floors=floors, ceilings=ceilings, thresholds=thresholds)
    name, own = _with_reports(records, method)
    if bundle is not None:
        own = compose(own, bundle, seed)
    draws = drawn_once(resamples=resamples, confidence=confidence, seed=seed)
    return [_row(name, own, setting, bundle, draws) for setting in chosen]


def best_rows(rows: Iterable[Mapping[str, Any]], by: str = "claim_f1") -> list[Mapping[str, Any]]:
    """Return the best row of each policy by a metric (the first of equals), policies in order of that metric.

    Rows in which the metric was not measured are left out.
    """
    best: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        value = _value(row, by)
        held = best.get(row["policy"])
        if value is not None and (held is None or value > (_value(held, by) or 0.0)):
            best[row["policy"]] = row
    return sorted(best.values(), key=lambda row: -(_value(row, by) or 0.0))


def redecide(record: Record, policy: Policy) -> tuple[Record, bool]:
    """Return the record with the verdicts that `policy` gives its report's scores, and whether τ was out of reach.

    A record without a report is returned as it is. The report itself and the final answer stay what they were.
    """
    outcome = record.outcome
    if outcome is None or outcome.report is None:
        return record, False
    claims = outcome.report.claims
    judged = [c for c in claims if _was_judged(c)]
    decided = policy.decide([c.signed for c in judged])
    verdicts = {id(c): verdict for c, verdict in zip(judged, decided.verdicts, strict=True)}
    made = tuple(
        Judged(
            text=c.text,
            verdict=verdicts.get(id(c), c.verdict),
            score=None if c.scores is None else c.scores.contradiction,
            signed=c.signed,
            span=c.span,
            sentence=c.sentence,
        )
        for c in claims
    )
    said = {j.verdict for j in made} - {Verdict.NOT_CHECKABLE}
    # With no claim at all, what the run said of the answer stands: it failed, or there was nothing to check.
    flagged = (Verdict.CONTRADICTED in said) if said - {Verdict.FAILED} else None if said else outcome.flagged
    reach = any("unreachable" in warning for warning in decided.warnings)
    return replace(record, outcome=replace(outcome, verdicts=made, flagged=flagged)), reach


def compose(records: Sequence[Record], size: int, seed: int) -> list[Record]:
    """Return made-up answers of `size` claims each, dealt at random without replacement, repeat by repeat.

    Each claim is a sentence of its answer, with its own gold label; the answer's label is contradicted when one of
    them is, supported when all are. A failed item is a claim whose check failed. Raises InputError when `size` is
    below 1 or there are fewer labelled claims than that.
    """
    if size < 1:
        raise InputError(f"a bundle needs at least 1 claim, got {size!r}")
    found: list[Record] = []
    for repeat in sorted({record.repeat for record in records}):
        claims = sorted(
            (r for r in records if r.repeat == repeat and r.kind == "claim" and r.label is not None),
            key=lambda r: (r.dataset, r.item),
        )
        random.Random(f"{seed} {repeat}").shuffle(claims)  # noqa: S311  # nothing secret
        if len(claims) < size:
            raise InputError(
                f"answers of {size} claims can't be composed of {len(claims)} labelled claims; bundles are for data "
                "sets of single claims"
            )
        found += [_composed(claims[i : i + size], i // size) for i in range(0, len(claims) - size + 1, size)]
    return found


def _composed(claims: Sequence[Record], number: int) -> Record:
    first = claims[0]
    labels = [record.label for record in claims]
    label = Verdict.SUPPORTED if all(each is Verdict.SUPPORTED for each in labels) else Verdict.UNVERIFIED
    text = " ".join(record.outcome.answer for record in claims if record.outcome is not None)
    report = Report(
        question=None,
        answer=text,
        final_answer=text,
        status=Status.UNVERIFIED,
        claims=tuple(replace(_claim_of(record), sentence=i) for i, record in enumerate(claims)),
    )
    return replace(
        first,
        item=f"composed {number}",
        group=f"composed {number}",
        kind="answer",
        status="ok",
        reason=None,
        label=Verdict.CONTRADICTED if Verdict.CONTRADICTED in labels else label,
        sentence_labels=tuple(labels),
        outcome=Outcome(answer=text, final_answer=text, report=report),
    )


def _claim_of(record: Record) -> Claim:
    """Return the one claim of a record; where a method made several of it, the one with the strongest contradiction."""
    report = None if record.outcome is None else record.outcome.report
    if report is None or not report.claims:
        return Claim(
            text="", span=None, sentence=0, verdict=Verdict.FAILED, reason=record.reason or "nothing was checked"
        )
    return min(report.claims, key=lambda c: 0.0 if c.signed is None else c.signed)


def _was_judged(claim: Claim) -> bool:
    """Return whether a claim took part in the decision: it was scored, or its check broke."""
    return claim.scores is not None or claim.verdict is Verdict.FAILED


def _with_reports(records: Sequence[Record], method: str | None) -> tuple[str, list[Record]]:
    """Return the method whose reports are decided again, and its records, the failed ones too."""
    methods = by_method(records)
    if method is not None and method not in methods:
        raise InputError(f"no record is of method {method!r}; there are {', '.join(methods)}")
    for name in methods if method is None else [method]:
        if any(r.outcome is not None and r.outcome.report is not None for r in methods[name]):
            return name, methods[name]
    whose = "any method" if method is None else f"method {method!r}"
    raise InputError(f"the records of {whose} hold no report whose scores could be decided again; run `corrigenda`")


def _row(
    method: str,
    records: Sequence[Record],
    setting: Setting,
    bundle: int | None,
    draws: Draws,
) -> dict[str, Any]:
    policy = setting.make()
    pairs = [redecide(record, policy) for record in records]
    decided = [record for record, _ in pairs]
    verdicts = verdict_counts(decided)
    return {
        "method": method,
        "policy": setting.policy,
        **{name: setting.options.get(name) for name in ("k", "floor", "ceiling", "threshold")},
        "composed": bundle,
        "answers": len(decided),
        "claims": sum(verdicts.values()),
        "unreachable": sum(reach for _, reach in pairs),
        "verdicts": {str(verdict): verdicts.get(verdict, 0) for verdict in Verdict},
        "metrics": _metrics(decided, draws),
    }


def _metrics(records: Sequence[Record], draws: Draws) -> dict[str, Any]:
    levels = levels_of(records)
    names = tuple(_names(levels))
    units = {level: units_of(records, level) for level in levels}
    rows = detection_rows(units) + coverage_rows(records)
    groups = groups_of(records, units, ())
    found: dict[str, Estimate] = {}
    for population, own in names_by_population(names, ()).items():
        found |= draws(groups[population]).ratios(narrowed(rows, own), own)
    return {name: found[name].as_json() for name in names}


def _names(levels: Sequence[Level]) -> Iterator[str]:
    for level in levels:
        yield from (f"{level}_{name}" for name in DETECTION_METRICS)
    if "claim" in levels:
        yield "three_way_accuracy"
    yield "coverage"


def _value(row: Mapping[str, Any], metric: str) -> float | None:
    found: float | None = row["metrics"].get(metric, {}).get("value")
    return found

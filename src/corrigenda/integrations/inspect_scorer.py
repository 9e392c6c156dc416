"""An Inspect scorer that checks a model's output claim by claim.

    Task(dataset=…, solver=generate(), scorer=claims(nli="onnx:my-nli-model"))

Its value is the share of each verdict among the claims that can be checked: `supported`, `contradicted`, `unverified`
and `failed`. A claim whose check failed stays in the denominator. An output without such claims, a refusal, an empty
one and one whose check broke as a whole are *unscored*, with a reason: Inspect counts them and leaves them out of the
means. Nothing is rewritten.

With the package installed, Inspect also finds it by name: `inspect score LOG --scorer corrigenda/claims`.
"""

from __future__ import annotations

from typing import Any

from corrigenda.api import Context, Corrigenda
from corrigenda.errors import ConfigError, InputError
from corrigenda.integrations import require
from corrigenda.report import to_dict
from corrigenda.settings import SECRETS, Choices
from corrigenda.types import Claim, Reference, Report, Status, Verdict
from corrigenda.windows import is_blank

require("the Inspect scorer", "inspect_ai", "inspect")

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr  # noqa: E402  # as the line above says
from inspect_ai.solver import TaskState  # noqa: E402

SHARES = (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNVERIFIED, Verdict.FAILED)


@scorer(metrics={str(verdict): [mean(), stderr()] for verdict in SHARES})
def claims(corrigenda: Corrigenda | None = None, *, context: str | None = "target", **settings: Any) -> Scorer:
    """Return the scorer. What an output is checked against is the sample's target, unless `context` says otherwise.

    `context` is `target`, the key of the sample's metadata where a text or a list of texts stands, or None: then a
    reference is recalled from the sample's input by the chat model that `llm` names. `settings` are those of
    `Corrigenda`, and Inspect writes them into its log: secrets come from the environment. A `corrigenda` of your own
    serves several scorers with the models loaded once; its settings are then not in the log.

    Raises ConfigError for a secret among the settings, for settings beside a Corrigenda, and for wrong ones.
    """
    if secret := next((name for name in SECRETS if name in settings), None):
        raise ConfigError(f"{secret} would be written into Inspect's log; set CORRIGENDA_{secret.upper()} instead")
    if corrigenda is not None and settings:
        raise ConfigError(f"{sorted(settings)[0]} cannot be set beside a Corrigenda, which has its own settings")
    checker = corrigenda or Corrigenda(**settings)

    async def score(state: TaskState, target: Target) -> Score:
        """Score the output of one sample. Raises InputError when the sample lacks what to check against."""
        answer = state.output.completion
        if is_blank(answer):
            return Score.unscored(reason="no_response", answer=answer)
        question = _question(state)
        passages = _context(state, target, context)
        if passages is None and question is None:
            raise InputError(f"sample {state.sample_id!r} has no input that a reference could be recalled from")
        report = await checker.check(answer, question=question, context=passages, choices=Choices(correct=False))
        return scored(report)

    return score


def scored(report: Report) -> Score:
    """Return the score that `report` comes to. The whole report is in its metadata, as `corrigenda`."""
    checkable = [claim for claim in report.claims if claim.verdict is not Verdict.NOT_CHECKABLE]
    about: dict[str, Any] = {
        "answer": report.answer,
        "explanation": "\n".join([report.reason or str(report.status), *map(_line, report.claims)]),
        "metadata": {"corrigenda": to_dict(report)},
    }
    if report.status is Status.ABSTAINED:
        return Score.unscored(reason="refusal", **about)
    if report.status is Status.FAILED:
        return Score.unscored(reason="scoring_failed", **about)
    if not checkable:
        return Score.unscored(reason="no_checkable_claim", **about)
    counts = {str(v): sum(claim.verdict is v for claim in checkable) / len(checkable) for v in SHARES}
    return Score(value=counts, **about)


def _question(state: TaskState) -> str | None:
    try:
        question = state.input_text
    except ValueError:  # a conversation without a message of the user's
        return None
    return None if is_blank(question) else question


def _context(state: TaskState, target: Target, context: str | None) -> Context | None:
    """Return what the output is checked against, named by where it stands. Raises InputError when it isn't there."""
    if context is None:
        return None
    found = list(target) if context == "target" else (state.metadata or {}).get(context)
    passages = [found] if isinstance(found, str) else found
    if not isinstance(passages, list | tuple) or not all(isinstance(p, str) for p in passages):
        raise InputError(f"metadata {context!r} of sample {state.sample_id!r} must be a text or a list of texts")
    if all(map(is_blank, passages)):
        raise InputError(f"sample {state.sample_id!r} has nothing to check against: its {context} is empty")
    names = [context] if len(passages) == 1 else [f"{context} {n}" for n in range(1, len(passages) + 1)]
    return [Reference(text=text, source=name) for text, name in zip(passages, names, strict=True)]


def _line(claim: Claim) -> str:
    score = "" if claim.signed is None else f" {claim.signed:+.2f}"
    return f"{claim.verdict}{score}: {claim.text}"

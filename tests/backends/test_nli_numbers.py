"""The rule beside the verifier: it decides what it can, says so, and leaves everything else to the model."""

from __future__ import annotations

import asyncio

import pytest

from corrigenda import Corrigenda, Settings, Verdict
from corrigenda.backends.nli_numbers import NumberChecked
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.types import Entailment, Evidence, Pair, PairFailure, Span

RULES = {
    "rules": [
        {"hypothesis_contains": "broken", "error": "no score"},
        {"scores": [0.2, 0.5, 0.3]},
    ]
}
MODEL = Entailment(entailment=0.2, neutral=0.5, contradiction=0.3)


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        ("The tunnel is 1.2 km long.", "The tunnel is 1,200 metres long.", "entailment"),
        ("The tunnel is 1.2 km long.", "The tunnel is 12 km long.", "contradiction"),
        ("The lamp draws 5 mW.", "The lamp draws 5 MW.", "contradiction"),
        ("L'attico costa 1.250.000,00 €.", "L'attico costa 1,25 milioni di euro.", "entailment"),
        ("At least 40 people attended the talk.", "55 people attended the talk.", "neutral"),
        ("Member 100 joined in 2019.", "Member 101 joined in 2020.", None),
        ("The tunnel is 1.2 km long.", "The tunnel is broken.", "failed"),
    ],
)
def test_the_rule_decides_or_leaves_it_to_the_model(premise: str, hypothesis: str, label: str | None) -> None:
    checked = NumberChecked(ScriptedEntailer(RULES))
    (result,) = asyncio.run(checked.entail([Pair(premise=premise, hypothesis=hypothesis)]))
    if label == "failed":
        assert result == PairFailure(reason="no score")
        return
    assert isinstance(result, Entailment)
    assert result == MODEL if label is None else (result.label, max(0.95, abs(result.signed))) == (label, 0.95)
    evidence = Evidence(reference=0, span=Span(0, len(premise)), text=premise, scores=result)
    assert (checked.explain(evidence, hypothesis) is None) == (label is None)


def test_it_passes_on_what_the_inner_verifier_is() -> None:
    checked = NumberChecked(ScriptedEntailer({**RULES, "max_tokens": 7}))
    assert (checked.name, checked.max_tokens, checked.count_tokens("a b c")) == ("scripted + numbers", 7, 3)
    assert (checked.bounds, checked.warnings) == (None, ())
    asyncio.run(checked.aclose())


def test_the_reason_stands_in_the_report() -> None:
    nli = NumberChecked(ScriptedEntailer(RULES))
    with Corrigenda(nli=nli, settings=Settings(llm="none", decomposer="deterministic")) as c:
        report = c.check_sync("The tunnel is 12 km long.", context="The tunnel is 1.2 km long.")
    (claim,) = report.claims
    assert (claim.verdict, claim.reason) == (
        Verdict.CONTRADICTED,
        "the reference contradicts it (1.2 km against 12 km)",
    )

"""Retrieval inside a report: only for claims in doubt, by the threshold that stands, and nothing is ever lost."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from corrigenda import Corrigenda, Reference, Settings, Status
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.report import from_dict, json_schema, to_dict
from corrigenda.types import (
    Passage,
    Retrieval,
    RetrievedPassage,
)
from tests.lookups import FIVE, FIVE_NLI, SUPPORTED_OUTSIDE, WEAK_ENTAILMENT, Counting, check
from tests.scripted import CONTRADICT, ENTAIL, NEUTRAL, REWRITE, C, F, N, Rules, S, U, verdicts

# Only for claims in doubt ------------------------------------------------------------------------------------------


def test_no_claim_but_those_in_doubt_is_looked_up_or_changed() -> None:
    retriever = Counting()
    plain, report = check(FIVE, FIVE_NLI), check(FIVE, FIVE_NLI, retriever=retriever)
    assert verdicts(plain) == [C, U, S, C, N]
    assert retriever.queries == ["Rome has 5 hills.", "Rome is old."]
    assert [entry.claim for entry in report.retrieval] == [0, 1]
    assert report.claims[2:] == plain.claims[2:]
    assert report.decision == plain.decision
    assert verdicts(report) == [C, U, S, C, N]
    assert report.claims[0].signed == -0.98


def test_nothing_is_searched_when_nothing_is_in_doubt() -> None:
    retriever = Counting()
    report = check("Rome is in Italy. Rome is in Spain.", FIVE_NLI, retriever=retriever)
    assert (retriever.queries, report.retrieval, len(report.references)) == ([], (), 1)
    assert "retrieve" not in report.usage


def test_failed_claims_are_not_looked_up() -> None:
    retriever = Counting()
    report = check("Rome is old.", [{"error": "broken"}], retriever=retriever)
    assert (verdicts(report), retriever.queries) == ([F], [])


# What is changed and reported --------------------------------------------------------------------------------------


def test_the_report_says_what_was_found_and_what_it_changed() -> None:
    retriever = Counting()
    report = check("Rome has 7 hills.", SUPPORTED_OUTSIDE, retriever=retriever, question="What is Rome?", retrieve_k=2)
    assert report.references == (
        Reference(text="Rome stands on hills.", source="context"),
        Reference(text="Rome has 7 hills.", source="retrieved: Rome"),
        Reference(text="The Tiber runs through Rome.", source="retrieved: river"),
    )
    (entry,) = report.retrieval
    assert entry == Retrieval(
        claim=0,
        query="Rome has 7 hills. What is Rome?",
        passages=(
            RetrievedPassage(id="hills", title="Rome", score=entry.passages[0].score, reference=1),
            RetrievedPassage(id="river", title=None, score=entry.passages[1].score, reference=2),
        ),
        signed=0.98,
        decides=True,
        before=C,
        before_signed=-0.7,
        after=S,
        after_signed=0.98,
    )
    (claim,) = report.claims
    assert (claim.verdict, claim.signed) == (S, 0.98)
    assert claim.reason == "a retrieved passage entails it"
    assert claim.evidence is not None
    assert claim.counter_evidence is not None
    assert (claim.evidence.reference, claim.evidence.text) == (1, "Rome has 7 hills.")
    assert (claim.counter_evidence.reference, claim.counter_evidence.text) == (0, "Rome stands on hills.")
    assert (report.status, report.final_answer, report.edits) == (Status.VERIFIED, report.answer, ())
    assert report.models["retriever"] == "counting"
    assert report.usage["retrieve"].calls == 1
    assert "retrieve" in {timing.stage for timing in report.timings}
    assert list(Draft202012Validator(json_schema()).iter_errors(to_dict(report))) == []
    assert from_dict(json.loads(json.dumps(to_dict(report)))).retrieval[0].query == entry.query


def test_a_passage_that_several_claims_share_stands_once_among_the_references() -> None:
    report = check("Rome is old. Rome has rain.", [{"scores": NEUTRAL}], retriever=Counting(), retrieve_k=2)
    assert [r.source for r in report.references] == ["context", "retrieved: Rome", "retrieved: river"]
    assert [[p.reference for p in entry.passages] for entry in report.retrieval] == [[1, 2], [1, 2]]
    assert [entry.decides for entry in report.retrieval] == [False, False]


def test_a_claim_that_nothing_is_found_for_keeps_its_verdict() -> None:
    report = check("Zyxomma flies.", [{"scores": NEUTRAL}], retriever=Counting())
    (entry,) = report.retrieval
    assert (entry.passages, entry.signed, entry.reason) == ((), None, "no passage was found")
    assert (entry.before, entry.after, verdicts(report), report.warnings) == (U, U, [U], ())


def test_long_passages_are_windowed_like_references() -> None:
    filler = "The town by the river is old and quiet. " * 20
    passage = Passage(id="long", text=f"{filler}Rome has 7 hills. {filler}")
    nli: Rules = [{"premise_contains": "7 hills", "scores": ENTAIL}, {"scores": NEUTRAL}]
    entailer = ScriptedEntailer({"rules": nli, "max_tokens": 40})
    settings = Settings(llm="none", decomposer="deterministic")
    with Corrigenda(nli=entailer, retriever=Counting([passage]), settings=settings) as c:
        report = c.check_sync("Rome has 7 hills.", context="Rome is old.")
    (claim,) = report.claims
    assert claim.verdict is S
    assert claim.evidence is not None
    assert claim.evidence.reference == 1
    assert claim.evidence.span.text_of(passage.text) == claim.evidence.text
    assert max(len(pair.premise.split()) for call in entailer.calls for pair in call) < 40


# The threshold -----------------------------------------------------------------------------------------------------


def test_claims_are_decided_again_by_the_threshold_that_stands() -> None:
    nli: Rules = [
        {"hypothesis_contains": "Italy", "scores": ENTAIL},
        {"premise_contains": "7 hills", "hypothesis_contains": "7 hills", "scores": [0.8, 0.1, 0.1]},
        {"scores": NEUTRAL},
    ]
    answer = "Rome has 7 hills. It is in Italy. Italy it is."
    plain = check(answer, nli)
    report = check(answer, nli, retriever=Counting())
    assert plain.decision is not None
    assert plain.decision.tau == 0.9
    assert report.decision == plain.decision
    assert verdicts(report) == [U, S, S]
    assert (report.claims[0].signed, report.retrieval[0].decides) == (0.8, True)
    assert report.claims[0].reason == "entailment of 0.800 does not reach the threshold"


def test_without_any_reference_the_passages_set_the_threshold() -> None:
    report = check("Rome has 7 hills. Rome is old.", SUPPORTED_OUTSIDE, retriever=Counting(), context="")
    assert verdicts(report) == [S, U]
    assert [entry.before_signed for entry in report.retrieval] == [None, None]
    assert report.claims[0].reason == "a retrieved passage entails it"
    assert report.claims[1].reason == "a retrieved passage neither entails nor contradicts it"
    assert report.decision is not None
    assert report.decision.mu == pytest.approx(0.49)


def test_without_a_reference_and_without_a_find_there_is_no_decision() -> None:
    report = check("Zyxomma flies.", SUPPORTED_OUTSIDE, retriever=Counting(), context="")
    assert (verdicts(report), report.decision) == ([U], None)
    assert report.claims[0].reason == "no reference"


# Recollection and context ------------------------------------------------------------------------------------------

OPPOSED: Rules = [
    {"premise_contains": "7 hills", "scores": WEAK_ENTAILMENT},
    {"premise_contains": "Tiber", "scores": NEUTRAL},
    {"scores": [0.1, 0.1, 0.8]},
]


def test_a_passage_beats_a_recollection_that_says_the_opposite() -> None:
    chat: Rules = [{"stage": "recall", "reply": "Rome has 5 hills."}]
    recalled = check("Rome has 7 hills.", OPPOSED, retriever=Counting(), chat=chat, question="Q?", context=None)
    assert (verdicts(recalled), recalled.claims[0].signed) == ([S], 0.7)
    given = check("Rome has 7 hills.", OPPOSED, retriever=Counting(), context="Rome has 5 hills.", chat=[REWRITE])
    assert (verdicts(given), given.claims[0].signed) == ([C], -0.8)
    counter = given.claims[0].counter_evidence
    assert counter is not None
    assert counter.text == "Rome has 7 hills."


# Correcting --------------------------------------------------------------------------------------------------------


def test_a_claim_that_a_passage_contradicts_is_rewritten_from_that_passage() -> None:
    nli: Rules = [
        {"premise_contains": "7 hills", "hypothesis_contains": "5 hills", "scores": CONTRADICT},
        {"premise_contains": "7 hills", "hypothesis_contains": "7 hills", "scores": ENTAIL},
        {"premise_contains": "stands", "hypothesis_contains": "7 hills", "scores": CONTRADICT},
        {"scores": NEUTRAL},
    ]
    chat = ScriptedChat({"rules": [{"stage": "correct", "reply": "Rome has 7 hills."}]})
    entailer = ScriptedEntailer({"rules": nli})
    settings = Settings(llm="none", decomposer="deterministic", retrieve_k=1)
    with Corrigenda(llm=chat, nli=entailer, retriever=Counting(), settings=settings) as c:
        report = c.check_sync("Rome has 5 hills.", context="Rome stands on hills.")
    assert (report.final_answer, report.status) == ("Rome has 7 hills.", Status.CORRECTED)
    (request,) = chat.requests
    assert "Rome has 7 hills." in request.messages[-1].content
    assert "stands" not in request.messages[-1].content
    # the rewrite is held against the passage alone: the context, which did not decide, would have refused it
    assert [(pair.premise, pair.hypothesis) for pair in entailer.calls[-1]] == [
        ("Rome has 7 hills.", "Rome has 7 hills.")
    ]


def test_passages_for_one_claim_have_no_say_in_the_correction_of_another() -> None:
    nli: Rules = [
        {"hypothesis_contains": "Spain", "scores": CONTRADICT},
        {"premise_contains": "stands", "hypothesis_contains": "Italy", "scores": WEAK_ENTAILMENT},
        {"hypothesis_contains": "Italy", "scores": CONTRADICT},
        {"scores": NEUTRAL},
    ]
    chat: Rules = [{"stage": "correct", "reply": "Rome is in Italy."}]
    for retriever in (None, Counting()):
        report = check("Rome is old. Rome is in Spain.", nli, retriever=retriever, chat=chat)
        assert report.final_answer == "Rome is old. Rome is in Italy."


def test_a_sentence_with_claims_of_both_kinds_is_held_against_both() -> None:
    nli: Rules = [
        {"premise_contains": "7 hills", "hypothesis_contains": "5 hills", "scores": CONTRADICT},
        {"hypothesis_contains": "Spain", "scores": CONTRADICT},
        {"premise_contains": "7 hills", "hypothesis_contains": "7 hills", "scores": ENTAIL},
        {"premise_contains": "stands", "hypothesis_contains": "Italy", "scores": ENTAIL},
        {"scores": NEUTRAL},
    ]
    claims = '{"claims": ["Rome has 5 hills.", "Rome is in Spain."]}'
    chat: Rules = [
        {"stage": "decompose", "reply": claims},
        {"stage": "correct", "reply": "Rome has 7 hills and is in Italy."},
    ]
    answer = "Rome has 5 hills and is in Spain."
    report = check(answer, nli, retriever=Counting(), chat=chat, decomposer="model")
    assert verdicts(report) == [C, C]
    assert report.final_answer == "Rome has 7 hills and is in Italy."

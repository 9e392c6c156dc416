"""The report as JSON: the published schema holds, nothing is lost on the way and back, and it is strict."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from corrigenda.errors import InputError
from corrigenda.report import from_dict, json_schema, to_dict, to_json
from corrigenda.types import (
    Claim,
    Decision,
    Edit,
    Entailment,
    Evidence,
    Reference,
    Released,
    Report,
    Retrieval,
    RetrievedPassage,
    Span,
    StageUsage,
    Status,
    Timing,
    Verdict,
)

SCORES = Entailment(entailment=0.01, neutral=0.02, contradiction=0.97)
EVIDENCE = Evidence(reference=0, span=Span(0, 27), text="Rome stands on seven hills.", scores=SCORES)
FULL = Report(
    question="How many hills has Rome? 🏛",
    answer="Rome has 5 hills.",
    final_answer="Rome has seven hills.",
    status=Status.CORRECTED,
    reason=None,
    claims=(
        Claim(
            text="Rome has 5 hills.",
            span=Span(0, 17),
            sentence=0,
            verdict=Verdict.CONTRADICTED,
            reason="the reference contradicts it",
            scores=SCORES,
            signed=-0.97,
            evidence=EVIDENCE,
            counter_evidence=EVIDENCE,
            released=Released(verdict=Verdict.UNVERIFIED, tau=None, at_s=0.25),
        ),
        Claim(text="Lovely!", span=None, sentence=1, verdict=Verdict.NOT_CHECKABLE, reason="opinion"),
    ),
    references=(
        Reference(text="Rome stands on seven hills.", source="recall", truncated=True),
        Reference(text="The hills of Rome are seven.", source="retrieved: Rome"),
    ),
    decision=Decision(policy="bounded", k=0.7, mu=-0.97, sigma=0.0, tau=0.5, tau_raw=-0.97, floor=0.5, ceiling=0.9),
    retrieval=(
        Retrieval(
            claim=0,
            query="Rome has 5 hills. How many hills has Rome? 🏛",
            passages=(RetrievedPassage(id="rome#1", title=None, score=2.5, reference=1),),
            signed=0.0,
            decides=False,
            before=Verdict.CONTRADICTED,
            before_signed=-0.97,
            after=Verdict.CONTRADICTED,
            after_signed=-0.97,
        ),
    ),
    edits=(
        Edit(
            span=Span(0, 17),
            before="Rome has 5 hills.",
            after="Rome has seven hills.",
            claims=(0,),
            kind="rewrite",
            accepted=True,
            reason="rewritten",
        ),
    ),
    timings=(Timing(stage="generate", start_s=0.0, end_s=1.25),),
    usage={"generate": StageUsage(calls=1, prompt_tokens=None, completion_tokens=7)},
    models={"chat": "scripted", "verifier": "scripted", "decomposer": "auto"},
    warnings=("mind the gap",),
)
EMPTY = Report(question=None, answer="x", final_answer="x", status=Status.UNVERIFIED)
VALIDATOR = Draft202012Validator(json_schema())


def test_the_json_form_is_as_documented() -> None:
    data = to_dict(FULL)
    assert data["schema"] == "1.2"
    assert data["claims"][0] == {
        "text": "Rome has 5 hills.",
        "span": [0, 17],
        "sentence": 0,
        "verdict": "contradicted",
        "reason": "the reference contradicts it",
        "scores": {"entailment": 0.01, "neutral": 0.02, "contradiction": 0.97},
        "signed": -0.97,
        "evidence": {
            "reference": 0,
            "span": [0, 27],
            "text": "Rome stands on seven hills.",
            "scores": {"entailment": 0.01, "neutral": 0.02, "contradiction": 0.97},
        },
        "counter_evidence": data["claims"][0]["evidence"],
        "released": {"verdict": "unverified", "tau": None, "at_s": 0.25},
    }
    assert (data["claims"][1]["span"], data["claims"][1]["released"]) == (None, None)
    assert data["usage"] == {"generate": {"calls": 1, "prompt_tokens": None, "completion_tokens": 7}}
    assert data["edits"][0]["kind"] == "rewrite"
    assert data["retrieval"] == [
        {
            "claim": 0,
            "query": "Rome has 5 hills. How many hills has Rome? 🏛",
            "passages": [{"id": "rome#1", "title": None, "score": 2.5, "reference": 1}],
            "signed": 0.0,
            "decides": False,
            "before": "contradicted",
            "before_signed": -0.97,
            "after": "contradicted",
            "after_signed": -0.97,
            "reason": None,
        }
    ]


@pytest.mark.parametrize("report", [FULL, EMPTY], ids=["full", "empty"])
def test_schema_holds_and_the_way_back_gives_the_same_report(report: Report) -> None:
    text = to_json(report)
    assert list(VALIDATOR.iter_errors(json.loads(text))) == []
    assert from_dict(json.loads(text)) == report


def test_letters_of_every_script_are_written_as_they_are() -> None:
    assert "How many hills has Rome? 🏛" in to_json(FULL)


@given(st.lists(st.floats(0.001, 1), min_size=3, max_size=3))
def test_rounded_probabilities_are_read_back(raw: list[float]) -> None:
    e, n, c = (v / math.fsum(raw) for v in raw)
    scores = Entailment(entailment=e, neutral=n, contradiction=c)
    claim = Claim(text="x", span=Span(0, 1), sentence=0, verdict=Verdict.SUPPORTED, scores=scores, signed=scores.signed)
    report = Report(question=None, answer="x", final_answer="x", status=Status.VERIFIED, claims=(claim,))
    back = from_dict(json.loads(to_json(report))).claims[0].scores
    assert back is not None
    assert (back.entailment, back.neutral) == pytest.approx((e, n), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "2.0"}, r"this report has schema '2\.0'; this version of corrigenda reads 1\.2"),
        ({"schema": None}, "this report has schema None"),
        ({"status": "fine"}, "not a corrigenda report: 'fine' is not a valid Status"),
        ({"answer": 5}, "not a corrigenda report: expected str, got 5"),
        ({"claims": [{"text": "x"}]}, "not a corrigenda report: "),
        ({"claims": 3}, "not a corrigenda report: "),
        ({"edits": [to_dict(FULL)["edits"][0] | {"kind": "paint"}]}, "'paint' is none of"),
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_dict(to_dict(FULL) | change)


CLAIM, DECISION = to_dict(FULL)["claims"][0], to_dict(FULL)["decision"]
HUGE = 10**400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claims": [CLAIM | {"signed": 1e308}]}, r"signed must be from -1 to 1, got 1e\+308"),
        ({"claims": [CLAIM | {"signed": -1.01}]}, r"signed must be from -1 to 1, got -1\.01"),
        ({"claims": [CLAIM | {"signed": "0.5"}]}, r"expected a number, got '0\.5'"),
        ({"claims": [CLAIM | {"signed": "nan"}]}, "expected a number, got 'nan'"),
        ({"claims": [CLAIM | {"signed": True}]}, "expected a number, got True"),
        ({"claims": [CLAIM | {"signed": math.inf}]}, "expected a finite number"),
        ({"claims": [CLAIM | {"signed": math.nan}]}, "expected a finite number"),
        ({"claims": [CLAIM | {"signed": HUGE}]}, "expected a finite number"),
        ({"claims": [CLAIM | {"sentence": True}]}, "expected int, got True"),
        ({"claims": [CLAIM | {"sentence": 1.0}]}, r"expected int, got 1\.0"),
        ({"claims": [CLAIM | {"sentence": -1}]}, "sentence must be at least 0, got -1"),
        ({"claims": [CLAIM | {"span": [0, math.inf]}]}, "expected int, got inf"),
        ({"claims": [CLAIM | {"span": ["0", "5"]}]}, "expected int, got '0'"),
        ({"claims": [CLAIM | {"span": [5, 0]}]}, r"a span must be \[start, end\] with 0 <= start <= end, got \[5, 0\]"),
        ({"claims": [CLAIM | {"span": [-1, 0]}]}, r"a span must be \[start, end\]"),
        ({"claims": [CLAIM | {"span": [1, 2, 3]}]}, "too many values"),
        ({"claims": [CLAIM | {"span": "01"}]}, "expected a list, got '01'"),
        ({"claims": [CLAIM | {"scores": CLAIM["scores"] | {"neutral": HUGE}}]}, "expected a finite number"),
        ({"claims": [CLAIM | {"scores": CLAIM["scores"] | {"neutral": 0.5}}]}, "NLI probabilities must sum to 1"),
        ({"decision": DECISION | {"mu": -2}}, "mu must be from -1 to 1, got -2"),
        ({"decision": DECISION | {"sigma": 1.5}}, r"sigma must be from 0 to 1, got 1\.5"),
        ({"decision": DECISION | {"alpha": 7}}, "alpha must be from 0 to 1, got 7"),
        ({"decision": DECISION | {"k": -0.7}}, r"k must be at least 0, got -0\.7"),
        ({"decision": DECISION | {"tau": math.inf}}, "expected a finite number"),
        ({"timings": [{"stage": "x", "start_s": -1, "end_s": 0}]}, r"start_s must be at least 0, got -1"),
        ({"usage": {"x": {"calls": -1, "prompt_tokens": None, "completion_tokens": None}}}, "calls must be at least 0"),
        ({"usage": []}, "not a corrigenda report: "),
        ({"warnings": "abc"}, "expected a list, got 'abc'"),
    ],
)
def test_no_number_that_is_none_or_out_of_its_range_is_read(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"not a corrigenda report: .*{message}" if message[0] != "n" else message):
        from_dict(to_dict(FULL) | change)


def test_a_report_nested_without_end_or_no_object_is_an_input_error() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match="not a corrigenda report: "):
        from_dict(to_dict(FULL) | {"warnings": deep})
    with pytest.raises(InputError, match="not a corrigenda report: expected an object, got list"):
        from_dict([to_dict(FULL)])  # type: ignore[arg-type]


def test_whole_numbers_are_numbers_too() -> None:
    data = to_dict(FULL) | {"claims": [CLAIM | {"signed": -1}]}
    assert from_dict(data).claims == (replace(FULL.claims[0], signed=-1.0),)


def test_a_report_of_an_earlier_minor_version_is_read() -> None:
    old = {name: value for name, value in to_dict(FULL).items() if name != "retrieval"} | {"schema": "1.0"}
    for claim in old["claims"]:
        del claim["released"]
    claims = tuple(replace(claim, released=None) for claim in FULL.claims)
    assert from_dict(old) == replace(FULL, retrieval=(), claims=claims, schema="1.0")
    assert list(VALIDATOR.iter_errors(old)) == []


def test_unknown_fields_of_a_later_minor_version_are_ignored() -> None:
    assert from_dict(to_dict(EMPTY) | {"schema": "1.7", "mood": "good"}).answer == "x"


@pytest.mark.parametrize("values", [(math.nan, 0.5, 0.5), (1.5, -0.5, 0.0), (0.5, 0.1, 0.1), (math.inf, 0.0, 0.0)])
def test_no_entailment_that_is_not_a_distribution(values: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="NLI probabilities must"):
        Entailment(entailment=values[0], neutral=values[1], contradiction=values[2])


@pytest.mark.parametrize(
    ("values", "label", "signed"),
    [
        ((0.98, 0.01, 0.01), "entailment", 0.98),
        ((0.01, 0.01, 0.98), "contradiction", -0.98),
        ((0.2, 0.6, 0.2), "neutral", 0.0),
        ((0.5, 0.0, 0.5), "neutral", 0.0),
        ((1 / 3, 1 / 3, 1 / 3), "neutral", 0.0),
        ((0.45, 0.45, 0.1), "neutral", 0.0),
    ],
)
def test_label_and_signed_score(values: tuple[float, float, float], label: str, signed: float) -> None:
    scores = Entailment(entailment=values[0], neutral=values[1], contradiction=values[2])
    assert (scores.label, scores.signed) == (label, signed)

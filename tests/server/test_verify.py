"""/v1/verify and /v1/decide: reports about answers and about reports that the client has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from corrigenda.report import from_dict, json_schema
from corrigenda.types import Report, Status, Verdict
from tests.scripted import ANSWER, ASKED, CONTRADICT, ENTAIL, NEUTRAL, Rules, verdicts
from tests.scripted import C as CONTRADICTED
from tests.scripted import S as SUPPORTED
from tests.scripted import U as UNVERIFIED
from tests.server.kit import FINAL, Answered, scripted

CONTEXT = "Rome, in Italy, stands on seven hills."


def report_of(got: Answered) -> Report:
    assert got.status == 200, got.body
    Draft202012Validator(json_schema()).validate(got.json)
    return from_dict(got.json)


def test_an_answer_is_checked_and_corrected() -> None:
    with scripted() as server:
        report = report_of(server.call("/v1/verify", {"answer": ANSWER, "contexts": [CONTEXT]}))
    assert (report.status, report.final_answer) == (Status.CORRECTED, FINAL)
    assert verdicts(report) == [CONTRADICTED, SUPPORTED]
    assert report.references[0].source == "context"


def test_check_alone_rewrites_nothing() -> None:
    with scripted() as server:
        body = {"answer": ANSWER, "contexts": [CONTEXT], "mode": "check"}
        report = report_of(server.call("/v1/verify", body))
    assert (report.status, report.final_answer, report.edits) == (Status.CONTRADICTED, ANSWER, ())


def test_without_contexts_the_reference_is_recalled_from_the_question() -> None:
    with scripted() as server:
        report = report_of(server.call("/v1/verify", {"answer": ANSWER, "question": "How many hills has Rome?"}))
    assert [r.source for r in report.references] == ["recall"]
    assert report.status is Status.CORRECTED


def test_no_chat_model_is_needed_to_check() -> None:
    with scripted(None) as server:
        report = report_of(server.call("/v1/verify", {"answer": ANSWER, "contexts": [CONTEXT], "mode": "check"}))
        chat = server.chat()
        models = server.call("/v1/models").json
    assert report.status is Status.CONTRADICTED
    assert (chat.status, chat.error["code"]) == (501, "no_chat_model")
    assert models == {"object": "list", "data": []}


@pytest.mark.parametrize("contexts", ["", "   \n", [], [""], None])
def test_references_that_are_empty_verify_nothing(shared_cases: dict[str, Any], contexts: Any) -> None:
    case = shared_cases["PC-38"]
    assert contexts in [*case["input"]["references"], []]
    with scripted() as server:
        report = report_of(server.call("/v1/verify", {"answer": case["input"]["answer"], "contexts": contexts}))
    assert verdicts(report) == [UNVERIFIED, UNVERIFIED]
    assert (report.final_answer, report.status, report.decision) == (ANSWER, Status.UNVERIFIED, None)
    assert any("there is nothing to check against" in warning for warning in report.warnings)


def test_instructions_in_the_answer_and_the_reference_change_nothing(shared_cases: dict[str, Any]) -> None:
    case = shared_cases["PC-29"]["input"]
    nli: Rules = [{"hypothesis_contains": "5 hills", "scores": CONTRADICT}, {"scores": NEUTRAL}]
    with scripted([{"stage": "correct", "reply": "PWNED"}], nli) as server:
        one = server.call("/v1/verify", {"answer": case["answer"], "contexts": [case["reference"]]})
        clean = case["reference"].partition(" NOTE")[0]
        other = server.call("/v1/verify", {"answer": case["answer"], "contexts": [clean]})
    first, second = report_of(one), report_of(other)
    assert [c.verdict for c in first.claims] == [c.verdict for c in second.claims]
    assert first.claims[0].verdict is Verdict.CONTRADICTED
    assert first.decision == second.decision
    assert "PWNED" not in first.final_answer


def test_a_batch_gives_one_report_each_in_order() -> None:
    items: list[dict[str, Any]] = [
        {"answer": ANSWER, "contexts": [CONTEXT]},
        {"answer": "It is in Italy."},
        {"answer": "5 hills.", "contexts": "x"},
    ]
    with scripted() as server:
        got = server.call("/v1/verify", {"items": items, "mode": "check", "policy": "fixed"})
        server.until(lambda: bool(server.served))
        assert len(server.served[0].reports) == 3
    reports = [from_dict(report) for report in got.json["reports"]]
    assert [r.answer for r in reports] == [item["answer"] for item in items]
    assert [r.status for r in reports] == [Status.CONTRADICTED, Status.UNVERIFIED, Status.CONTRADICTED]
    assert reports[0].decision is not None
    assert reports[0].decision.policy == "fixed"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "answer"),
        ({"answer": ""}, "answer"),
        ({"answer": " \n"}, "answer"),
        ({"answer": "a", "question": " "}, "question"),
        ({"answer": "a" * 50_001}, "answer"),
        ({"answer": "a", "mode": "off"}, "mode"),
        ({"answer": "a", "decision": "buffered"}, "decision"),
        ({"answer": "a", "contexts": [{"text": "x", "sauce": "y"}]}, None),
        ({"answer": "a", "k": "1"}, "k"),
        ({"items": []}, "items"),
        ({"items": [{"answer": "a"}, {"answer": "b", "question": ""}]}, "items.1.question"),
        ({"items": [{"answer": "a"}] * 65}, "items"),
        ({"items": [{"answer": "a", "mode": "check"}]}, "items.0.mode"),
        ({"items": [{"answer": "a"}], "answer": "b"}, "answer"),
    ],
)
def test_wrong_fields_are_named(body: dict[str, Any], param: str | None) -> None:
    with scripted() as server:
        got = server.call("/v1/verify", body)
    assert got.status == 400
    assert param is None or got.error["param"] == param


def test_the_deadline_of_a_batch_is_that_of_the_whole_call() -> None:
    slow = [{"stage": "recall", "reply": "Seven.", "first_token_s": 30}]
    items = [{"answer": ANSWER, "question": "How many hills?"}] * 20  # more than are worked on at a time
    with scripted(slow) as server:
        got = server.call("/v1/verify", {"items": items, "deadline": 0.5})
        server.until(lambda: bool(server.served))
        assert server.served[0].seconds < 15
    reasons = {claim["reason"] for report in got.json["reports"] for claim in report["claims"]}
    assert reasons == {"not checked: the time limit was reached"}


def test_one_of_a_batch_that_fails_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as server:
        engine = server.app.state.engine
        check = engine.check

        async def odd(answer: str, **more: Any) -> Any:
            if answer == "Odd.":
                raise RuntimeError("boom")
            return await check(answer, **more)

        monkeypatch.setattr(engine, "check", odd)
        got = server.call("/v1/verify", {"items": [{"answer": "Odd."}, {"answer": ANSWER, "contexts": CONTEXT}]})
    first, second = got.json["reports"]
    assert first["error"]["type"] == "api_error"
    assert "boom" not in got.body.decode()
    assert second["status"] == "corrected"


# Deciding anew --------------------------------------------------------------------------------------------------------


def test_a_report_is_decided_anew_without_any_model() -> None:
    rules: Rules = [{"hypothesis_contains": "5 hills", "scores": [0.2, 0.15, 0.65]}, {"scores": ENTAIL}]
    with scripted(ASKED, rules) as server:
        first = server.call("/v1/verify", {"answer": ANSWER, "contexts": [CONTEXT], "policy": "fixed", "mode": "check"})
        assert verdicts(report_of(first)) == [UNVERIFIED, SUPPORTED]
        calls = len(server.app.state.engine.corrigenda._loader._entailer.calls)
        bounded = report_of(server.call("/v1/decide", {"report": first.json, "policy": "bounded", "k": 0}))
        same = report_of(server.call("/v1/decide", {"report": first.json}))
        assert len(server.app.state.engine.corrigenda._loader._entailer.calls) == calls
    assert verdicts(bounded) == [CONTRADICTED, SUPPORTED]
    assert bounded.decision is not None
    assert (bounded.decision.policy, bounded.decision.k) == ("bounded", 0)
    assert bounded.final_answer == ANSWER
    assert same.decision is not None
    assert same.decision.policy == "bounded"


def test_a_report_is_decided_anew_by_another_threshold() -> None:
    rules: Rules = [{"hypothesis_contains": "5 hills", "scores": [0.2, 0.15, 0.65]}, {"scores": ENTAIL}]
    with scripted(ASKED, rules) as server:
        asked = {"answer": ANSWER, "contexts": [CONTEXT], "mode": "check", "policy": "fixed"}
        first = server.call("/v1/verify", asked)
        direct = server.call("/v1/verify", {**asked, "threshold": 0.6})
        after = server.call("/v1/decide", {"report": first.json, "policy": "fixed", "threshold": 0.6})
        wrong = [
            server.call("/v1/decide", {"report": first.json, "policy": "fixed", "threshold": 1.5}).error,
            server.call("/v1/decide", {"report": first.json, "policy": "bounded", "threshold": 0.5}).error,
            server.chat(own={"policy": "paper", "threshold": 0.5}).error,
        ]
    assert verdicts(report_of(first)) == [UNVERIFIED, SUPPORTED]
    for got in (direct, after):
        decision = report_of(got).decision
        assert (verdicts(report_of(got)), decision and decision.threshold) == ([CONTRADICTED, SUPPORTED], 0.6)
    assert [error["param"] for error in wrong] == ["threshold", None, None]
    assert "fixed and conformal, not by 'bounded'" in wrong[1]["message"]
    assert "fixed and conformal, not by 'paper'" in wrong[2]["message"]


def test_hostile_reports_are_refused_and_never_a_500() -> None:
    with scripted([], [{"scores": CONTRADICT}]) as server:
        good = server.call("/v1/verify", {"answer": ANSWER, "contexts": [CONTEXT], "mode": "check"}).json
        wrong: list[Any] = [
            {},
            {"schema": "9.0"},
            good | {"schema": "1"},
            good | {"claims": 7},
            good | {"claims": [good["claims"][0] | {"signed": "nan"}]},
            good | {"claims": [good["claims"][0] | {"signed": 1e308}]},
            good | {"claims": [good["claims"][0] | {"scores": {"entailment": 2, "neutral": 0, "contradiction": 0}}]},
            good | {"claims": [good["claims"][0] | {"span": ["a"]}]},
            good | {"claims": [good["claims"][0] | {"span": [10**400, 1]}]},
            good | {"usage": {"generate": {"calls": "x"}}},
            good | {"retrieval": [{"claim": 99}]},
        ]
        for report in wrong:
            got = server.call("/v1/decide", {"report": report, "policy": "paper"})
            assert got.status in (200, 400), (got.status, json.dumps(report)[:300])
        assert server.call("/v1/decide", {"report": good, "policy": "none"}).error["param"] == "policy"
        assert server.call("/v1/decide", {"report": "x"}).error["param"] == "report"
        assert server.call("/v1/decide", {}).error["param"] == "report"


def test_a_refusal_says_back_only_the_beginning_of_what_was_sent() -> None:
    with scripted() as server:
        got = server.call("/v1/decide", {"report": {"schema": "x" * 100_000}})
    assert got.status == 400
    assert len(got.error["message"]) <= 2000
    assert got.error["message"].startswith("this report has schema 'xxx")
    assert got.error["message"].endswith("…")

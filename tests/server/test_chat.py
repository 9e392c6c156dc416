"""The official client against the server: whole and streamed replies, and what a request can choose."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from jsonschema import Draft202012Validator

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.report import from_dict, json_schema
from corrigenda.types import ChatRequest, Message, Report, Status
from tests.fake_openai import FakeOpenAI, answer
from tests.scripted import ANSWER, ASKED, ENTAIL, FIVE_HILLS, NEUTRAL, verdicts
from tests.scripted import C as CONTRADICTED
from tests.scripted import S as SUPPORTED
from tests.scripted import U as UNVERIFIED
from tests.server.kit import FINAL, QUESTION, Running, over, proxying, scripted, serving, staged, streamed


def valid(report: Any) -> Report:
    Draft202012Validator(json_schema()).validate(report)
    return from_dict(report)


def test_the_reply_is_the_corrected_answer_with_its_report_beside() -> None:
    with scripted() as server, server.client() as client:
        reply = client.chat.completions.create(model="any-name", messages=QUESTION)
    assert reply.choices[0].message.content == FINAL
    assert reply.choices[0].finish_reason == "stop"
    assert reply.model == "scripted"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (20, 10, 30)
    assert reply.model_extra is not None
    report = valid(reply.model_extra["corrigenda"])
    assert (report.answer, report.final_answer, report.status) == (ANSWER, FINAL, Status.CORRECTED)
    assert verdicts(report) == [CONTRADICTED, SUPPORTED]


def test_the_raw_response_has_a_request_id_and_the_status_of_the_report() -> None:
    with scripted() as server, server.client() as client:
        create = client.chat.completions.with_raw_response.create
        raw = create(model="m", messages=QUESTION, extra_headers={"X-Request-Id": "mine-7"})
        assert raw.headers["x-request-id"] == "mine-7"
        assert raw.headers["x-corrigenda-status"] == "corrected"
        assert raw.headers["content-type"] == "application/json"
        assert raw.parse().choices[0].message.content == FINAL
        own = create(model="m", messages=QUESTION, extra_headers={"X-Request-Id": "no id"})
        assert own.headers["x-request-id"].startswith("req-")


def test_the_asynchronous_client() -> None:
    async def ask(server: Running) -> tuple[str | None, str]:
        async with openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(model="m", messages=QUESTION)
            pieces = []
            async for piece in await client.chat.completions.create(model="m", messages=QUESTION, stream=True):
                pieces.append(piece.choices[0].delta.content or "")
            return whole.choices[0].message.content, "".join(pieces)

    with scripted() as server:
        assert asyncio.run(ask(server)) == (FINAL, FINAL)


@pytest.mark.parametrize("decision", [None, "incremental", "buffered"])
def test_a_stream_shows_nothing_contradicted_and_adds_up_to_the_whole_reply(
    server: FakeOpenAI, shared_cases: dict[str, Any], decision: str | None
) -> None:
    case = shared_cases["PC-34"]
    server.default = staged(streamed(*case["input"]["upstream_deltas"]), correct=answer(case["input"]["rewrite"]))
    own = {} if decision is None else {"decision": decision}
    with proxying(server) as proxy:
        stream = proxy.chat(stream=True, own=own)
        whole = proxy.chat(own=own).json
    *pieces, done = stream.events
    contents = [piece["choices"][0]["delta"].get("content", "") for piece in pieces]
    assert "".join(contents) == case["expected"]["concatenated"] == whole["choices"][0]["message"]["content"]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None] * (len(pieces) - 1) + ["stop"]
    assert done == "[DONE]"
    assert pieces[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len({piece["id"] for piece in pieces}) == 1
    report = valid(pieces[-1]["corrigenda"])
    assert report.final_answer == "".join(contents)
    assert [claim.released is None for claim in report.claims] == [decision == "buffered"] * 2


def test_pieces_carry_the_claims_that_they_were_released_by() -> None:
    with scripted() as server:
        pieces = server.chat(stream=True).events[1:-2]
    shown = [(p["choices"][0]["delta"]["content"], [c["verdict"] for c in p["corrigenda"]["claims"]]) for p in pieces]
    assert shown == [("Rome has seven hills.", ["contradicted"]), (" It is in Italy.", ["supported"])]


def test_usage_comes_in_the_last_piece_and_only_when_asked_for() -> None:
    with scripted() as server, server.client() as client:
        asked = list(
            client.chat.completions.create(
                model="m", messages=QUESTION, stream=True, stream_options={"include_usage": True}
            )
        )
        not_asked = list(client.chat.completions.create(model="m", messages=QUESTION, stream=True))
    assert [piece.usage is None for piece in asked] == [True] * (len(asked) - 1) + [False]
    assert asked[-1].choices == []
    assert asked[-1].usage is not None
    assert asked[-1].usage.total_tokens == 30
    assert all(piece.usage is None and piece.choices for piece in not_asked)


def test_usage_that_the_upstream_did_not_say_is_not_invented() -> None:
    rules = [{k: v for k, v in rule.items() if k != "usage"} for rule in ASKED]
    with scripted(rules) as server:
        assert server.chat().json["usage"] is None
        last = server.chat(stream=True, stream_options={"include_usage": True}).events[-2]
    assert (last["choices"], last["usage"]) == ([], None)


@pytest.mark.parametrize(("finish", "word"), [("length", "length"), ("content_filter", "content_filter")])
def test_finish_reasons_are_passed_on(finish: str, word: str) -> None:
    rules = [{**ASKED[0], "finish_reason": finish}, *ASKED[1:]]
    with scripted(rules) as server:
        assert server.chat().json["choices"][0]["finish_reason"] == word
        assert server.chat(stream=True).events[-2]["choices"][0]["finish_reason"] == word


def test_a_refusal_stands_in_its_own_field() -> None:
    refusal = {"stage": "generate", "reply": {"content": None, "refusal": "I can't help with that."}}
    with scripted([refusal, *ASKED[1:]]) as server:
        reply = server.chat().json
        stream = server.chat(stream=True).events
    assert reply["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": "I can't help with that.",
    }
    assert reply["corrigenda"]["status"] == "abstained"
    assert [e["choices"][0]["delta"] for e in stream[:-1]] == [
        {"role": "assistant", "content": ""},
        {"refusal": "I can't help with that."},
        {},
    ]


# What a request chooses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "own", "content", "status"),
    [
        (None, None, FINAL, "corrected"),
        ("check", None, ANSWER, "contradicted"),
        ("off", None, ANSWER, "passed_through"),
        ("off", {"mode": "correct"}, FINAL, "corrected"),
        ("Correct ", {"mode": "check"}, ANSWER, "contradicted"),
        (None, {"mode": "off"}, ANSWER, "passed_through"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_mode_comes_from_the_field_before_the_header_before_the_server(
    header: str | None, own: Any, content: str, status: str, stream: bool
) -> None:
    with scripted() as server:
        reply = server.chat(mode=header, own=own, stream=stream)
    if stream:
        said = "".join(e["choices"][0]["delta"].get("content", "") for e in reply.events[:-1])
        assert (said, reply.events[-2]["corrigenda"]["status"]) == (content, status)
    else:
        assert (reply.json["choices"][0]["message"]["content"], reply.json["corrigenda"]["status"]) == (content, status)
        assert reply.headers["x-corrigenda-status"] == status


def test_the_server_has_a_mode_of_its_own() -> None:
    with scripted(mode="check") as server:
        assert server.chat().json["corrigenda"]["status"] == "contradicted"
        assert server.chat(mode="correct").json["corrigenda"]["status"] == "corrected"


def test_contexts_take_the_place_of_recall() -> None:
    chat = ScriptedChat({"rules": ASKED})
    nli = ScriptedEntailer({"rules": FIVE_HILLS})
    own = {"contexts": ["Rome stands on seven hills.", {"text": "Rome is in Italy.", "source": "atlas.txt"}]}
    with serving(over(chat, nli)) as server:
        report = valid(server.chat(own=own).json["corrigenda"])
        one = valid(server.chat(own={"contexts": "Rome stands on seven hills."}).json["corrigenda"])
    assert [request.stage for request in chat.requests] == ["generate", "correct"] * 2
    assert [(r.text, r.source) for r in report.references] == [
        ("Rome stands on seven hills.", "context 1"),
        ("Rome is in Italy.", "atlas.txt"),
    ]
    assert [r.source for r in one.references] == ["context"]


@pytest.mark.parametrize("contexts", ["", "   \n", [], [""]])
def test_empty_contexts_leave_every_claim_unverified(contexts: Any) -> None:
    with scripted() as server:
        reply = server.chat(own={"contexts": contexts}).json
    report = valid(reply["corrigenda"])
    assert (report.final_answer, verdicts(report)) == (ANSWER, [UNVERIFIED, UNVERIFIED])
    assert report.warnings == (
        "there is nothing to check against: give a context that is not empty, or a question and a chat model",
    )


def test_policy_k_and_language_are_chosen_per_request() -> None:
    with scripted() as server:
        chosen = valid(server.chat(own={"policy": "paper", "k": 2, "language": "it"}).json["corrigenda"])
        after = valid(server.chat().json["corrigenda"])
    assert chosen.decision is not None
    assert (chosen.decision.policy, chosen.decision.k) == ("paper", 2)
    assert verdicts(chosen) == [UNVERIFIED, UNVERIFIED]
    assert after.decision is not None
    assert (after.decision.policy, after.decision.k) == ("bounded", 0.7)


def test_the_clients_conversation_and_sampling_settings_reach_the_model() -> None:
    chat = ScriptedChat({"rules": ASKED})
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of Italy?"},
        {"role": "assistant", "content": "Rome, with its 5 hills."},
        {"role": "user", "content": [{"type": "text", "text": "How many hills"}, {"type": "text", "text": "has it?"}]},
    ]
    with serving(over(chat, ScriptedEntailer({"rules": FIVE_HILLS}))) as server:
        server.chat(messages=messages, temperature=0.2, top_p=0.5, max_completion_tokens=99, seed=7)
        server.chat(messages=messages[-1:])
    asked = [request for request in chat.requests if request.stage == "generate"]
    assert asked == [
        ChatRequest(
            stage="generate",
            messages=(
                Message(role="system", content="Be brief."),
                Message(role="user", content="What is the capital of Italy?"),
                Message(role="assistant", content="Rome, with its 5 hills."),
                Message(role="user", content="How many hills\nhas it?"),
            ),
            temperature=0.2,
            top_p=0.5,
            max_tokens=99,
            seed=7,
        ),
        ChatRequest(
            stage="generate",
            messages=(Message(role="user", content="How many hills\nhas it?"),),
            temperature=0.7,
            top_p=0.9,
            max_tokens=256,
        ),
    ]
    recalled = [request.messages[-1].content for request in chat.requests if request.stage == "recall"]
    assert recalled == ["What is the capital of Italy?\n\nHow many hills\nhas it?", "How many hills\nhas it?"]


def test_concurrent_requests_do_not_mix() -> None:
    cities = ["Rome", "Oslo", "Bern", "Riga", "Kyiv", "Baku"]
    rules: list[dict[str, Any]] = [
        {"stage": s, "contains": c, "reply": f"{c} is the city of {c}.", "tokens_per_s": 200}
        for c in cities
        for s in ("generate", "recall")
    ]
    nli = [{"premise_contains": c, "hypothesis_contains": c, "scores": ENTAIL} for c in cities]

    async def ask(server: Running) -> list[tuple[str | None, Any]]:
        async with openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="none", max_retries=0) as client:
            asked = [
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"{c}?"}])
                for c in cities * 4
            ]
            replies = await asyncio.gather(*asked)
        return [(r.choices[0].message.content, (r.model_extra or {})["corrigenda"]["status"]) for r in replies]

    with scripted(rules, [*nli, {"scores": NEUTRAL}]) as server:
        assert asyncio.run(ask(server)) == [(f"{c} is the city of {c}.", "verified") for c in cities * 4]
        assert any(len(served.reports) for served in server.served)

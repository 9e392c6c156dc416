"""What breaks while an answer is made: every client gets a well-formed end that says what happened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.types import Entailment, Pair, PairFailure
from tests.fake_openai import FakeOpenAI, Reply, answer, chunk, error, events, json_reply
from tests.scripted import ANSWER, ASKED, ENTAIL, REWRITE
from tests.server.kit import QUESTION, UPSTREAM_KEY, over, proxying, scripted, serving, staged, streamed


class Broken:
    """A verifier that raises."""

    name = "broken"
    max_tokens = 1000

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        raise RuntimeError("the weights are gone")

    async def aclose(self) -> None:
        return None


def upstream_error(status: int, message: str = "no", **more: Any) -> Reply:
    return error(status, {"error": {"message": message, **more}})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        (
            upstream_error(400, f"bad {UPSTREAM_KEY}", type="invalid_request_error", param="stop", code="too_many"),
            400,
            {"message": "bad ***", "type": "invalid_request_error", "param": "stop", "code": "too_many"},
        ),
        (
            upstream_error(404, "no such model"),
            404,
            {"message": "no such model", "type": "not_found_error", "param": None, "code": "upstream_refused"},
        ),
        (
            upstream_error(422, "no"),
            422,
            {"message": "no", "type": "invalid_request_error", "param": None, "code": "upstream_refused"},
        ),
        (
            upstream_error(401, f"wrong key {UPSTREAM_KEY}"),
            401,
            {
                "message": "the upstream model's server refuses the credentials that this server is configured with",
                "type": "authentication_error",
                "param": None,
                "code": "upstream_unauthorized",
            },
        ),
    ],
)
def test_the_upstreams_refusals_pass_through_with_their_meaning(
    server: FakeOpenAI, reply: Reply, status: int, said: dict[str, Any], stream: bool
) -> None:
    server.default = staged(reply)
    with proxying(server) as proxy:
        got = proxy.chat(stream=stream)
    assert (got.status, got.error) == (status, said)


@pytest.mark.parametrize("stream", [False, True])
def test_the_upstreams_rate_limit_keeps_its_retry_after(server: FakeOpenAI, stream: bool) -> None:
    server.default = staged(error(429, {"error": {"message": "slow down"}}, Retry_After="17"))
    with proxying(server) as proxy:
        got = proxy.chat(stream=stream)
        assert (got.status, got.headers["retry-after"]) == (429, "17")
        assert (got.error["message"], got.error["code"]) == ("slow down", "upstream_rate_limit")
        with proxy.client() as client, pytest.raises(openai.RateLimitError, match="slow down"):
            client.chat.completions.create(model="m", messages=QUESTION)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (upstream_error(500), 502, "upstream_error"),
        (upstream_error(503), 502, "upstream_error"),
        (upstream_error(504), 504, "upstream_timeout"),
        (Reply(chunks=[b"<html>nginx</html>"], content_type="text/html"), 502, "upstream_error"),
        (Reply(chunks=[b"\xff\xfe\x00"], content_type="text/event-stream"), 502, "upstream_error"),
        (json_reply({"hello": "world"}), 502, "upstream_error"),
        (events("data: {nonsense\n\n"), 502, "upstream_error"),
        (events(done=False, cut=True), 502, "upstream_error"),
    ],
)
def test_the_upstreams_failures_become_502_and_504(
    server: FakeOpenAI, reply: Reply, status: int, code: str, stream: bool
) -> None:
    server.default = staged(reply)
    with proxying(server) as proxy:
        got = proxy.chat(stream=stream)
        assert (got.status, got.error["code"]) == (status, code)
        server.default = staged(streamed("Rome has seven hills."))
        assert proxy.chat().status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_hangs_becomes_504(server: FakeOpenAI, stream: bool) -> None:
    server.default = staged(events(done=False, hold=True))
    with proxying(server, request_timeout=0.3) as proxy:
        got = proxy.chat(stream=stream)
    assert (got.status, got.error["code"]) == (504, "upstream_timeout")


def test_an_upstream_that_is_not_there_becomes_502(server: FakeOpenAI) -> None:
    with proxying(server, base_url="http://127.0.0.1:9/v1") as proxy:
        got = proxy.chat()
    assert (got.status, got.error["code"]) == (502, "upstream_error")
    assert "is the server running" in got.error["message"]


CUT = events(chunk("Rome has 5 hills. It is"), done=False, cut=True)


def test_an_answer_that_breaks_off_is_an_error_that_keeps_what_there_was(server: FakeOpenAI) -> None:
    server.default = staged(CUT)
    with proxying(server) as proxy:
        got = proxy.chat()
    assert (got.status, got.error["code"]) == (502, "upstream_error")
    report = got.json["corrigenda"]
    assert (report["answer"], report["status"]) == ("Rome has 5 hills. It is", "failed")
    assert report["reason"].startswith("the answer is incomplete: ")


def test_a_stream_that_breaks_off_ends_with_an_error_event(server: FakeOpenAI) -> None:
    server.default = staged(CUT)
    with proxying(server) as proxy:
        *pieces, last, done = proxy.chat(stream=True).events
        said = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
        assert said == "Rome has seven hills. It is"
        assert all(piece["choices"][0]["finish_reason"] is None for piece in pieces)
        assert (last["error"]["status"], last["error"]["code"]) == (502, "upstream_error")
        assert last["corrigenda"]["final_answer"] == said
        assert done == "[DONE]"
        with proxy.client() as client, pytest.raises(openai.APIError, match=r"broke|ended early"):
            list(client.chat.completions.create(model="m", messages=QUESTION, stream=True))


def test_a_model_of_the_callers_own_that_breaks_is_an_upstream_that_failed() -> None:
    class Odd(ScriptedChat):
        async def stream(self, request: Any) -> Any:
            yield (await self.complete(request)).__class__  # no delta at all
            raise AssertionError

    with serving(over(Odd({"rules": ASKED}), Broken())) as server:
        got = server.chat()
    assert (got.status, got.error["code"]) == (502, "upstream_error")


@pytest.mark.parametrize("stream", [False, True])
def test_the_deadline_without_an_answer_is_504(stream: bool) -> None:
    slow = [{"stage": "generate", "reply": ANSWER, "first_token_s": 30}, *ASKED[1:]]
    with scripted(slow) as server:
        got = server.chat(stream=stream, own={"deadline": 0.2})
    assert (got.status, got.error["code"]) == (504, "deadline")


def test_the_deadline_in_the_middle_of_an_answer_cuts_it_off() -> None:
    slow = [{"stage": "generate", "reply": ANSWER, "tokens_per_s": 10}, *ASKED[1:]]
    with scripted(slow) as server:
        reply = server.chat(own={"deadline": 0.75}).json
    said = reply["choices"][0]["message"]["content"]
    assert ANSWER.startswith(said)
    assert said
    assert reply["choices"][0]["finish_reason"] == "length"
    assert (
        "the answer is incomplete: the time limit was reached while it was being generated"
        in (reply["corrigenda"]["warnings"])
    )


def test_an_endless_answer_is_cut_off() -> None:
    endless = [{"stage": "generate", "reply": "Rome has hills. " * 100}, *ASKED[1:]]
    with scripted(endless, limits={"output_tokens": 2}) as server:
        reply = server.chat(max_tokens=2).json
    assert reply["choices"][0]["message"]["content"] == ("Rome has hills. " * 2)
    assert reply["choices"][0]["finish_reason"] == "length"


# The check fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_verifier_that_raises_leaves_the_answer_and_says_failed(stream: bool) -> None:
    with serving(over(ScriptedChat({"rules": ASKED}), Broken())) as server:
        got = server.chat(stream=stream)
    if stream:
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in got.events[:-1])
        report = got.events[-2]["corrigenda"]
    else:
        text, report = got.json["choices"][0]["message"]["content"], got.json["corrigenda"]
        assert got.headers["x-corrigenda-status"] == "failed"
    assert (got.status, text) == (200, ANSWER)
    assert report["status"] == "failed"
    assert report["reason"] == "RuntimeError: the weights are gone"


FAILURES: dict[str, tuple[Any, Any]] = {
    "verifier": (ASKED, None),
    "recall": ([ASKED[0], {"stage": "recall", "error": {"status": 500}}, REWRITE], [{"scores": ENTAIL}]),
    "one pair": (ASKED, [{"hypothesis_contains": "Italy", "error": "too odd"}, {"scores": ENTAIL}]),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", FAILURES)
def test_fail_closed_gives_out_nothing_that_was_not_checked(name: str, stream: bool) -> None:
    rules, nli = FAILURES[name]
    made = over(ScriptedChat({"rules": rules}), Broken()) if nli is None else None
    running = serving(made, fail_closed=True) if made is not None else scripted(rules, nli, fail_closed=True)
    with running as server:
        got = server.chat(stream=stream)
    if got.status == 200:  # the first sentence was checked; the second one is held back
        *pieces, last, done = got.events
        assert "".join(piece["choices"][0]["delta"]["content"] for piece in pieces) == "Rome has 5 hills."
        assert (last["error"]["status"], last["error"]["code"], done) == (502, "verification_failed", "[DONE]")
        assert name == "one pair"
    else:
        assert (got.status, got.error["code"], set(got.json)) == (502, "verification_failed", {"error"})
    assert "It is in Italy" not in got.body.decode()


def test_fail_closed_gives_out_what_was_checked() -> None:
    with scripted(fail_closed=True) as server:
        assert server.chat().json["corrigenda"]["status"] == "corrected"
        assert server.chat(stream=True).events[-2]["corrigenda"]["status"] == "corrected"


def test_fail_closed_counts_what_there_was_no_time_for() -> None:
    slow = [ASKED[0], {"stage": "recall", "reply": "Seven.", "first_token_s": 30}]
    with scripted(slow, fail_closed=True) as server:
        got = server.chat(own={"deadline": 0.5})
    assert (got.status, got.error["code"]) == (502, "verification_failed")


def test_an_upstream_that_dies_is_told_as_such_also_when_closed(server: FakeOpenAI) -> None:
    server.default = staged(CUT)
    with proxying(server, fail_closed=True) as proxy:
        got = proxy.chat()
    assert (got.status, got.error["code"], set(got.json)) == (502, "upstream_error", {"error"})


# What OpenAI-compatible servers do -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_characters_cut_by_the_network_arrive_whole(
    server: FakeOpenAI, shared_cases: dict[str, Any], stream: bool
) -> None:
    case = shared_cases["PC-31"]
    pieces = [bytes.fromhex(piece) for piece in case["input"]["chunks_hex"]]
    server.default = staged(Reply(chunks=pieces, content_type="text/event-stream"))
    with proxying(server, [{"scores": ENTAIL}]) as proxy:
        got = proxy.chat(stream=stream)
    text = case["expected"]["text"]
    if stream:
        assert "".join(e["choices"][0]["delta"].get("content", "") for e in got.events[:-1]) == text
        report = got.events[-2]["corrigenda"]
    else:
        assert got.json["choices"][0]["message"]["content"] == text
        report = got.json["corrigenda"]
    for claim in report["claims"]:
        start, end = claim["span"]
        assert text[start:end] == claim["text"]


@pytest.mark.parametrize("variant", ["body", "variant_no_usage", "variant_400"])
def test_quirks_of_compatible_servers_do_not_reach_the_client(
    server: FakeOpenAI, shared_cases: dict[str, Any], variant: str
) -> None:
    case = shared_cases["PC-32"]
    body = case["input"]["body"]
    if variant != "body":
        body = "\r\n\r\n".join(part for part in body.split("\r\n\r\n") if '"usage"' not in part)
    good = Reply(chunks=[body.encode()], content_type="text/event-stream")
    refusal = upstream_error(400, "stream_options is not supported")
    server.default = staged(lambda sent: refusal if variant == "variant_400" and "stream_options" in sent else good)
    with proxying(server, [{"scores": ENTAIL}]) as proxy:
        *pieces, last, done = proxy.chat(stream=True, stream_options={"include_usage": True}).events
        whole = proxy.chat().json
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in pieces) == case["expected"]["text"]
    usage = case["expected"]["usage"] if variant == "body" else None
    assert (last["choices"], last["usage"], done) == ([], usage, "[DONE]")
    assert whole["usage"] == usage


def test_half_a_surrogate_pair_of_the_upstream_breaks_nothing(server: FakeOpenAI) -> None:
    raw = json.dumps(chunk("Rome \ud83e has seven hills."))
    server.default = staged(events(f"data: {raw}\n\n", chunk(finish_reason="stop")))
    with proxying(server, [{"scores": ENTAIL}]) as proxy:
        assert proxy.chat().json["choices"][0]["message"]["content"] == "Rome \ufffd has seven hills."


def test_an_upstream_that_answers_in_one_piece(server: FakeOpenAI) -> None:
    server.default = staged(answer("Rome has seven hills."))
    with proxying(server, [{"scores": ENTAIL}]) as proxy:
        events_ = proxy.chat(stream=True).events
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events_[:-1]) == "Rome has seven hills."

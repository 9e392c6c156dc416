import asyncio
import json
import math
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from corrigenda.backends.chat_scripted import ScriptedChat, pieces
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.backends.scripts import RequestLog, error_for_status
from corrigenda.errors import (
    BackendError,
    BadReply,
    ConfigError,
    RateLimited,
    RequestRefused,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from corrigenda.types import ChatRequest, Completion, Delta, Entailment, Message, Pair, TokenUsage


def request(text: str = "How many hills?", stage: str = "generate", **settings: Any) -> ChatRequest:
    return ChatRequest(stage=stage, messages=(Message(role="user", content=text),), **settings)


def complete(chat: ScriptedChat, *requests: ChatRequest) -> list[Completion]:
    async def work() -> list[Completion]:
        return [await chat.complete(r) for r in requests or (request(),)]

    return asyncio.run(work())


async def collect(chat: ScriptedChat, into: list[Delta], asked: ChatRequest | None = None) -> None:
    async for delta in chat.stream(asked or request()):
        into.append(delta)


def test_the_first_rule_that_fits_serves() -> None:
    chat = ScriptedChat(
        {
            "rules": [
                {"stage": "recall", "contains": "hills", "reply": "A"},
                {"stage": "recall", "reply": "B"},
                {"contains": "system words", "reply": "C"},
                {"reply": "D"},
            ]
        }
    )
    long = ChatRequest(
        stage="x", messages=(Message(role="system", content="system words"), Message(role="user", content="u"))
    )
    asked = [request(stage="recall"), request("u", stage="recall"), long, request()]
    assert [c.text for c in complete(chat, *asked)] == ["A", "B", "C", "D"]
    assert chat.requests == asked


def test_a_rule_serves_as_often_as_it_says() -> None:
    chat = ScriptedChat({"rules": [{"reply": "A", "times": 2}, {"reply": "B", "times": 1}]})
    assert [c.text for c in complete(chat, *[request()] * 3)] == ["A", "A", "B"]
    with pytest.raises(BadReply, match=r"none of the 2 rules fits .* \(2 used up by 'times'\).*'How many hills\?'"):
        complete(chat)


def test_what_no_rule_fits_is_shown_shortened() -> None:
    chat = ScriptedChat({"rules": [{"stage": "recall", "reply": "A"}]})
    with pytest.raises(BadReply, match=r"request of stage 'generate'.*add a rule for it: 'xxx") as caught:
        complete(chat, request("x" * 5000))
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"reply": ""}, Completion(text="")),
        ({"reply": "<think>5</think>\nSeven."}, Completion(text="Seven.")),
        ({"reply": {"content": None, "refusal": "No."}}, Completion(text="", finish_reason="refusal", refusal="No.")),
        (
            {"reply": {"content": None, "reasoning_content": "5"}, "finish_reason": "length"},
            Completion(text="", finish_reason="length"),
        ),
        ({"reply": "a", "usage": {"prompt_tokens": 3}}, Completion(text="a", usage=TokenUsage(prompt_tokens=3))),
        (
            {"reply": "a", "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}},
            Completion(text="a", usage=TokenUsage(prompt_tokens=3, completion_tokens=1)),
        ),
        ({"reply": "a", "finish_reason": "content_filter"}, Completion(text="a", finish_reason="content_filter")),
    ],
)
def test_replies(rule: dict[str, Any], expected: Completion) -> None:
    chat = ScriptedChat({"rules": [rule]})
    assert complete(chat) == [expected]
    deltas: list[Delta] = []
    asyncio.run(collect(chat, deltas))
    assert "".join(d.text for d in deltas) == expected.text
    assert [d.completion for d in deltas] == [None] * (len(deltas) - 1) + [expected]


def test_defaults_are_for_every_rule_and_rules_win() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    chat = ScriptedChat(
        {
            "description": "two rules",
            "defaults": {"usage": usage, "finish_reason": "length"},
            "rules": [{"contains": "A", "reply": "a"}, {"reply": "b", "finish_reason": "stop", "usage": {}}],
        }
    )
    assert complete(chat, request("A"), request("B")) == [
        Completion(text="a", finish_reason="length", usage=TokenUsage(prompt_tokens=1, completion_tokens=2)),
        Completion(text="b"),
    ]


@pytest.mark.parametrize(
    "text", ["", "Rome has 7 hills, they say.", "\n\n- a\n- b  ", "雪国は日本の小説です。" * 3, "🧭 ok"]
)
def test_pieces_concatenate(text: str) -> None:
    assert "".join(pieces(text)) == text


def test_pieces_are_words_and_marks() -> None:
    assert pieces("Rome has 7 hills.\n") == ["Rome", " has", " 7", " hills", ".", "\n"]
    assert ScriptedChat({"rules": []}).count_tokens("Rome has 7 hills.\n") == 6


def test_simulated_speed_does_not_drift() -> None:
    """Forty tokens at 400 a second after 50 ms: the last is due after 147.5 ms, however late single ones are."""
    chat = ScriptedChat({"rules": [{"reply": "a" + " a" * 39, "first_token_s": 0.05, "tokens_per_s": 400}]})

    async def work() -> tuple[float, float, float]:
        loop = asyncio.get_running_loop()
        start, times = loop.time(), []
        async for _ in chat.stream(request()):
            times.append(loop.time() - start)
        start = loop.time()
        await chat.complete(request())
        return times[0], times[-1], loop.time() - start

    first, last, whole = asyncio.run(work())
    assert 0.049 <= first < 0.1475
    assert 0.147 <= last < 0.4
    assert 0.147 <= whole < 0.4


def test_concurrent_calls_overlap() -> None:
    chat = ScriptedChat({"rules": [{"reply": "a", "first_token_s": 0.1}]})

    async def work() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.gather(*[chat.complete(request()) for _ in range(10)])
        return loop.time() - start

    assert 0.099 <= asyncio.run(work()) < 0.6


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (None, Unreachable),
        (200, BadReply),
        (400, RequestRefused),
        (401, Unauthorized),
        (403, Unauthorized),
        (408, TimedOut),
        (429, RateLimited),
        (500, BackendError),
        (504, TimedOut),
    ],
)
def test_errors_by_status(status: int | None, kind: type[BackendError]) -> None:
    chat = ScriptedChat({"rules": [{"error": {"status": status, "body": "boom"}}]})
    with pytest.raises(kind, match=r"scripted: rules\[0\]: status (none|\d+): boom") as caught:
        complete(chat)
    assert type(caught.value) is kind
    assert type(error_for_status(status, "x")) is kind


def test_an_error_can_cut_a_stream() -> None:
    chat = ScriptedChat({"rules": [{"reply": "Rome has seven hills.", "error": {"after_tokens": 2}}]})
    deltas: list[Delta] = []
    with pytest.raises(Unreachable, match="status none: the script asks for this error"):
        asyncio.run(collect(chat, deltas))
    assert deltas == [Delta(text="Rome"), Delta(text=" has")]
    with pytest.raises(Unreachable, match="status none"):
        complete(chat)


def test_a_stream_can_be_closed_early() -> None:
    chat = ScriptedChat({"rules": [{"reply": "Rome has seven hills.", "tokens_per_s": 5}]})

    async def work() -> Delta:
        deltas = chat.stream(request())
        async with aclosing(deltas):  # type: ignore[type-var]
            return await anext(deltas)

    assert asyncio.run(work()) == Delta(text="Rome")


def test_label_logprobs() -> None:
    chat = ScriptedChat(
        {
            "rules": [
                {"contains": "fail", "error": {"status": 500}},
                {"contains": "none", "reply": "A"},
                {"logprobs": {"A": -0.1, "B": -2}},
            ]
        }
    )

    async def ask(text: str) -> tuple[float, ...]:
        return await chat.label_logprobs(request(text), ["B", "A", "C"])

    assert asyncio.run(ask("x")) == (-2.0, -0.1, -math.inf)
    with pytest.raises(BackendError, match="status 500"):
        asyncio.run(ask("fail"))
    with pytest.raises(BadReply, match=r"rules\[1\] has no 'logprobs', which this request needs"):
        asyncio.run(ask("none"))
    with pytest.raises(BadReply, match=r"rules\[2\] has no 'reply', which this request needs"):
        complete(chat, request("x"))


def test_every_request_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    chat = ScriptedChat({"rules": [{"contains": "è", "reply": "A", "logprobs": {"A": -1}}]}, log_path=log)

    async def work() -> None:
        await chat.complete(request("è", temperature=0.5, json_schema={"type": "object"}))
        await collect(chat, [], request("è", stage="recall"))
        await chat.label_logprobs(request("è", max_tokens=1, seed=2, top_p=0.9), ["A"])
        with pytest.raises(BadReply, match="none of the 1 rules"):
            await chat.complete(request("\ud800"))

    asyncio.run(work())
    none = {"temperature": None, "top_p": None, "max_tokens": None, "seed": None, "json_schema": None}
    messages = [{"role": "user", "content": "è"}]
    lines = log.read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines[:3]] == [
        {
            "call": "complete",
            "stage": "generate",
            "messages": messages,
            "settings": none | {"temperature": 0.5, "json_schema": {"type": "object"}},
            "rule": 0,
        },
        {"call": "stream", "stage": "recall", "messages": messages, "settings": none, "rule": 0},
        {
            "call": "label_logprobs",
            "stage": "generate",
            "messages": messages,
            "settings": none | {"max_tokens": 1, "seed": 2, "top_p": 0.9},
            "labels": ["A"],
            "rule": 0,
        },
    ]
    assert json.loads(lines[3])["rule"] is None


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"request log .* cannot be written"):
        ScriptedChat({"rules": []}, log_path=tmp_path / "no" / "log")
    log = RequestLog(tmp_path / "sub.jsonl")
    (tmp_path / "sub.jsonl").unlink()
    (tmp_path / "sub.jsonl").mkdir()
    with pytest.raises(BackendError, match=r"request log .* cannot be written"):
        log.write(call="x")


def test_a_file_and_the_same_content_as_a_dict(tmp_path: Path) -> None:
    rules: dict[str, Any] = {"rules": [{"reply": {"content": "A"}}]}
    before = json.dumps(rules)
    file = tmp_path / "rules.json"
    file.write_text("\ufeff" + before, encoding="utf-8")
    from_file, from_dict = ScriptedChat(file), ScriptedChat(rules)
    assert (from_file.name, from_dict.name) == (f"scripted:{file}", "scripted")
    assert complete(from_file) == complete(from_dict) == [Completion(text="A")]
    rules["rules"][0]["reply"]["content"] = "B"
    assert complete(from_dict) == [Completion(text="A")]
    asyncio.run(from_dict.aclose())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"rules": [{"reply": "a", "first_token_s": NaN}]}', "not valid JSON: NaN is not JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "must hold one JSON object with a list 'rules', not list"),
        ("{}", "has no list 'rules'"),
        ('{"rules": {}}', "the file: 'rules' must be a list of objects, got {}"),
        ('{"rule": []}', "the file knows no key 'rule'; allowed: defaults, description, rules"),
        ('{"rules": [1]}', r"rules\[0\] must be an object, got 1"),
        (
            '{"rules": [{"reply": "a"}, {"reply": "a", "contain": "b"}]}',
            r"rules\[1\] knows no key 'contain'; allowed: contains, error, finish_reason, first_token_s, logprobs, "
            "reply, stage, times, tokens_per_s, usage",
        ),
        ('{"rules": [], "defaults": {"reply": "a"}}', "defaults knows no key 'reply'; allowed: finish_reason"),
        ('{"rules": [], "defaults": 5}', "'defaults' must be an object, got 5"),
        ('{"rules": [{"stage": "recall"}]}', r"rules\[0\] serves nothing; give it one of 'reply', 'error', 'logprobs'"),
        ('{"rules": [{"stage": 1, "reply": "a"}]}', "'stage' must be a text that is not empty, got 1"),
        ('{"rules": [{"reply": null}]}', "'reply' must be a text, or a message object with 'content', got None"),
        ('{"rules": [{"reply": {"text": "a"}}]}', "'reply' must be a text, or a message object with 'content'"),
        ('{"rules": [{"reply": "a", "tokens_per_s": 0}]}', "'tokens_per_s' must be a number above 0, got 0"),
        ('{"rules": [{"reply": "a", "first_token_s": true}]}', "'first_token_s' must be a number of seconds"),
        ('{"rules": [{"reply": "a", "first_token_s": -1}]}', "'first_token_s' must be a number of seconds"),
        ('{"rules": [{"reply": "a", "times": 0}]}', "'times' must be a whole number of at least 1, got 0"),
        ('{"rules": [{"reply": "a", "times": 1.5}]}', "'times' must be a whole number of at least 1, got 1.5"),
        ('{"rules": [{"reply": "a", "usage": {"tokens": 1}}]}', "'usage' must be an object with"),
        ('{"rules": [{"reply": "a", "usage": {"prompt_tokens": -1}}]}', "'usage' must be an object with"),
        ('{"rules": [{"logprobs": {"A": 0.5}}]}', "'logprobs' must be an object of labels"),
        ('{"rules": [{"logprobs": {}}]}', "'logprobs' must be an object of labels"),
        ('{"rules": [{"error": {"status": 99}}]}', "'error' must be an object with 'status'"),
        ('{"rules": [{"error": {"statuscode": 500}}]}', "'error' must be an object with 'status'"),
        ('{"rules": [{"error": "boom"}]}', "'error' must be an object with 'status'"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "rules.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        ScriptedChat(file)
    assert str(caught.value).startswith(f"scripted:{file}: ")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: .*No such file"):
        ScriptedChat(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        ScriptedChat("a\0b")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        ScriptedChat(tmp_path / "binary")
    with pytest.raises(ConfigError, match="not plain JSON values"):
        ScriptedChat({"rules": [object()]})


def test_the_examples_in_the_documentation_are_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text("utf-8")
    chat, nli = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    assert complete(ScriptedChat(chat | {"defaults": {}}), request(stage="generate")) == [
        Completion(text="Rome has 5 hills.")
    ]
    scored = asyncio.run(ScriptedEntailer(nli).entail([Pair(premise="x", hypothesis="Rome has 5 hills.")]))
    assert scored == [Entailment(entailment=0.01, neutral=0.01, contradiction=0.98)]


# The documentation


def test_every_stage_that_a_request_names_is_documented() -> None:
    source = Path(__file__).parents[2] / "src" / "corrigenda"
    text = "\n".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    used = set(re.findall(r'\bstage="(\w+)"', text)) | set(re.findall(r'\b_request\("(\w+)"', text))
    page = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text("utf-8")
    table = page[page.index("| stage | asked by |") :].split("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == used

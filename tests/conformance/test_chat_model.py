"""What every chat model must do, whatever it runs on. A new backend is added to `BACKENDS` and to `chat`."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from tests.fake_openai import FakeOpenAI, Reply, chunk, events, json_reply

from corrigenda import models
from corrigenda.backends.adaptive import adaptive
from corrigenda.backends.cached import recall_once
from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.backends.chat_scripted import ScriptedChat, pieces
from corrigenda.errors import ModelError
from corrigenda.ports import ChatModel, LabelScorer
from corrigenda.types import ChatRequest, Completion, Delta, Message

BACKENDS = [
    "scripted",
    "scripted, recalled once",
    "scripted, adaptive",
    "openai",
    "openai with usage",
    "openai, adaptive, recalled once",
    pytest.param("local", marks=pytest.mark.embedded),
]
WRAPPED: Mapping[str, Callable[[ChatModel], ChatModel]] = {
    "": lambda model: model,
    "recalled once": recall_once,
    "adaptive": lambda model: adaptive(model, start=2),
}
REPLY = "Rome has seven hills: è così. 🧭"
LABELS = ("A", "B", "no such token")
SCHEMA = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}, "maxItems": 2}},
    "required": ["claims"],
    "additionalProperties": False,
}

T = TypeVar("T")


@dataclass
class Backend:
    model: Any
    """A ChatModel and LabelScorer."""
    name: str
    reports_usage: bool
    shared: bool = False
    """Whether it is used by several tests, because it is slow to make."""


def replies(body: Any) -> Reply:
    """Reply as a server that streams word by word would."""
    usage = {"prompt_tokens": 12, "completion_tokens": 9} if body["model"] == "with-usage" else None
    if body.get("logprobs"):
        first = {"token": "A", "logprob": -0.25, "top_logprobs": [{"token": "B", "logprob": -2.0}]}
        return json_reply({"choices": [{"message": {"content": "A"}, "logprobs": {"content": [first]}}]})
    if body.get("stream"):
        last = [] if usage is None else [{"choices": [], "usage": usage}]
        return events(*[chunk(p) for p in pieces(REPLY)], chunk(finish_reason="stop"), *last)
    message = {"role": "assistant", "content": REPLY}
    value: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return json_reply(value if usage is None else value | {"usage": usage})


@pytest.fixture(scope="module")
def local_model() -> Iterator[Any]:
    """Load the embedded chat model, where its file is in the user's cache; it is never downloaded here."""
    try:
        path = models.path(models.DEFAULT)
    except ModelError as exc:
        pytest.skip(f"the embedded model is not in the cache: {exc}")
    local = pytest.importorskip("corrigenda.backends.chat_local", reason="the extra `embedded` is not installed")
    model = local.LocalChat(path, name=f"local:{models.DEFAULT}", n_ctx=1024)
    yield model
    asyncio.run(model.aclose())


@pytest.fixture(params=BACKENDS)
def chat(request: pytest.FixtureRequest) -> Backend:
    if request.param.startswith("scripted"):
        rule = {"reply": REPLY, "logprobs": {"A": -0.25, "B": -2.0}}
        scripted = WRAPPED[request.param.partition(", ")[2]](ScriptedChat({"rules": [rule]}))
        return Backend(model=scripted, name="scripted", reports_usage=False)
    if request.param == "local":
        model = request.getfixturevalue("local_model")
        return Backend(model=model, name=f"local:{models.DEFAULT}", reports_usage=True, shared=True)
    server: FakeOpenAI = request.getfixturevalue("server")
    server.default = replies
    name = "with-usage" if request.param == "openai with usage" else "m"
    model = OpenAIChat(name, base_url=server.base_url, max_retries=0)
    if request.param.endswith("once"):
        return Backend(model=recall_once(adaptive(model, start=2)), name="openai:m", reports_usage=False)
    return Backend(model=model, name=f"openai:{name}", reports_usage=name == "with-usage")


def run(chat: Backend, work: Callable[[Any], Awaitable[T]]) -> T:
    """Run `work` with the model, in an event loop of its own."""

    async def main() -> T:
        try:
            return await asyncio.wait_for(work(chat.model), 120)
        finally:
            if not chat.shared:
                await chat.model.aclose()

    return asyncio.run(main())


def asked(text: str = "How many hills has Rome? Answer in one short sentence.", **settings: Any) -> ChatRequest:
    settings = {"temperature": 0.0, "max_tokens": 16} | settings
    return ChatRequest(stage="generate", messages=(Message(role="user", content=text),), **settings)


async def collected(deltas: AsyncIterator[Delta]) -> list[Delta]:
    return [delta async for delta in deltas]


def check_completion(chat: Backend, completion: Completion | None) -> None:
    assert isinstance(completion, Completion)
    assert isinstance(completion.text, str)
    assert completion.finish_reason in ("stop", "length")
    counts = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
    if chat.reports_usage:
        assert all(isinstance(count, int) and count > 0 for count in counts)
    else:
        assert counts == (None, None)


def test_it_has_the_ports_methods_and_its_name(chat: Backend) -> None:
    assert isinstance(chat.model, ChatModel)
    assert isinstance(chat.model, LabelScorer)
    assert chat.model.name == chat.name


def test_a_whole_reply(chat: Backend) -> None:
    completion = run(chat, lambda model: model.complete(asked()))
    check_completion(chat, completion)
    assert completion.text.strip()


def test_a_stream_adds_up_and_ends_with_its_only_completion(chat: Backend) -> None:
    deltas = run(chat, lambda model: collected(model.stream(asked())))
    assert [d.completion is not None for d in deltas] == [False] * (len(deltas) - 1) + [True]
    assert len(deltas) > 2, "it comes in pieces"
    check_completion(chat, deltas[-1].completion)
    assert deltas[-1].completion is not None
    assert "".join(d.text for d in deltas) == deltas[-1].completion.text


def test_streamed_and_whole_replies_are_equal(chat: Backend) -> None:
    async def work(model: ChatModel) -> tuple[str, str]:
        whole = await model.complete(asked(seed=1))
        return whole.text, "".join([d.text for d in await collected(model.stream(asked(seed=1)))])

    whole, streamed = run(chat, work)
    assert whole == streamed


def test_the_request_is_not_changed(chat: Backend) -> None:
    """The schema cannot be changed at all here, and the records are frozen."""
    schema = MappingProxyType({k: MappingProxyType(v) if isinstance(v, dict) else v for k, v in SCHEMA.items()})
    request = asked(json_schema=schema, max_tokens=40)
    before = repr(request)

    async def work(model: ChatModel) -> None:
        await model.complete(request)
        await collected(model.stream(request))

    run(chat, work)
    assert repr(request) == before


def test_concurrent_calls(chat: Backend) -> None:
    async def work(model: Any) -> list[Any]:
        calls = [model.complete(asked()) for _ in range(3)]
        streams = [collected(model.stream(asked())) for _ in range(2)]
        return list(await asyncio.gather(*calls, *streams, model.label_logprobs(asked(), LABELS)))

    *replies, logprobs = run(chat, work)
    texts = [r.text if isinstance(r, Completion) else "".join(d.text for d in r) for r in replies]
    assert all(text.strip() for text in texts)
    assert len(logprobs) == len(LABELS)


def test_closing_a_stream_early_leaves_the_model_usable(chat: Backend) -> None:
    async def work(model: Any) -> tuple[Delta, Completion]:
        deltas = model.stream(asked(max_tokens=64))
        first = await anext(deltas)
        await deltas.aclose()
        return first, await model.complete(asked())

    first, completion = run(chat, work)
    assert first.completion is None
    check_completion(chat, completion)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_cancelled_call_ends_and_leaves_the_model_usable(chat: Backend, streamed: bool) -> None:
    async def work(model: Any) -> tuple[bool, Completion]:
        call = collected(model.stream(asked())) if streamed else model.complete(asked())
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        return task.cancelled(), await model.complete(asked())

    cancelled, completion = run(chat, work)
    assert cancelled
    check_completion(chat, completion)


def test_label_logprobs(chat: Backend) -> None:
    question = asked("Which is the first letter of the alphabet, A or B? Answer with the letter alone.")

    async def work(model: LabelScorer) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return await model.label_logprobs(question, LABELS), await model.label_logprobs(question, LABELS[::-1])

    forward, backward = run(chat, work)
    a, b, none = forward
    assert 0 >= a > b > -math.inf
    assert none == -math.inf
    # As probabilities: what a prefix cache changes in the last digits is much larger in a small one's logarithm.
    assert [math.exp(p) for p in backward[::-1]] == pytest.approx([math.exp(p) for p in forward], abs=1e-3)


def test_token_counts(chat: Backend) -> None:
    counts = [chat.model.count_tokens(text) for text in ("", "Rome", "Rome has seven hills, they say.")]
    assert counts[0] == 0
    assert 0 < counts[1] < counts[2]


def test_it_may_be_closed_twice(chat: Backend) -> None:
    """This test comes last, since it closes a model that others share."""

    async def work(model: ChatModel) -> None:
        await model.complete(asked())
        await model.aclose()
        await model.aclose()

    run(chat, work)

"""What every verifier must do, whatever it runs on. A new backend is added to `BACKENDS`."""

import asyncio
import math
import re
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from tests import tiny_nli

from corrigenda.backends.batching import BatchingEntailer
from corrigenda.backends.cached import CachingEntailer
from corrigenda.backends.nli_chat import ChatEntailer
from corrigenda.backends.nli_chat_scheme import UNFITTED, Calibration, Constants, Look, Scheme, SecondLook
from corrigenda.backends.nli_numbers import NumberChecked
from corrigenda.backends.nli_onnx import OnnxEntailer
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.backends.nli_transformers import TransformersEntailer
from corrigenda.ports import Entailer
from corrigenda.types import ChatRequest, Entailment, Pair, PairFailure

T = TypeVar("T")


class WordReader:
    """A chat model whose log-probabilities depend on every letter of the last turn; words are its tokens."""

    name = "local:word-reader"

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        await asyncio.sleep(0)
        last = request.messages[-1].content
        weights = [1 + zlib.crc32(f"{label}|{last}".encode()) % 97 for label in labels]
        return tuple(math.log(weight / sum(weights)) for weight in weights)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def scripted() -> Entailer:
    return ScriptedEntailer(
        {
            "max_tokens": tiny_nli.MAX_TOKENS,
            "rules": [
                {"hypothesis_contains": "MW", "scores": [0.01, 0.04, 0.95]},
                {"hypothesis_contains": "mW", "scores": [0.9, 0.05, 0.05]},
                {"premise_contains": "Cork", "scores": [0.2, 0.5, 0.3]},
                {"scores": [0.3, 0.4, 0.3]},
            ],
        }
    )


def chat(concurrency: int, *, twice: bool = False) -> Entailer:
    wording = Scheme(
        name="plain",
        system="Answer with one word.",
        turn="Premise: {premise}\nHypothesis: {hypothesis}",
        answers=(("yes",), ("maybe",), ("no",)),
        examples=(),
    )
    other = replace(wording, name="other", system="Look again.", answers=(("true",), ("open",), ("false",)))
    both = Constants(bias=0.0, agree=1.0, differ=2.0, looks=(Look(direction=1.0, known=1.0, strength=0.5),) * 2)
    plain = Calibration(
        model="*",
        sha256=None,
        scheme=wording,
        constants=UNFITTED,
        fitted_on=None,
        second=SecondLook(scheme=other, constants=both, below=0.6) if twice else None,
    )
    return ChatEntailer(WordReader(), calibration=plain, max_tokens=tiny_nli.MAX_TOKENS, concurrency=concurrency)


BACKENDS: dict[str, Callable[[], Entailer]] = {
    "scripted": scripted,
    "numbers": lambda: NumberChecked(scripted()),
    "batching": lambda: BatchingEntailer(scripted(), max_pairs=2),
    "cached": lambda: CachingEntailer(scripted()),
    "cached, batching": lambda: CachingEntailer(BatchingEntailer(scripted(), max_pairs=2)),
    "chat": lambda: chat(concurrency=1),
    "chat, concurrent": lambda: chat(concurrency=4),
    "chat, two looks": lambda: chat(concurrency=1, twice=True),
    "chat, two looks, concurrent": lambda: chat(concurrency=4, twice=True),
    "onnx": lambda: OnnxEntailer(tiny_nli.shared(), batch_size=4),
    "transformers": lambda: TransformersEntailer(tiny_nli.shared(), batch_size=4),
}

PAIRS = [
    Pair(premise="The lamp draws 5 mW.", hypothesis="The lamp draws 5 MW."),
    Pair(premise="The lamp draws 5 mW.", hypothesis="The lamp draws 5 mW."),
    Pair(premise="Cork floats. Lead sinks. Salt dissolves in water, and the town has a river.", hypothesis="Cork"),
    Pair(premise="Ada", hypothesis="The bridge was built by a man from the town."),
    Pair(premise="雪国 🧭", hypothesis="L'attico è vuoto."),
    Pair(premise="Cork floats.", hypothesis="Cork floats."),
    Pair(premise="The town stands on a river.", hypothesis="Cork floats."),
]


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def make(request: pytest.FixtureRequest) -> Callable[[], Entailer]:
    factory: Callable[[], Entailer] = request.param
    return factory


def using(entailer: Entailer, work: Callable[[Entailer], Awaitable[T]]) -> T:
    async def main() -> T:
        try:
            return await work(entailer)
        finally:
            await entailer.aclose()

    return asyncio.run(main())


def score(entailer: Entailer, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
    return using(entailer, lambda it: it.entail(pairs))


def numbers(result: Entailment | PairFailure) -> tuple[float, float, float]:
    assert isinstance(result, Entailment), result
    return result.entailment, result.neutral, result.contradiction


def close(one: Entailment | PairFailure, two: Entailment | PairFailure) -> bool:
    return numbers(one) == pytest.approx(numbers(two), abs=1e-5)


def test_it_is_an_entailer_with_a_name_and_a_limit(make: Callable[[], Entailer]) -> None:
    entailer = make()
    assert isinstance(entailer, Entailer)
    assert isinstance(entailer.name, str)
    assert entailer.name.strip() == entailer.name != ""
    assert entailer.max_tokens == tiny_nli.MAX_TOKENS
    assert entailer.count_tokens("") == 0
    assert entailer.count_tokens("lamp") >= 1
    using(entailer, lambda it: it.entail([]))


def test_no_pairs_give_no_results(make: Callable[[], Entailer]) -> None:
    assert score(make(), []) == []


def test_every_pair_has_its_result_in_its_place(make: Callable[[], Entailer]) -> None:
    forward = score(make(), PAIRS)
    backward = score(make(), PAIRS[::-1])
    assert len(forward) == len(PAIRS)
    assert all(close(one, two) for one, two in zip(forward, backward[::-1], strict=True))


def test_a_result_does_not_depend_on_the_company(make: Callable[[], Entailer]) -> None:
    together = score(make(), PAIRS)
    alone = [score(make(), [pair])[0] for pair in PAIRS]
    assert all(close(one, two) for one, two in zip(together, alone, strict=True))


def test_equal_pairs_have_equal_results(make: Callable[[], Entailer]) -> None:
    found = score(make(), [PAIRS[0], PAIRS[2], PAIRS[0], PAIRS[0]])
    assert len(found) == 4
    assert close(found[0], found[2])
    assert close(found[0], found[3])
    assert not close(found[0], found[1])


def test_letter_case_reaches_the_model(make: Callable[[], Entailer]) -> None:
    upper, lower = score(make(), PAIRS[:2])
    assert not close(upper, lower)


def test_the_premise_reaches_the_model(make: Callable[[], Entailer]) -> None:
    one, two = score(make(), PAIRS[-2:])
    assert not close(one, two)


def test_a_pair_that_is_too_long_fails_alone_and_is_not_cut(make: Callable[[], Entailer]) -> None:
    entailer = make()
    for long in (
        Pair(premise="lamp " * 200, hypothesis="A lamp."),
        Pair(premise="A lamp.", hypothesis="lamp " * 200),
    ):
        first, failed, last = score(make(), [PAIRS[0], long, PAIRS[1]])
        assert isinstance(failed, PairFailure)
        assert str(entailer.max_tokens) in failed.reason
        assert max(map(int, re.findall(r"\d+", failed.reason))) >= 200
        assert (type(first), type(last)) == (Entailment, Entailment)


def test_a_pair_that_just_fits_is_scored(make: Callable[[], Entailer]) -> None:
    entailer = make()
    hypothesis = "Cork floats."
    room = entailer.max_tokens - entailer.count_tokens(hypothesis)
    premise = "Cork"
    while entailer.count_tokens(f"{premise} lamp") <= room:
        premise += " lamp"
    assert entailer.count_tokens(premise) >= room - 4
    (found,) = score(entailer, [Pair(premise=premise, hypothesis=hypothesis)])
    assert isinstance(found, Entailment)


def test_concurrent_calls_keep_apart(make: Callable[[], Entailer]) -> None:
    async def work(entailer: Entailer) -> list[list[Entailment | PairFailure]]:
        return list(await asyncio.gather(*(entailer.entail([pair, PAIRS[0]]) for pair in PAIRS)))

    expected = score(make(), PAIRS)
    for place, (first, second) in enumerate(using(make(), work)):
        assert close(first, expected[place])
        assert close(second, expected[0])


def test_it_can_be_used_from_one_event_loop_after_another(make: Callable[[], Entailer]) -> None:
    entailer = make()
    first = asyncio.run(entailer.entail(PAIRS[:2]))
    second = score(entailer, PAIRS[:2])
    assert all(close(one, two) for one, two in zip(first, second, strict=True))


def test_the_inputs_are_left_as_they_are(make: Callable[[], Entailer]) -> None:
    given = list(PAIRS)
    from_list = score(make(), given)
    assert given == PAIRS
    from_tuple = score(make(), tuple(given))
    assert all(close(one, two) for one, two in zip(from_list, from_tuple, strict=True))


def test_it_can_be_closed_twice(make: Callable[[], Entailer]) -> None:
    async def twice(entailer: Entailer) -> None:
        await entailer.aclose()
        await entailer.aclose()

    using(make(), twice)

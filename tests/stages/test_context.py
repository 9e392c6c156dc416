"""Stage 2: what a sentence's claims take from those before it, the same while an answer streams and afterwards."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrigenda.prompts import load
from corrigenda.sentences import SentenceStream, split_sentences
from corrigenda.stages.context import Context, Contexts
from corrigenda.stages.decompose import DeterministicDecomposer
from corrigenda.types import AtomicClaim

TABLE = "| City | Pop |\n|-|-|\n" + "".join(f"| Town {i} | {i} |\n" for i in range(300))
LIST = "# Towns of Norway\n\n" + "".join(f"- Town {i}\n" for i in range(300))


async def streamed(answer: str, size: int) -> list[AtomicClaim]:
    """Return the claims as `ask` gets them: sentence by sentence, with the answer as far as it has come."""
    decomposer = DeterministicDecomposer(load("en"))
    stream, context = SentenceStream("en"), ""
    claims: list[AtomicClaim] = []
    for start in range(0, len(answer), size):
        context += answer[start : start + size]
        for sentence in stream.feed(answer[start : start + size]):
            claims += await decomposer.decompose_sentence(sentence, context)
    for sentence in stream.finish():
        claims += await decomposer.decompose_sentence(sentence, context)
    return claims


def whole(answer: str) -> list[AtomicClaim]:
    return list(asyncio.run(DeterministicDecomposer(load("en")).decompose(answer)).claims)


@pytest.mark.parametrize(
    ("answer", "last"),
    [(TABLE, "Town 299: Pop 299"), (LIST, "Towns of Norway: Town 299"), (LIST + "\n" + TABLE, "Town 299: Pop 299")],
)
def test_heads_and_topics_hold_at_any_length(answer: str, last: str) -> None:
    claims = whole(answer)
    assert claims[-1].text == last
    assert asyncio.run(streamed(answer, 50)) == claims


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Ada Byron was old. ", "She won. ", "- x\n", "# T\n", "\n", "| a | b |\n", "|-|-|\n", "y:\n"]),
        max_size=30,
    ).map("".join),
    st.integers(1, 40),
)
def test_streaming_gives_the_claims_of_the_whole(answer: str, size: int) -> None:
    assert asyncio.run(streamed(answer, size)) == whole(answer)


def test_contexts_need_no_order_and_serve_several_answers() -> None:
    one, two = "# A\n\n- x\n- y\n", "# B\n\n- x\n- y\n"
    contexts = Contexts("en")
    for answer in (one, two, one):
        title, x, y = split_sentences(answer)
        assert contexts.before(y, answer) == Context(above=x, topic=title, recent=(title, x))
        assert contexts.before(title, answer) == Context()
        assert contexts.before(x, answer[: x.span.start]) == Context(above=title, topic=title, recent=(title,))


def test_many_answers_at_once_are_each_known() -> None:
    contexts = Contexts("en")
    answers = [f"# Title {i}\n\n- x" for i in range(20)]
    for answer in (*answers, *answers):
        title, item = split_sentences(answer)
        assert contexts.before(item, answer).topic == title


def test_a_long_table_takes_linear_time() -> None:
    answer = TABLE + "".join(f"| Town {i} | {i} |\n" for i in range(5000))
    begun = time.process_time()
    assert len(asyncio.run(streamed(answer, 40))) == 5301
    assert time.process_time() - begun < 10

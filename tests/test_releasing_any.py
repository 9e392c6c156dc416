"""What holds for every answer, however it arrives: nothing is lost, nothing is changed but by an edit."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corrigenda import Report
from corrigenda.policies import Bounded, Paper, Policy
from corrigenda.sentences import SentenceStream
from corrigenda.stages.reassemble import reassemble
from corrigenda.types import Pair, Passage
from tests.test_sentences_stream import ANSWERS
from tests.upstream import Upstream, Verifier, released, report_of, tools

# fmt: off
SENTENCES = st.sampled_from([
    "Rome has 5 hills. ", "Rome has bad hills. ", "It is bad", "It is bad, and it is old. ", "It is old. ", "È bella. ",
    "Is it? ", "I think so. ", "- It is bad\n", "- It is old\n", "1. It is bad.\n", "# Bad\n", "**It is bad.** ",
    "| a | bad |\n", "|--|--|\n", "```\ncode is bad.\n```\n", "    x = bad()\n", "\n", "\r\n", "\r\n\r\n", "\n\n", "  ",
    "👩🏽‍🚀 ", "🇮🇹 It is bad! ", "東京は bad です。", "e\u0301 is bad. ", "> It is bad.\n", "It is bad [3]. ",
    "<b>bad</b> ", "---\n",
    "The tower, which is bad, is 324 m high. ", "\u200b", "So ", "bad", ".", " ",
])
# fmt: on
TEXTS = st.lists(SENTENCES, max_size=12).map("".join) | ANSWERS
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def cut(text: str, sizes: Sequence[int]) -> list[str]:
    pieces, start, turn = [], 0, 0
    while start < len(text):
        size = sizes[turn % len(sizes)]
        pieces.append(text[start : start + size])
        start, turn = start + size, turn + 1
    return pieces


def score(pair: Pair) -> Sequence[float]:
    """Return scores that depend on the text alone: what is bad is contradicted, the rest is mostly entailed."""
    chance = zlib.crc32(pair.hypothesis.encode()) % 1000 / 1000
    best = 0.5 + chance / 2
    rest = (1 - best) / 2
    if "bad" in pair.hypothesis.lower():
        return rest, rest, best
    return (best, rest, rest) if chance > 0.1 else (rest, best, rest)


def mend(sentence: str) -> str:
    """Return a rewrite of every other sentence, and the sentence itself for the others."""
    return sentence.replace("bad", "good") if zlib.crc32(sentence.encode()) % 2 else sentence


class Shelf:
    """A retriever that finds one of three passages for a query."""

    name = "shelf"

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        await asyncio.sleep(0)
        numbers = [zlib.crc32(query.encode()) % 4 for query in queries]
        return [[Passage(id=f"p{n}", text=f"Passage {n}.")] if n else [] for n in numbers]

    async def aclose(self) -> None:
        return None


def untimed(report: Report) -> Report:
    """Return a report without its times, and without the number of calls, which depends on what came together."""
    claims = tuple(
        replace(c, released=None if c.released is None else replace(c.released, at_s=0.0)) for c in report.claims
    )
    return replace(report, claims=claims, timings=(), usage={})


@settings(max_examples=120, deadline=None)
@given(
    TEXTS,
    SIZES,
    st.sampled_from(["keep", "hedge", "remove"]),
    st.sampled_from([Bounded(), Paper(k=0.0)]),
    st.booleans(),
    st.sampled_from(["auto", "en", "it"]),
)
@example("It is bad. It is old.\r\n\r\n```\r\nx\r\n```\r\n- It is bad\r\n", [1], "remove", Bounded(), False, "en")
@example("```\nx\n```\n\nIt is bad.", [3], "remove", Bounded(), False, "en")
def test_every_chunking_gives_the_same_answer_and_the_same_report(
    answer: str, sizes: list[int], unrepaired: Any, policy: Policy, retrieve: bool, language: str
) -> None:
    def run(pieces: Sequence[str]) -> Report:
        more: dict[str, Any] = {"retriever": Shelf()} if retrieve else {}
        made = tools(Upstream(*pieces, rewrite=mend), Verifier(score), policy, **more)
        return report_of(released(made, unrepaired=unrepaired, language=language))

    one, other = run([answer]), run(cut(answer, sizes))
    assert one.answer == other.answer == answer
    assert one.final_answer == reassemble(answer, one.edits)
    assert untimed(one) == untimed(other)
    assert one.final_answer == answer or any(edit.accepted for edit in one.edits)


@settings(max_examples=60, deadline=None)
@given(TEXTS, SIZES)
@example("\u200b\n\u200b\n", [1])
def test_checking_alone_gives_every_answer_back(answer: str, sizes: list[int]) -> None:
    made = tools(Upstream(*cut(answer, sizes)), Verifier(score))
    assert report_of(released(made, correct=False)).final_answer == answer


@settings(max_examples=60, deadline=None)
@given(TEXTS, SIZES, st.sampled_from(["keep", "hedge", "remove"]))
def test_under_a_fixed_threshold_both_decisions_give_the_same_answer(
    answer: str, sizes: list[int], unrepaired: Any
) -> None:
    policy = Bounded(floor=0.6, ceiling=0.6)
    finals = set()
    for decision in ("incremental", "whole"):
        made = tools(Upstream(*cut(answer, sizes), rewrite=mend), Verifier(score), policy)
        pieces = released(made, unrepaired=unrepaired, decision=decision)
        finals.add(report_of(pieces).final_answer)
    assert len(finals) == 1


@settings(max_examples=150, deadline=None)
@given(TEXTS, SIZES)
def test_no_sentence_begins_in_what_is_settled(answer: str, sizes: list[int]) -> None:
    stream, settled = SentenceStream("en"), 0
    for piece in cut(answer, sizes):
        found = stream.feed(piece)
        assert all(sentence.span.start >= settled for sentence in found)
        settled = max(settled, stream.settled)
    assert all(sentence.span.start >= settled for sentence in stream.finish())


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_long_answer_leaves_sentence_by_sentence(size: int) -> None:
    answer = "".join(f"Street {n} is {'bad' if n % 7 == 0 else 'long'}. " for n in range(300))
    pieces = released(tools(Upstream(*cut(answer, [size]), rewrite=mend), Verifier(score)))
    assert len(pieces) == 301
    assert report_of(pieces).answer == answer

"""What every retriever must do, whatever it runs on. A new backend is added to `BACKENDS`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from tests import passages as collection
from tests.passages import PASSAGES

from corrigenda.errors import BackendError, InputError
from corrigenda.ports import Retriever
from corrigenda.types import Passage

T = TypeVar("T")

Make = Callable[..., Retriever]
BACKENDS: dict[str, Callable[..., Retriever]] = {"memory": collection.memory, "bm25": collection.bm25}


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda *passages: request.param(tmp_path, *passages)


def using(retriever: Retriever, work: Callable[[Retriever], Awaitable[T]]) -> T:
    async def main() -> T:
        try:
            return await work(retriever)
        finally:
            await retriever.aclose()

    return asyncio.run(main())


def search(retriever: Retriever, queries: Sequence[str], k: int = 3) -> list[list[Passage]]:
    return using(retriever, lambda it: it.search(queries, k))


def ids(found: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in found]


def test_it_is_a_retriever_with_a_name(make: Make) -> None:
    retriever = make()
    assert isinstance(retriever, Retriever)
    assert retriever.name.strip() == retriever.name != ""
    search(retriever, [])


def test_no_queries_give_no_lists(make: Make) -> None:
    assert search(make(), []) == []


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("Rome has 5 hills.", "rome"),
        ("ROME", "rome"),
        ("Which river is a hill beside?", "rome"),
        ("rhone saone", "lyon"),
        ("Zoe Bar was born in 1901.", "zoe"),
        ("川端康成は誰ですか", "snow"),
        ("雪国", "snow"),
        ("भाषा", "hindi"),
        ("ＬＹＯＮ", "lyon"),
    ],
)
def test_the_best_passage_comes_first_whatever_the_script(make: Make, query: str, best: str) -> None:
    assert ids(search(make(), [query])[0])[:1] == [best]


def test_passages_come_back_whole_with_falling_scores(make: Make) -> None:
    (found,) = search(make(), ["rivers of Lyon, water and hills"], k=20)
    by_id = {passage.id: passage for passage in PASSAGES}
    assert [(p.text, p.title) for p in found] == [(by_id[p.id].text, by_id[p.id].title) for p in found]
    assert len(set(ids(found))) == len(found) >= 5
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


@pytest.mark.parametrize(
    "query",
    ["", "  \n\t", "?!…", "unheardof", "\x00", "\x00\x1b[2J\u202e", "\ud800", "_", '"', "*:*", "+", "NOT", "(", "😀"],
)
def test_a_query_that_fits_nothing_gives_an_empty_list(make: Make, query: str) -> None:
    assert search(make(), [query, "Rome"]) == [[], search(make(), ["Rome"])[0]]


@pytest.mark.parametrize(
    "query",
    ['Rome AND NOT "Rome"', "title:Rome^9", "Rome~2", "Rome\x00Rome", "(Rome OR", "Rome*", "-Rome", "Rome\u200b"],
)
def test_no_character_of_a_query_has_a_meaning_of_its_own(make: Make, query: str) -> None:
    assert ids(search(make(), [query])[0])[:1] == ["rome"]


def test_a_query_may_be_long(make: Make) -> None:
    (found,) = search(make(), ["Rome hills " + " ".join(f"word{i}" for i in range(20_000))])
    assert ids(found) == ["rome"]


def test_at_most_k_and_fewer_where_there_are_no_more(make: Make) -> None:
    one, many = search(make(), ["water"], k=1), search(make(), ["water"], k=1_000_000)
    assert len(one[0]) == 1
    assert sorted(ids(many[0])) == ["long", "twin-1", "twin-2"]


@pytest.mark.parametrize("k", [0, -1, True, 2.0])
def test_k_out_of_range_is_refused(make: Make, k: int) -> None:
    with pytest.raises(InputError, match=f"at least 1, got {k!r}"):
        search(make(), ["Rome"], k=k)


def test_equal_scores_are_in_the_order_of_the_collection(make: Make) -> None:
    twins = [Passage(id=f"p{i}", text=f"Cork floats {i}." if i % 3 else f"Lead sinks {i}.") for i in range(60)]
    (found,) = search(make(twins), ["cork"], k=7)
    assert ids(found) == ["p1", "p2", "p4", "p5", "p7", "p8", "p10"]
    assert len({passage.score for passage in found}) == 1


def test_every_query_has_its_list_in_its_place(make: Make) -> None:
    queries = ["Rome", "nothing", "water", "Rome", "雪国"]
    together = search(make(), queries)
    assert together == [search(make(), [query])[0] for query in queries]


def test_concurrent_searches_keep_apart(make: Make) -> None:
    async def work(retriever: Retriever) -> list[list[list[Passage]]]:
        return list(await asyncio.gather(*(retriever.search([word], 3) for word in ("Rome", "Lyon", "water") * 5)))

    assert using(make(), work) == [search(make(), [word]) for word in ("Rome", "Lyon", "water")] * 5


def test_searching_leaves_the_event_loop_free(make: Make) -> None:
    async def work(retriever: Retriever) -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await retriever.search(["water"] * 200, 3)
        counting.cancel()
        return turns

    assert using(make(), work) > 1


def test_it_can_be_used_from_one_event_loop_after_another(make: Make) -> None:
    retriever = make()
    first = asyncio.run(retriever.search(["Rome"], 3))
    assert search(retriever, ["Rome"], 3) == first


def test_it_can_be_closed_twice_and_says_that_it_is_closed(make: Make) -> None:
    retriever = make()

    async def work() -> None:
        await retriever.aclose()
        await retriever.aclose()
        await retriever.search(["Rome"], 1)

    with pytest.raises(BackendError, match="was closed"):
        asyncio.run(work())


def test_the_backends_rank_alike(tmp_path: Path) -> None:
    queries = ["rivers of Lyon, water and hills", "Zoë lived where rivers meet", "water", "the old town", "雪 小説"]
    one, two = (search(BACKENDS[name](tmp_path), queries, k=20) for name in ("memory", "bm25"))
    assert [ids(found) for found in one] == [ids(found) for found in two]
    for left, right in zip(one, two, strict=True):
        assert [p.score for p in left] == pytest.approx([p.score for p in right], rel=1e-3)

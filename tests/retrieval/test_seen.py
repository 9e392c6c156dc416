"""The small set that tells duplicates."""

from __future__ import annotations

from corrigenda.retrieval.seen import Seen


def test_it_knows_what_came_before_however_much_that_is() -> None:
    seen = Seen()
    assert [seen.add(str(number)) for number in range(20_000)] == [True] * 20_000
    assert [seen.add(str(number)) for number in range(20_000)] == [False] * 20_000
    assert seen.add("20000")


def test_parts_are_kept_apart() -> None:
    seen = Seen()
    assert [seen.add("a", "b"), seen.add("ab", ""), seen.add("a", "b"), seen.add("\ud800")] == [True, True, False, True]

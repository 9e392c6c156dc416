"""The limit by itself: what it makes of calls that went well, and of those that did not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from corrigenda.backends.limit import Limit


def window(limit: Limit, latency: Callable[[int], float], *, stage: str = "recall", awaited: bool = True) -> int:
    """Let as many calls go well as a window has, and return the limit after it."""
    epoch, seconds = limit.epoch, latency(limit.now)
    for _ in range(max(8, 2 * limit.now)):
        limit.done(stage, seconds, epoch=epoch, awaited=awaited)
    return limit.now


def test_it_doubles_while_calls_wait_and_the_server_keeps_up() -> None:
    limit = Limit(most=50, start=4)
    assert [window(limit, lambda _: 1.0) for _ in range(6)] == [8, 16, 32, 50, 50, 50]


def test_it_stays_while_no_call_waits() -> None:
    limit = Limit(most=50, start=4)
    assert [window(limit, lambda _: 1.0, awaited=False) for _ in range(3)] == [4, 4, 4]


def test_a_server_that_has_too_many_lowers_it_once_for_all_calls_on_their_way() -> None:
    limit = Limit(most=64, start=20)
    epoch = limit.epoch
    assert [limit.overloaded(epoch=epoch) for _ in range(3)] == [True, False, False]
    assert limit.now == 14
    limit.overloaded(epoch=limit.epoch)
    assert limit.now == 9


def test_after_that_it_rests_and_goes_up_step_by_step() -> None:
    limit = Limit(most=64, start=20)
    limit.overloaded(epoch=limit.epoch)
    assert [window(limit, lambda _: 1.0) for _ in range(5)] == [14, 17, 21, 25, 29]


def test_it_never_falls_below_one() -> None:
    limit = Limit(most=4, start=1)
    assert limit.overloaded(epoch=limit.epoch)
    assert limit.now == 1
    assert window(limit, lambda _: 1.0) == 1
    assert window(limit, lambda _: 1.0) == 2


def test_a_step_that_brings_no_work_is_taken_back() -> None:
    """A server that does 10 calls at a time and lets the others wait."""
    limit = Limit(most=64, start=8)
    found = [window(limit, lambda n: max(1.0, n / 10)) for _ in range(12)]
    assert found[:2] == [16, 32]
    assert found[2] == 16
    assert max(found[2:]) <= 20


def test_slower_calls_that_bring_more_work_are_kept() -> None:
    """A server that batches: twice the calls are slower by half, so a third more is done."""
    limit = Limit(most=64, start=8)
    assert [window(limit, lambda n: (n / 8) ** 0.58) for _ in range(3)] == [16, 32, 64]


def test_a_call_that_began_under_another_limit_says_nothing() -> None:
    limit = Limit(most=64, start=4)
    before = limit.epoch
    window(limit, lambda _: 1.0)
    for _ in range(100):
        limit.done("recall", 99.0, epoch=before, awaited=True)
    assert limit.now == 8
    assert limit.overloaded(epoch=before) is False


def test_each_stage_has_a_latency_of_its_own() -> None:
    """Answers take ten times as long as references; a window of them alone is not taken for a slow server."""
    limit = Limit(most=64, start=8)
    assert window(limit, lambda _: 1.0, stage="recall") == 16
    assert window(limit, lambda _: 10.0, stage="generate") == 32
    assert window(limit, lambda _: 10.0, stage="generate") == 64


@pytest.mark.parametrize(("most", "start"), [(0, 1), (1, 0)])
def test_a_limit_below_one_is_refused(most: int, start: int) -> None:
    with pytest.raises(ValueError, match=f"the limit must be at least 1, got most={most}, start={start}"):
        Limit(most=most, start=start)

import asyncio
import math
from collections.abc import Sequence

import pytest

from corrigenda.bench import nli as bench
from corrigenda.bench.nli_model import Size
from corrigenda.errors import ModelError
from corrigenda.types import Entailment, Pair, PairFailure

YES = Entailment(entailment=0.75, neutral=0.125, contradiction=0.125)
NO = Entailment(entailment=0.25, neutral=0.125, contradiction=0.625)
BAD = PairFailure(reason="no")


def test_mixed_pairs_are_the_same_each_time_and_of_many_lengths() -> None:
    pairs = bench.mixed_pairs(40, 100)
    assert pairs == bench.mixed_pairs(40, 100)
    lengths = [len(pair.premise.split()) for pair in pairs]
    assert 8 <= min(lengths) < 20
    assert 60 < max(lengths) <= 100
    assert all(5 <= len(pair.hypothesis.split()) <= 14 for pair in pairs)


def test_compare_gives_the_ratio_of_the_two_ways_and_their_difference() -> None:
    async def slow(pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        await asyncio.sleep(0.08)
        return [YES] * len(pairs)

    async def fast(pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        await asyncio.sleep(0.02)
        return [YES, *[NO] * (len(pairs) - 1)]

    row = asyncio.run(bench.compare("two", bench.mixed_pairs(5, 20), ("slowly", slow), fast, rounds=3, note="[x]"))
    assert (row.name, row.pairs, row.slow, row.difference) == ("two", 5, "slowly", 0.5)
    assert row.slow_s >= 0.08
    assert row.fast_s >= 0.02
    assert 1 < row.ratio <= 4.1
    assert "slowly" in row.line
    assert row.line.endswith("largest difference 5.0e-01  [x]")


def test_a_failure_on_one_side_is_an_infinite_difference() -> None:
    assert bench._difference([YES, BAD], [YES, NO]) == math.inf
    assert bench._difference([BAD, NO], [BAD, NO]) == 0.0


def test_a_small_model_is_measured_with_equal_results() -> None:
    size = Size(hidden=16, layers=1, heads=2, positions=64)
    row = asyncio.run(bench.onnx_row("tiny", size, bench.mixed_pairs(6, 20), rounds=1))
    assert row.difference < 1e-5
    assert min(row.slow_s, row.fast_s, row.ratio) > 0
    assert row.note == "[1 layers of 16]"


def test_what_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def absent(pairs: Sequence[Pair], *, rounds: int) -> bench.Row:
        raise ModelError("the model 'x' is not here; run: corrigenda models pull x")

    monkeypatch.setattr(bench, "chat_row", absent)
    assert bench.main(["--profile", "chat", "--rounds", "1"]) == 0
    assert "chat: skipped, the model 'x' is not here; run: corrigenda models pull x" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--pairs", "1"], ["--profile", "other"]])
def test_wrong_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(arguments)
    assert "error: " in capsys.readouterr().err

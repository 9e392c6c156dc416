"""The pure parts of the benchmarks: spreads, ratios, tables, goals; and that scripted runs count what they should."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import batch, calls, measured, nli_peers, nli_worker, peer_models, start


def test_a_spread_is_the_median_with_the_least_and_the_largest() -> None:
    assert measured.spread([3.0, 1.0, 2.0]) == measured.Spread(median=2.0, low=1.0, high=3.0, n=3)
    assert measured.spread([3.0, 1.0, 2.0]).text(1) == "2.0 (1.0 to 3.0)"
    assert measured.spread([1234.5]).text(0, " s") == "1,234 s"


def test_ratios_are_taken_round_by_round() -> None:
    """A round that other work slowed down as a whole does not move them."""
    assert measured.ratios([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == measured.Spread(median=2.0, low=2.0, high=2.0, n=3)
    with pytest.raises(ValueError, match="shorter"):
        measured.ratios([1.0, 2.0], [1.0])


def test_a_table_is_aligned() -> None:
    assert measured.table(["what", "s"], [["a", "1.0"], ["longer", "10.25"]]).splitlines() == [
        "| what   |     s |",
        "| ------ | ----: |",
        "| a      |   1.0 |",
        "| longer | 10.25 |",
    ]


def test_a_goal_says_whether_it_was_reached() -> None:
    assert measured.goal(True, "twice as fast") == "Goal: twice as fast: reached."
    assert measured.goal(False, "twice as fast") == "Goal: twice as fast: **not reached**."


def test_flags_take_numbers_in_range() -> None:
    assert measured.numbers("1,20,300") == [1, 20, 300]
    with pytest.raises(argparse.ArgumentTypeError, match="0 is below 1"):
        measured.numbers("4,0")


def test_a_benchmark_prints_its_tables_and_keeps_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def flags(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--n", type=int, default=1)

    main = measured.command(
        "some",
        "About it.",
        flags,
        lambda arguments: {"n": arguments.n},
        lambda result: f"n is {result['n']}",
        packages=("pytest", "there is no such package"),
    )
    assert main(["--n", "3", "--json", str(tmp_path / "new" / "some.json")]) == 0
    assert capsys.readouterr().out == "n is 3\n"
    kept = json.loads((tmp_path / "new" / "some.json").read_text("utf-8"))
    assert kept["result"] == {"n": 3}
    assert kept["command"] == "python -m benchmarks.some --n 3"
    assert sorted(kept["versions"]) == ["corrigenda", "pytest"]
    assert sorted(kept["machine"]) == ["cores", "memory_gib", "processor", "python", "system"]


# Verifiers ----------------------------------------------------------------------------------------------------------


def test_a_difference_is_the_largest_of_any_probability() -> None:
    assert nli_peers.difference([[0.5, 0.25, 0.25]], [[0.5, 0.25, 0.25]]) == 0.0
    assert nli_peers.difference([[0.5, 0.25, 0.25], [1, 0, 0]], [[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]]) == 0.25


def test_a_way_that_gives_one_number_is_compared_by_that_output_alone() -> None:
    assert nli_peers.difference([[0.5, 0.25, 0.25]], [[0.375]]) == 0.125
    assert nli_peers.difference([[0.375]], [[0.5, 0.25, 0.25]]) == 0.125
    assert nli_peers.difference([[0.375]], [[0.5]]) == 0.125


def found_of(one: dict[str, Any]) -> dict[str, Any]:
    """Return a result in which one core was as fast as all of them."""
    seconds = {"weights": 0.5, "attention": 0.25, "else": 0.25}
    return {"shapes": {"xsmall": one}, "one_core": {"xsmall": one}, "operators": {"xsmall": seconds}}


def shape(onnx_s: float, apart: float = 2e-6) -> dict[str, Any]:
    seconds = {"selfcheckgpt": 8.0, "uqlm": 16.0, "uqlm-single": 6.0, "transformers": 4.0, "onnx-single": 4.0}
    wall = {way: [s, 2 * s] for way, s in (seconds | {"onnx": onnx_s, "onnx-int8": 1.0}).items()}
    apart_of = {way: dict.fromkeys(nli_peers.PEERS, apart) for way in nli_peers.FULL}
    return {
        "pairs": 16,
        "tokens": {"least": 20, "median": 50.5, "most": 300},
        "wall_s": wall,
        "cpu_s": wall,
        "differences": apart_of | {"onnx-int8": dict.fromkeys(nli_peers.PEERS, 0.02)},
        "scores": {"least": [0.0, 0.1, 0.2], "most": [0.5, 0.6, 0.7]},
        "versions": {},
    }


def test_the_table_of_verifiers_reads_as_this() -> None:
    lines = nli_peers.tables(found_of(shape(2.0))).splitlines()
    assert lines[0] == (
        "**The shape of DeBERTa-v3-xsmall** (12 layers of 384), 16 pairs of 20 to 300 tokens (median 50), 2 rounds. "
        "The model's weights are random; its probabilities go from 0.00 to 0.50, 0.10 to 0.60, 0.20 to 0.70."
    )
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert [line for line in lines if line.startswith("With")] == [
        "With the threads that each takes by itself:",
        "With one thread each:",
    ]
    assert cells[9:] == cells[:9]
    four, eight, three = "4.00 (4.00 to 4.00)", "8.00 (8.00 to 8.00)", "3.00 (3.00 to 3.00)"
    two, half = "2.00 (2.00 to 2.00)", "1.50 (1.50 to 1.50)"
    assert cells[:9] == [
        ["verifier", "pairs/s", *(f"× {peer}" for peer in ("selfcheckgpt", "uqlm", "uqlm, single")), *cells[0][5:]],
        ["-" * len(cells[1][0]), *("-" * (len(cell) - 1) + ":" for cell in cells[1][1:])],
        ["selfcheckgpt, `SelfCheckNLI.predict`", "1.5 (1.0 to 2.0)", "1", "–", "–", "750", "–"],
        ["uqlm, `NLI.predict_batch`", "0.8 (0.5 to 1.0)", "–", "1", "–", "1500", "–"],
        ["uqlm, `NLI.predict`, a pair at a time", "2.0 (1.3 to 2.7)", "–", "–", "1", "562", "–"],
        ["corrigenda, `transformers:`", "3.0 (2.0 to 4.0)", two, four, half, "375", "2.0e-06"],
        ["corrigenda, `onnx:`, a pair at a time", "3.0 (2.0 to 4.0)", two, four, half, "375", "2.0e-06"],
        ["corrigenda, `onnx:`", "6.0 (4.0 to 8.0)", four, eight, three, "188", "2.0e-06"],
        ["corrigenda, `onnx:` with int8 weights", "12.0 (8.0 to 16.0)", eight, *cells[8][3:5], "94", "2.0e-02"],
    ]
    assert cells[0][5:] == ["processor ms a pair", "largest difference"]
    assert cells[8][3:5] == ["16.00 (16.00 to 16.00)", "6.00 (6.00 to 6.00)"]


def test_the_operators_of_a_profile_are_told_apart() -> None:
    def event(name: str, operator: str, inputs: int, microseconds: int) -> dict[str, Any]:
        shapes = [{"float": [1, 4, 4]}] * inputs
        return {
            "cat": "Node",
            "name": name,
            "dur": microseconds,
            "args": {"op_name": operator, "input_type_shape": shapes},
        }

    events = [
        {"cat": "Session", "name": "model_run", "dur": 9_000_000},
        event("a_fence_before", "MatMul", 1, 8_000_000),
        event("a_kernel_time", "MatMul", 1, 1_000_000),
        event("b_kernel_time", "MatMul", 2, 500_000),
        event("c_kernel_time", "Softmax", 1, 250_000),
    ]
    assert peer_models.shares(events) == {"weights": 1.0, "attention": 0.5, "else": 0.25}


def test_what_bounds_the_verifier_is_said() -> None:
    lines = nli_peers.tables(found_of(shape(2.0))).splitlines()
    assert [line for line in lines if line.startswith("Where")] == [
        "Where the time of `onnx:` goes on one core (onnxruntime's profile, a pair at a time): 50% in matrix products "
        "with the model's weights, 25% in those of attention and of relative positions, 25% in all else. The first "
        "take 31 ms a pair, which batches do not save, and selfcheckgpt 750 ms in all: were everything else free, one "
        "core would do 24.0 times its pairs in full precision."
    ]


def test_the_goals_of_the_verifiers_are_held_against_both_peers() -> None:
    reached = nli_peers.tables(found_of(shape(2.0))).splitlines()
    assert reached[-3:] == [
        "Goal: `onnx:` scores 3 times as many pairs a second as selfcheckgpt and uqlm do "
        "(4.00 × selfcheckgpt, 8.00 × uqlm): reached.",
        "",
        "Goal: equal scores in full precision, within 0.0001 (2.0e-06): reached.",
    ]
    missed = nli_peers.tables(found_of(shape(4.0, apart=2e-4))).splitlines()
    assert missed[-3:] == [
        "Goal: `onnx:` scores 3 times as many pairs a second as selfcheckgpt and uqlm do "
        "(2.00 × selfcheckgpt, 4.00 × uqlm): **not reached**.",
        "",
        "Goal: equal scores in full precision, within 0.0001 (2.0e-04): **not reached**.",
    ]


def test_every_way_is_in_the_table_and_has_a_worker() -> None:
    assert set(nli_worker.WAYS) == set(nli_peers.NAMES) == {*nli_peers.PEERS, *nli_peers.OURS}
    assert set(nli_peers.PEERS.values()) == set(peer_models.PEERS)


def test_pairs_have_mixed_lengths_and_are_the_same_each_time() -> None:
    pairs = peer_models.texts(200, 300)
    assert pairs == peer_models.texts(200, 300)
    lengths = [len(premise.split()) for premise, _ in pairs]
    assert (min(lengths), max(lengths) > 250, len(set(pairs))) == (8, True, 200)
    assert {len(hypothesis.split()) for _, hypothesis in pairs} == set(range(5, 15))


def test_an_environment_that_is_there_is_used_again(tmp_path: Path) -> None:
    wanted = peer_models.PEERS["uqlm"]
    (tmp_path / "uqlm").mkdir()
    (tmp_path / "uqlm" / "installed.txt").write_text("\n".join(wanted))
    assert peer_models.Environments(folder=tmp_path).python("uqlm") == tmp_path / "uqlm" / "bin" / "python"


# Calls --------------------------------------------------------------------------------------------------------------


def measured_calls(system: str, case: calls.Case) -> dict[str, int]:
    found: dict[str, int] = asyncio.run(calls.measured(system, case))["calls"]
    return found


def test_calls_are_counted_by_stage() -> None:
    case = calls.CASES[1]  # four sentences, one of them wrong and one compound
    assert {system: measured_calls(system, case) for system in calls.SYSTEMS} == {
        "corrigenda": {"generate": 1, "recall": 1, "decompose": 1, "correct": 1},
        "corrigenda, claims by rule": {"generate": 1, "recall": 1, "correct": 1},
        "selfcheckgpt, N = 20": {"generate": 1, "sample": 20},
        "factscore": {"generate": 1, "decompose": 1, "verify": 5},
        "cove": {"generate": 1, "plan": 1, "verify": 4, "compare": 4, "revise": 1},
        "self-refine": {"generate": 1, "feedback": 2, "refine": 1},
    }


def test_a_method_that_does_not_end_as_scripted_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "nli_rules", lambda case: [{"scores": [0.98, 0.01, 0.01]}])
    with pytest.raises(SystemExit, match="corrigenda on an answer with 1 wrong sentences did not end as its script"):
        measured_calls("corrigenda", calls.CASES[1])


def test_wrong_answers_differ_from_right_ones_in_as_many_sentences() -> None:
    for case in calls.CASES:
        pairs = zip(case.answer.split(". "), case.right.split(". "), strict=True)
        assert sum(was != right for was, right in pairs) == case.wrong


def test_calls_over_the_goal_are_named() -> None:
    def found(calls_made: int) -> dict[str, Any]:
        return {"calls": {"generate": calls_made}, "prompt_tokens": 100, "completion_tokens": 50, "pairs": 2}

    case = {"sentences": 4, "tokens": 42, "wrong": 1}
    systems = {"corrigenda": found(5), "corrigenda, claims by rule": found(4), "cove": found(10)}
    full = {name: systems.get(name, found(20)) for name in calls.SYSTEMS}
    lines = calls.tables({"cases": [case | {"systems": full}]}).splitlines()
    assert lines[0] == "**4 sentences (42 tokens), one is wrong**"
    assert (
        "| `cove`                       |    10 |         2.00 |           100 |           50 |         1.00 |"
        in (lines[8][: lines[8].rindex("1.00 |") + 6])
    )
    assert lines[-3:] == [
        "Goal: corrigenda: at most 3 calls and one for each sentence corrected (over it: 4 sentences, 1 wrong: 5): "
        "**not reached**.",
        "",
        "Goal: corrigenda, claims by rule: at most 3 calls and one for each sentence corrected: reached.",
    ]


# Batch, start, page -------------------------------------------------------------------------------------------------


def level(concurrency: int, *rates: float) -> dict[str, Any]:
    cores = [0.5] * len(rates)
    return {"concurrency": concurrency, "rows": 6 * concurrency, "rows_per_s": list(rates), "cores": cores}


def test_growth_is_held_against_the_first_level() -> None:
    assert batch.linear([level(2, 2.0, 4.0, 3.0), level(4, 6.0), level(40, 30.0)]) == [1.0, 1.0, 0.5]


def test_the_tables_of_a_batch_read_as_this() -> None:
    def way(name: str, rate: float, start_s: float) -> dict[str, Any]:
        shared = {"model": "no waiting", "rows": 40, "in_flight": 4}
        return shared | {"way": name, "rows_per_s": [rate], "start_s": [start_s], "command_s": [start_s + 40 / rate]}

    memory = [
        {"rows": 1000, "peak_mib": 100.0, "rows_per_s": 200.0, "input_mib": 0.25},
        {"rows": 100_000, "peak_mib": 105.0, "rows_per_s": 210.0, "input_mib": 25.0},
    ]
    found = {
        "concurrency": [level(1, 1.0), level(8, 4.0)],
        "ray": [way("in process", 8.0, 2.0), way("Ray, 1 worker", 5.0, 12.5)],
        "memory": memory,
    }
    assert batch.tables(found).splitlines()[2:] == [
        "**Rows per second as concurrency grows**",
        "",
        "| rows in flight | rows | rows/s | of proportional growth | cores busy |",
        "| -------------- | ---: | -----: | ---------------------: | ---------: |",
        "| 1              |    6 |   1.00 |                   100% |       0.50 |",
        "| 8              |   48 |   4.00 |                    50% |       0.50 |",
        "",
        "Near-linear (at least 90% of proportional growth) up to 1 in flight; most rows a second with 8: 4.00.",
        "",
        "**Ray against one process**",
        "",
        "| engine                    | rows | rows/s once started | × in process | s to start and end | s in all |",
        "| ------------------------- | ---: | ------------------: | -----------: | -----------------: | -------: |",
        "| no waiting, in process    |   40 |                8.00 |         1.00 |                2.0 |      7.0 |",
        "| no waiting, Ray, 1 worker |   40 |                5.00 |         0.62 |               12.5 |     20.5 |",
        "",
        "4 rows in flight in all, whatever the number of workers. The rate is that between a run of all rows and one "
        "of a quarter of them; what it does not explain of the larger one's time is the start and the end.",
        "",
        "**Memory as the input grows**",
        "",
        "| rows    | input MiB | peak memory MiB | rows/s |",
        "| ------- | --------: | --------------: | -----: |",
        "| 1,000   |       0.2 |           100.0 |    200 |",
        "| 100,000 |      25.0 |           105.0 |    210 |",
        "",
        "Checks against a context each, by rule alone; no chat model.",
        "",
        "Goal: memory flat within 10% from 1,000 to 100,000 rows (+5.0%): reached.",
    ]


def test_what_starting_takes_drops_out_of_the_rate() -> None:
    def took(rows: int, command_s: float) -> batch.Took:
        return batch.Took(rows=rows, rows_per_s=1.0, command_s=command_s, cpu_s=0.0, peak_mib=0.0)

    assert batch.steady(took(100, 12.0), took(400, 18.0)) == 50.0
    assert batch.steady(took(100, 20.0), took(400, 20.0)) == 20.0


def test_what_was_not_measured_is_said() -> None:
    found = {"concurrency": [level(1, 1.0)], "ray": "not measured: ray is not installed", "memory": []}
    with pytest.raises(IndexError, match="list index out of range"):
        batch.tables(found)
    found["memory"] = [{"rows": 10, "peak_mib": 100.0, "rows_per_s": 9.0, "input_mib": 0.1}]
    assert "not measured: ray is not installed" in batch.tables(found).splitlines()


def test_the_starts_are_held_against_pythons_own() -> None:
    found = {"seconds": {start.BARE: [0.25], "import corrigenda": [0.375], "corrigenda --help": [0.5]}}
    assert start.tables(found).splitlines() == [
        "| command             | seconds | beyond Python's own start |",
        "| ------------------- | ------: | ------------------------: |",
        "| `python -c pass`    |   0.250 |                         – |",
        "| `import corrigenda` |   0.375 |                     0.125 |",
        "| `corrigenda --help` |   0.500 |                     0.250 |",
        "",
        "Median of 1 starts in turns, with the shortest and the longest.",
        "",
        "Goal: both start within 0.3 s: **not reached**.",
    ]

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from corrigenda.batch.rows import PAIRS, Done, Spent
from corrigenda.batch.state import State
from corrigenda.batch.summary import (
    Prices,
    Rates,
    Tally,
    ThisRun,
    summarise,
    summary_path,
    wilson,
    write_summary,
)

RUN = ThisRun(seconds=2.0, rows=4, calls=3, tokens=45, stopped="the budget of 4 rows (--max-rows) is used up")


@pytest.mark.parametrize(
    ("part", "n", "low", "high"),
    # As statsmodels.stats.proportion.proportion_confint(method="wilson") gives them.
    [(0.0, 10, 0.0, 0.277533), (0.5, 10, 0.236593, 0.763407), (1.0, 10, 0.722467, 1.0), (0.2, 100, 0.133367, 0.288829)],
)
def test_wilson(part: float, n: float, low: float, high: float) -> None:
    assert wilson(part, n) == pytest.approx((low, high), abs=1e-5)


def rates(*answers: tuple[int, int]) -> dict[str, Any]:
    found = Rates()
    for claims, contradicted in answers:
        found.add(claims, contradicted)
    return found.as_json()


def test_nothing_to_divide_by_is_no_rate() -> None:
    nothing = {"value": None, "low": None, "high": None, "contradicted": 0, "n": 0}
    assert rates((0, 0)) == {"answers": nothing, "claims": nothing}


def test_claims_that_stand_and_fall_together_tell_as_much_as_their_answers() -> None:
    found = rates(*[(4, 4), (4, 0)] * 50)
    assert (found["claims"]["value"], found["claims"]["n"], found["answers"]["n"]) == (0.5, 400, 100)
    assert found["claims"]["high"] == pytest.approx(found["answers"]["high"], abs=1e-3)


def test_independent_claims_tell_more() -> None:
    found = rates(*[(1, 1), (1, 0)] * 50, *[(2, 1)] * 50)
    assert found["claims"]["high"] - found["claims"]["low"] < found["answers"]["high"] - found["answers"]["low"]


def test_without_any_contradiction_each_answer_counts_as_one_claim() -> None:
    found = rates(*[(5, 0)] * 10)
    assert (found["claims"]["low"], found["claims"]["high"]) == (0.0, pytest.approx(0.277533, abs=1e-5))


def report(status: str, *verdicts: str, stages: dict[str, float]) -> dict[str, Any]:
    return {
        "status": status,
        "reason": "why" if status == "failed" else None,
        "claims": [{"verdict": verdict} for verdict in verdicts],
        "models": {"chat": "m", "verifier": "v"},
        "timings": [{"stage": stage, "start_s": 1.0, "end_s": 1.0 + s} for stage, s in stages.items()],
    }


def summary_of(tmp_path: Path, prices: Prices) -> dict[str, Any]:
    rows = [
        Done(
            number=0,
            id="a",
            report=report("corrected", "contradicted", "supported", stages={"entail": 0.5, "generate": 1.0}),
            seconds=2.0,
            spent={
                "generate": Spent(calls=1, prompt_tokens=20, completion_tokens=10),
                "recall": Spent(reused=1),
                PAIRS: Spent(calls=3, reused=1),
            },
        ),
        Done(number=1, id="b", report=report("verified", "supported", stages={"entail": 1.5}), seconds=1.0),
        Done(number=2, id="c", report=report("failed", "failed", stages={}), seconds=0.5),
        Done(
            number=3,
            id="d",
            error="no connection",
            kind="Unreachable",
            seconds=0.1,
            spent={"generate": Spent(calls=2, prompt_tokens=15, unreported=1)},
        ),
    ]
    with closing(State(tmp_path / "s")) as state:
        state.begin({"format": 1})
        for row in rows:
            state.put(row)
        tally = Tally()
        assert list(tally.watch(state.all())) == [Done(**{**_without_cost(row)}) for row in rows]
        return summarise(state, tally, 6, RUN, prices)


def _without_cost(done: Done) -> dict[str, Any]:
    names = ("number", "id", "report", "error", "kind", "seconds")
    return {name: getattr(done, name) for name in names}


def test_a_summary(tmp_path: Path) -> None:
    found = summary_of(tmp_path, Prices())
    rates = found.pop("hallucination_rate")
    assert {name: (rate["value"], rate["contradicted"], rate["n"]) for name, rate in rates.items()} == {
        "answers": (0.5, 1, 2),
        "claims": (0.333333, 1, 3),
    }
    assert found == {
        "schema": "1.0",
        "complete": False,
        "stopped": "the budget of 4 rows (--max-rows) is used up",
        "rows": {"total": 6, "done": 4, "left": 2, "by_status": {"corrected": 1, "failed": 2, "verified": 1}},
        "claims": {"contradicted": 1, "failed": 1, "supported": 2},
        "calls": {
            "made": 3,
            "reused": 1,
            "by_stage": {
                "generate": {
                    "calls": 3,
                    "prompt_tokens": 35,
                    "completion_tokens": 10,
                    "unreported": 1,
                    "reused": 0,
                },
                "recall": {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "unreported": 0, "reused": 1},
            },
            "prompt_tokens": 35,
            "completion_tokens": 10,
            "without_tokens": 1,
            "cost": None,
            "cost_of_reported": None,
            "price_per_million": {"prompt": None, "completion": None},
        },
        "pairs": {"scored": 3, "reused": 1},
        "seconds": {
            "per_row": {"mean": 0.9, "median": 1.0, "p95": 2.0},
            "stages": {
                "entail": {"rows": 2, "mean": 1.0, "most": 1.5, "sum": 2.0},
                "generate": {"rows": 1, "mean": 1.0, "most": 1.0, "sum": 1.0},
            },
        },
        "slowest": [
            {"id": "a", "seconds": 2.0},
            {"id": "b", "seconds": 1.0},
            {"id": "c", "seconds": 0.5},
            {"id": "d", "seconds": 0.1},
        ],
        "failures": {
            "rows": 2,
            "by_kind": {"failed report": 1, "Unreachable": 1},
            "listed": [
                {"id": "c", "kind": "failed report", "reason": "why"},
                {"id": "d", "kind": "Unreachable", "reason": "no connection"},
            ],
        },
        "models": {"chat": "m", "verifier": "v"},
        "this_run": {
            "seconds": 2.0,
            "rows": 4,
            "calls": 3,
            "tokens": 45,
            "stopped": RUN.stopped,
            "rows_per_s": 2.0,
        },
    }


def test_a_cost_is_told_only_where_every_call_said_what_it_used(tmp_path: Path) -> None:
    calls = summary_of(tmp_path, Prices(prompt=2.0, completion=8.0))["calls"]
    assert (calls["cost"], calls["cost_of_reported"]) == (None, 0.00015)


def test_the_summary_is_written_beside_the_output(tmp_path: Path) -> None:
    write_summary(tmp_path / "out.jsonl", {"complete": True})
    assert summary_path(tmp_path / "out.jsonl") == tmp_path / "out.jsonl.summary.json"
    assert json.loads((tmp_path / "out.jsonl.summary.json").read_text("utf-8")) == {"complete": True}

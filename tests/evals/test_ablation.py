from __future__ import annotations

import json
from typing import Any

import pytest
from tests.eval_records import C, S, claim, question

from corrigenda.errors import InputError
from corrigenda.evals.ablation import ablation
from corrigenda.evals.records import Record

RIGHT_AFTER = {"base": 4, "self-check": 5, "nli-fixed": 6, "corrigenda": 9}


def run(methods: dict[str, int], items: int = 10) -> list[Record]:
    """Ten questions, the first four answered correctly; a method's final answers are right up to its number."""
    return [
        question(
            i,
            i < 4,
            i < right,
            method=name,
            flagged=None if name == "base" else 4 <= i < right,
            latency_s=1.0 + step / 10 + i / 100,
        )
        for step, (name, right) in enumerate(methods.items())
        for i in range(items)
    ]


def made(records: list[Record], **more: Any) -> dict[str, Any]:
    found = ablation(records, **({"resamples": 50} | more))
    json.dumps(found, allow_nan=False)
    return found


def test_the_four_steps_by_hand() -> None:
    found = made(run(RIGHT_AFTER))
    assert [(s["step"], s["method"], s["against"]) for s in found["steps"]] == [
        ("base", "base", None),
        ("self-check", "self-check", "base"),
        ("nli-fixed", "nli-fixed", "self-check"),
        ("corrigenda", "corrigenda", "nli-fixed"),
    ]
    shown = [
        [s["metrics"][m]["value"] for m in ("accuracy", "hallucination_rate_after", "answer_f1")]
        for s in found["steps"]
    ]
    assert shown == [
        [0.4, 0.6, None],
        [0.5, 0.5, pytest.approx(2 / 7)],
        [0.6, 0.4, pytest.approx(4 / 8)],
        [0.9, 0.1, pytest.approx(10 / 11)],
    ]
    assert [s["change"].get("accuracy", {}).get("value") for s in found["steps"]] == [
        None,
        pytest.approx(0.1),
        pytest.approx(0.1),
        pytest.approx(0.3),
    ]
    assert found["steps"][3]["change"]["answer_f1"]["value"] == pytest.approx(10 / 11 - 1 / 2)
    assert found["steps"][1]["change"]["answer_f1"]["value"] is None
    assert (found["items"], found["missing"], found["notes"]) == (10, [], [])


def test_each_step_is_tested_against_the_one_before() -> None:
    last = made(run(RIGHT_AFTER))["steps"][3]
    correct, slower = last["tests"]
    assert (correct["test"], correct["first"], correct["second"]) == ("mcnemar", "nli-fixed", "corrigenda")
    assert (correct["only_first"], correct["only_second"], correct["p"], correct["p_holm"]) == (0, 3, 0.25, 0.75)
    assert (slower["test"], slower["rank_biserial"], slower["difference"]["value"]) == (
        "wilcoxon",
        1.0,
        pytest.approx(0.1),
    )


def test_a_step_that_was_not_run_is_named_and_skipped() -> None:
    found = made(run({"base": 4, "corrigenda:paper": 6, "corrigenda": 9}))
    assert [(s["step"], s["method"], s["against"]) for s in found["steps"]] == [
        ("base", "base", None),
        ("self-check", None, None),
        ("nli-fixed", None, None),
        ("corrigenda", "corrigenda:paper", "base"),
    ]
    assert found["missing"] == ["self-check", "nli-fixed"]
    assert found["notes"] == [
        "Not run: self-check, nli-fixed; a step is compared with the last one before it that was."
    ]
    assert made(run({"base": 4, "corrigenda:paper": 6, "corrigenda": 9}), full="corrigenda")["steps"][3]["method"] == (
        "corrigenda"
    )


def test_only_the_items_that_all_steps_have_are_compared() -> None:
    records = [r for r in run(RIGHT_AFTER) if not (r.method == "nli-fixed" and int(r.item) > 4)]
    found = made(records)
    assert found["items"] == 5
    assert [s["metrics"]["accuracy"]["n"] for s in found["steps"]] == [5, 5, 5, 5]
    assert found["notes"] == [
        "Only the 5 items that all steps have are compared; base, self-check, corrigenda had more."
    ]


def test_claims_have_an_ablation_too() -> None:
    records = [claim(i, C, S, method="nli-fixed") for i in range(4)]
    records += [claim(i, C, C, method="corrigenda") for i in range(4)]
    last = made(records)["steps"][3]
    assert (last["metrics"]["claim_f1"]["value"], last["change"]["claim_accuracy"]["value"]) == (1.0, 1.0)
    assert last["tests"][0]["measure"] == "claim_accuracy"


def test_what_can_not_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match=r"at least two of the methods base, self-check, .* there are base"):
        ablation(run({"base": 4}))
    with pytest.raises(InputError, match="no record is of method 'corrigenda:best'; there are base, corrigenda"):
        ablation(run({"base": 4, "corrigenda": 5}), full="corrigenda:best")
    apart = [question(1, True, True, method="base"), question(2, True, True, method="corrigenda")]
    with pytest.raises(InputError, match="the methods base, corrigenda have no item in common"):
        ablation(apart)

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.eval_records import C, F, N, S, U, claim, judged, outcome, record, report, reported, scored

from corrigenda.errors import ConfigError, InputError
from corrigenda.evals.records import Record
from corrigenda.evals.sweep import best_rows, compose, redecide, settings, sweep
from corrigenda.policies import make_policy
from corrigenda.types import Claim


def item(number: int, label: Any, signed: float | None, **more: Any) -> Record:
    return record(number, "corrigenda", label=label, made=reported(scored(signed, f"Claim {number}.")), **more)


def rows(records: list[Record], **more: Any) -> list[dict[str, Any]]:
    found = sweep(records, **({"resamples": 20} | more))
    json.dumps(found, allow_nan=False)
    return found


def metric(row: Any, name: str) -> Any:
    return row["metrics"][name]["value"]


def test_settings_are_every_combination_that_a_policy_can_use() -> None:
    found = settings(ks=(0.5, 1.0), floors=(0.5, 0.8), ceilings=(0.7,), thresholds=(0.6,))
    assert [(s.policy, dict(s.options)) for s in found] == [
        ("paper", {"k": 0.5}),
        ("paper", {"k": 1.0}),
        ("fixed", {"threshold": 0.6}),
        ("bounded", {"k": 0.5, "floor": 0.5, "ceiling": 0.7}),
        ("bounded", {"k": 1.0, "floor": 0.5, "ceiling": 0.7}),
    ]
    assert [s.policy for s in settings(policies=("conformal",), thresholds=(0.6, 0.9))] == ["conformal", "conformal"]


def test_settings_out_of_range_are_refused_before_anything_is_decided() -> None:
    with pytest.raises(ConfigError, match=r"ceiling must be below 1, .* got 1\.0"):
        settings(ceilings=(1.0,))
    with pytest.raises(ConfigError, match="unknown policy 'best'"):
        settings(policies=("best",))


def test_one_false_claim_among_four_true_ones_is_the_papers_blind_spot() -> None:
    answer = reported(*(scored(0.95, f"True {i}.") for i in range(4)), scored(-0.95, "False."))
    asked = record(1, "corrigenda", kind="question", made=answer, before=judged(False))
    found = rows([asked], ks=(0.7,), floors=(0.5,), ceilings=(0.9,), thresholds=(0.7,))
    shown = {r["policy"]: (metric(r, "answer_recall"), r["verdicts"]["contradicted"], r["unreachable"]) for r in found}
    assert shown == {"paper": (0.0, 0, 1), "fixed": (1.0, 1, 0), "bounded": (1.0, 1, 0)}


def test_claims_are_decided_again_by_the_stored_scores() -> None:
    records = [
        item(1, C, -0.9),
        item(2, C, -0.6),
        item(3, S, -0.6),
        item(4, S, 0.9),
        item(5, U, -0.9),
        item(6, C, None),
    ]
    low, high = rows(records, policies=("fixed",), thresholds=(0.5, 0.8))
    assert (low["threshold"], low["k"], low["composed"], low["answers"], low["claims"]) == (0.5, None, None, 6, 6)
    assert low["verdicts"] == {"supported": 1, "contradicted": 4, "unverified": 0, "not_checkable": 0, "failed": 1}
    assert (metric(low, "claim_precision"), metric(low, "claim_recall")) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (metric(high, "claim_precision"), metric(high, "claim_recall")) == (1.0, pytest.approx(1 / 3))
    assert (metric(low, "coverage"), metric(high, "coverage")) == (pytest.approx(5 / 6), pytest.approx(3 / 6))
    assert set(low["metrics"]) == {
        "claim_precision",
        "claim_recall",
        "claim_f1",
        "claim_accuracy",
        "claim_false_positive_rate",
        "three_way_accuracy",
        "coverage",
    }


def test_a_single_score_is_its_own_threshold() -> None:
    """σ is 0, so µ + kσ is the score: whatever the label says is accepted, even at 0.05."""
    (row,) = rows([item(1, C, -0.05), item(2, S, 0.05)], policies=("paper",), ks=(1.0,))
    assert (row["verdicts"]["contradicted"], row["verdicts"]["supported"]) == (1, 1)


def test_the_same_policy_gives_the_verdicts_of_the_run() -> None:
    policy = make_policy("bounded", k=0.7, floor=0.5, ceiling=0.9)
    signed = [0.95, -0.8, None, 0.0, 0.6]
    verdicts = policy.decide(signed).verdicts
    claims = [scored(s, f"{i}", said=v) for i, (s, v) in enumerate(zip(signed, verdicts, strict=True))]
    nothing = Claim(text="No reference.", span=None, sentence=0, verdict=U)
    taste = Claim(text="It is nice.", span=None, sentence=0, verdict=N)
    stored = record(1, made=reported(*claims, nothing, taste), kind="question")
    again, reach = redecide(stored, policy)
    assert stored.outcome is not None
    assert again.outcome is not None
    assert [j.verdict for j in again.outcome.verdicts] == [c.verdict for c in (*claims, nothing, taste)]
    assert (again.outcome.flagged, reach, again.outcome.report) == (
        stored.outcome.flagged,
        False,
        stored.outcome.report,
    )


def test_what_can_not_be_decided_is_not_flagged() -> None:
    policy = make_policy("fixed")
    broken, _ = redecide(record(1, made=reported(scored(None))), policy)
    assert broken.outcome is not None
    assert broken.outcome.flagged is None
    lost = record(1)
    assert redecide(lost, policy) == (lost, False)
    unreported = claim(1, C, C)
    assert redecide(unreported, policy) == (unreported, False)


def test_bundles_are_dealt_without_replacement_and_stay_the_same_for_a_seed() -> None:
    records = [item(i, C if i % 3 == 0 else S, 0.5) for i in range(10)]
    made = compose(records, 3, seed=1)
    texts = [c.text for r in made if r.outcome and r.outcome.report for c in r.outcome.report.claims]
    assert (len(made), len(texts), len(set(texts))) == (3, 9, 9)
    assert made == compose(records[::-1], 3, seed=1)
    assert made != compose(records, 3, seed=2)


def test_a_composed_answer_keeps_the_label_of_each_claim() -> None:
    (made,) = compose([item(1, S, 0.9), item(2, C, -0.8), record(3, "corrigenda", label=U)], 3, seed=0)
    assert made.outcome is not None
    assert made.outcome.report is not None
    by_claim = dict(zip([c.text for c in made.outcome.report.claims], made.sentence_labels or (), strict=True))
    assert by_claim == {"Claim 1.": S, "Claim 2.": C, "": U}
    assert [c.verdict for c in made.outcome.report.claims if not c.text] == [F]
    assert (made.kind, made.label, made.status, made.item) == ("answer", C, "ok", "composed 0")
    assert compose([item(1, S, 0.9), item(2, U, 0.1)], 2, seed=0)[0].label is U
    assert compose([item(1, S, 0.9), item(2, S, 0.1)], 2, seed=0)[0].label is S


def test_bundles_are_decided_together_and_rows_say_so() -> None:
    records = [item(0, C, -0.95), *(item(i, S, 0.95) for i in range(1, 5))]
    found = rows(records, bundle=5, ks=(0.7,), policies=("paper", "fixed"), thresholds=(0.7,))
    paper, fixed = found
    assert (paper["composed"], paper["answers"], paper["claims"]) == (5, 1, 5)
    assert (metric(paper, "claim_recall"), metric(fixed, "claim_recall")) == (0.0, 1.0)
    assert (metric(paper, "answer_recall"), metric(fixed, "answer_recall")) == (0.0, 1.0)
    assert metric(fixed, "claim_accuracy") == 1.0


def test_the_blind_spot_is_where_the_theory_puts_it() -> None:
    """m of n claims at -c, the rest at +c: flagged only from m/n >= k²/(1+k²) on, 32.9% at k = 0.7."""
    for wrong, expected in ((1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)):  # of 10: 30% is not enough, 40% is
        signed = [-0.9] * wrong + [0.9] * (10 - wrong)
        asked = record(1, kind="question", made=reported(*map(scored, signed)), before=judged(False))
        (row,) = rows([asked], policies=("paper",), ks=(0.7,))
        assert metric(row, "answer_recall") == expected


def test_the_best_row_of_each_policy() -> None:
    records = [item(1, C, -0.9), item(2, C, -0.6), item(3, S, -0.7), item(4, S, 0.9)]
    found = rows(records, policies=("fixed", "bounded"), thresholds=(0.5, 0.65, 0.8), ks=(0.7,), floors=(0.5,))
    best = best_rows(found, "claim_f1")
    assert [(r["policy"], r["threshold"], metric(r, "claim_f1")) for r in best if r["policy"] == "fixed"] == [
        ("fixed", 0.5, pytest.approx(0.8))
    ]
    assert metric(best[0], "claim_f1") >= metric(best[1], "claim_f1")
    assert best_rows(found, "answer_f1") == []


def test_whose_reports_are_decided_again() -> None:
    records = [claim(1, C, C, method="selfcheckgpt"), item(1, C, -0.9)]
    assert {row["method"] for row in rows(records, policies=("fixed",))} == {"corrigenda"}
    with pytest.raises(InputError, match="no record is of method 'rag'; there are selfcheckgpt, corrigenda"):
        sweep(records, method="rag")
    with pytest.raises(InputError, match="method 'selfcheckgpt' hold no report whose scores could be decided again"):
        sweep(records, method="selfcheckgpt")
    with pytest.raises(InputError, match="any method hold no report"):
        sweep([record(1, made=outcome())])


def test_bundles_need_single_claims_and_enough_of_them() -> None:
    with pytest.raises(InputError, match="answers of 3 claims can't be composed of 2 labelled claims"):
        sweep([item(1, C, -0.9), item(2, S, 0.9)], bundle=3)
    with pytest.raises(InputError, match="a bundle needs at least 1 claim, got 0"):
        sweep([item(1, C, -0.9)], bundle=0)
    with pytest.raises(InputError, match="can't be composed of 0 labelled claims"):
        sweep([record(1, kind="question", made=reported(scored(0.5)))], bundle=2)


def test_a_claim_of_several_parts_is_dealt_as_its_most_contradicted_one() -> None:
    parts = record(1, label=C, made=reported(scored(0.9, "One."), scored(-0.7, "Two."), scored(None, "Three.")))
    (made,) = compose([parts], 1, seed=0)
    assert made.outcome is not None
    assert made.outcome.report == report(scored(-0.7, "Two."))

from __future__ import annotations

from typing import Any

import pytest
from tests.eval_records import C, F, N, S, U, call, claim, judged, outcome, question, record, verdict
from tests.summing import ANSWERS, n, summary, value

from corrigenda.errors import InputError
from corrigenda.evals.records import PairCalls
from corrigenda.evals.summary import summarise


def test_correctness_of_answers_by_hand() -> None:
    found = summary(ANSWERS)
    expected = {
        "accuracy": (2 / 6, 6),
        "accuracy_decided": (2 / 4, 4),
        "hallucination_rate_before": (2 / 6, 6),
        "hallucination_rate_after": (2 / 6, 6),
        "abstention_rate": (0, 6),
        "undecided_rate": (1 / 6, 6),
        "changed_rate": (3 / 5, 5),
        "failures": (1, 6),
        "failure_rate": (1 / 6, 6),
    }
    assert {m: (value(found, m), n(found, m)) for m in expected} == {
        m: (pytest.approx(v), c) for m, (v, c) in expected.items()
    }


def test_detection_of_answers_by_hand() -> None:
    found = summary(ANSWERS)
    expected = {
        "answer_precision": (2 / 3, 3),  # b c of b c d
        "answer_recall": (1, 2),
        "answer_f1": (0.8, 4),
        "answer_accuracy": (3 / 5, 5),  # a b c of a b c d f
        "answer_false_positive_rate": (1 / 2, 2),
    }
    assert {m: (value(found, m), n(found, m)) for m in expected} == {
        m: (pytest.approx(v), c) for m, (v, c) in expected.items()
    }
    assert found["counts"]["m"]["answer"] == {
        "tp": 2,
        "fp": 1,
        "fn": 0,
        "tn": 1,
        "failed_negative": 0,
        "failed_unknown": 1,
        "left_out": 1,
    }


def test_harm_by_hand() -> None:
    found = summary(ANSWERS)
    expected = {
        "true_broken": (1, 4),
        "false_fixed": (1, 4),
        "net": (0, 4),
        "true_broken_rate": (1 / 2, 2),
        "false_fixed_rate": (1 / 2, 2),
        "net_rate": (0, 4),
    }
    assert {m: (value(found, m), n(found, m)) for m in expected} == expected


CLAIMS = [
    claim(1, C, C, 0.9),
    claim(2, C, U, 0.4),
    claim(3, S, C, 0.6),
    claim(4, S, S, 0.1),
    claim(5, S, F),
    claim(6, U, U, 0.3),
    claim(7, C, None),
    claim(8, S, N, 0.2),
]


def test_claims_by_hand() -> None:
    found = summary(CLAIMS)
    expected = {
        "accuracy": (3 / 7, 7),  # 1 4 8; 6 is left out
        "claim_accuracy": (3 / 7, 7),
        "claim_precision": (1 / 2, 2),
        "claim_recall": (1 / 3, 3),
        "claim_f1": (2 / 5, 7),
        "claim_false_positive_rate": (1 / 4, 4),
        "three_way_accuracy": (3 / 8, 8),  # 1 4 6
        "coverage": (3 / 8, 8),  # 1 3 4
        "claim_auroc": (5 / 6, 5),  # of .9 .4 against .6 .1 .2, only .4 loses to .6
        "claim_auc_pr": ((1 + 2 / 3) / 2, 5),
        "claims": (6 / 7, 7),
    }
    assert {m: (value(found, m), n(found, m)) for m in expected} == {
        m: (pytest.approx(v), c) for m, (v, c) in expected.items()
    }
    assert value(found, "true_broken") is None
    assert found["methods"]["m"]["net_rate"] == {"value": None, "low": None, "high": None, "n": 0}
    assert "hallucination_rate_after" not in found["methods"]["m"]


def test_scores_that_are_no_probabilities_have_curves_and_no_calibration_error() -> None:
    found = summary([claim(1, C, C, 7.0), claim(2, S, S, -3.0)])
    assert (value(found, "claim_auroc"), value(found, "claim_ece")) == (1.0, None)
    assert found["reliability"]["m"]["claim"] == []
    assert "Scores of m are no probabilities, so there is no calibration error." in found["notes"]


def test_calibration_by_hand() -> None:
    found = summary([claim(1, C, C, 0.9), claim(2, S, S, 0.1)])
    assert value(found, "claim_ece") == pytest.approx(0.1)
    assert found["reliability"]["m"]["claim"] == [
        {"low": pytest.approx(1 / 15), "high": pytest.approx(2 / 15), "score": 0.1, "observed": 0.0, "n": 1.0},
        {"low": pytest.approx(13 / 15), "high": pytest.approx(14 / 15), "score": 0.9, "observed": 1.0, "n": 1.0},
    ]


def test_cost_by_hand() -> None:
    records = [
        claim(
            1,
            C,
            C,
            latency_s=2.0,
            calls=(call("generate", 1.0, (10, 5)), call("recall", 0.5, (20, 7)), call("judge", 9.0, (99, 99))),
            pairs=PairCalls(pairs=3, seconds=0.5),
        ),
        claim(
            2,
            C,
            C,
            latency_s=4.0,
            calls=(call("generate", 2.0, None, reused=True),),
            pairs=PairCalls(pairs=1, reused=1),
        ),
        claim(3, C, None, latency_s=60.0, calls=(call("generate", 60.0, error="TimedOut: too slow"),)),
    ]
    found = summary(records)
    expected = {
        "latency_mean": (3.0, 2),
        "latency_p50": (2.0, 2),
        "latency_p95": (4.0, 2),
        "latency_p99": (4.0, 2),
        "calls": (1.5, 2),
        "prompt_tokens": (30.0, 1),
        "completion_tokens": (12.0, 1),
        "pairs": (2.0, 2),
    }
    assert {m: (value(found, m), n(found, m)) for m in expected} == expected
    assert {stage: (s["value"], s["seconds"], s["n"]) for stage, s in found["stages"]["m"].items()} == {
        "generate": (pytest.approx(3 / 4), 1.5, 2),
        "recall": (pytest.approx(0.5 / 4), 0.25, 2),
        "entail": (pytest.approx(0.5 / 4), 0.25, 2),
    }
    counts = found["counts"]["m"]
    assert {name: counts[name] for name in ("calls", "calls_reused", "calls_failed", "pairs", "pairs_reused")} == {
        "calls": 4,
        "calls_reused": 1,
        "calls_failed": 1,
        "pairs": 4,
        "pairs_reused": 1,
    }
    assert (
        "1 of 4 calls and 1 of 4 pairs had been made for another method before and count with the seconds that they "
        "took then." in found["notes"]
    )
    assert "The tokens of 1 of 4 calls are unknown; their items are left out of the tokens." in found["notes"]


def test_a_chat_verifiers_calls_are_not_counted_twice_in_the_stages() -> None:
    calls = (call("generate", 1.0), call("entail", 0.9))
    found = summary([claim(1, C, C, latency_s=2.0, calls=calls, pairs=PairCalls(pairs=1, seconds=1.0))])
    assert {stage: s["seconds"] for stage, s in found["stages"]["m"].items()} == {"generate": 1.0, "entail": 1.0}


def test_repeats_count_once() -> None:
    records = [
        *(question("a", False, right, flagged=True, repeat=r) for r, right in enumerate((True, True, False))),
        question("b", False, False, flagged=True, repeat=0),
    ]
    found = summary(records)
    assert (value(found, "accuracy"), n(found, "accuracy")) == (pytest.approx(1 / 3), 2)
    assert found["repeats"] == 3
    assert "Items were run up to 3 times; the repeats of an item share its weight." in found["notes"]


def test_several_kinds_are_shown_together_and_apart() -> None:
    found = summary([*ANSWERS, *CLAIMS])
    assert (found["kinds"], found["items"]) == (["claim", "question"], 14)
    assert value(found, "accuracy") == pytest.approx(2 / 6)
    assert value(found, "claim_accuracy") == pytest.approx(3 / 7)
    assert value(found["parts"]["claim"], "accuracy") == pytest.approx(3 / 7)
    assert value(found["parts"]["question"], "accuracy") == pytest.approx(2 / 6)
    assert (value(found, "failures"), value(found["parts"]["claim"], "failures")) == (2, 1)
    assert found["parts"]["claim"]["items"] == 8
    assert any(note.startswith("The items are of several kinds (claim, question)") for note in found["notes"])
    assert "parts" not in summary(CLAIMS)


def test_labelled_sentences_are_claim_units() -> None:
    made = outcome(verdict(C, 0.9, sentence=0), verdict(S, 0.2, sentence=1), verdict(S, 0.3, sentence=9))
    given = record(1, kind="answer", sentence_labels=(C, S), made=made)
    found = summary([given])
    assert (value(found, "claim_accuracy"), n(found, "claim_accuracy")) == (1.0, 2)
    assert (value(found, "answer_recall"), value(found, "accuracy")) == (1.0, 0.0)
    assert "1 verdicts of m belong to no labelled sentence and are not counted." in found["notes"]


def test_a_method_that_detects_nothing_has_no_detection() -> None:
    found = summary([question(1, True, True, method="base"), question(1, True, True, flagged=False, method="m")])
    assert (value(found, "answer_f1", "base"), value(found, "coverage", "base")) == (None, None)
    assert value(found, "accuracy", "base") == 1.0


PAIRED = [
    r
    for i in range(12)
    for r in (
        question(i, i % 2 == 0, i % 2 == 0, method="base", latency_s=1.0 + i / 100),
        question(i, i % 2 == 0, i != 1, method="corrigenda", flagged=i % 2 == 1, latency_s=1.5 + i / 50),
        question(i, i % 2 == 0, i < 8, method="corrigenda:paper", flagged=False, latency_s=1.0 + i / 100),
    )
]


def test_paired_tests_by_hand() -> None:
    found = summary(PAIRED)
    shown = [(t["measure"], t["first"], t["second"], t["test"]) for t in found["tests"]]
    assert shown == [
        (measure, first, second, test)
        for measure, test in (("accuracy", "mcnemar"), ("latency", "wilcoxon"))
        for first, second in (
            ("base", "corrigenda"),
            ("base", "corrigenda:paper"),
            ("corrigenda", "corrigenda:paper"),
        )
    ]
    first = found["tests"][0]
    # base is right on 0 2 4 6 8 10; corrigenda on all but 1
    assert (first["n"], first["only_first"], first["only_second"], first["odds_ratio"]) == (12, 0, 5, None)
    assert first["p"] == pytest.approx(2 / 2**5)
    assert first["difference"]["value"] == pytest.approx(5 / 12)
    # the three p: 2/32, 6 against 2 of 8 items, 4 against 1
    p = [t["p"] for t in found["tests"][:3]]
    assert found["tests"][0]["p_holm"] == pytest.approx(min(1, 3 * min(p)))
    slower, same = found["tests"][3:5]
    assert (slower["rank_biserial"], slower["n"], slower["difference"]["value"]) == (1.0, 12, pytest.approx(0.555))
    assert (same["p"], same["p_holm"], same["median_difference"]) == (1.0, 1.0, 0.0)


def test_claims_are_compared_with_the_first_method_that_says_anything() -> None:
    records = [record(i, "base", label=C, made=outcome()) for i in range(3)]
    records += [claim(i, C, C, method="nli-fixed") for i in range(3)]
    records += [claim(i, C, S, method="corrigenda") for i in range(3)]
    (test,) = summary(records)["tests"]
    assert (test["measure"], test["first"], test["second"]) == ("claim_accuracy", "nli-fixed", "corrigenda")
    assert (test["only_first"], test["only_second"], test["p"]) == (3, 0, 0.25)


def test_only_items_that_both_have_are_paired() -> None:
    records = [question(i, False, False, method="base") for i in range(3)]
    records += [question(i, False, True, method="m", flagged=True) for i in range(2, 5)]
    found = summary(records)
    assert [test["n"] for test in found["tests"]] == [1]
    assert (
        "Not every method was run on all 5 items (base 3, m 3): only the paired tests compare like with like."
        in found["notes"]
    )


def test_what_a_reader_must_know() -> None:
    shared: dict[str, Any] = {
        "judge": "nli:onnx:deberta",
        "models": {"verifier": "onnx:deberta", "chat": "local:small"},
    }
    records = [
        claim(1, C, C, group="g", **shared),
        claim(2, U, C, group="g", **shared),
        claim(3, C, None, group="h", **shared | {"judge": "gold"}),
        question(4, False, None, flagged=True, **shared),
    ]
    found = summary(records)
    assert found["models"] == {
        "judge": ["gold", "nli:onnx:deberta"],
        "verifier": ["onnx:deberta"],
        "chat": ["local:small"],
    }
    assert found["notes"] == [
        "The judge and the verifier are the same model (onnx:deberta): the judge shares the verifier's mistakes, so "
        "that corrections look better than they are; name another judge to know more.",
        "1 of 4 records of m failed and stay in the denominator (most often, 1 times: it broke).",
        "The items are of several kinds (claim, question): `accuracy` is that of the answers, and time, calls and "
        "coverage are over all items; `parts` has each kind alone.",
        "The 4 items form 3 groups, which are resampled whole; McNemar's and Wilcoxon's tests take items as "
        "independent, so trust the intervals of the differences more.",
        "With 3 independent groups the intervals are rough, and too narrow near 0 and 1.",
        "1 items have the gold label `unverified` and are in no two-way measure.",
        "1 of 1 final answers of m were not judged either way.",
    ]


def test_records_of_several_models_are_not_one_run() -> None:
    records = [claim(i, C, C, models={"verifier": name}, judge=name) for i, name in enumerate(("one", "two"))]
    notes = summary(records)["notes"]
    assert "The records come from several models as verifier (one, two) and are not one run." in notes
    assert "Several judges decided (one, two); their answers are not told apart here." in notes


def test_the_order_of_the_records_and_a_second_run_change_nothing() -> None:
    assert summary([*CLAIMS[::-1]]) == summary(CLAIMS) == summary(CLAIMS)
    wide = summary(CLAIMS, confidence=0.99)["methods"]["m"]["claim_accuracy"]
    narrow = summary(CLAIMS, confidence=0.5)["methods"]["m"]["claim_accuracy"]
    assert wide["low"] <= narrow["low"] <= narrow["high"] <= wide["high"]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="there are no records to compute anything from"):
        summarise([])
    with pytest.raises(InputError, match="item '1' of 'd' is recorded twice for method 'm', repeat 0"):
        summarise([claim(1, C, C), claim(1, C, S)])


def test_abstentions_are_counted_and_are_no_hallucinations() -> None:
    made = outcome(flagged=False, answer="I don't know.")
    silent = judged(None, abstained=True)
    found = summary([record(1, kind="question", made=made, before=silent, after=silent), question(2, True, True)])
    assert [value(found, m) for m in ("abstention_rate", "accuracy", "hallucination_rate_after")] == [0.5, 0.5, 0.0]


def test_answers_without_anything_to_judge_by_have_no_accuracy_even_when_one_failed() -> None:
    records = [record(1, kind="answer", made=outcome(verdict(S))), record(2, kind="answer")]
    found = summary(records)
    assert (value(found, "accuracy"), n(found, "accuracy"), value(found, "failure_rate")) == (None, 0, 0.5)


def test_a_failed_answer_that_was_given_is_known_to_have_been_false() -> None:
    records = [record(1, kind="answer", label=C), record(2, kind="answer", label=S)]
    found = summary(records)
    names = ("hallucination_rate_before", "accuracy", "hallucination_rate_after")
    assert [(value(found, m), n(found, m)) for m in names] == [(0.5, 2), (0.0, 2), (0.0, 2)]


def test_methods_without_an_item_in_common_are_not_compared() -> None:
    records = [question(1, False, False, method="base"), question(2, False, True, method="m", flagged=True)]
    assert summary(records)["tests"] == []


def test_a_judge_that_wrote_the_answers_is_named() -> None:
    models = {"verifier": "onnx:deberta", "chat": "local:small"}
    shared: dict[str, Any] = {"judge": "chat:local:small", "models": models}
    notes = summary([question(1, True, True, **shared)])["notes"]
    assert notes[0] == "The judge is the chat model that wrote the answers (local:small)."

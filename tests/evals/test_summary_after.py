"""What is said of answers before and after they were changed, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.eval_records import C, S, U, claim, judged, outcome, question, record, verdict
from tests.summing import ANSWERS, n, summary, value

from corrigenda.evals.records import Record

SAME_ITEMS = ("accuracy", "hallucination_rate_before", "hallucination_rate_after", "abstention_rate", "undecided_rate")


def rates(found: dict[str, Any], method: str = "m") -> list[tuple[Any, Any]]:
    return [(value(found, metric, method), n(found, metric, method)) for metric in SAME_ITEMS]


LABELLED = [
    record("whole, right", kind="answer", label=S, made=outcome(), before=judged(True), after=judged(True)),
    record("whole, wrong", kind="answer", label=C, made=outcome(), before=judged(False), after=judged(False)),
    record("sentences, right", kind="answer", sentence_labels=(S, S), made=outcome()),
    record("sentences, wrong", kind="answer", sentence_labels=(S, C), made=outcome()),
    record("a sentence open", kind="answer", sentence_labels=(S, None), made=outcome()),
    record("nobody knows", kind="answer", label=U, made=outcome(), before=judged(None), after=judged(None)),
    record("no label", kind="answer", made=outcome()),
]


def test_what_is_said_of_answers_before_and_after_is_over_the_same_answers() -> None:
    found = summary(LABELLED)
    assert rates(found) == [(0.5, 4), (0.5, 4), (0.5, 4), (0.0, 4), (0.0, 4)]
    assert (value(found, "unjudged_rate"), n(found, "unjudged_rate")) == (0.0, 4)
    assert (value(found, "net"), n(found, "net")) == (0, 4)


def test_failed_answers_are_counted_where_the_others_of_their_labels_are() -> None:
    failed = [record(r.item, kind="answer", label=r.label, sentence_labels=r.sentence_labels) for r in LABELLED]
    assert rates(summary(failed)) == [(0.0, 4), (0.5, 4), (0.0, 4), (0.0, 4), (0.0, 4)]
    asked = record("asked", kind="answer", made=outcome(), before=judged(True), after=judged(True))
    # Answers without a label are judged here, so that the two failed ones without any (or a whole one) would have been.
    assert [count for _, count in rates(summary([*failed, asked]))] == [7, 7, 7, 7, 7]


def test_a_changed_answer_that_nothing_judges_is_in_no_rate_before_or_after() -> None:
    changed = outcome(final="B.")
    records = [
        *LABELLED,
        record("changed, no list", kind="answer", label=C, made=changed, before=judged(False)),
        record("changed sentences", kind="answer", sentence_labels=(S, C), made=changed),
        record("changed, judged", kind="answer", label=C, made=changed, before=judged(False), after=judged(True)),
    ]
    found = summary(records)
    assert rates(found) == [(3 / 5, 5), (3 / 5, 5), (2 / 5, 5), (0.0, 5), (0.0, 5)]
    assert (value(found, "unjudged_rate"), n(found, "unjudged_rate")) == (pytest.approx(2 / 7), 7)
    assert (value(found, "false_fixed"), value(found, "true_broken"), n(found, "net")) == (1, 0, 5)
    assert found["counts"]["m"]["unjudged_after"] == 2
    assert (
        "2 of 10 answers were changed by m with nothing to judge them by; they are in no accuracy and no hallucination "
        "rate, so only the paired tests compare like with like (--no-correct changes nothing)." in found["notes"]
    )
    assert (value(found, "changed_rate"), n(found, "changed_rate")) == (pytest.approx(3 / 10), 10)


def test_an_unchanged_answer_is_as_wrong_after_as_before_whatever_the_judge_says() -> None:
    made = record(1, kind="answer", sentence_labels=(S, C), made=outcome(), before=judged(True), after=judged(True))
    found = summary([made])
    assert rates(found) == [(0.0, 1), (1.0, 1), (1.0, 1), (0.0, 1), (0.0, 1)]
    assert (value(found, "false_fixed"), value(found, "net")) == (0, 0)


def test_a_change_that_nothing_judges_decides_no_test() -> None:
    records = [record(i, "base", kind="answer", sentence_labels=(S,), made=outcome()) for i in range(4)]
    changed = outcome(final="B.", flagged=True)
    records += [record(i, "m", kind="answer", sentence_labels=(S,), made=changed) for i in range(3)]
    records += [record(3, "m", kind="answer", sentence_labels=(S,), made=outcome(flagged=False))]
    (test,) = [test for test in summary(records)["tests"] if test["measure"] == "accuracy"]
    assert (test["n"], test["only_first"], test["only_second"]) == (1, 0, 0)


MIXED = [
    *(question(f"q{i}", i % 3 == 0, i % 2 == 0, method=m, flagged=False) for m in ("base", "m") for i in range(9)),
    *(record(f"c{i}", "base", label=C if i % 2 else S, made=outcome()) for i in range(7)),
    *(claim(f"c{i}", C if i % 2 else S, C, method="claims only") for i in range(7)),
]


def test_accuracy_in_mixed_data_is_that_of_answers_under_every_method() -> None:
    found = summary(MIXED)
    shown = {name: (value(found, "accuracy", name), n(found, "accuracy", name)) for name in found["methods"]}
    assert shown == {"base": (5 / 9, 9), "m": (5 / 9, 9), "claims only": (None, 0)}
    assert value(found, "claim_accuracy", "claims only") == pytest.approx(3 / 7)
    assert value(found["parts"]["claim"], "accuracy", "claims only") == pytest.approx(3 / 7)


def test_the_same_answers_have_the_same_interval_whatever_else_a_method_was_run_on() -> None:
    found = summary(MIXED)
    for metric in ("accuracy", "hallucination_rate_before", "true_broken", "net_rate"):
        assert found["methods"]["base"][metric] == found["methods"]["m"][metric]
        assert found["methods"]["base"][metric] == found["parts"]["question"]["methods"]["base"][metric]
    labelled = [claim(f"c{i}", C if i % 2 else S, C, method="base") for i in range(7)]
    others = [r for r in MIXED if r.method != "base" or r.kind != "claim"]
    found = summary([*others, *labelled])
    for metric in ("claim_accuracy", "claim_f1", "three_way_accuracy", "claim_auroc"):
        assert found["methods"]["base"][metric] == found["methods"]["claims only"][metric]


def rewritten(item: object, label: Any, after: bool | None, said: Any, **more: Any) -> Record:
    """A claim that might be rewritten; it was where `after` (the judge's word, or the label's) is not the label's."""
    gold = {S: True, C: False}.get(label)
    made = outcome(verdict(said), final=None if after == gold else "B.")
    return record(item, label=label, made=made, before=judged(gold), after=judged(after), **more)


CORRECTED = [
    rewritten(1, C, True, C),  # fixed
    rewritten(2, C, False, S),
    rewritten(3, S, True, S),
    rewritten(4, S, False, C),  # broken
    rewritten(5, S, None, C),  # the judge could not tell
    rewritten(6, U, None, U),
    record(7, label=C),
]


def test_claims_that_were_rewritten_are_counted_as_answers() -> None:
    found = summary(CORRECTED)
    assert rates(found) == [(2 / 6, 6), (3 / 6, 6), (2 / 6, 6), (0.0, 6), (1 / 6, 6)]
    assert (value(found, "true_broken"), value(found, "false_fixed"), n(found, "net")) == (1, 1, 4)
    assert (value(found, "claim_accuracy"), n(found, "claim_accuracy")) == (2 / 6, 6)  # 1 3; of detection
    base = [
        record(i, "base", label=label, made=outcome(), before=judged(g), after=judged(g))
        for i, label, g in ((1, C, False), (2, C, False), (3, S, True))
    ]
    tests = summary([*base, *CORRECTED])["tests"]
    assert [(t["measure"], t["n"], t["only_first"], t["only_second"]) for t in tests] == [("accuracy", 3, 0, 1)]


def test_rewritten_claims_beside_questions_are_in_their_own_part_alone() -> None:
    found = summary([*ANSWERS, *CORRECTED])
    assert rates(found) == rates(summary(ANSWERS))
    assert (value(found, "net"), n(found, "net")) == (0, 4)
    assert rates(found["parts"]["claim"]) == rates(summary(CORRECTED))

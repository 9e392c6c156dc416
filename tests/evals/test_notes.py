"""What a reader must know first: what failed without a record failing, and each thing once for all methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.eval_records import C, F, N, S, U, claim, judged, outcome, question, record, verdict

from corrigenda.evals.failures import judge_failed, judge_failures, nothing_measured, unscored
from corrigenda.evals.judge import broken, failure
from corrigenda.evals.notes import notes_on
from corrigenda.evals.records import Judgement, Record

BROKEN = broken(ValueError("out of order"))
ROUGH = "With 2 independent groups the intervals are rough, and too narrow near 0 and 1."


def asked(item: object, before: Judgement | None, after: Judgement | None, **more: Any) -> Record:
    """A record of a question whose answer is changed where the two judgements are not the same."""
    changed = "B." if before is not after else None
    return record(item, kind="question", made=outcome(final=changed), before=before, after=after, **more)


def unchecked(item: object, method: str, *reasons: str | None) -> Record:
    """A record of claims that could not be scored, for these reasons, and of one that is an opinion."""
    claims = [replace(verdict(F), reason=reason) for reason in reasons]
    return record(item, method, made=outcome(*claims, verdict(N), flagged=None))


# The judge ----------------------------------------------------------------------------------------------------------


def test_a_judge_that_failed_is_told_first_with_its_most_frequent_reason() -> None:
    fine, gold = judged(True), replace(judged(True), details={"judge": "gold"})
    records = [
        asked(1, BROKEN, BROKEN, method="base"),
        asked(1, BROKEN, failure("unreadable"), method="m"),
        asked(2, BROKEN, fine, method="base"),
        asked(2, fine, fine, method="m"),
        asked(3, judged(None, abstained=True), fine, method="base"),
        asked(4, gold, gold, method="base"),
        asked(5, None, None, method="base"),
    ]
    reasons, number = judge_failures(records)
    assert (reasons, number) == ([BROKEN.reason, "unreadable", BROKEN.reason], 5)
    assert notes_on(records)[0] == (
        "The judge failed on 3 of 5 answers, which are undecided (most often, 2 times: ValueError: out of order); "
        "--retry-failed judges them anew."
    )
    assert [judge_failed(r) for r in records] == [True, True, True, False, False, False, False]


def test_answers_not_judged_either_way_are_counted_among_those_with_something_to_judge() -> None:
    records = [
        *(question(i, None if i < 2 else True, None if i < 2 else True, method=m) for i in range(4) for m in "ab"),
        *(claim(f"c{i}", C, C, method=m) for i in range(96) for m in "ab"),
        question(9, False, None, method="late"),
    ]
    found = [note for note in notes_on(records) if "judged either way" in note]
    assert found == [
        "2 of 4 final answers of a, b were not judged either way.",
        "1 of 1 final answers of late were not judged either way.",
    ]


def test_an_answer_whose_gold_label_is_open_is_none_that_was_not_judged() -> None:
    gold = replace(judged(None), details={"judge": "gold"})
    given: dict[str, Any] = {"kind": "answer", "label": U, "made": outcome()}
    records = [record(1, before=gold, after=gold, **given), record(2, before=gold, after=judged(None), **given)]
    assert notes_on(records)[-1] == "1 of 1 final answers of m were not judged either way."


# The methods --------------------------------------------------------------------------------------------------------


def test_claims_that_could_not_be_scored_are_told_once_for_all_methods_alike() -> None:
    records = [
        *(unchecked(item, method, "too long", "x") for item in (1, 2) for method in ("nli-fixed", "corrigenda")),
        claim(1, C, C, method="other"),
        unchecked(2, "other", None),
    ]
    assert notes_on(records)[:2] == [
        "4 of 4 claims of nli-fixed, corrigenda could not be scored (too long).",
        "1 of 2 claims of other could not be scored (no reason was recorded).",
    ]
    assert [unscored(r) for r in records] == [True, True, True, True, False, True]
    assert not unscored(record(1, made=outcome(verdict(N))))
    assert not unscored(record(1))


def test_the_same_note_on_several_methods_is_one() -> None:
    records = [
        *(replace(claim(i, S, None, method=m), reason=reason) for m in "abc" for i, reason in ((1, "{x}"), (2, "{x}"))),
        *(claim(i, S, S, 7.0, method=m) for m in "de" for i in (1, 2)),
    ]
    found = notes_on(records)
    assert found == [
        "2 of 2 records of a, b, c failed and stay in the denominator (most often, 2 times: {x}).",
        ROUGH,
        "Scores of d, e are no probabilities, so there is no calibration error.",
    ]


# Scripted models ----------------------------------------------------------------------------------------------------


def test_scripted_models_are_named_and_their_times_called_simulated() -> None:
    models = {"chat": "scripted:chat.json", "verifier": "chat:scripted:v.json (not calibrated)"}
    note = (
        "The models are scripted (scripted:chat.json, scripted:v.json (not calibrated)); times and rates are "
        "simulated, not measured."
    )
    assert notes_on([claim(1, C, C, models=models, judge="nli:scripted:chat.json")])[0] == note
    real = {"chat": "local:x", "verifier": "onnx:y"}
    assert notes_on([claim(1, C, C, models=real, judge="nli:scripted:z"), claim(2, C, C, models=real)])[0] == (
        "The models are scripted (scripted:z); times and rates are simulated, not measured."
    )
    assert notes_on([claim(1, C, C, models=real), claim(2, C, C, models=real)]) == [ROUGH]


# A run that says nothing --------------------------------------------------------------------------------------------


def test_when_a_run_measured_nothing() -> None:
    failed, unread = record(1), unchecked(1, "m", "x")
    fine, lost = asked(1, judged(True), judged(True)), asked(2, BROKEN, BROKEN)
    assert nothing_measured([failed, record(2)]) == "every record failed"
    assert nothing_measured([failed, unread]) == "no claim could be scored"
    assert nothing_measured([fine, unread]) == "no claim could be scored"
    assert nothing_measured([lost, failed]) == "the judge failed on every answer"
    for said in ([fine, failed], [fine, lost], [claim(1, C, C), unread], [record(1, made=outcome(verdict(N)))]):
        assert nothing_measured(said) is None

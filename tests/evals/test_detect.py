from __future__ import annotations

from typing import Any

import pytest
from tests.eval_records import C, F, N, S, U, claim, judged, outcome, question, record, verdict

from corrigenda.evals.detect import (
    Confusion,
    answer_units,
    claim_units,
    confusion,
    false_before,
    repeat_weights,
    three_way,
    unattributed,
    verdict_counts,
)
from corrigenda.evals.records import Record


def test_every_cell_of_the_table() -> None:
    records = [
        claim("found", C, C),
        claim("missed", C, S),
        claim("missed, undecided", C, U),
        claim("missed, the check broke", C, F),
        claim("missed, the item failed", C, None),
        claim("false alarm", S, C),
        claim("right", S, S),
        claim("right, undecided", S, U),
        claim("right, not checkable", S, N),
        claim("wrong, the check broke", S, F),
        claim("wrong, the item failed", S, None),
        claim("left out", U, C),
        claim("left out, failed", U, None),
    ]
    found = confusion(claim_units(records))
    assert found == Confusion(tp=1, fp=1, fn=4, tn=3, failed_negative=2, left_out=2)
    assert found.n == 11
    assert sum(unit.right for unit in claim_units(records)) == 4
    assert sum(unit.counted for unit in claim_units(records)) == 11


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], None),
        ([S, S], S),
        ([S, C], C),
        ([F, C], C),
        ([S, F], F),
        ([S, U], U),
        ([S, N], S),
        ([N, N], N),
    ],
)
def test_several_verdicts_as_one(verdicts: list[object], expected: object) -> None:
    assert three_way(verdicts) is expected  # type: ignore[arg-type]


def test_a_claim_in_several_parts_is_flagged_by_any_and_has_the_highest_score() -> None:
    made = outcome(verdict(S, 0.1), verdict(C, 0.9), verdict(F))
    (unit,) = claim_units([record(1, label=C, made=made)])
    assert (unit.flagged, unit.verdict, unit.score, unit.failed, unit.gold) == (True, C, 0.9, False, True)


def test_a_method_without_verdicts_is_taken_at_its_word_about_the_answer() -> None:
    records = [record(i, label=C, made=outcome(flagged=flagged)) for i, flagged in enumerate((True, False))]
    assert [(u.flagged, u.verdict, u.failed) for u in claim_units(records)] == [
        (True, None, False),
        (False, None, False),
    ]


def test_a_method_that_says_nothing_has_no_units() -> None:
    records = [record(1, label=C, made=outcome()), record(2, label=S, made=None)]
    assert claim_units(records) == []
    assert answer_units([question(1, False, False)]) == []


def test_a_method_of_which_every_item_failed_is_wrong_everywhere() -> None:
    found = confusion(claim_units([claim(1, C, None), claim(2, S, None)]))
    assert found == Confusion(fn=1, failed_negative=1)


def test_silence_on_a_claim_is_a_failure_where_the_method_otherwise_speaks() -> None:
    units = claim_units([claim(1, C, S), record(2, label=C, made=outcome())])
    assert [(u.failed, u.flagged) for u in units] == [(False, False), (True, False)]


def test_a_labelled_sentence_is_flagged_when_any_of_its_verdicts_is_contradicted() -> None:
    made = outcome(
        verdict(S, 0.1, sentence=0), verdict(C, 0.8, sentence=0), verdict(S, 0.2, sentence=1), verdict(F, sentence=3)
    )
    given = record(1, kind="answer", sentence_labels=(C, S, None, S, C, U), made=made)
    units = claim_units([given])
    assert [(u.sentence, u.flagged, u.verdict, u.score, u.failed) for u in units] == [
        (0, True, C, 0.8, False),
        (1, False, S, 0.2, False),
        (3, False, F, None, True),
        (4, False, N, None, False),  # no claim was found in it: missed
        (5, False, N, None, False),
    ]
    assert confusion(units) == Confusion(tp=1, fn=1, tn=1, failed_negative=1, left_out=1)


def test_the_sentences_of_a_failed_answer_are_failed() -> None:
    ok = record(1, kind="answer", sentence_labels=(S,), made=outcome(verdict(S)))
    lost = record(2, kind="answer", sentence_labels=(C, S))
    assert confusion(claim_units([ok, lost])) == Confusion(tn=1, fn=1, failed_negative=1)


def test_verdicts_on_the_answer_as_a_whole_are_no_sentence_verdicts() -> None:
    whole = record(1, kind="answer", sentence_labels=(C, S), made=outcome(verdict(C, sentence=None)))
    assert claim_units([whole]) == []
    assert unattributed(whole) == 1
    beyond = record(
        1, kind="answer", sentence_labels=(C,), made=outcome(verdict(C, sentence=0), verdict(S, sentence=1))
    )
    assert unattributed(beyond) == 1
    assert unattributed(claim(1, C, C)) == 0


def test_answers_are_false_by_their_labels_else_by_the_judge() -> None:
    def given(**more: Any) -> bool | None:
        return false_before(record(1, kind="answer", made=outcome(), **more))

    assert given(label=C, before=judged(True)) is True
    assert given(label=S, before=judged(False)) is False
    assert given(label=U, before=judged(False)) is None
    assert given(sentence_labels=(S, C, None), before=judged(True)) is True
    assert given(sentence_labels=(S, S)) is False
    assert given(sentence_labels=(S, None), before=judged(False)) is True
    assert given(before=judged(None)) is None
    assert given() is None


def test_answer_units() -> None:
    records = [
        question("found", False, True, flagged=True),
        question("missed", False, False, flagged=False),
        question("false alarm", True, True, flagged=True),
        question("right", True, True, flagged=False),
        question("left out", None, None, flagged=True),
        record("failed", kind="question"),
        question("says nothing of this one", True, True),
    ]
    units = answer_units(records)
    assert confusion(units) == Confusion(tp=1, fp=1, fn=1, tn=1, failed_negative=1, failed_unknown=1, left_out=1)
    assert [u.counted for u in units] == [True, True, True, True, False, True, True]
    assert [u.right for u in units] == [True, False, False, True, False, False, False]


def test_an_answer_whose_every_check_failed_is_failed() -> None:
    made = outcome(verdict(F), verdict(N), flagged=False)
    units = answer_units([record(1, kind="question", made=made, before=judged(True))])
    assert [(u.failed, u.flagged) for u in units] == [(True, False)]


def test_claims_are_no_answers_and_questions_have_no_labelled_claims() -> None:
    assert answer_units([claim(1, C, C)]) == []
    assert claim_units([question(1, False, True, flagged=True)]) == []


def test_repeats_share_the_weight_of_their_item() -> None:
    records: list[Record] = [claim(1, C, C, repeat=r) for r in range(3)] + [claim(1, C, S, repeat=3), claim(2, S, S)]
    assert sorted(repeat_weights(records).values()) == [0.25, 1.0]
    assert confusion(claim_units(records)) == Confusion(tp=0.75, fn=0.25, tn=1)


def test_groups_are_per_data_set_and_an_item_without_one_is_its_own() -> None:
    units = claim_units([claim(1, C, C, group="g"), claim(2, C, C), claim(1, C, C, dataset="e", group="g")])
    assert [u.group for u in units] == ["d\0g", "d\x002", "e\0g"]


def test_verdicts_are_counted() -> None:
    assert verdict_counts([claim(1, C, C), claim(2, C, S), claim(3, C, C), claim(4, S, None)]) == {C: 2, S: 1}

"""The labelled pairs that the chat verifier is fitted to: reading, grouping, and neutral pairs that are made."""

from pathlib import Path

import pytest

from corrigenda.calibrate_nli.pairs import Labelled, groups, linked, neutral_pairs, read_pairs, shipped_neutral_pairs
from corrigenda.errors import InputError
from corrigenda.types import Pair
from tests.nli_pairs import write_pairs as write


def labelled(premise: str, hypothesis: str, label: int) -> Labelled:
    return Labelled(pair=Pair(premise=premise, hypothesis=hypothesis), label=label)


def test_both_ways_of_naming_labels_are_read_and_evidence_lists_are_joined(tmp_path: Path) -> None:
    path = write(
        tmp_path / "d.jsonl", [("a", "x", "SUPPORTS"), ("b", ["y", "z"], "contradiction"), ("c", "w", "Neutral")]
    )
    assert read_pairs(path) == [labelled("x", "a", 0), labelled("y z", "b", 2), labelled("w", "c", 1)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"claim": "a", "evidence": "x", "label": "MAYBE"}', r"line 1: needs 'claim'.*KeyError: 'MAYBE'"),
        ('{"claim": "a", "label": "SUPPORTS"}', "line 1: needs 'claim'.*KeyError: 'evidence'"),
        ('{"claim": 5, "evidence": "x", "label": "SUPPORTS"}', "line 1: needs 'claim'.*TypeError"),
        ("[]", "line 1: needs 'claim'.*TypeError"),
        ("{", "line 1: needs 'claim'.*JSONDecodeError"),
        ("", "has no rows"),
    ],
)
def test_bad_data_are_refused_with_their_place(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(line)
    with pytest.raises(InputError, match=message):
        read_pairs(path)


def test_a_text_may_hold_what_unicode_calls_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"claim": "a\u2028b", "evidence": "x\x85y", "label": "SUPPORTS"}\r\n', "utf-8")
    assert read_pairs(path) == [labelled("x\x85y", "a\u2028b", 0)]


def test_the_tokenisation_of_fever_is_undone_where_most_rows_show_it(tmp_path: Path) -> None:
    shown = [("Rome 's old .", "A -LRB- b -RRB- .", "SUPPORTS"), ("Is it ?", "It is n't .", "REFUTES")]
    plain = ("a '' b", "c -- d", "SUPPORTS")
    assert read_pairs(write(tmp_path / "d.jsonl", [*shown, plain])) == [
        labelled("A (b).", "Rome's old.", 0),
        labelled("It isn't.", "Is it?", 2),
        labelled("c -- d", 'a" b', 0),
    ]
    assert read_pairs(write(tmp_path / "e.jsonl", [shown[0], plain]))[0] == labelled(
        "A -LRB- b -RRB- .", "Rome 's old .", 0
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data file '.*none\.jsonl' cannot be read"):
        read_pairs(tmp_path / "none.jsonl")


def test_rows_are_linked_by_any_key_they_share() -> None:
    assert linked([["a", "b"], ["c"], [], ["d", "c"], [], ["b", "e", "f"], ["f"]]) == [0, 1, 2, 1, 3, 0, 0]


def test_rows_that_share_a_text_by_way_of_others_are_one_group() -> None:
    rows = [labelled("P", "a", 0), labelled("Q", "b", 0), labelled("Q", "a", 2), labelled("a", "P", 0)]
    assert groups(rows) == [0, 0, 0, 1]


def test_neutral_pairs_join_unrelated_texts_that_share_words() -> None:
    rows = [
        labelled("The harbour of Split lies on the Adriatic.", "Split has a harbour.", 0),
        labelled("The Adriatic is a sea.", "The Adriatic is a lake.", 2),
    ]
    expected = {
        labelled("The harbour of Split lies on the Adriatic.", "The Adriatic is a lake.", 1),
        labelled("The Adriatic is a sea.", "Split has a harbour.", 1),
    }
    assert set(neutral_pairs(rows)) == expected


def test_vague_evidence_and_unrelated_texts_make_no_neutral_pairs() -> None:
    vague = [
        labelled("It has a harbour.", "Split is a town.", 0),
        labelled("He left the harbour.", "The harbour is old.", 2),
    ]
    assert neutral_pairs(vague) == []
    assert (
        neutral_pairs([labelled("Cork floats.", "Cork is light.", 0), labelled("Lead sinks.", "Lead is heavy.", 2)])
        == []
    )


def test_the_shipped_neutral_pairs_are_neutral_and_distinct() -> None:
    rows = shipped_neutral_pairs()
    assert len(set(rows)) == len(rows) >= 30
    assert {row.label for row in rows} == {1}

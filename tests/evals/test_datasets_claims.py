"""Claims with their evidence: any JSONL file, and the published ones as they are."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corrigenda.errors import InputError
from corrigenda.evals.datasets import load
from corrigenda.evals.datasets.claims import read
from corrigenda.evals.datasets.files import Source
from corrigenda.evals.items import DataSet, Item
from corrigenda.types import Reference, Verdict


def source(*rows: dict[str, Any]) -> Source:
    return Source(name="folder/mine.jsonl", data="".join(json.dumps(row) + "\n" for row in rows).encode())


def row(claim: str = "Rome has hills.", evidence: Any = "Rome has seven hills.", **more: Any) -> dict[str, Any]:
    return {"claim": claim, "evidence": evidence, "label": "SUPPORTS", **more}


def contexts(*rows: dict[str, Any], **options: Any) -> list[list[str]]:
    return [[reference.text for reference in item.contexts or ()] for item in read(source(*rows), **options).items]


def test_a_row_becomes_a_claim_with_its_evidence() -> None:
    data = read(source(row(id=5, category="hills", tags={"level": "easy"}), row("Rome is old.", label="neutral")))
    evidence = (Reference(text="Rome has seven hills.", source="evidence"),)
    assert data.items == (
        Item(
            id="5",
            kind="claim",
            answer="Rome has hills.",
            contexts=evidence,
            label=Verdict.SUPPORTED,
            group="5",
            tags={"level": "easy", "category": "hills"},
        ),
        Item(
            id="line-2",
            kind="claim",
            answer="Rome is old.",
            contexts=evidence,
            label=Verdict.UNVERIFIED,
            group="5",
        ),
    )
    assert (data.name, data.source, data.notes) == ("claims:mine", "folder/mine.jsonl", ())
    assert data.counts == {"rows": 2, "duplicate": 0, "incomplete": 0, "kept": 2, "without_evidence": 0}


def test_a_list_is_read_as_one_text_and_a_list_of_lists_as_alternatives() -> None:
    assert contexts(
        row(evidence=["One.", "", " Two. "]),
        row(evidence=[["One.", "Two."], ["Three."], "Four.", ["Three."]]),
    ) == [["One. Two."], ["One. Two.", "Three.", "Four."]]
    named = read(source(row(evidence=[["One."], ["Two."]]))).items[0].contexts or ()
    assert [reference.source for reference in named] == ["evidence 1", "evidence 2"]


def test_incomplete_rows_are_dropped_and_counted_and_exact_repetitions_too() -> None:
    data = read(
        source(
            row(id=1), row(id=1), row(" "), row(evidence=""), row(evidence=[]), row("Not known.", None, label="NEUTRAL")
        )
    )
    assert [(item.id, item.contexts) for item in data.items] == [
        ("1", (Reference(text="Rome has seven hills.", source="evidence"),)),
        ("line-6", ()),
    ]
    assert data.counts == {"rows": 6, "duplicate": 1, "incomplete": 3, "kept": 2, "without_evidence": 1}
    assert data.notes == (
        "claims without evidence: 1 of 2; there is nothing to check them against, and a method that checks against "
        "evidence leaves them unverified",
    )


def test_rows_that_share_a_text_are_one_group() -> None:
    data = read(
        source(
            row("A.", "One.", id="z"),
            row("A.", "Two.", id="y"),
            row("B.", [["Two."], ["Three."]], id="x"),
            row("C.", "Four.", id="w"),
            row("D.", [], id="v", label="NEUTRAL"),
            row("E.", [], id="u", label="NEUTRAL"),
        )
    )
    assert [item.group for item in data.items] == ["x", "x", "x", "w", "v", "u"]


TOKENS = row("Rome 's hills are old .", "Rome -LRB- Italy -RRB- has `` seven '' hills .")
PLAIN = row("It is.", "It is so .")


def test_the_tokenisation_of_fever_is_undone_where_most_rows_show_it() -> None:
    data = read(source(TOKENS))
    assert (data.items[0].answer, data.notes) == (
        "Rome's hills are old.",
        ("FEVER's tokenisation of claims and evidence was undone",),
    )
    undone, left = 'Rome (Italy) has "seven" hills.', "Rome -LRB- Italy -RRB- has `` seven '' hills ."
    assert contexts(TOKENS) == [[undone]]
    assert contexts(TOKENS, row()) == [[left], ["Rome has seven hills."]]
    assert contexts(TOKENS, row(), PLAIN) == [[undone], ["Rome has seven hills."], ["It is so."]]
    assert contexts(TOKENS, row(), detokenise="on") == [[undone], ["Rome has seven hills."]]
    assert contexts(TOKENS, detokenise="off") == [[left]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"claim": "A.", "label": "SUPPORTS"},
            r"'folder/mine\.jsonl', line 2: column 'evidence' is missing; needed are ",
        ),
        (
            row(label="PERHAPS"),
            r"line 2: 'label' is 'PERHAPS', which is no known label; write one of SUPPORTS, REFUTES, ",
        ),
        (row(label=None), r"line 2: 'label' is None, which is no known label"),
        (row() | {"claim": ["A."]}, r"line 2: 'claim' must be a text, got \['A\.'\]"),
        (row(evidence={"text": "A."}), r"line 2: 'evidence' must be a text, got \{'text': 'A\.'\}"),
        (
            row(evidence=[[[1, 2, "Rome", 0]]]),
            r"line 2: 'evidence' names pages, as FEVER's own files do; use the data set ",
        ),
        (row(id=1, claim="Other."), r"line 2: the id '1' was used on line 1 already"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(source(row(id=1), bad))


def test_a_file_without_a_complete_row_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"'folder/mine\.jsonl' has no complete row: each needs 'claim', 'evidence', 'lab"
    ):
        read(source(row(evidence="")))
    with pytest.raises(InputError, match=r"detokenise must be one of auto, on, off, got 'yes'"):
        read(source(row()), detokenise="yes")


def labels(data: DataSet) -> dict[str, int]:
    return dict(Counter(str(item.label) for item in data.items))


def test_the_published_files_as_they_are(shared_data: Path) -> None:
    def read_file(name: str) -> DataSet:
        return load("claims", path=shared_data / f"{name}.jsonl")

    symmetric, fool, climate = map(read_file, ("fever_symmetric_dev", "fool_me_twice_dev", "climate_fever_pairs"))
    nothing_lost = {"duplicate": 0, "incomplete": 0, "without_evidence": 0}
    assert symmetric.counts == {"rows": 708, "kept": 708, "items": 708, **nothing_lost}
    assert fool.counts == {"rows": 1169, "kept": 1169, "items": 1169, **nothing_lost}
    assert climate.counts == {"rows": 7675, "kept": 7675, "items": 7675, **nothing_lost}
    assert labels(symmetric) == {"supported": 354, "contradicted": 354}
    assert labels(fool) == {"supported": 596, "contradicted": 573}
    assert labels(climate) == {"unverified": 4930, "supported": 1943, "contradicted": 802}
    assert symmetric.notes == ("FEVER's tokenisation of claims and evidence was undone",)
    assert (fool.notes, climate.notes) == ((), ())
    assert symmetric.items[0].answer == "Daggering is associated with the genre of death metal."
    assert len({item.group for item in symmetric.items}) == 163

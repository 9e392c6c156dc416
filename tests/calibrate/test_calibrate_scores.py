"""Reading labelled scores: what is taken from records and plain files, and what a mistake in them says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.eval_records import C, N, S, U, claim, outcome, record, reported, scored, verdict

from corrigenda.calibrate.scores import LabelledScore, read_scores
from corrigenda.errors import InputError
from corrigenda.evals import store
from corrigenda.evals.records import Record

NLI: dict[str, Any] = {"models": {"verifier": "onnx:tiny", "chat": None}, "method": "corrigenda"}


def rows(path: Path, *values: Any) -> Path:
    path.write_text("\n".join(json.dumps(value) for value in values) + "\n", "utf-8")
    return path


def run(folder: Path, records: Sequence[Record]) -> Path:
    folder.mkdir()
    (folder / store.RECORDS).write_text("".join(store.to_line(r) + "\n" for r in records), "utf-8")
    return folder


def told(scores: Sequence[LabelledScore]) -> list[tuple[float | None, Any, str]]:
    return [(s.signed, s.label, s.group) for s in scores]


def test_plain_rows_are_claims_of_their_own_unless_they_say_otherwise(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "s.jsonl",
        {"signed": 0.9, "label": "SUPPORTS"},
        {"signed": -1, "label": "contradicted", "answer": "a", "group": "g"},
        {"signed": None, "label": "not_enough_info", "answer": "a", "group": "g"},
        {"signed": -0.5, "label": False, "answer": 7},
        {"signed": 0.1, "label": None, "answer": 7, "note": "in µ and σ alone"},
    )
    data = read_scores([path])
    here = str(path)
    assert data.scores == (
        LabelledScore(signed=0.9, label=S, answer=f"{here}:1", group=f"{here}:1", unit=f"{here}:1"),
        LabelledScore(signed=-1.0, label=C, answer=f"{here}:a", group="g", unit=f"{here}:2"),
        LabelledScore(signed=None, label=U, answer=f"{here}:a", group="g", unit=f"{here}:3"),
        LabelledScore(signed=-0.5, label=C, answer=f"{here}:7", group=f"{here}:7", unit=f"{here}:4"),
        LabelledScore(signed=0.1, label=None, answer=f"{here}:7", group=f"{here}:7", unit=f"{here}:5"),
    )
    assert data.verifier is None
    assert [(s.name, s.sha256) for s in data.sources] == [("s.jsonl", hashlib.sha256(path.read_bytes()).hexdigest())]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"signed": 0.5}, r"s\.jsonl', line 1: column 'label' is missing"),
        ({"label": "supported"}, r"s\.jsonl', line 1: column 'signed' is missing"),
        ({"signed": 1.5, "label": "supported"}, "line 1: 'signed' must be a number from -1 to 1, or null, got 1.5"),
        ({"signed": True, "label": "supported"}, "'signed' must be a number from -1 to 1, or null, got True"),
        ({"signed": "0.5", "label": "supported"}, "'signed' must be a number from -1 to 1, or null, got '0.5'"),
        ({"signed": 0.5, "label": "maybe"}, "'label' is 'maybe', which is no known label; write one of"),
        ({"signed": 0.5, "label": 1}, "'label' is 1, which is no known label .data sets number"),
        ({"signed": 0.5, "label": "supported", "group": [1]}, r"'group' must be a text, got \[1\]"),
        ({"signed": 0.5, "label": None}, "there is no labelled claim in .*s.jsonl'; a policy is fitted to records"),
    ],
)
def test_a_wrong_row_is_named(row: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_scores([rows(tmp_path / "s.jsonl", row)])


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the file of scores '.*none\.jsonl' cannot be read: No such file"):
        read_scores([tmp_path / "none.jsonl"])
    with pytest.raises(InputError, match=r"the file of scores '.*records\.jsonl' cannot be read: No such file"):
        read_scores([tmp_path])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match=r"empty\.jsonl' is empty"):
        read_scores([tmp_path / "empty.jsonl"])
    (tmp_path / "text.jsonl").write_text("[[")
    with pytest.raises(InputError, match=r"text\.jsonl', line 1: is not JSON"):
        read_scores([tmp_path / "text.jsonl"])


def test_records_give_the_scores_of_claims_and_of_labelled_sentences(tmp_path: Path) -> None:
    folder = run(
        tmp_path / "out",
        [
            record("c", label=C, made=reported(scored(-0.9)), group="g", **NLI),
            record("failed", label=S, **NLI),
            record(
                "a",
                kind="answer",
                sentence_labels=(C, None, S, U),
                made=reported(scored(-0.8), scored(0.7), scored(0.6, sentence=1), scored(None, sentence=2)),
                **NLI,
            ),
            record("question", kind="question", made=reported(scored(0.9)), **NLI),
        ],
    )
    data = read_scores([folder])
    assert told(data.scores) == [
        (-0.9, C, "d\0g"),
        (None, S, "d\0failed"),
        (-0.8, C, "d\0a"),
        (0.7, C, "d\0a"),  # of the same sentence, which has one label
        (0.6, None, "d\0a"),  # its sentence has no label: it counts in µ and σ
        (None, S, "d\0a"),  # the check broke
        (None, U, "d\0a"),  # a sentence without a claim
    ]
    assert len({s.unit for s in data.scores if s.label is not None}) == 5
    assert data.verifier == "onnx:tiny"
    assert data.notes == ("1 records without labelled claims are left out",)
    assert read_scores([folder / store.RECORDS]).scores == data.scores


def test_one_method_is_taken_and_each_item_once(tmp_path: Path) -> None:
    own = record("c", label=C, made=reported(scored(-0.9)), **NLI)
    others = [
        replace(own, repeat=1, outcome=reported(scored(-0.8))),
        replace(own, method="nli-fixed", outcome=reported(scored(-0.7))),
        claim("c", C, C, 0.6, method="selfcheckgpt"),
    ]
    folder = run(tmp_path / "out", [others[0], own, *others[1:]])
    data = read_scores([folder])
    assert told(data.scores) == [(-0.9, C, "d\0c")]
    assert data.notes == (
        "the scores are those of the method 'corrigenda'",
        "1 repeated records are left out: each item counts once",
    )
    assert told(read_scores([folder], method="nli-fixed").scores) == [(-0.7, C, "d\0c")]
    with pytest.raises(InputError, match="no signed scores of the method 'selfcheckgpt'; there are scores of 'corrig"):
        read_scores([folder], method="selfcheckgpt")


def test_records_without_signed_scores_are_refused(tmp_path: Path) -> None:
    folder = run(tmp_path / "out", [claim("c", C, C, 0.6), record("b", label=S, made=outcome(verdict(N)))])
    with pytest.raises(InputError, match="no signed scores of the method 'corrigenda'; no record has signed scores"):
        read_scores([folder])


def test_scores_of_several_verifiers_or_of_two_kinds_are_not_mixed(tmp_path: Path) -> None:
    one = record("1", label=C, made=reported(scored(-0.9)), **NLI)
    two = record("2", label=C, made=reported(scored(-0.9)), method="corrigenda", models={"verifier": "chat:x"})
    with pytest.raises(InputError, match=r"scores of several verifiers \('chat:x', 'onnx:tiny'\)"):
        read_scores([run(tmp_path / "out", [one, two])])
    plain = rows(tmp_path / "s.jsonl", {"signed": 0.9, "label": "supported"})
    with pytest.raises(InputError, match="records of an evaluation and plain scores cannot be fitted together"):
        read_scores([run(tmp_path / "one", [one]), plain])
    with pytest.raises(InputError, match="both have a record of item '1'"):
        read_scores([tmp_path / "one", run(tmp_path / "again", [one])])

"""Files that cannot be used: each is refused with its place, the value and what to do."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from corrigenda.errors import InputError
from corrigenda.evals.datasets import files, labels
from corrigenda.evals.datasets.files import Row, Source, distinct, json_rows, read, text_of
from corrigenda.types import Verdict

GOOD = '{"claim": "A.", "evidence": "A.", "label": "SUPPORTS"}'


def source(text: str | bytes) -> Source:
    return Source(name="f.jsonl", data=text if isinstance(text, bytes) else text.encode())


def row(**values: object) -> Row:
    return Row(file="f.jsonl", number=3, values=values)


def test_a_file_is_read_with_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"{}\n")
    found = read(path)
    assert (found.data, found.sha256, found.stem) == (b"{}\n", hashlib.sha256(b"{}\n").hexdigest(), "mine")


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"the data set '.*absent' cannot be read: No such file or directory; give the"
    ):
        read(tmp_path / "absent")
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        read(tmp_path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 3)
    path = tmp_path / "large"
    path.write_bytes(b"1234")
    with pytest.raises(InputError, match=r"large' is larger than 3 bytes; split it"):
        read(path)


def test_the_mark_at_the_beginning_and_line_ends_are_no_part_of_the_rows() -> None:
    rows = json_rows(source(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}'))
    assert [(found.number, found.values) for found in rows] == [(1, {"a": 1}), (3, {"a": 2})]


def test_a_text_may_hold_other_line_separators() -> None:
    assert json_rows(source('{"a": "one\u2028two\x85three"}\n'))[0].values == {"a": "one\u2028two\x85three"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"the data set 'f\.jsonl' is empty; give a file with at least one row"),
        (b" \n\n", r"the data set 'f\.jsonl' is empty"),
        (b"\xef\xbb\xbf", r"the data set 'f\.jsonl' is empty"),
        (b'{"a": 1}\n{"a": "caf\xe9"}\n', r"line 2, byte 11: 0xe9 is not UTF-8, as what stands before it is.*iconv -f"),
        (b'\xef\xbb\xbf{"a": 1}\n{"a": "caf\xe9"}\n', r"line 2, byte 11: 0xe9 is not UTF-8"),
        (b"caf\xe9", r"line 1, byte 4: 0xe9 is not UTF-8"),
        (GOOD.encode("utf-16"), r"'f\.jsonl' is UTF-16, not UTF-8; convert it, for instance: iconv -f utf-16"),
        (b'{"a": 1}\n{"a": "\x00"}', r"line 2: holds a NUL byte"),
    ],
)
def test_what_is_no_text_of_one_encoding_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        text_of(source(content))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "nonsense",
            r"'f\.jsonl', line 2: is not JSON \(Expecting value, character 1 of 8\): 'nonsense'; write one JSON",
        ),
        ('{"a": 1,}', r"line 2: is not JSON \(.*character 9 of 9"),
        ('{"a": NaN}', r"line 2: .*NaN is no JSON; leave the value out, or write null"),
        ('{"a": -Infinity}', r"line 2: .*-Infinity is no JSON"),
        ('{"a": 1, "b": 2, "a": 3}', r"line 2: .*'a' stands twice in one object; keep one"),
        ("[1, 2]", r"line 2: must be a JSON object, got \[1, 2\]; a file that is one list becomes lines with: jq -c"),
        ('"claim"', r"line 2: must be a JSON object, got 'claim'"),
        ("[" * 100_000, r"line 2: is not JSON that can be used: it is nested too deep"),
        ('{"a": ' + "9" * 5000 + "}", r"line 2: is not JSON that can be used: Exceeds the limit"),
        ("x" * 500, r"line 2: is not JSON .*: 'x{76}\.\.\.; write"),
    ],
)
def test_a_line_that_is_no_object_is_refused(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        json_rows(source(f"{GOOD}\n{line}\n{GOOD}\n"))


def test_a_line_that_was_cut_is_told_apart_from_one_that_is_wrong() -> None:
    with pytest.raises(InputError, match=r"line 2: is not JSON .*; the file ends in the middle of it: get it anew"):
        json_rows(source(f"{GOOD}\n{GOOD[:30]}"))


def test_values_are_read_as_what_they_must_be() -> None:
    found = row(a=" one ", b=["one", " ", "two"], c=None, d="", id=12)
    assert [found.text(name) for name in "acdx"] == ["one", "", "", ""]
    assert [found.texts(name) for name in "abcx"] == [("one",), ("one", "two"), (), ()]
    assert (found.id(), row().id(), row(id=None).id(), row(id=" x ").id()) == ("12", "line-3", "line-3", "x")
    assert row(category="dates", tags={"level": "easy"}).tags() == {"category": "dates", "level": "easy"}
    assert row(tags=None).tags() == {}


def test_values_that_are_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"'f\.jsonl', line 3: 'a' must be a text, got 5"):
        row(a=5).text("a")
    with pytest.raises(InputError, match=r"line 3: 'a' must be a text, got \['one'\]"):
        row(a=[["one"]]).texts("a")
    with pytest.raises(InputError, match=r"line 3: 'id' must be a text, got True"):
        row(id=True).id()
    with pytest.raises(InputError, match=r"line 3: 'id' is empty; give each row its own"):
        row(id=" ").id()
    with pytest.raises(InputError, match=r"line 3: 'tags' must be an object of texts, got \['x'\]"):
        row(tags=["x"]).tags()
    with pytest.raises(InputError, match=r"line 3: 'tags\.x' must be a text, got 1"):
        row(tags={"x": 1}).tags()
    with pytest.raises(InputError, match=r"line 3: 'a' holds half a character \('\\ud83d'\); write its text anew"):
        row(a=json.loads('"\\ud83d"')).text("a")
    monkeypatch.setattr(files, "MAX_TEXT", 10)
    with pytest.raises(InputError, match=r"line 3: 'a' has 11 characters, more than 10; give only what is needed"):
        row(a="x" * 11).text("a")


def test_a_missing_column_is_named_beside_those_there_are() -> None:
    with pytest.raises(
        InputError,
        match=r"line 3: column 'label' is missing; needed are 'claim', 'label', and the row has 'claim', 'text'",
    ):
        row(claim="A.", text="A.").require("claim", "label")


def test_repetitions_are_dropped_and_an_id_that_comes_twice_is_refused() -> None:
    rows = json_rows(source('{"id": 1, "a": "x"}\n{"a": "x", "id": 1}\n{"a": "x"}\n{"a": "x"}\n{"id": 2, "a": "x"}\n'))
    kept, repeated = distinct(rows)
    assert ([found.number for found in kept], repeated) == ([1, 3, 5], 2)
    with pytest.raises(InputError, match=r"line 2: the id '1' was used on line 1 already, for another row; give each"):
        distinct(json_rows(source('{"id": 1, "a": "x"}\n{"id": "1", "a": "y"}\n')))


def test_labels_are_known_in_any_case_and_nothing_else_is() -> None:
    def of(value: object) -> Verdict:
        return labels.verdict_of(row(), "label", value, labels.CLAIM_LABELS)

    assert {name: str(verdict) for name, verdict in labels.CLAIM_LABELS.items()} == {
        "SUPPORTS": "supported",
        "REFUTES": "contradicted",
        "NOT ENOUGH INFO": "unverified",
        "ENTAILMENT": "supported",
        "NEUTRAL": "unverified",
        "CONTRADICTION": "contradicted",
        "SUPPORTED": "supported",
        "CONTRADICTED": "contradicted",
        "UNVERIFIED": "unverified",
    }
    assert [of(word) for word in (" supports ", "Not_enough_info", "neutral")] == [
        "supported",
        "unverified",
        "unverified",
    ]
    assert labels.verdict_of(row(), "label", False, labels.ANSWER_LABELS) is Verdict.CONTRADICTED
    assert labels.verdict_of(row(), "labels", "minor_inaccurate", labels.SENTENCE_LABELS) is Verdict.CONTRADICTED
    with pytest.raises(
        InputError, match=r"line 3: 'label' is 'maybe', which is no known label; write one of SUPPORTS, "
    ):
        of("maybe")
    with pytest.raises(
        InputError, match=r"'label' is 0, which is no known label \(data sets number their classes diff"
    ):
        of(0)
    for value in (None, True, ["SUPPORTS"], ""):
        with pytest.raises(InputError, match="which is no known label; write one of"):
            of(value)

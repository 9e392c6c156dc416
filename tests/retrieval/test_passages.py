"""From files to passages: whole values for each kind, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.errors import InputError
from corrigenda.retrieval.passages import read, split_text
from corrigenda.retrieval.source import Kind, Source, find
from corrigenda.types import Passage


def collect(path: Path, kind: Kind | None = None, words: int = 100) -> tuple[list[Passage], dict[str, int]]:
    counts: Counter[str] = Counter()
    kind, files = find(path, kind)
    return list(read(Source(path, files), kind, words=words, counts=counts)), dict(counts)


def lines(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "rows.jsonl"
    text = "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


# JSON lines --------------------------------------------------------------------------------------------------------


def test_lines_are_passages(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"id": "a", "text": "One.", "title": "T"},
        "",
        {"id": 2, "contents": "Two.", "title": None, "url": "x"},
        {"id": "c", "text": "\u2028雪国 😀", "title": ""},
    )
    assert collect(path) == (
        [
            Passage(id="a", text="One.", title="T"),
            Passage(id="2", text="Two."),
            Passage(id="c", text="\u2028雪国 😀"),
        ],
        {"passages": 3},
    )


def test_blank_and_repeated_passages_are_left_out_and_counted(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"id": "a", "text": "One."},
        {"id": "b", "text": " \n\u200b"},
        {"id": "a", "text": "Another text under the same id."},
        {"id": "c", "text": " One.\n"},
        {"id": "d", "text": "One.", "title": "T"},
        {"id": "d", "text": "One.", "title": "T"},
    )
    found, counts = collect(path)
    assert [passage.id for passage in found] == ["a", "d"]
    assert counts == {"passages": 2, "blank": 1, "duplicate_ids": 2, "duplicate_texts": 1}


def test_halves_of_characters_do_not_break_a_collection(tmp_path: Path) -> None:
    path = lines(tmp_path, r'{"id": "a\ud800", "text": "b\udfff", "title": "\ud83d\ude00"}')
    assert collect(path)[0] == [Passage(id="a?", text="b?", title="😀")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "b"}, r"rows\.jsonl', line 2: there is no 'text' \(or 'contents'\)"),
        ({"id": "b", "text": None}, r"line 2: there is no 'text'"),
        ({"text": "x"}, r"line 2: 'id' must be a text, got null"),
        ({"id": True, "text": "x"}, r"line 2: 'id' must be a text, got true"),
        ({"id": " ", "text": "x"}, r"line 2: the 'id' is empty"),
        ({"id": "b", "text": ["x"]}, r"line 2: 'text' must be a text, got \[\"x\"\]"),
        ({"id": "b", "text": "x", "title": 3}, r"line 2: 'title' must be a text, got 3"),
        ("[1, 2]", r"line 2: must be a JSON object with 'id' and 'text', got '\[1, 2\]'"),
        ('{"id": "b", "text": "cu', r"line 2: not JSON \(Unterminated string starting at, character 21\)"),
        ("[" * 100_000, r"line 2: not JSON"),
    ],
)
def test_a_line_that_is_no_passage_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        collect(lines(tmp_path, {"id": "a", "text": "One."}, row))


# FEVER -------------------------------------------------------------------------------------------------------------


def test_pages_of_fever_become_passages_of_whole_sentences(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"id": "", "text": "", "lines": ""},
        {
            "id": "Zoe_-LRB-film-RRB-",
            "text": "x",
            "lines": "0\tZoe was made in 1901 .\tlink\n1\t\n2\tShe likes `` tea '' .\n3\tIt is old .",
        },
        {"id": "Empty_Page", "text": "", "lines": ""},
    )
    found, counts = collect(path, "fever", words=7)
    assert found == [
        Passage(id="Zoe (film)#0-0", title="Zoe (film)", text="Zoe was made in 1901."),
        Passage(id="Zoe (film)#2-3", title="Zoe (film)", text='Zoe (film): She likes "tea". It is old.'),
    ]
    assert counts == {"pages": 2, "passages": 2}
    assert collect(path, "fever")[0] == [
        Passage(id="Zoe (film)#0-3", title="Zoe (film)", text='Zoe was made in 1901. She likes "tea". It is old.')
    ]


def test_the_shared_case(tmp_path: Path, shared_cases: dict[str, dict[str, Any]]) -> None:
    found, _ = collect(lines(tmp_path, *shared_cases["PC-36"]["input"]["wiki_jsonl"]), "fever")
    assert [(passage.id, passage.text) for passage in found] == [
        ("Zöe Bär (film)#0-2", "Zoe Bar (born 1901) was an actor. She lived in Lyon."),
        ("Lyon: A City#0-0", "Lyon is in France."),
    ]


@pytest.mark.parametrize("row", [{"id": "a", "text": "x"}, {"id": 3, "lines": ""}, {"id": "a", "lines": None}])
def test_what_is_no_page_is_named(tmp_path: Path, row: Any) -> None:
    with pytest.raises(InputError, match=r"line 1: a page of FEVER's dump has the texts 'id' and 'lines'"):
        collect(lines(tmp_path, row), "fever")


# Texts -------------------------------------------------------------------------------------------------------------


def test_texts_are_split_into_passages_with_paths_for_ids(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("\ufeff# Rome\n\nRome has seven hills. It is old.\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("Lyon is in France. It is large.", encoding="utf-8")
    (tmp_path / "c.txt").write_text(" \n", encoding="utf-8")
    found, counts = collect(tmp_path, words=5)
    assert found == [
        Passage(id="a.txt#1", text="Lyon is in France."),
        Passage(id="a.txt#2", text="It is large."),
        Passage(id="sub/b.md#1", text="# Rome"),
        Passage(id="sub/b.md#2", text="Rome has seven hills."),
        Passage(id="sub/b.md#3", text="It is old."),
    ]
    assert counts == {"files": 3, "passages": 5, "blank": 1}


@pytest.mark.parametrize(
    ("text", "words", "pieces"),
    [
        ("", 5, []),
        ("\n\n", 5, []),
        ("One two. Three four.", 100, ["One two. Three four."]),
        ("One two three.\n\nFour five six.", 5, ["One two three.", "Four five six."]),
        ("One two three four. Five. Six.", 5, ["One two three four. Five.", "Six."]),
        ("One two three.\n\nFour.", 4, ["One two three.", "Four."]),
        ("One.\n\nTwo three four.", 4, ["One.\n\nTwo three four."]),
        ("a b c d e f g h i j k", 3, ["a b c", "d e f", "g h i", "j k"]),
        ("a b c d e f", 3, ["a b c d e f"]),
        (
            "- One thing\n- Two things\n- Three things",
            4,
            ["- One thing\n- Two things"[:11], "- Two things", "- Three things"],
        ),
    ],
)
def test_passages_of_a_text(text: str, words: int, pieces: list[str]) -> None:
    assert list(split_text(text, words=words)) == pieces


@given(st.text(alphabet="ab .\n-#`1", max_size=200), st.integers(1, 9))
def test_no_word_is_lost_and_none_comes_twice(text: str, words: int) -> None:
    assert " ".join(split_text(text, words=words)).split() == text.split()

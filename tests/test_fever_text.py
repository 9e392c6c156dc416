"""FEVER's escapes and tokenisation are undone; other text stays as it is."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.fever_text import detokenise, display_title, mostly_tokenised, title_key, unescape, wiki_lines


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Alien -LRB- film -RRB-", "Alien ( film )"),
        ("a -LSB- b -RSB- -LCB- c -RCB- d-COLON-e AC-SLASH-DC", "a [ b ] { c } d:e AC/DC"),
        ("-LRB--RRB-", "()"),
        ("-lrb- LRB -LRB", "-lrb- LRB -LRB"),
        ("", ""),
    ],
)
def test_escapes_are_undone(text: str, plain: str) -> None:
    assert unescape(text) == plain


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Lyon-COLON-_A_City", "Lyon: A City"),
        ("Alien_-LRB-film-RRB-", "Alien (film)"),
        (unicodedata.normalize("NFD", "Zöe_Bär"), "Zöe Bär"),
        ("雪国", "雪国"),
    ],
)
def test_titles_are_shown_as_a_reader_knows_them(title: str, shown: str) -> None:
    assert display_title(title) == shown


def test_a_page_is_found_by_every_way_of_writing_its_title() -> None:
    ways = ["Zöe_Bär_-LRB-film-RRB-", "Zöe Bär (film)", unicodedata.normalize("NFD", "Zöe_Bär_-LRB-film-RRB-")]
    assert {title_key(way) for way in ways} == {"Zöe Bär (film)"}
    assert title_key("US") != title_key("us")


def test_lines_give_sentences_by_number() -> None:
    assert wiki_lines("0\tZoe was born -LRB- 1901 -RRB- .\tborn\tBirth\n1\t\n2\tShe lived in Lyon .\tLyon\tLyon") == {
        0: "Zoe was born (1901).",
        1: "",
        2: "She lived in Lyon.",
    }


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("", {}),
        ("0\t", {0: ""}),
        ("7", {7: ""}),
        ("2\tC .\n0\tA .", {0: "A.", 2: "C."}),
        ("0\tA .\n0\tB .", {0: "A."}),
        ("0\tA .\nstray words\n\n1\tB .\n", {0: "A.", 1: "B."}),
        ("²\tA .\n-1\tB .\n0\r\tC", {}),
    ],
)
def test_odd_lines(lines: str, found: dict[int, str]) -> None:
    assert wiki_lines(lines) == found
    assert list(wiki_lines(lines)) == sorted(found)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Zoe Bar -LRB- born 1901 -RRB- was an actor .", "Zoe Bar (born 1901) was an actor."),
        ("She said `` no '' , then left ; why ?", 'She said "no", then left; why?'),
        ('The film " Alien " , and " Aliens " .', 'The film "Alien", and "Aliens".'),
        ("`` I Kissed a Girl `` is a song .", '"I Kissed a Girl" is a song.'),
        ("`` A `` , `` B `` and `` C '' .", '"A", "B" and "C".'),
        ("`` One . `` Two '' .", '"One. "Two".'),  # a quotation of two paragraphs is opened twice
        ("Rome 's hills are n't high ; they 're old , I 'd say .", "Rome's hills aren't high; they're old, I'd say."),
        ("the Beatles ' songs of the '60s", "the Beatles' songs of the '60s"),
        ("It cost $ 5 -LRB- 20 % more -RRB- ...", "It cost $5 (20% more)..."),
        ("It cost US$ 5 or € 4 .", "It cost US$5 or €4."),
        ("a $ sign , a % sign", "a $ sign, a % sign"),
        ("He said ` yes ' .", "He said 'yes'."),
        ("1984 -- 1990 , and / or later", "1984 -- 1990, and / or later"),
        ("", ""),
        (" \t\n", ""),
    ],
)
def test_tokenisation_is_undone(tokens: str, text: str) -> None:
    assert detokenise(tokens) == text
    assert detokenise(text) == text


@pytest.mark.parametrize(
    "text", ["Rome has 7 hills.", "the .NET runtime", 'He said "no" (twice).', "「雪国」は小説だ。", "It's 5% of $4."]
)
def test_text_that_was_never_tokenised_stays(text: str) -> None:
    assert detokenise(text) == text


def test_tokenisation_is_seen_where_most_rows_show_it() -> None:
    assert mostly_tokenised([("Rome has hills .", "Rome"), ("a -LRB- b", "c")])
    assert mostly_tokenised([("Is it ?",), ("It is !",), ("It is.",)])
    assert not mostly_tokenised([("Rome has hills .", "Is it ?"), ("Rome has hills.", "a (b)")])
    assert not mostly_tokenised([("a . b",), ("1 .5",), ("",)])
    assert not mostly_tokenised([])


@given(st.text(alphabet="ab.,'`\"()%$5 ", max_size=30))
def test_no_letter_is_lost(text: str) -> None:
    def letters(given: str) -> str:
        return "".join(c for c in given if c.isalnum())

    assert letters(detokenise(text)) == letters(text)


def test_the_wiki_pages_of_the_shared_case(shared_cases: dict[str, dict[str, Any]]) -> None:
    pages = shared_cases["PC-36"]["input"]["wiki_jsonl"]
    found = {title_key(page["id"]): wiki_lines(page["lines"]) for page in pages if page["id"]}
    evidence = shared_cases["PC-36"]["input"]["claims_jsonl"][0]["evidence"]
    assert [[found[title_key(page)][line] for _, _, page, line in alternative] for alternative in evidence] == [
        ["She lived in Lyon.", "Lyon is in France."],
        ["Zoe Bar (born 1901) was an actor."],
    ]
    assert sorted(found) == ["Lyon: A City", "Zöe Bär (film)"]

"""What texts and queries are compared by."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.backends.retrieve_terms import MAX_QUERY_TERMS, query_terms, terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Rome has 7 hills.", ["rome", "has", "7", "hill"]),
        ("Cities, class, bus, it is", ["city", "class", "bus", "it", "is"]),
        ("heroes, skies, pies, glasses", ["heroes", "sky", "py", "glasse"]),
        ("Zoë’s ÉTÉ, Straße, ﬁne", ["zoe", "s", "ete", "strasse", "fine"]),
        ("1,901 people; 3.5% of 12,34 in the 1990s", ["1901", "people", "3.5", "of", "12,34", "in", "the", "1990"]),
        ("mp3 B2B x_y", ["mp3", "b2b", "x", "y"]),
        ("雪国は Kawabata の", ["雪国", "国は", "kawabata", "の"]),
        ("ﾊﾝｶｸ ＡＢＣ", ["ハン", "ンカ", "カク", "abc"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा"]),
        ("Москва́, Йод", ["москва", "иод"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("", []),
        ("\x00 \ud800 😀 _ ?!", []),
        ("a\x00b\u200bc", ["a", "b", "c"]),
        ("x" * 100, ["x" * 64]),
    ],
)
def test_terms_of_a_text(text: str, found: list[str]) -> None:
    assert terms(text) == found


def test_a_query_has_each_term_once_and_not_too_many() -> None:
    assert query_terms("hill Hills on a hill") == ["hill"]
    assert query_terms("What was this, and who is Dov'è?") == ["dov"]
    assert query_terms("The Who") == ["the", "who"]
    assert query_terms("") == []
    assert len(query_terms(" ".join(f"w{i}" for i in range(10_000)))) == MAX_QUERY_TERMS


@given(st.text(max_size=40))
def test_composed_and_decomposed_texts_have_the_same_terms_and_no_space_in_them(text: str) -> None:
    found = terms(unicodedata.normalize("NFC", text))
    assert found == terms(unicodedata.normalize("NFD", text))
    assert [term for term in found if term.split() != [term]] == []

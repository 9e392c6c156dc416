import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.types import Span
from corrigenda.windows import is_blank, iter_windows, visible, windows


def words(text: str) -> int:
    return len(text.split())


def sentences(text: str) -> list[Span]:
    """A splitter that a reader can check by eye: a sentence ends at a full stop."""
    return [Span(*match.span()) for match in re.finditer(r"[^.\s][^.]*\.?", text)]


def texts(reference: str, budget: int) -> list[str]:
    return [span.text_of(reference) for span in windows(reference, words, budget, sentences(reference))]


@pytest.mark.parametrize("blank", ["", " ", "  \n", "\t\r\n", "\u200b", "\ufeff \u2028"])
def test_blank_references_have_no_windows(blank: str) -> None:
    assert is_blank(blank)
    assert windows(blank, words, 5, []) == []


@pytest.mark.parametrize("text", ["a", " . ", "\n0", "雪"])
def test_anything_visible_is_not_blank(text: str) -> None:
    assert not is_blank(text)


def test_visible_leaves_out_white_space_at_the_ends() -> None:
    assert visible("  two words\n") == Span(2, 11)


def test_a_short_reference_is_one_window() -> None:
    assert texts(" Ore floats. Lead sinks.\n", 4) == ["Ore floats. Lead sinks."]


def test_windows_hold_whole_sentences_and_share_one() -> None:
    assert texts("One a. Two b. Three c. Four d. Five e.", 6) == [
        "One a. Two b. Three c.",
        "Three c. Four d. Five e.",
    ]


def test_the_shared_sentence_is_dropped_where_it_leaves_no_room() -> None:
    assert texts("One a. Two b c d e. Three f.", 6) == ["One a.", "Two b c d e.", "Three f."]


def test_neighbouring_sentences_stand_together_in_some_window() -> None:
    reference = "A a. B b. C c. D d. E e. F f. G g."
    found = texts(reference, 4)
    parts = [span.text_of(reference) for span in sentences(reference)]
    assert all(any(f"{a} {b}" in window for window in found) for a, b in itertools.pairwise(parts))


def test_a_sentence_over_the_budget_is_cut_between_words() -> None:
    assert texts("Short one. alpha beta gamma delta epsilon zeta.", 4) == [
        "Short one. alpha beta",
        "beta gamma delta epsilon",
        "epsilon zeta.",
    ]


def test_text_without_white_space_is_cut_between_characters() -> None:
    reference = "东京塔高三百三十三米它于一九五八年建成"
    found = windows(reference, len, 8, [Span(0, len(reference))])
    assert all(end - start <= 8 for start, end in found)
    assert covered(reference, found) == set(range(len(reference)))
    assert all(b.start < a.end for a, b in itertools.pairwise(found))


def test_a_letter_keeps_its_combining_marks() -> None:
    reference = "e\u0301" * 8
    found = windows(reference, len, 6, [])
    assert all(span.text_of(reference)[0] == "e" for span in found)


def test_a_character_that_is_over_the_budget_is_given_all_the_same() -> None:
    assert windows("🧭", lambda text: 4 * len(text), 3, []) == [Span(0, 1)]


def test_what_stands_between_sentences_is_kept() -> None:
    reference = "# Oslo\n- Capital.\n```\ncode\n```\nTown."
    assert windows(reference, words, 100, [Span(9, 17), Span(31, 36)]) == [Span(0, 36)]


def test_tokens_that_multiply_at_the_seams_never_break_the_budget() -> None:
    reference = "Aa b. Cc d. Ee f. Gg h. Ii j. Kk l."

    def superadditive(text: str) -> int:
        return words(text) + text.count(". ") ** 2

    found = windows(reference, superadditive, 8, sentences(reference))
    assert all(superadditive(span.text_of(reference)) <= 8 for span in found)
    assert covered(reference, found) >= {i for i, char in enumerate(reference) if not char.isspace()}


def test_counting_is_linear_in_the_number_of_sentences() -> None:
    def calls(n: int) -> int:
        reference = " ".join(f"Fact number {i}." for i in range(n))
        made = 0

        def count(text: str) -> int:
            nonlocal made
            made += 1
            return words(text)

        windows(reference, count, 30, sentences(reference))
        return made

    assert calls(2000) <= 2.2 * calls(1000)
    assert calls(2000) <= 2 * 2000


def test_counting_a_long_text_without_sentences_is_linear_too() -> None:
    def calls(n: int) -> int:
        made = 0

        def count(text: str) -> int:
            nonlocal made
            made += 1
            return words(text)

        windows("word " * n, count, 40, [])
        return made

    assert calls(4000) <= 2.5 * calls(2000)


def test_windows_are_cut_only_as_far_as_they_are_asked_for() -> None:
    reference = " ".join(f"Fact number {i}." for i in range(1000))
    made = 0

    def count(text: str) -> int:
        nonlocal made
        made += 1
        return words(text)

    found = iter_windows(reference, count, 30, sentences(reference))
    first = [next(found), next(found)]
    assert made < 50
    assert [*first, *found] == windows(reference, words, 30, sentences(reference))


@pytest.mark.parametrize("budget", [0, -3])
def test_a_budget_below_one_is_refused(budget: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 token, got {budget}"):
        windows("Text.", words, budget, [])


def covered(reference: str, found: list[Span]) -> set[int]:
    return {i for span in found for i in range(*span)}


@given(
    st.lists(st.lists(st.text("ab雪\u0301", min_size=1, max_size=12), min_size=1, max_size=9), max_size=12),
    st.integers(1, 25),
)
def test_every_visible_character_is_in_a_window_and_every_window_fits(parts: list[list[str]], budget: int) -> None:
    reference = ". ".join(" ".join(part) for part in parts)
    found = windows(reference, len, budget, sentences(reference))
    visible_places = {i for i, char in enumerate(reference) if not char.isspace()}
    assert covered(reference, found) >= visible_places
    assert all(end - start <= budget for start, end in found)
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert all(a.end < b.end for a, b in itertools.pairwise(found))

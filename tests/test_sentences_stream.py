"""Splitting while the text still comes, hostile texts, and what holds for all texts."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corrigenda.sentences import SentenceStream, split_sentences
from corrigenda.types import Span
from tests.splitting import streamed

# fmt: off
PIECES = st.sampled_from([
    'Rome has 5 hills.', ' ', '\n', '\n\n', '\r\n', '\r', '\u2028', 'Dr. ', 'U.S. ', 'the ', 'The ',
    'It is. ', 'He said "', '"', '(', ')', '[3]', ' [4]', '[', ']', '- ', '* ', '1. ', '# ', '|',
    '| a | b |\n', '|--|--|\n', 'a | b\n', '--- | ---\n', '```', '```\n', '~~~', '> ', '    code', '\t',
    '東京。', 'は！', 'é', '🇮🇹 ', '。', '?', '!', '...', '…', ':', 'Area: 5\n', '  \n', '\\\n', 'p.m. ',
    'Feb. ', '3', 'iPhone ', '`x. Y`', '**', 'a.C. ', 'https://a.b/c. ', '[x](y.z) ', '---', '===', 'a) ',
    '[1]: ', '\u200b', '\xa0', '“', '”', 'ecc. ', 'II ', 'x' * 70, '[ ] ', '-', '•', '</b>', 'c. ',
    'p. I', ' ' * 450, '.' * 70,
])
# fmt: on
ANSWERS = st.lists(PIECES, max_size=25).map("".join)


class TestStreaming:
    @settings(max_examples=150, deadline=None)
    @given(
        ANSWERS | st.text(max_size=60),
        st.lists(st.integers(1, 12), min_size=1, max_size=6),
        st.sampled_from(["en", "it"]),
    )
    @example("|\r3 code? [3]| a | b |", [1], "en")
    @example("https://a.b/c. Capital: Oslo", [3], "en")
    def test_every_chunking_gives_the_sentences_of_the_whole(
        self, answer: str, sizes: list[int], language: str
    ) -> None:
        whole = split_sentences(answer, language)
        assert streamed(answer, sizes, language) == whole
        assert streamed(answer, [1], language) == whole

    @pytest.mark.parametrize(
        "answer",
        [
            "See p. I. c. XX is next. See p. Xerxes.",
            "y = x. T",
            "He paid Acme Inc. €5 then. It is so.",
            "```python x",
            "~~~ info\nx",
            "    code here",
            "It is. i",
            "It is. iPhone",
            'It is. "',
            "U.S. Then U.S. Thenar p.m. Mon",
            "He (a (b. C) d. E) left. And (b. C",
            "It fell.[4][5] Rome [4]. It fell. [citation n",
            "`",
            "```a`b",
            "~~~\nx",
            "#",
            "## a",
            "-",
            "- a",
            "* * *",
            "a | b",
            "a\n",
            "a | b\nc",
            "a | b\n   ",
            "a | b\n" + " " * 450 + "c",
            " " * 450 + "a. B c.",
            "| a |\n| b |\nc\n\n",
            "| a |\nb. C\n",
            "Rome\r",
            "Rome\r\nis. Old",
            "1",
            "1. a",
            "." * 200 + " Rome. It",
            "It is old" + " and old" * 400 + ". Rome fell. " + "x" * 3000 + ". It fell.",
            "Rome fell. " * 300 + "x",
        ],
    )
    def test_where_more_text_has_to_be_waited_for(self, answer: str) -> None:
        whole = split_sentences(answer)
        assert [streamed(answer, [size]) for size in (1, 2, 3, 700)] == [whole] * 4

    @settings(max_examples=100, deadline=None)
    @given(ANSWERS)
    def test_sentences_are_in_order_inside_the_text_and_never_only_marks(self, answer: str) -> None:
        end = 0
        for index, sentence in enumerate(split_sentences(answer)):
            assert sentence.index == index
            assert sentence.span.text_of(answer) == sentence.text == sentence.text.strip()
            assert sentence.span.start >= end
            assert any(c.isalnum() for c in sentence.text)
            end = sentence.span.end

    def test_a_sentence_is_given_as_soon_as_the_next_one_begins(self) -> None:
        stream = SentenceStream("en")
        assert stream.feed("Rome has 5 hills") == []
        assert stream.feed(".") == []
        assert stream.feed(" ") == []
        assert [s.text for s in stream.feed("I")] == ["Rome has 5 hills."]
        assert stream.feed("t is old") == []
        assert [s.text for s in stream.finish()] == ["It is old"]

    def test_a_list_item_is_given_when_the_next_line_is_known(self) -> None:
        stream = SentenceStream()
        assert stream.feed("- Rome is old\n") == []
        assert [s.text for s in stream.feed("- Milan is young\n")] == ["Rome is old"]

    def test_a_heading_is_given_at_the_end_of_its_line(self) -> None:
        assert [s.text for s in SentenceStream().feed("# Rome\n")] == ["Rome"]

    def test_an_empty_stream_gives_nothing(self) -> None:
        stream = SentenceStream()
        assert stream.feed("") == []
        assert stream.finish() == []


# Line tracing (coverage, a debugger) slows pure Python down several times.
SLOWER = 1 if sys.gettrace() is None else 6

HOSTILE = {
    "brackets": "(" * 100_000,
    "square": "[" * 100_000,
    "stops": "." * 100_000,
    "spaced stops": ". " * 50_000,
    "initials": ". A" * 33_000,
    "quotes": '"' * 100_000,
    "one word": "a" * 100_000,
    "one line": "word " * 20_000,
    "spaces": " " * 100_000,
    "space before a word": "It is." + " " * 100_000 + "A",
    "lines": "\n" * 100_000,
    "pipes": "|" * 100_000,
    "rows": "| a\n" * 25_000,
    "hashes": "#" * 100_000,
    "fences": "```\n" * 25_000,
    "rules": "- " * 50_000,
    "tags": "<a" * 50_000,
    "citations": ". [1]" * 20_000,
    "emoji": "🎉" * 100_000,
    "nested": "(" * 250 + ")" * 250 + "(" * 99_500,
    "prose": "Rome has 5 hills. " * 5_600,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hundred_thousand_characters_take_less_than_two_seconds(name: str) -> None:
    begun = time.process_time()
    split_sentences(HOSTILE[name])
    assert time.process_time() - begun < 2 * SLOWER


@pytest.mark.parametrize("name", ["one word", "prose", "space before a word", "stops", "spaces", "rows"])
def test_streaming_in_small_pieces_is_not_quadratic(name: str) -> None:
    begun = time.process_time()
    assert streamed(HOSTILE[name], [4]) == split_sentences(HOSTILE[name])
    assert time.process_time() - begun < 4 * SLOWER


def test_lone_surrogates_are_characters_like_any_other() -> None:
    answer = "Rome is big \ud83d. It is in Italy \udce0. So it is."
    found = split_sentences(answer)
    assert [(s.text, s.span) for s in found] == [
        ("Rome is big \ud83d.", Span(0, 14)),
        ("It is in Italy \udce0.", Span(15, 32)),
        ("So it is.", Span(33, 42)),
    ]


def test_text_in_odd_brackets_is_content() -> None:
    answer = "【Rome has 5 hills】\n\n<Rome has 5 hills>\n\n<br/>\n\n【3】"
    assert [s.text for s in split_sentences(answer)] == ["【Rome has 5 hills】", "<Rome has 5 hills>"]

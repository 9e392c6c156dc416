"""Text at offsets: anchors, edits, removals, fitted rewrites, and what the verifier reads."""

from __future__ import annotations

import time
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.sentences import split_sentences
from corrigenda.text import (
    anchor,
    apply_edits,
    content_words,
    detect_language,
    fit_rewrite,
    hypothesis_text,
    is_row,
    removal_span,
    removal_spans,
    same_word,
    words_of,
)
from corrigenda.types import Sentence, SentenceKind, Span


def sentence(text: str, start: int = 0, kind: SentenceKind = SentenceKind.PROSE) -> Sentence:
    return Sentence(index=0, span=Span(start, start + len(text)), text=text, kind=kind)


class TestAnchor:
    @pytest.mark.parametrize(
        ("claim", "text", "expected"),
        [
            ("Rome has 5 hills.", "Rome has 5 hills.", "Rome has 5 hills."),
            ("Rome has 5 hills.", "Rome has 5 hills and a river.", "Rome has 5 hills"),
            ("it has a river", "Rome is old and It has a river.", "It has a river"),
            ("old", "Golden Rome is old.", "old"),
            ("Rome has 5", "Rome has 5.5 hills or Rome has 5 hills.", "Rome has 5"),
            (
                "Rome was founded in 753 BC.",
                "Rome, the capital of Italy, was founded in 753 BC.",
                "Rome, the capital of Italy, was founded in 753 BC",
            ),
            (
                "Rome is the capital of Italy.",
                "Rome, the capital of Italy, was founded in 753 BC.",
                "Rome, the capital of Italy",
            ),
            (
                "The tower opened in 1889.",
                "Built in 1887, the tower was opened in 1889 and the tower closed.",
                "tower was opened in 1889",
            ),
            ("It hosted fairs.", "In 1990 it hosted a fair, says the city.", "hosted a fair"),
            ("Its capital is Rome.", "Rome is big, but Rome is the capital of it.", "Rome is the capital"),
            ("它很高", "东京塔很大，它很高。", "它很高"),
            ("Milan borders Switzerland and Bari", "Rome has 5 hills.", "Rome has 5 hills."),
            ("the of is", "Rome has 5 hills.", "Rome has 5 hills."),
            ("", "Rome has 5 hills.", "Rome has 5 hills."),
            (" ... ", "Rome has 5 hills.", "Rome has 5 hills."),
        ],
    )
    def test_finds_the_tightest_place(self, claim: str, text: str, expected: str) -> None:
        span = anchor(claim, sentence(text, start=7))
        assert span.text_of("#" * 7 + text) == expected

    def test_a_repeated_sentence_is_anchored_in_its_own_place(self) -> None:
        answer = "Rome has 5 hills. It is in Italy. Rome has 5 hills. Naples is by the sea."
        found = [anchor("Rome has 5 hills.", s) for s in split_sentences(answer) if "5 hills" in s.text]
        assert found == [Span(0, 17), Span(34, 51)]

    @given(st.text(max_size=40), st.text(min_size=1, max_size=60))
    def test_always_lies_inside_the_sentence(self, claim: str, text: str) -> None:
        span = anchor(claim, sentence(text, start=3))
        assert Span(3, 3 + len(text)).contains(span)
        assert span.start <= span.end


class TestWords:
    def test_words(self) -> None:
        assert words_of("It's 1,550,000 at v3.11.4, 东京 AT&T!") == [
            "it's",
            "1,550,000",
            "at",
            "v3.11.4",
            "东",
            "京",
            "at&t",
        ]

    def test_content_words_leave_function_words_out(self) -> None:
        assert content_words("The capital of Italy è la città di Roma") == ["capital", "italy", "città", "roma"]

    @pytest.mark.parametrize(
        ("left", "right", "expected"),
        [
            ("hills", "hills", True),
            ("hill", "hills", True),
            ("founded", "founder", True),
            ("nacque", "nacquero", True),
            ("1990", "1991", False),
            ("cat", "cats", False),
            ("roman", "romanticism", False),
            ("rome", "milan", False),
        ],
    )
    def test_same_word(self, left: str, right: str, expected: bool) -> None:
        assert same_word(left, right) is same_word(right, left) is expected


class TestApplyEdits:
    ANSWER = "A:\tOne is 1.\r\n\r\nTwo  is 3.  Three is 3.\r\nFour is 44444.\n"
    EDITS = (
        (Span(41, 55), "Four is 4."),
        (Span(3, 12), "One equals exactly 1."),
        (Span(16, 26), "Two is 2."),
    )

    @pytest.mark.parametrize("order", list(permutations(range(3))))
    def test_the_order_of_edits_makes_no_difference(self, order: tuple[int, ...]) -> None:
        assert (
            apply_edits(self.ANSWER, [self.EDITS[i] for i in order])
            == "A:\tOne equals exactly 1.\r\n\r\nTwo is 2.  Three is 3.\r\nFour is 4.\n"
        )

    def test_no_edits(self) -> None:
        assert apply_edits(self.ANSWER, []) == self.ANSWER

    def test_only_the_second_of_two_equal_sentences(self) -> None:
        answer = "Rome has 5 hills. It is in Italy. Rome has 5 hills. Naples is by the sea."
        assert (
            apply_edits(answer, [(Span(34, 51), "Rome has seven hills.")])
            == "Rome has 5 hills. It is in Italy. Rome has seven hills. Naples is by the sea."
        )

    def test_code_points_not_utf_16(self) -> None:
        answer = "👩🏽‍🚀 Ada flew in 1983. 🇮🇹 Rome has 5 hills. Città d’arte."
        assert (
            apply_edits(answer, [(Span(26, 43), "Rome has seven hills.")])
            == "👩🏽‍🚀 Ada flew in 1983. 🇮🇹 Rome has seven hills. Città d’arte."
        )

    def test_insertions_and_neighbours(self) -> None:
        assert (
            apply_edits("abcd", [(Span(1, 3), "X"), (Span(1, 1), "<"), (Span(3, 3), ">"), (Span(3, 4), "")]) == "a<X>"
        )

    @pytest.mark.parametrize("span", [Span(-1, 2), Span(3, 2), Span(0, 5), Span(5, 5)])
    def test_out_of_range(self, span: Span) -> None:
        with pytest.raises(
            ValueError, match=rf"\({span.start}, {span.end}\) is out of range for a text of 4 code points"
        ):
            apply_edits("abcd", [(span, "")])

    @pytest.mark.parametrize(
        ("one", "other"), [((0, 2), (1, 3)), ((0, 4), (2, 2)), ((1, 1), (1, 1)), ((0, 2), (0, 2)), ((0, 1), (0, 3))]
    )
    def test_overlap(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        with pytest.raises(
            ValueError, match=rf"edit spans \({one[0]}, {one[1]}\) and \({other[0]}, {other[1]}\) overlap"
        ):
            apply_edits("abcd", [(Span(*other), "x"), (Span(*one), "y")])

    @given(st.text(max_size=40), st.data())
    def test_what_is_outside_the_spans_is_untouched(self, answer: str, data: st.DataObject) -> None:
        cuts = sorted(data.draw(st.sets(st.integers(0, len(answer)), max_size=6)))
        spans = [Span(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
        marked = apply_edits(answer, [(s, f"\x00{i}\x00") for i, s in enumerate(spans)])
        for index, span in enumerate(spans):
            marked = marked.replace(f"\x00{index}\x00", span.text_of(answer), 1) if "\x00" not in answer else answer
        assert marked == answer


class TestRemoval:
    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("One is. Two is. Three is.\n", ["Two is. Three is.\n", "One is. Three is.\n", "One is. Two is.\n"]),
            ("One is.\n\nTwo is.\n\nThree is.", ["Two is.\n\nThree is.", "One is.\n\nThree is.", "One is.\n\nTwo is."]),
            ("One is.\r\n\r\nTwo is.\r\n", ["Two is.\r\n", "One is.\r\n"]),
            (
                "Hi:\n- One\n- Two\n\nEnd.",
                ["- One\n- Two\n\nEnd.", "Hi:\n- Two\n\nEnd.", "Hi:\n- One\n\nEnd.", "Hi:\n- One\n- Two"],
            ),
            (
                "1. One\n2. Two is. Three is.\n",
                ["2. Two is. Three is.\n", "1. One\n2. Three is.\n", "1. One\n2. Two is.\n"],
            ),
            (
                "|h|k|\n|-|-|\n|1|2|\n|3|4|\nEnd.",
                [
                    "|-|-|\n|1|2|\n|3|4|\nEnd.",
                    "|h|k|\n|-|-|\n|3|4|\nEnd.",
                    "|h|k|\n|-|-|\n|1|2|\nEnd.",
                    "|h|k|\n|-|-|\n|1|2|\n|3|4|",
                ],
            ),
            ("## One is\n\nTwo is.", ["Two is.", "## One is"]),
            (
                "> One is. Two is.\n> Three is.",
                ["> Two is.\n> Three is.", "> One is.\n> Three is.", "> One is. Two is."],
            ),
            ("🎉 One is. Two is 🎉", ["🎉 Two is 🎉", "🎉 One is. 🎉"]),
            ("✅ One is.\nTwo is.", ["Two is.", "✅ One is."]),
            ("One  is.\tTwo is.", ["Two is.", "One  is."]),
            ("One is.", [""]),
            ("东京很大。它很老。", ["它很老。", "东京很大。"]),
            ("Before one\nis here. Two is.", ["Two is.", "Before one\nis here."]),
        ],
    )
    def test_one_sentence(self, answer: str, expected: list[str]) -> None:
        sentences = split_sentences(answer)
        assert [apply_edits(answer, [(removal_span(answer, s, sentences), "")]) for s in sentences] == expected

    @pytest.mark.parametrize(
        ("answer", "joined"),
        [("One is. Two is. Three is.\n\nFour is.\n", {True: "\n\n", False: " "})],
    )
    def test_several_at_once(self, answer: str, joined: dict[bool, str]) -> None:
        sentences = split_sentences(answer)
        for count in range(1, 5):
            for chosen in combinations(range(4), count):
                spans = removal_spans(answer, [sentences[i] for i in chosen], sentences)
                kept = [i for i in range(4) if i not in chosen]
                expected = "".join(
                    sentences[i].text + (joined[kept[n + 1] == 3] if n + 1 < len(kept) else "\n")
                    for n, i in enumerate(kept)
                )
                assert apply_edits(answer, [(s, "") for s in spans]) == expected

    def test_all_items_of_a_list(self) -> None:
        answer = "Hi:\n\n- One\n- Two\n\nEnd."
        sentences = split_sentences(answer)
        spans = removal_spans(answer, sentences[1:3], sentences)
        assert apply_edits(answer, [(s, "") for s in spans]) == "Hi:\n\nEnd."

    @given(
        st.lists(
            st.sampled_from(["One is.", "Two is 2.", " ", "\n", "\n\n", "- ", "> ", "| a | b |\n", "🎉", "\r\n"]),
            max_size=14,
        ).map("".join),
        st.data(),
    )
    def test_never_overlap_and_never_touch_another_sentence(self, answer: str, data: st.DataObject) -> None:
        sentences = split_sentences(answer)
        chosen = [s for s in sentences if data.draw(st.booleans())]
        spans = removal_spans(answer, chosen, sentences)
        apply_edits(answer, [(s, "") for s in spans])
        for other in sentences:
            gone = any(span.contains(other.span) for span in spans)
            assert gone if other in chosen else not any(span.overlaps(other.span) for span in spans)


class TestFitRewrite:
    @pytest.mark.parametrize(
        ("original", "rewrite", "expected"),
        [
            ("Rome", "Milan. .", "Milan"),
            ("it is old.”", "It is new", "it is new.”"),
            ("It is “old”.", "It is new", "It is new."),
        ],
    )
    def test_end_marks_and_closing_quotes(self, original: str, rewrite: str, expected: str) -> None:
        assert fit_rewrite(original, rewrite) == expected
        assert fit_rewrite(original, expected) == expected

    @pytest.mark.parametrize(
        ("original", "rewrite", "expected"),
        [
            ("Rome has 5 hills.", "Rome has seven hills.", "Rome has seven hills."),
            ("Rome has 5 hills.", "Rome has seven hills", "Rome has seven hills."),
            ("Rome has 5 hills!", "Rome has seven hills", "Rome has seven hills!"),
            ("Rome has 5 hills...", "Rome has seven hills,", "Rome has seven hills..."),
            ("罗马有五座山。", "罗马有七座山", "罗马有七座山。"),
            ("It hosted a fair.[4]", "It hosted a show", "It hosted a show."),
            ("Capital of Norway", "Capital of Sweden.", "Capital of Sweden"),
            ("Capital of Norway", "**Capital of Sweden.**", "**Capital of Sweden**"),
            ("Capital of Norway", "Capital of Sweden!", "Capital of Sweden!"),
            ("Capital of Norway", "Capital of the U.S.", "Capital of the U.S."),
            ("Firms in Norway", "Firms in Sweden, etc.", "Firms in Sweden, etc."),
            ("Rome has 5 hills.", "Rome has\n  seven\r\n\r\nhills.", "Rome has seven hills."),
            ("Rome has 5 hills.", "rome has seven hills.", "Rome has seven hills."),
            ("Phones sell.", "iPhones sell.", "iPhones sell."),
            ("the capital of Italy", "The capital of France", "the capital of France"),
            ("capital of Italy", "The capital of France", "the capital of France"),
            ("capital of Italy", "Capital of France", "capital of France"),
            ("capital of Italy", "Paris", "Paris"),
            ("capitale d'Italia", "La capitale", "la capitale"),
            ("it is so", "I am so", "I am so"),
            ("5 hills", "Seven hills", "Seven hills"),
            ("“Rome has 5 hills.", "Rome has 7 hills.", "“Rome has 7 hills."),
            ("It is old.”", "It is young.", "It is young.”"),
            ("“It is old.”", "It is young.", "It is young."),
            ("?", "It is.", "It is."),
            ("Rome is.", "...", "..."),
            ("Rome is.", "  \n ", ""),
        ],
    )
    def test_fits(self, original: str, rewrite: str, expected: str) -> None:
        assert fit_rewrite(original, rewrite) == expected

    @given(st.text(alphabet="Rome is. \n“”!x", max_size=30), st.text(alphabet="Rome is. \n“”!x", max_size=30))
    def test_is_one_line_and_stable(self, original: str, rewrite: str) -> None:
        once = fit_rewrite(original, rewrite)
        assert "\n" not in once
        assert fit_rewrite(original, once) == once


class TestHypothesisText:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("In 1990 [3] it hosted a fair.[4]", "In 1990 it hosted a fair."),
            ("In 1990[3]it hosted a fair [4, 5].", "In 1990 it hosted a fair."),
            ("It fell.【3†source】 [citation needed]", "It fell."),
            ("It fell【4:0】 and【1, 2】 rose.【4:1†L1-L5】", "It fell and rose."),
            ("【Rome has 5 hills】 yes.", "【Rome has 5 hills】 yes."),
            ("<Rome has 5 hills> <b class='x'>yes</b>.", "<Rome has 5 hills> yes ."),
            ("<b Rome has 5 hills>", "<b Rome has 5 hills>"),
            ("It fell [^2] hard.", "It fell hard."),
            (
                "**Rome** has *five* __hills__ and _rivers_, ~~not~~ `code`.",
                "Rome has five hills and rivers, not code.",
            ),
            ("***Rome*** and **old *small* town**", "Rome and old small town"),
            ("**Capital:**Oslo", "Capital:Oslo"),
            ("5 * 3 * 2 and 2**3 and a snake_case_name", "5 * 3 * 2 and 2**3 and a snake_case_name"),
            ('[Rome](http://a.b/c_(d)) and ![map](x.png "A map")', "Rome and map"),
            ("[3](http://a.b) tells", "3 tells"),
            ("<b>Rome</b><br>is 1 < 2 at <https://a.b/c>", "Rome is 1 < 2 at https://a.b/c"),
            ("AT&amp;T &lt;3&nbsp;x &copy; R&D", "AT&T <3 x &copy; R&D"),
            ("Rome is\n> old\r\n  and\tbig\u200b.", "Rome is old and big."),
            ("", ""),
        ],
    )
    def test_plain(self, text: str, expected: str) -> None:
        assert hypothesis_text(text) == expected

    @pytest.mark.parametrize(
        "text", ["*a" * 50_000, "**a " * 25_000, "[a](" * 25_000, " " * 100_000, "<a" * 50_000, "[1" * 50_000]
    )
    def test_hostile_text_takes_no_time(self, text: str) -> None:
        begun = time.process_time()
        hypothesis_text(text)
        fit_rewrite(text, text)
        assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rome is the capital of Italy.", "en"),
        ("Roma è la capitale d'Italia.", "it"),
        ("La città fu fondata nel 753 a.C.", "it"),
        ("Qual è la capitale della Francia?", "it"),
        ("What is the capital of France?", "en"),
        ("The opera 'Così fan tutte' was written by Mozart and Da Ponte.", "en"),
        ("东京塔高333米。", "en"),
        ("", "en"),
    ],
)
def test_detect_language(text: str, expected: str) -> None:
    assert detect_language(text) == expected


def test_is_row() -> None:
    assert is_row(sentence("a | b", kind=SentenceKind.TABLE_ROW))
    assert is_row(sentence("a | b", kind=SentenceKind.HEADING))
    assert not is_row(sentence("Rome", kind=SentenceKind.HEADING))
    assert not is_row(sentence("a | b"))

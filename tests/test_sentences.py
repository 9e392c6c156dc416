"""Sentences and their spans: abbreviations, scripts, markdown, and the same result however the text arrives."""

from __future__ import annotations

import pytest

from corrigenda.sentences import split_sentences
from corrigenda.types import Sentence, SentenceKind, Span
from tests.splitting import HEADING, ITEM, PROSE, ROW, kinds, texts


class TestAbbreviations:
    def test_initials_titles_decimals_versions_and_urls_are_not_cut(self) -> None:
        answer = (
            "Dr. A. B. Conti was born in St. Ives on 3 Feb. 1961. She sold 1,550,000 units at $21.75 each, per "
            "v3.11.4 of the log at https://example.org/a.b?x=1.5. Her firm, Conti & Co., left the U.S. in 1999."
        )
        assert split_sentences(answer) == (
            Sentence(index=0, span=Span(0, 52), text=answer[0:52]),
            Sentence(index=1, span=Span(53, 150), text=answer[53:150]),
            Sentence(index=2, span=Span(151, 196), text=answer[151:196]),
        )

    @pytest.mark.parametrize(
        "sentence",
        [
            "Mr. J. R. R. Tolkien met Prof. C. S. Lewis.",
            "J.-P. Sartre and Mrs. Dalloway live near Mt. Etna.",
            "See Fig. 5, pp. 3 and No. 7 of Vol. II for this.",
            "The U.S. Congress and the U.K. Parliament met at 5 p.m. EST on 4 Jan. 2001.",
            "It opens at 9 a.m. Monday to Friday.",
            "Acme Inc. Europe and Smith et al. 2004 agree, e.g. Rome vs. Milan.",
            "Ask Yahoo! Inc. Europe about it.",
            "She asked “Who?” and left.",
            'He said "Stop. Now." and left.',
            "The town (pop. 3 million. Or more) is old.",
            "Run `a.b. C` on it [see p. 4. Or 5] now.",
            "Version 2.0 of iOS costs 3.50 at example.com/a.B today.",
            "He bought a 5. avenue flat.",
            "Wait... what is it?",
        ],
    )
    def test_english(self, sentence: str) -> None:
        assert texts(f"{sentence} It is so.") == [sentence, "It is so."]

    @pytest.mark.parametrize(
        "sentence",
        [
            "Il sig. Rossi e il dott. Bianchi (cfr. art. 5) vissero nel 44 a.C. a Roma.",
            "L'ing. Verdi, l’avv. Neri, ecc., nacquero nel 1850.",
            "Augusto morì nel 14 d.C. a Nola, come dice il cap. IV di Prof. G. Verdi.",
            "La S.p.A. Fiat costa 3,5 euro, p.es. nel sec. XX.",
            "Nel 44 a. C. Cesare morì il 15 mar. 44.",
        ],
    )
    def test_italian(self, sentence: str) -> None:
        assert texts(f"{sentence} Il resto è noto.", "it") == [sentence, "Il resto è noto."]

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("We met in the U.S. The rest is known.", ["We met in the U.S.", "The rest is known."]),
            ("It ended at 5 p.m. Rain fell.", ["It ended at 5 p.m.", "Rain fell."]),
            ("She runs Acme Inc. He left.", ["She runs Acme Inc.", "He left."]),
            ("He fell in Feb. The war went on.", ["He fell in Feb.", "The war went on."]),
            ("I take vitamin C. It helps.", ["I take vitamin C.", "It helps."]),
            ("I said no. She left.", ["I said no.", "She left."]),
            ("We want y = x. Then stop.", ["We want y = x.", "Then stop."]),
            ("I own it. iPhones sell.", ["I own it.", "iPhones sell."]),
            ("It is big! 5 dogs came.", ["It is big!", "5 dogs came."]),
            ("It grew in 1990. 2000 was dry.", ["It grew in 1990.", "2000 was dry."]),
            ("Really?! Yes.", ["Really?!", "Yes."]),
            ("He left... They stayed…  Rome fell.", ["He left...", "They stayed…", "Rome fell."]),
            ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
            ("He left (at 5.) They stayed.", ["He left (at 5.)", "They stayed."]),
            ("“Rome fell. Milan stood.” It rained.", ["“Rome fell.", "Milan stood.”", "It rained."]),
            ("**Rome fell.** *It rained.*", ["**Rome fell.**", "*It rained.*"]),
            ('The 5" pipe leaks. The 6" pipe is dry.', ['The 5" pipe leaks.', 'The 6" pipe is dry.']),
            ("It (see (a. B) and c. D) is. Rome fell.", ["It (see (a. B) and c. D) is.", "Rome fell."]),
            ("It (is (odd) here. Rome fell.", ["It (is (odd) here.", "Rome fell."]),
            ("It (is never closed. Rome fell.", ["It (is never closed.", "Rome fell."]),
            ("no terminator at all", ["no terminator at all"]),
            ("It is. ...", ["It is."]),
        ],
    )
    def test_ends_that_are_ends(self, answer: str, expected: list[str]) -> None:
        assert texts(answer) == expected

    def test_a_bracket_that_stays_open_too_long_protects_nothing(self) -> None:
        answer = "It (is not closed. Rome fell" + " and fell" * 60 + "). Milan stood."
        assert texts(answer)[0] == "It (is not closed."

    @pytest.mark.parametrize(
        ("language", "answer", "expected"),
        [
            ("de", "Herr Dr. Kranz lebt z.B. in Bonn. Er malt.", ["Herr Dr. Kranz lebt z.B. in Bonn.", "Er malt."]),
            ("fr", "M. Dupont est né à Paris. Il peint.", ["M. Dupont est né à Paris.", "Il peint."]),
            ("es", "El Sr. López vive aquí. ¿Dónde? ¡Aquí!", ["El Sr. López vive aquí.", "¿Dónde?", "¡Aquí!"]),
            ("ru", "Это Рим. Он стар.", ["Это Рим.", "Он стар."]),
            ("hi", "यह रोम है। यह पुराना है।", ["यह रोम है।", "यह पुराना है।"]),
            ("xx", "Una frase. Altra frase.", ["Una frase.", "Altra frase."]),
        ],
    )
    def test_other_languages(self, language: str, answer: str, expected: list[str]) -> None:
        assert texts(answer, language) == expected


class TestScripts:
    def test_chinese_without_spaces_and_without_a_last_mark(self) -> None:
        answer = "东京塔高333米。它于1958年建成！夜间会亮灯吗？富士山高3.776千米"
        assert [tuple(s.span) for s in split_sentences(answer, "zh")] == [(0, 9), (9, 19), (19, 26), (26, 37)]
        assert split_sentences(answer) == split_sentences(answer, "zh")

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("彼は「行く。」と言った。東京は大きい。", ["彼は「行く。」と言った。", "東京は大きい。"]),
            ("罗马很大（见第五页。或第六页）。它很老。", ["罗马很大（见第五页。或第六页）。", "它很老。"]),
            ("罗马很大!它很老.真的?是。", ["罗马很大!", "它很老.", "真的?", "是。"]),
            ("罗马很大。[3]它很老。", ["罗马很大。[3]", "它很老。"]),
            ("罗马很大！！ 它很老。", ["罗马很大！！", "它很老。"]),
        ],
    )
    def test_east_asian_marks(self, answer: str, expected: list[str]) -> None:
        assert texts(answer, "zh") == expected

    def test_spans_count_code_points_and_leave_decorating_emoji_out(self) -> None:
        answer = "👩🏽‍🚀 Ada flew in 1983. 🇮🇹 Rome has 5 hills. Città d’arte."
        assert [(tuple(s.span), s.text) for s in split_sentences(answer)] == [
            ((5, 22), "Ada flew in 1983."),
            ((26, 43), "Rome has 5 hills."),
            ((44, 57), "Città d’arte."),
        ]

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("✅ Rome is old 🎉", ["Rome is old"]),
            ("🎉🎉🎉", []),
            ("It is 20° warm. 5 €. ½ litre", ["It is 20° warm.", "5 €.", "½ litre"]),
            ("\u200bRome is old.\u200b\ufeff", ["Rome is old."]),
            ("1️⃣ Rome is old.", ["1️⃣ Rome is old."]),
        ],
    )
    def test_symbols_at_the_edges(self, answer: str, expected: list[str]) -> None:
        assert texts(answer) == expected

    def test_odd_white_space_is_neither_lost_nor_part_of_a_sentence(self) -> None:
        answer = "  Hello ..  \r\n\r\nOk .... Fine\u200b \xa0x\u2028y\n\n\t"
        assert [(tuple(s.span), s.text) for s in split_sentences(answer)] == [
            ((2, 10), "Hello .."),
            ((16, 23), "Ok ...."),
            ((24, 34), "Fine\u200b \xa0x\u2028y"),
        ]

    def test_the_same_sentence_twice_has_two_spans(self) -> None:
        answer = "Rome has 5 hills. It is in Italy. Rome has 5 hills. Naples is by the sea."
        assert [tuple(s.span) for s in split_sentences(answer)] == [(0, 17), (18, 33), (34, 51), (52, 73)]

    @pytest.mark.parametrize(
        "answer", ["", " ", "\n\r\n\t", "---", "***", "[4]", "...", "- \n- ", "1.", "# ", "```", "|||"]
    )
    def test_nothing_but_marks_gives_no_sentence(self, answer: str) -> None:
        assert split_sentences(answer) == ()


class TestMarkdown:
    def test_list_without_full_stops_code_and_citations(self) -> None:
        answer = (
            "# Oslo\n\n- Capital of Norway\n- Population: 709,037\n1. Founded in 1040\n\n"
            "```python\nx = 1.5  # Oslo is in Denmark.\n```\nIn 1990 [3] it hosted a fair.[4]"
        )
        assert [(s.kind, tuple(s.span)) for s in split_sentences(answer)] == [
            (HEADING, (2, 6)),
            (ITEM, (10, 27)),
            (ITEM, (30, 49)),
            (ITEM, (53, 68)),
            (PROSE, (115, 147)),
        ]

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("## Rome ##\nIt is old.", [(HEADING, "Rome"), (PROSE, "It is old.")]),
            ("#hash is prose", [(PROSE, "#hash is prose")]),
            ("####### seven", [(PROSE, "####### seven")]),
            ("# Intro to C#", [(HEADING, "Intro to C#")]),
            ("- a b\n* c d\n+ e f\n• g h\n", [(ITEM, "a b"), (ITEM, "c d"), (ITEM, "e f"), (ITEM, "g h")]),
            (
                "1) one\n(2) two\na) three\n12. twelve",
                [(ITEM, "one"), (ITEM, "two"), (ITEM, "three"), (ITEM, "twelve")],
            ),
            ("- [ ] open task\n- [x] done task", [(ITEM, "open task"), (ITEM, "done task")]),
            (
                "- Rome. It is\n  old.\n\n  More text.",
                [(ITEM, "Rome."), (ITEM, "It is\n  old."), (PROSE, "More text.")],
            ),
            ("- a\n    - nested item", [(ITEM, "a"), (ITEM, "nested item")]),
            ("1990. Then it fell.", [(PROSE, "1990."), (PROSE, "Then it fell.")]),
            ("A. Conti is here.", [(PROSE, "A. Conti is here.")]),
            ("-5 degrees", [(PROSE, "-5 degrees")]),
            ("> Rome is\n> old. It rains.", [(PROSE, "Rome is\n> old."), (PROSE, "It rains.")]),
            ("> Rome\nMilan", [(PROSE, "Rome"), (PROSE, "Milan")]),
            ("Rome\n> Milan", [(PROSE, "Rome"), (PROSE, "Milan")]),
            ("Rome is\nold.", [(PROSE, "Rome is\nold.")]),
            ("Facts:\nRome is old.", [(PROSE, "Facts:"), (PROSE, "Rome is old.")]),
            ("Rome is old  \nMilan too\\\nBari", [(PROSE, "Rome is old"), (PROSE, "Milan too"), (PROSE, "Bari")]),
            ("Capital: Oslo\nArea: 454\n", [(PROSE, "Capital: Oslo"), (PROSE, "Area: 454")]),
            ("Title\n===\nText", [(PROSE, "Title"), (PROSE, "Text")]),
            ("Rome\n\n---\n\nMilan", [(PROSE, "Rome"), (PROSE, "Milan")]),
            ("[1]: Rome is old.\n[^2]: https://a.org/b", [(ITEM, "Rome is old.")]),
            ("<div>\nRome is old.\n</div>", [(PROSE, "<div>\nRome is old.")]),
            ("*Rome* is old", [(PROSE, "*Rome* is old")]),
            ("__Rome__ is old", [(PROSE, "__Rome__ is old")]),
            ("- - deep", [(ITEM, "- deep")]),
        ],
    )
    def test_blocks(self, answer: str, expected: list[tuple[SentenceKind, str]]) -> None:
        assert kinds(answer) == expected

    @pytest.mark.parametrize(
        "code",
        [
            "```\nRome is old.\n```",
            "~~~ text\nRome is old.\n```\n~~~",
            "````\n```\nRome is old.\n````",
            "  ```py\n  Rome is old.\n  ```",
            "> ```\n> Rome is old.\n> ```",
            "> ```\n> Rome is old.",
            "    x = 1.5  # Rome is old.\n\n\tprint(x)",
            "    def old(rome):\n        return rome\n\n    old",
            "    ```\n    x",
            "\tint main() {\n\t  old;\n\t}",
            "    $ rome --old\n    Done",
        ],
    )
    def test_code_gives_no_sentence(self, code: str) -> None:
        assert texts(f"{code}\n\nIt rains.") == ["It rains."]
        assert texts(f"Before.\n\n{code}") == ["Before."]

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("    Rome is old.\n\n\tMilan too.", [(PROSE, "Rome is old."), (PROSE, "Milan too.")]),
            ("It rains.\n\n    Rome has 5 hills.", [(PROSE, "It rains."), (PROSE, "Rome has 5 hills.")]),
            ("    capital of Norway", [(PROSE, "capital of Norway")]),
            ("    It costs $5 (or {6}); pay.", [(PROSE, "It costs $5 (or {6}); pay.")]),
            ("    let me say it is old", [(PROSE, "let me say it is old")]),
            ("    - Rome is old", [(ITEM, "Rome is old")]),
            ("    x = 1\n    Rome has 5 hills.", [(PROSE, "Rome has 5 hills.")]),
            ("    x = 1\n\nSo it is.\n\n    Old town", [(PROSE, "So it is."), (PROSE, "Old town")]),
        ],
    )
    def test_indented_prose_is_no_code(self, answer: str, expected: list[tuple[SentenceKind, str]]) -> None:
        assert kinds(answer) == expected

    def test_an_open_fence_runs_to_the_end(self) -> None:
        assert texts("It rains.\n```\nRome is old.\n\nMilan too.") == ["It rains."]

    def test_backticks_in_a_line_are_no_fence(self) -> None:
        assert texts("```Rome``` is old.\nIt rains.") == ["```Rome``` is old.", "It rains."]
        assert texts("``Rome`` is old.") == ["``Rome`` is old."]

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (
                "| City | Pop |\n|---|:--:|\n| **Oslo** | 709,037 |\n| Rome | 2.8 |\n\nDone.",
                [(HEADING, "City | Pop"), (ROW, "**Oslo** | 709,037"), (ROW, "Rome | 2.8"), (PROSE, "Done.")],
            ),
            ("City | Pop\n--- | ---\nOslo | 7\nDone.", [(HEADING, "City | Pop"), (ROW, "Oslo | 7"), (PROSE, "Done.")]),
            ("| Oslo | 7 |\n| Rome | 3 |", [(ROW, "Oslo | 7"), (ROW, "Rome | 3")]),
            ("| a \\| b | c \\|\n", [(ROW, "a \\| b | c \\|")]),
            ("Intro\n| Oslo | 7 |\nOutro", [(PROSE, "Intro"), (ROW, "Oslo | 7"), (PROSE, "Outro")]),
            ("a | b\nis no table. It is prose.", [(PROSE, "a | b\nis no table."), (PROSE, "It is prose.")]),
            ("a | b\n\nText", [(PROSE, "a | b"), (PROSE, "Text")]),
            ("a | b\n- item", [(PROSE, "a | b"), (ITEM, "item")]),
            ("a | b\n| c | d |", [(PROSE, "a | b"), (ROW, "c | d")]),
            ("Rome fell. A | B\n--- | ---", [(PROSE, "Rome fell."), (PROSE, "A | B\n--- | ---")]),
            ("| a |\n|---|\n| b |\n|---|\n- c | d", [(HEADING, "a"), (ROW, "b"), (ITEM, "c | d")]),
            ("| a |\n|---|\n```\n| b |\n```", [(HEADING, "a")]),
            ("> | a | b |\n> |---|---|\n> | c | d |", [(HEADING, "a | b"), (ROW, "c | d")]),
            ("|\nrest of it | here", [(ROW, "rest of it | here")]),
        ],
    )
    def test_tables(self, answer: str, expected: list[tuple[SentenceKind, str]]) -> None:
        assert kinds(answer) == expected

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("It fell. [3] Rome stood.", ["It fell. [3]", "Rome stood."]),
            ("It fell.[3][4, 5] Rome stood.", ["It fell.[3][4, 5]", "Rome stood."]),
            ("It fell. [citation needed] Rome stood.", ["It fell. [citation needed]", "Rome stood."]),
            ("It fell.【3†source】 Rome stood.", ["It fell.【3†source】", "Rome stood."]),
            ("It fell. [Rome](http://a.b/c. D) stood.", ["It fell.", "[Rome](http://a.b/c. D) stood."]),
            ("It fell.\n[4]", ["It fell.\n[4]"]),
            ("It fell.[4]Rome", ["It fell.[4]Rome"]),
            ("It fell. [3]", ["It fell. [3]"]),
            (
                "It fell. [3] [1] [1] [1] [1] [1] [1] [1] [1] Rome.",
                ["It fell. [3] [1] [1] [1] [1] [1] [1] [1]", "[1] Rome."],
            ),
            ("It fell. [", ["It fell."]),
            ("It fell. [1] [1] [1] [1] [1] [1] [1] [1]", ["It fell. [1] [1] [1] [1] [1] [1] [1] [1]"]),
            (
                "It fell. [1] [1] [1] [1] [1] [1] [1] [1]\n\nRome.",
                ["It fell. [1] [1] [1] [1] [1] [1] [1] [1]", "Rome."],
            ),
        ],
    )
    def test_citations_stay_with_their_sentence(self, answer: str, expected: list[str]) -> None:
        assert texts(answer) == expected

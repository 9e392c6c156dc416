"""Stage 2: claims by rules and by a model, and what happens when the model misbehaves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decomposing import COMPOUND, EN, IT, by_rules, decompose, stream

from corrigenda.checkable import why_not_checkable
from corrigenda.errors import ParseError
from corrigenda.grammar import (
    has_verb,
    is_compound,
    is_fragment,
    is_statement,
    name_subject,
    split_clauses,
    subject_of,
)
from corrigenda.replies import parse_json_object
from corrigenda.sentences import split_sentences
from corrigenda.stages.decompose import (
    Decomposition,
    DeterministicDecomposer,
    claims_of,
)
from corrigenda.types import Sentence, SentenceKind, Span


class TestDeterministic:
    def test_list_table_code_and_citations(self) -> None:
        answer = (
            "# Oslo\n\n- Capital of Norway\n- Population: 709,037\n1. Founded in 1040\n- It is old.\n\n"
            "```python\nx = 1.5  # Oslo is in Denmark.\n```\nIn 1990 [3] it hosted a fair.[4]\n\n"
            "| City | Pop | Founded |\n|---|---|---|\n| **Oslo** | 709,037 | 1040 |\n"
        )
        found = decompose(DeterministicDecomposer(EN), answer)
        assert [(c.text, c.span.text_of(answer) if c.span else None, c.reason) for c in found.claims] == [
            ("Oslo", "Oslo", "heading"),
            ("Oslo: Capital of Norway", "Capital of Norway", None),
            ("Oslo: Population: 709,037", "Population: 709,037", None),
            ("Oslo: Founded in 1040", "Founded in 1040", None),
            ("It is old.", "It is old.", None),
            ("In 1990 it hosted a fair.", "In 1990 [3] it hosted a fair.[4]", None),
            ("City | Pop | Founded", "City | Pop | Founded", "table head"),
            ("Oslo: Pop 709,037, Founded 1040", "**Oslo** | 709,037 | 1040", None),
        ]
        assert (found.method, found.warnings, found.sentences) == ("deterministic", (), split_sentences(answer))

    def test_chinese_sentences_each_have_a_claim(self) -> None:
        assert by_rules("东京塔高333米。它于1958年建成！夜间会亮灯吗？富士山高3.776千米") == [
            ("东京塔高333米。", None),
            ("它于1958年建成！", None),
            ("夜间会亮灯吗？", "question"),
            ("富士山高3.776千米", None),
        ]

    def test_a_claim_never_cuts_a_protected_stretch(self) -> None:
        answer = (
            "Dr. A. B. Conti was born in St. Ives on 3 Feb. 1961. She sold 1,550,000 units at $21.75 each, per v3.11.4."
        )
        found = decompose(DeterministicDecomposer(EN), answer)
        assert [(c.text, c.span) for c in found.claims] == [
            ("Dr. A. B. Conti was born in St. Ives on 3 Feb. 1961.", Span(0, 52)),
            ("Dr. A. B. Conti sold 1,550,000 units at $21.75 each, per v3.11.4.", Span(53, 106)),
        ]

    def test_clauses_get_claims_of_their_own(self) -> None:
        answer = "Ada Byron was born in London, and she died in 1852; the grave is in Hucknall."
        found = decompose(DeterministicDecomposer(EN), answer)
        assert [(c.text, c.span.text_of(answer) if c.span else None) for c in found.claims] == [
            ("Ada Byron was born in London.", "Ada Byron was born in London"),
            ("Ada Byron died in 1852.", "she died in 1852"),
            ("The grave is in Hucknall.", "the grave is in Hucknall."),
        ]

    def test_italian(self) -> None:
        assert by_rules(
            "Certo! Ecco i fatti:\n\nRoma ha 5 colli; la città fu fondata nel 753 a.C. Secondo me è bella.", "it"
        ) == [
            ("Certo!", "filler"),
            ("Ecco i fatti:", "filler"),
            ("Roma ha 5 colli.", None),
            ("La città fu fondata nel 753 a.C.", None),
            ("Secondo me è bella.", "opinion"),
        ]

    def test_lists_take_their_topic_from_the_line_above(self) -> None:
        assert by_rules("Capitals of Europe:\n- Rome\n- Paris") == [
            ("Capitals of Europe:", "filler"),
            ("Capitals of Europe: Rome", None),
            ("Capitals of Europe: Paris", None),
        ]
        assert by_rules("Here are some capitals:\n- Rome")[1] == ("Rome", None)
        assert by_rules("Rome is a city in Italy.\n- Old town")[1] == ("Old town", None)
        assert by_rules("- Old town") == [("Old town", None)]

    def test_tables_without_a_head_or_with_other_widths(self) -> None:
        assert by_rules("| Oslo | 7 |") == [("Oslo, 7", None)]
        assert by_rules("| a | b | c |\n|-|-|-|\n| Oslo | 7 |")[1] == ("Oslo, 7", None)
        assert by_rules("| a | b \\| c |\n|-|-|\n| Oslo | 7 |\n| Rome | |")[1:] == [
            ("Oslo: b | c 7", None),
            ("Rome", None),
        ]

    def test_an_empty_answer_has_no_claims(self) -> None:
        assert decompose(DeterministicDecomposer(EN), " \n") == Decomposition(sentences=(), claims=())

    def test_streaming_gives_the_same_claims(self) -> None:
        answer = (
            "# Oslo\n\n- Capital\n\n| a | b |\n|-|-|\n| c | 1 |\n\n"
            "Ada Byron was old. She wrote. She died; Rome fell in 476."
        )
        whole = decompose(DeterministicDecomposer(EN), answer)
        assert stream(DeterministicDecomposer(EN), answer) == (list(whole.claims), [])
        assert "Ada Byron wrote." in [c.text for c in whole.claims]

    def test_what_stands_between_ends_a_topic_at_any_distance(self) -> None:
        answer = "# Oslo\n\n" + "Rome is old. " * 300 + "\n\n- Capital"
        claims, _ = stream(DeterministicDecomposer(EN), answer)
        assert claims[-1].text == "Capital"

    def test_a_statement_behind_an_opinion_is_a_claim_without_it(self) -> None:
        answer = "Ada Byron was born in London. I believe she died in 1852. I think it is sad."
        found = decompose(DeterministicDecomposer(EN), answer)
        assert [(c.text, c.span.text_of(answer) if c.span else None, c.reason) for c in found.claims] == [
            ("Ada Byron was born in London.", "Ada Byron was born in London.", None),
            ("Ada Byron died in 1852.", "I believe she died in 1852.", None),
            ("I think it is sad.", "I think it is sad.", "opinion"),
        ]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                ["Rome is old. ", "She is; it was. ", "- ", "# ", "\n", "| a | b |\n", "I think so. ", "3", "? "]
            )
        ).map("".join)
    )
    def test_every_sentence_has_claims_inside_it_in_order(self, answer: str) -> None:
        found = decompose(DeterministicDecomposer(EN), answer)
        assert sorted({c.sentence for c in found.claims}) == [s.index for s in found.sentences]
        order = [(c.sentence, c.span or Span(0, 0)) for c in found.claims]
        assert order == sorted(order)
        assert all(found.sentences[index].span.contains(span) for index, span in order)


class TestCheckable:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Is Rome old?", "question"),
            ("“Is Rome old?”", "question"),
            ("He asked if it is old.", None),
            ("I think Rome is great.", "opinion"),
            ("I’d say it is old.", "opinion"),
            ("In my opinion, Rome is great.", "opinion"),
            ("Rome, in my opinion, is great.", "opinion"),
            ("Personally, I like it.", "opinion"),
            ("I thinkered on.", None),
            ("Sure!", "filler"),
            ("**Great question!**", "filler"),
            ("Sure, Rome has 5 hills.", None),
            ("I hope this helps you!", "filler"),
            ("Let me know if you need more.", "filler"),
            ("Here are some facts:", "filler"),
            ("Rome has these sights:", None),
            ("The hills of Rome are:", "filler"),
            ("Here are the 7 hills:", None),
            ("Here is where Rome was founded.", None),
            ("Sights of Rome:", "filler"),
            ("**Oslo**", "heading"),
            ("**Oslo is old**", None),
            ("I'm sorry, but I can't help with that.", "refusal"),
            ("I don't know.", "says that it does not know"),
            ("I'm not sure, but it has 3 rivers.", None),
            ("Yes.", None),
            ("1961", None),
        ],
    )
    def test_prose(self, text: str, expected: str | None) -> None:
        sentence = Sentence(index=0, span=Span(0, len(text)), text=text)
        assert why_not_checkable(sentence, EN, "en") == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("Oslo", "heading"), ("Oslo is old", None), ("How it was made", "heading"), ("City | Pop", "table head")],
    )
    def test_headings(self, text: str, expected: str | None) -> None:
        sentence = Sentence(index=0, span=Span(0, len(text)), text=text, kind=SentenceKind.HEADING)
        assert why_not_checkable(sentence, EN, "en") == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Che ore sono?", "question"),
            ("Penso che sia grande.", "opinion"),
            ("È, a mio parere, bella.", "opinion"),
            ("Spero che questo ti aiuti!", "filler"),
            ("Ecco la risposta:", "filler"),
            ("Roma ha 5 colli.", None),
            ("Non lo so.", "says that it does not know"),
        ],
    )
    def test_italian(self, text: str, expected: str | None) -> None:
        assert why_not_checkable(Sentence(index=0, span=Span(0, len(text)), text=text), IT, "it") == expected


class TestGrammar:
    @pytest.mark.parametrize(
        "text",
        [
            "Rome is the capital of Italy and has 5 hills.",
            "He was born in Rome and later died in Milan.",
            "Marie Curie, who won two prizes, was born in Warsaw.",
            "The man who invented it died.",
            COMPOUND,
            "It is hot, dry and dusty.",
            "Built in 1889, it is tall.",
            "Paris is big; Rome is old.",
            "She won in 1903, but he lost in 1904.",
            "The tower, located in Paris, is tall.",
            "It fell in 476, when the army left.",
        ],
    )
    def test_compound(self, text: str) -> None:
        assert is_compound(text)

    @pytest.mark.parametrize(
        "text",
        [
            "Rome has 5 hills.",
            "Tom and Jerry are cats.",
            "In 1990, the town was rebuilt.",
            "On 3 May 1990, a fire started.",
            "He was born in Rome in 1961.",
            "The population is 1,550,000 in town.",
            "It is located in Paris, France.",
            "The Eiffel Tower is 330 metres tall.",
            "Will Smith was born in May 1968.",
            "Capital of Norway",
            "东京塔高333米。",
            "",
        ],
    )
    def test_plain(self, text: str) -> None:
        assert not is_compound(text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Roma è la capitale d'Italia e conta tre milioni di abitanti.", True),
            ("Dante, che nacque a Firenze, morì nel 1321.", True),
            ("Roma, la capitale, fu fondata nel 753 a.C.", True),
            ("Fondata nel 753 a.C., Roma è antica.", True),
            ("Roma è antica, grande e bella.", True),
            ("Roma è antica; Milano è grande.", True),
            ("Roma ha 5 colli.", False),
            ("Tizio e Caio sono amici.", False),
            ("Nel 1990, la città fu ricostruita.", False),
        ],
    )
    def test_compound_italian(self, text: str, expected: bool) -> None:
        assert is_compound(text, "it") is expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Paris is big; Rome is old.", ["Paris is big", "Rome is old."]),
            ("Ada was old, and she died.", ["Ada was old, and she died."]),
            ("Ada was old, and she died young.", ["Ada was old", "she died young."]),
            ("He said Rome is big; it is old.", ["He said Rome is big; it is old."]),
            ("If it is hot, and it is dry, plants die.", ["If it is hot, and it is dry, plants die."]),
            ("It has (red; it is dark) hills.", ["It has (red; it is dark) hills."]),
            ('It is "big; it is old" here.', ['It is "big; it is old" here.']),
            ("Rome has hills; rivers; lakes.", ["Rome has hills; rivers; lakes."]),
            ("Red; blue is nice.", ["Red; blue is nice."]),
            ("It is old; is it big.", ["It is old; is it big."]),
            ("Ada met him, and it rain fell.", ["Ada met him, and it rain fell."]),
        ],
    )
    def test_split_clauses(self, text: str, expected: list[str]) -> None:
        assert [span.text_of(text) for span in split_clauses(text)] == expected

    def test_split_clauses_italian(self) -> None:
        text = "Dante nacque a Firenze, e lui morì a Ravenna; la tomba è lì."
        assert [s.text_of(text) for s in split_clauses(text, "it")] == [
            "Dante nacque a Firenze",
            "lui morì a Ravenna",
            "la tomba è lì.",
        ]

    @pytest.mark.parametrize(
        ("text", "language", "expected"),
        [
            ("Rome is old", "en", True),
            ("Rome walked", "en", True),
            ("One hundred seeds", "en", False),
            ("In May", "en", False),
            ("Roma è antica", "it", True),
            ("Egli fondò Roma", "it", True),
            ("Storia di Roma", "it", False),
            ("Rome is old", "xx", True),
        ],
    )
    def test_has_verb(self, text: str, language: str, expected: bool) -> None:
        assert has_verb(text, language) is expected

    def test_fragments_and_statements(self) -> None:
        assert [is_fragment(t, "en") for t in ("Founded in 1040", "It was founded", "Capital")] == [True, False, True]
        assert [is_statement(t, "en") for t in ("How it is", "It is", "Capital")] == [False, True, False]

    @pytest.mark.parametrize(
        ("text", "before", "expected"),
        [
            ("She won.", ["Marie Curie was born."], "Marie Curie won."),
            ("She won.", ["Marie Curie was born.", "She lived here."], "Marie Curie won."),
            ("She won.", ["Marie Curie was born.", "Rain fell in town."], "She won."),
            ("She won.", ["The woman was born."], "She won."),
            ("It has hills.", ["Rome is the capital of Italy."], "Rome has hills."),
            ("It has hills.", ["Rome has a river."], "It has hills."),
            ("They won.", ["Marie Curie was born."], "They won."),
            ("It seems old.", ["Rome is the capital."], "It seems old."),
            ("She won.", [], "She won."),
        ],
    )
    def test_name_subject(self, text: str, before: list[str], expected: str) -> None:
        assert name_subject(text, before) == expected

    def test_italian_subjects_are_left_alone(self) -> None:
        assert name_subject("He won.", ["Marie Curie was born."], "it") == "He won."

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Dr. A. B. Conti was born.", "Dr. A. B. Conti"),
            ("Leonardo da Vinci painted it.", "Leonardo da Vinci"),
            ("In Rome is a hill.", None),
            ("Rome quickly fell.", None),
            ("the town is old.", None),
        ],
    )
    def test_subject_of(self, text: str, expected: str | None) -> None:
        assert subject_of(text) == expected


class TestClaimsOf:
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            (
                'Sure, here it is:\n```json\n{"claims": ["Set {1,2} has 2 elements", "B"]}\n```\nNote: {not json}',
                ["Set {1,2} has 2 elements", "B"],
            ),
            ('\ufeff{"claims": ["a stray 4,} here", "row [7, ] kept",]}', ["a stray 4,} here", "row [7, ] kept"]),
            ('{"claims": "Oslo is in Norway"}', ["Oslo is in Norway"]),
            ('{"claims": ["A", null, "", "  ", {"text": "B"}, "C"]}', ["A", "B", "C"]),
            ('{"claims": ["He said \\"no\\"", "50% \\u00e8 vero"]}', ['He said "no"', "50% è vero"]),
            ('{"claims": []}', []),
            ('{"claims": ["two\\n  lines", 7, ["x"], {"text": null}]}', ["two lines"]),
        ],
    )
    def test_texts(self, raw: str, expected: list[str]) -> None:
        assert [text for _, text in claims_of(parse_json_object(raw))] == expected

    def test_sentence_numbers(self) -> None:
        items = [{"sentence": n, "text": "A"} for n in (1, "2", " 3 ", "x", 1.5, True, None)]
        assert [number for number, _ in claims_of({"claims": items})] == [1, 2, 3, None, None, None, None]

    @pytest.mark.parametrize(
        "reply", [{}, {"claims": None}, {"claims": 7}, {"claims": {"text": "A"}}, {"claim": ["A"]}]
    )
    def test_no_list(self, reply: dict[str, object]) -> None:
        with pytest.raises(ParseError, match="the reply has no list of claims, but "):
            claims_of(reply)

    @pytest.mark.parametrize("claims", [[None], ["", "  "], [{}], [7, []], "  "])
    def test_nothing_usable(self, claims: object) -> None:
        with pytest.raises(ParseError, match=r"none of the \d+ claims in the reply is a text: "):
            claims_of({"claims": claims})

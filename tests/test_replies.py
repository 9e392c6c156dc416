"""Reasoning, JSON and finish reasons in what a model wrote."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrigenda.errors import ParseError
from corrigenda.prompts import load
from corrigenda.replies import (
    ThinkFilter,
    completion_of,
    content_text,
    finish_reason_of,
    parse_json_object,
    shorten,
    visible_text,
)
from corrigenda.types import Completion, TokenUsage

EN, IT = load("en"), load("it")

VISIBLE = [
    (None, "", False),
    ("", "", False),
    ("Rome has seven hills.", "Rome has seven hills.", False),
    ("<think>maybe 5?</think>\n\nRome has seven hills.", "Rome has seven hills.", False),
    ("<think>5 hills, no", "", True),
    ("<think>", "", True),
    ("<think></think>", "", False),
    ("<think>\n</think>\r\n\r\nSeven.", "Seven.", False),
    ("<THINK>5</Think>Seven.", "Seven.", False),
    ("<thinking>5</thinking> \n Seven.", " Seven.", False),
    ("<reasoning>5</reasoning>\nSeven.", "Seven.", False),
    ("<think>5</think> Seven.", " Seven.", False),
    ("<think>5</think>\n", "", False),
    ("<think>5</think>  ", "  ", False),
    ("Seven.<think>or 5?</think>\nThey say.", "Seven.They say.", False),
    ("Seven. <think>or 5?", "Seven. ", True),
    ("<think>a</think><think>b</think>\nSeven.", "Seven.", False),
    ("<think>a <reasoning> b</think>Seven.", "Seven.", False),
    ("<think>5</thinking>4</think>Seven.", "Seven.", False),
    ("5 < 7 and 7 > 5", "5 < 7 and 7 > 5", False),
    ("a < b <th", "a < b <th", False),
    ("The tag `<think>` opens a block.", "The tag `<think>` opens a block.", False),
    ("<thinker>Rodin</thinker>", "<thinker>Rodin</thinker>", False),
    ("<think>x</think>`<think>`", "`<think>`", False),
    ("`<think>5</think>Seven.", "`<think>5</think>Seven.", False),
    ("5 hills, wait\n</think>\n\nSeven.", "Seven.", False),
    ("5 hills</think>", "", False),
    ("a </think> b", "a </think> b", False),
    ("<think>a</think>\nSeven.</think>\n", "Seven.</think>\n", False),
    ("a\n</think>\nSeven.</think>\n", "Seven.</think>\n", False),
    ("a\n</think>\n \nSeven.<think>b</think>!", "Seven.!", False),
    ("a</think>  ", "", False),
    ("a\ud83d\ude00b", "a😀b", False),
    ("\ud83d", "\ufffd", False),
    ("a\ud83d b\ude00", "a\ufffd b\ufffd", False),
    ("\ude00\ud83d\ud83d\ude00", "\ufffd\ufffd😀", False),
    ("<think>\ud83d</think>\ud83d", "\ufffd", False),
]


@pytest.mark.parametrize(("content", "text", "unclosed"), VISIBLE)
def test_visible_text(content: str | None, text: str, unclosed: bool) -> None:
    assert visible_text(content) == (text, unclosed)


@given(
    st.lists(
        st.sampled_from(
            ["<think>", "</think>", "</think>\n", "<thinking>", "</thinking>", "<", "</", "th", "ink>", "`", "\n", " "],
        )
        | st.sampled_from(["Roma", "5", "\ud83d", "\ude00"]),
        max_size=12,
    ).map("".join),
    st.integers(1, 9),
    st.booleans(),
)
@settings(max_examples=500, deadline=None)
def test_pieces_give_what_the_whole_gives(text: str, size: int, held: bool) -> None:
    whole, pieces = ThinkFilter(held=held), ThinkFilter(held=held)
    expected = whole.feed(text) + whole.finish()
    found = "".join(pieces.feed(text[i : i + size]) for i in range(0, len(text), size)) + pieces.finish()
    assert (found, pieces.inside, pieces.orphaned, pieces.leaked) == (
        (expected, whole.inside, whole.orphaned, whole.leaked)
    )
    assert "<think>" not in expected.lower().replace("`<think>", "")
    found.encode()
    if held or not pieces.leaked:
        assert (found, pieces.inside) == visible_text(text)
    assert not (held and pieces.leaked)


@pytest.mark.parametrize(("content", "text", "unclosed"), [v for v in VISIBLE if v[0] and v[0].find("<") >= 0][:21])
def test_one_character_at_a_time(content: str, text: str, unclosed: bool) -> None:
    think = ThinkFilter()
    assert "".join(map(think.feed, content)) + think.finish() == text
    assert think.inside is unclosed


def test_visible_text_is_not_held_back() -> None:
    think = ThinkFilter()
    assert [think.feed(p) for p in ("Rome ", "has <", "b> ", "<thi", "nk>5", "</think", ">\n", "\nhills")] == [
        "Rome ",
        "has ",
        "<b> ",
        "",
        "",
        "",
        "",
        "hills",
    ]


def test_a_missing_opening_tag_is_noticed_as_soon_as_its_line_ends() -> None:
    think = ThinkFilter()
    seen = [(think.feed(p), think.leaked) for p in ("It has 5", "? No.\n</thi", "nk>", " ", "\n", "Seven.")]
    assert seen == [("It has 5", False), ("? No.\n</thi", False), ("nk>", False), (" ", False), ("\n", True),
                    ("Seven.", True)]  # fmt: skip
    for text, leaked in (("x</think>", True), ("x</think> y", False), ("<think>a</think>\nx</think>\n", False)):
        think = ThinkFilter()
        assert think.feed(text) + think.finish() == text.removeprefix("<think>a</think>\n")
        assert (think.orphaned, think.leaked) == (leaked, leaked)


def test_held_text_comes_once_it_is_known_what_it_is() -> None:
    think = ThinkFilter(held=True)
    assert [think.feed(p) for p in ("It has 5?\n</th", "ink>", "\n\n", "Seven", ".")] == ["", "", "", "Seven", "."]
    assert (think.orphaned, think.leaked) == (True, False)
    think = ThinkFilter(held=True)
    assert [think.feed(p) for p in ("Well, ", "<think>5?</think>", "seven.")] == ["", "Well, ", "seven."]
    think = ThinkFilter(held=True)
    assert [think.feed("Seven"), think.feed("."), think.finish()] == ["", "", "Seven."]
    think = ThinkFilter(held=True)
    think.release()
    assert [think.feed("Seven"), think.feed("."), think.finish()] == ["Seven", ".", ""]


def test_half_of_a_surrogate_pair_waits_for_the_other() -> None:
    think = ThinkFilter()
    assert [think.feed("a\ud83d"), think.feed("\ude00b"), think.feed("\ud83d"), think.feed("c"), think.finish()] == [
        "a",
        "😀b",
        "",
        "\ufffdc",
        "",
    ]
    think = ThinkFilter()
    assert think.feed("a\ud83d") + think.finish() == "a\ufffd"


def test_completions_never_hold_reasoning(shared_cases: dict[str, Any]) -> None:
    case = shared_cases["PC-14"]
    found = [completion_of(m["message"], m["finish_reason"], TokenUsage()) for m in case["input"]["messages"]]
    assert [c.text for c in found] == case["expected"]["visible_answer"]
    assert "5 hills" not in repr(found)


@pytest.mark.parametrize(
    ("message", "reason", "expected"),
    [
        ({"content": None, "reasoning_content": "5"}, "length", Completion(text="", finish_reason="length")),
        ({"content": "", "reasoning": "5"}, "stop", Completion(text="")),
        ({"content": "<think>5", "refusal": None}, "max_tokens", Completion(text="", finish_reason="length")),
        ({"content": "Seven."}, "end_turn", Completion(text="Seven.")),
        ({"content": "Seven."}, None, Completion(text="Seven.", finish_reason="other")),
        ({"content": "Ro"}, "content_filter", Completion(text="Ro", finish_reason="content_filter")),
        ({"refusal": "No."}, "stop", Completion(text="", finish_reason="refusal", refusal="No.")),
        ({"content": "Well.", "refusal": "No."}, "stop", Completion(text="Well.", refusal="No.")),
        ({"content": "Well.", "refusal": ""}, "stop", Completion(text="Well.")),
        ({"content": "5\ud800", "refusal": "\ud83d\ude00"}, "stop", Completion(text="5\ufffd", refusal="😀")),
        ({"content": "5\ud83d\ude00", "refusal": "\ud800"}, "stop", Completion(text="5😀", refusal="\ufffd")),
        ({}, ["stop"], Completion(text="", finish_reason="other")),
    ],
)
def test_completion_of(message: dict[str, Any], reason: object, expected: Completion) -> None:
    assert completion_of(message, reason, TokenUsage()) == expected


def test_content_and_finish_reasons_of_other_types() -> None:
    parts = [{"type": "text", "text": "Se"}, {"text": "ven"}, {"type": "image"}, {"type": "text", "text": 5}, "x"]
    assert [content_text(v) for v in (parts, None, 5, {"text": "x"}, [])] == ["Seven", "", "", "", ""]
    assert [finish_reason_of(v) for v in ("refusal", "tool_calls", 5, None)] == ["refusal", "other", "other", "other"]


# JSON


def test_json_as_models_write_it(shared_cases: dict[str, Any]) -> None:
    found = [parse_json_object(raw) for raw in shared_cases["PC-12"]["input"]["raws"]]
    assert found == [
        {"claims": ["Set {1,2} has 2 elements", "B"]},
        {"claims": ["a stray 4,} here", "row [7, ] kept"]},
        {"claims": "Oslo is in Norway"},
        {"claims": ["A", None, "", "  ", {"text": "B"}, "C"]},
        {"claims": ['He said "no"', "50% è vero"]},
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1.5}', {"a": 1.5}),
        ("{}", {}),
        (' \n\ufeff{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('```JSON\r\n{"a": 1}', {"a": 1}),
        ('```json {"a": 1}```', {"a": 1}),
        ('```python\nx = {1, 2}\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ('As {"a": 0} asks:\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```\nno\n```\nHere: {"a": 1}', {"a": 1}),
        ('{"a": "```json\\n{}```"}', {"a": "```json\n{}```"}),
        ('Sure! {"a": 1} Hope this helps {:-)', {"a": 1}),
        ('{"a": 1}{"a": 2}', {"a": 1}),
        ('The set {1,2} and [3] and {x}: {"a": 1}', {"a": 1}),
        ('See ["1"] and [[2]]: {"a": 1}', {"a": 1}),
        ('See ["x" and {"a": 1}', {"a": 1}),
        ('{"a": broken} then {"a": 1}', {"a": 1}),
        ('{"a": [1, 2,], "b": {"c": 1,},}', {"a": [1, 2], "b": {"c": 1}}),
        ('{"a": ["x,]", "y,}", "\\",]"],}', {"a": ["x,]", "y,}", '",]']}),
        ('{"a": "two\nlines\tand a tab"}', {"a": "two\nlines\tand a tab"}),
        ('{"a": "{[", "b": "]}"}', {"a": "{[", "b": "]}"}),
        ('{"a": "\\ud83e\\udded"}', {"a": "🧭"}),
        ('{\n  "a": 1\n}', {"a": 1}),
    ],
)
def test_parse_json_object(text: str, value: dict[str, Any]) -> None:
    assert parse_json_object(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the reply is empty"),
        (" \n\ufeff", "holds no JSON object"),
        ("I cannot do that.", "holds no JSON object: 'I cannot do that.'"),
        ("[1, 2]", "holds no JSON object"),
        ('"a"', "holds no JSON object"),
        ('[{"a": 1}, {"a": 2}]', "holds a JSON list where one object was asked for"),
        ('["a", {"a": 2},]', "holds a JSON list where one object was asked for"),
        ('[{"a": 1}, {"a": ', "holds a JSON list that is cut off"),
        ('{"claims": [{"text": "A"}, {"te', "holds a JSON object that is cut off"),
        ('{"claims": ["A"', "holds a JSON object that is cut off"),
        ('{"claims": "A}', "holds malformed JSON"),
        ('{"claims": [A]}', "holds malformed JSON"),
        ("{'claims': ['A']}", "holds no JSON object"),
        ('{"a": 1,,}', "holds malformed JSON"),
        ('{"a": NaN}', r"holds malformed JSON \(NaN is not JSON\)"),
        ('{"a": [-Infinity]}', r"-Infinity is not JSON"),
        ('{"a": 1e999}', "the number 1e999 is out of range"),
        ('{"a": ' + "9" * 5000 + "}", "holds malformed JSON"),
        ('{"a": "\\ud800"}', "holds malformed JSON"),
        ('{"a": ' + "[" * 50_000 + "]" * 50_000 + "}", "holds malformed JSON"),
        ("[" * 50_000, "holds no JSON object"),
        ('{"a":' * 50_000, "cut off"),
        ('{"a": x} ' * 60 + '{"a": 1}', "holds malformed JSON"),
        ('```json\n{"a": \n```', "cut off"),
    ],
)
def test_replies_without_a_usable_object(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_json_object(text)
    assert len(str(caught.value)) <= 420


@given(st.text(alphabet='{}[]",:\\a1 \n`-NI', max_size=60))
@settings(max_examples=500, deadline=None)
def test_only_parse_errors_escape(text: str) -> None:
    try:
        value = parse_json_object(text)
    except ParseError:
        return
    assert isinstance(value, dict)
    json.dumps(value, allow_nan=False)


@given(st.dictionaries(st.text(max_size=5), st.lists(st.text(max_size=9), max_size=3), max_size=3))
@settings(max_examples=200, deadline=None)
def test_what_json_writes_is_read_back(value: dict[str, list[str]]) -> None:
    assert parse_json_object(f"Here:\n```json\n{json.dumps(value)}\n```\nDone.") == value
    assert parse_json_object(f"Here: {json.dumps(value)} and {{so on}}") == value


def test_shorten() -> None:
    assert [shorten("abcde", n) for n in (5, 4, 1)] == ["abcde", "abc…", "…"]

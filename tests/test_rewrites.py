"""Refusals, abstentions and rewrites in what a model wrote."""

from typing import Any

import pytest

from corrigenda.prompts import load
from corrigenda.replies import (
    is_abstention,
    is_refusal,
    unwrap_rewrite,
)

EN, IT = load("en"), load("it")

# Refusals and abstentions


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, but I cannot help with this request.",
        "i'm  sorry,\nbut i can't",
        "Sorry, I can't do that. It would be dangerous.",
        '"I cannot assist with that."',
        "**I'm unable to answer.**",
        "As an AI language model, I don't have opinions.",
    ],
)
def test_refusals(text: str) -> None:
    assert is_refusal(text, EN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Rome has seven hills.",
        "I'm sorry, but I can't browse. However, Rome has seven hills.",
        "I cannot answer for sure, but Rome has seven hills.",
        "I'm sorry, but I can tell you that Rome has seven hills.",
        "As an airline, Alitalia ended in 2021.",
        "As an AI, I can tell you that Rome has seven hills.",
        "I can't stress enough that Rome has seven hills.",
        "He said: I'm sorry, but I can't.",
    ],
)
def test_no_refusals(text: str) -> None:
    assert not is_refusal(text, EN)


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ("I don't know.", EN),
        ("I don’t know", EN),
        ("I have no comment.", EN),
        ("No comment", EN),
        ("Unknown.", EN),
        ("I'm not sure. I have no information about that.", EN),
        ("I don't know who built it. Can you tell me more?", EN),
        ("I'm sorry, but I don't know. I can't help with that!", EN),
        ("Non lo so.", IT),
        ("Non so. Non ho informazioni su questo.", IT),
        ("Nessun commento", IT),
    ],
)
def test_abstentions(text: str, prompts: Any) -> None:
    assert is_abstention(text, prompts)


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ("", EN),
        ("  \n", EN),
        ("Rome has seven hills.", EN),
        ("Unknown Pleasures is an album by Joy Division.", EN),
        ("No comment was recorded in 1990.", EN),
        ("I don't know. Rome was founded in 753 BC.", EN),
        ("I'm not sure who said it, but Rome has seven hills.", EN),
        ("There is no information that travels faster than light.", EN),
        ("Did I say so? I don't know.", EN),
        ("Non lo so, ma Roma ha sette colli.", IT),
        ("Non si sa mai chi arriva.", IT),
    ],
)
def test_no_abstentions(text: str, prompts: Any) -> None:
    assert not is_abstention(text, prompts)


# Rewrites


def test_rewrites_as_models_write_them(shared_cases: dict[str, Any]) -> None:
    case = shared_cases["PC-15"]
    found = [unwrap_rewrite(raw, EN) for raw in case["input"]["rewriter_outputs"]]
    assert found[:-1] == case["expected"]["inserted"][:-1]
    assert found[-1] == "Rome has 6 hills."  # for the verifier to refuse


S = "Rome has seven hills."


@pytest.mark.parametrize(
    "text",
    [
        S,
        f"  {S}\n\n",
        f"Here is the corrected sentence:\n\n{S}",
        f'Here is the corrected sentence:\n\n"{S}"',
        f"Here’s the corrected sentence: {S}",
        f"HERE IS THE CORRECTED SENTENCE\n{S}",
        f"**Corrected sentence:** {S}",
        f"**Corrected sentence**: {S}",
        f"Corrected sentence：{S}",
        f"Sure! Here is the corrected sentence:\n{S}",
        f"Certainly, here is the corrected version: “{S}”",
        f"Sure! {S}",
        f"Correction: {S}",
        f'"{S}"',
        f"“{S}”",
        f"«{S}»",
        f"'{S}'",
        f"**{S}**",
        f"`{S}`",
        f"```\n{S}\n```",
        f"Here is the corrected sentence:\n```text\n{S}\n```",
        f"<sentence>\n{S}\n</sentence>",
        f"<think>it says 5</think>\n{S}",
        f"{S}\n\nNote: I changed the number.",
        f'"{S}"\n\n(Note that the reference says seven.)',
        f"{S}\nExplanation: the reference says seven.\nMore of it.\n\nAnd more.",
        f"Here is the corrected sentence:\n{S}\n\nI hope this helps!",
    ],
)
def test_wrappers_are_removed(text: str) -> None:
    assert unwrap_rewrite(text, EN) == S


@pytest.mark.parametrize(
    "text",
    [
        "Here are the ruins of Ostia, once a port.",
        "Here is the corrected sentence that Galileo signed.",
        "Correction fluid was invented in 1956.",
        "Corrected proofs are due on Monday: nobody sends them.",
        "Certainly the oldest of the hills is the Palatine.",
        "Sure, Rome has seven hills.",
        '"Alpha" and "Beta"',
        '"No," he said, "never."',
        "'It's' and 'its'",
        "“Alpha” and “Beta”",
        "**Rome** has **seven hills**",
        '"Rome has seven hills.',
        '"',
        "'",
        "**",
        "Rome's hills' number is seven.",
        "Note: the hills are seven.",
        "Seven hills:\n- Aventine\n- Caelian",
        "<sentence>One.</sentence> <sentence>Two.</sentence>",
        "```\nOne.\n``` and ```\nTwo.\n```",
        "I can't be certain that Rome has seven hills.",
    ],
)
def test_what_only_looks_like_a_wrapper_is_left_alone(text: str) -> None:
    assert unwrap_rewrite(text, EN) == text


def test_quotes_of_the_source_sentence_stay() -> None:
    assert unwrap_rewrite(f'"{S}"', EN, source='"Rome has 5 hills." ') == f'"{S}"'
    assert unwrap_rewrite(f'"{S}"', EN, source="Rome has 5 hills.") == S
    assert unwrap_rewrite(f"“{S}”", EN, source='"Rome has 5 hills."') == S


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "   ",
        '""',
        '" "',
        "****",
        "<think>it says 5",
        "<sentence></sentence>",
        "Here is the corrected sentence:",
        "Here is the corrected sentence:\n\n",
        "I'm sorry, but I can't assist with that.",
        "\"I'm sorry, but I can't assist with that.\"",
        "Here is the corrected sentence:\n\nI cannot provide one.",
        "I don't know.",
        "Rome has seven hills.\n\nSeven is what it says.",
        "First I look at the reference.\n \nRome has seven hills.",
    ],
)
def test_nothing_to_insert(text: str | None) -> None:
    assert unwrap_rewrite(text, EN) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ecco la frase corretta:\n\n«Roma ha sette colli.»", "Roma ha sette colli."),
        ("Certo! Ecco la frase corretta: Roma ha sette colli.\n\nNota: ho corretto il numero.", "Roma ha sette colli."),
        ("Ecco la frase corretta dal maestro.", "Ecco la frase corretta dal maestro."),
        ("Mi dispiace, ma non posso aiutarti.", None),
        ("Non lo so.", None),
    ],
)
def test_rewrites_in_italian(text: str, expected: str | None) -> None:
    assert unwrap_rewrite(text, IT) == expected


def test_a_user_may_empty_the_lists() -> None:
    bare = type(EN)(language="en", tables={"lexicon": {key: [] for key in EN.tables["lexicon"]}})
    assert unwrap_rewrite(f"Sure! Correction: {S}", bare) == f"Sure! Correction: {S}"
    assert not is_refusal("I'm sorry, but I can't.", bare)
    assert not is_abstention("I don't know.", bare)
    only_refusals = type(EN)(language="en", tables={"lexicon": {**EN.tables["lexicon"], "contrasts": []}})
    assert is_refusal("I'm sorry, but I can't. However, ask me again.", only_refusals)

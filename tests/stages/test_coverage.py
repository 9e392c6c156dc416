"""Stage 2: whether a model's claims together say what their sentence says."""

from __future__ import annotations

import pytest

from corrigenda.stages.coverage import invented, left_out

NOT = "Rome does not have hills but is in Italy."


@pytest.mark.parametrize(
    ("sentence", "claims", "lost"),
    [
        ("Rome was founded by Martians and is in Italy.", ["Rome is in Italy."], "founded"),
        ("Rome was founded by Martians.", ["Rome was founded."], "Martians"),
        ("Rome has seven hills and a river.", ["Rome has hills.", "Rome has a river."], "seven"),
        ("Rome has 7 hills.", ["Rome has hills."], "7"),
        ("Iran has oil and gas.", ["Iraq has oil.", "Iraq has gas."], "Iran"),
        ("If it rains, Rome floods.", ["It rains.", "Rome floods."], "If"),
        ("Nobody lives in Rome.", ["People live in Rome."], "Nobody"),
        ("东京塔高。", ["东京塔。"], "东京塔高"),
    ],
)
def test_words_that_are_left_out(sentence: str, claims: list[str], lost: str) -> None:
    assert left_out(sentence, claims) == lost


@pytest.mark.parametrize(
    ("sentence", "claims"),
    [
        ("Rome, the capital of Italy, was founded.", ["Rome is the capital of Italy.", "Rome was founded."]),
        ("Rome’s hills are old and green.", ["The hills of Rome are old.", "Rome's hills are green."]),
        ("The Martian, located in Rome, also won.", ["The Martian is in Rome.", "The Martian won."]),
        ("Romans, known as builders, won.", ["The Roman is a builder.", "The Romans won."]),
        ("The tower, including the mast, rises.", ["The tower rises.", "The mast rises."]),
        ("Roma, capitale dell'Italia, è antica.", ["Roma è la capitale d'Italia.", "Roma è antica."]),
        ("It has a port.", ["Rome has a port."]),
    ],
)
def test_other_endings_and_light_words_are_not_left_out(sentence: str, claims: list[str]) -> None:
    assert left_out(sentence, claims) is None


@pytest.mark.parametrize(
    ("sentence", "claims"),
    [
        ("Rome does not have hills and is not in Spain.", ["Rome has hills and is in Spain."]),
        ("Rome does not have hills and is not in Spain.", ["Rome does not have hills.", "Rome is in Spain."]),
        (NOT, ["Rome has hills.", "Rome is not in Italy."]),
        (NOT, ["Rome does not have hills.", "Rome is not in Italy."]),
        ("Rome has hills and is old.", ["Rome has no hills.", "Rome is old."]),
        ("Rome doesn’t have hills.", ["Rome does have hills."]),
        ("Roma non ha colli ed è in Italia.", ["Roma ha colli.", "Roma è in Italia."]),
        (NOT, ["Rome does not have hills.", "Rome is in Italy.", "Rome is."]),
    ],
)
def test_a_negation_stays_where_it_is(sentence: str, claims: list[str]) -> None:
    assert left_out(sentence, claims) == "not"


@pytest.mark.parametrize(
    ("sentence", "claims"),
    [
        (NOT, ["Rome does not have hills.", "Rome is in Italy."]),
        ("Rome isn't old and isn’t in Spain.", ["Rome is not old.", "Rome is not in Spain."]),
        ("Roma non ha colli.", ["Roma non ha colli."]),
    ],
)
def test_a_negation_that_stays_is_no_loss(sentence: str, claims: list[str]) -> None:
    assert left_out(sentence, claims) is None


@pytest.mark.parametrize(
    ("claim", "word"),
    [
        ("Rome has seven hills.", "seven"),
        ("Rome has 7 hills.", "7"),
        ("Milan has hills.", "Milan"),
        ("Rome in Spain has hills.", "Spain"),
        ("The Romes have hills.", None),
        ("Also Rome has hills.", None),
    ],
)
def test_numbers_and_names_that_are_put_in(claim: str, word: str | None) -> None:
    assert invented(claim, "Rome has hills.") == word

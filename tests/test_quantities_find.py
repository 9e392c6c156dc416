"""Finding quantities in a text, and what holds for all texts."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrigenda.quantities import NumericVerdict, Quantity, QuantityKind, compare, find_quantities
from corrigenda.types import Span


def brief(quantity: Quantity) -> tuple[str, str, str, str, str]:
    low, high = (None if v is None else float(v) for v in (quantity.low, quantity.high))
    values = f"{low:g}" if low is not None and low == high else f"{low}..{high}"
    flags = "".join(
        mark for mark, on in (("~", quantity.approximate), ("!", quantity.strict), ("?", quantity.uncertain)) if on
    )
    return quantity.text, quantity.kind.value, quantity.dimension, values, flags


FOUND = [
    ("en", "about 1,200 metres", ("about 1,200 metres", "measure", "length", "1200", "~")),
    ("en", "1\u00a0200 km", ("1\u00a0200 km", "measure", "length", "1.2e+06", "")),
    ("en", "1'250'000 CHF", ("1'250'000 CHF", "money", "money:CHF", "1.25e+06", "")),
    ("en", "1.250,5 kg", ("1.250,5 kg", "measure", "mass", "1250.5", "")),
    ("en", "0,5 kg", ("0,5 kg", "measure", "mass", "0.5", "")),
    ("en", "1.200 km", ("1.200 km", "measure", "length", "1200", "?")),
    ("it", "1.200 km", ("1.200 km", "measure", "length", "1.2e+06", "")),
    ("en", "1,00,000 people", None),
    ("en", "1,000,000.5.5 people", None),
    ("en", "1'2 people", None),
    ("en", "1,2'500.5 people", None),
    ("en", "sold 5k cars", ("5k", "number", "count", "5000", "")),
    ("en", "sold 5K cars", None),
    ("en", "it sold two hundred and fifty cars", ("two hundred and fifty", "number", "count", "250", "")),
    ("en", "it sold three hundred cars", ("three hundred", "number", "count", "300", "")),
    ("en", "it sold two hundred thousand cars", ("two hundred thousand", "number", "count", "200000", "")),
    ("en", "it sold twenty one cars", ("twenty one", "number", "count", "21", "")),
    (
        "en",
        "it sold two million three hundred cars",
        ("two million three hundred", "number", "count", "2.0003e+06", ""),
    ),
    ("en", "it sold two thousand million cars", ("two thousand", "number", "count", "2000", "")),
    ("en", "two thousand three million cars", ("three million", "number", "count", "3e+06", "")),
    ("en", "it sold two dozen cars", ("two dozen", "number", "count", "24", "")),
    ("en", "24 dozen eggs", ("24 dozen", "number", "count", "288", "")),
    ("en", "one of them", None),
    ("en", "a million cars", ("a million", "number", "count", "1e+06", "")),
    ("it", "un milione di auto", ("un milione", "number", "count", "1e+06", "")),
    ("it", "duemilacinquecento auto", ("duemilacinquecento", "number", "count", "2500", "")),
    ("it", "millenovecento auto", ("millenovecento", "number", "count", "1900", "")),
    ("it", "mille auto", ("mille", "number", "count", "1000", "")),
    ("it", "duemila auto", ("duemila", "number", "count", "2000", "")),
    ("it", "miladue auto, gattomila, milamila", None),
    ("it", "5 mila euro", ("5 mila euro", "money", "money:EUR", "5000", "")),
    ("it", "più di 3 milioni di persone", ("più di 3 milioni", "bound", "count", "3000000.0..None", "!")),
    ("it", "100 km circa", ("100 km circa", "measure", "length", "100000", "~")),
    ("it", "100 chilometri", ("100 chilometri", "measure", "length", "100000", "")),
    ("it", "il 5 per cento", ("5 per cento", "percent", "percent", "5", "")),
    ("it", "3 gradi sotto zero", ("3", "number", "count", "3", "")),
    ("it", "3 gradi Celsius sotto zero", ("3 gradi Celsius sotto zero", "measure", "temperature", "-3", "")),
    ("it", "il 3º posto", ("3º", "ordinal", "ordinal", "3", "")),
    ("it", "la terza volta", ("terza", "ordinal", "ordinal", "3", "")),
    ("en", "the 21st time", ("21st", "ordinal", "ordinal", "21", "")),
    ("en", "the 19th century", None),
    ("en", "5 ° C", ("5 ° C", "measure", "temperature", "5", "")),
    ("it", "5° C", ("5° C", "measure", "temperature", "5", "")),
    ("en", "300 K", ("300 K", "measure", "temperature", "26.85", "")),
    ("en", "a 16-year-old", ("16-year", "measure", "months", "192", "")),
    ("en", "5 million pounds", ("5 million pounds", "money", "money:GBP", "5e+06", "")),
    ("en", "5 pounds", ("5 pounds", "measure", "mass", "2.26796", "")),
    ("en", "HK$5", ("HK$5", "money", "money:HK-USD", "5", "")),
    ("en", "$5 K", ("$5", "money", "money:USD", "5", "")),
    ("en", "5 percentage points", ("5 percentage points", "percent", "percentage-points", "5", "")),
    ("en", "5 or more people", ("5 or more", "bound", "count", "5.0..None", "")),
    ("en", "no more than 5 km", ("no more than 5 km", "bound", "length", "None..5000.0", "")),
    ("en", "5–8 km", ("5–8 km", "range", "length", "5000.0..8000.0", "")),
    ("en", "8–5 km", None),
    ("en", "€5-8", ("€5-8", "range", "money:EUR", "5.0..8.0", "")),
    ("en", "€5-8 million", ("€5-8 million", "range", "money:EUR", "5000000.0..8000000.0", "")),
    ("en", "5–8 million euros", ("5–8 million euros", "range", "money:EUR", "5000000.0..8000000.0", "")),
    ("en", "5–8–9 km", None),
    ("en", "between 5 and 8 km", ("between 5 and 8 km", "range", "length", "5000.0..8000.0", "")),
    ("en", "5 to 8 people", ("5 to 8", "range", "count", "5.0..8.0", "")),
    ("en", "#5, B2, and 5G, 5/8, 5½, 5 x 6", None),
    ("en", "No. 5 is it", None),
    ("en", "Apollo 11 flew", None),
    ("en", "it weighs 5 kg.", ("5 kg", "measure", "mass", "5", "")),
    ("en", "9" * 50, None),
    ("en", "5", ("5", "number", "count", "5", "")),
    ("en", "5 per cent", ("5 per cent", "percent", "percent", "5", "")),
    ("en", "-5 people", ("-5", "number", "count", "-5", "")),
    ("en", "- 5 people", ("5", "number", "count", "5", "")),
    ("en", "c. 500 people", ("c. 500", "number", "count", "500", "~")),
    ("en", "2000 people came", ("2000", "number", "count", "2000", "")),
    ("en", "in 2000 homes", None),
    ("it", "nel 2000 persone", None),
    ("en", "30 February", ("30", "number", "count", "30", "")),
    ("it", "03.04.2021", ("03.04.2021", "date", "date", str(372 * 2021 + 95), "")),
    ("en", "25/12/2021", ("25/12/2021", "date", "date", str(372 * 2021 + 365), "")),
    ("en", "12/25/2021", ("12/25/2021", "date", "date", str(372 * 2021 + 365), "")),
    ("en", "1-2-3 and 2021-04 and 1-2-2021", None),
    ("en", "25 Dec. 2021", ("25 Dec. 2021", "date", "date", str(372 * 2021 + 365), "")),
    ("en", "25 Dec", ("25 Dec", "date", "day-of-year", "365", "")),
    ("en", "12 million trillion dozen", ("12 million trillion", "number", "count", "1.2e+19", "")),
    ("en", "lasted 5 years or so", ("5 years or so", "measure", "months", "60", "~")),
    ("en", "more than in 2010", ("2010", "year", "date", "747720.0..748091.0", "")),
    ("en", "more than 3 April", ("3 April", "date", "day-of-year", "95", "")),
    ("en", "3 April or so", ("3 April or so", "date", "day-of-year", "95", "~")),
    ("en", "25$ extra", ("25$", "money", "money:USD", "25", "")),
    ("en", "99 balloons", ("99", "number", "count", "99", "")),
]


@pytest.mark.parametrize(("language", "text", "expected"), FOUND)
def test_one_quantity(language: str, text: str, expected: tuple[str, ...] | None) -> None:
    assert [brief(q) for q in find_quantities(text, language)] == ([] if expected is None else [expected])


def test_a_quantity_whole() -> None:
    assert find_quantities("He saw at least 40 young people.") == (
        Quantity(
            span=Span(7, 18),
            text="at least 40",
            kind=QuantityKind.BOUND,
            dimension="count",
            unit="",
            low=Fraction(40),
            high=None,
            noun="young",
        ),
    )
    assert find_quantities("lungo 1,25 km", "it-IT") == (
        Quantity(
            span=Span(6, 13),
            text="1,25 km",
            kind=QuantityKind.MEASURE,
            dimension="length",
            unit="m",
            low=Fraction(1250),
            high=Fraction(1250),
            rounding=Fraction(5),
        ),
    )


def test_from_to_stays_two_and_shares_the_unit() -> None:
    found = find_quantities("from 5 to 8 million euros, from 2000 to 2005, from 5,000 to 8 million")
    assert [brief(q) for q in found] == [
        ("5", "money", "money:EUR", "5e+06", ""),
        ("8 million euros", "money", "money:EUR", "8e+06", ""),
        ("2000", "year", "date", "744000.0..744371.0", ""),
        ("2005", "year", "date", "745860.0..746231.0", ""),
        ("5,000", "number", "count", "5000", ""),
        ("8 million", "number", "count", "8e+06", ""),
    ]


def test_the_reason_names_both_values() -> None:
    assert compare("The tunnel is 1.2 km long.", "The tunnel is 12 km long.") == NumericVerdict(
        kind="conflict", reason="1.2 km against 12 km"
    )
    assert compare("The tunnel is 1.2 km long.", "The tunnel is 1,200 metres long.") == NumericVerdict(
        kind="agree", reason="the same statement with 1.2 km and 1,200 metres"
    )
    assert compare("Sales fell from 8 to 5 euros.", "Sales rose from 5 to 8 euros.") == NumericVerdict(
        kind="conflict", reason="down (8, 5 euros) against up (5, 8 euros)"
    )


def test_sentences_are_not_cut_at_abbreviations_or_initials() -> None:
    premise = "He met Dr. Ada B. Roth. The tunnel is 1.2 km long. It is old."
    assert compare(premise, "The tunnel is 12 km long.").kind == "conflict"


HOSTILE = [
    "9" * 100_000,
    "9 " * 50_000,
    "9." * 50_000,
    "1" + ",999" * 25_000,
    "-" * 100_000,
    "(" * 100_000,
    "!" * 100_000,
    " " * 100_000,
    "a." + " " * 99_000 + "b",
    "." + ")" * 99_000,
    "5\n" * 50_000,
    "mila" * 25_000,
    "one hundred " * 8_000,
    "5" + " million" * 12_000,
    "1e999999999",
    "10^9999999999",
    "wasn't " * 14_000,
    "The tunnel is 5 km long. " * 4_000,
    "The tunnel, " * 8_000,
    "\ud800 5 km \x00",
    "٣٤٥ km ²³ 5½",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("language", ["en", "it", "xx"])
def test_hostile_text_is_read_in_bounded_time(text: str, language: str) -> None:
    start = time.process_time()
    find_quantities(text, language)
    compare(text, "The tunnel is 12 km long.", language)
    compare(text, text, language)
    assert time.process_time() - start < 1.5  # three calls


words = st.sampled_from(
    [
        "The",
        "the",
        "tunnel",
        "is",
        "was",
        "not",
        "5",
        "1.2",
        "km",
        "m",
        "%",
        "€",
        "at",
        "least",
        "about",
        "from",
        "to",
        "2019",
        "3",
        "April",
        "rose",
        "fell",
        ",",
        ".",
        "(",
        ")",
        "-",
        "il",
        "due",
        "non",
    ]
)
sentences = st.lists(words, max_size=12).map(" ".join)


@given(st.one_of(sentences, st.text(max_size=60)), st.sampled_from(["en", "it"]))
def test_a_text_never_conflicts_with_itself(text: str, language: str) -> None:
    assert compare(text, text, language).kind != "conflict"


@given(st.text(alphabet="0123456789.,'-–−/:% €$kmMW aefgost\n()", max_size=60), st.sampled_from(["en", "it"]))
def test_spans_are_in_order_and_hold_their_text(text: str, language: str) -> None:
    found = find_quantities(text, language)
    assert all(q.text == q.span.text_of(text) and q.text for q in found)
    assert all(a.span.end <= b.span.start for a, b in itertools.pairwise(found))
    assert all(q.low is None or q.high is None or q.low <= q.high for q in found)


@given(st.integers(1, 99_999))
def test_another_unit_agrees(metres: int) -> None:
    kilometres = f"{metres // 1000}.{metres % 1000:03}"
    premise, hypothesis = f"The tunnel is {metres} m long.", f"The tunnel is {kilometres}0 km long."
    assert compare(premise, hypothesis).kind == "agree"


@given(st.integers(1, 9_999), st.integers(1, 9_999))
def test_conflict_is_symmetric_for_plain_values(one: int, other: int) -> None:
    first, second = f"The firm has {one} employees.", f"The firm has {other} employees."
    assert (compare(first, second).kind == "conflict") == (compare(second, first).kind == "conflict")

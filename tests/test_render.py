"""What is printed for a person: nothing from outside can drive the terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from corrigenda.render import render
from corrigenda.terminal import ascii_json, one_line, safe, safe_json, without_credentials
from corrigenda.types import (
    Decision,
    Reference,
    Report,
    Retrieval,
    RetrievedPassage,
    Status,
    Timing,
    Verdict,
)

EVIL = "\x1b]0;owned\x07\x9b2J\x7f\u202e\u2066\u2028\ud800"
SEEN = r"\x1b]0;owned\x07\x9b2J\x7f\u202e\u2066\u2028\ud800"


def test_control_characters_are_made_visible() -> None:
    assert safe(f"Rome\tis\n{EVIL} città 😀") == f"Rome\tis\n{SEEN} città 😀"


def test_a_message_stays_on_one_line() -> None:
    assert one_line(" down\r\n\n corrigenda: all is well\x85so\u2028it\x0bis\x1b\n") == (
        r"down corrigenda: all is well so it is\x1b"
    )


def test_json_means_the_same_and_is_harmless() -> None:
    value = {"a": f"città 😀{EVIL}"}
    text = json.dumps(value, ensure_ascii=False)
    assert safe_json(text) == (r'{"a": "città 😀\u001b]0;owned\u0007\u009b2J\u007f\u202e\u2066\u2028\ud800"}')
    assert ascii_json(text) == (
        r'{"a": "citt\u00e0 \ud83d\ude00\u001b]0;owned\u0007\u009b2J\u007f\u202e\u2066\u2028\ud800"}'
    )
    assert json.loads(safe_json(text)) == json.loads(ascii_json(text)) == value


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h:8/v1", "https://h:8/v1"),
        ("localhost:8000", "localhost:8000"),
        ("https://me:pw@h/v1", "https://***@h/v1"),
        ("https://tok@h/v1?api_key=s&b=&c", "https://***@h/v1?api_key=***&b=***&***"),
        ("ftp://me:p/w?x@h", "ftp://***@h"),
        ("me:pw@h", "***@h"),
        ("me://pw@h", "me://***@h"),
        ("me@pw//x@h", "***@h"),
    ],
)
def test_addresses_without_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_every_text_of_a_report_is_harmless() -> None:
    report = Report(
        question=f"Q {EVIL}?",
        answer=f"A {EVIL}.",
        final_answer=f"F {EVIL}.",
        status=Status.UNVERIFIED,
        reason=f"R {EVIL}",
        references=(Reference(text=f"T {EVIL}.", source=f"S {EVIL}"),),
        decision=Decision(policy=f"P {EVIL}", k=0.7, mu=None, sigma=None, tau=0.5),
        retrieval=(
            Retrieval(
                claim=0,
                query="x",
                passages=(RetrievedPassage(id="x", title=f"I {EVIL}", score=1.0, reference=0),),
                signed=None,
                decides=False,
                before=Verdict.UNVERIFIED,
                before_signed=None,
                after=Verdict.UNVERIFIED,
                after_signed=None,
                reason=f"E {EVIL}",
            ),
        ),
        timings=(Timing(stage=f"stage {EVIL}", start_s=0.0, end_s=1.0),),
        warnings=(f"W {EVIL}",),
    )
    page = io.StringIO()
    render(report, Console(file=page, width=300, highlight=False, markup=False, emoji=False))
    text = page.getvalue()
    assert [f"{c} {SEEN}" in text for c in "QAFRTSPW"] == [True] * 8
    assert f"stage {SEEN}" in text
    assert ("reference 1 (I \\x1b]0;owned" in text, "; E \\x1b]0;owned" in text) == (True, True)
    assert not set(EVIL) - set("]0;owned2J") & set(text)

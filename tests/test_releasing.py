"""Sentences that leave as soon as they are checked: what leaves, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from corrigenda import ChatRequest, Completion, Message, Status, to_dict
from corrigenda.pipeline import ask
from corrigenda.run import Options
from corrigenda.stages.reassemble import reassemble
from corrigenda.types import Reference
from tests.scripted import C, N, S, verdicts
from tests.upstream import (
    DELTAS,
    Upstream,
    Verifier,
    asked,
    hills,
    released,
    releases,
    report_of,
    settle,
    taken,
    texts,
    tools,
)

# What leaves --------------------------------------------------------------------------------------------------------


def test_a_contradicted_sentence_leaves_corrected() -> None:
    chat = asked(*DELTAS)
    pieces = released(tools(chat, Verifier(hills)))
    assert texts(pieces) == ["Rome has seven hills.", " It is in Italy.", ""]
    assert [[claim.verdict for claim in piece.claims] for piece in pieces] == [[C], [S], []]
    report = report_of(pieces)
    assert (report.answer, report.status) == ("Rome has 5 hills. It is in Italy.", Status.CORRECTED)
    assert report.final_answer == reassemble(report.answer, report.edits)
    assert [(e.before, e.after, e.claims, e.accepted) for e in report.edits] == [
        ("Rome has 5 hills.", "Rome has seven hills.", (0,), True)
    ]
    assert pieces[-1].completion == Completion(text="Rome has 5 hills. It is in Italy.")
    assert chat.running == 0


@pytest.mark.parametrize("decision", ["incremental", "whole"])
@pytest.mark.parametrize("steps", [DELTAS, ("".join(DELTAS),), tuple("".join(DELTAS))], ids=["some", "one", "each"])
def test_no_prefix_of_what_leaves_holds_what_was_contradicted(decision: Any, steps: tuple[str, ...]) -> None:
    pieces = released(tools(asked(*steps), Verifier(hills)), decision=decision)
    assert report_of(pieces).final_answer == "Rome has seven hills. It is in Italy."
    assert not any("5 hi" in "".join(texts(pieces)[:end]) for end in range(len(pieces) + 1))


def test_whole_is_one_release_and_what_ask_gives() -> None:
    made = tools(asked(*DELTAS), Verifier(hills))
    (piece,) = released(made, decision="whole")
    report = asyncio.run(ask("How many hills has Rome?", made, Options(language="en")))
    assert piece.report is not None
    assert (piece.text, piece.claims) == (report.final_answer, report.claims)
    assert replace(piece.report, timings=()) == replace(report, timings=())
    assert all(claim.released is None for claim in piece.claims)
    assert piece.completion == Completion(text="Rome has 5 hills. It is in Italy.")


def test_a_claim_says_how_it_left() -> None:
    pieces = released(tools(asked(*DELTAS), Verifier(hills)))
    report = report_of(pieces)
    assert pieces[0].claims[0].released == report.claims[0].released
    assert [(c.released.verdict, c.released.tau) for c in report.claims if c.released is not None] == [
        (C, 0.5),
        (S, pytest.approx(0.686)),
    ]
    assert report.warnings == ()
    assert to_dict(report)["claims"][0]["released"]["verdict"] == "contradicted"


def test_checking_alone_changes_nothing_and_tells() -> None:
    chat = asked(*DELTAS)
    pieces = released(tools(chat, Verifier(hills)), correct=False)
    assert texts(pieces) == ["Rome has 5 hills.", " It is in Italy.", ""]
    report = report_of(pieces)
    assert (report.status, report.edits, [c.verdict for c in pieces[0].claims]) == (Status.CONTRADICTED, (), [C])
    assert {request.stage for request in chat.requests} == {"recall", "generate"}


def test_a_conversation_goes_to_the_model_and_the_question_to_recall() -> None:
    said = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="Hello."),
        Message(role="assistant", content="Hello!"),
        Message(role="user", content="And its hills?"),
    )
    request = ChatRequest(stage="other", messages=said, temperature=0.1, max_tokens=7, seed=3)
    chat = asked(*DELTAS)
    report = report_of(released(tools(chat, Verifier(hills)), question="How many hills has Rome?", request=request))
    recalled, generated = sorted(chat.requests[:2], key=lambda asked: len(asked.messages))
    assert generated == replace(request, stage="generate")
    assert "How many hills has Rome?" in recalled.messages[-1].content
    assert not any("Hello" in message.content for message in recalled.messages)
    assert (report.question, report.usage["generate"].calls) == ("How many hills has Rome?", 1)


def test_references_of_the_callers_own_are_checked_against_and_nothing_is_recalled() -> None:
    chat = asked(*DELTAS)
    given = [Reference(text="Rome stands on seven hills.", source="context")]
    report = report_of(released(tools(chat, Verifier(hills)), references=given))
    assert report.references == tuple(given)
    assert [request.stage for request in chat.requests] == ["generate", "correct"]


@pytest.mark.parametrize(
    ("answer", "unrepaired", "pieces"),
    [
        (
            "It is old. Rome has 5 hills. It is warm.",
            "hedge",
            ["It is old.", " Rome has 5 hills. (This is contradicted by the reference.)", " It is warm.", ""],
        ),
        ("It is old. Rome has 5 hills. It is warm.", "remove", ["It is old.", " It is warm.", ""]),
        ("Rome has 5 hills. It is warm.", "remove", ["It is warm.", ""]),
        ("It is old. Rome has 5 hills. ", "remove", ["It is old.", " ", ""]),
        ("It is old.\n\nRome has 5 hills.", "remove", ["It is old.", "", ""]),
        ("Rome has 5 hills.", "remove", ["", ""]),
        ("It is old. Rome has 5 hills. It has 5 hills. It is warm.", "remove", ["It is old.", " It is warm.", ""]),
        (
            "- It is old\n- Rome has 5 hills\n- It is warm\n",
            "remove",
            ["- It is old", "\n- It is warm", "\n"],
        ),
    ],
)
def test_what_no_rewrite_repairs_is_hedged_or_goes_with_its_space(
    answer: str, unrepaired: str, pieces: list[str]
) -> None:
    for steps in ((answer,), tuple(answer)):
        made = tools(Upstream(*steps), Verifier(hills))
        found = released(made, unrepaired=unrepaired)
        report = report_of(found)
        assert texts(found) == pieces
        assert report.final_answer == reassemble(answer, report.edits)


def test_code_leaves_line_by_line_without_a_check() -> None:
    async def go() -> None:
        opened = asyncio.Event()
        verifier = Verifier(hills, opened)
        code = ("```python\n", "print('Rome has 5 hills.')\n", "\n", "x = 1\n", "```\n")
        pieces = releases(tools(asked("\n", *code, "\nIt is ", "warm."), verifier))
        found = [await anext(pieces) for _ in range(4)]
        assert texts(found) == ["\n```python", "\nprint('Rome has 5 hills.')", "\n\nx = 1", "\n```"]
        await settle()
        assert verifier.calls == [["It is warm."]]
        opened.set()
        assert texts(await taken(pieces)) == ["\n\nIt is warm.", ""]

    asyncio.run(go())


@pytest.mark.parametrize("answer", ["Hello!", "Is it old?", "```\nx = 1\n```\n", "***", "I think it is lovely. 🙂"])
def test_what_makes_no_claim_leaves_as_it_is(answer: str) -> None:
    verifier = Verifier(hills)
    report = report_of(released(tools(asked(*answer), verifier)))
    assert (report.final_answer, report.status, verifier.calls) == (answer, Status.UNVERIFIED, [])
    assert set(verdicts(report)) <= {N}
    assert report.reason == "the answer makes no claim that can be checked"


# When it leaves -----------------------------------------------------------------------------------------------------


def test_nothing_leaves_before_its_check() -> None:
    async def go() -> None:
        opened = asyncio.Event()
        verifier = Verifier(hills, opened)
        pieces = releases(tools(asked(*DELTAS), verifier))
        first = asyncio.ensure_future(anext(pieces))
        await settle()
        assert (first.done(), verifier.calls) == (False, [["Rome has 5 hills."]])
        opened.set()
        assert (await first).text == "Rome has seven hills."
        assert texts(await taken(pieces)) == [" It is in Italy.", ""]

    asyncio.run(go())


def test_a_sentence_leaves_while_the_next_is_written() -> None:
    async def go() -> None:
        goes_on = asyncio.Event()
        pieces = releases(tools(asked("Rome has 5 hills. It ", goes_on, "is in Italy."), Verifier(hills)))
        assert (await anext(pieces)).text == "Rome has seven hills."
        goes_on.set()
        assert texts(await taken(pieces)) == [" It is in Italy.", ""]

    asyncio.run(go())


def test_a_sentence_waits_for_the_reference_only() -> None:
    async def go() -> None:
        recalled = asyncio.Event()
        chat = asked(
            "It is old. Rome has 5 hills. It is warm. It is large. It is in Italy. So ",
            recalled_first := asyncio.Event(),
            "it is.",
        )
        chat.recall_waits = recalled
        verifier = Verifier(hills)
        pieces = releases(tools(chat, verifier))
        first = asyncio.ensure_future(anext(pieces))
        await settle()
        assert (first.done(), {r.stage for r in chat.requests}) == (False, {"recall", "generate"})
        recalled.set()
        assert (await first).text == "It is old."
        await settle()
        # The first waits for no other, and those behind it come in ever larger calls.
        assert [len(call) for call in verifier.calls if call != ["Rome has seven hills."]] == [1, 1, 2, 1]
        recalled_first.set()
        assert (
            "".join(texts(await taken(pieces)))
            == " Rome has seven hills. It is warm. It is large. It is in Italy. So it is."
        )

    asyncio.run(go())


def test_a_correction_holds_up_what_follows_and_no_check() -> None:
    async def go() -> None:
        chat, verifier = (
            asked("Rome has 5 hills. It is old. ", waits := asyncio.Event(), "It is warm."),
            Verifier(hills),
        )
        rewritten = asyncio.Event()
        complete = chat.complete

        async def slow(request: ChatRequest) -> Completion:
            if request.stage == "correct":
                await rewritten.wait()
            return await complete(request)

        chat.complete = slow  # type: ignore[method-assign]
        waits.set()
        pieces = releases(tools(chat, verifier))
        first = asyncio.ensure_future(anext(pieces))
        await settle()
        assert (first.done(), [text for call in verifier.calls for text in call]) == (
            False,
            ["Rome has 5 hills.", "It is old.", "It is warm."],
        )
        rewritten.set()
        assert [(await first).text, *texts(await taken(pieces))] == [
            "Rome has seven hills.",
            " It is old.",
            " It is warm.",
            "",
        ]

    asyncio.run(go())

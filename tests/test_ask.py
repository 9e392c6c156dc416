"""Asking on scripted models, and the object that serves many calls."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from corrigenda import Corrigenda, Report, Settings, Status
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import Unauthorized
from corrigenda.stages.reassemble import reassemble
from corrigenda.types import Edit, Span
from tests.scripted import (
    ANSWER,
    ASKED,
    CONTRADICT,
    ENTAIL,
    FIVE_HILLS,
    NEUTRAL,
    C,
    F,
    N,
    Rules,
    S,
    U,
    check,
    make,
    verdicts,
)

# Asking -----------------------------------------------------------------------------------------------------------


def test_ask_runs_all_stages() -> None:
    with make(ASKED) as c:
        report = c.ask_sync("How many hills has Rome?")
    assert (report.question, report.answer) == ("How many hills has Rome?", ANSWER)
    assert report.final_answer == "Rome has seven hills. It is in Italy."
    assert [(r.text, r.source) for r in report.references] == [("Rome stands on seven hills.", "recall")]
    assert {t.stage for t in report.timings} == {
        "generate",
        "decompose",
        "recall",
        "entail",
        "decide",
        "correct",
        "reassemble",
    }
    usage = {name: (u.calls, u.prompt_tokens, u.completion_tokens) for name, u in report.usage.items()}
    assert usage["generate"] == (1, 20, 10)
    assert usage["recall"] == (1, 30, 7)
    assert usage["correct"] == (1, None, None)
    assert report.models == {"chat": "scripted", "verifier": "scripted", "decomposer": "deterministic"}


@pytest.mark.parametrize("decomposer", ["deterministic", "auto", "model"])
@pytest.mark.parametrize("references", [1, 3])
def test_no_request_of_recall_holds_anything_of_the_answer(decomposer: str, references: int) -> None:
    secret = "Zyxomma petiolatum; Quixotry, 48151623. Vellichor and ultracrepidarian sentences follow."
    chat = ScriptedChat(
        {
            "rules": [
                {"stage": "generate", "reply": secret, "tokens_per_s": 2000},
                {"stage": "recall", "reply": "Something else.", "first_token_s": 0.005},
                {"stage": "decompose", "reply": '{"claims": []}'},
                {"stage": "correct", "reply": "Something else."},
            ]
        }
    )
    settings = Settings(llm="none", decomposer=decomposer, references=references)
    nli = ScriptedEntailer({"rules": [{"hypothesis_contains": "Something", "scores": ENTAIL}, {"scores": CONTRADICT}]})
    with Corrigenda(llm=chat, nli=nli, settings=settings) as c:
        report = c.ask_sync("What is a dragonfly?")
    assert report.answer == secret
    recalled = [r for r in chat.requests if r.stage == "recall"]
    assert len(recalled) == references
    sent = " ".join(m.content for r in recalled for m in r.messages).lower()
    words = {w.strip(".,;").lower() for w in secret.split()} - {"and"}
    assert not [w for w in words if w in sent.split()]
    assert all([m.role for m in r.messages] == ["system", "user"] for r in recalled)
    assert all(r.max_tokens == 96 for r in recalled)


def test_recall_overlaps_generate() -> None:
    timed = [{**rule, "first_token_s": 0.02, "tokens_per_s": 400} for rule in ASKED]
    with make(timed) as c:
        report = c.ask_sync("How many hills has Rome?")
    by_stage = {t.stage: t for t in report.timings}
    assert by_stage["recall"].start_s < by_stage["generate"].end_s
    assert by_stage["generate"].start_s < by_stage["recall"].end_s


def test_claims_are_scored_while_the_answer_still_streams() -> None:
    answer = "Rome is old. Rome is in Italy. Rome is large. Rome is warm. Rome is on a river."
    timed: Rules = [
        {"stage": "generate", "reply": answer, "first_token_s": 0.05, "tokens_per_s": 50},
        {"stage": "recall", "reply": "Rome is an old city."},
    ]
    with make(timed, language="en") as c:
        report = c.ask_sync("What is Rome?")
    generate = next(t for t in report.timings if t.stage == "generate")
    entail = [t for t in report.timings if t.stage == "entail"]
    assert entail[0].end_s < generate.end_s
    assert verdicts(report) == [S] * 5
    assert [c.sentence for c in report.claims] == [0, 1, 2, 3, 4]


def test_without_an_answer_the_error_goes_to_the_caller() -> None:
    chat = [{"stage": "generate", "error": {"status": 401, "body": "bad key"}}, *ASKED[1:]]
    with make(chat) as c, pytest.raises(Unauthorized, match="bad key"):
        c.ask_sync("What is Rome?")


def test_an_answer_cut_in_the_middle_is_kept() -> None:
    chat = [{"stage": "generate", "reply": ANSWER, "error": {"after_tokens": 7}}, *ASKED[1:]]
    with make(chat) as c:
        report = c.ask_sync("What is Rome?")
    assert report.status is Status.FAILED
    assert ANSWER.startswith(report.answer)
    assert report.answer.startswith("Rome has 5 hills.")
    assert "the answer is incomplete" in (report.reason or "")
    assert report.claims[0].verdict is C


def test_recall_that_fails_is_a_failed_check_not_a_lost_answer() -> None:
    chat = [ASKED[0], {"stage": "recall", "error": {"status": 500, "body": "overloaded"}}]
    with make(chat) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.status, report.final_answer, verdicts(report)) == (Status.FAILED, ANSWER, [F, F])
    assert "recall failed" in (report.reason or "")
    assert "overloaded" in (report.reason or "")


@pytest.mark.parametrize(
    ("message", "finish", "status", "reason"),
    [
        ({"content": None, "reasoning_content": "Rome has 5 hills, wait"}, "length", Status.FAILED, "token cap"),
        ({"content": "", "reasoning_content": "Rome has 5 hills"}, "stop", Status.FAILED, "empty answer"),
        ({"content": "<think>Rome has 5 hills, no"}, "length", Status.FAILED, "token cap"),
        ({"content": None, "refusal": "I cannot help."}, "stop", Status.ABSTAINED, "refused"),
    ],
)
def test_a_reply_without_a_visible_answer(message: dict[str, Any], finish: str, status: Status, reason: str) -> None:
    chat = [{"stage": "generate", "reply": message, "finish_reason": finish}, ASKED[1]]
    with make(chat) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.answer, report.final_answer, report.claims, report.status) == ("", "", (), status)
    assert reason in (report.reason or "")


def test_think_blocks_are_no_part_of_the_answer() -> None:
    reply = "<think>maybe 5 hills?</think>\n\nRome has seven hills."
    with make([{"stage": "generate", "reply": reply}, ASKED[1]]) as c:
        report = c.ask_sync("What is Rome?")
    assert report.answer == "Rome has seven hills."
    assert report.claims[0].span == Span(0, 21)


def test_an_abstention_is_not_a_pass() -> None:
    with make([{"stage": "generate", "reply": "I don't know."}, ASKED[1]]) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.status, verdicts(report)) == (Status.ABSTAINED, [N])


def test_what_was_not_checked_in_time_is_unverified() -> None:
    chat = [ASKED[0], {**ASKED[1], "first_token_s": 30}]
    with make(chat, timeout=0.8) as c:
        report = c.ask_sync("What is Rome?")
    assert (report.status, verdicts(report), report.final_answer) == (Status.UNVERIFIED, [U, U], ANSWER)
    assert {c.reason for c in report.claims} == {"not checked: the time limit was reached"}
    assert max(t.end_s for t in report.timings) < 5


def test_an_answer_that_takes_too_long_is_kept_as_far_as_it_came() -> None:
    chat = [{**ASKED[0], "tokens_per_s": 20}, ASKED[1]]
    with make(chat, timeout=0.35) as c:
        report = c.ask_sync("What is Rome?")
    assert report.answer
    assert ANSWER.startswith(report.answer)
    assert "the answer is incomplete: the time limit" in report.warnings[0]


def test_several_references_are_scored_like_windows() -> None:
    chat = [
        ASKED[0],
        {"stage": "recall", "reply": "Rome is a city.", "times": 2},
        {"stage": "recall", "reply": "Rome stands on seven hills."},
    ]
    nli: Rules = [
        {"premise_contains": "seven", "hypothesis_contains": "5 hills", "scores": CONTRADICT},
        {"premise_contains": "seven", "scores": ENTAIL},
        {"scores": NEUTRAL},
    ]
    with make(chat, nli, references=3) as c:
        report = c.ask_sync("What is Rome?")
    assert [r.text for r in report.references].count("Rome is a city.") == 2
    assert verdicts(report) == [C, S]
    evidence = report.claims[0].evidence
    assert evidence is not None
    assert evidence.text == "Rome stands on seven hills."


# The object -------------------------------------------------------------------------------------------------------


def test_many_reports_at_once_do_not_mix() -> None:
    names = ["Rome", "Oslo", "Turin", "Lyon", "Bern", "Graz"]
    chat = [{"stage": "generate", "contains": n, "reply": f"{n} is a city."} for n in names]
    chat += [{"stage": "recall", "contains": n, "reply": f"{n} is known."} for n in names]

    async def go() -> list[Report]:
        async with make(chat, [{"scores": ENTAIL}]) as c:
            return await asyncio.gather(*(c.ask(f"What is {n}?") for n in names))

    reports = asyncio.run(go())
    assert [(r.answer, r.references[0].text, r.usage["generate"].calls) for r in reports] == [
        (f"{n} is a city.", f"{n} is known.", 1) for n in names
    ]


def test_synchronous_calls_work_inside_a_running_loop() -> None:
    async def go() -> list[Status]:
        with make(ASKED) as c:
            statuses = [c.ask_sync("What is Rome?").status for _ in range(2)]
            c.close()
        return statuses

    assert asyncio.run(go()) == [Status.CORRECTED, Status.CORRECTED]


def test_a_report_is_frozen() -> None:
    report = check("It is old.")
    with pytest.raises(AttributeError, match="cannot assign to field 'status'"):
        report.status = Status.VERIFIED  # type: ignore[misc]


def test_a_caller_that_is_cancelled_leaves_nothing_running() -> None:
    async def go() -> int:
        chat = ScriptedChat({"rules": [{**ASKED[0], "first_token_s": 30}, {**ASKED[1], "first_token_s": 30}]})
        c = Corrigenda(llm=chat, nli=ScriptedEntailer({"rules": FIVE_HILLS}), settings=Settings(llm="none"))
        with pytest.raises(TimeoutError, match=r"^$"):
            await asyncio.wait_for(c.ask("What is Rome?"), 0.1)
        return len([t for t in asyncio.all_tasks() if t is not asyncio.current_task()])

    assert asyncio.run(go()) == 0


@pytest.mark.parametrize("order", list(itertools.permutations([0, 1, 2])))
def test_edits_in_any_order_give_the_same_text(order: tuple[int, ...]) -> None:
    answer = "A:\tOne is 1.\r\n\r\nTwo  is 3.  Three is 3.\r\nFour is 44444.\n"
    parts = [((41, 55), "Four is 4."), ((3, 12), "One equals exactly 1."), ((16, 26), "Two is 2.")]
    edits = [
        Edit(
            span=Span(*span),
            before=answer[slice(*span)],
            after=text,
            claims=(0,),
            kind="rewrite",
            accepted=True,
            reason="",
        )
        for span, text in parts
    ]
    assert reassemble(answer, [edits[i] for i in order]) == (
        "A:\tOne equals exactly 1.\r\n\r\nTwo is 2.  Three is 3.\r\nFour is 4.\n"
    )

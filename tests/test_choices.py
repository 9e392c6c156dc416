"""What one call decides for itself, over the settings of the object."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corrigenda import ChatRequest, Choices, Corrigenda, Message, Reference, Report, Settings, Status
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import ConfigError
from corrigenda.pipeline import ask
from corrigenda.policies import Bounded, Conformal, Fixed, Paper, Policy
from corrigenda.policy_files import PolicyFile, Warned, with_k, with_threshold
from corrigenda.prompts import load
from tests.scripted import ANSWER, ASKED, C, S, U, make, verdicts


def decided(choices: Choices | None, **settings: Any) -> Report:
    with make(ASKED, **settings) as c:
        return c.ask_sync("How many hills has Rome?", choices=choices)


def test_without_choices_the_settings_hold() -> None:
    for choices in (None, Choices()):
        report = decided(choices, policy="fixed", threshold=0.99)
        assert (verdicts(report), report.decision and report.decision.tau) == ([U, U], 0.99)


@pytest.mark.parametrize(
    ("choices", "settings", "policy", "k", "tau"),
    [
        (Choices(policy="paper"), {}, "paper", 0.7, 0.686),
        (Choices(policy="paper", k=0.5), {"k": 2.0}, "paper", 0.5, 0.49),
        (Choices(k=0.5), {"policy": "paper"}, "paper", 0.5, 0.49),
        (Choices(k=0.9), {"ceiling": 0.6}, "bounded", 0.9, 0.6),
        (Choices(policy="fixed"), {}, "fixed", 0.7, 0.7),
        (Choices(policy="fixed"), {"policy": "fixed", "threshold": 0.3}, "fixed", 0.7, 0.3),
        (Choices(policy="conformal"), {"policy": "fixed", "threshold": 0.3}, "conformal", 0.7, 0.9),
        (Choices(policy=Fixed(threshold=0.4)), {}, "fixed", 0.7, 0.4),
        (Choices(policy="fixed", threshold=0.4), {}, "fixed", 0.7, 0.4),
        (Choices(threshold=0.4, k=0.1), {"policy": "fixed", "threshold": 0.3}, "fixed", 0.1, 0.4),
        (Choices(policy="conformal", threshold=0.4), {"policy": "fixed", "threshold": 0.3}, "conformal", 0.7, 0.4),
    ],
)
def test_the_policy_and_k_of_one_call(
    choices: Choices, settings: dict[str, Any], policy: str, k: float, tau: float
) -> None:
    decision = decided(choices, **settings).decision
    assert decision is not None
    assert (decision.policy, decision.k) == (policy, k)
    assert decision.tau == pytest.approx(tau)


def test_checking_alone_the_limit_and_what_is_done_with_the_unrepaired() -> None:
    report = decided(Choices(correct=False))
    assert (report.final_answer, report.edits, report.status) == (ANSWER, (), Status.CONTRADICTED)
    slow = [ASKED[0], {**ASKED[1], "first_token_s": 30}]
    with make(slow) as c:
        report = c.ask_sync("How many hills has Rome?", choices=Choices(timeout=0.2))
    assert verdicts(report) == [U, U]
    with make(None) as c:
        report = c.check_sync(ANSWER, context="Rome stands on 7 hills.", choices=Choices(unrepaired="remove"))
    assert report.final_answer == "It is in Italy."


def test_the_language_of_one_call() -> None:
    chat = ScriptedChat({"rules": ASKED})
    with Corrigenda(llm=chat, nli=ScriptedEntailer({"rules": [{"scores": [1, 0, 0]}]}), settings=Settings()) as c:
        c.ask_sync("How many hills has Rome?", choices=Choices(language="it"))
    (generated,) = [request for request in chat.requests if request.stage == "generate"]
    assert generated.messages[0].content == load("it").get("generate", "system")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (Choices(policy="./mine.json"), r"unknown policy '\./mine\.json'; there are bounded, conformal, fixed, paper"),
        (Choices(k=float("nan")), "k must be a finite number of at least 0, got nan"),
        (Choices(policy="fixed", threshold=1.5), "threshold must be a number from 0 to 1, got 1.5"),
        (
            Choices(threshold=0.5),
            "threshold is used by the policies fixed and conformal, not by 'bounded'; leave it out",
        ),
        (Choices(language="english"), "language must be auto or an ISO 639-1 code such as en or it, got 'english'"),
        (Choices(timeout=0), "timeout must be from 0.001 to 86400, got 0"),
        (Choices(unrepaired="burn"), "unknown unrepaired 'burn'; there are hedge, keep, remove"),
    ],
)
def test_a_wrong_choice_is_told_before_anything_is_asked(choices: Choices, message: str) -> None:
    chat = ScriptedChat({"rules": ASKED})

    async def first(c: Corrigenda) -> None:
        async with aclosing(c.releasing("How many hills has Rome?", choices=choices)) as pieces:
            await anext(pieces)

    with Corrigenda(llm=chat, nli=ScriptedEntailer({"rules": [{"scores": [1, 0, 0]}]}), settings=Settings()) as c:
        with pytest.raises(ConfigError, match=message):
            c.ask_sync("How many hills has Rome?", choices=choices)
        with pytest.raises(ConfigError, match=message):
            c.check_sync("Rome is old.", context="x", choices=choices)
        with pytest.raises(ConfigError, match=message):
            asyncio.run(first(c))
    assert chat.requests == []


def test_a_conversation_and_a_context_through_the_object() -> None:
    chat = ScriptedChat({"rules": ASKED})
    request = ChatRequest(stage="generate", messages=(Message(role="user", content="And its hills?"),), temperature=0.2)

    async def go() -> list[str]:
        settings = Settings(llm="none", decomposer="deterministic")
        nli = ScriptedEntailer({"rules": [{"hypothesis_contains": "5", "scores": [0, 0, 1]}, {"scores": [1, 0, 0]}]})
        async with Corrigenda(llm=chat, nli=nli, settings=settings) as c:
            report = await c.ask("How many hills has Rome?", request=request, context="Rome stands on 7 hills.")
            assert report.references == (Reference(text="Rome stands on 7 hills.", source="context"),)
            pieces = c.releasing("How many hills has Rome?", request=request, context="Rome stands on 7 hills.")
            found = [piece async for piece in pieces]
            assert verdicts(report) == verdicts(found[-1].report or report) == [C, S]
            whole = c.releasing("How many hills has Rome?", request=request, decision="whole")
            return [piece.text for piece in found] + [piece.text async for piece in whole]

    assert asyncio.run(go()) == [
        "Rome has seven hills.",
        " It is in Italy.",
        "",
        "Rome has seven hills. It is in Italy.",
    ]
    assert [r for r in chat.requests if r.stage == "generate"] == [request] * 3
    assert [r.stage for r in chat.requests].count("recall") == 1


# What a report is made with -----------------------------------------------------------------------------------------


def test_what_a_report_is_made_with_can_be_had_and_exchanged() -> None:
    async def go() -> list[Any]:
        async with make(ASKED, policy="fixed") as c:
            told: list[str] = []
            tools, options = await c.prepare(Choices(threshold=0.3), on_stage=lambda stage, _: told.append(stage))
            same = await ask("How many hills has Rome?", tools, options)
            other = await ask("How many hills has Rome?", replace(tools, policy=Paper(k=2.0)), options)
            plain, _ = await c.prepare(chat=False)
            return [verdicts(same), same.decision and same.decision.tau, verdicts(other), told[0], plain.policy]

    assert asyncio.run(go()) == [[C, S], 0.3, [U, U], "generate", Fixed()]


def test_what_cannot_be_prepared_is_told() -> None:
    with pytest.raises(ConfigError, match="unknown policy 'none'; there are bounded, conformal, fixed, paper"):
        asyncio.run(make(None).prepare(Choices(policy="none")))


# Another k ----------------------------------------------------------------------------------------------------------

FITTED = Bounded(k=0.5, floor=0.4, ceiling=0.8, provisional=False)


@pytest.mark.parametrize(
    ("policy", "k", "found"),
    [
        (Paper(), 1.0, Paper(k=1.0)),
        (Fixed(threshold=0.3), 1.0, Fixed(threshold=0.3, k=1.0)),
        (Conformal(), 1.0, Conformal(k=1.0)),
        (FITTED, 0.5, FITTED),
        (FITTED, 1.0, Bounded(k=1.0, floor=0.4, ceiling=0.8, provisional=True)),
        (Warned(policy=Paper(), warnings=("mind",)), 1.0, Warned(policy=Paper(k=1.0), warnings=("mind",))),
    ],
)
def test_another_k(policy: Policy, k: float, found: Policy) -> None:
    assert with_k(policy, k) == found


CALIBRATED = Conformal(threshold=0.8, provisional=False)


@pytest.mark.parametrize(
    ("policy", "threshold", "found"),
    [
        (Fixed(k=0.1), 0.3, Fixed(threshold=0.3, k=0.1)),
        (CALIBRATED, 0.8, CALIBRATED),
        (CALIBRATED, 0.7, Conformal(threshold=0.7, provisional=True)),
        (Conformal(threshold=math.inf, provisional=False), 1.0, Conformal(threshold=1.0, provisional=True)),
        (Warned(policy=Fixed(), warnings=("mind",)), 0.3, Warned(policy=Fixed(threshold=0.3), warnings=("mind",))),
    ],
)
def test_another_threshold(policy: Policy, threshold: float, found: Policy) -> None:
    assert with_threshold(policy, threshold) == found


@pytest.mark.parametrize("policy", [Paper(), FITTED, Warned(policy=Paper(), warnings=("mind",))])
def test_a_policy_without_a_threshold_takes_none(policy: Policy) -> None:
    with pytest.raises(ConfigError, match=f"fixed and conformal, not by '{policy.name}'; leave it out or choose one"):
        with_threshold(policy, 0.5)


def test_a_policy_file_is_kept_for_its_own_name_and_left_for_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    fitted = PolicyFile(policy="bounded", options={"k": 0.7, "floor": 0.1, "ceiling": 0.2}, verifier="scripted")
    path.write_text(fitted.to_json(), "utf-8")
    found = {
        name: decided(Choices(policy=name) if name else None, policy=str(path)).decision
        for name in (None, "bounded", "fixed")
    }
    assert [d and (d.policy, d.tau, d.provisional) for d in found.values()] == [
        ("bounded", 0.2, False),
        ("bounded", 0.2, False),
        ("fixed", 0.7, False),
    ]

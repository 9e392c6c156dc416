from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluating import kit_of
from tests.scripted import ENTAIL

from corrigenda.errors import ConfigError
from corrigenda.evals.judges import opened_judge
from corrigenda.methods.protocol import Kit
from corrigenda.settings import Settings


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text(json.dumps({"rules": [{"reply": "A", "logprobs": {"A": -0.1, "B": -3}}]}))
    (tmp_path / "nli.json").write_text(json.dumps({"rules": [{"scores": ENTAIL}]}))
    return tmp_path


def opened(judge: str | None, kit: Kit | None = None, **settings: Any) -> tuple[str, bool | None]:
    """Return the name of the judge, and what it says of an answer."""

    async def asked() -> tuple[str, bool | None]:
        base: dict[str, Any] = {"llm": "scripted:chat.json", "nli": "scripted:nli.json"}
        async with opened_judge(Settings(**(base | settings), judge=judge), kit) as found:
            return found.name, (await found.judge("Hills?", "Seven hills.", ("Seven hills.",), ())).correct

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("judge", "settings", "name", "correct"),
    [
        (None, {}, "nli:scripted:nli.json", True),
        ("nli", {}, "nli:scripted:nli.json", True),
        ("nli:scripted:nli.json", {"nli": "scripted:other.json"}, "nli:scripted:nli.json", True),
        ("nli:chat:scripted:chat.json", {}, "nli:chat:scripted:chat.json (not calibrated) + numbers", None),
        ("chat", {}, "chat:scripted:chat.json", False),
        ("chat:scripted:chat.json", {"llm": "scripted:other.json"}, "chat:scripted:chat.json", False),
        ("lexical", {"llm": "scripted:other.json", "nli": "scripted:other.json"}, "lexical", True),
    ],
)
def test_a_judge_is_what_the_setting_names(
    scripts: Path, judge: str | None, settings: dict[str, Any], name: str, correct: bool | None
) -> None:
    assert opened(judge, **settings) == (name, correct)


@pytest.mark.parametrize(
    ("judge", "name"),
    [
        (None, "nli:scripted"),
        ("nli", "nli:scripted"),
        ("nli:scripted:nli.json", "nli:scripted"),
        ("nli:chat:scripted:chat.json", "nli:chat:scripted (not calibrated) + numbers"),
        ("chat", "chat:scripted"),
        ("chat:scripted:chat.json", "chat:scripted"),
    ],
)
def test_the_runs_own_models_are_used_where_the_setting_names_those(
    scripts: Path, judge: str | None, name: str
) -> None:
    kit = kit_of([{"logprobs": {"A": -0.1, "B": -3}}])
    for file in scripts.iterdir():
        file.unlink()
    assert opened(judge, kit)[0] == name


@pytest.mark.parametrize("kit", [None, kit_of()])
def test_the_judge_chat_needs_a_chat_model(scripts: Path, kit: Kit | None) -> None:
    without = None if kit is None else Kit(chat=None, entailer=kit.entailer, prompts=kit.prompts)
    with pytest.raises(ConfigError, match="judge 'chat' needs a chat model, but llm is 'none'; name one with --judge"):
        opened("chat", without, llm="none")


@pytest.mark.parametrize("judge", ["oracle", "nli:", "lexical:x", "chat: "])
def test_an_unknown_judge_is_a_config_error(judge: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown judge '.*'; it must have one of the forms nli:…, chat:…, lexical"):
        Settings(judge=judge)


def test_the_model_that_a_judge_names_is_checked_as_everywhere(scripts: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown nli 'magic:x'; it must have one of the forms"):
        opened("nli:magic:x")
    with pytest.raises(ConfigError, match=r"unknown llm 'magic:x'; it must have one of the forms"):
        opened("chat:magic:x")

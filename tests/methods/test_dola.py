"""`dola`: the same request as `base`, decoded by a model of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests import tiny_chat
from tests.method_kit import QUESTION, do, kit_of

from corrigenda import models
from corrigenda.backends.chat_dola import DolaChat
from corrigenda.backends.dola_runtime import Contrast
from corrigenda.errors import ConfigError, InputError, ModelError
from corrigenda.methods import make
from corrigenda.methods.common import base_request
from corrigenda.methods.dola import Dola
from corrigenda.methods.protocol import Outcome, Task
from corrigenda.types import Completion, TokenUsage

TASK = Task(question=QUESTION)
MODEL = str(tiny_chat.shared())


def decoded(contrast: Contrast | None = None, **settings: Any) -> Completion:
    """What the backend makes of the request of `base`, for twenty tokens."""

    async def main() -> Completion:
        chat = DolaChat(MODEL, contrast=contrast)
        try:
            request = base_request(QUESTION, kit_of(None, max_answer_tokens=20, **settings))
            return await chat.complete(request)
        finally:
            await chat.aclose()

    return asyncio.run(main())


def test_it_decodes_the_request_of_base_greedily() -> None:
    outcome = do("dola", TASK, kit_of(None, max_answer_tokens=20), model=MODEL)
    expected = decoded(temperature=0.0)
    assert (outcome.answer, outcome.final_answer) == (expected.text, expected.text)
    assert (outcome.verdicts, outcome.flagged, outcome.score, outcome.report) == ((), None, None, None)
    assert outcome.warnings == ("the answer was cut off at its cap of 20 tokens",)
    (call,) = outcome.details["calls"]
    assert (
        TokenUsage(prompt_tokens=call["prompt_tokens"], completion_tokens=call["completion_tokens"]) == expected.usage
    )
    assert call["stage"] == "generate"
    assert call["seconds"] > 0
    assert outcome.details["model"] == f"dola:{MODEL}"
    assert outcome.details["candidates"] == [4, 6]


def test_its_options_reach_the_decoding() -> None:
    kit = kit_of(None, max_answer_tokens=20)
    options = {"layers": "1, 3", "alpha": "0.01", "penalty": 1, "exit_norm": "off"}
    outcome = do("dola", TASK, kit, model=MODEL, **options)
    assert outcome.details["candidates"] == [1, 3]
    contrast = Contrast(layers=(1, 3), alpha=0.01, penalty=1, exit_norm=False)
    assert outcome.answer == decoded(contrast, temperature=0.0).text


def test_it_may_draw_as_base_does() -> None:
    kit = kit_of(None, max_answer_tokens=20, seed=4)
    assert do("dola", TASK, kit, model=MODEL, sampled=True).answer == decoded(seed=4).text


def test_the_model_is_loaded_once_and_again_after_it_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    load = DolaChat.__init__

    def counted(self: DolaChat, *arguments: Any, **named: Any) -> None:
        loaded.append(arguments)
        load(self, *arguments, **named)

    monkeypatch.setattr(DolaChat, "__init__", counted)
    method = make("dola", {"model": MODEL})
    assert isinstance(method, Dola)
    kit = kit_of(None, max_answer_tokens=2)

    async def work() -> tuple[list[Outcome], Outcome]:
        await method.prepare()
        first = list(await asyncio.gather(*(method.run(TASK, kit) for _ in range(3))))
        assert len(loaded) == 1
        await method.aclose()
        await method.aclose()
        return first, await method.run(TASK, kit)

    first, again = asyncio.run(work())
    assert {outcome.answer for outcome in first} == {again.answer}
    assert len(loaded) == 2
    assert method == make("dola", {"model": MODEL}), "what is loaded is no option"
    asyncio.run(method.aclose())


def test_an_answer_that_is_given_cannot_be_decoded() -> None:
    with pytest.raises(InputError, match="decodes answers of its own and cannot examine one that is given"):
        do("dola", Task(question=QUESTION, answer="Seven."), kit_of(None), model=MODEL)
    with pytest.raises(InputError, match="'dola' needs a question"):
        do("dola", Task(), kit_of(None), model=MODEL)


def test_the_embedded_model_that_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = models.path
    monkeypatch.setattr(models, "path", lambda name: path(name, tmp_path))
    with pytest.raises(ModelError, match=f"run: corrigenda models pull {models.DEFAULT}"):
        do("dola", TASK, kit_of(None))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "middle"}, "layers must be low, high or numbers with commas between, got 'middle'"),
        ({"layers": "1,,2"}, "layers must be low, high or numbers"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"penalty": 0.5}, "penalty must be at least 1"),
        ({"model": " "}, "model is empty"),
        ({"dtype": "int8"}, "dtype must be float32, bfloat16 or float16"),
        ({"layers": "8"}, "numbers from 0 to 7"),
    ],
)
def test_options_out_of_range(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        do("dola", TASK, kit_of(None), **({"model": MODEL} | options))

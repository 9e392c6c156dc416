"""Loading a model for DoLa: directories, GGUF files, what is missing, and what is refused."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests import tiny_chat

from corrigenda import backends
from corrigenda.backends.chat_dola import DolaChat
from corrigenda.backends.dola_runtime import Contrast, DolaRuntime, Sampling
from corrigenda.errors import ConfigError, MissingExtra, ModelError
from corrigenda.types import Message


def made(runtime: DolaRuntime) -> list[int]:
    """The tokens of a reply to a fixed question."""
    prompt = runtime.prompt([Message(role="user", content="How many hills has Rome?")])
    return [token.id for token in runtime.tokens(prompt, 24, Sampling(), lambda: False)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"penalty": 0.9}, "penalty must be at least 1"),
        ({"layers": "middle"}, "layers must be 'low', 'high'"),
    ],
)
def test_contrasts_out_of_range(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Contrast(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contrast": Contrast(layers=(8,))}, "numbers from 0 to 7"),
        ({"dtype": "int8"}, "dtype must be float32, bfloat16 or float16, got 'int8'"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DolaChat(tiny_chat.shared(), **settings)


def test_another_precision_works() -> None:
    assert len(made(DolaRuntime(tiny_chat.shared(), Contrast(), dtype="bfloat16", device="cpu"))) > 0


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", r"the chat model .* there is no config\.json"),
        ("model.safetensors", "there is no weight"),
        ("tokenizer.json", "there is no tokenizer"),
    ],
)
def test_a_directory_that_lacks_a_file(missing: str, message: str, tmp_path: Path) -> None:
    folder = tiny_chat.copy_to(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=message):
        DolaChat(folder)


def test_a_model_without_a_chat_template(tmp_path: Path) -> None:
    folder = tiny_chat.copy_to(tmp_path)
    details = json.loads((folder / "tokenizer_config.json").read_text())
    del details["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(details))
    with pytest.raises(ModelError, match="has no chat template"):
        DolaChat(folder)


def test_a_model_that_scales_its_logits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Any = transformers
    forward = kinds.Qwen2ForCausalLM.forward

    def scaled(self: Any, *arguments: Any, **named: Any) -> Any:
        found = forward(self, *arguments, **named)
        found.logits = found.logits * 2
        return found

    monkeypatch.setattr(kinds.Qwen2ForCausalLM, "forward", scaled)
    with pytest.raises(ConfigError, match="Qwen2ForCausalLM makes its logits in a way of its own"):
        DolaChat(tiny_chat.shared())


def test_a_gguf_file_decodes_as_the_directory_that_it_was_made_from(tmp_path: Path) -> None:
    packed, plain = (DolaRuntime(place, Contrast()) for place in (tiny_chat.gguf_in(tmp_path), tiny_chat.shared()))
    assert packed.candidates == plain.candidates
    assert made(packed) == made(plain)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"GG", "is not a GGUF file"), (b"GGUF\x03", "cannot be loaded")],
)
def test_a_gguf_file_that_cannot_be_used(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        DolaChat(path)


def test_what_is_neither_a_directory_nor_a_hub_id() -> None:
    with pytest.raises(ConfigError, match="the chat model 'a b/c' is neither a directory nor a hub id"):
        DolaChat("a b/c")


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_is_named_with_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(MissingExtra, match=rf"needs the package '{package}'.*corrigenda\[dola\]"):
        backends.load("chat dola", tiny_chat.shared())

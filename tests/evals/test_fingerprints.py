"""What a run is made of, as checksums: another content, another checksum; and nothing else."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corrigenda.errors import InputError, ModelError
from corrigenda.evals import fingerprints
from corrigenda.evals.fingerprints import (
    UNKNOWN,
    of_file,
    of_hub,
    of_index,
    of_item,
    of_method,
    of_model,
    of_settings,
)
from corrigenda.evals.items import Item
from corrigenda.models import MODELS
from corrigenda.settings import Settings
from corrigenda.types import Reference, Verdict

ITEM = Item(
    id="a",
    kind="answer",
    question="How many hills?",
    answer="Five.",
    contexts=(Reference(text="Seven hills.", source="Rome"),),
    correct=("Seven.",),
    incorrect=("Five.",),
    label=Verdict.CONTRADICTED,
    sentence_labels=(Verdict.CONTRADICTED, None),
    group="a",
    tags={"topic": "Rome"},
)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "b"},
        {"kind": "question"},
        {"question": "How many hills has it?"},
        {"answer": None},
        {"contexts": (Reference(text="Seven hills.", source="Roma"),)},
        {"contexts": (Reference(text="Seven hills .", source="Rome"),)},
        {"contexts": ()},
        {"correct": ("Seven.", "7.")},
        {"incorrect": ()},
        {"label": Verdict.SUPPORTED},
        {"sentence_labels": (None, Verdict.CONTRADICTED)},
        {"tags": {}},
        {"question": "\ud800"},
    ],
)
def test_an_item_that_holds_something_else_has_another_checksum(change: dict[str, Any]) -> None:
    assert of_item(replace(ITEM, **change)) != of_item(ITEM)


def test_an_item_is_the_same_whatever_else_was_drawn() -> None:
    assert of_item(replace(ITEM, group="b")) == of_item(replace(ITEM)) == of_item(ITEM)


def test_a_small_file_is_hashed_whole(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert of_file(tmp_path / "x") == hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(InputError, match=r"nowhere' cannot be read: No such file .*; check the path"):
        of_file(tmp_path / "nowhere")


def test_of_a_large_file_pieces_from_the_first_byte_to_the_last_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WHOLE", 19), ("PIECES", 4), ("PIECE", 2)):
        monkeypatch.setattr(fingerprints, name, value)
    file = tmp_path / "x"
    found = {}
    for content in (b"0" * 20, *(b"0" * place + b"1" + b"0" * (19 - place) for place in range(20)), b"0" * 21):
        file.write_bytes(content)
        found[content] = of_file(file)
    assert found[b"0" * 20] == f"pieces:{hashlib.sha256(b'20' + b'0' * 8).hexdigest()}"
    same = [content.index(b"1") for content in found if b"1" in content and found[content] == found[b"0" * 20]]
    assert same == [2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17]
    assert found[b"0" * 21] != found[b"0" * 20]


def test_a_models_folder_is_its_files_without_notes_and_hidden_ones(tmp_path: Path) -> None:
    def checksum(**files: str) -> str:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return of_model(str(tmp_path))

    first = checksum(model_onnx="graph", config_json="{}")
    assert checksum(README_md="read", _lock="x", model_onnx="graph") == first
    second = checksum(model_onnx="another graph")
    third = checksum(onnx__model_onnx="a third")
    assert len({first, second, third}) == 3
    assert of_model(str(tmp_path / "config.json")) == hashlib.sha256(b"{}").hexdigest()


def test_a_hub_model_is_the_commit_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(repo: str, name: str) -> Any:
        if " " in repo:
            raise ValueError(repo)
        return {"me/nli": f"/cache/snapshots/abc/{name}"}.get(repo)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(try_to_load_from_cache=found))
    assert [of_model(name) for name in ("me/nli", "me/other", "no id")] == ["commit:abc", UNKNOWN, UNKNOWN]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert of_hub("me/nli") == UNKNOWN


EMBEDDED = MODELS[0].sha256


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, {"chat": EMBEDDED, "verifier": EMBEDDED}),
        ({"llm": f"local:{MODELS[1].name}"}, {"chat": MODELS[1].sha256, "verifier": MODELS[1].sha256}),
        ({"llm": "openai:x"}, {"verifier": EMBEDDED}),
        ({"llm": "none", "nli": "chat:openai:x"}, {}),
        ({"llm": "scripted:one", "nli": "scripted:two"}, {"chat": "one", "verifier": "two"}),
        ({"llm": "local:one.gguf", "nli": "onnx:one.gguf"}, {"chat": "one", "verifier": "one"}),
        ({"llm": "none", "nli": "chat:scripted:one"}, {"verifier": "one"}),
        ({"llm": "none", "nli": "transformers:me/nli"}, {"verifier": UNKNOWN}),
        ({"llm": "none", "nli": "transformers"}, {"verifier": "commit:paper"}),
        ({"llm": "none", "nli": "chat:openai:x", "judge": "nli:scripted:two"}, {"judge": "two"}),
        ({"llm": "none", "nli": "chat:openai:x", "judge": "nli:chat:scripted:two"}, {"judge": "two"}),
        ({"llm": "none", "nli": "chat:openai:x", "judge": "chat:local:one.gguf"}, {"judge": "one"}),
        ({"llm": "none", "nli": "chat:openai:x", "judge": "chat:openai:y"}, {}),
        ({"llm": "none", "nli": "chat:openai:x", "judge": "chat"}, {}),
        ({"llm": "none", "nli": "chat:openai:x", "judge": "lexical"}, {}),
        ({"llm": "none", "nli": "chat", "nli_calibration": "two"}, {"nli_calibration": "two", "verifier": EMBEDDED}),
        (
            {"llm": "none", "nli": "chat:openai:x", "prompts": "one", "policy": "p.json", "retrieve": "two"},
            {"prompts": "one", "policy": "p.json", "retrieve": "two"},
        ),
    ],
)
def test_what_settings_name_is_known_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], found: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fingerprints, "of_hub", lambda name: "commit:paper" if "DeBERTa-v3-large" in name else UNKNOWN)
    shown = {}
    for name in ("one", "one.gguf", "two", "p.json"):
        text = name.removesuffix(".gguf")
        Path(name).write_text(text)
        shown[hashlib.sha256(text.encode()).hexdigest()] = text
    assert {role: shown.get(value, value) for role, value in of_settings(Settings(**settings)).items()} == found


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"llm": "local:nowhere.gguf"}, ModelError, r"there is no model file at 'nowhere\.gguf'"),
        ({"llm": "local:unheard-of"}, ModelError, "no embedded model is named 'unheard-of'"),
        ({"nli": "scripted:nowhere"}, InputError, "the script 'nowhere' cannot be read"),
        ({"policy": "nowhere.json"}, InputError, r"the file that policy names 'nowhere\.json' cannot be read"),
        ({"retrieve": "nowhere"}, InputError, "what retrieve names, 'nowhere' cannot be read"),
    ],
)
def test_what_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        of_settings(Settings(**settings))


def test_an_index_is_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert of_index(str(tmp_path)) == hashlib.sha256(b"{}").hexdigest()


def test_a_method_with_a_model_of_its_own_has_that_ones_checksum(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"abc")
    models = [str(tmp_path / "x.gguf"), "embedded", None]
    assert [of_method(SimpleNamespace(model=model)) for model in models] == [
        hashlib.sha256(b"abc").hexdigest(),
        EMBEDDED,
        None,
    ]
    assert of_method(object()) is None

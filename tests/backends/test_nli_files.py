import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest
from tests import tiny_nli

from corrigenda.backends.nli_files import max_length
from corrigenda.backends.nli_onnx import OnnxEntailer
from corrigenda.errors import ConfigError, MissingExtra, ModelError


@pytest.mark.parametrize("spec", ["", "./nowhere", "/no/such/dir", "a/b/c", "two words", "~nobody/x y"])
def test_what_is_neither_directory_nor_hub_id_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="is neither a directory nor a hub id"):
        OnnxEntailer(spec)


def test_a_file_in_place_of_a_directory_is_refused() -> None:
    with pytest.raises(ConfigError, match="is a file; give the directory"):
        OnnxEntailer(tiny_nli.shared() / "model.onnx")


def test_offline_says_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'some/model' cannot be had; tried the cache .* \(offline: .*hf download"):
        OnnxEntailer("some/model", offline=True, cache_dir=tmp_path)


def test_a_hub_that_cannot_be_reached_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"then http://127\.0\.0\.1:9: .*copy the directory here and give DIR"):
        OnnxEntailer("some/model", cache_dir=tmp_path)


class FakeHub:
    """Stands for `huggingface_hub`: nothing in the cache, one repository, and what was asked for."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.names = folder, names
        self.asked: list[dict[str, Any]] = []

    def snapshot_download(self, repo: str, **settings: Any) -> str:
        if settings.get("local_files_only"):
            raise FileNotFoundError("not cached")
        self.asked.append({"repo": repo, **settings})
        return str(self.folder)

    def model_info(self, repo: str, *, revision: str | None, timeout: float) -> Any:
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in self.names])


def with_hub(monkeypatch: pytest.MonkeyPatch, hub: FakeHub) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda endpoint: hub)


def test_only_the_files_that_are_needed_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["README.md", "config.json", "onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_quantized.onnx"]
    hub = FakeHub(tiny_nli.shared(), [*names, "pytorch_model.bin", "tokenizer.json", "tokenizer_config.json"])
    with_hub(monkeypatch, hub)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_TELEMETRY", False)
    entailer = OnnxEntailer("some/model", revision="v2")
    assert entailer.name == "onnx:some/model"
    wanted = ["onnx/model.onnx", "onnx/model.onnx_data", "config.json", "tokenizer.json", "tokenizer_config.json"]
    assert hub.asked == [{"repo": "some/model", "allow_patterns": wanted, "revision": "v2", "cache_dir": None}]
    assert huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY is True


def test_a_repository_without_onnx_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with_hub(monkeypatch, FakeHub(tiny_nli.shared(), ["config.json", "model.safetensors"]))
    with pytest.raises(ModelError, match=r"there is no model\.onnx"):
        OnnxEntailer("some/model")


def test_what_is_cached_is_used_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda repo, **settings: str(tiny_nli.shared()))
    monkeypatch.setattr(huggingface_hub, "HfApi", None)
    assert OnnxEntailer("some/model").name == "onnx:some/model"


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tokenizers" else real(name))
    with pytest.raises(MissingExtra, match=r'pip install "corrigenda\[onnx\]"'):
        OnnxEntailer(tiny_nli.shared())


@pytest.mark.parametrize(
    ("config", "tokenizer", "expected"),
    [
        ({"max_position_embeddings": 512}, 10**30, 512),
        ({"max_position_embeddings": 1024}, 512, 512),
        ({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, None, 512),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta"}, None, 512),
        ({"max_position_embeddings": -1}, 256.0, 256),
        ({}, None, 512),
    ],
)
def test_the_length_limit_is_the_smaller_of_two(config: dict[str, Any], tokenizer: Any, expected: int) -> None:
    assert max_length(config, tokenizer) == expected

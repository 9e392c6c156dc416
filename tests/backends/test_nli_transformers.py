import asyncio
import importlib.util
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import transformers
from tests import tiny_nli

from corrigenda.backends.nli_onnx import OnnxEntailer
from corrigenda.backends.nli_transformers import DEFAULT_MODEL, TransformersEntailer
from corrigenda.bench.nli_model import Size, make_model, make_tokenizer
from corrigenda.errors import ConfigError, MissingExtra, ModelError
from corrigenda.ports import Entailer
from corrigenda.types import Entailment, Pair, PairFailure

PAIRS = [
    Pair(premise="The river is long and the town stands on its bank.", hypothesis="The town has a river."),
    Pair(premise="Lead sinks.", hypothesis="Cork floats, and salt dissolves in water."),
    Pair(premise="雪国 🧭", hypothesis="x"),
    Pair(premise="The lamp draws 5 mW.", hypothesis="The lamp draws 5 MW."),
    Pair(premise="The lamp draws 5 mW.", hypothesis="The lamp draws 5 mW."),
    Pair(premise="The lamp in the hall and the lamp in the yard " * 2, hypothesis="Nine."),
]


def run(entailer: Entailer, pairs: Sequence[Pair] = PAIRS) -> list[Entailment | PairFailure]:
    async def main() -> list[Entailment | PairFailure]:
        try:
            return await entailer.entail(pairs)
        finally:
            await entailer.aclose()

    return asyncio.run(main())


def numbers(results: Sequence[Entailment | PairFailure]) -> list[float]:
    scores = [result for result in results if isinstance(result, Entailment)]
    assert len(scores) == len(results)
    return [value for s in scores for value in (s.entailment, s.neutral, s.contradiction)]


def load() -> tuple[Any, Any]:
    """The caller's own objects, as the caller would load them."""
    kinds: Any = transformers
    model = kinds.AutoModelForSequenceClassification.from_pretrained(tiny_nli.shared())
    return model, kinds.AutoTokenizer.from_pretrained(tiny_nli.shared())


def test_both_runtimes_give_the_same_probabilities() -> None:
    one, two = numbers(run(TransformersEntailer(tiny_nli.shared()))), numbers(run(OnnxEntailer(tiny_nli.shared())))
    assert one == pytest.approx(two, abs=1e-4)
    assert max(one) - min(one) > 0.5, "the model must have an opinion"


def test_batched_equals_one_by_one() -> None:
    batched = numbers(run(TransformersEntailer(tiny_nli.shared(), batch_size=4)))
    alone = numbers(run(TransformersEntailer(tiny_nli.shared(), batch_size=1)))
    assert batched == pytest.approx(alone, abs=1e-5)


def test_both_runtimes_count_alike() -> None:
    one, two = TransformersEntailer(tiny_nli.shared()), OnnxEntailer(tiny_nli.shared())
    texts = ["", "lamp", "雪国 🧭", "a\ud800b", "word " * 900]
    assert [one.count_tokens(text) for text in texts] == [two.count_tokens(text) for text in texts]
    assert (one.max_tokens, two.max_tokens) == (tiny_nli.MAX_TOKENS, tiny_nli.MAX_TOKENS)


def test_a_pair_that_is_too_long_fails_with_both_numbers() -> None:
    entailer = TransformersEntailer(tiny_nli.shared())
    found = run(entailer, [Pair(premise="lamp " * 61, hypothesis="cork"), PAIRS[0]])
    assert isinstance(found[0], PairFailure)
    assert "at most 61" in found[0].reason
    assert isinstance(found[1], Entailment)


def state(model: Any, tokenizer: Any) -> tuple[Any, ...]:
    """All of the caller's objects that a verifier could have touched."""
    backend = tokenizer.backend_tokenizer
    return (
        [(name, module.training) for name, module in model.named_modules()],
        [(name, tensor.data_ptr(), tensor.requires_grad, tensor.dtype) for name, tensor in model.named_parameters()],
        model.config.to_dict(),
        (tokenizer.padding_side, tokenizer.truncation_side, tokenizer.model_max_length),
        (backend.padding, backend.truncation),
        torch.is_grad_enabled(),
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_callers_objects_are_never_changed(training: bool) -> None:
    model, tokenizer = load()
    model.train(training)
    tokenizer(["a"], padding="max_length", truncation=True, max_length=7)  # leaves its mark in the tokenizer
    before = state(model, tokenizer)
    entailer = TransformersEntailer(model=model, tokenizer=tokenizer)
    assert state(model, tokenizer) == before
    found = numbers(run(entailer))
    assert state(model, tokenizer) == before
    assert found == pytest.approx(numbers(run(TransformersEntailer(tiny_nli.shared()))), abs=1e-6)


def test_the_callers_later_changes_of_mode_do_not_reach_the_verifier() -> None:
    model, tokenizer = load()
    entailer = TransformersEntailer(model=model, tokenizer=tokenizer)
    model.train()
    assert entailer._model.training is False
    assert [a.data_ptr() for a in entailer._model.parameters()] == [b.data_ptr() for b in model.parameters()]
    assert run(entailer) == run(TransformersEntailer(model=model, tokenizer=tokenizer))


def test_names() -> None:
    model, tokenizer = load()
    folder = tiny_nli.shared()
    assert TransformersEntailer(folder).name == f"transformers:{folder}"
    assert TransformersEntailer(str(folder)).name == f"transformers:{folder}"
    assert TransformersEntailer(model=model, tokenizer=tokenizer).name == f"transformers:{folder}"
    model.config._name_or_path = ""
    named = TransformersEntailer(model=model, tokenizer=tokenizer).name
    assert named == "transformers:DebertaV2ForSequenceClassification"


@pytest.mark.parametrize("spec", ["", "default"])
def test_the_papers_model_is_the_default(spec: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"'{DEFAULT_MODEL}' cannot be had; tried the cache"):
        TransformersEntailer(spec, offline=True, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "int8"}, "dtype must be float32, bfloat16 or float16, got 'int8'"),
        ({"dtype": "nonsense"}, "got 'nonsense'"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"model": object()}, "model= and tokenizer= go together"),
        ({"tokenizer": object()}, "model= and tokenizer= go together"),
        ({"model": object(), "tokenizer": object(), "device": "cpu"}, "don't go with model="),
        ({"labels": ["entailment", "not_entailment"]}, "has 2 classes"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransformersEntailer(tiny_nli.shared(), **settings)


def test_another_precision_gives_nearly_the_same() -> None:
    half = numbers(run(TransformersEntailer(tiny_nli.shared(), dtype="bfloat16", device="cpu")))
    assert half == pytest.approx(numbers(run(TransformersEntailer(tiny_nli.shared()))), abs=0.3)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", r"there is no config\.json"),
        ("tokenizer.json", "there is no tokenizer"),
        ("model.safetensors", r"there are no weights \(model\.safetensors or pytorch_model\.bin\)"),
    ],
)
def test_a_directory_that_lacks_a_file_is_named_with_the_remedy(missing: str, message: str, tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=message) as caught:
        TransformersEntailer(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_is_a_model_error(name: str, tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    (folder / name).write_bytes(b"\x07{")
    with pytest.raises(ModelError, match=r"cannot be loaded: .*; fetch it again"):
        TransformersEntailer(folder)


def relabel(folder: Path, id2label: dict[str, str]) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"id2label": id2label, "label2id": {name: int(i) for i, name in id2label.items()}}
    (folder / "config.json").write_text(json.dumps(config))


def test_the_order_of_the_labels_comes_from_the_configuration(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    relabel(folder, {"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"})
    turned = [item for item in run(TransformersEntailer(folder)) if isinstance(item, Entailment)]
    plain = [item for item in run(TransformersEntailer(tiny_nli.shared())) if isinstance(item, Entailment)]
    assert [(item.contradiction, item.neutral, item.entailment) for item in turned] == [
        (item.entailment, item.neutral, item.contradiction) for item in plain
    ]


def test_labels_without_names_need_an_explicit_map(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    relabel(folder, {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})
    with pytest.raises(ConfigError, match="ambiguous: 'LABEL_0'"):
        TransformersEntailer(folder)
    given = TransformersEntailer(folder, labels={0: "entailment", 1: "neutral", 2: "contradiction"})
    assert run(given) == run(TransformersEntailer(tiny_nli.shared()))


def test_a_two_class_model_is_refused() -> None:
    _, tokenizer = load()
    with pytest.raises(ConfigError, match="has 2 classes"):
        TransformersEntailer(model=make_model(Size(), ["entailment", "not_entailment"]), tokenizer=tokenizer)


def test_a_tokenizer_that_glues_the_pair_is_refused(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    make_tokenizer(folder, pairs=False)
    with pytest.raises(ConfigError, match="puts nothing between premise and hypothesis"):
        TransformersEntailer(folder)


def test_weights_that_overflow_give_failures_and_not_scores() -> None:
    model, tokenizer = load()
    with torch.no_grad():
        model.classifier.bias.fill_(math.nan)
    found = run(TransformersEntailer(model=model, tokenizer=tokenizer), PAIRS[:2])
    assert [isinstance(item, PairFailure) for item in found] == [True, True]


def test_segment_ids_are_fed_only_where_the_tokenizer_knows_them(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    details = json.loads((folder / "tokenizer_config.json").read_text())
    details["model_input_names"] = ["input_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(details))
    without, given = (
        run(TransformersEntailer(folder), PAIRS[:2]),
        run(TransformersEntailer(tiny_nli.shared()), PAIRS[:2]),
    )
    assert all(isinstance(item, Entailment) for item in without)
    assert without != given


def test_safetensors_are_preferred_and_the_rest_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["README.md", "config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]
    names += [
        "pytorch_model.bin",
        "rust_model.ot",
        "spm.model",
        "tokenizer.json",
        "tokenizer_config.json",
        "optimizer.pt",
    ]
    asked: list[list[str]] = []

    class Hub:
        def model_info(self, repo: str, **settings: Any) -> Any:
            return type("Info", (), {"siblings": [type("File", (), {"rfilename": name})() for name in names]})()

    def download(repo: str, **settings: Any) -> str:
        if settings.get("local_files_only"):
            raise FileNotFoundError("not cached")
        asked.append(settings["allow_patterns"])
        return str(tiny_nli.shared())

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda endpoint: Hub())
    assert TransformersEntailer("default").name == f"transformers:{DEFAULT_MODEL}"
    assert sorted(asked[0]) == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
        "spm.model",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else real(name))
    with pytest.raises(MissingExtra, match=r'pip install "corrigenda\[transformers\]"'):
        TransformersEntailer(tiny_nli.shared())

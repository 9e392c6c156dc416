import asyncio
import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime.quantization
import pytest
from onnx import TensorProto
from tests import tiny_nli

from corrigenda.backends.nli_batched import BatchedEntailer, encodable
from corrigenda.backends.nli_onnx import OnnxEntailer
from corrigenda.bench.nli_model import make_tokenizer
from corrigenda.errors import BackendError, ConfigError, ModelError
from corrigenda.types import Entailment, Pair, PairFailure

INT64, INT32 = TensorProto.INT64, TensorProto.INT32


def pair(premise: str, hypothesis: str) -> Pair:
    return Pair(premise=premise, hypothesis=hypothesis)


def mixed_pairs(count: int = 24) -> list[Pair]:
    """Pairs of very different lengths, in a shuffled order."""
    chance = random.Random(5)
    words = ["lamp", "river", "town", "bridge", "lead", "cork", "salt", "water", "Ada", "1961", "雪国"]
    return [
        pair(" ".join(chance.choices(words, k=1 + 3 * (i % 5))), " ".join(chance.choices(words, k=1 + i % 3)))
        for i in range(count)
    ]


def run(entailer: BatchedEntailer, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
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


def set_json(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def plain_model(folder: Path, inputs: dict[str, int], **graph: Any) -> Path:
    """A directory with a graph made by hand, whose inputs or numbers are out of the ordinary."""
    folder.mkdir()
    make_tokenizer(folder)
    labels = {"0": "contradiction", "1": "entailment", "2": "neutral"}
    (folder / "config.json").write_text(json.dumps({"id2label": labels, "pad_token_id": 0}))
    tiny_nli.plain_graph(folder / "model.onnx", inputs, **graph)
    return folder


def test_batched_equals_one_by_one() -> None:
    pairs = mixed_pairs()
    batched = numbers(run(OnnxEntailer(tiny_nli.shared(), batch_size=7), pairs))
    alone = numbers(run(OnnxEntailer(tiny_nli.shared(), batch_size=1), pairs))
    assert batched == pytest.approx(alone, abs=1e-5)
    assert len({round(value, 4) for value in alone}) > 30, "the model must tell the pairs apart"


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_the_token_bound_changes_no_result(batch_tokens: int) -> None:
    pairs = mixed_pairs(9)
    found = numbers(run(OnnxEntailer(tiny_nli.shared(), batch_tokens=batch_tokens), pairs))
    assert found == pytest.approx(numbers(run(OnnxEntailer(tiny_nli.shared()), pairs)), abs=1e-5)


def test_premise_and_hypothesis_are_told_apart() -> None:
    first, second = run(OnnxEntailer(tiny_nli.shared()), [pair("Cork.", "Lead sinks."), pair("Lead sinks.", "Cork.")])
    assert first != second


def test_what_the_tokenizer_file_says_about_cutting_and_padding_is_not_followed() -> None:
    entailer = OnnxEntailer(tiny_nli.shared())
    long = "lamp " * 40
    assert entailer.count_tokens(long) > 16
    # Two texts that differ only after the 16 tokens that the file would have kept.
    one, two = run(entailer, [pair(long + "river", "town"), pair(long + "salt", "town")])
    assert isinstance(one, Entailment)
    assert one != two


def test_a_pair_that_is_too_long_fails_with_both_numbers_and_alone() -> None:
    entailer = OnnxEntailer(tiny_nli.shared())
    assert entailer.max_tokens == tiny_nli.MAX_TOKENS
    word = "lamp"
    fits = " ".join([word] * (entailer.max_tokens - entailer.count_tokens("cork")))
    assert entailer.count_tokens(fits) + entailer.count_tokens("cork") == entailer.max_tokens
    found = run(entailer, [pair(f"{fits} {word}", "cork"), pair(fits, "cork")])
    assert found[0] == PairFailure(
        reason="reference and claim have 62 tokens, but the verifier reads at most 61; they are never cut"
    )
    assert isinstance(found[1], Entailment)


def test_text_that_no_tokenizer_takes_is_scored_all_the_same() -> None:
    entailer = OnnxEntailer(tiny_nli.shared())
    assert encodable("a\ud800b") == "a\ufffdb"
    assert encodable("🧭") == "🧭"
    assert entailer.count_tokens("a\ud800b") == entailer.count_tokens("a\ufffdb")
    found = run(entailer, [pair("a\ud800b", "\udfff"), pair("a\ufffdb", "\ufffd")])
    assert found[0] == found[1]


@pytest.mark.parametrize("order", list(itertools.permutations(["entailment", "neutral", "contradiction"])))
def test_the_order_of_the_labels_comes_from_the_configuration(order: Sequence[str], tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "m", {"input_ids": INT64}, added=(9.0, 0.0, -9.0))
    set_json(folder / "config.json", id2label={str(i): name for i, name in enumerate(order)})
    (found,) = run(OnnxEntailer(folder), [pair("Lead sinks.", "Cork floats.")])
    assert isinstance(found, Entailment)
    assert found.label == order[0]
    assert min(("entailment", "neutral", "contradiction"), key=lambda name: getattr(found, name)) == order[2]


def test_labels_can_be_given_where_the_model_does_not_name_them(tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "m", {"input_ids": INT64}, added=(9.0, 0.0, -9.0))
    set_json(folder / "config.json", id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})
    with pytest.raises(ConfigError, match="ambiguous: 'LABEL_0'"):
        OnnxEntailer(folder)
    (found,) = run(OnnxEntailer(folder, labels=["contradiction", "neutral", "entailment"]), [pair("a", "b")])
    assert isinstance(found, Entailment)
    assert found.label == "contradiction"


@pytest.mark.parametrize(
    ("inputs", "fed"),
    [
        ({"input_ids": INT64}, {"input_ids": "int64"}),
        ({"input_ids": INT32, "token_type_ids": INT32}, {"input_ids": "int32", "token_type_ids": "int32"}),
    ],
)
def test_only_declared_inputs_are_fed_and_without_a_mask_nothing_is_padded(
    inputs: dict[str, int], fed: dict[str, str], tmp_path: Path
) -> None:
    folder = plain_model(tmp_path / "m", inputs)
    pairs = mixed_pairs(12)
    entailer = OnnxEntailer(folder)
    assert entailer._inputs == fed
    together = numbers(run(entailer, pairs))
    assert together == pytest.approx(numbers(run(OnnxEntailer(folder, batch_size=1), pairs)), abs=1e-6)


@pytest.mark.parametrize(
    ("inputs", "graph", "message"),
    [
        ({"input_ids": INT64, "position_ids": INT64}, {}, r"has the inputs .*position_ids.*export again"),
        ({"input_ids": INT64, "attention_mask": TensorProto.FLOAT}, {}, r"'tensor\(float\)'"),
        ({"input_ids": INT64}, {"shape": ("batch", 128)}, r"fixed shape \('input_ids': \['batch', 128\]\)"),
    ],
)
def test_a_graph_that_cannot_be_fed_is_refused(
    inputs: dict[str, int], graph: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = plain_model(tmp_path / "m", inputs, **graph)
    with pytest.raises(ConfigError, match=message):
        OnnxEntailer(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_unusable_logits_are_failures(value: float, tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "m", {"input_ids": INT64}, added=(value, 0.0, 0.0))
    (found,) = run(OnnxEntailer(folder), [pair("a", "b")])
    assert isinstance(found, PairFailure)
    assert found.reason.startswith("the verifier's logits are not usable")


def test_a_graph_that_gives_two_logits_is_a_failure_and_not_a_verdict(tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "m", {"input_ids": INT64})
    model = onnx.load(folder / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.name == "table":
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)[:, :2], "table"))
        elif tensor.name == "added":
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)[:2], "added"))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    onnx.save(model, folder / "model.onnx")
    (found,) = run(OnnxEntailer(folder), [pair("a", "b")])
    assert isinstance(found, PairFailure)
    assert found.reason.startswith("the verifier gave 2 logits where 3 are needed")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:onnxruntime.*")
def test_a_quantised_model_scores_each_pair_by_itself(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    (folder / "onnx").mkdir()
    small = folder / "onnx" / "model_quantized.onnx"
    onnxruntime.quantization.quantize_dynamic(folder / "model.onnx", small)
    full = OnnxEntailer(folder)
    (folder / "model.onnx").unlink()
    pairs = mixed_pairs(8)
    entailer = OnnxEntailer(folder)
    assert (full._limits.pairs, entailer._limits.pairs) == (32, 1)
    assert (full.warnings, entailer.warnings) == (
        (),
        (
            f"the verifier {str(folder)!r} has no graph of full precision; model_quantized.onnx is used, whose scores "
            f"differ from it (onnx:{folder}@int8 says that this is meant)",
        ),
    )
    together = numbers(run(entailer, pairs))
    alone = [value for item in pairs for value in numbers(run(OnnxEntailer(folder), [item]))]
    assert together == alone
    assert together == pytest.approx(numbers(run(full, pairs)), abs=0.25)


def test_full_precision_goes_before_quantised_and_file_before_both(tmp_path: Path) -> None:
    folder = plain_model(tmp_path / "m", {"input_ids": INT64}, added=(9.0, 0.0, 0.0))
    tiny_nli.plain_graph(folder / "onnx" / "model.onnx", {"input_ids": INT64}, added=(0.0, 9.0, 0.0))
    tiny_nli.plain_graph(folder / "onnx" / "model_quantized.onnx", {"input_ids": INT64}, added=(0.0, 0.0, 9.0))

    def label(**settings: str) -> str:
        (found,) = run(OnnxEntailer(folder, **settings), [pair("a", "b")])  # type: ignore[arg-type]
        assert isinstance(found, Entailment)
        return found.label

    assert label() == "contradiction"
    assert label(file="onnx/model_quantized.onnx") == "neutral"
    (folder / "model.onnx").unlink()
    assert label() == "entailment"
    (folder / "onnx" / "model.onnx").unlink()
    assert label() == "neutral"


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", r"there is no config\.json; it names the labels"),
        ("tokenizer.json", r"there is no tokenizer\.json; a fast tokenizer is needed"),
        ("model.onnx", r"there is no model\.onnx or onnx/model\.onnx or .*optimum-cli export onnx"),
    ],
)
def test_a_directory_that_lacks_a_file_is_named_with_the_remedy(missing: str, message: str, tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=message) as caught:
        OnnxEntailer(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", b"", r"model\.onnx' cannot be loaded"),
        ("model.onnx", b"\x00garbage" * 50, r"model\.onnx' cannot be loaded"),
        ("config.json", b"{", r"config\.json' cannot be read as JSON"),
        ("config.json", b"\xff\xfe", r"config\.json' cannot be read as JSON"),
        ("config.json", b"[]", r"config\.json' must hold a JSON object, got list"),
        ("tokenizer.json", b"{}", r"tokenizer\.json' is no tokenizer"),
    ],
)
def test_a_damaged_file_is_named_with_the_remedy(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        OnnxEntailer(folder)
    assert "again" in str(caught.value)


def test_a_two_class_model_is_refused(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    set_json(folder / "config.json", id2label={"0": "entailment", "1": "not_entailment"})
    with pytest.raises(ConfigError, match="has 2 classes"):
        OnnxEntailer(folder)


def test_a_tokenizer_that_glues_the_pair_is_refused(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    make_tokenizer(folder, pairs=False)
    with pytest.raises(ConfigError, match="puts nothing between premise and hypothesis"):
        OnnxEntailer(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0 pairs"),
        ({"batch_tokens": -1}, "got 32 pairs and -1 tokens"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OnnxEntailer(tiny_nli.shared(), **settings)  # type: ignore[arg-type]


def test_a_missing_file_that_was_asked_for_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no other\.onnx"):
        OnnxEntailer(tiny_nli.shared(), file="other.onnx")


def test_a_closed_verifier_says_so() -> None:
    entailer = OnnxEntailer(tiny_nli.shared())
    run(entailer, [])
    with pytest.raises(BackendError, match="was closed"):
        asyncio.run(entailer.entail([pair("a", "b")]))


def test_the_padding_token_is_found_where_the_configuration_does_not_name_it(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path)
    set_json(folder / "config.json", pad_token_id=None)
    pairs = mixed_pairs(6)
    assert numbers(run(OnnxEntailer(folder), pairs)) == numbers(run(OnnxEntailer(tiny_nli.shared()), pairs))

"""Small NLI models on disk for tests: a random DeBERTa (made once a session) and graphs written by hand."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from corrigenda.bench.nli_model import make

MAX_TOKENS = 61
"""What the shared model reads: 64 positions less [CLS] and two [SEP]."""


@functools.cache
def shared() -> Path:
    """Return a directory with the tiny model in both forms. Tests must not change it; see `copy_to`."""
    folder = Path(tempfile.mkdtemp(prefix="tiny-nli-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make(folder)


def copy_to(folder: Path) -> Path:
    """Return a copy of the shared directory that a test may damage."""
    return Path(shutil.copytree(shared(), folder / "model"))


def plain_graph(
    path: Path,
    inputs: Mapping[str, int],
    *,
    added: Sequence[float] = (0.0, 0.0, 0.0),
    shape: Sequence[str | int] = ("batch", "sequence"),
    output: str = "scores",
) -> None:
    """Write a graph by hand: logits = mean over the tokens of a row of a fixed random table, plus `added`.

    `inputs` maps each declared input to its ONNX type; only `input_ids` is used, so padding does change the
    result, as in a model that was exported without a mask.
    """
    table = np.random.default_rng(3).normal(size=(400, 3)).astype(np.float32)
    declared = [helper.make_tensor_value_info(name, kind, list(shape)) for name, kind in inputs.items()]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["means"], axes=[1], keepdims=0),
        helper.make_node("Add", ["means", "added"], [output]),
    ]
    weights = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array(added, dtype=np.float32), "added"),
    ]
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, [shape[0], 3])
    graph = helper.make_graph(nodes, "plain", declared, [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))

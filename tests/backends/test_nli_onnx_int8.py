"""`onnx:…@int8`: which graph is taken, and only when it is asked for; and how many cores there are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import tiny_nli

from corrigenda.backends.cores import usable_cores
from corrigenda.backends.nli_files import int8_of
from corrigenda.backends.nli_onnx import OnnxEntailer, int8_graphs
from corrigenda.errors import ConfigError, ModelError
from corrigenda.evals.fingerprints import of_verifier
from corrigenda.settings import Settings
from corrigenda.types import Entailment, Pair

INPUTS = {"input_ids": 7}
"""INT64 in ONNX's numbering."""
GRAPHS = {
    "model.onnx": (9.0, 0.0, 0.0),
    "onnx/model_quantized.onnx": (0.0, 9.0, 0.0),
    "onnx/model_qint8_avx512_vnni.onnx": (0.0, 0.0, 9.0),
}
"""Each graph says something else."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tiny_nli.copy_to(tmp_path / "model")
    for name, added in GRAPHS.items():
        tiny_nli.plain_graph(made / name, INPUTS, added=added)
    return made


def label(entailer: OnnxEntailer) -> str:
    async def work() -> str:
        try:
            (found,) = await entailer.entail([Pair(premise="a", hypothesis="b")])
            assert isinstance(found, Entailment)
            return found.label
        finally:
            await entailer.aclose()

    return asyncio.run(work())


def test_the_8_bit_graph_is_taken_only_when_it_is_asked_for(folder: Path) -> None:
    (folder / "onnx" / "model_qint8_avx512_vnni.onnx").unlink()
    plain, small = OnnxEntailer(str(folder)), OnnxEntailer(f"{folder}@int8")
    assert (label(plain), label(small)) == ("entailment", "neutral")
    assert (plain.name, small.name) == (f"onnx:{folder}", f"onnx:{folder}@int8")
    assert (plain.warnings, small.warnings) == ((), ())


def test_a_graph_made_for_this_processor_goes_first(folder: Path) -> None:
    expected = "contradiction" if int8_graphs()[0] == "model_qint8_avx512_vnni.onnx" else "neutral"
    assert label(OnnxEntailer(f"{folder}@int8")) == expected


@pytest.mark.parametrize(
    ("machine", "flags", "first", "never"),
    [
        ("x86_64", "fpu avx2 avx512f avx512_vnni", "model_qint8_avx512_vnni.onnx", "model_qint8_arm64.onnx"),
        ("AMD64", "fpu avx2 avx_vnni", "model_qint8_avx512_vnni.onnx", "model_qint8_arm64.onnx"),
        ("x86_64", "fpu avx2 avx512f", "model_quint8_avx2.onnx", "model_qint8_avx512_vnni.onnx"),
        ("x86_64", "", "model_quint8_avx2.onnx", "model_qint8_avx512_vnni.onnx"),
        ("arm64", "", "model_qint8_arm64.onnx", "model_quint8_avx2.onnx"),
        ("aarch64", "avx_vnni", "model_qint8_arm64.onnx", "model_quint8_avx2.onnx"),
    ],
)
def test_what_overflows_on_a_processor_is_never_taken_there(machine: str, flags: str, first: str, never: str) -> None:
    found = int8_graphs(machine.lower(), flags)
    assert found[0] == first
    assert never not in found
    assert {"model_quantized.onnx", "onnx/model_int8.onnx", "onnx/model_uint8.onnx"} <= set(found)


def test_a_model_without_one_is_refused(tmp_path: Path) -> None:
    folder = tiny_nli.copy_to(tmp_path / "model")
    with pytest.raises(ModelError, match=r"there is no .*model_quantized\.onnx.*make one .* or leave out @int8"):
        OnnxEntailer(f"{folder}@int8")


def test_a_file_and_int8_exclude_each_other(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"file='model.onnx' and @int8 both say which graph of '.*@int8' is meant"):
        OnnxEntailer(f"{folder}@int8", file="model.onnx")


def test_what_stands_before_the_ending_is_the_model(tmp_path: Path) -> None:
    named = tmp_path / "model@int8"
    named.mkdir()
    assert int8_of("owner/name@int8") == ("owner/name", True)
    assert int8_of(Path("some/folder@int8")) == (Path("some/folder"), True)
    assert int8_of("owner/name") == ("owner/name", False)
    assert int8_of(str(named)) == (str(named), False), "a folder of that name"
    assert int8_of(f"{named}@int8") == (str(named), True)


def test_its_checksum_is_that_of_the_models_files(folder: Path) -> None:
    assert of_verifier(f"onnx:{folder}@int8", "none") == of_verifier(f"onnx:{folder}", "none")
    assert Settings(nli=f"onnx:{folder}@int8").nli == f"onnx:{folder}@int8"


def test_one_thread_per_batch_gives_the_same_scores() -> None:
    async def scores(entailer: OnnxEntailer) -> list[float]:
        pairs = [Pair(premise="The lamp draws " + "5 mW " * n, hypothesis="The lamp draws 5 MW.") for n in range(1, 6)]
        try:
            found = await entailer.entail(pairs)
            return [each.entailment for each in found if isinstance(each, Entailment)]
        finally:
            await entailer.aclose()

    model = tiny_nli.shared()
    many = asyncio.run(scores(OnnxEntailer(model, threads=2, batch_threads=1)))
    assert many == pytest.approx(asyncio.run(scores(OnnxEntailer(model, threads=1))), abs=1e-6)
    assert len(many) == 5
    with pytest.raises(ConfigError, match="threads must be at least 1, got 0"):
        OnnxEntailer(model, batch_threads=0)


@pytest.mark.parametrize(
    ("asked", "quota", "expected"),
    [
        ("", "max 100000", 64),
        ("", "250000 100000", 3),
        ("2", "250000 100000", 2),
        ("8", "150000 100000", 2),
        ("0", "10000 100000", 1),
        ("nonsense", "nonsense", 64),
        ("", "100000 0", 64),
    ],
)
def test_cores_are_what_scheduler_container_and_user_allow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: str, quota: str, expected: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores({"OMP_NUM_THREADS": asked}, tmp_path / "cpu.max") == expected
    assert usable_cores({}, tmp_path / "there is none") == 64

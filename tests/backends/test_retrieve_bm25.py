"""The index on disk: what is refused, and what the conformance suite cannot see."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.passages import PASSAGES, write_jsonl

from corrigenda import backends
from corrigenda.backends import retrieve_bm25, retrieve_index
from corrigenda.backends.retrieve_bm25 import Bm25Retriever, Bm25Writer
from corrigenda.backends.retrieve_index import Manifest, check_files, read_manifest, write_manifest
from corrigenda.errors import BackendError, InputError, MissingExtra
from corrigenda.retrieval.build import build_index
from corrigenda.types import Passage


@pytest.fixture
def index(tmp_path: Path) -> Path:
    build_index(write_jsonl(tmp_path / "passages.jsonl"), tmp_path / "index")
    return tmp_path / "index"


def ids(index: Path, query: str, k: int = 3) -> list[str]:
    return [passage.id for passage in asyncio.run(Bm25Retriever(index).search([query], k))[0]]


def test_it_is_reopened_without_a_rebuild(index: Path) -> None:
    before = sorted((p.name, p.stat().st_mtime_ns) for p in (index / "tantivy").iterdir() if ".lock" not in p.name)
    assert (ids(index, "Rome"), ids(index, "Rome")) == (["rome"], ["rome"])
    assert before == sorted(
        (p.name, p.stat().st_mtime_ns) for p in (index / "tantivy").iterdir() if ".lock" not in p.name
    )
    assert Bm25Retriever(index).name == f"bm25:{index}"
    assert len(Bm25Retriever(index)) == len(PASSAGES)


def test_a_folder_that_is_only_read_will_do(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    retriever = Bm25Retriever(index)
    view = retriever._view
    assert view is not None
    seen = sorted(path.name for path in Path(view.name).iterdir())
    assert [p.id for p in asyncio.run(retriever.search(["Rome"], 1))[0]] == ["rome"]
    asyncio.run(retriever.aclose())
    assert (not Path(view.name).exists(), "meta.json" in seen) == (True, True)
    assert not list((index / "tantivy").glob(".tantivy-meta.lock"))


def test_everybody_may_read_what_is_written(index: Path) -> None:
    assert [path for path in index.rglob("*") if path.stat().st_mode & 0o444 != 0o444] == []


def test_equal_scores_keep_the_order_over_the_segments_of_an_index(tmp_path: Path) -> None:
    writer = Bm25Writer(tmp_path)
    for i in range(40):
        writer.add(Passage(id=f"p{i}", text=f"Cork floats {i}." if i % 2 else f"Lead sinks {i}."))
        if i in (3, 5, 30):
            writer._writer.commit()
    infos = writer.finish()
    counts, sources = {"passages": 40}, ()
    manifest = Manifest(
        kind="jsonl", source="x", sources=sources, counts=counts, settings={}, library="tantivy", files=infos
    )
    write_manifest(tmp_path, manifest)
    retriever = Bm25Retriever(tmp_path)
    assert retriever._index.searcher().num_segments > 1
    (found,) = asyncio.run(retriever.search(["cork"], 4))
    assert [p.id for p in found] == ["p1", "p3", "p5", "p7"]


# What is refused ---------------------------------------------------------------------------------------------------


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'pip install "corrigenda\[retrieval\]"'):
        Bm25Retriever(tmp_path)
    with pytest.raises(MissingExtra, match=r"'tantivy', which is not installed"):
        Bm25Writer(tmp_path)


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the index '.*nowhere' does not exist; make one with: corrigenda"):
        Bm25Retriever(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds no index \(there is no manifest\.json\)"):
        Bm25Retriever(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"'.*file' is a file, not the folder of an index"):
        Bm25Retriever(tmp_path / "file")


def change(index: Path, **values: Any) -> None:
    path = index / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, r"made by another version of corrigenda \(version 2, this one reads 1\); make it anew"),
        ({"version": None}, r"another version of corrigenda \(version None"),
        ({"terms": 99}, r"another version of corrigenda \(terms 99, this one reads 1\)"),
        ({"format": "else"}, "holds no index of corrigenda"),
        ({"files": [{"name": "x"}]}, r"is damaged: manifest\.json is not as it was written"),
        ({"files": None}, r"is damaged: manifest\.json is not as it was written"),
        ({"extra": 1}, r"is damaged: manifest\.json is not as it was written"),
        ({"counts": 3}, r"is damaged: manifest\.json is not as it was written"),
    ],
)
def test_a_manifest_of_another_form_is_refused(index: Path, values: dict[str, Any], message: str) -> None:
    change(index, **values)
    with pytest.raises(InputError, match=message):
        Bm25Retriever(index)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00", "[" * 100_000])
def test_a_manifest_that_is_cut_or_none_is_refused(index: Path, text: str) -> None:
    (index / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"is damaged: manifest\.json is not JSON|holds no index of corrigenda"):
        Bm25Retriever(index)


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_a_damaged_file_is_refused_before_the_library_sees_it(index: Path, damage: str) -> None:
    path = next((index / "tantivy").glob("*.term"))
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "changed":
        data[len(data) // 3] ^= 0x5A
        path.write_bytes(data)
    with pytest.raises(InputError, match=rf"is damaged: tantivy/{path.name} (cannot be read|is not as it was written)"):
        Bm25Retriever(index)


def test_of_a_large_index_only_the_sizes_are_compared(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = read_manifest(index)
    assert check_files(index, manifest) is True
    monkeypatch.setattr(retrieve_index, "CHECKED_WHOLE", 10)
    assert check_files(index, manifest) is False
    assert check_files(index, manifest, whole=True) is True


def test_what_the_library_cannot_open_is_an_input_error(index: Path) -> None:
    meta = index / "tantivy" / "meta.json"
    meta.write_text("{}")
    files = [
        {"name": f["name"], "bytes": 2, "sha256": retrieve_index.file_info(meta, "x").sha256}
        if f["name"] == "tantivy/meta.json"
        else f
        for f in json.loads((index / "manifest.json").read_text())["files"]
    ]
    change(index, files=files)
    with pytest.raises(InputError, match=r"made with tantivy .*, cannot be opened with tantivy .*make it anew"):
        Bm25Retriever(index)


def test_a_panic_of_the_library_is_a_backend_error() -> None:
    class PanicException(BaseException):  # the library's own name for it
        pass

    def panic() -> None:
        raise PanicException("index out of bounds")

    with pytest.raises(BackendError, match="the index failed: index out of bounds"):
        retrieve_bm25._guarded(panic)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        retrieve_bm25._guarded(interrupt)


def interrupt() -> None:
    raise KeyboardInterrupt("stop")

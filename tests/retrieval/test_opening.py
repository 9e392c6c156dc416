"""From a path to a retriever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.passages import write_jsonl

from corrigenda.errors import InputError
from corrigenda.retrieval import opening
from corrigenda.retrieval.build import build_index
from corrigenda.retrieval.opening import open_retriever


def test_a_folder_is_an_index_and_a_small_file_is_searched_in_memory(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "p.jsonl")
    build_index(source, tmp_path / "index")
    for path, name in ((source, f"memory:{source}"), (tmp_path / "index", f"bm25:{tmp_path / 'index'}")):
        retriever = open_retriever(path)
        assert retriever.name == name
        assert [p.id for p in asyncio.run(retriever.search(["Rome"], 1))[0]] == ["rome"]


def test_what_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_jsonl(tmp_path / "p.jsonl")
    (tmp_path / "blank.jsonl").write_text('{"id": "a", "text": " "}\n')
    (tmp_path / "text.txt").write_text("Rome")
    with pytest.raises(InputError, match=r"blank\.jsonl' holds no passage"):
        open_retriever(tmp_path / "blank.jsonl")
    with pytest.raises(InputError, match=r"text\.txt' is a file, not the folder of an index"):
        open_retriever(tmp_path / "text.txt")
    with pytest.raises(InputError, match=r"nowhere' does not exist"):
        open_retriever(tmp_path / "nowhere")
    monkeypatch.setattr(opening, "MAX_MEMORY", 10)
    with pytest.raises(InputError, match=r"larger than 10 bytes, .* make an index: corrigenda index build"):
        open_retriever(source)

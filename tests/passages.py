"""A small collection of passages, and the retrievers over it, for the tests of retrieval."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from corrigenda.backends.retrieve_bm25 import Bm25Retriever
from corrigenda.backends.retrieve_memory import MemoryRetriever
from corrigenda.ports import Retriever
from corrigenda.retrieval.build import build_index
from corrigenda.types import Passage

PASSAGES = (
    Passage(id="rome", title="Rome", text="Rome stands on seven hills beside the river Tiber."),
    Passage(id="lyon", title="Lyon", text="Lyon lies where the rivers Rhône and Saône meet, in France."),
    Passage(id="twin-1", text="Cork floats on water."),
    Passage(id="twin-2", title="Cork", text="floats on water."),
    Passage(id="snow", title="雪国", text="雪国は川端康成の小説である。"),
    Passage(id="zoe", title="Zoë Bär", text="Zoë Bär was an actor who was born in 1,901 and lived in Lyon."),
    Passage(id="hindi", text="हिन्दी भारत की एक भाषा है।"),
    Passage(id="long", text="Salt dissolves in water; " + "the town by the water is old and quiet. " * 3),
)


def write_jsonl(path: Path, passages: Sequence[Passage] = PASSAGES) -> Path:
    rows = [{"id": p.id, "text": p.text} | ({"title": p.title} if p.title else {}) for p in passages]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def bm25(folder: Path, passages: Sequence[Passage] = PASSAGES) -> Retriever:
    directory = folder / f"index-{len(list(folder.iterdir()))}"
    build_index(write_jsonl(folder / "passages.jsonl", passages), directory)
    return Bm25Retriever(directory)


def memory(_: Path, passages: Sequence[Passage] = PASSAGES) -> Retriever:
    return MemoryRetriever(passages)

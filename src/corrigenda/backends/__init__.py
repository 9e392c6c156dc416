"""The backends: what satisfies the ports, each in a module of its own that is imported only when it is used.

| spec | class | needs |
|---|---|---|
| `openai:MODEL` | `chat_openai.OpenAIChat` | nothing more |
| `local:NAME-OR-FILE` | `chat_local.LocalChat` | the extra `embedded` |
| none (the method `dola` loads it) | `chat_dola.DolaChat` | the extra `dola` |
| `scripted:FILE` (chat) | `chat_scripted.ScriptedChat` | nothing more |
| `chat` or `chat:LLM` | `nli_chat.ChatEntailer` | what its chat model needs |
| `onnx:DIR-OR-ID` | `nli_onnx.OnnxEntailer` | the extra `onnx` |
| `transformers:DIR-OR-ID` | `nli_transformers.TransformersEntailer` | the extra `transformers` |
| `scripted:FILE` (verifier) | `nli_scripted.ScriptedEntailer` | nothing more |
| the folder of an index | `retrieve_bm25.Bm25Retriever` | the extra `retrieval` |
| a small file of passages | `retrieve_memory.MemoryRetriever` | nothing more |

To add one: write its module, add a line to `_TABLE`, and add it to its port's suite in `tests/conformance`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from corrigenda.errors import MissingExtra


class _Backend(NamedTuple):
    module: str
    name: str
    needs: tuple[str, ...] = ()
    extra: str = ""


_TABLE: Mapping[str, _Backend] = {
    "chat openai": _Backend("chat_openai", "OpenAIChat"),
    "chat local": _Backend("chat_local", "LocalChat", ("xllamacpp",), "embedded"),
    "chat dola": _Backend("chat_dola", "DolaChat", ("torch", "transformers"), "dola"),
    "chat scripted": _Backend("chat_scripted", "ScriptedChat"),
    "nli chat": _Backend("nli_chat", "ChatEntailer"),
    "nli onnx": _Backend("nli_onnx", "OnnxEntailer", ("onnxruntime", "tokenizers", "numpy"), "onnx"),
    "nli transformers": _Backend("nli_transformers", "TransformersEntailer", ("torch", "transformers"), "transformers"),
    "nli scripted": _Backend("nli_scripted", "ScriptedEntailer"),
    "retrieve bm25": _Backend("retrieve_bm25", "Bm25Retriever", ("tantivy",), "retrieval"),
    "retrieve memory": _Backend("retrieve_memory", "MemoryRetriever"),
}


def require(backend_name: str) -> None:
    """Raise MissingExtra when a package that this backend needs is not installed. Imports nothing."""
    backend = _TABLE[backend_name]
    for package in backend.needs:
        if find_spec(package) is None:
            raise MissingExtra(f"the backend {backend_name!r}", package, backend.extra)


def load(backend_name: str, /, *arguments: Any, **settings: Any) -> Any:
    """Return a backend by its name in the table above (`chat openai`, `nli onnx`, …).

    Raises MissingExtra, before anything is imported, when a package it needs is not installed; what else it
    raises is up to the backend. `backend_name` must be in the table (KeyError otherwise).
    """
    require(backend_name)
    backend = _TABLE[backend_name]
    module = importlib.import_module(f"corrigenda.backends.{backend.module}")
    return getattr(module, backend.name)(*arguments, **settings)

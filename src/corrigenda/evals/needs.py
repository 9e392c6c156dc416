"""Whether a method can take the items of a data set, and whether the backends are there that a run needs.

All of it is told before anything is loaded, run or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from corrigenda import backends
from corrigenda.backends.retrieve_index import check_files, read_manifest
from corrigenda.errors import InputError
from corrigenda.evals.items import DataSet, Item, Kind
from corrigenda.loading import Loader
from corrigenda.methods.protocol import Method
from corrigenda.settings import Settings

_REMEDIES: Mapping[str, tuple[str, str]] = {
    "question": ("a question", "choose a data set with questions, or leave the method out"),
    "answer": ("an answer that is given", "choose a data set of answers or claims, or leave the method out"),
    "contexts": ("contexts to check against", "choose a data set with contexts or evidence, or leave the method out"),
    "chat": ("a chat model", "name one with --llm"),
    "retriever": ("a retriever", "build an index with `corrigenda index` and name it with --retrieve DIR"),
    "passages": (
        "a retriever, or contexts",
        "build an index with `corrigenda index` and name it with --retrieve DIR, or leave the method out",
    ),
}
"""What each need is called, and what to do when it is not met."""


def skipped_kinds(
    data: DataSet, methods: Mapping[str, Method], *, chat: bool, retriever: bool
) -> dict[str, frozenset[Kind]]:
    """Return, per method, the kinds of items that it cannot take, in a data set that mixes kinds.

    Raises InputError, naming the method, what it needs and the remedy, when it can take none of the items, or not all
    items of a kind that it could take; and when there is no chat model to answer questions with.
    """
    kinds = list(dict.fromkeys(item.kind for item in data.items))
    skipped: dict[str, frozenset[Kind]] = {}
    for name, method in methods.items():
        lacking: dict[Kind, str] = {}
        for kind in kinds:
            items = [item for item in data.items if item.kind == kind]
            for need in _needs(method):
                without = [item for item in items if not _has(item, need, chat=chat, retriever=retriever)]
                if len(without) == len(items):
                    lacking.setdefault(kind, need)
                elif without:
                    raise _refused(name, need, data, without)
        if len(lacking) == len(kinds):
            raise _refused(name, lacking[kinds[0]], data, data.items)
        if lacking:
            skipped[name] = frozenset(lacking)
    return skipped


def _needs(method: Method) -> Iterator[str]:
    yield from method.needs
    if method.traits.retrieval and "retriever" not in method.needs:
        yield "passages"
    yield "someone to answer"


def _has(item: Item, need: str, *, chat: bool, retriever: bool) -> bool:
    there = {
        "question": item.question is not None,
        "answer": item.answer is not None,
        "contexts": item.contexts is not None,
        "chat": chat,
        "retriever": retriever,
        "passages": retriever or bool(item.contexts),
        "someone to answer": chat or item.answer is not None,
    }
    return there[need]


def _refused(name: str, need: str, data: DataSet, without: Sequence[Item]) -> InputError:
    if need == "someone to answer":
        return InputError(
            f"{len(without)} items of {data.name!r} have no answer, and there is no chat model to give one; "
            f"{_REMEDIES['chat'][1]}"
        )
    what, remedy = _REMEDIES[need]
    if need in ("chat", "retriever"):
        return InputError(f"the method {name!r} needs {what}; {remedy}")
    if len(without) == len(data.items):
        return InputError(f"the method {name!r} needs {what}, and no item of {data.name!r} has that; {remedy}")
    return InputError(
        f"the method {name!r} needs {what}, which {len(without)} of {len(data.items)} items of {data.name!r} lack (the "
        f"first: {without[0].id!r}); {remedy}"
    )


def require_backends(settings: Settings, *, chat: bool, judge: bool) -> None:
    """Raise what a run would end with as soon as it loads what the settings name, without loading any of it.

    MissingExtra for a package that is not installed, ConfigError for a small file that is malformed, InputError for
    an index that is none. `chat`: whether the chat model is called; `judge`: whether the judge is.
    """
    Loader(settings)  # reads the policy, the constants and the wording
    if chat:
        _require_chat(settings.llm)
    _require_verifier(settings.nli, settings.llm)
    kind, _, rest = (settings.judge or "nli").partition(":")
    if judge and rest:
        _require_verifier(rest, settings.llm) if kind == "nli" else _require_chat(rest)
    if settings.retrieve is not None:
        place = Path(settings.retrieve)
        if place.suffix.lower() != ".jsonl" or not place.is_file():
            backends.require("retrieve bm25")
            check_files(place, read_manifest(place), whole=False)


def _require_chat(spec: str) -> None:
    kind, _, rest = spec.partition(":")
    if kind == "scripted":
        backends.load("chat scripted", rest)  # which only reads its script
    elif kind != "none":
        backends.require(f"chat {kind}")


def _require_verifier(spec: str, llm: str) -> None:
    kind, _, rest = spec.partition(":")
    if kind == "chat":
        _require_chat(rest or (llm if llm.startswith("local") else "local"))
    elif kind == "scripted":
        backends.load("nli scripted", rest)
    else:
        backends.require(f"nli {kind}")

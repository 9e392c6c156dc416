"""From the `judge` setting to a judge, over the run's own models where the setting names those."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from corrigenda.errors import ConfigError
from corrigenda.evals.judge import Judge, LexicalJudge
from corrigenda.evals.judge_chat import ChatJudge
from corrigenda.evals.judge_nli import NliJudge
from corrigenda.loading import LazyChat, Loader
from corrigenda.methods.protocol import Kit
from corrigenda.ports import ChatModel
from corrigenda.settings import Settings


@asynccontextmanager
async def opened_judge(
    settings: Settings, kit: Kit | None, *, progress: Callable[[int, int, str], None] | None = None
) -> AsyncIterator[Judge]:
    """Load the judge that the settings name, by default the run's verifier, and free what was loaded for it.

    `kit` holds the run's own models; None: there is no run, and whatever is named is loaded. An `openai:` judge uses
    the same server and key as an `openai:` chat model. Raises ConfigError, ModelError or InputError as loading does.
    """
    spec = settings.judge or "nli"
    kind, _, rest = spec.partition(":")
    if kind == "lexical":
        yield LexicalJudge()
        return
    own = settings.nli if kind == "nli" else settings.llm
    if kit is not None and rest in ("", own):
        yield NliJudge(kit.entailer) if kind == "nli" else ChatJudge(_chat(kit.chat, spec))
        return
    shared = None if kit is None or kind != "nli" or not _reads_own_chat(settings, rest) else kit.chat
    loader = Loader(_named(settings, kind, "chat" if shared else rest), chat=shared, progress=progress)
    try:
        tools = await loader.tools(chat=kind == "chat")
        if kind == "nli":
            yield NliJudge(tools.entailer)
        else:
            chat = _chat(tools.chat, spec)
            yield ChatJudge(await chat.load() if isinstance(chat, LazyChat) else chat)
    finally:
        await loader.aclose()


def _named(settings: Settings, kind: str, rest: str) -> Settings:
    """Return the settings with the judge's model in place of the run's own."""
    if not rest:
        return settings
    if kind == "nli":
        calibration = settings.nli_calibration if rest == "chat" or rest.startswith("chat:") else None
        return replace(settings, nli=rest, nli_calibration=calibration, retrieve=None)
    # The verifier is not used: naming one that needs no model of its own keeps the loader from loading another.
    return replace(settings, llm=rest, nli=f"chat:{rest}", nli_calibration=None, retrieve=None)


def _reads_own_chat(settings: Settings, rest: str) -> bool:
    """Return whether a verifier reads the run's chat model, which then need not be loaded twice."""
    return rest == f"chat:{settings.llm}" or (rest == "chat" and settings.llm.startswith("local"))


def _chat(chat: ChatModel | None, spec: str) -> ChatModel:
    if chat is None:
        raise ConfigError(f"judge {spec!r} needs a chat model, but llm is 'none'; name one with --judge chat:LLM")
    return chat

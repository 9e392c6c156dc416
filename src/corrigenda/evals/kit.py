"""From settings to what the methods of a run share, and from there to what one method gets for one item."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

from corrigenda.evals.items import Item
from corrigenda.evals.memo import Memo
from corrigenda.evals.meter import Meter, MeteredEntailer, metered_chat
from corrigenda.loading import LazyChat, Loader, policy_options
from corrigenda.methods.protocol import Kit, Task
from corrigenda.pipeline import Tools
from corrigenda.ports import ChatModel
from corrigenda.prompts import LANGUAGES, Prompts, load
from corrigenda.settings import Settings, is_policy_file
from corrigenda.text import detect_language


@asynccontextmanager
async def opened(
    settings: Settings,
    *,
    chat: bool,
    progress: Callable[[int, int, str], None] | None = None,
) -> AsyncIterator[Kit]:
    """Load the models of a run, and free them at the end. Its chat model and verifier are not metered yet.

    With `chat` the chat model is loaded now, so that no item pays for it; else when a method first calls it.
    Raises ConfigError (MissingExtra among them), ModelError or InputError when something cannot be loaded.
    """
    loader = Loader(settings, progress=progress)
    try:
        tools = await loader.tools(chat=chat)
        model = await tools.chat.load() if chat and isinstance(tools.chat, LazyChat) else tools.chat
        yield make_kit(settings, replace(tools, chat=model))
    finally:
        await loader.aclose()


def make_kit(settings: Settings, tools: Tools) -> Kit:
    """Return the kit of these settings and tools. Its prompts are English where the settings name none."""
    return Kit(
        chat=tools.chat,
        entailer=tools.entailer,
        prompts=tools.prompts or load("en"),
        retriever=tools.retriever,
        language=settings.language,
        seed=settings.seed,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_answer_tokens=settings.max_answer_tokens,
        max_reference_tokens=settings.max_reference_tokens,
        references=settings.references,
        decomposer=settings.decomposer,
        policy_options=policy_options(settings, tools.entailer),
        policy=tools.policy.name,
        fitted=tools.policy if is_policy_file(settings.policy) else None,
    )


def kit_for(kit: Kit, item: Item, *, seed: int | None, meter: Meter, memo: Memo | None, own_prompts: bool) -> Kit:
    """Return the kit that one method gets for one item: metered models, the repeat's seed, the item's language.

    Without `own_prompts` (a wording that the user gave) the prompts are those of the item's language.
    """
    prompts = kit.prompts if own_prompts else prompts_for(item, kit.language)
    return replace(
        kit,
        chat=cast(ChatModel | None, metered_chat(kit.chat, meter, memo)),
        entailer=MeteredEntailer(kit.entailer, meter, memo),
        seed=seed,
        prompts=prompts,
    )


def prompts_for(item: Item, language: str) -> Prompts:
    """Return the wording of `language`, or, for `auto`, of the language that the item is in."""
    found = detect_language(f"{item.question or ''} {item.answer or ''}") if language == "auto" else language
    return load(found if found in LANGUAGES else "en")


def task_of(item: Item, *, correct: bool) -> Task:
    """Return what a method gets to see of an item: everything but the gold labels."""
    return Task(
        question=item.question,
        answer=item.answer,
        contexts=item.contexts,
        whole=item.kind == "claim",
        correct=correct,
    )

"""From settings to the objects that do the work: which backend a spec means, loaded once, on first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from corrigenda import backends, policy_files
from corrigenda.errors import ConfigError
from corrigenda.pipeline import Options, Tools
from corrigenda.policies import Policy, make_policy
from corrigenda.ports import ChatModel, Entailer, LabelScorer, Retriever
from corrigenda.prompts import load_file
from corrigenda.settings import EMBEDDED_MODEL, Choices, Settings, is_policy_file
from corrigenda.stages.decompose import Decomposer
from corrigenda.types import ChatRequest, Completion, Delta, Report

if TYPE_CHECKING:
    from corrigenda.backends.nli_chat_scheme import Calibration

Progress = Callable[[int, int, str], None]
Bounds = tuple[float, float]
"""A verifier's own floor and ceiling for τ."""
NO_CHOICES = Choices()


class Loader:
    """Makes the tools of a report from settings, or takes the caller's own objects in their place."""

    def __init__(
        self,
        settings: Settings,
        *,
        chat: ChatModel | None = None,
        entailer: Entailer | None = None,
        policy: Policy | None = None,
        decomposer: Decomposer | None = None,
        retriever: Retriever | None = None,
        progress: Progress | None = None,
        wrap: Callable[[ChatModel], ChatModel] | None = None,
        many_pairs: bool = False,
    ) -> None:
        """Keep what was given and read the small files that are named; no model is loaded until `tools` is awaited.

        `wrap` gets every chat model that is loaded here, the verifier's too, and returns what stands in its place;
        what it makes of a LabelScorer must be one. With `many_pairs` a verifier that runs here is set up for calls that
        always bring enough work for all cores. Raises ConfigError when one of those files cannot be read or is
        malformed.
        """
        self._settings = settings
        self._progress = progress
        self._wrap = wrap or (lambda model: model)
        self._many_pairs = many_pairs
        self._policy = policy
        self._policy_file = None
        if policy is None and is_policy_file(settings.policy):
            self._policy_file = policy_files.read(settings.policy)
        self._calibrations = None
        if entailer is None and settings.nli_calibration is not None:
            self._calibrations = _calibrations(settings.nli_calibration)
        self._decomposer = decomposer
        self._prompts = None if settings.prompts is None else load_file(settings.prompts)
        self._own: dict[str, ChatModel | Entailer | Retriever] = {}
        self._chats: dict[str, ChatModel] = {}
        self._given_chat = chat
        self._given_entailer = entailer
        self._entailer = entailer
        self._given_retriever = retriever
        self._retriever = retriever
        self._lock = threading.RLock()

    async def tools(self, *, chat: bool, choices: Choices = NO_CHOICES) -> Tools:
        """Return the tools; with `chat`, the chat model is loaded now, else when it is first called.

        Raises ConfigError (MissingExtra among them) or ModelError when something cannot be loaded or the choice of a
        policy is wrong, and InputError when the index to retrieve from cannot be opened.
        """
        if self._retriever is None and self._settings.retrieve is not None:
            await asyncio.to_thread(self._open_retriever, self._settings.retrieve)
        # In a thread, under a lock of threads: loading takes seconds, and callers may be in several event loops.
        entailer, model = self._entailer, self._chat()
        if entailer is None or (chat and isinstance(model, LazyChat) and not model.loaded):
            entailer = await asyncio.to_thread(self._load, model if chat else None)
        return Tools(
            chat=model,
            entailer=entailer,
            policy=self._choose_policy(choices, entailer.name, getattr(entailer, "bounds", None)),
            decomposer=self._decomposer or self._settings.decomposer,
            prompts=self._prompts,
            explain=getattr(entailer, "explain", None),
            retriever=self._retriever,
        )

    def _open_retriever(self, path: str) -> None:
        from corrigenda.retrieval.opening import open_retriever  # noqa: PLC0415  # only where it is used

        with self._lock:
            if self._retriever is None:
                self._retriever = self._own["retriever"] = open_retriever(path)

    def _load(self, model: ChatModel | None) -> Entailer:
        with self._lock:
            if self._entailer is None:
                self._entailer = self._load_entailer()
            if isinstance(model, LazyChat):
                model.load_now()
            return self._entailer

    async def aclose(self) -> None:
        """Close what was loaded here, and nothing that the caller gave."""
        for backend in list(self._own.values()):
            await backend.aclose()
        self._own.clear()
        self._chats.clear()
        self._entailer = self._given_entailer
        self._retriever = self._given_retriever

    def _chat(self) -> ChatModel | None:
        if self._given_chat is not None:
            return self._given_chat
        return None if self._settings.llm == "none" else self._chat_for(self._settings.llm)

    def _chat_for(self, spec: str) -> ChatModel:
        """Return the one chat model of this spec, not loaded yet; the verifier shares it."""
        with self._lock:
            if spec not in self._chats:
                _check_early(spec)
                lazy = LazyChat(spec, lambda: self._wrap(self._load_chat(spec)))
                self._chats[spec] = lazy
                self._own[f"chat {spec}"] = lazy
            return self._chats[spec]

    def _load_chat(self, spec: str) -> ChatModel:
        s = self._settings
        kind, _, rest = spec.partition(":")
        if kind == "none":
            raise ConfigError("a chat model is needed here, but llm is 'none'; name one with --llm")
        if kind == "openai":
            return cast(
                ChatModel,
                backends.load(
                    "chat openai",
                    rest,
                    base_url=s.base_url,
                    api_key=s.api_key,
                    headers=dict(s.headers),
                    timeout_s=s.request_timeout,
                    max_retries=s.retries,
                ),
            )
        if kind == "scripted":
            return cast(ChatModel, backends.load("chat scripted", rest, log_path=s.script_log))
        return self._load_local(rest or EMBEDDED_MODEL)

    def _load_local(self, name: str) -> ChatModel:
        from corrigenda import models  # noqa: PLC0415  # brings an HTTP client, which no other path needs

        s = self._settings
        path = models.resolve(
            name, cache_dir=s.models_dir, hub_url=s.hub_url, hub_token=s.hub_token, progress=self._progress
        )
        return cast(ChatModel, backends.load("chat local", path, name=f"local:{name}"))

    def _load_entailer(self) -> Entailer:
        s = self._settings
        kind, _, rest = s.nli.partition(":")
        if kind == "chat":
            entailer = self._load_chat_entailer(rest)
        elif kind == "scripted":
            entailer = cast(Entailer, backends.load("nli scripted", rest, log_path=s.script_log))
        elif kind == "onnx":
            entailer = cast(Entailer, backends.load("nli onnx", rest, batch_threads=1 if self._many_pairs else None))
        else:
            entailer = cast(Entailer, backends.load("nli transformers", rest or "default"))
        self._own["nli"] = entailer
        if s.numbers == "on" or (s.numbers == "auto" and kind == "chat"):
            from corrigenda.backends.nli_numbers import NumberChecked  # noqa: PLC0415  # only where it is used

            return NumberChecked(entailer)
        return entailer

    def _load_chat_entailer(self, spec: str) -> Entailer:
        chat: Any = self._chat_for(spec) if spec else self._given_chat
        if chat is None:
            llm = self._settings.llm if self._settings.llm.startswith("local") else f"local:{EMBEDDED_MODEL}"
            chat = self._chat_for(llm)
        if isinstance(chat, LazyChat):
            chat = chat.load_now()
        if not isinstance(chat, LabelScorer):
            raise ConfigError(
                f"nli 'chat' needs a chat model that reports log-probabilities; {chat.name!r} does not; "
                "choose another verifier with nli (onnx:…, transformers:…, chat:local:…)"
            )
        calibration = None
        if self._calibrations is not None:
            from corrigenda.backends.nli_chat_scheme import choose  # noqa: PLC0415  # only where it is used

            calibration = choose(self._calibrations, chat.name, str(self._settings.nli_calibration))
        return cast(Entailer, backends.load("nli chat", chat, calibration=calibration))

    def policy_for(self, report: Report, choices: Choices) -> Policy:
        """Return the policy that decides a report anew; nothing is loaded for that.

        The bounds are those of the verifier that the report names, where it is the one here and loaded, else those
        that the report was decided by. Raises ConfigError when the choice is wrong.
        """
        verifier, decision = report.models.get("verifier"), report.decision
        bounds = None
        if self._entailer is not None and self._entailer.name == verifier:
            bounds = getattr(self._entailer, "bounds", None)
        elif decision is not None and decision.floor is not None and decision.ceiling is not None:
            bounds = decision.floor, decision.ceiling
        return self._choose_policy(choices, verifier, bounds)

    def _choose_policy(self, choices: Choices, verifier: str | None, bounds: Bounds | None) -> Policy:
        """Return the policy of the settings, or the one chosen in its place, with the chosen k and threshold."""
        policy, chosen = self._policy or self._make_policy(verifier, bounds), choices.policy
        if isinstance(chosen, str) and chosen != policy.name:
            options = _options(self._settings, bounds)
            if self._settings.policy != chosen:
                options.pop("threshold", None)  # it was set for another policy, and means another thing
            policy = make_policy(chosen, **options)
        elif chosen is not None and not isinstance(chosen, str):
            policy = chosen
        if choices.threshold is not None:
            policy = policy_files.with_threshold(policy, choices.threshold)
        return policy if choices.k is None else policy_files.with_k(policy, choices.k)

    def _make_policy(self, verifier: str | None, bounds: Bounds | None) -> Policy:
        if self._policy_file is not None:
            return policy_files.for_verifier(self._policy_file, verifier)
        return make_policy(self._settings.policy, **_options(self._settings, bounds))


def policy_options(settings: Settings, entailer: Entailer) -> dict[str, float]:
    """Return the options for `policies.make_policy`: the settings', and the verifier's own floor and ceiling.

    Those that are not set are left out. A policy file fixes its own; then these serve the other policies.
    """
    return _options(settings, getattr(entailer, "bounds", None))


def report_options(
    settings: Settings, choices: Choices, on_stage: Callable[[str, bool], None] | None = None
) -> Options:
    """Return the options of one report. Raises ConfigError when one of the choices is out of range."""
    given = {name: getattr(choices, name) for name in ("language", "timeout", "unrepaired")}
    s = replace(settings, **{name: value for name, value in given.items() if value is not None})
    return Options(
        language=s.language,
        timeout=s.timeout,
        references=s.references,
        correct=choices.correct,
        unrepaired=s.unrepaired,  # type: ignore[arg-type]  # Settings has checked that it is one of the three
        temperature=s.temperature,
        top_p=s.top_p,
        max_answer_tokens=s.max_answer_tokens,
        max_reference_tokens=s.max_reference_tokens,
        seed=s.seed,
        retrieve_k=s.retrieve_k,
        on_stage=on_stage,
    )


def _options(settings: Settings, bounds: Bounds | None) -> dict[str, float]:
    floor, ceiling = bounds or (None, None)
    options = {
        "k": settings.k,
        "threshold": settings.threshold,
        "floor": settings.floor if settings.floor is not None else floor,
        "ceiling": settings.ceiling if settings.ceiling is not None else ceiling,
        "alpha": settings.alpha,
    }
    return {name: value for name, value in options.items() if value is not None}


def _calibrations(path: str) -> tuple[Calibration, ...]:
    """Read a calibration file of the chat verifier. Raises ConfigError."""
    from corrigenda.backends.nli_chat_scheme import load_calibration  # noqa: PLC0415  # only where it is used

    return load_calibration(Path(path))


def _check_early(spec: str) -> None:
    """Raise MissingExtra or ModelError for a local model that was asked for and cannot be had, before any work.

    The embedded model, which nobody may have asked for, is left alone until it is needed: checking an answer
    without correcting it must work without it.
    """
    kind, _, rest = spec.partition(":")
    if kind == "local" and rest not in ("", EMBEDDED_MODEL):
        backends.require("chat local")
        if rest.endswith(".gguf"):
            from corrigenda import models  # noqa: PLC0415  # as above

            models.resolve(rest)


class LazyChat:
    """A chat model that is loaded when it is first needed, off the event loop."""

    def __init__(self, spec: str, factory: Callable[[], ChatModel]) -> None:
        """Keep how to load it; `spec` is its name until then."""
        self._spec = spec
        self._factory = factory
        self._model: ChatModel | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The model's name, or the spec while it is not loaded."""
        return self._spec if self._model is None else self._model.name

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._model is not None

    async def load(self) -> ChatModel:
        """Load the model in a thread, once. Raises what the backend raises."""
        model = self._model
        return model if model is not None else await asyncio.to_thread(self.load_now)

    def load_now(self) -> ChatModel:
        """Load the model in the calling thread, once; for callers that are off the event loop already."""
        with self._lock:
            if self._model is None:
                self._model = self._factory()
            return self._model

    async def complete(self, request: ChatRequest) -> Completion:
        """Load if need be, then complete."""
        return await (await self.load()).complete(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        """Load if need be, then stream."""
        model = await self.load()
        # Closing matters: a caller that stops early must not leave the model working.
        async with aclosing(model.stream(request)) as deltas:  # type: ignore[type-var]
            async for delta in deltas:
                yield delta

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        """Load if need be, then score. The loaded model must satisfy LabelScorer (AttributeError otherwise)."""
        return await cast(LabelScorer, await self.load()).label_logprobs(request, labels)

    async def aclose(self) -> None:
        """Close the model if it was loaded."""
        if self._model is not None:
            await self._model.aclose()
            self._model = None

"""Settings: what can be set, of what type and in which range. `corrigenda.config` says where they may be set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from corrigenda.errors import ConfigError
from corrigenda.policies import DEFAULT_ALPHA, DEFAULT_K, POLICIES, Policy, make_policy
from corrigenda.terminal import without_credentials

EMBEDDED_MODEL = "qwen2.5-coder-1.5b-instruct"
DECOMPOSERS = ("auto", "deterministic", "model")
LLM_KINDS = ("local", "openai", "scripted", "none")
UNREPAIRED = ("keep", "hedge", "remove")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything that can be set. Raises ConfigError, naming the value and the remedy, when one is wrong."""

    llm: str = f"local:{EMBEDDED_MODEL}"
    """Chat model: `local:NAME-OR-FILE.gguf`, `openai:MODEL`, `scripted:FILE`, or `none` (check without one)."""
    nli: str = "chat"
    """Verifier: `chat` (the embedded chat model read by log-probabilities; `chat:LLM` for another), `onnx:DIR-OR-ID`
    (`onnx:DIR-OR-ID@int8` for a graph of 8-bit integers), `transformers:DIR-OR-ID`, `scripted:FILE`."""
    nli_calibration: str | None = None
    """A file that `corrigenda calibrate-nli --out` wrote: the constants for `chat`, over the built-in ones."""
    policy: str = "bounded"
    """Decision policy: paper, fixed, bounded or conformal; or a policy file, which fixes its options too: a path
    that ends in `.json`, as `corrigenda calibrate --out` writes it."""
    k: float = DEFAULT_K
    """Sensitivity of τ = µ + kσ; finite, at least 0."""
    threshold: float | None = None
    """Threshold of the policies `fixed` (default 0.7) and `conformal`; from 0 to 1."""
    floor: float | None = None
    """Lower bound of τ under `bounded`; from 0 to 1. Default: the verifier's own, else 0.5."""
    ceiling: float | None = None
    """Upper bound of τ under `bounded`; below 1. Default: the verifier's own, else 0.9."""
    alpha: float = DEFAULT_ALPHA
    """Accepted share of true claims flagged, under `conformal`; between 0 and 1."""
    decomposer: str = "auto"
    """How claims are found: auto, deterministic or model."""
    language: str = "auto"
    """Language of the prompts and of the sentence splitter: auto, en, it, or another ISO 639-1 code."""
    timeout: float | None = None
    """Seconds for a whole report; what could not be checked by then is `unverified`. None: no limit."""
    references: int = 1
    """How many independent references are recalled; from 1 to 20."""
    unrepaired: str = "keep"
    """What happens to a contradicted sentence that no rewrite repairs: keep, hedge or remove."""
    retrieve: str | None = None
    """An index of passages (a folder, as `corrigenda index build` makes it), or a small `.jsonl` file of them, that
    claims are looked up in which the reference leaves in doubt. None: nothing is looked up."""
    retrieve_k: int = 3
    """Passages per claim that is looked up; from 1 to 20."""
    numbers: str = "auto"
    """Deterministic check of numbers, units and dates beside the verifier: on, off, or auto (on for `chat`)."""
    temperature: float = 0.7
    """Sampling temperature of the answer (the paper's 0.7); from 0 to 2."""
    top_p: float = 0.9
    """Nucleus of the answer (the paper's 0.9); above 0, up to 1."""
    max_answer_tokens: int = 256
    """Cap on the answer (the paper's 256)."""
    max_reference_tokens: int = 96
    """Cap on a recalled reference: about twice a typical answer."""
    seed: int | None = None
    """Seed for the models that take one."""
    judge: str | None = None
    """What decides correctness in an evaluation: `nli:VERIFIER`, `chat:LLM`, `nli` or `chat` (the run's own), or
    `lexical`. Default: the run's verifier."""
    base_url: str | None = None
    """Address of an OpenAI-compatible server, for `openai:` models (`http://localhost:11434/v1`)."""
    api_key: str | None = field(default=None, repr=False)
    """Key for that server. Shown nowhere."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Extra HTTP headers for that server. Values are shown nowhere."""
    request_timeout: float = 60.0
    """Seconds for one call to a chat server."""
    retries: int = 2
    """How often a call that failed for a passing reason is tried again; from 0 to 10."""
    script_log: str | None = None
    """A JSONL file to which the `scripted` backends append every request that they get."""
    prompts: str | None = None
    """A TOML file with your own wording, over the built-in one."""
    models_dir: str | None = None
    """Where model files are kept. Default: the user's cache folder."""
    cache_dir: str | None = None
    """Where `corrigenda batch` keeps what was recalled and scored. Default: in the user's cache folder."""
    hub_url: str = "https://huggingface.co"
    """Where models are downloaded from (`HF_ENDPOINT` is honoured too)."""
    hub_token: str | None = field(default=None, repr=False)
    """Token for that hub (`HF_TOKEN` is honoured too). Shown nowhere."""

    def __post_init__(self) -> None:
        """Check every value, so that a mistake is found before anything is loaded or called."""
        for name, kind in KINDS_OF.items():
            _check_type(name, getattr(self, name), kind)
        _check_choice("decomposer", self.decomposer, DECOMPOSERS)
        _check_choice("unrepaired", self.unrepaired, UNREPAIRED)
        _check_choice("numbers", self.numbers, ("auto", "on", "off"))
        _check_range("temperature", self.temperature, 0, 2)
        _check_range("top_p", self.top_p, 1e-6, 1)
        _check_range("references", self.references, 1, 20)
        _check_range("retrieve_k", self.retrieve_k, 1, 20)
        _check_range("max_answer_tokens", self.max_answer_tokens, 1, 100_000)
        _check_range("max_reference_tokens", self.max_reference_tokens, 1, 100_000)
        _check_range("retries", self.retries, 0, 10)
        _check_range("request_timeout", self.request_timeout, 1e-3, 86_400)
        if self.timeout is not None:
            _check_range("timeout", self.timeout, 1e-3, 86_400)
        if self.language != "auto" and not (2 <= len(self.language) <= 3 and self.language.isalpha()):
            raise ConfigError(f"language must be auto or an ISO 639-1 code such as en or it, got {self.language!r}")
        for name, url in (("base_url", self.base_url), ("hub_url", self.hub_url)):
            if url is not None and not url.startswith(("http://", "https://")):
                raise ConfigError(f"{name} must start with http:// or https://, got {without_credentials(url)!r}")
        _check_spec("llm", self.llm, LLM_KINDS)
        _check_spec("nli", self.nli, ("chat", "onnx", "transformers", "scripted"))
        if self.nli.startswith("chat:"):
            _check_spec("nli", self.nli, tuple(f"chat:{kind}" for kind in LLM_KINDS if kind != "none"))
        if self.judge is not None:
            _check_spec("judge", self.judge, ("nli", "chat", "lexical"))
        if self.nli_calibration is not None and self.nli != "chat" and not self.nli.startswith("chat:"):
            raise ConfigError(
                f"nli_calibration is used by the verifier chat, not by {self.nli!r}; leave it out or set nli = chat"
            )
        self._check_policy()

    def _check_policy(self) -> None:
        """Check the policy and its options, but for what stands in a policy file: that is read where it is used."""
        if is_policy_file(self.policy):
            given = {n: getattr(self, n) for n in POLICY_OPTIONS}
            refuse_beside_file(self.policy, [n for n in given if given[n] != _DEFAULTS[n]])
            return
        _check_choice("policy", self.policy, tuple(POLICIES), "or a policy file (a path that ends in .json)")
        # Building the policy checks k, threshold, floor, ceiling and alpha with the policy's own words.
        make_policy(
            self.policy,
            k=self.k,
            threshold=self.threshold,
            floor=self.floor,
            ceiling=self.ceiling,
            alpha=self.alpha,
        )
        if self.threshold is not None and self.policy not in ("fixed", "conformal"):
            raise ConfigError(
                f"threshold is used by the policies fixed and conformal, not by {self.policy!r}; "
                "leave it out or set policy = fixed"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What one report decides for itself, over the settings of the object that makes it; None: as these say.

    The values are checked when the report is made, which raises ConfigError.
    """

    policy: str | Policy | None = None
    """The name of one of the four policies, never a file; or an object that decides."""
    k: float | None = None
    """Sensitivity of τ = µ + kσ; finite, at least 0."""
    threshold: float | None = None
    """Threshold of the policies `fixed` and `conformal`, from 0 to 1; an error under another policy."""
    language: str | None = None
    timeout: float | None = None
    """Seconds for the whole report."""
    unrepaired: str | None = None
    correct: bool = True
    """False: the answer is checked, and nothing is rewritten, hedged or removed."""


POLICY_OPTIONS = ("k", "threshold", "floor", "ceiling", "alpha")
"""The settings that a policy file fixes."""
_DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(Settings)}


def is_policy_file(policy: str) -> bool:
    """Return whether `policy` names a file and not one of the policies."""
    return policy.endswith(".json")


def refuse_beside_file(policy: str, given: Sequence[str]) -> None:
    """Raise ConfigError when options of a policy are given beside a policy file, which fixes them."""
    if given:
        raise ConfigError(
            f"{given[0]} cannot be set beside a policy file: {policy!r} fixes it; leave {given[0]} out, or name a "
            f"policy ({', '.join(sorted(POLICIES))}) in place of the file"
        )


ADDRESSES = {"api_key": "base_url", "headers": "base_url", "hub_token": "hub_url"}
"""Each secret, and the setting that says where it is sent."""
SECRETS = tuple(ADDRESSES)


def _check_choice(name: str, value: str, choices: tuple[str, ...], more: str = "") -> None:
    if value not in choices:
        known = ", ".join([*sorted(choices), *([more] if more else [])])
        raise ConfigError(f"unknown {name} {value!r}; there are {known}")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value!r}")


def _check_spec(name: str, value: str, kinds: tuple[str, ...]) -> None:
    """Check that `value` is one of `kinds`, followed by a colon and something where the kind needs it."""
    kind = next((k for k in kinds if value == k or value.startswith(f"{k}:")), None)
    rest = None if kind is None or value == kind else value[len(kind) + 1 :].strip()
    alone = ("none", "chat", "local", "transformers", "chat:local", "nli", "lexical")
    if (
        kind is None
        or (rest is None and kind not in alone)
        or rest == ""
        or (kind in ("none", "lexical") and rest is not None)
    ):
        forms = ", ".join(k if k in ("none", "lexical") else f"{k}:…" for k in kinds)
        raise ConfigError(f"unknown {name} {value!r}; it must have one of the forms {forms}")


def _check_type(name: str, value: Any, kind: str) -> None:
    """Check that a value has its setting's type. Raises ConfigError, which shows no secret."""
    if value is None and kind.endswith(" | None"):
        return
    kind = kind.removesuffix(" | None")
    right = isinstance(value, TYPES[kind]) and not isinstance(value, bool)
    if right and isinstance(value, Mapping):
        right = all(isinstance(part, str) for pair in value.items() for part in pair)
    if not right:
        raise ConfigError(f"{name} must be {KINDS[kind]}, got {told(name, value)}")


def told(name: str, value: Any) -> str:
    """Return how a wrong value appears in a message."""
    if name in SECRETS:
        return "the value given"
    return repr(without_credentials(value)) if name in ADDRESSES.values() and isinstance(value, str) else repr(value)


KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "Mapping[str, str]": "a table of header names and values",
}
TYPES: Mapping[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "str": (str,),
    "Mapping[str, str]": (Mapping,),
}
KINDS_OF: Mapping[str, str] = {f.name: str(f.type) for f in fields(Settings)}
"""Setting name → its type as it is written above."""

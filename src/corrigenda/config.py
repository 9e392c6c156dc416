"""Settings: what can be set, where it may be set, and which place wins.

This is the only module that reads configuration files and the environment. Order, strongest first:

1. flags of the command line, or arguments of `Corrigenda(...)`
2. environment variables `CORRIGENDA_<NAME>`
3. the file named by `--config` or `CORRIGENDA_CONFIG`; without one, `./corrigenda.toml`, and below it the
   user's own `corrigenda.toml` in the platform's configuration folder
4. the defaults below

Keys are never put into a report, an error or the output of `corrigenda config`.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError
from corrigenda.policies import DEFAULT_ALPHA, DEFAULT_K, POLICIES, make_policy

FILE_NAME = "corrigenda.toml"
EMBEDDED_MODEL = "qwen2.5-coder-1.5b-instruct"
DECOMPOSERS = ("auto", "deterministic", "model")
UNREPAIRED = ("keep", "hedge", "remove")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything that can be set. Raises ConfigError, naming the value and the remedy, when one is wrong."""

    llm: str = f"local:{EMBEDDED_MODEL}"
    """Chat model: `local:NAME-OR-FILE.gguf`, `openai:MODEL`, `scripted:FILE`, or `none` (check without one)."""
    nli: str = "chat"
    """Verifier: `chat` (the embedded chat model read by log-probabilities; `chat:LLM` for another), `onnx:DIR-OR-ID`,
    `transformers:DIR-OR-ID`, `scripted:FILE`."""
    policy: str = "bounded"
    """Decision policy: paper, fixed, bounded or conformal."""
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
    hub_url: str = "https://huggingface.co"
    """Where models are downloaded from (`HF_ENDPOINT` is honoured too)."""
    hub_token: str | None = field(default=None, repr=False)
    """Token for that hub (`HF_TOKEN` is honoured too). Shown nowhere."""

    def __post_init__(self) -> None:
        """Check every value, so that a mistake is found before anything is loaded or called."""
        _check_choice("policy", self.policy, tuple(POLICIES))
        _check_choice("decomposer", self.decomposer, DECOMPOSERS)
        _check_choice("unrepaired", self.unrepaired, UNREPAIRED)
        _check_choice("numbers", self.numbers, ("auto", "on", "off"))
        _check_range("temperature", self.temperature, 0, 2)
        _check_range("top_p", self.top_p, 1e-6, 1)
        _check_range("references", self.references, 1, 20)
        _check_range("max_answer_tokens", self.max_answer_tokens, 1, 100_000)
        _check_range("max_reference_tokens", self.max_reference_tokens, 1, 100_000)
        _check_range("retries", self.retries, 0, 10)
        _check_range("request_timeout", self.request_timeout, 1e-3, 86_400)
        if self.timeout is not None:
            _check_range("timeout", self.timeout, 1e-3, 86_400)
        if self.language != "auto" and not (2 <= len(self.language) <= 3 and self.language.isalpha()):
            raise ConfigError(f"language must be auto or an ISO 639-1 code such as en or it, got {self.language!r}")
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"base_url must start with http:// or https://, got {self.base_url!r}")
        _check_spec("llm", self.llm, ("local", "openai", "scripted", "none"))
        _check_spec("nli", self.nli, ("chat", "onnx", "transformers", "scripted"))
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


SECRETS = ("api_key", "hub_token", "headers")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"unknown {name} {value!r}; there are {', '.join(sorted(choices))}")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value!r}")


def _check_spec(name: str, value: str, kinds: tuple[str, ...]) -> None:
    kind, colon, rest = value.partition(":")
    alone = ("none", "chat", "local", "transformers")
    if kind not in kinds or (not rest and (colon or kind not in alone)):
        forms = ", ".join(k if k == "none" else f"{k}:…" for k in kinds)
        raise ConfigError(f"unknown {name} {value!r}; it must have one of the forms {forms}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sourced:
    """Settings together with where each value came from."""

    settings: Settings
    sources: Mapping[str, str]
    """Setting name → `default`, `flag`, `environment CORRIGENDA_…` or the file's path."""


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    config_file: str | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Sourced:
    """Return the effective settings. Flags that are None count as not given.

    Raises ConfigError when a file cannot be read, is not TOML, or names something unknown, and when a value
    has the wrong type or is out of range; the message names the value and the place.
    """
    env = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    sources = {f.name: "default" for f in fields(Settings)}
    named = config_file or env.get("CORRIGENDA_CONFIG")
    found = [Path(named)] if named else _standard_files(cwd or Path.cwd())
    discovered = set()
    for path in found:
        for name, value in _read_file(path).items():
            values[name] = _converted(name, value, str(path))
            sources[name] = str(path)
            if not named and path.parent == (cwd or Path.cwd()):
                discovered.add(name)
    for name in sources:
        variable = f"CORRIGENDA_{name.upper()}"
        if env.get(variable):
            values[name] = _converted(name, env[variable], f"environment {variable}")
            sources[name] = f"environment {variable}"
            discovered.discard(name)
    for name, value in (flags or {}).items():
        if value is not None:
            values[name] = _converted(name, value, f"flag --{name.replace('_', '-')}")
            sources[name] = "flag"
            discovered.discard(name)
    _add_from_other_variables(values, sources, env, discovered)
    return Sourced(settings=Settings(**values), sources=sources)


def _standard_files(cwd: Path) -> list[Path]:
    """Return the configuration files that are there, weakest first."""
    import platformdirs  # noqa: PLC0415  # only needed here, and the import costs start-up time

    candidates = [Path(platformdirs.user_config_dir("corrigenda")) / FILE_NAME, cwd / FILE_NAME]
    return [path for path in candidates if path.is_file()]


def _add_from_other_variables(
    values: dict[str, Any], sources: dict[str, str], env: Mapping[str, str], discovered: set[str]
) -> None:
    """Honour the variables that users of OpenAI's and the hub's own tools have already set.

    `OPENAI_API_KEY` is not sent to an address that only a `corrigenda.toml` found in the working folder names:
    such a file may have come with somebody else's project.
    """
    pairs = [("HF_ENDPOINT", "hub_url"), ("HF_TOKEN", "hub_token"), ("OPENAI_BASE_URL", "base_url")]
    if "base_url" not in discovered:
        pairs.append(("OPENAI_API_KEY", "api_key"))
    for variable, name in pairs:
        if env.get(variable) and name not in values:
            values[name] = env[variable]
            sources[name] = f"environment {variable}"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise ConfigError(f"configuration file {str(path)!r} cannot be read: {exc.strerror}; check --config") from exc
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"configuration file {str(path)!r} is not valid TOML: {exc}") from exc
    known = {f.name for f in fields(Settings)}
    for name in data:
        if name not in known:
            raise ConfigError(
                f"configuration file {str(path)!r}: unknown setting {name!r}; known are {', '.join(sorted(known))}"
            )
    return data


def _converted(name: str, value: Any, place: str) -> Any:
    """Return `value` as the setting's type. Raises ConfigError that names the value (not a secret) and the place."""
    kind = next(str(f.type) for f in fields(Settings) if f.name == name)
    convert: Callable[[Any], Any] = _CONVERTERS[kind.removesuffix(" | None")]
    try:
        return convert(value)
    except (TypeError, ValueError) as exc:
        shown = "the value given" if name in SECRETS else repr(value)
        raise ConfigError(f"{place}: {name} must be {_KINDS[kind.removesuffix(' | None')]}, got {shown}") from exc


def _to_float(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return float(value)


def _to_int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError("not a whole number")
    return int(value)


def _to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _to_headers(value: Any) -> dict[str, str]:
    """Take a table, or `Name: value` lines separated by new lines."""
    if isinstance(value, str):
        pairs = [line.split(":", 1) for line in value.splitlines() if line.strip()]
        return {name.strip(): content.strip() for name, content in pairs}
    return {_to_str(k): _to_str(v) for k, v in dict(value).items()}


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "float": _to_float,
    "int": _to_int,
    "str": _to_str,
    "Mapping[str, str]": _to_headers,
}
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "Mapping[str, str]": "a table of header names and values",
}


def shown(sourced: Sourced) -> list[tuple[str, Any, str]]:
    """Return (name, value, source) per setting, sorted, secrets replaced by `set` or None."""
    rows = []
    for name in sorted(sourced.sources):
        value = getattr(sourced.settings, name)
        if name in SECRETS:
            value = "(set, not shown)" if value else None
        rows.append((name, value, sourced.sources[name]))
    return rows

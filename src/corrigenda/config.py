"""Settings: what can be set, where it may be set, and which place wins.

This is the only module that reads configuration files and the environment. Order, strongest first:

1. flags of the command line, or arguments of `Corrigenda(...)`
2. environment variables `CORRIGENDA_<NAME>`
3. the file named by `--config` or `CORRIGENDA_CONFIG`; without one, `./corrigenda.toml`, and below it the
   user's own `corrigenda.toml` in the platform's configuration folder
4. the defaults below

A `corrigenda.toml` found in the working folder may have come with somebody else's project. So no key, token or
header from another place is used for an address that only such a file names; see `Sourced.held_back`.

Keys are never put into a report, an error or the output of `corrigenda config`.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError
from corrigenda.policies import DEFAULT_ALPHA, DEFAULT_K, POLICIES, make_policy
from corrigenda.terminal import without_credentials

FILE_NAME = "corrigenda.toml"
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
        for name, kind in _KINDS_OF.items():
            _check_type(name, getattr(self, name), kind)
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
        for name, url in (("base_url", self.base_url), ("hub_url", self.hub_url)):
            if url is not None and not url.startswith(("http://", "https://")):
                raise ConfigError(f"{name} must start with http:// or https://, got {without_credentials(url)!r}")
        _check_spec("llm", self.llm, LLM_KINDS)
        _check_spec("nli", self.nli, ("chat", "onnx", "transformers", "scripted"))
        if self.nli.startswith("chat:"):
            _check_spec("nli", self.nli, tuple(f"chat:{kind}" for kind in LLM_KINDS if kind != "none"))
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


ADDRESSES = {"api_key": "base_url", "headers": "base_url", "hub_token": "hub_url"}
"""Each secret, and the setting that says where it is sent."""
SECRETS = tuple(ADDRESSES)
OTHER_VARIABLES = {
    "HF_ENDPOINT": "hub_url",
    "HF_TOKEN": "hub_token",
    "OPENAI_BASE_URL": "base_url",
    "OPENAI_API_KEY": "api_key",
}
"""Variables that users of OpenAI's and the hub's own tools have already set; weaker than all of our own."""


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"unknown {name} {value!r}; there are {', '.join(sorted(choices))}")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value!r}")


def _check_spec(name: str, value: str, kinds: tuple[str, ...]) -> None:
    """Check that `value` is one of `kinds`, followed by a colon and something where the kind needs it."""
    kind = next((k for k in kinds if value == k or value.startswith(f"{k}:")), None)
    rest = None if kind is None or value == kind else value[len(kind) + 1 :].strip()
    alone = ("none", "chat", "local", "transformers", "chat:local")
    if kind is None or (rest is None and kind not in alone) or rest == "" or (kind == "none" and rest is not None):
        forms = ", ".join(k if k == "none" else f"{k}:…" for k in kinds)
        raise ConfigError(f"unknown {name} {value!r}; it must have one of the forms {forms}")


def _check_type(name: str, value: Any, kind: str) -> None:
    """Check that a value has its setting's type. Raises ConfigError, which shows no secret."""
    if value is None and kind.endswith(" | None"):
        return
    kind = kind.removesuffix(" | None")
    right = isinstance(value, _TYPES[kind]) and not isinstance(value, bool)
    if right and isinstance(value, Mapping):
        right = all(isinstance(part, str) for pair in value.items() for part in pair)
    if not right:
        raise ConfigError(f"{name} must be {_KINDS[kind]}, got {_told(name, value)}")


def _told(name: str, value: Any) -> str:
    """Return how a wrong value appears in a message."""
    if name in SECRETS:
        return "the value given"
    return repr(without_credentials(value)) if name in ADDRESSES.values() and isinstance(value, str) else repr(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sourced:
    """Settings together with where each value came from."""

    settings: Settings
    sources: Mapping[str, str]
    """Setting name → `default`, `flag`, `environment CORRIGENDA_…` or the file's path."""
    held_back: Mapping[str, str] = field(default_factory=dict)
    """Secret's name → why it is not used: its address is named only by a file found in the working folder."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told."""
        return tuple(self.held_back.values())


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
    # Each setting's values, weakest first, with where they come from.
    found: dict[str, list[tuple[str, Any]]] = {f.name: [] for f in fields(Settings)}
    for variable, name in OTHER_VARIABLES.items():
        if env.get(variable):
            found[name].append((f"environment {variable}", env[variable]))
    named = config_file or env.get("CORRIGENDA_CONFIG")
    own, project = (Path(named), None) if named else _standard_files(cwd or Path.cwd())
    for path in (own, project):
        for name, value in ({} if path is None else _read_file(path)).items():
            found[name].append((str(path), value))
    for name, given in found.items():
        variable = f"CORRIGENDA_{name.upper()}"
        if env.get(variable):
            given.append((f"environment {variable}", env[variable]))
    for name, value in (flags or {}).items():
        found[_known(name)] += [] if value is None else [("flag", value)]
    sources = {name: given[-1][0] if given else "default" for name, given in found.items()}
    held_back = _hold_back(found, project)
    sources |= {name: given[-1][0] for name, given in found.items() if given}
    values = {name: [_converted(name, v, _place(name, place)) for place, v in given] for name, given in found.items()}
    settings = _settings({name: given[-1] for name, given in values.items() if given}, sources)
    return Sourced(settings=settings, sources=sources, held_back=held_back)


def override(settings: Settings, **values: Any) -> Settings:
    """Return `settings` with some values replaced, converted as flags are. None: not given. Raises as `load` does."""
    given = {_known(name): value for name, value in values.items()}
    return replace(settings, **{n: _converted(n, value, "argument") for n, value in given.items() if value is not None})


def _known(name: str) -> str:
    """Return `name`. Raises ConfigError, listing those there are, when it is no setting."""
    known = sorted(f.name for f in fields(Settings))
    if name not in known:
        raise ConfigError(f"unknown setting {name!r}; known are {', '.join(known)}")
    return name


def _standard_files(cwd: Path) -> tuple[Path | None, Path | None]:
    """Return the user's own configuration file and the one found in the working folder, where they are."""
    import platformdirs  # noqa: PLC0415  # only needed here, and the import costs start-up time

    own, project = Path(platformdirs.user_config_dir("corrigenda")) / FILE_NAME, cwd / FILE_NAME
    if own.is_file() and project.is_file() and own.samefile(project):
        return own, None
    return own if own.is_file() else None, project if project.is_file() else None


def _hold_back(found: dict[str, list[tuple[str, Any]]], project: Path | None) -> dict[str, str]:
    """Take the secrets out of `found` that would go to an address that only the project's file names.

    Returns, per secret, why it is not used. A secret that stands in that same file stays. Raises ConfigError
    where the project's file names a file to write to.
    """
    if project is None:
        return {}
    held: dict[str, str] = {}
    place = str(project)
    for secret, address in ADDRESSES.items():
        values = found[secret]
        if not values or not found[address] or found[address][-1][0] != place or values[-1][0] == place:
            continue
        remedy = "pass --base-url URL" if address == "base_url" else "set CORRIGENDA_HUB_URL"
        held[secret] = (
            f"{secret} ({values[-1][0]}) is held back: {address} comes from {place!r}, which was found in the working "
            f"folder and may be somebody else's; to send it there all the same, {remedy}, or --config {place}"
        )
        found[secret] = [value for value in values if value[0] == place]
    if found["script_log"] and found["script_log"][-1][0] == place:
        raise ConfigError(
            f"{place}: script_log is not taken from a file found in the working folder, since it names a file to "
            f"write to; pass --script-log FILE, or --config {place}"
        )
    return held


def _place(name: str, source: str) -> str:
    return f"flag --{name.replace('_', '-')}" if source == "flag" else source


def _settings(values: Mapping[str, Any], sources: Mapping[str, str]) -> Settings:
    """Return the settings. Raises ConfigError that says where the wrong value stands."""
    try:
        return Settings(**values)
    except ConfigError as exc:
        named = re.search(rf"\b({'|'.join(sources)})\b", str(exc))  # every message begins with the setting's name
        if named is None or sources[named[1]] == "default":
            raise
        raise ConfigError(f"{_place(named[1], sources[named[1]])}: {exc}") from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise ConfigError(
            f"configuration file {str(path)!r} cannot be read: {exc.strerror}; check the path (--config)"
        ) from exc
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"configuration file {str(path)!r} is not valid TOML: {exc}") from exc
    try:
        return {_known(name): value for name, value in data.items()}
    except ConfigError as exc:
        raise ConfigError(f"configuration file {str(path)!r}: {exc}") from None


def _converted(name: str, value: Any, place: str) -> Any:
    """Return `value` as the setting's type. Raises ConfigError that names the value (not a secret) and the place."""
    kind = _KINDS_OF[name].removesuffix(" | None")
    try:
        return _CONVERTERS[kind](value)
    except (TypeError, ValueError, OverflowError):
        # The cause would show a secret that the message does not.
        raise ConfigError(f"{place}: {name} must be {_KINDS[kind]}, got {_told(name, value)}") from None


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
_TYPES: Mapping[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "str": (str,),
    "Mapping[str, str]": (Mapping,),
}
_KINDS_OF: Mapping[str, str] = {f.name: str(f.type) for f in fields(Settings)}
"""Setting name → its type as it is written above."""


def shown(sourced: Sourced) -> list[tuple[str, Any, str]]:
    """Return (name, value, source) per setting, sorted, without any secret."""
    rows = []
    for name in sorted(sourced.sources):
        value = getattr(sourced.settings, name)
        if name in SECRETS:
            unset = "(held back, not used)" if name in sourced.held_back else None
            value = "(set, not shown)" if value else unset
        elif name in ADDRESSES.values() and value is not None:
            value = without_credentials(value)
        rows.append((name, value, sourced.sources[name]))
    return rows

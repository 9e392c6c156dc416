"""`corrigenda index`: parse, call, print."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from corrigenda.backends.retrieve_index import Manifest, check_files, read_manifest
from corrigenda.files import tell, write, write_json
from corrigenda.retrieval.build import Progress, build_index, describe
from corrigenda.retrieval.opening import open_retriever
from corrigenda.retrieval.passages import WORDS
from corrigenda.retrieval.source import KINDS
from corrigenda.terminal import one_line, safe
from corrigenda.types import Passage

_SHOWN = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return 0. Raises CorrigendaError."""
    arguments = _parser().parse_args(argv)
    if arguments.action == "build":
        return _build(arguments)
    return _info(arguments) if arguments.action == "info" else _search(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="corrigenda index", description="Build, describe or search an index of passages, for --retrieve."
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    build = actions.add_parser("build", help="make an index of a collection of texts")
    build.add_argument(
        "source", metavar="SOURCE", type=Path, help="a .jsonl file, or a folder of texts or of such files"
    )
    build.add_argument("directory", metavar="DIR", type=Path, help="folder of the index")
    build.add_argument("--kind", choices=KINDS, help="how the source is read (default: told by its files' names)")
    build.add_argument(
        "--words", metavar="N", type=int, default=WORDS, help="about how long passages are (default: 100)"
    )
    build.add_argument("--language", metavar="CODE", default="en", help="language of the sentences (default: en)")
    build.add_argument("--replace", action="store_true", help="replace an index that is there already")

    info = actions.add_parser("info", help="what an index holds")
    info.add_argument("directory", metavar="DIR", type=Path, help="folder of the index")
    info.add_argument("--verify", action="store_true", help="compare every file with its checksum, whatever the size")
    info.add_argument("--json", action="store_true", help="print the manifest, as JSON")

    search = actions.add_parser("search", help="find passages")
    search.add_argument("directory", metavar="DIR", type=Path, help="folder of the index, or a small .jsonl file")
    search.add_argument("query", metavar="QUERY")
    search.add_argument("-k", metavar="N", type=int, default=5, help="passages at most (default: 5)")
    search.add_argument("--json", action="store_true", help="print the whole passages, as JSON")
    return parser


def _build(arguments: argparse.Namespace) -> int:
    manifest = build_index(
        arguments.source,
        arguments.directory,
        kind=arguments.kind,
        words=arguments.words,
        language=arguments.language,
        replace=arguments.replace,
        progress=_Line().show,
    )
    _print(arguments.directory, manifest)
    return 0


def _info(arguments: argparse.Namespace) -> int:
    manifest = read_manifest(arguments.directory)
    whole = check_files(arguments.directory, manifest, whole=True if arguments.verify else None)
    if arguments.json:
        write_json(json.dumps(asdict(manifest), ensure_ascii=False, indent=2))
        return 0
    _print(arguments.directory, manifest)
    write(f"checked   {'every checksum' if whole else 'the sizes of the files; --verify compares the checksums'}")
    return 0


def _print(directory: Path, manifest: Manifest) -> None:
    lines = [f"index     {directory}", *describe(manifest)]
    write("\n".join(one_line(line) for line in lines))


def _search(arguments: argparse.Namespace) -> int:
    found = asyncio.run(_found(arguments.directory, arguments.query, arguments.k))
    if arguments.json:
        write_json(json.dumps([asdict(passage) for passage in found], ensure_ascii=False, indent=2))
    elif not found:
        tell("no passage holds a word of the query")
    else:
        write("\n\n".join(_shown(number, passage) for number, passage in enumerate(found, start=1)))
    return 0


async def _found(path: Path, query: str, k: int) -> list[Passage]:
    retriever = open_retriever(path)
    try:
        return (await retriever.search([query], k))[0]
    finally:
        await retriever.aclose()


def _shown(number: int, passage: Passage) -> str:
    text = " ".join(passage.text.split())
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    head = one_line(f"{number}. {passage.title or ''} [{passage.id}] {passage.score:.3f}")
    return f"{head}\n{safe(text)}"


class _Line:
    """Shows how far an index has come, on standard error: a line that is written over at a terminal, else by tenths."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._tenth = -1
        self._told = 0.0

    def show(self, now: Progress) -> None:
        left = "" if now.left_s is None or now.share >= 1 else f", {_time(now.left_s)} left"
        text = f"{now.passages:,} passages, {now.share:.0%} of {now.total / 1e6:,.1f} MB, {now.rate:,.0f}/s{left}"
        if self._live:
            print(f"\r\x1b[K{text}", end="\n" if now.share >= 1 else "", file=sys.stderr, flush=True)
        elif int(now.share * 10) != self._tenth or time.monotonic() - self._told > 60:
            self._tenth, self._told = int(now.share * 10), time.monotonic()
            tell(text)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

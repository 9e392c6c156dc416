"""`corrigenda cache`: what batch has kept on disk, and its removal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from corrigenda import cache
from corrigenda.files import write, write_json
from corrigenda.flags import add_settings, effective_settings
from corrigenda.terminal import one_line

_NAMES = {"recall": "recalled references", "entail": "scored pairs"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return 0. Raises CorrigendaError."""
    arguments = _parser().parse_args(argv)
    folder = effective_settings(arguments).cache_dir
    place = cache.default_folder() if folder is None else Path(folder).expanduser()
    found = cache.clear(place) if arguments.action == "clear" else cache.info(place)
    if arguments.json:
        content = {"folder": str(place), "cleared": arguments.action == "clear", "kinds": [asdict(k) for k in found]}
        write_json(json.dumps(content, indent=2))
        return 0
    write(one_line(f"{'cleared' if arguments.action == 'clear' else 'cache'}: {place}"))
    for kind in found:
        what = f"{kind.entries:,} entries, {_size(kind.bytes)}" if kind.problem is None else f"unusable: {kind.problem}"
        write(f"  {_NAMES[kind.kind]:<20} {one_line(what)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="corrigenda cache",
        description="Show or clear what `corrigenda batch` has kept on disk: recalled references and scored pairs.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (("info", "where it is, and how much"), ("clear", "remove all of it; say what it was")):
        action = actions.add_parser(name, help=text)
        action.add_argument("--json", action="store_true", help="as JSON")
        add_settings(action, ("cache-dir",))
    return parser


def _size(count: int) -> str:
    """Return bytes as a person reads them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"

"""The flags that say which items of which data set are meant, for every command that takes them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corrigenda.errors import ConfigError
from corrigenda.evals import planning
from corrigenda.evals.datasets import SPLITS, load
from corrigenda.evals.datasets.draws import draw
from corrigenda.evals.items import DataSet, Item, Kind
from corrigenda.evals.printing import follow
from corrigenda.files import tell
from corrigenda.progress import Progress
from corrigenda.settings import Settings

MINI_LIMIT: Mapping[Kind, int] = {"question": 8, "answer": 8, "claim": 12}
"""Items of `mini` that are taken when nobody says, by kind: all of them take the embedded models far longer than
one waits for a first look."""


def add_data_flags(target: argparse.ArgumentParser) -> None:
    """Add the flags that say which items of a data set are meant."""
    add = target.add_argument_group("data").add_argument
    add("--data", metavar="FILE", type=Path, help="the data set's file; docs/datasets.md says which form")
    add("--wiki", metavar="DIR", type=Path, help="folder with the pages that FEVER's evidence is from")
    add("--task", metavar="TASK", help="what the items are to be, where a data set offers a choice")
    add("--split", choices=SPLITS, help="a part of the data set, drawn with the seed (default: all)")
    limit = "that many items, drawn with the seed; 0 or all: all of them (default: all, but of mini a few of each kind)"
    add("--limit", metavar="N", help=limit)
    add("--detokenise", choices=("auto", "on", "off"), default="auto", help="undo FEVER's tokenisation")


def load_data(
    arguments: argparse.Namespace,
    settings: Settings,
    *,
    usable: Callable[[Sequence[Item]], Sequence[Item]] | None = None,
) -> tuple[DataSet, int | None]:
    """Return the data set that the flags name, and how many items it was limited to. Raises InputError.

    Only the items that `usable` returns are drawn from. What was left out, and what a reader of results must know
    about the data, is told on standard error.
    """
    limit = _limit(arguments.limit)
    seed = planning.DEFAULT_SEED if settings.seed is None else settings.seed
    with Progress() as progress:
        data = load(
            arguments.dataset,
            path=arguments.data,
            wiki=arguments.wiki,
            task=arguments.task,
            split=arguments.split,
            limit=limit if usable is None else None,
            seed=seed,
            language="en" if settings.language == "auto" else settings.language,
            detokenise=arguments.detokenise,
            progress=follow(progress),
        )
    if usable is not None:
        data = draw(_only(data, usable(data.items)), limit, seed)
    if arguments.dataset == "mini" and arguments.limit is None:
        data = _few_of_each(data, seed)
        limit = len(data.items)
    data = replace(data, counts={**data.counts, "items": len(data.items)})
    for note in data.notes:
        tell(f"{data.name}: {note}")
    dropped = {k: n for k, n in data.counts.items() if n and k in ("duplicate", "incomplete")}
    if dropped:
        tell(f"{data.name}: left out {', '.join(f'{n} {k}' for k, n in dropped.items())} of {data.counts['rows']} rows")
    return data, limit


def _only(data: DataSet, items: Sequence[Item]) -> DataSet:
    """Return the data set with these of its items alone, and a note where they are not all."""
    if len(items) == len(data.items):
        return data
    note = f"{len(items)} of {len(data.items)} items can be used"
    return replace(data, items=tuple(items), notes=(*data.notes, note))


def _few_of_each(data: DataSet, seed: int) -> DataSet:
    """Return a few items of each kind, drawn with the seed, in their own order."""
    kept: set[str] = set()
    told = []
    for kind, few in MINI_LIMIT.items():
        own = tuple(item for item in data.items if item.kind == kind)
        if own:
            drawn = draw(replace(data, items=own), few, seed).items
            kept |= {item.id for item in drawn}
            told.append(f"{len(drawn)} of {len(own)} items of the kind {kind}")
    note = f"{', '.join(told)}, drawn with seed {seed}; --limit N takes N items, --limit all takes all"
    items = tuple(item for item in data.items if item.id in kept)
    return replace(data, items=items, notes=(*data.notes, note))


def _limit(text: str | None) -> int | None:
    if text in (None, "0", "all"):
        return None
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(f"--limit must be a whole number, or all, got {text!r}")
    return int(text)

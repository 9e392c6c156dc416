"""`manifest.json`: what the records of a folder are of, and whether a run may go on there.

A run goes on only as what it was. It may grow: by methods, repeats and items, which leave what is there as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from corrigenda.errors import InputError
from corrigenda.evals.fingerprints import UNKNOWN, of_item
from corrigenda.evals.items import Item
from corrigenda.evals.records import Record

MANIFEST = "manifest.json"
GROWING = ("methods", "repeats", "limit", "items", "concurrency", "data")
"""Entries in which a run may grow, or that only say where its data are from: what they are is in the items."""
SHOWN = 200
"""How much of a value a message shows."""


def read(file: Path) -> Mapping[str, Any]:
    """Return what a manifest says; empty where there is none. Raises InputError when it cannot be read."""
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        raise InputError(f"the manifest {str(file)!r} cannot be read: {exc}; choose another --out folder") from exc
    if not isinstance(data, dict):
        raise InputError(f"the manifest {str(file)!r} holds no JSON object; choose another --out folder")
    return data


def is_of_a_run(manifest: Mapping[str, Any]) -> bool:
    """Return whether it is a run's: other programs keep a `manifest.json` too, an index of this one among them."""
    kinds = {"schema": str, "corrigenda": str, "dataset": dict, "methods": dict}
    return all(isinstance(manifest.get(name), kind) for name, kind in kinds.items())


def require_same(folder: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise InputError, naming the entry, unless the run in `folder`, whose manifest is `there`, is that of `here`."""
    differing = differences(there, json.loads(json.dumps(here)))
    if differing:
        first, *others = differing
        more = f" (and {', '.join(others[:5])}{', …' if len(others) > 5 else ''})" if others else ""
        raise InputError(
            f"{str(folder)!r} holds another run: {told(first, there, here)}{more}; give another --out, or --force to "
            "set it aside"
        )


def require_same_items(folder: Path, records: Iterable[Record], items: Iterable[Item], sources: str) -> None:
    """Raise InputError, naming the item, when one's checksum is not that in its records. `sources`: see there."""
    recorded: dict[str, set[str | None]] = {}
    for record in records:
        recorded.setdefault(record.item, set()).add(record.item_sha256)
    for item in items:
        if item.id in recorded and recorded[item.id] != {of_item(item)}:
            raise InputError(
                f"{str(folder)!r} holds another run: the item {item.id!r} has another text, evidence or label here "
                f"than there{sources}; give another --out, or --force to set it aside"
            )


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return the entries of which one run has another value than the other, in order, as paths (`settings.floor`).

    Those in which a run grows are no difference; of the methods, those that both have are compared.
    """
    both = {name for name in there.get("methods", {}) if name in here.get("methods", {})}

    def compared(manifest: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
        kept = {name: value for name, value in manifest.items() if name not in GROWING}
        kept["methods"] = {name: value for name, value in manifest.get("methods", {}).items() if name in both}
        return dict(_leaves(kept))

    first, second = compared(there), compared(here)
    paths = [*second, *(path for path in first if path not in second)]
    return [
        ".".join(path)
        for path in paths
        if first.get(path) != second.get(path) and not (first.get(path) == UNKNOWN and path in second)
    ]


def told(name: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return how a message names an entry and its two values: `seed: 7 there, 8 here`."""
    return f"{name}: {_shown(there, name)} there, {_shown(here, name)} here"


def sources(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return, for a message, in what the places and ways differ that two runs have their data from; or nothing."""
    first, second = ({"data": manifest.get("data", {})} for manifest in (there, here))
    paths = dict.fromkeys([*dict(_leaves(second)), *dict(_leaves(first))])
    names = [".".join(path) for path in paths if path[1:2] in [("file",), ("wiki",), ("detokenise",)]]
    differing = [told(name, first, second) for name in names if _shown(first, name) != _shown(second, name)]
    return f" ({'; '.join(differing)})" if differing else ""


def grown(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of the run in `there` that goes on as `here`: each entry as it is when both are together."""
    if not there:
        return dict(here)
    limits = [manifest.get("limit") for manifest in (there, here)]
    items = [manifest.get("items", 0) for manifest in (there, here)]
    return {
        **here,
        "methods": {**there.get("methods", {}), **here.get("methods", {})},
        "repeats": max(there.get("repeats", 1), here.get("repeats", 1)),
        "limit": None if None in limits else max(n for n in limits if n is not None),
        "items": max(items),
        "concurrency": sorted({*there.get("concurrency", ()), *here.get("concurrency", ())}),
        "data": here.get("data", {}) if items[1] >= items[0] else there.get("data", {}),
    }


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what stands at the ends of nested objects, each with its path; nothing for an empty one."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    else:
        yield path, value


def _shown(manifest: Mapping[str, Any], name: str) -> str:
    """Return the value of an entry as JSON, `null` where there is none."""
    found = {".".join(path): value for path, value in _leaves(manifest)}
    text = json.dumps(found.get(name), ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"

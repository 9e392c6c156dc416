"""Whether a run may go on in a folder: what differs is named, and what may grow grows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.eval_records import outcome, record

from corrigenda.errors import InputError
from corrigenda.evals.fingerprints import UNKNOWN, of_item
from corrigenda.evals.items import Item
from corrigenda.evals.manifest import differences, grown, require_same, require_same_items, sources
from corrigenda.evals.store import opened, read

THERE: dict[str, Any] = {
    "schema": "1.0",
    "corrigenda": "0.1",
    "seed": 7,
    "settings": {"k": 0.7, "floor": None},
    "files": {"chat": "a", "verifier": UNKNOWN},
    "dataset": {"name": "d"},
    "methods": {"m": {"n": 5}, "other": {"n": 1}},
    "limit": 5,
    "items": 5,
    "repeats": 1,
    "concurrency": [1],
    "data": {"file": "d.jsonl", "detokenise": "on", "notes": ["five"]},
}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, []),
        ({"seed": 8}, ["seed"]),
        ({"settings": {"k": 0.5, "floor": 0.6}}, ["settings.k", "settings.floor"]),
        ({"settings": {"k": 0.7}}, []),
        ({"settings": {}}, ["settings.k"]),
        ({"files": {"chat": "b", "verifier": "c", "judge": "d"}}, ["files.chat", "files.judge"]),
        ({"files": {"chat": "a", "verifier": UNKNOWN}}, []),
        ({"files": {"chat": UNKNOWN, "verifier": "c"}}, ["files.chat"]),
        ({"methods": {"m": {"n": 6}, "new": {"n": 2}}}, ["methods.m.n"]),
        ({"methods": {}}, []),
        ({"limit": None, "items": 9, "repeats": 2, "concurrency": [4], "data": {}}, []),
    ],
)
def test_what_differs_is_named_and_what_grows_does_not_differ(change: dict[str, Any], names: list[str]) -> None:
    assert differences(THERE, {**THERE, **change}) == names


def test_the_message_names_the_entry_and_both_values() -> None:
    here = {**THERE, "settings": {"k": 0.7, "floor": 0.6}}
    with pytest.raises(
        InputError, match=r"^'run' holds another run: settings\.floor: null there, 0\.6 here; give anot"
    ):
        require_same(Path("run"), THERE, here)
    many = {**THERE, "settings": {name: 1 for name in "abcdefgh"}}
    with pytest.raises(
        InputError, match=r": settings\.a: null there, 1 here \(and settings\.b, .*settings\.f, …\); giv"
    ):
        require_same(Path("run"), THERE, many)


def test_a_run_that_grows_is_described_as_both_together() -> None:
    here = {
        **THERE,
        "methods": {"new": {}},
        "files": {"chat": "a", "verifier": "c"},
        "limit": None,
        "items": 9,
        "repeats": 2,
        "concurrency": [4, 1],
        "data": {"notes": ["nine"]},
    }
    both = {**here, "methods": {**THERE["methods"], "new": {}}, "concurrency": [1, 4]}
    assert grown(THERE, here) == both
    assert grown(here, THERE)["data"] == {"notes": ["nine"]}
    assert {**grown(here, THERE), "files": None, "methods": None} == {**both, "files": None, "methods": None}
    assert grown({}, here) == here


ITEM = Item(id="a", kind="claim", answer="A claim.", group="a")


def test_an_item_that_was_recorded_with_another_content_is_another_run() -> None:
    kept = [replace(record("a", made=outcome()), item_sha256=of_item(ITEM))]
    require_same_items(Path("run"), kept, [ITEM, replace(ITEM, id="new")], "")
    there = sources(THERE, {"data": {"file": "d.jsonl", "detokenise": "off", "notes": []}})
    assert there == ' (data.detokenise: "on" there, "off" here)'
    message = (
        r"^'run' holds another run: the item 'a' has another text, evidence or label here than there "
        r"\(data\.detokenise: \"on\" there, \"off\" here\); give another --out, or --force to set it aside$"
    )
    with pytest.raises(InputError, match=message):
        require_same_items(Path("run"), kept, [replace(ITEM, answer="Another.")], there)
    with pytest.raises(InputError, match=r"here than there; give another"):
        require_same_items(Path("run"), [*kept, record("a", "n")], [ITEM], "")


def test_a_folder_without_records_is_of_no_run_yet(tmp_path: Path) -> None:
    with opened(tmp_path, THERE):
        pass
    here = {**THERE, "seed": 8, "methods": {"new": {}}}
    with opened(tmp_path, here) as store:
        store.append(record("a"))
    assert read(tmp_path).manifest == here


def test_records_move_to_the_larger_group_that_more_items_make(tmp_path: Path) -> None:
    items = [replace(ITEM, id=name, group=name) for name in "ab"]
    with opened(tmp_path, THERE, items=items) as store:
        for item in items:
            store.append(replace(record(item.id), item_sha256=of_item(item), group=item.group))
    linked = [replace(ITEM, id=name, group="a") for name in "abc"]
    for drawn in (linked, items[:1]):
        with opened(tmp_path, THERE, items=drawn) as store:
            assert [(r.item, r.group) for r in store.records] == [("a", "a"), ("b", "a")]
    assert [(r.item, r.group) for r in read(tmp_path).records] == [("a", "a"), ("b", "a")]

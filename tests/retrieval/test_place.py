"""Only an index is ever replaced, and what a killed build leaves is cleared away by the next one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.passages import PASSAGES, write_jsonl

from corrigenda.backends.retrieve_index import read_manifest
from corrigenda.errors import InputError
from corrigenda.retrieval import place
from corrigenda.retrieval.build import build_index


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "p.jsonl", PASSAGES[:2])


@pytest.fixture
def index(tmp_path: Path, source: Path) -> Path:
    """An index of two passages, of a collection that then shrinks to one."""
    build_index(source, tmp_path / "index")
    write_jsonl(source, PASSAGES[:1])
    return tmp_path / "index"


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# What is no index -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifest",
    [
        {"dataset": {"name": "mini"}, "methods": {}},
        {"manifest_version": 3, "name": "a browser extension"},
        {"format": "another-index"},
        {},
        [],
        "corrigenda-index",
    ],
)
def test_a_manifest_of_something_else_makes_no_index(tmp_path: Path, source: Path, manifest: Any) -> None:
    mine = tmp_path / "mine"
    (mine / "tantivy").mkdir(parents=True)
    (mine / "manifest.json").write_text(json.dumps(manifest))
    (mine / "records.jsonl").write_text("{}")
    before = content(tmp_path)
    message = (
        r"mine' exists and is no index of corrigenda \(it holds 'manifest.json', 'records.jsonl', 'tantivy'\); it is"
    )
    for replace in (True, False):
        with pytest.raises(InputError, match=message):
            build_index(source, mine, replace=replace)
    assert content(tmp_path) == before


def test_a_manifest_alone_that_cannot_be_read_is_not_known_to_be_of_an_index(tmp_path: Path, source: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.json").write_text('{"name": "an extension", // with a comment\n}')
    with pytest.raises(InputError, match=r"exists and is no index of corrigenda \(it holds 'manifest\.json'\)"):
        build_index(source, tmp_path / "mine", replace=True)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("name", ["notes.txt", "tantivy/notes.txt", "sub/notes.txt", "tantivy/sub/notes.txt"])
def test_an_index_is_not_replaced_with_what_somebody_put_into_its_folder(
    source: Path, index: Path, name: str, damaged: bool
) -> None:
    if damaged:
        (index / "manifest.json").write_bytes(b"{")
    (index / name).parent.mkdir(exist_ok=True)
    (index / name).write_text("mine")
    before = content(index)
    shown = name.removesuffix("/notes.txt") if "sub" in name else name
    with pytest.raises(
        InputError, match=rf"is not replaced: it holds what is no part of an index .*\('{shown}'\); move"
    ):
        build_index(source, index, replace=True)
    assert content(index) == before


def test_of_many_strange_entries_the_first_are_named(source: Path, index: Path) -> None:
    for number in range(7):
        (index / f"{number}.txt").write_text("")
    with pytest.raises(InputError, match=r"\('0.txt', '1.txt', '2.txt', '3.txt', '4.txt' and 2 more\); move that away"):
        build_index(source, index, replace=True)


def test_links_inside_an_index_are_no_part_of_it(tmp_path: Path, source: Path, index: Path) -> None:
    (index / "tantivy").rename(tmp_path / "elsewhere")
    (index / "tantivy").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"no part of an index of corrigenda \('tantivy'\)"):
        build_index(source, index, replace=True)
    assert (tmp_path / "elsewhere" / "meta.json").is_file()


# What is one ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"format": "corrigenda-index"}',
        b'{"format": "corrigenda-index", "files": 3}',
    ],
)
def test_a_damaged_index_can_be_replaced(source: Path, index: Path, manifest: bytes) -> None:
    (index / "manifest.json").write_bytes(manifest)
    with pytest.raises(InputError, match=r"there is an index in '.*index' already; .* --replace"):
        build_index(source, index)
    build_index(source, index, replace=True)
    assert read_manifest(index).passages == 1


def test_an_index_that_lost_files_or_is_of_another_version_can_be_replaced(source: Path, index: Path) -> None:
    data = json.loads((index / "manifest.json").read_text("utf-8"))
    (index / "tantivy" / "segment-of-the-future").write_text("")
    data |= {"version": 99, "files": [{"name": "tantivy/segment-of-the-future"}, {"name": []}, 5]}
    (index / "manifest.json").write_text(json.dumps(data))
    (index / "tantivy" / "meta.json").unlink()
    build_index(source, index, replace=True)
    assert read_manifest(index).passages == 1


# Links ----------------------------------------------------------------------------------------------------------------


def test_of_a_link_what_it_points_at_is_replaced(tmp_path: Path, source: Path, index: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "current"
    link.symlink_to(index)
    build_index(source, link, replace=True)
    assert link.readlink() == index
    assert read_manifest(index).passages == 1
    assert (names(tmp_path), names(tmp_path / "links")) == (["index", "links", "p.jsonl"], ["current"])


def test_a_link_to_nothing_yet_stays_one(tmp_path: Path, source: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "big-disk" / "index")
    build_index(source, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read_manifest(tmp_path / "big-disk" / "index").passages == 2


def test_links_in_a_circle_are_an_input_error(tmp_path: Path, source: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match=r"the index '.*a' (leads nowhere|cannot be written).*; give another folder"):
        build_index(source, tmp_path / "a")


# Builds that were killed ----------------------------------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
from corrigenda.retrieval import build

kill, real = (lambda *_: os._exit(9)), Path.rename
if sys.argv[3] == "while it reads":
    build._EVERY_S = -1
else:
    Path.rename = lambda self, to: kill() if self.name == "new" else real(self, to)
build.build_index(sys.argv[1], sys.argv[2], replace=True, progress=kill if sys.argv[3] == "while it reads" else None)
"""


def killed(source: Path, index: Path, when: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(source), str(index), when], check=False)
    assert done.returncode == 9


def test_what_a_killed_build_left_is_gone_after_the_next_one(tmp_path: Path, source: Path, index: Path) -> None:
    killed(source, index, "while it reads")
    assert len([name for name in names(tmp_path) if name.endswith(".building")]) == 1
    build_index(source, index, replace=True)
    assert names(tmp_path) == ["index", "p.jsonl"]


def test_an_old_index_that_was_moved_away_when_its_build_was_killed_is_put_back(
    tmp_path: Path, source: Path, index: Path
) -> None:
    before = content(index)
    killed(source, index, "between the old and the new one")
    assert not index.exists()
    with pytest.raises(InputError, match=r"there is an index in .* already"):
        build_index(source, index)
    assert content(index) == before
    assert names(tmp_path) == ["index", "p.jsonl"]


def test_a_build_that_goes_on_and_folders_that_only_look_like_one_are_left_alone(
    tmp_path: Path, source: Path, index: Path
) -> None:
    mine = tmp_path / ".index.abcd1234.building"
    (mine / "new").mkdir(parents=True)
    (mine / "plan.txt").write_text("of a house")
    (tmp_path / ".index.mine.building").mkdir()
    with place.beside(index) as work:
        build_index(source, index, replace=True)
        assert (work / "new").is_dir()
    assert names(tmp_path) == [".index.abcd1234.building", ".index.mine.building", "index", "p.jsonl"]


def test_without_locks_it_builds_and_clears_nothing_away(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> bool:
        raise OSError(37, os.strerror(37))

    monkeypatch.setattr(place, "try_lock", refuse)
    (tmp_path / ".index.abcd1234.building" / "new").mkdir(parents=True)
    build_index(source, tmp_path / "index")
    assert names(tmp_path) == [".index.abcd1234.building", "index", "p.jsonl"]

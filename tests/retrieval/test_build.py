"""An index appears when it is complete, and whatever breaks before leaves everything as it was."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.passages import PASSAGES, write_jsonl

from corrigenda.backends.retrieve_bm25 import Bm25Retriever, Bm25Writer
from corrigenda.backends.retrieve_index import FileInfo, read_manifest
from corrigenda.errors import BackendError, InputError, MissingExtra
from corrigenda.retrieval import build as building
from corrigenda.retrieval.build import Progress, build_index, describe
from corrigenda.types import Passage


def everything(folder: Path) -> list[str]:
    """Return all that stands in a folder; the library's lock says nothing."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.suffix != ".lock")


def search(directory: Path, query: str) -> list[str]:
    return [passage.id for passage in asyncio.run(Bm25Retriever(directory).search([query], 3))[0]]


def test_the_manifest_says_what_the_index_was_made_of(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "p.jsonl", (*PASSAGES, PASSAGES[0], Passage(id="blank", text=" ")))
    manifest = build_index(source, tmp_path / "new" / "index")
    data = source.read_bytes()
    assert manifest == read_manifest(tmp_path / "new" / "index")
    assert (manifest.kind, manifest.source, manifest.passages) == ("jsonl", str(source), len(PASSAGES))
    assert manifest.sources == (FileInfo(name="p.jsonl", bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),)
    assert manifest.counts == {"passages": len(PASSAGES), "blank": 1, "duplicate_ids": 1}
    assert everything(tmp_path / "new") == sorted(
        ["index", "index/manifest.json", "index/tantivy", *(f"index/{file.name}" for file in manifest.files)]
    )
    assert describe(manifest)[:2] == ["passages  8", "counts    blank 1, duplicate ids 1"]


def test_folders_of_texts_and_dumps_of_fever(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "rome.md").write_text("Rome has seven hills. It is old.")
    manifest = build_index(tmp_path / "texts", tmp_path / "a", words=4, language="it")
    assert (manifest.kind, manifest.settings) == ("text", {"words": 4, "language": "it"})
    assert search(tmp_path / "a", "old hills") == ["rome.md#2", "rome.md#1"]
    (tmp_path / "wiki-001.jsonl").write_text('{"id": "Lyon", "lines": "0\\tLyon is in France ."}\n')
    assert build_index(tmp_path / "wiki-001.jsonl", tmp_path / "b").kind == "fever"
    assert search(tmp_path / "b", "Lyon") == ["Lyon#0-0"]


def test_an_index_inside_its_source_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Rome has seven hills.")
    build_index(tmp_path, tmp_path / "index")
    assert build_index(tmp_path, tmp_path / "index", replace=True).passages == 1


def test_progress_grows_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_EVERY_S", -1)
    seen: list[Progress] = []
    build_index(write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index", progress=seen.append)
    assert [p.passages for p in seen] == [*range(1, len(PASSAGES) + 1), len(PASSAGES)]
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (seen[-1].share, seen[-1].left_s) == (1.0, 0.0)
    assert 0 < seen[0].share < 1


def test_the_numbers_of_progress() -> None:
    half = Progress(passages=30, done=50, total=100, seconds=2.0)
    assert (half.share, half.rate, half.left_s) == (0.5, 15.0, 2.0)
    none = Progress(passages=0, done=0, total=100, seconds=0.0)
    assert (none.share, none.rate, none.left_s) == (0.0, 0.0, None)
    assert Progress(passages=0, done=0, total=0, seconds=0.0).share == 1.0


# What is there already ---------------------------------------------------------------------------------------------


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    assert build_index(write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index").passages == len(PASSAGES)


def test_an_index_is_replaced_only_when_asked(tmp_path: Path) -> None:
    source, index = write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index"
    build_index(source, index)
    write_jsonl(source, PASSAGES[:1])
    with pytest.raises(InputError, match=r"there is an index in '.*index' already; .*--replace"):
        build_index(source, index)
    assert read_manifest(index).passages == len(PASSAGES)
    build_index(source, index, replace=True)
    assert read_manifest(index).passages == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "p.jsonl"]


@pytest.mark.parametrize("replace", [True, False])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, replace: bool) -> None:
    source = write_jsonl(tmp_path / "p.jsonl")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("Dear")
    with pytest.raises(
        InputError, match=r"mine' exists and is no index of corrigenda \(it holds 'diary\.txt'\); it is left"
    ):
        build_index(source, tmp_path / "mine", replace=replace)
    with pytest.raises(InputError, match=r"'.*p\.jsonl' exists and is no index"):
        build_index(source, source, replace=replace)
    assert everything(tmp_path) == ["mine", "mine/diary.txt", "p.jsonl"]


# What breaks -------------------------------------------------------------------------------------------------------


def interrupt(_: Progress) -> None:
    raise KeyboardInterrupt("stop")


def test_an_interruption_leaves_the_old_index_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, index = write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index"
    build_index(source, index)
    before = everything(tmp_path)
    monkeypatch.setattr(building, "_EVERY_S", -1)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        build_index(source, index, replace=True, progress=interrupt)
    assert everything(tmp_path) == before
    assert search(index, "Rome") == ["rome"]


def test_a_broken_line_leaves_nothing(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "p.jsonl")
    with source.open("a") as file:
        file.write('{"id": "x"}\n')
    with pytest.raises(InputError, match=r"p\.jsonl', line 9: there is no 'text'"):
        build_index(source, tmp_path / "index")
    assert everything(tmp_path) == ["p.jsonl"]


def test_a_failing_library_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Bm25Writer) -> tuple[FileInfo, ...]:
        raise BackendError("the index failed: no space left on device")

    monkeypatch.setattr(Bm25Writer, "finish", fail)
    with pytest.raises(BackendError, match="no space left"):
        build_index(write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index")
    assert everything(tmp_path) == ["p.jsonl"]


def test_an_index_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, index = write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index"
    build_index(source, index)
    real: Callable[[Path, Path], Path] = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise PermissionError(13, "Permission denied")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(InputError, match=r"the index '.*index' cannot be put in its place: Permission denied; all is"):
        build_index(source, index, replace=True)
    assert search(index, "Rome") == ["rome"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "p.jsonl"]


@pytest.mark.parametrize("text", ["", "\n \n", '{"id": "a", "text": "  "}\n'])
def test_an_empty_collection_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"p\.jsonl' holds no passage with text in it \((it is empty|blank: 1)\)"):
        build_index(tmp_path / "p.jsonl", tmp_path / "index")
    assert everything(tmp_path) == ["p.jsonl"]


@pytest.mark.parametrize("words", [0, -1, 10_001])
def test_words_out_of_range_are_refused(tmp_path: Path, words: int) -> None:
    with pytest.raises(InputError, match=f"words must be from 1 to 10000, got {words}"):
        build_index(write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index", words=words)


def test_unknown_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown kind 'csv'; there are jsonl, text, fever"):
        build_index(write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index", kind="csv")  # type: ignore[arg-type]


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "p.jsonl")
    with pytest.raises(InputError, match=r"p\.jsonl/index' cannot be written: (Not a directory|File exists)"):
        build_index(source, source / "index")


def test_without_the_library_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corrigenda.backends.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"corrigenda\[retrieval\]"):
        build_index(write_jsonl(tmp_path / "p.jsonl"), tmp_path / "index")
    assert everything(tmp_path) == ["p.jsonl"]

"""Which files make a collection, and what is said of those that cannot be read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from corrigenda.backends.retrieve_index import FileInfo
from corrigenda.errors import InputError
from corrigenda.retrieval import source
from corrigenda.retrieval.source import Source, find


def names(folder: Path, files: tuple[Path, ...]) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in files]


def put(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    return folder


@pytest.mark.parametrize(
    ("paths", "kind", "found"),
    [
        (["b.jsonl", "a/c.jsonl", "note.csv"], "jsonl", ["a/c.jsonl", "b.jsonl"]),
        (["b.txt", "a.MD", ".hidden/x.txt", "sub/.x.txt"], "text", ["a.MD", "b.txt"]),
        (["wiki-002.jsonl", "wiki-001.jsonl"], "fever", ["wiki-001.jsonl", "wiki-002.jsonl"]),
        (["wiki-001.jsonl", "other.jsonl"], "jsonl", ["other.jsonl", "wiki-001.jsonl"]),
    ],
)
def test_the_kind_is_told_by_the_names(tmp_path: Path, paths: list[str], kind: str, found: list[str]) -> None:
    kind_found, files = find(put(tmp_path, *paths))
    assert (kind_found, names(tmp_path, files)) == (kind, found)


def test_a_single_file_and_a_kind_that_is_given(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", "b.txt", "wiki-1.jsonl", "readme.jsonl")
    assert find(tmp_path / "a.jsonl") == ("jsonl", (tmp_path / "a.jsonl",))
    assert find(tmp_path / "wiki-1.jsonl") == ("fever", (tmp_path / "wiki-1.jsonl",))
    assert find(tmp_path / "a.jsonl", "fever") == ("fever", (tmp_path / "a.jsonl",))
    assert names(tmp_path, find(tmp_path, "text")[1]) == ["b.txt"]
    assert names(tmp_path, find(tmp_path, "fever")[1]) == ["wiki-1.jsonl"]


@pytest.mark.parametrize(
    ("paths", "kind", "message"),
    [
        ([], None, r"holds nothing to read: no \.jsonl, \.txt or \.md file \(unpack archives first\)"),
        (["dump.zip"], None, "holds nothing to read"),
        (["a.jsonl", "b.txt"], None, r"holds both \.jsonl files and texts; say which kind to read \(--kind\)"),
        (["a.jsonl"], "text", r"holds no \.txt or \.md file, as the kind 'text' needs"),
        (["a.jsonl"], "fever", r"holds no wiki-\*\.jsonl file, as the kind 'fever' needs"),
    ],
)
def test_what_cannot_be_a_collection(tmp_path: Path, paths: list[str], kind: source.Kind | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find(put(tmp_path, *paths), kind)


def test_a_missing_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the source '.*nowhere' does not exist; give a file or a folder"):
        find(tmp_path / "nowhere")


def test_lines_are_counted_and_hashed_on_the_way(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfone\r\n\n  \ntwo"
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "b.jsonl").write_bytes(b"")
    reading = Source(tmp_path, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert [(place.rpartition("/")[2], text.strip()) for place, text in reading.lines()] == [
        ("a.jsonl', line 1", "one"),
        ("a.jsonl', line 4", "two"),
    ]
    assert (reading.total, reading.done) == (len(data), len(data))
    assert reading.infos == [
        FileInfo(name="a.jsonl", bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),
        FileInfo(name="b.jsonl", bytes=0, sha256=hashlib.sha256(b"").hexdigest()),
    ]


def test_other_encodings_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ncitt\xe0\n")
    with pytest.raises(InputError, match=r"a\.txt', line 2: not UTF-8 \(byte 4 is 0xe0\); convert the file first"):
        list(Source(tmp_path, [path]).lines())
    with pytest.raises(InputError, match=r"a\.txt': not UTF-8 \(byte 8 is 0xe0\)"):
        list(Source(tmp_path, [path]).texts())


def test_texts_that_are_binary_or_far_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\x00b")
    with pytest.raises(InputError, match=r"a\.txt' is a binary file \(it holds a NUL byte\)"):
        list(Source(tmp_path, [tmp_path / "a.txt"]).texts())
    monkeypatch.setattr(source, "_MAX_TEXT", 2)
    with pytest.raises(InputError, match=r"a\.txt' is larger than 2 bytes; split it"):
        list(Source(tmp_path, [tmp_path / "a.txt"]).texts())


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x")
    reading = Source(tmp_path, [path])
    path.unlink()
    with pytest.raises(InputError, match=r"a\.txt' cannot be read: No such file"):
        list(reading.lines())
    with pytest.raises(InputError, match=r"a\.txt' cannot be read: No such file"):
        list(reading.texts())

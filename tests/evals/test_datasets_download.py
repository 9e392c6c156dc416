"""Data sets are fetched once, kept with their SHA-256, and an address that fails is named with what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fake_hub import FakeHub, fake_hub

from corrigenda.errors import InputError
from corrigenda.evals.datasets import download, load
from corrigenda.evals.datasets.download import fetched

CSV = b"Question,Best Answer,Correct Answers,Incorrect Answers\nIs it so?,No,No,Yes\n"
SHA = hashlib.sha256(CSV).hexdigest()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as running:
        running.data, running.content_type = CSV, "text/plain; charset=utf-8"
        yield running


def address(hub: FakeHub) -> str:
    return f"{hub.url}/main/TruthfulQA.csv"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_it_is_fetched_once_and_kept_with_its_hash(tmp_path: Path, hub: FakeHub) -> None:
    folder, told = tmp_path / "cache", list[tuple[int, int, str]]()
    data = load(
        "truthfulqa", cache_dir=folder, url=address(hub), progress=lambda *what: told.append(what), task="question"
    )
    assert [item.question for item in data.items] == ["Is it so?"]
    assert (data.source, data.sha256) == (str(folder / "TruthfulQA.csv"), SHA)
    assert data.notes[0] == f"TruthfulQA, unknown revision, sha256 {SHA}"
    assert told[-1] == (len(CSV), len(CSV), "downloading truthfulqa")
    assert names(folder) == ["TruthfulQA.csv", "TruthfulQA.csv.sha256"]
    assert (folder / "TruthfulQA.csv.sha256").read_text() == f"{SHA}  TruthfulQA.csv\n"
    assert load("truthfulqa", cache_dir=folder, url=address(hub)).items == data.items
    assert [path for path, _, _ in hub.requests] == ["/main/TruthfulQA.csv"]


def test_a_file_that_changed_in_the_cache_is_refused(tmp_path: Path, hub: FakeHub) -> None:
    fetched("truthfulqa", address(hub), cache_dir=tmp_path)
    (tmp_path / "TruthfulQA.csv").write_bytes(CSV + b"more")
    with pytest.raises(
        InputError, match=r"TruthfulQA\.csv' is not what was downloaded .*; delete it to get it anew, or"
    ):
        fetched("truthfulqa", address(hub), cache_dir=tmp_path)


def test_a_download_that_was_interrupted_is_made_anew(tmp_path: Path, hub: FakeHub) -> None:
    (tmp_path / "TruthfulQA.csv").write_bytes(CSV[:10])
    assert fetched("truthfulqa", address(hub), cache_dir=tmp_path).data == CSV


def test_a_connection_that_breaks_is_tried_again(tmp_path: Path, hub: FakeHub) -> None:
    hub.cut_after = [5, 9]
    assert fetched("truthfulqa", address(hub), cache_dir=tmp_path).data == CSV
    assert len(hub.requests) == 3


REMEDY = r"; download it on a machine that reaches that address, and give the file with --data FILE"


def test_a_connection_that_always_breaks_leaves_nothing_behind(tmp_path: Path, hub: FakeHub) -> None:
    hub.cut_after = [5, 5, 5]
    with pytest.raises(
        InputError, match=rf"'truthfulqa' could not be downloaded from http.*\(the connection broke: .*{REMEDY}"
    ):
        fetched("truthfulqa", address(hub), cache_dir=tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"status": 404}, r"the server answered with HTTP status 404"),
        ({"content_type": "text/html"}, r"the server answered with a web page"),
        ({"data": b"x" * 200}, r"the server sends more than 100 bytes"),
    ],
)
def test_what_is_not_the_file_is_refused(
    tmp_path: Path, hub: FakeHub, settings: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", 100)
    for name, value in settings.items():
        setattr(hub, name, value)
    with pytest.raises(InputError, match=rf"could not be downloaded from .*/main/TruthfulQA\.csv \({reason}\){REMEDY}"):
        fetched("truthfulqa", address(hub), cache_dir=tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/TruthfulQA.csv", "not an address"])
def test_an_address_that_cannot_be_reached_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputError, match=rf"could not be downloaded from {url} \(.*\){REMEDY}"):
        fetched("truthfulqa", url, cache_dir=tmp_path)


def test_no_password_is_shown(tmp_path: Path, hub: FakeHub) -> None:
    hub.status = 403
    with pytest.raises(InputError, match=r"\*\*\*@127\.0\.0\.1") as caught:
        fetched("truthfulqa", address(hub).replace("http://", "http://user:hunter2@"), cache_dir=tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, hub: FakeHub) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        InputError, match=r"'truthfulqa' cannot be kept in '.*file/cache': .*; make room there, or download"
    ):
        fetched("truthfulqa", address(hub), cache_dir=tmp_path / "file" / "cache")

"""A cache on disk helps, and stops nothing: damaged, foreign, read-only, full or locked, it costs one warning."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import pickle
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import diskcache_community
import pytest

from corrigenda import cache as cache_module
from corrigenda import config
from corrigenda.cache import Cache, KindInfo, clear, info
from corrigenda.cli import main
from corrigenda.errors import ConfigError, MissingExtra
from corrigenda.shelf import Kept


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def made(*numbers: int) -> dict[bytes, Kept[Any]]:
    return {key(number): Kept([number / 7, "è 雪"], 0.25) for number in numbers}


def use(folder: Path, *numbers: int, warnings: list[str] | None = None, **settings: Any) -> dict[bytes, Kept[Any]]:
    """Keep entries with these numbers in one process's life, and return what was found of them before."""

    async def work() -> dict[bytes, Kept[Any]]:
        cache = Cache(folder, warn=None if warnings is None else warnings.append, **settings)
        found = await cache.get("entail", [key(number) for number in numbers])
        cache.put("entail", made(*numbers))
        cache.put("recall", made(*numbers))
        await cache.aclose()
        await cache.aclose()
        return found

    return asyncio.run(work())


def database(folder: Path, kind: str = "entail") -> Path:
    return folder / f"{kind}-1" / "cache.db"


def test_what_is_kept_is_found_again_exactly(tmp_path: Path) -> None:
    assert use(tmp_path, 1, 2, 3) == {}
    assert use(tmp_path, 2, 3, 4) == made(2, 3)
    assert use(tmp_path, 4) == made(4)


def test_what_waits_is_found_once_it_is_written_and_nothing_after_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        cache = Cache(tmp_path)
        cache.put("entail", made(1))
        assert await cache.get("entail", [key(1)]) == made(1), "writing was asked for first"
        await cache.aclose()
        cache.put("entail", made(2))
        assert await cache.get("entail", [key(1)]) == {}

    asyncio.run(work())
    assert use(tmp_path, 1, 2) == made(1)


def test_nothing_is_made_before_something_is_kept_or_looked_up(tmp_path: Path) -> None:
    async def work() -> None:
        await Cache(tmp_path / "cache").aclose()

    asyncio.run(work())
    assert info(tmp_path / "cache") == tuple(KindInfo(kind=kind, entries=0, bytes=0) for kind in ("recall", "entail"))
    clear(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    use(tmp_path / "cache", 1)
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_it_stays_below_its_size_and_what_was_stored_first_goes_first(tmp_path: Path) -> None:
    use(tmp_path, *range(3000), max_bytes=200_000)
    use(tmp_path, *range(3000, 4000), max_bytes=200_000)
    assert info(tmp_path)[1].bytes <= 200_000
    found = use(tmp_path, *range(4000))
    assert key(3999) in found
    assert key(0) not in found


def spoil_with_text(path: Path) -> None:
    path.write_text("this is no database, and was none\n" * 500)


def spoil_the_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for start in range(4096, len(content), 1024):
        content[start : start + 256] = os.urandom(256)
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def of_another_form(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE Cache (what TEXT)")
        connection.execute("CREATE TABLE Settings (setting TEXT)")
        connection.commit()


SPOILERS: dict[str, Callable[[Path], None]] = {
    "text": spoil_with_text,
    "pages": spoil_the_pages,
    "cut short": cut_short,
    "another form": of_another_form,
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_a_spoilt_file_costs_one_warning_and_is_cleared(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    use(tmp_path, *range(500))
    for kind in ("entail", "recall"):
        for extra in (tmp_path / f"{kind}-1").glob("cache.db-*"):
            extra.unlink()
        spoil(database(tmp_path, kind))
    warnings: list[str] = []
    use(tmp_path, *range(500), warnings=warnings)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"the cache {str(tmp_path)!r} cannot be ")
    assert "the run goes on" in warnings[0]
    assert warnings[0].endswith("`corrigenda cache clear` makes a new one")
    clear(tmp_path)
    again: list[str] = []
    assert use(tmp_path, 1, 2, warnings=again) == {}
    assert (use(tmp_path, 1, 2, warnings=again), again) == (made(1, 2), [])


def test_a_spoilt_file_is_told_and_not_counted(tmp_path: Path) -> None:
    use(tmp_path, 1)
    spoil_with_text(database(tmp_path))
    recall, entail = info(tmp_path)
    assert (recall.entries, recall.problem) == (1, None)
    assert entail == KindInfo(kind="entail", entries=0, bytes=0, problem="DatabaseError: file is not a database")


class Dangerous:
    ran = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (setattr, (Dangerous, "ran", True))


@pytest.mark.parametrize("size", [0, 60_000], ids=["in the database", "in a file of its own"])
def test_what_a_file_says_is_never_run(tmp_path: Path, size: int) -> None:
    """An entry that the original library would unpickle, in a file that somebody else prepared."""
    with diskcache_community.Cache(str(tmp_path / "entail-1")) as theirs:
        theirs.set(key(1), "placeholder")
    with closing(sqlite3.connect(database(tmp_path))) as connection:
        payload = pickle.dumps((Dangerous(), "x" * size))
        connection.execute("UPDATE Cache SET mode = 4, value = ?", (payload,))
        connection.commit()
    warnings: list[str] = []
    assert use(tmp_path, 1, warnings=warnings) == {}
    assert Dangerous.ran is False
    assert ["an entry of the unknown mode 4" in warning for warning in warnings] == [True]


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "[1, 2, 3]", '[1, "x"]', "[1, -1]", "[1, 1e999]", "[" * 5000])
def test_an_entry_that_is_none_is_not_there(tmp_path: Path, text: str) -> None:
    use(tmp_path, 1)
    with diskcache_community.Cache(str(tmp_path / "entail-1")) as theirs:
        theirs.set(key(1), text)
    assert use(tmp_path, 1) == {}
    assert use(tmp_path, 1) == made(1)


def test_a_read_only_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path, 1)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # the tests may run as root
    warnings: list[str] = []
    assert use(tmp_path, 1, 2, warnings=warnings) == made(1)
    assert len(warnings) == 1
    assert "cannot be written (ReadOnlyError: " in warnings[0]


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    warnings: list[str] = []
    assert use(tmp_path / "file" / "cache", 1, warnings=warnings) == {}
    assert len(warnings) == 1
    assert "cannot be opened (" in warnings[0]


def test_a_full_disk_ends_the_keeping_and_not_the_reading(tmp_path: Path) -> None:
    """SQLite is told that its file may not grow, which it reports as a full disk."""
    use(tmp_path, 1)

    async def work() -> tuple[dict[bytes, Kept[Any]], list[str]]:
        warnings: list[str] = []
        cache = Cache(tmp_path, warn=warnings.append)
        await cache.get("entail", [key(1)])
        shelves = cache._open["entail"]
        assert shelves is not None
        await asyncio.get_running_loop().run_in_executor(
            cache._worker, lambda: shelves._sql("PRAGMA max_page_count = 1").fetchall()
        )
        for start in range(0, 4000, 1000):
            cache.put("entail", made(*range(start + 10, start + 1010)))
        found = await cache.get("entail", [key(1)])
        await cache.aclose()
        return found, warnings

    found, warnings = asyncio.run(work())
    assert found == made(1)
    assert len(warnings) == 1
    assert "cannot be written (OperationalError: database or disk is full); the run goes on, and keeps nothing" in str(
        warnings
    )


def test_many_processes_may_use_it_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        caches = [Cache(tmp_path) for _ in range(4)]
        for number, cache in enumerate(caches):
            cache.put("entail", made(*range(number * 100, number * 100 + 100)))
        for cache in caches:
            await cache.aclose()

    asyncio.run(work())
    assert len(use(tmp_path, *range(400))) == 400


def test_where_the_disk_is_slower_entries_are_not_kept_and_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "MAX_WAITING", 10)

    async def work() -> None:
        cache = Cache(tmp_path)
        cache.put("entail", made(*range(11)))
        assert cache._waiting == {}
        cache.put("entail", made(*range(10)))
        await cache.aclose()

    asyncio.run(work())
    assert len(use(tmp_path, *range(20))) == 10


@pytest.fixture
def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return None if name == "diskcache_community" else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.mark.usefixtures("without_the_library")
def test_without_its_library_there_is_no_cache_and_one_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    assert use(tmp_path / "new", 1, warnings=warnings) == {}
    assert len(warnings) == 1
    assert 'run: pip install "corrigenda[batch]"' in warnings[0]
    database(tmp_path).parent.mkdir()
    database(tmp_path).touch()
    with pytest.raises(MissingExtra, match="the cache needs the package 'diskcache_community'"):
        info(tmp_path)


def test_the_command_tells_what_there_is_and_removes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    use(tmp_path, 1, 2)
    assert main(["cache", "info", "--cache-dir", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(kind["kind"], kind["entries"]) for kind in told["kinds"]] == [("recall", 2), ("entail", 2)]
    assert (told["folder"], told["cleared"]) == (str(tmp_path), False)
    assert main(["cache", "clear", "--cache-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"cleared: {tmp_path}"
    assert [line.split(",")[0] for line in lines[1:]] == [
        "  recalled references  2 entries",
        "  scored pairs         2 entries",
    ]
    assert use(tmp_path, 1, 2) == {}


def test_the_command_tells_of_a_spoilt_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    use(tmp_path, 1)
    spoil_with_text(database(tmp_path))
    assert main(["cache", "info", "--cache-dir", str(tmp_path)]) == 0
    assert "  scored pairs         unusable: DatabaseError: file is not a database" in capsys.readouterr().out


def test_the_command_uses_the_users_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out.startswith("cache: ")


def test_a_file_found_in_the_working_folder_may_not_name_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corrigenda.toml").write_text('cache_dir = "prepared"\n')
    with pytest.raises(
        ConfigError, match=r"cache_dir is not taken from a file found in the working folder.*--cache-dir"
    ):
        config.load({}, environ={}, cwd=tmp_path)


def test_clearing_leaves_other_files_alone(tmp_path: Path) -> None:
    use(tmp_path, 1)
    spoil_with_text(database(tmp_path))
    notes = [tmp_path / "notes.txt", tmp_path / "entail-1" / "notes.txt"]
    for note in notes:
        note.write_text("mine")
    clear(tmp_path)
    assert [note.read_text() for note in notes] == ["mine", "mine"]
    assert not database(tmp_path).exists()

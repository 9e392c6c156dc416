from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from corrigenda.batch.output import line_of, remove_parts, write
from corrigenda.batch.rows import Done
from corrigenda.errors import InputError
from corrigenda.files import OutputFailed

ROWS = [
    Done(number=0, id="a", report={"status": "verified", "answer": "Città"}),
    Done(number=1, id="b", error="no connection", kind="Unreachable"),
]
LINES = [
    {"id": "a", "report": {"status": "verified", "answer": "Città"}},
    {"id": "b", "error": "no connection", "kind": "Unreachable"},
]


@pytest.mark.parametrize("name", ["out.jsonl", "out.ndjson.gz", "out.jsonl.zst"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    write(tmp_path / "new" / name, iter(ROWS))
    data = (tmp_path / "new" / name).read_bytes()
    if name.endswith("gz"):
        data = gzip.decompress(data)
    elif name.endswith("zst"):
        data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    assert [json.loads(line) for line in data.decode().splitlines()] == LINES
    assert os.listdir(tmp_path / "new") == [name]


def test_parquet(tmp_path: Path) -> None:
    write(tmp_path / "out.parquet", iter(ROWS))
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {
            "id": "a",
            "status": "verified",
            "report": '{"status": "verified", "answer": "Città"}',
            "error": None,
            "kind": None,
        },
        {"id": "b", "status": "failed", "report": None, "error": "no connection", "kind": "Unreachable"},
    ]


def test_a_lone_surrogate_becomes_an_escape() -> None:
    assert line_of(Done(number=0, id="\ud800é", error="e", kind="K")) == (
        '{"id": "\\ud800\\u00e9", "error": "e", "kind": "K"}'
    )


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"the output '.*out.csv' has an ending that says no known format; name it .json"
    ):
        write(tmp_path / "out.csv", ROWS)


def test_what_was_there_stays_until_the_whole_is_written(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")

    def broken() -> object:
        yield ROWS[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(
        OutputFailed, match=r"the output '.*out.jsonl' cannot be written: No space left on device; make r"
    ):
        write(tmp_path / "out.jsonl", broken())  # type: ignore[arg-type]
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"out.jsonl": "old"}


LIMITED = """
import random, resource, signal, sys
from pathlib import Path
from corrigenda.batch.output import write
from corrigenda.batch.rows import Done
from corrigenda.files import OutputFailed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, 5_000_000))
rows = (Done(number=n, id=str(n), error=random.Random(n).randbytes(1000).hex(), kind="K") for n in range(20_000))
try:
    write(Path(sys.argv[1]), rows)
except OutputFailed as exc:
    print(exc)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit to a file's size")
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_file_that_may_not_grow_is_told_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / name)], capture_output=True, text=True, check=True
    )
    assert f"{name}' cannot be written: " in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".out.jsonl.17.part", ".other.jsonl.17.part", "out.jsonl"):
        (tmp_path / name).write_text("")
    remove_parts(tmp_path / "out.jsonl")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".other.jsonl.17.part", "out.jsonl"]

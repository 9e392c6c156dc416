from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from tests.batches import write_lines

from corrigenda.batch.checking import Counts, check
from corrigenda.batch.inputs import files_of, kind_of
from corrigenda.batch.reading import BLOCK_ROWS, Columns, Placed, read
from corrigenda.batch.rows import Row
from corrigenda.errors import InputError
from corrigenda.types import Reference

PLAIN = Columns(names={})
OUT = Path("out.jsonl")


def all_of(*paths: Path | str, columns: Columns = PLAIN) -> list[Row]:
    found: list[Row] = []
    for file in files_of([str(path) for path in paths], OUT):
        found += [placed.row for placed in read(file, len(found), columns)]
    return found


def refused(path: Path, columns: Columns = PLAIN) -> None:
    check(files_of([str(path)], OUT), columns)


VALUES: list[dict[str, Any]] = [
    {"id": "a", "question": "Q?", "answer": None, "contexts": None},
    {"id": "b", "question": None, "answer": "A.", "contexts": ["one", "two"]},
]
ROWS = [
    Row(number=0, id="a", question="Q?"),
    Row(
        number=1,
        id="b",
        answer="A.",
        contexts=(Reference(text="one", source="context 1"), Reference(text="two", source="context 2")),
    ),
]


def test_json_lines_are_read_plain_and_compressed(tmp_path: Path) -> None:
    text = "".join(json.dumps(value) + "\n" for value in VALUES).encode()
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.jsonl.zst").write_bytes(pa.Codec("zstd").compress(text, asbytes=True))
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst"):
        assert all_of(tmp_path / name) == ROWS


def test_a_gzip_file_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    parts = [gzip.compress(json.dumps(value).encode() + b"\n") for value in VALUES]
    (tmp_path / "a.jsonl.gz").write_bytes(b"".join(parts))
    assert all_of(tmp_path / "a.jsonl.gz") == ROWS


def test_parquet_is_read(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(VALUES), tmp_path / "a.parquet", row_group_size=1)
    assert all_of(tmp_path / "a.parquet") == ROWS


def test_parquet_contexts_may_name_their_sources(tmp_path: Path) -> None:
    contexts = [{"text": "one", "source": "page 1"}, {"text": "two", "source": None}]
    pq.write_table(pa.Table.from_pylist([{"id": 7, "answer": "A.", "contexts": contexts}]), tmp_path / "a.parquet")
    sources = (Reference(text="one", source="page 1"), Reference(text="two", source="context"))
    assert all_of(tmp_path / "a.parquet") == [Row(number=0, id="7", answer="A.", contexts=sources)]


def test_blank_lines_a_byte_order_mark_and_a_missing_last_line_end_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"question": "1?"}\r\n\n  \n{"question": "2?"}')
    found = list(read(kind_of(tmp_path / "a.jsonl", "it"), 5, PLAIN))
    assert found == [
        Placed(Row(number=5, id="6", question="1?"), 1),
        Placed(Row(number=6, id="7", question="2?"), 4),
    ]


def test_a_context_may_be_one_text_and_columns_may_have_other_names(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"output": "A.", "passage": "one", "question": 3}])
    columns = Columns(names={"answer": "output", "contexts": "passage", "question": "prompt"})
    expected = Row(number=0, id="1", answer="A.", contexts=(Reference(text="one", source="context"),))
    assert all_of(tmp_path / "a.jsonl", columns=columns) == [expected]


def test_a_folder_and_a_glob_are_read_in_the_order_of_their_paths(tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    for name in ("b.jsonl", "a.ndjson", "sub/c.jsonl", ".hidden.jsonl", "_note.jsonl"):
        write_lines(tmp_path / "data" / name, [{"question": name}])
    (tmp_path / "data" / "readme.txt").write_text("not a row")
    assert [row.question for row in all_of(tmp_path / "data")] == ["a.ndjson", "b.jsonl", "sub/c.jsonl"]
    assert [row.question for row in all_of(tmp_path / "data" / "*.jsonl")] == ["_note.jsonl", "b.jsonl"]
    assert [row.number for row in all_of(tmp_path / "data")] == [0, 1, 2]


def test_the_output_is_no_input(tmp_path: Path) -> None:
    for name in ("a.jsonl", "out.jsonl"):
        write_lines(tmp_path / name, [{"question": name}])
    found = files_of([str(tmp_path)], tmp_path / "out.jsonl")
    assert [file.path.name for file in found] == ["a.jsonl"]
    with pytest.raises(InputError, match=r"out.jsonl' is both input and output; name another output"):
        files_of([str(tmp_path / "out.jsonl")], tmp_path / "out.jsonl")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jsonl", "there is no file or folder '.*missing.jsonl'; check the path"),
        ("*.jsonl", r"no file fits the pattern '.*\*.jsonl'; check the path"),
        ("rows.csv", "the input '.*rows.csv' has an ending that says no known format; name it .jsonl"),
        ("empty", "the input folder '.*empty' has no file to read"),
    ],
)
def test_what_is_no_input_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "rows.csv").write_text("a,b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        files_of([str(tmp_path / name)], OUT)


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"question": "?"}])
    with pytest.raises(InputError, match=r"a.jsonl' is named twice in the input; name each file once"):
        files_of([str(tmp_path / "a.jsonl"), str(tmp_path)], OUT)


BAD = {
    "{": "line 2 is not JSON .*, character 2 of 1\\): {; write one JSON object a line",
    "[1]": r"line 2 must be a JSON object, got \[1\]; write one object a line",
    '{"question": NaN}': "line 2 is not JSON that can be used: NaN is no JSON; mend the line",
    '{"prompt": "?"}': r"line 2 has neither a column 'question' nor 'answer', only \['prompt'\]; rename them, or say",
    '{"question": 3}': "line 2: 'question' must be a text or null, got 3; write it as a text",
    '{"question": null}': "line 2: 'question' and 'answer' are both null; give a question to ask, or an answer",
    '{"answer": "A."}': "line 2: there is nothing to check the answer against; give 'contexts', or a 'question'",
    '{"question": "?", "contexts": 3}': "line 2: 'contexts' must be a list of texts, a text or null, got 3; write",
    '{"question": "?", "contexts": [3]}': "line 2: 'contexts' holds 3, which is no text and no object with 'text'",
    '{"question": "?", "id": 1.5}': "line 2: 'id' must be a text or a whole number, got 1.5; mend it, or leave it out",
    '{"question": "?", "id": ""}': "line 2: 'id' must be a text or a whole number, got ; mend it, or leave it out",
    '{"question": "\ud800"}': "line 2 is not UTF-8 .byte 14 of the line is 0xed.; convert it",
    "[" * 100_000: "line 2 is not JSON that can be used: it is nested too deep; mend the line",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named_with_its_file_and_number(tmp_path: Path, line: str) -> None:
    data = b'{"question": "first"}\n' + line.encode("utf-8", "surrogatepass") + b"\n"
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(InputError, match=f"a.jsonl', {BAD[line]}"):
        refused(tmp_path / "a.jsonl")


def test_a_line_that_is_too_long_for_a_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corrigenda.batch.reading.MAX_LINE", 1 << 20)
    (tmp_path / "a.jsonl").write_bytes(b'{"question": "?"}\n' + b"x" * (3 << 20))
    with pytest.raises(InputError, match=r"a.jsonl', line 2 is longer than 1 MiB, too long for a row; write one JSON"):
        refused(tmp_path / "a.jsonl")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"question": "?"}\n' * 1000)
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing more")
    (tmp_path / "c.jsonl.zst").write_bytes(b"not zstd")
    for name in ("a.jsonl.gz", "b.parquet", "c.jsonl.zst"):
        with pytest.raises(
            InputError, match=f"the input '.*{name}' cannot be read: .*; check the path, or get the file"
        ):
            refused(tmp_path / name)


def test_parquet_without_the_columns_and_with_a_bad_row_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"prompt": "?"}]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet' has neither a column 'question' nor 'answer', only \['prompt'\]"):
        refused(tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist([{"question": "?"}, {"question": None}]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b.parquet', row 2: 'question' and 'answer' are both null"):
        refused(tmp_path / "b.parquet")


def test_the_first_pass_counts(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"question": "?"}, {"question": "?", "answer": "A."}])
    write_lines(tmp_path / "b.jsonl", [{"answer": "A.", "contexts": []}])
    counts = check(files_of([str(tmp_path)], OUT), PLAIN)
    assert counts == Counts(rows=3, asks=1, recalls=1, per_file=(2, 1))
    assert counts.needs_chat
    assert not Counts(rows=1, asks=0, recalls=0, per_file=(1,)).needs_chat


def test_an_id_that_is_used_twice_is_named_with_both_places(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"question": "?", "id": name} for name in ("x", "twice", "y")])
    write_lines(tmp_path / "b.jsonl", [{"question": "?", "id": name} for name in ("z", "twice")])
    message = (
        "the id 'twice' is used twice: '.*a.jsonl', line 2 and '.*b.jsonl', line 2; give each row its own, or none"
    )
    with pytest.raises(InputError, match=message):
        check(files_of([str(tmp_path)], OUT), PLAIN)


def test_an_input_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match=r"there is no row in '.*a.jsonl'; check the input"):
        refused(tmp_path / "a.jsonl")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_only_the_wanted_rows_are_read(tmp_path: Path, kind: str) -> None:
    rows = [{"question": f"{n}?"} for n in range(3 * BLOCK_ROWS + 7)]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=BLOCK_ROWS + 1)
    else:
        write_lines(tmp_path / "a.jsonl", rows)
    wanted = {100, 102, 100 + 2 * BLOCK_ROWS, 100 + len(rows) - 1}
    asked: list[int] = []

    def take(start: int, stop: int) -> set[int]:
        asked.extend(range(start, stop))
        return wanted & set(range(start, stop))

    found = [placed.row for placed in read(kind_of(tmp_path / f"a.{kind}", "it"), 100, PLAIN, take)]
    assert [(row.number, row.question) for row in found] == [(n, f"{n - 100}?") for n in sorted(wanted)]
    assert set(range(100, 100 + len(rows))) <= set(asked)

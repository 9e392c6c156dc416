"""FEVER's own files: evidence by page and sentence, sets of it, and a dump that is streamed."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from corrigenda.errors import InputError
from corrigenda.evals.datasets import load, wiki
from corrigenda.evals.datasets.fever import read
from corrigenda.evals.datasets.files import Source
from corrigenda.evals.items import DataSet
from corrigenda.types import Reference, Verdict

PAGES = [
    {"id": "", "text": "", "lines": ""},
    {"id": "Rome", "text": "x", "lines": "0\tRome is old .\told\tAge\n1\t\n2\tIt has seven hills ."},
    {"id": "Lyon_-LRB-city-RRB-", "text": "x", "lines": "0\tLyon is in France .\tFrance\tFrance"},
]


def dump(folder: Path, *files: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for number, pages in enumerate(files, 1):
        text = "".join(json.dumps(page) + "\n" for page in pages)
        (folder / f"wiki-{number:03}.jsonl").write_text(text, encoding="utf-8")
    return folder


def claim(number: int, evidence: Any, label: str = "SUPPORTS") -> dict[str, Any]:
    return {"id": number, "label": label, "claim": f"Claim {number}.", "evidence": evidence}


def source(*rows: dict[str, Any]) -> Source:
    return Source(name="dev.jsonl", data="".join(json.dumps(row) + "\n" for row in rows).encode())


def texts(data: DataSet) -> list[list[str]]:
    return [[reference.text for reference in item.contexts or ()] for item in data.items]


def test_the_shared_case(shared_cases: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    given = shared_cases["PC-36"]["input"]
    decomposed = [page | {"id": unicodedata.normalize("NFD", page["id"])} for page in given["wiki_jsonl"]]
    data = read(source(*given["claims_jsonl"]), pages=dump(tmp_path / "wiki", decomposed))
    assert [(item.id, item.label, item.contexts, item.tags) for item in data.items] == [
        (
            "11",
            Verdict.SUPPORTED,
            (
                Reference(text="She lived in Lyon. Lyon is in France.", source="Zöe Bär (film); Lyon: A City"),
                Reference(text="Zoe Bar (born 1901) was an actor.", source="Zöe Bär (film)"),
            ),
            {},
        ),
        ("12", Verdict.UNVERIFIED, (), {}),
        ("13", Verdict.SUPPORTED, (Reference(text="Lyon is in France.", source="Lyon: A City"),), {}),
        ("14", Verdict.CONTRADICTED, (), {"evidence": "not found"}),
    ]
    assert data.counts == {
        "rows": 4,
        "duplicate": 0,
        "incomplete": 0,
        "kept": 4,
        "without_evidence": 2,
        "pages_missing": 1,
        "sentences_missing": 0,
        "unresolved": 1,
    }
    assert data.notes[0] == (
        "not in the dump: 1 of the pages that evidence names, and 0 sentences of others; claims left without their "
        "evidence, kept and tagged 'evidence: not found': 1 (14)"
    )
    assert [item.group for item in data.items] == ["11", "12", "11", "14"]  # 11 and 13 say the same


def test_a_set_counts_only_when_all_its_sentences_are_there(tmp_path: Path) -> None:
    data = read(
        source(
            claim(1, [[[0, 0, "Rome", 2], [0, 0, "Rome", 9]], [[0, 0, "Rome", 0]]]),
            claim(2, [[[0, 0, "Rome", 1]]]),  # an empty sentence says nothing
            claim(3, [[[0, 1, "Rome", 0]], [[0, 2, "Rome", 0]]]),  # two annotators found the same
        ),
        pages=dump(tmp_path / "wiki", PAGES),
    )
    assert texts(data) == [["Rome is old."], [], ["Rome is old."]]
    assert {name: data.counts[name] for name in ("pages_missing", "sentences_missing", "unresolved", "kept")} == {
        "pages_missing": 0,
        "sentences_missing": 2,
        "unresolved": 1,
        "kept": 3,
    }


def test_nothing_is_looked_up_where_no_page_is_named(tmp_path: Path) -> None:
    nothing = [[[1, None, None, None]]]
    data = read(source(claim(1, nothing, "NOT ENOUGH INFO"), claim(2, [], "NOT ENOUGH INFO"), claim(3, nothing)))
    assert [(item.id, item.label, item.contexts) for item in data.items] == [
        ("1", Verdict.UNVERIFIED, ()),
        ("2", Verdict.UNVERIFIED, ()),
    ]
    assert data.counts == {"rows": 3, "duplicate": 0, "incomplete": 1, "kept": 2, "without_evidence": 2}


def test_a_flat_file_needs_no_dump() -> None:
    data = read(source(claim(1, "Rome is old ."), claim(2, ["Rome is", "old ."], "REFUTES")))
    assert (data.name, texts(data)) == ("fever", [["Rome is old."], ["Rome is old."]])


def test_pages_without_a_dump_are_refused() -> None:
    with pytest.raises(InputError, match=r"'dev\.jsonl' names its evidence by page and sentence, .* with --wiki DIR "):
        read(source(claim(1, [[[0, 0, "Rome", 0]]])))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "claim": "A."}, r"'dev\.jsonl', line 1: column 'evidence', 'label' is missing"),
        ({"id": 1, "claim": "A.", "evidence": [[[0, 0, "Rome", 0]]]}, r"line 1: column 'label' is missing"),
        (claim(1, [[[0, 0, "Rome", 0]]], "PERHAPS"), r"line 1: 'label' is 'PERHAPS', which is no known label"),
        (claim(1, [[[0, 0, "Rome", "0"]]]), r"line 1: 'evidence' holds \[0, 0, 'Rome', '0'\]; write \[annotation id, "),
        (claim(1, [[[0, 0, "Rome", True]]]), r"line 1: 'evidence' holds \[0, 0, 'Rome', True\]"),
        (claim(1, [[[0, 0, " ", 1]]]), r"line 1: 'evidence' holds \[0, 0, ' ', 1\]"),
        (claim(1, [[["Rome", 0]]]), r"line 1: 'evidence' holds \['Rome', 0\]"),
        (
            claim(1, [[[0, 0, "Rome", 0]], "Rome is old."]),
            r"line 1: 'evidence' mixes sets and other things: 'Rome is old",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_refused(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(source(row), pages=dump(tmp_path / "wiki", PAGES))


def test_only_the_wanted_pages_are_kept_and_reading_stops_when_all_are_found(tmp_path: Path) -> None:
    folder = dump(tmp_path / "wiki", PAGES, [{"id": "Oslo", "lines": "0\tOslo ."}])
    (folder / "wiki-003.jsonl").write_text("this is never read\n")
    told: list[tuple[int, int, str]] = []
    assert wiki.pages(folder, {"Rome", "Oslo"}, lambda *what: told.append(what)) == {
        "Rome": {0: "Rome is old.", 1: "", 2: "It has seven hills."},
        "Oslo": {0: "Oslo."},
    }
    sizes = [file.stat().st_size for file in sorted(folder.iterdir())]
    assert told == [
        (sizes[0], sum(sizes), "looking for 2 pages in wiki, 1 found"),
        (sizes[0] + sizes[1], sum(sizes), "looking for 2 pages in wiki, 2 found"),
    ]


def test_a_page_is_found_in_whatever_form_its_line_is(tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl"
    file.write_text(
        '{"lines": "0\\tA .", "id": "Rome"}\n\n{"id":"Lyon_-LRB-city-RRB-","lines":"0\\tB ."}\n'
        '{"id": "A \\"b\\" \\u00e9", "lines": "0\\tC ."}\n{"id": "Rome", "lines": "0\\tSecond ."}\n'
    )
    assert wiki.pages(file, {"Rome", "Lyon (city)", 'A "b" é', "Absent"}) == {
        "Rome": {0: "A."},
        "Lyon (city)": {0: "B."},
        'A "b" é': {0: "C."},
    }


def test_the_dump_may_lie_one_folder_below(tmp_path: Path) -> None:
    dump(tmp_path / "wiki-pages", PAGES)
    assert wiki.pages(tmp_path, {"Lyon (city)"}) == {"Lyon (city)": {0: "Lyon is in France."}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"id": "Rome", "lin',
            r"wiki-001\.jsonl', line 2: is no page of FEVER's dump, .* unpack wiki-pages\.zip anew",
        ),
        ('{"id": "Rome"}', r"line 2: is no page of FEVER's dump, .*KeyError: 'lines'"),
        ('{"id": "Rome", "lines": ["a"]}', r"line 2: is no page .*'lines' is \['a'\]"),
        ("[1]", r"line 2: is no page"),
        ('{"id": "R\xffm"}', r"line 2: is no page .*UnicodeDecodeError"),
    ],
)
def test_a_dump_that_is_not_whole_is_refused(tmp_path: Path, line: str, message: str) -> None:
    folder = dump(tmp_path / "wiki", PAGES[:1])
    with (folder / "wiki-001.jsonl").open("ab") as file:
        file.write(line.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        wiki.pages(folder, {"Rome"})


def test_a_folder_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there are no \.jsonl files in the wiki folder '.*nowhere'; unpack FEVER's"):
        wiki.pages(tmp_path / "nowhere", {"Rome"})


def test_it_is_loaded_by_name(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_bytes(source(claim(1, [[[0, 0, "Rome", 0]]])).data)
    data = load("fever", path=path, wiki=dump(tmp_path / "wiki", PAGES))
    assert (texts(data), data.counts["items"]) == ([["Rome is old."]], 1)

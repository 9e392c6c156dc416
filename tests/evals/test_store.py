from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.eval_records import C, S, call, judged, outcome, question, record, verdict
from tests.scripted import check

from corrigenda.errors import InputError
from corrigenda.evals.records import PairCalls, Record
from corrigenda.evals.store import Key, from_data, opened, read, read_all, to_line
from corrigenda.report import from_dict, to_dict
from corrigenda.types import Span

MANIFEST: dict[str, Any] = {
    "schema": "1.0",
    "corrigenda": "0.1",
    "dataset": {"name": "d"},
    "seed": 7,
    "methods": {"m": {}},
    "repeats": 1,
    "limit": 2,
    "items": 2,
    "concurrency": [1],
    "data": {"file": "d.jsonl"},
}


def full() -> Record:
    """A record with something in every field."""
    report = from_dict(to_dict(check("Rome has 5 hills. It is in Italy.")))  # numbers as finely as they are stored
    made = replace(
        outcome(replace(verdict(C, 0.98), signed=-0.98, span=Span(0, 17), reason="so"), final="B."),
        report=report,
        details={"samples": ["x", None], "deep": {"n": 1}},
        warnings=("look out",),
    )
    return replace(
        record("i1", made=made),
        kind="answer",
        group="g",
        label=C,
        sentence_labels=(S, None),
        tags={"category": "Rome"},
        question="How many “hills”?\u2028",
        calls=(call(), call("recall", 2.0, None, reused=True, error="Unreachable: x")),
        pairs=PairCalls(pairs=3, seconds=0.5, reused=1),
        before=judged(False),
        after=judged(None, abstained=True),
        judge="lexical",
        models={"chat": None, "verifier": "scripted"},
    )


def records_in(folder: Path) -> list[tuple[str, str]]:
    return [(r.item, r.method) for r in read(folder).records]


# As JSON ------------------------------------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was() -> None:
    line = to_line(full())
    assert "\n" not in line
    again = from_data(json.loads(line))
    made = full()
    assert replace(again, outcome=None) == replace(made, outcome=None)
    assert again.outcome is not None
    assert made.outcome is not None
    assert again.outcome.report is not None
    assert replace(again.outcome, report=made.outcome.report) == made.outcome
    assert to_line(again) == line


def test_half_a_character_is_kept() -> None:
    made = replace(record("i"), question="\ud800")
    assert from_data(json.loads(to_line(made))) == made


@pytest.mark.parametrize(
    ("details", "message"), [({"x": math.nan}, "not JSON compliant"), ({"x": object()}, "serializable")]
)
def test_what_json_cannot_hold_is_refused(details: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_line(record("i", made=replace(outcome(), details=details)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "2.0"}, r"a record of schema '2\.0'; this version of corrigenda reads 1\.0"),
        ({"schema": None}, "a record of schema None"),
        ({"kind": "poem"}, "not a record of an evaluation: 'poem' is none of"),
        ({"repeat": "first"}, "not a record of an evaluation: expected int, got 'first'"),
        ({"label": "true"}, "not a record of an evaluation: 'true' is not a valid Verdict"),
        ({"outcome": {"answer": "A."}}, "not a record of an evaluation: .*final_answer"),
        (
            {"outcome": {"answer": "A.", "final_answer": "A.", "report": {"schema": "9.0"}}},
            "this report has schema '9.0'",
        ),
    ],
)
def test_what_is_no_record_is_refused(change: dict[str, Any], message: str) -> None:
    data = {**json.loads(to_line(record("i"))), **change}
    with pytest.raises(InputError, match=message):
        from_data(data)


# Writing and reading ------------------------------------------------------------------------------------------------


def test_records_are_kept_one_a_line_and_found_again(tmp_path: Path) -> None:
    with opened(tmp_path / "run", MANIFEST) as store:
        assert not store.done(Key("a", "m", 0))
        store.append(record("a", made=outcome()))
        store.append(record("b"))
        assert store.done(Key("a", "m", 0))
    with opened(tmp_path / "run", MANIFEST) as store:
        assert [store.done(Key(i, "m", 0)) for i in "abc"] == [True, True, False]
        assert [store.done(Key(i, "m", 0), retry_failed=True) for i in "ab"] == [True, False]
        store.append(record("b", made=outcome()))
    stored = read(tmp_path / "run")
    assert [(r.item, r.status) for r in stored.records] == [("a", "ok"), ("b", "ok")]
    assert stored.manifest == MANIFEST
    assert stored.warnings == ()
    assert read(tmp_path / "run" / "records.jsonl").records == stored.records


def test_a_record_that_json_cannot_hold_is_written_as_failed(tmp_path: Path) -> None:
    with opened(tmp_path, MANIFEST) as store:
        kept = store.append(record("a", made=outcome(verdict(C, math.inf))))
    assert kept.status == "failed"
    assert (
        kept.reason == "the method 'm' gave what no record can hold: Out of range float values are not JSON compliant"
    )
    assert read(tmp_path).records == (kept,)


def test_a_file_that_was_cut_is_repaired_and_nothing_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path, MANIFEST) as store:
        store.append(record("a"))
    file = tmp_path / "records.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:40])
    reading = read(tmp_path)
    assert [r.item for r in reading.records] == ["a"]
    assert reading.warnings == (f"{str(file)!r} ends in the middle of a line, which is left out",)
    assert file.read_bytes() == whole + whole[:40]
    with opened(tmp_path, MANIFEST) as store:
        assert store.warnings == (
            f"{str(file)!r} ended in the middle of a line; what was left of it is in {str(tmp_path / 'records.cut')!r}",
        )
        store.append(record("b"))
    assert records_in(tmp_path) == [("a", "m"), ("b", "m")]
    assert (tmp_path / "records.cut").read_bytes() == whole[:40] + b"\n"


def test_a_file_that_lacks_only_the_end_of_its_last_line_is_whole(tmp_path: Path) -> None:
    with opened(tmp_path, MANIFEST) as store:
        store.append(record("a"))
    file = tmp_path / "records.jsonl"
    file.write_bytes(file.read_bytes().removesuffix(b"\n"))
    with opened(tmp_path, MANIFEST) as store:
        assert store.warnings == ()
        store.append(record("b"))
    assert records_in(tmp_path) == [("a", "m"), ("b", "m")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", r"records\.jsonl', line 2 is not valid JSON"),
        ('{"schema": NaN}', r"records\.jsonl', line 2 is not valid JSON \(NaN is not JSON\)"),
        ("[]", r"records\.jsonl', line 2 holds no JSON object"),
        ('{"schema": "1.0"}', r"records\.jsonl', line 2: not a record of an evaluation"),
    ],
)
def test_a_line_that_is_no_record_is_an_error_and_the_file_stays(tmp_path: Path, line: str, message: str) -> None:
    with opened(tmp_path, MANIFEST) as store:
        store.append(record("a"))
    file = tmp_path / "records.jsonl"
    file.write_text(f"{file.read_text()}{line}\n{to_line(record('b'))}\n")
    before = file.read_bytes()
    with pytest.raises(InputError, match=message):
        read(tmp_path)
    with pytest.raises(InputError, match=message), opened(tmp_path, MANIFEST):
        pass
    assert file.read_bytes() == before


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with (
        opened(tmp_path, MANIFEST),
        pytest.raises(InputError, match=r"another run is writing to .*; wait for it, or give this one its own folder"),
        opened(tmp_path, MANIFEST),
    ):
        pass
    with opened(tmp_path, MANIFEST):
        pass


def test_a_lock_of_a_process_that_died_is_no_lock(tmp_path: Path) -> None:
    code = (
        "import json, os, sys, pathlib\n"
        "from corrigenda.evals.store import opened\n"
        "with opened(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])):\n"
        "    os._exit(9)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), json.dumps(MANIFEST)]
    assert subprocess.run(command, check=False).returncode == 9
    with opened(tmp_path, MANIFEST):
        pass


def test_a_folder_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match=r"the folder .*file/run' cannot be written: .*; give another --out"),
        opened(tmp_path / "file" / "run", MANIFEST),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 8}, r"run' holds another run: seed: 7 there, 8 here; give another --out, or --force to set it"),
        ({"dataset": {"name": "e"}}, r"another run: dataset\.name: \"d\" there, \"e\" here; give"),
        ({"methods": {"m": {"n": 9}}}, r"another run: methods\.m\.n: null there, 9 here; give"),
        ({"corrigenda": "9.9"}, r"another run: corrigenda: \"0\.1\" there, \"9\.9\" here; give"),
        ({"settings": {"k": 0.7, "floor": 0.6}}, r"run: settings\.k: null there, 0\.7 here \(and settings\.floor\); "),
        ({"files": {"chat": "b" * 300}}, r"another run: files\.chat: null there, \"b{198}… here; give"),
    ],
)
def test_another_run_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with opened(tmp_path / "run", MANIFEST) as store:
        store.append(record("a"))
    with pytest.raises(InputError, match=message), opened(tmp_path / "run", {**MANIFEST, **change}):
        pass


def test_methods_repeats_and_items_may_be_added(tmp_path: Path) -> None:
    with opened(tmp_path, MANIFEST) as store:
        store.append(record("a"))
    more = {"methods": {"n": {"x": 1}}, "repeats": 3, "limit": None, "items": 9, "concurrency": [4]}
    with opened(tmp_path, {**MANIFEST, **more, "data": {"file": "moved.jsonl"}}) as store:
        assert len(store.records) == 1
    with opened(tmp_path, MANIFEST):
        pass
    assert read(tmp_path).manifest == {
        **MANIFEST,
        "methods": {"m": {}, "n": {"x": 1}},
        "repeats": 3,
        "limit": None,
        "items": 9,
        "concurrency": [1, 4],
        "data": {"file": "moved.jsonl"},
    }


def test_force_sets_the_other_run_aside(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        with opened(tmp_path, {**MANIFEST, "seed": seed}, force=True) as store:
            assert store.records == ()
            store.append(record(f"seed{seed}"))
    assert records_in(tmp_path) == [("seed3", "m")]
    assert [records_in(tmp_path / f"records.jsonl.{n}")[0][0] for n in (1, 2)] == ["seed1", "seed2"]
    assert json.loads((tmp_path / "manifest.json.1").read_text())["seed"] == 1


def test_records_without_a_manifest_are_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(to_line(record("a")) + "\n")
    assert len(read(tmp_path).records) == 1
    with (
        pytest.raises(InputError, match=r"has records but no manifest\.json that says what they are of"),
        opened(tmp_path, MANIFEST),
    ):
        pass


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize(
    "manifest",
    [
        {"format": "corrigenda-index", "version": 1, "files": []},
        {"manifest_version": 3, "name": "a browser extension"},
        {**MANIFEST, "methods": ["m"]},
        {name: value for name, value in MANIFEST.items() if name != "dataset"},
        {},
    ],
)
def test_a_manifest_of_something_else_is_left_alone(tmp_path: Path, manifest: dict[str, Any], force: bool) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "records.jsonl").write_text(to_line(record("a")) + "\n")
    message = r"' holds no run.*: its manifest\.json is .*of something else, .*left alone; give another --out"
    with pytest.raises(InputError, match=message), opened(tmp_path, MANIFEST, force=force):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "records.jsonl"]
    assert json.loads((tmp_path / "manifest.json").read_text()) == manifest
    assert read(tmp_path).manifest == {}


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("text", ["songs\n", '\n{"artist": "X", "item": 1}\n', "[1]\n", "[" * 100_000 + "\n"])
def test_records_of_something_else_are_left_alone(tmp_path: Path, text: str, force: bool) -> None:
    (tmp_path / "records.jsonl").write_text(text)
    message = r"' holds no run of corrigenda eval: its records\.jsonl is of something else, and is left alone; give"
    with pytest.raises(InputError, match=message), opened(tmp_path, MANIFEST, force=force):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]
    assert (tmp_path / "records.jsonl").read_text() == text


def test_records_without_a_manifest_can_be_set_aside(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(to_line(record("a")) + "\n")
    with opened(tmp_path, MANIFEST, force=True) as store:
        assert store.records == ()
    assert records_in(tmp_path / "records.jsonl.1") == [("a", "m")]


def test_several_runs_are_read_as_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with opened(tmp_path / name, MANIFEST) as store:
            store.append(record(name))
    found = read_all([tmp_path / "one", tmp_path / "two"])
    assert [r.item for r in found.records] == ["one", "two"]
    with pytest.raises(InputError, match=r"both have a record of item 'one' under the method 'm'; name one of them"):
        read_all([tmp_path / "one", tmp_path / "one" / "records.jsonl"])


def test_no_records_and_no_file_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"the record file .* cannot be read: No such file.*; give the folder of a run"
    ):
        read(tmp_path)
    (tmp_path / "records.jsonl").write_text("")
    with pytest.raises(InputError, match="there are no records yet; run an evaluation first"):
        read_all([tmp_path])


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_manifest_that_is_none_is_an_input_error(tmp_path: Path, text: str, force: bool) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with (
        pytest.raises(InputError, match=r"the manifest .* cannot be read: .*; choose another --out folder"),
        opened(tmp_path, MANIFEST, force=force),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_question_records_round_trip() -> None:
    made = question(1, True, False)
    assert from_data(json.loads(to_line(made))) == made

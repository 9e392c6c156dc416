"""Records with numbers that are none: refused with the place when read, written as failed when a method gives them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.eval_records import C, call, judged, outcome, record, reported, scored, verdict

from corrigenda.errors import InputError
from corrigenda.evals.records import PairCalls, Record
from corrigenda.evals.store import from_data, opened, read, to_line

MANIFEST = {"schema": "1.0", "corrigenda": "0.1", "dataset": {"name": "d"}, "methods": {}}


def whole() -> Record:
    made = replace(outcome(replace(verdict(C, 0.98), signed=-0.98)), report=reported(scored(-0.98)).report)
    return record(
        "a", made=made, latency_s=1.5, calls=(call(),), pairs=PairCalls(pairs=1, seconds=0.5), before=judged(True)
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("latency_s", '"nan"', "expected a number, got 'nan'"),
        ("latency_s", '"1.5"', r"expected a number, got '1\.5'"),
        ("latency_s", "true", "expected a number, got True"),
        ("latency_s", "1e999", "expected a finite number"),
        ("latency_s", "1" + "0" * 400, "expected a finite number"),
        ("latency_s", "-1", "latency_s must be at least 0, got -1"),
        ("repeat", "1e999", "expected int, got inf"),
        ("repeat", "true", "expected int, got True"),
        ("repeat", "-1", "repeat must be at least 0, got -1"),
        ("calls.0.seconds", "-2", r"seconds must be at least 0, got -2"),
        ("calls.0.prompt_tokens", "-2", "prompt_tokens must be at least 0, got -2"),
        ("pairs.pairs", "-2", "pairs must be at least 0, got -2"),
        ("before.details", '{"x": [1e999]}', "expected a finite number"),
        ("outcome.score", "1e999", "expected a finite number"),
        ("outcome.verdicts.0.score", "1e999", "expected a finite number"),
        ("outcome.verdicts.0.signed", "1e308", r"signed must be from -1 to 1, got 1e\+308"),
        ("outcome.details", '{"x": -1e999}', "expected a finite number"),
        ("outcome.report.claims.0.signed", "1e308", r"signed must be from -1 to 1, got 1e\+308"),
        ("outcome.report.claims.0.signed", "1e999", "expected a finite number"),
        ("outcome.report", "[]", "not a corrigenda report"),
        ("outcome", "3", "has no attribute"),
        ("calls", "{}", "expected a list, got {}"),
        ("outcome.details", '{"x": ' + "[" * 5000 + "]" * 5000 + "}", "recursion"),
    ],
)
def test_a_number_that_is_none_is_an_input_error_with_its_line(
    tmp_path: Path, path: str, value: str, message: str
) -> None:
    data: Any = json.loads(to_line(whole()))
    *way, last = path.split(".")
    part = data
    for step in way:
        part = part[int(step)] if step.isdigit() else part[step]
    part[last] = "PUT HERE"
    line = json.dumps(data).replace('"PUT HERE"', value)
    (tmp_path / "records.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=rf"records\.jsonl', line 1.*{message}"):
        read(tmp_path)


def test_the_record_itself_is_one() -> None:
    assert to_line(from_data(json.loads(to_line(whole())))) == to_line(whole())


def test_a_method_that_gives_a_score_out_of_range_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path, MANIFEST) as store:
        kept = store.append(record("a", made=outcome(replace(verdict(C), signed=7.0))))
        store.append(record("b", made=outcome()))
    assert (kept.status, kept.outcome) == ("failed", None)
    assert kept.reason is not None
    assert kept.reason.endswith(
        "no record can hold: not a record of an evaluation: signed must be from -1 to 1, got 7.0"
    )
    assert [(r.item, r.status) for r in read(tmp_path).records] == [("a", "failed"), ("b", "ok")]

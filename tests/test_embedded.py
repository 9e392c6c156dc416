"""End to end on the real embedded models: what a person sees on the first day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from corrigenda import Corrigenda, ModelError, Settings, Status, Verdict, json_schema, models, to_dict
from corrigenda.cli import main
from corrigenda.report import from_dict

pytestmark = pytest.mark.embedded
DEMO = Path(__file__).parents[1] / "demo"


@pytest.fixture(scope="module")
def c() -> Iterator[Corrigenda]:
    pytest.importorskip("xllamacpp")
    try:
        models.path(models.DEFAULT)
    except ModelError as exc:
        pytest.skip(str(exc))
    with Corrigenda(settings=Settings(seed=7)) as corrigenda:
        yield corrigenda


def test_a_planted_false_claim_is_found_and_repaired(c: Corrigenda) -> None:
    answer = (DEMO / "answer.txt").read_text("utf-8")
    report = c.check_sync(answer, context=(DEMO / "context.txt").read_text("utf-8"))
    flagged = report.with_verdict(Verdict.CONTRADICTED)
    assert [claim.span.text_of(answer) for claim in flagged if claim.span] == ["The tower is 230 metres tall."]
    assert report.status is Status.CORRECTED
    assert report.final_answer == answer.replace("230", "330")
    assert list(Draft202012Validator(json_schema()).iter_errors(to_dict(report))) == []


def test_ask_answers_recalls_beside_it_and_checks(c: Corrigenda) -> None:
    report = c.ask_sync("What is the capital of Australia?")
    assert "Canberra" in report.answer
    assert report.references
    assert report.claims
    assert all(claim.scores is not None for claim in report.claims if claim.verdict is not Verdict.NOT_CHECKABLE)
    by_stage = {t.stage: t for t in report.timings}
    assert by_stage["recall"].start_s < by_stage["generate"].end_s
    assert report.usage["generate"].completion_tokens
    assert report.decision is not None
    assert list(Draft202012Validator(json_schema()).iter_errors(to_dict(report))) == []


def test_the_command_line_on_the_same_files(c: Corrigenda, capsys: pytest.CaptureFixture[str]) -> None:
    del c  # only so that this is skipped without the model
    arguments = ["--answer", "The Eiffel Tower stands in Paris.", "--context", str(DEMO / "context.txt"), "--json"]
    assert main(["check", *arguments, "--timeout", "300"]) == 0
    report = from_dict(json.loads(capsys.readouterr().out))
    assert report.models["verifier"] == "chat:local:qwen2.5-coder-1.5b-instruct + numbers"
    assert (report.final_answer, report.status) == ("The Eiffel Tower stands in Paris.", Status.VERIFIED)

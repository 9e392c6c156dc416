"""The command `corrigenda calibrate`: from a file of scores to a policy that the pipeline takes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from tests.eval_records import C, S, record, reported, scored
from tests.scripted import FIVE_HILLS

from corrigenda import Corrigenda, Settings, Verdict
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.cli import main
from corrigenda.evals import store

pytest.importorskip("scipy", reason="the extra `eval` is not installed")


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """Twenty-five true claims at -0.4 and as many false ones at -0.8."""
    lines = [
        json.dumps({"signed": s, "label": label, "group": f"{label}{i}"})
        for i in range(25)
        for s, label in ((-0.4, "supported"), (-0.8, "contradicted"))
    ]
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def test_a_policy_is_fitted_written_and_used(plain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "new" / "mine.json")
    assert main(["calibrate", plain, "--policy", "fixed", "--verifier", "scripted", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:4] == [
        "policy    fixed: threshold 0.6",
        "verifier  scripted",
        "objective f1",
        "fitted on 25 supported, 25 contradicted, 0 unverified claims in 50 answers, 50 groups",
    ]
    assert "  precision           1.000 (1.000 to 1.000), n = 25" in printed
    assert "  flagged unverified  -, n = 0" in printed
    assert "fitted without each fold: threshold 0.6; threshold 0.6" in printed
    assert printed.endswith(f"Written: {out!r}; use it with --policy {out}\n")
    nli = ScriptedEntailer({"rules": FIVE_HILLS})
    with Corrigenda(settings=Settings(llm="none", decomposer="deterministic", policy=out), nli=nli) as c:
        report = c.check_sync("Rome has 5 hills.", context="Rome stands on seven hills.")
    assert report.decision is not None
    assert (report.decision.policy, report.decision.tau, report.warnings) == ("fixed", 0.6, ())
    assert [claim.verdict for claim in report.claims] == [Verdict.CONTRADICTED]


def test_the_file_alone_is_printed_as_json(plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", plain, "--policy", "conformal", "--alpha", "0.2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["policy"], printed["objective"]) == ("conformal", {"name": "conformal", "alpha": 0.2})
    assert printed["options"] == {"threshold": pytest.approx(0.4, abs=1e-6), "alpha": 0.2, "support": 0.5}
    assert printed["guarantee"].startswith("A new true claim is flagged with a probability of at most 0.2")


def test_the_records_of_an_evaluation_name_the_verifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        record(f"{i} {label}", label=label, made=reported(scored(s)), method="corrigenda", models={"verifier": "nli:x"})
        for i in range(20)
        for s, label in ((-0.4, S), (-0.8, C))
    ]
    (tmp_path / store.RECORDS).write_text("".join(store.to_line(r) + "\n" for r in records), "utf-8")
    assert main(["calibrate", str(tmp_path), "--objective", "cost", "--cost-false-positive", "5"]) == 0
    printed = capsys.readouterr().out
    assert "verifier  nli:x\nobjective cost, false_negative 1, false_positive 5\n" in printed
    assert "Note: every answer has one claim, so that σ = 0: k cannot be told" in printed
    assert printed.endswith("Written: nothing; keep it with --out FILE\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "mine.txt"], "--out 'mine.txt': --policy takes a file whose name ends in .json"),
        (["--alpha", "0.01", "--objective", "conformal"], "needs scores of at least 99 true claims"),
        (["--policy", "paper"], "every answer has one claim"),
        (["--objective", "f1", "--policy", "conformal"], "cannot be fitted for the objective 'f1'"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, plain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", plain, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_full_disk_is_told_and_leaves_what_was_there(
    plain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "mine.json"
    out.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    assert main(["calibrate", plain, "--out", str(out)]) == 3
    assert capsys.readouterr().err.endswith(
        f"the policy file {str(out)!r} cannot be written: No space left on device; make room, or name another place\n"
    )
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.json", "scores.jsonl"]

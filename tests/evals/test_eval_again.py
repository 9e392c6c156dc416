"""A run that is called again: refused when it is made of something else, and what failed is done anew when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.eval_commands import RUN, evaluate, prepare, script, told
from tests.eval_records import outcome, record
from tests.evaluating import CHAT, NLI, data_set
from tests.passages import PASSAGES, write_jsonl
from tests.scripted import ENTAIL, Rules

from corrigenda import backends
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import BackendError
from corrigenda.evals import command, printing
from corrigenda.evals.planning import make_plan, manifest_of
from corrigenda.evals.store import opened, read
from corrigenda.methods import make
from corrigenda.retrieval.build import build_index
from corrigenda.settings import Settings
from corrigenda.types import Pair


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder where runs write their records and no reports, which take most of the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "report", lambda *_, **__: None)
    return prepare(tmp_path)


# Another experiment in one folder -----------------------------------------------------------------------------------


def rows(path: str, *found: dict[str, Any]) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")


def fever_page(text: str) -> None:
    rows("wiki/wiki-001.jsonl", {"id": "Rome", "text": "x", "lines": f"0\t{text}"})


def claims() -> None:
    """A claim with FEVER's tokenisation, in both forms, with FEVER's dump beside it; and other evidence for it."""
    rows("flat.jsonl", {"claim": "Rome -LRB- city -RRB- is old .", "evidence": "Rome is old .", "label": "SUPPORTS"})
    rows("dev.jsonl", {"id": 1, "claim": "Rome is old .", "label": "SUPPORTS", "evidence": [[[1, 1, "Rome", 0]]]})
    fever_page("Rome is old .")


def passages(*found: Any) -> None:
    write_jsonl(Path("passages.jsonl"), found or PASSAGES)
    build_index("passages.jsonl", "index", replace=Path("index").exists())


NLI_ONLY = ("--llm", "none", "--nli", "scripted:nli.json", "--methods", "nli-fixed")
FLAT = ("claims", "--data", "flat.jsonl", *NLI_ONLY)
FEVER = ("fever", "--data", "dev.jsonl", "--wiki", "wiki", *NLI_ONLY)
BASE = (*RUN, "--methods", "base", "--judge", "lexical")
RAG = (*RUN, "--methods", "rag", "--judge", "lexical", "--retrieve")
JUDGED = (*RUN, "--methods", "base", "--judge", "nli:scripted:judge.json")


@pytest.mark.parametrize(
    ("first", "change", "second", "message"),
    [
        (FLAT, None, (*FLAT, "--detokenise", "off"), "the item 'line-1' has another text, evidence or label"),
        (FLAT, None, (*FLAT, "--detokenise", "off"), '(data.detokenise: "auto" there, "off" here)'),
        (FEVER, lambda: fever_page("Rome is large ."), FEVER, "the item '1' has another text, evidence or label here"),
        (BASE, lambda: script(Path("chat.json"), CHAT[:3]), BASE, 'files.chat: "'),
        (FLAT, lambda: script(Path("nli.json"), [{"scores": ENTAIL}]), FLAT, 'files.verifier: "'),
        (JUDGED, lambda: script(Path("judge.json"), [{"scores": ENTAIL}]), JUDGED, 'files.judge: "'),
        ((*RAG, "index"), lambda: passages(PASSAGES[0]), (*RAG, "index"), 'files.retrieve: "'),
        ((*RAG, "passages.jsonl"), lambda: passages(PASSAGES[0]), (*RAG, "passages.jsonl"), 'files.retrieve: "'),
        (BASE, None, (*BASE, "--floor", "0.6"), "settings.floor: null there, 0.6 here; give another --out"),
        (BASE, None, (*BASE, "--no-reuse"), "reuse: true there, false here"),
        (BASE, None, (*BASE, "--correct"), "correct: null there, true here"),
        (BASE, None, (*BASE, "--judge", "nli"), 'models.judge: "lexical" there, "nli" here'),
        (BASE, None, (*BASE, "--split", "test"), 'dataset.split: null there, "test" here'),
    ],
)
def test_what_a_run_is_made_of_cannot_change_on_the_way(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    first: Sequence[str],
    change: Callable[[], None] | None,
    second: Sequence[str],
    message: str,
) -> None:
    claims()
    passages()
    script(here / "judge.json", NLI)
    code, _, err = told(capsys, *first, "--out", "run")
    assert code == 0, err
    kept = (here / "run" / "records.jsonl").read_bytes()
    assert evaluate(*first, "--out", "run") == 0
    if change is not None:
        change()
    code, _, err = told(capsys, *second, "--out", "run")
    assert code == 2
    assert "'run' holds another run: " in err
    assert message in err
    assert (here / "run" / "records.jsonl").read_bytes() == kept
    assert evaluate(*second, "--out", "run", "--force") == 0


@pytest.mark.parametrize("spec", [{"llm": "local:x.gguf"}, {"nli": "onnx:model"}, {"judge": "nli:onnx:model"}])
def test_another_model_under_the_same_path_is_another_run(here: Path, spec: dict[str, str]) -> None:
    settings = Settings(**({"llm": "none", "nli": "scripted:nli.json"} | spec))  # type: ignore[arg-type]
    plan = make_plan(data_set(), {"base": make("base")}, Settings(llm="scripted:x"))
    (here / "model").mkdir()
    role = {"llm": "chat", "nli": "verifier"}.get(next(iter(spec)), "judge")
    for number, weights in enumerate((b"weights", b"other weights")):
        (here / "x.gguf").write_bytes(weights)
        (here / "model" / "model.onnx").write_bytes(weights)
        manifest = manifest_of(plan, settings, task=None, split=None, limit=None)
        if number == 0:
            with opened(here / "run", manifest) as store:
                store.append(record("a", made=outcome()))
            continue
        with pytest.raises(Exception, match=rf"another run: files\.{role}: "), opened(here / "run", manifest):
            pass


# Told first ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        ((*RAG, "index"), "tantivy", 'run: pip install "corrigenda[retrieval]"'),
        ((*BASE, "--nli", "onnx:model"), "onnxruntime", 'run: pip install "corrigenda[onnx]"'),
        ((*BASE, "--nli", "chat"), "xllamacpp", 'run: pip install "corrigenda[embedded]"'),
        ((*RUN, "--methods", "base", "--judge", "nli:onnx:model"), "onnxruntime", "corrigenda[onnx]"),
        ((*BASE, "--judge", "chat:local"), "xllamacpp", "corrigenda[embedded]"),
        ((*RAG, "nowhere"), None, "nowhere"),
        ((*RAG, "qa.csv"), None, "the index 'qa.csv' is a file, not the folder of an index"),
        ((*BASE, "--prompts", "qa.csv"), None, "qa.csv"),
        ((*BASE, "--policy", "nli.json"), None, "nli.json"),
        ((*BASE, "--nli", "scripted:qa.csv"), None, "scripted:qa.csv: not valid JSON"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_a_folder_is_made(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: Sequence[str],
    missing: str | None,
    message: str,
) -> None:
    passages()
    monkeypatch.setattr(backends, "find_spec", lambda name: None if name == missing else find_spec(name))
    code, _, err = told(capsys, *arguments)
    assert code == 2
    assert message in err
    assert not (here / "corrigenda-eval").exists()


# What failed is done anew -------------------------------------------------------------------------------------------

BROKEN: Rules = [{"error": {"status": 500, "body": "out of order"}}]


def breaks(patch: pytest.MonkeyPatch, name: str, when: Callable[[Sequence[Pair]], bool]) -> None:
    """Let the scripted verifier called `name` fail as if its server were down."""
    real = ScriptedEntailer.entail

    async def entail(self: ScriptedEntailer, pairs: Sequence[Pair]) -> Any:
        if self.name == name and when(pairs):
            raise BackendError("out of order")
        return await real(self, pairs)

    patch.setattr(ScriptedEntailer, "entail", entail)


def test_where_the_judge_fails_the_run_is_no_success_and_only_the_judge_is_asked_again(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "report", printing.report)
    script(here / "judge.json", NLI)
    run = (*RUN, "--methods", "base,nli-fixed", "--judge", "nli:scripted:judge.json", "--out", "run")
    with monkeypatch.context() as patch:
        breaks(patch, "scripted:judge.json", lambda pairs: "Oslo" in pairs[0].premise)
        code, out, _ = told(capsys, *run)
    assert code == 0
    assert (
        "- The judge failed on 1 of 4 answers, which are undecided (most often, 1 times: BackendError: out of order); "
        "--retry-failed judges them anew."
    ) in " ".join(out.split())
    first = {(r.question, r.method): r for r in read(here / "run").records}
    code, out, err = told(capsys, *run, "--retry-failed", "--script-log", "log.jsonl")
    assert code == 0
    assert "6 of 6 are there, 2 of them to be judged anew" in err
    assert "The judge failed" not in out
    again = {(r.question, r.method): r for r in read(here / "run").records}
    assert {key: (r.outcome, r.calls, r.latency_s) for key, r in again.items()} == {
        key: (r.outcome, r.calls, r.latency_s) for key, r in first.items()
    }
    changed = [r for key, r in again.items() if r.after != first[key].after]
    assert [(r.question, r.method, r.after and r.after.correct) for r in changed] == [
        ("What is oslo?", "base", False),
        ("What is oslo?", "nli-fixed", False),
    ]
    asked = [json.loads(line) for line in (here / "log.jsonl").read_text("utf-8").splitlines()]
    assert [entry["call"] for entry in asked] == ["entail"]
    assert len((here / "run" / "records.jsonl").read_text("utf-8").splitlines()) == 8


def test_a_judge_that_fails_always_ends_with_3(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(here / "judge.json", BROKEN)
    code, _, err = told(capsys, *JUDGED, "--out", "run")
    assert code == 3
    assert "this run measured nothing: the judge failed on every answer; once that is mended, go on with --retry" in err


def test_a_verifier_that_fails_on_every_claim_ends_with_3_and_is_tried_again_when_asked(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "report", printing.report)
    claims()
    with monkeypatch.context() as patch:
        breaks(patch, "scripted:nli.json", lambda _: True)
        code, out, err = told(capsys, *FLAT, "--out", "run")
    assert code == 3
    assert "this run measured nothing: no claim could be scored; once that is mended, go on with --retry-failed" in err
    assert "1 of 1 claims of nli-fixed could not be scored (" in " ".join(out.split())
    assert evaluate(*FLAT, "--out", "run") == 3
    code, out, _ = told(capsys, *FLAT, "--out", "run", "--retry-failed")
    assert code == 0
    assert "could not be scored" not in out


def test_a_run_in_which_one_claim_was_scored_measured_something(here: Path) -> None:
    rows("two.jsonl", *({"claim": f"Claim {n}.", "evidence": "It is so.", "label": "SUPPORTS"} for n in "ab"))
    script(here / "nli.json", [{"hypothesis_contains": "a.", "error": "too long"}, {"scores": ENTAIL}])
    assert evaluate("claims", "--data", "two.jsonl", *NLI_ONLY, "--out", "run") == 0


# Outputs ------------------------------------------------------------------------------------------------------------


def test_a_report_is_not_written_over_that_of_another_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims()
    for run, folder in ((BASE, "one"), (FLAT, "two")):
        assert evaluate(*run, "--out", folder) == 0
        (here / folder / "summary.json").write_text("{}")
    for arguments in (["one", "--out", "two"], ["one", "two", "--out", "two"], ["one/records.jsonl", "--out", "two"]):
        code, _, err = told(capsys, "report", *arguments)
        assert code == 2
        assert "'two' holds another run, whose summary and report would be written over; give another --out, or" in err
        assert (here / "two" / "summary.json").read_text() == "{}"
    assert evaluate("report", "two/records.jsonl", "--out", "./two") == 0
    assert evaluate("report", "one", "two", "--out", "two", "--force") == 0
    summary = json.loads((here / "two" / "summary.json").read_text("utf-8"))
    assert summary["datasets"] == ["claims:flat", "truthfulqa"]
    assert summary["run"]["dataset"]["name"] is None
    assert summary["run"]["notes"][0].startswith("These are 2 runs, which differ in dataset.name, dataset.sha256")


def test_the_summary_says_what_was_run(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "report", printing.report)
    claims()
    run = ("fever", "--data", "dev.jsonl", "--wiki", "wiki", "--llm", "none", "--nli", "scripted:nli.json")
    code, out, _ = told(capsys, *run, "--methods", "corrigenda", "--set", "corrigenda.k=0.5", "--out", "run", "--json")
    assert code == 0
    found = json.loads(out)["run"]
    assert found["dataset"]["file"] == "dev.jsonl"
    assert found["dataset"]["counts"]["items"] == 1
    assert {name: found[name] for name in ("seed", "limit", "split", "task", "correct", "reuse", "concurrency")} == {
        "seed": 7,
        "limit": None,
        "split": None,
        "task": None,
        "correct": None,
        "reuse": True,
        "concurrency": [4],
    }
    assert (found["methods"]["corrigenda"]["k"], found["settings"]["k"], found["settings"]["policy"]) == (
        0.5,
        0.7,
        "bounded",
    )
    assert found["policies"] == {
        "corrigenda": {
            "policy": "bounded",
            "k": 0.5,
            "floor": 0.5,
            "ceiling": 0.9,
            "threshold": None,
            "alpha": None,
            "provisional": True,
        }
    }
    assert list(found["files"]) == ["verifier"]
    assert "FEVER's tokenisation of claims and evidence was undone" in found["notes"]
    code, again, _ = told(capsys, "report", "run", "--json")
    assert json.loads(again)["run"] == found


# The judge measured -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "questions"),
    [(("mini", "--limit", "5"), 5), (("mini",), 8), (("mini", "--limit", "3", "--task", "all"), 3)],
)
def test_a_judge_is_measured_on_as_many_questions_as_were_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], questions: int
) -> None:
    code, out, _ = told(capsys, "judge", *arguments, "--judge", "lexical", "--json")
    assert code == 0
    assert json.loads(out)["questions"] == questions


def test_a_judge_is_measured_on_the_answers_of_ones_own_that_it_can_be(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = {"correct": ["Seven hills.", "Just seven."], "incorrect": ["Five hills.", "Just five."]}
    found = [{"id": n, "question": f"Hills {n}?", "answer": "Seven.", **(lists if n % 2 else {})} for n in range(8)]
    rows("own.jsonl", *found)
    code, out, err = told(capsys, "judge", "answers", "--data", "own.jsonl", "--limit", "3", "--judge", "lexical")
    assert code == 0
    assert "questions 3" in out
    assert "answers:own: 4 of 8 items can be used" in err

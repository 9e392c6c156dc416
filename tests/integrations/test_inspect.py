"""The Inspect scorer in real, tiny evaluations, with Inspect's own mock model and scripted verifiers."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer
from inspect_ai.solver import generate
from tests.scripted import ANSWER, ASKED, CONTRADICT, ENTAIL, FIVE_HILLS, NEUTRAL, Rules, make

from corrigenda import ConfigError, Corrigenda
from corrigenda.integrations.inspect_scorer import claims
from corrigenda.report import from_dict

pytestmark = [
    # Inspect's own: it uses a parameter that tenacity gives up, and leaves streams to the garbage collector.
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <function Memory:pytest.PytestUnraisableExceptionWarning"),
]
HILLS = "Rome stands on seven hills."
QUESTION = "How many hills has Rome?"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep Inspect's logs and its other files in the test's folder, and its display quiet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def corrigenda() -> Iterator[Corrigenda]:
    with make(ASKED) as made:
        yield made


def run(scorer: Scorer, samples: list[Sample], outputs: list[str]) -> EvalLog:
    """Run a real evaluation in which the model gives `outputs`, one per sample."""
    replies = [ModelOutput.from_content("mockllm/model", text) for text in outputs]
    for reply in replies:
        # Without it, the mock model fetches a tokenizer's table from the network to count with.
        reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=replies)
    task = Task(dataset=samples, solver=generate(), scorer=scorer)
    [log] = eval(task, model=model, log_dir="logs", max_samples=1)
    return log


def scores(log: EvalLog) -> list[Score]:
    assert log.status == "success", log.error
    return [next(iter((sample.scores or {}).values())) for sample in log.samples or []]


def means(log: EvalLog) -> dict[str, tuple[float, int | None]]:
    assert log.results is not None
    return {s.name: (s.metrics["mean"].value, s.unscored_samples) for s in log.results.scores}


def test_an_output_is_scored_claim_by_claim_against_the_target(corrigenda: Corrigenda) -> None:
    log = run(claims(corrigenda), [Sample(input=QUESTION, target=HILLS)], [ANSWER])
    [found] = scores(log)
    assert found.value == {"supported": 0.5, "contradicted": 0.5, "unverified": 0.0, "failed": 0.0}
    assert found.answer == ANSWER
    assert found.explanation == (
        "1 of 2 claims are contradicted\ncontradicted -0.98: Rome has 5 hills.\nsupported +0.98: It is in Italy."
    )
    report = from_dict((found.metadata or {})["corrigenda"])
    assert (report.question, report.final_answer) == (QUESTION, ANSWER)
    assert [r.source for r in report.references] == ["target"]


def test_the_means_are_over_the_samples_that_could_be_scored(corrigenda: Corrigenda) -> None:
    outputs = [ANSWER, "It is in Italy.", "", "I don't know.", "Do you like Rome?"]
    log = run(claims(corrigenda), [Sample(input=QUESTION, target=HILLS) for _ in outputs], outputs)
    assert [s.reason for s in scores(log)] == [None, None, "no_response", "refusal", "no_checkable_claim"]
    assert [isinstance(s.value, float) and math.isnan(s.value) for s in scores(log)] == [False, False, True, True, True]
    assert means(log) == {
        "supported": (0.75, 3),
        "contradicted": (0.25, 3),
        "unverified": (0.0, 3),
        "failed": (0.0, 3),
    }


@pytest.mark.parametrize(
    ("nli", "reason", "value"),
    [
        ([{"error": "broken"}], "scoring_failed", None),
        (
            [{"hypothesis_contains": "5 hills", "error": "broken"}, {"scores": ENTAIL}],
            None,
            {"supported": 0.5, "contradicted": 0.0, "unverified": 0.0, "failed": 0.5},
        ),
        ([{"scores": NEUTRAL}], None, {"supported": 0.0, "contradicted": 0.0, "unverified": 1.0, "failed": 0.0}),
    ],
)
def test_a_check_that_fails_is_never_taken_for_support(nli: Rules, reason: str | None, value: Any) -> None:
    with make(None, nli=nli) as corrigenda:
        [found] = scores(run(claims(corrigenda), [Sample(input=QUESTION, target=HILLS)], [ANSWER]))
    assert found.reason == reason
    assert value is None or found.value == value


def test_the_context_can_stand_in_the_metadata(corrigenda: Corrigenda) -> None:
    samples = [
        Sample(input=QUESTION, target="unused", metadata={"passages": [HILLS, "It is in Italy."]}),
        Sample(input=[ChatMessageAssistant(content="Hello.")], metadata={"passages": HILLS}),
    ]
    log = run(claims(corrigenda, context="passages"), samples, [ANSWER, ANSWER])
    reports = [from_dict((s.metadata or {})["corrigenda"]) for s in scores(log)]
    assert [[r.source for r in report.references] for report in reports] == [
        ["passages 1", "passages 2"],
        ["passages"],
    ]
    assert [report.question for report in reports] == [QUESTION, None]


def test_without_a_context_a_reference_is_recalled_from_the_input(corrigenda: Corrigenda) -> None:
    [found] = scores(run(claims(corrigenda, context=None), [Sample(input=QUESTION)], [ANSWER]))
    report = from_dict((found.metadata or {})["corrigenda"])
    assert [(r.source, r.text) for r in report.references] == [("recall", HILLS)]


@pytest.mark.parametrize(
    ("context", "sample", "message"),
    [
        ("target", Sample(input=QUESTION), "sample 1 has nothing to check against: its target is empty"),
        ("passages", Sample(input=QUESTION), "metadata 'passages' of sample 1 must be a text or a list of texts"),
        ("n", Sample(input=QUESTION, metadata={"n": [3]}), "metadata 'n' of sample 1 must be a text or a list of te"),
        (None, Sample(input=[ChatMessageAssistant(content="Hi.")]), "sample 1 has no input that a reference could be"),
    ],
)
def test_a_sample_that_cannot_be_checked_is_an_error_of_the_evaluation(
    corrigenda: Corrigenda, context: str | None, sample: Sample, message: str
) -> None:
    log = run(claims(corrigenda, context=context), [sample], [ANSWER])
    assert log.status == "error"
    assert log.error is not None
    assert message in log.error.message


def test_its_settings_are_in_the_log_and_a_log_can_be_scored_again(tmp_path: Path) -> None:
    (tmp_path / "nli.json").write_text(json.dumps({"rules": [{"scores": CONTRADICT}]}))
    settings: dict[str, Any] = {
        "llm": "none",
        "decomposer": "deterministic",
        "nli": f"scripted:{tmp_path / 'nli.json'}",
        "k": 0.5,
    }
    log = run(claims(**settings), [Sample(input=QUESTION, target=HILLS)], [ANSWER])
    assert log.eval.scorers is not None
    assert [(s.name.rpartition("/")[2], s.options) for s in log.eval.scorers] == [("claims", settings)]
    (tmp_path / "nli.json").write_text(json.dumps({"rules": FIVE_HILLS}))
    again = score(read_eval_log(log.location), claims(**settings), action="overwrite")
    assert means(again)["contradicted"] == (0.5, 0)


@pytest.mark.parametrize("secret", ["api_key", "headers", "hub_token"])
def test_secrets_are_refused_since_they_would_be_logged(secret: str) -> None:
    settings: dict[str, Any] = {secret: "x"}
    variable = f"CORRIGENDA_{secret.upper()}"
    with pytest.raises(ConfigError, match=f"{secret} would be written into Inspect's log; set {variable} instead"):
        claims(**settings)


def test_the_package_names_it_to_inspect() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["inspect_ai"] == {"corrigenda": claims.__module__}


def test_settings_beside_a_corrigenda_are_refused(corrigenda: Corrigenda) -> None:
    with pytest.raises(ConfigError, match="llm cannot be set beside a Corrigenda, which has its own settings"):
        claims(corrigenda, llm="none")

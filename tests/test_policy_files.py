"""Policy files: what is written is what is read, and a stranger's file is refused by name and value."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from corrigenda import Corrigenda, Reference, Report, Settings, Verdict, config
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import ConfigError
from corrigenda.evals.fingerprints import of_settings
from corrigenda.evals.kit import make_kit
from corrigenda.loading import Loader
from corrigenda.methods import make
from corrigenda.methods.protocol import Task
from corrigenda.pipeline import Tools
from corrigenda.policies import Bounded, Conformal, Fixed, Paper, Policy
from corrigenda.policy_files import POLICY_SCHEMA, PolicyFile, Warned, load, read
from corrigenda.types import ChatRequest

BOUNDED = {"k": 0.5, "floor": 0.6, "ceiling": 0.8}
CONTENT: dict[str, Any] = {"schema": POLICY_SCHEMA, "policy": "bounded", "options": BOUNDED, "verifier": "onnx:tiny"}


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("policy", "options", "built"),
    [
        ("paper", {"k": 0.3}, Paper(k=0.3)),
        ("fixed", {"threshold": 0.62}, Fixed(threshold=0.62)),
        ("bounded", BOUNDED, Bounded(k=0.5, floor=0.6, ceiling=0.8, provisional=False)),
        (
            "conformal",
            {"threshold": 0.9, "alpha": 0.05, "support": 0.4},
            Conformal(threshold=0.9, alpha=0.05, support=0.4, provisional=False),
        ),
    ],
)
def test_each_policy_is_read_back_as_it_was_written(
    policy: str, options: dict[str, float], built: Policy, tmp_path: Path
) -> None:
    content = PolicyFile(
        policy=policy,
        options=options,
        verifier="onnx:µ",
        objective={"name": "f1"},
        fitted_on={"claims": {"supported": 30}},
        expected={"f1": {"value": 0.8, "low": 0.7, "high": 0.9, "n": 60}},
        guarantee="at most 5%",
        notes=("one", "two"),
    )
    path = write(tmp_path / "p.json", content.to_json())
    assert read(path) == content
    assert load(path) == load(path, "onnx:µ") == built


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is not JSON: Expecting value"),
        ('{"schema": "1.0", "policy": "paper", "options": {"k": NaN}}', "it is not JSON: NaN is no number in JSON"),
        ('{"schema": "1.0", "policy": "paper", "options": {"k": Infinity}}', "Infinity is no number in JSON"),
        (
            '{"schema": "1.0", "policy": "paper", "options": {"k": 1e999}}',
            "option 'k' must be a finite number, got inf",
        ),
        ("[" * 100_000, "it is not JSON: maximum recursion depth"),
        ('"x" \x00', "it is not JSON"),
        ([1], r"it must hold a JSON object, got \[1\]"),
        ({}, "its schema version is None, and this version of Corrigenda reads '1.0'"),
        (CONTENT | {"schema": "2.0"}, "its schema version is '2.0'"),
        (CONTENT | {"policy": 3}, "policy must be a text, got 3"),
        (CONTENT | {"policy": "strict"}, "unknown policy 'strict'; there are bounded, conformal, fixed, paper"),
        (CONTENT | {"options": [1]}, r"options must be an object, got \[1\]"),
        (CONTENT | {"options": BOUNDED | {"k": "0.7"}}, "option 'k' must be a number, got '0.7'"),
        (CONTENT | {"options": BOUNDED | {"k": True}}, "option 'k' must be a number, got True"),
        (CONTENT | {"options": BOUNDED | {"k": 10**400}}, "option 'k' must be a finite number, got 1000"),
        (CONTENT | {"options": BOUNDED | {"k": -1}}, r"k must be a finite number of at least 0, got -1\.0"),
        (CONTENT | {"options": BOUNDED | {"ceiling": 1}}, "ceiling must be below 1"),
        (CONTENT | {"options": BOUNDED | {"floor": 0.9}}, r"floor must not exceed ceiling, got floor 0\.9"),
        (CONTENT | {"options": BOUNDED | {"alpha": 0.1}}, "policy 'bounded' has no option 'alpha'; it has k, floor, c"),
        (CONTENT | {"options": {"k": 1, "floor": 0}}, "policy 'bounded' needs the option 'ceiling'"),
        (CONTENT | {"verifier": 1}, "verifier must be a text or null, got 1"),
        (CONTENT | {"notes": [1]}, r"notes must be a list of texts, got \[1\]"),
        (CONTENT | {"run": "rm -rf /"}, "it has an unknown field 'run'; known are policy, options"),
        ({"schema": "1.0", "policy": "paper"}, "it has no field 'options'"),
        ({"schema": "1.0", "options": {}}, "it has no field 'policy'"),
        (CONTENT | {"policy": "x" * 9999}, "unknown policy 'x+"),
    ],
)
def test_a_hostile_file_is_refused_with_its_name(content: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", content)
    with pytest.raises(ConfigError, match=f"^policy file {re.escape(repr(path))}: .*{message}"):
        read(path)


def test_a_file_that_cannot_be_read_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy file '.*none\.json': it cannot be read: No such file.*--policy"):
        read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="it cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(ConfigError, match="it cannot be read: embedded null byte"):
        read("a\x00.json")
    (tmp_path / "latin.json").write_bytes(b'{"policy": "\xe9"}')
    with pytest.raises(ConfigError, match="it is not JSON: 'utf-8' codec can't decode byte 0xe9"):
        read(tmp_path / "latin.json")
    (tmp_path / "huge.json").write_bytes(b" " * 1_000_001)
    with pytest.raises(ConfigError, match="it is larger than 1,000,000 bytes, so it is no policy file"):
        read(tmp_path / "huge.json")


def test_no_file_can_be_made_that_could_not_be_read() -> None:
    with pytest.raises(ConfigError, match="floor must be a number from 0 to 1, got nan"):
        PolicyFile(policy="bounded", options=BOUNDED | {"floor": math.nan})
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        PolicyFile(policy="bounded", options=BOUNDED, expected={"f1": math.nan}).to_json()


def test_another_verifier_is_warned_about_in_the_report(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", CONTENT)
    nli = ScriptedEntailer({"rules": [{"scores": [0.3, 0.0, 0.7]}]})
    with Corrigenda(settings=Settings(llm="none", decomposer="deterministic"), nli=nli, policy=path) as c:
        report = c.check_sync("Rome has 5 hills.", context="Rome stands on seven hills.")
    assert report.decision is not None
    d = report.decision
    assert (d.policy, d.k, d.floor, d.ceiling, d.tau, d.provisional) == ("bounded", 0.5, 0.6, 0.8, 0.6, False)
    assert [claim.verdict for claim in report.claims] == [Verdict.CONTRADICTED]
    assert report.warnings[0] == (
        "the policy 'bounded' was fitted for the verifier 'onnx:tiny', and this one is 'scripted': its thresholds and "
        "rates may not hold; fit one for this verifier with corrigenda calibrate"
    )


def test_a_file_without_a_verifier_says_so_and_the_right_one_gives_no_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", CONTENT)
    assert load(path, "onnx:tiny") == load(path) == Bounded(k=0.5, floor=0.6, ceiling=0.8, provisional=False)
    unnamed = load(write(tmp_path / "q.json", CONTENT | {"verifier": None}), "onnx:tiny")
    assert isinstance(unnamed, Warned)
    assert unnamed.name == "bounded"
    decided = unnamed.decide([-0.7])
    assert decided.verdicts == (Verdict.CONTRADICTED,)
    assert "comes from a file that does not say for which verifier" in decided.warnings[0]


def test_an_evaluation_decides_by_the_file_too(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", CONTENT)
    nli = ScriptedEntailer({"rules": [{"scores": [0.3, 0.0, 0.7]}]})
    tools = Tools(chat=None, entailer=nli, policy=load(path, "onnx:tiny"), decomposer="deterministic")
    kit = make_kit(Settings(llm="none", policy=path), tools)
    task = Task(answer="Rome has 5 hills.", contexts=(Reference(text="Rome has seven hills.", source="context"),))
    for name, contradicted in (("corrigenda", True), ("corrigenda:paper", True), ("corrigenda:fixed", True)):
        made = asyncio.run(make(name).run(task, kit))
        assert [v.verdict is Verdict.CONTRADICTED for v in made.verdicts] == [contradicted], name
        assert made.report is not None
        assert made.report.decision is not None
        assert (made.report.decision.floor == 0.6) == (name == "corrigenda")
    with pytest.raises(
        ConfigError, match="k cannot be set beside a policy file, which fixes it; name a policy with it"
    ):
        asyncio.run(make("corrigenda", {"k": 0.5}).run(task, kit))
    assert make_kit(Settings(llm="none"), tools).fitted is None


def test_another_content_of_the_file_is_another_evaluation(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", CONTENT)
    first = of_settings(Settings(policy=path))
    write(tmp_path / "p.json", CONTENT | {"verifier": None})
    second = of_settings(Settings(policy=path))
    assert {name for name in first if first[name] != second[name]} == {"policy"}
    assert "policy" not in of_settings(Settings())


@pytest.mark.parametrize(
    ("name", "value"), [("k", 0.5), ("threshold", 0.5), ("floor", 0.5), ("ceiling", 0.5), ("alpha", 0.5)]
)
def test_a_file_fixes_the_policys_options(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} cannot be set beside a policy file: 'my\.json' fixes it; leave"):
        Settings(policy="my.json", **{name: value})  # type: ignore[arg-type]


def test_an_option_beside_a_file_is_told_with_its_place_even_at_its_default(tmp_path: Path) -> None:
    place = write(tmp_path / "c.toml", 'policy = "my.json"\n')
    assert config.load({}, config_file=place, environ={}).settings.policy == "my.json"
    with pytest.raises(ConfigError, match=r"^environment CORRIGENDA_K: k cannot be set beside a policy file: 'my\.js"):
        config.load({}, config_file=place, environ={"CORRIGENDA_K": "0.7"})
    with pytest.raises(ConfigError, match=r"^flag --alpha: alpha cannot be set beside a policy file"):
        config.load({"alpha": "0.1"}, config_file=place, environ={})


def test_a_bad_file_is_told_before_any_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy file '.*none\.json': it cannot be read"):
        Corrigenda(settings=Settings(policy=str(tmp_path / "none.json")))
    assert Loader(Settings(policy="none.json"), policy=Bounded()) is not None


# The calibration of the chat verifier, which comes from a file too


class Sure:
    """A LabelScorer that gives the first label nearly all of the probability."""

    name = "local:tiny"

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        return (math.log(0.9), *[math.log(0.1 / len(labels))] * (len(labels) - 1))

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def calibration(path: Path, model: str = "local:tiny") -> str:
    """Write the shipped constants of the embedded model as those of `model`, with bounds that tell them apart."""
    shipped = json.loads(
        resources.files("corrigenda.backends").joinpath("nli_chat_calibration.json").read_text("utf-8")
    )
    fitted = next(entry for entry in shipped["models"] if entry["fitted_on"] is not None)
    own = fitted | {"model": model, "sha256": None, "fitted_on": "cats", "bounds": [0.12, 0.34]}
    return write(path, shipped | {"models": [own]})


def check_cats(path: str) -> Report:
    settings = Settings(llm="none", decomposer="deterministic", numbers="off")
    with Corrigenda(settings=settings, llm=Sure(), nli_calibration=path) as c:  # type: ignore[arg-type]  # scores only
        return c.check_sync("A cat sleeps.", context="A cat runs.")


def test_the_chat_verifier_takes_its_constants_from_a_file(tmp_path: Path) -> None:
    report = check_cats(calibration(tmp_path / "mine.json"))
    assert report.models["verifier"] == "chat:local:tiny (fitted on cats)"
    assert report.decision is not None
    assert (report.decision.floor, report.decision.ceiling) == (0.12, 0.34)
    assert report.warnings == ()


def test_a_bad_calibration_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"calibration file '.*none\.json' cannot be read"):
        Corrigenda(settings=Settings(nli_calibration=str(tmp_path / "none.json")))
    with pytest.raises(
        ConfigError, match=r"calibration file '.*p\.json': the calibration data are malformed: KeyError"
    ):
        Corrigenda(settings=Settings(nli_calibration=write(tmp_path / "p.json", CONTENT)))
    with pytest.raises(ConfigError, match=r"nli_calibration is used by the verifier chat, not by 'onnx:x'; leave it"):
        Settings(nli="onnx:x", nli_calibration="mine.json")
    assert Settings(nli="chat:openai:m", nli_calibration="mine.json").nli_calibration == "mine.json"


def test_constants_for_another_model_are_warned_about(tmp_path: Path) -> None:
    report = check_cats(calibration(tmp_path / "mine.json", model="local:huge"))
    assert "were fitted for the chat model 'local:huge'" in report.warnings[0]

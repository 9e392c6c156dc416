"""Calibrating the chat verifier: the data are read, a made-up model is asked, constants come out."""

import asyncio
import hashlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corrigenda.backends.nli_chat_scheme import (
    CLASSES,
    UNFITTED,
    Calibration,
    SecondLook,
    calibration_for,
    default_schemes,
    load_calibration,
)
from corrigenda.calibrate_nli import command, fitting, main, read_pairs, refit
from corrigenda.calibrate_nli.fitting import collect
from corrigenda.calibrate_nli.pairs import shipped_neutral_pairs
from corrigenda.errors import ConfigError, InputError, MissingExtra, Unreachable
from corrigenda.types import ChatRequest
from tests.nli_pairs import write_pairs as write

pytest.importorskip("scipy", reason="the extra `eval` is not installed")


FIRST, SECOND = default_schemes()
ANSWERS = {"entails": "True", "opens": "Unknown", "denies": "False"}


class Biased:
    """A LabelScorer that knows the answer (it stands in the claim) but leans towards Unknown, with some noise."""

    name = "local:biased"

    def __init__(self, breaks_after: int | None = None) -> None:
        self.calls = 0
        self.breaks_after = breaks_after

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        if self.breaks_after is not None and self.calls >= self.breaks_after:
            raise Unreachable("cut")
        self.calls += 1
        weights = self.weigh(claim_of(request), first=request.messages[0].content == FIRST.system)
        total = sum(weights.values()) * 1.1
        return tuple(math.log(weights[label] / total) if label in weights else -math.inf for label in labels)

    def weigh(self, claim: str, *, first: bool) -> dict[str, float]:
        """Return how probable the words are in relation to each other, at the first look or the second."""
        noise = hashlib.sha256(claim.encode()).digest()[0] / 255
        weights = {"True": 1 + noise, "Unknown": 9.0, "False": 2 - noise}
        weights[ANSWERS.get(claim.split(maxsplit=1)[0], "Unknown")] *= 4
        return weights

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class Hasty(Biased):
    """A model that knows the answer, but where the claim has an even number only at a second look."""

    def weigh(self, claim: str, *, first: bool) -> dict[str, float]:
        answer = ANSWERS[claim.split(maxsplit=1)[0]]
        if first and int(claim.rsplit(maxsplit=1)[-1]) % 2 == 0 and answer != "Unknown":
            return {"True": 4.0, "Unknown": 1.0, "False": 4.0}
        return {"True": 1.0, "Unknown": 1.0, "False": 1.0} | {answer: 60.0}


def claim_of(request: ChatRequest) -> str:
    """Return the claim that the last turn asks about, in either of the two shipped wordings."""
    turn = request.messages[-1].content
    before = "<fact>\n" if "<fact>" in turn else "Statement: "
    return turn.rpartition(before)[2].partition("\n")[0]


def data(path: Path, count: int = 30) -> Path:
    words = {"entails": "SUPPORTS", "opens": "NOT ENOUGH INFO", "denies": "REFUTES"}
    return write(
        path, [(f"{word} number {i}", f"Text {i}.", label) for i in range(count) for word, label in words.items()]
    )


# Collecting


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    rows = read_pairs(data(tmp_path / "d.jsonl", 2))
    raw = tmp_path / "new" / "raw.jsonl"
    broken = Biased(breaks_after=4)
    with pytest.raises(Unreachable, match="cut"):
        asyncio.run(collect(broken, default_schemes()[0], rows, raw))
    raw.write_text(raw.read_text() + '{"key": "cut off in the mid')
    model, progress = Biased(), io.StringIO()
    again = asyncio.run(collect(model, default_schemes()[0], rows, raw, progress))
    assert (broken.calls, model.calls) == (4, 2)
    assert (
        progress.getvalue() == "supported-or-unknown: scored 1 of 2 pairs\rsupported-or-unknown: scored 2 of 2 pairs\n"
    )
    fresh = asyncio.run(collect(Biased(), default_schemes()[0], rows, tmp_path / "fresh.jsonl"))
    assert again.sums == fresh.sums
    assert asyncio.run(collect(Biased(breaks_after=0), default_schemes()[0], rows, raw)).sums == fresh.sums


def test_scores_of_another_model_are_not_used(tmp_path: Path) -> None:
    rows = read_pairs(data(tmp_path / "d.jsonl", 1))
    asyncio.run(collect(Biased(), default_schemes()[0], rows, tmp_path / "raw.jsonl"))
    other = Biased()
    other.name = "local:other"
    asyncio.run(collect(other, default_schemes()[0], rows, tmp_path / "raw.jsonl"))
    assert other.calls == 3


def test_a_file_of_raw_scores_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    rows = read_pairs(data(tmp_path / "d.jsonl", 1))
    with pytest.raises(InputError, match=r"the file of raw scores '.*' cannot be used"):
        asyncio.run(collect(Biased(), default_schemes()[0], rows, tmp_path))


# The whole


def test_a_refit_repairs_a_biased_model_and_can_be_loaded(tmp_path: Path) -> None:
    found = asyncio.run(
        refit(
            Biased(),
            [data(tmp_path / "train.jsonl")],
            raw=tmp_path / "raw.jsonl",
            tests=[data(tmp_path / "test.jsonl", 5)],
            sha256="cd" * 32,
        )
    )
    assert found.fitted.before.three_way < 0.5
    assert (found.fitted.once.three_way, found.fitted.after.three_way) == (1.0, 1.0)
    assert [(result.data, result.after.n, result.after.three_way) for result in found.tests] == [("test", 15, 1.0)]
    assert found.calibration.fitted_on == "train (90 pairs, 30 of them neutral)"
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(found.as_file()))
    assert load_calibration(path) == (found.calibration,)
    assert found.calibration.second is not None
    assert (found.calibration.scheme, found.calibration.second.scheme) == (FIRST, SECOND)
    assert CLASSES == ("entailment", "neutral", "contradiction")


def test_a_second_look_is_taken_and_measured_where_the_first_is_unsure(tmp_path: Path) -> None:
    """Half of the decided claims look even at first, which counts as contradiction: wrong for half of those."""
    model, train = Hasty(), data(tmp_path / "train.jsonl")
    found = asyncio.run(refit(model, [train], raw=tmp_path / "raw.jsonl", tests=[train], test_limit=45))
    assert model.calls == 180  # both looks of 90 pairs; those of the test are known
    assert (found.fitted.before.binary, found.fitted.once.binary, found.fitted.after.binary) == (0.75, 0.75, 1.0)
    assert found.fitted.asked_twice == 0.3333
    assert len(found.fitted.seconds_per_look) == 2
    assert (found.tests[0].after.n, found.tests[0].after.binary) == (45, 1.0)
    assert 0 < found.tests[0].asked_twice < 0.5


def test_with_one_look_there_is_no_second_one(tmp_path: Path) -> None:
    model, train = Hasty(), data(tmp_path / "train.jsonl")
    found = asyncio.run(refit(model, [train], raw=tmp_path / "raw.jsonl", looks=1))
    assert (model.calls, found.calibration.second) == (90, None)
    assert found.fitted.once == found.fitted.after
    assert (found.fitted.after.binary, found.fitted.asked_twice, len(found.fitted.seconds_per_look)) == (0.75, 0.0, 1)
    assert list(found.as_file()["schemes"]) == [FIRST.name]


def test_a_models_own_wordings_and_limit_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = replace(SECOND, name="again")
    looks = UNFITTED.looks * 2
    second = SecondLook(scheme=again, constants=UNFITTED._replace(looks=looks), below=0.6)
    own = Calibration(model="local:biased", sha256=None, scheme=FIRST, constants=UNFITTED, fitted_on="x", second=second)
    monkeypatch.setattr(fitting, "calibration_for", lambda name, sha256: own)
    found = asyncio.run(refit(Hasty(), [data(tmp_path / "d.jsonl", 10)], raw=tmp_path / "raw.jsonl"))
    assert found.calibration.second is not None
    assert (found.calibration.second.scheme, found.calibration.second.below) == (again, 0.6)
    assert found.fitted.before.binary == 1.0  # the old constants had a second look too


def test_data_without_neutral_pairs_get_some(tmp_path: Path) -> None:
    rows = [
        (f"{w} harbour {i}", f"Harbour text {i}.", s)
        for i in range(20)
        for w, s in (("entails", "SUPPORTS"), ("denies", "REFUTES"))
    ]
    path = write(tmp_path / "train.jsonl", rows)
    found = asyncio.run(refit(Biased(), [path], raw=tmp_path / "raw.jsonl", limit=30))
    made = found.fitted.after.n - found.fitted.after.n_binary
    assert found.fitted.after.n_binary == 30
    assert made > len(shipped_neutral_pairs())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "^limit must be at least 1 pair per file, got 0"),
        ({"test_limit": -1}, "^test_limit must be at least 1 pair per file, got -1"),
        ({"looks": 3}, "^looks must be 1 or 2, got 3"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asyncio.run(refit(Biased(), [tmp_path / "d.jsonl"], raw=tmp_path / "raw.jsonl", **settings))


def test_without_scipy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'pip install "corrigenda\[eval\]"'):
        asyncio.run(refit(Biased(), [tmp_path / "d.jsonl"], raw=tmp_path / "raw.jsonl"))


class Mute(Biased):
    """A model that never gives one of the words."""

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        return (-math.inf,) * len(labels)


def test_a_model_that_gives_none_of_the_words_cannot_be_fitted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="answered with none of the three words, on any pair"):
        asyncio.run(refit(Mute(), [data(tmp_path / "d.jsonl", 5)], raw=tmp_path / "raw.jsonl"))


def test_too_few_groups_are_told_before_the_model_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cross-validation needs at least 5 groups of unrelated pairs, got 2"):
        asyncio.run(refit(Mute(), [data(tmp_path / "d.jsonl", 2)], raw=tmp_path / "raw.jsonl"))
    assert not (tmp_path / "raw.jsonl").exists()


# The command


def test_the_command_prints_a_table_and_writes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = {"logprobs": {"True": -0.5, "Unknown": -1.5, "False": -2.0}}
    script = tmp_path / "llm.json"
    script.write_text(json.dumps({"rules": [rule]}))
    train, out = data(tmp_path / "train.jsonl", 10), tmp_path / "out.json"
    monkeypatch.chdir(tmp_path)
    assert main(["--llm", f"scripted:{script}", "--data", str(train), "--test", str(train), "--out", str(out)]) == 0
    (found,) = load_calibration(out)
    assert found.second is not None
    printed = capsys.readouterr()
    assert printed.out.startswith(
        f"model     {found.model}\n"
        "fitted on train (30 pairs, 10 of them neutral)\n"
        f"one look  bias {found.constants.bias:g}, agree {found.constants.agree:g}, differ 0; direction 1, known "
    )
    assert f"\ntwo looks bias {found.second.constants.bias:g}, agree " in printed.out
    assert "\n          where the first one gives no class 0.75\nbounds    floor 0.5" in printed.out
    assert (
        "\ntrain, cross-validated: 0 pairs without a score\n  asked about twice: 100.0% of the pairs; " in printed.out
    )
    assert "\n                                        before    once   after\n" in printed.out
    assert "\n  binary accuracy (20 pairs)             0.500   0.500   0.500\n" in printed.out
    assert printed.err.endswith("one-word: scored 30 of 30 pairs\n")
    assert (tmp_path / "calibrate-nli.raw.jsonl").is_file()


def test_the_command_says_less_about_one_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "llm.json"
    script.write_text(json.dumps({"rules": [{"logprobs": {"True": -0.5, "Unknown": -1.5, "False": -2.0}}]}))
    train, raw = str(data(tmp_path / "train.jsonl", 10)), str(tmp_path / "raw.jsonl")
    assert (
        main(
            [
                "--llm",
                f"scripted:{script}",
                "--data",
                train,
                "--test",
                train,
                "--test-limit",
                "6",
                "--raw",
                raw,
                "--looks",
                "1",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "two looks" not in printed
    assert "\n  asked about twice: 0.0% of the pairs; " in printed
    assert "\n                                        before   after\n" in printed
    assert "\n  three-way accuracy (6 pairs) " in printed


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    script = tmp_path / "llm.json"
    script.write_text(json.dumps({"rules": [{"logprobs": {"True": -0.5, "Unknown": -1.5, "False": -2.0}}]}))
    arguments = ["--llm", f"scripted:{script}", "--data", str(data(tmp_path / "d.jsonl", 10))]
    with pytest.raises(InputError, match=r"the calibration file '.*' cannot be written"):
        main([*arguments, "--raw", str(tmp_path / "raw.jsonl"), "--out", str(tmp_path)])


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="llm 'none' is no chat model"):
        main(["--llm", "none", "--data", str(tmp_path / "d.jsonl")])


def test_the_hash_of_an_embedded_model_is_known() -> None:
    assert (
        command._sha256("local:qwen2.5-coder-1.5b-instruct")
        == calibration_for("local:qwen2.5-coder-1.5b-instruct").sha256
    )
    assert command._sha256("openai:gpt") is None

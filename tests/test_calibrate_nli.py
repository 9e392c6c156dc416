"""Fitting the chat verifier's constants: on made-up log-probabilities, so that every number can be judged by eye."""

import asyncio
import hashlib
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from corrigenda.backends.nli_chat_scheme import (
    CLASSES,
    Constants,
    calibration_for,
    combine,
    default_scheme,
    load_calibration,
)
from corrigenda.calibrate_nli import command, fitting, main, read_pairs, refit
from corrigenda.calibrate_nli.fitting import collect
from corrigenda.calibrate_nli.pairs import Labelled, groups, neutral_pairs, shipped_neutral_pairs
from corrigenda.errors import ConfigError, InputError, MissingExtra, Unreachable
from corrigenda.types import ChatRequest, Pair

pytest.importorskip("scipy", reason="the extra `eval` is not installed")

import numpy as np

from corrigenda import nli_fit


class Biased:
    """A LabelScorer that knows the answer (it stands in the claim) but leans towards False, with some noise."""

    name = "local:biased"

    def __init__(self, breaks_after: int | None = None) -> None:
        self.calls = 0
        self.breaks_after = breaks_after

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        if self.breaks_after is not None and self.calls >= self.breaks_after:
            raise Unreachable("cut")
        self.calls += 1
        claim = request.messages[-1].content.rpartition("Statement: ")[2]
        noise = hashlib.sha256(claim.encode()).digest()[0] / 255
        weights = {"True": 1 + noise, "Unknown": 1.5 - noise, "False": 7.0}
        told = {"entails": "True", "opens": "Unknown", "denies": "False"}
        weights[told.get(claim.split()[0], "Unknown")] *= 4
        total = sum(weights.values()) * 1.1
        return tuple(math.log(weights[label] / total) if label in weights else -math.inf for label in labels)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def labelled(premise: str, hypothesis: str, label: int) -> Labelled:
    return Labelled(pair=Pair(premise=premise, hypothesis=hypothesis), label=label)


def write(path: Path, rows: Sequence[tuple[str, object, str]]) -> Path:
    lines = [json.dumps({"claim": claim, "evidence": evidence, "label": label}) for claim, evidence, label in rows]
    path.write_text("\n".join(lines) + "\n\n")
    return path


def data(path: Path, count: int = 30) -> Path:
    words = {"entails": "SUPPORTS", "opens": "NOT ENOUGH INFO", "denies": "REFUTES"}
    return write(
        path, [(f"{word} number {i}", f"Text {i}.", label) for i in range(count) for word, label in words.items()]
    )


# Reading


def test_both_ways_of_naming_labels_are_read_and_evidence_lists_are_joined(tmp_path: Path) -> None:
    path = write(
        tmp_path / "d.jsonl", [("a", "x", "SUPPORTS"), ("b", ["y", "z"], "contradiction"), ("c", "w", "Neutral")]
    )
    assert read_pairs(path) == [labelled("x", "a", 0), labelled("y z", "b", 2), labelled("w", "c", 1)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"claim": "a", "evidence": "x", "label": "MAYBE"}', r"line 1: needs 'claim'.*KeyError: 'MAYBE'"),
        ('{"claim": "a", "label": "SUPPORTS"}', "line 1: needs 'claim'.*KeyError: 'evidence'"),
        ('{"claim": 5, "evidence": "x", "label": "SUPPORTS"}', "line 1: needs 'claim'.*TypeError"),
        ("[]", "line 1: needs 'claim'.*TypeError"),
        ("{", "line 1: needs 'claim'.*JSONDecodeError"),
        ("", "has no rows"),
    ],
)
def test_bad_data_are_refused_with_their_place(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(line)
    with pytest.raises(InputError, match=message):
        read_pairs(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data file '.*none\.jsonl' cannot be read"):
        read_pairs(tmp_path / "none.jsonl")


def test_rows_that_share_a_text_by_way_of_others_are_one_group() -> None:
    rows = [labelled("P", "a", 0), labelled("Q", "b", 0), labelled("Q", "a", 2), labelled("a", "P", 0)]
    assert groups(rows) == [0, 0, 0, 1]


def test_neutral_pairs_join_unrelated_texts_that_share_words() -> None:
    rows = [
        labelled("The harbour of Split lies on the Adriatic.", "Split has a harbour.", 0),
        labelled("The Adriatic is a sea.", "The Adriatic is a lake.", 2),
    ]
    expected = {
        labelled("The harbour of Split lies on the Adriatic.", "The Adriatic is a lake.", 1),
        labelled("The Adriatic is a sea.", "Split has a harbour.", 1),
    }
    assert set(neutral_pairs(rows)) == expected


def test_vague_evidence_and_unrelated_texts_make_no_neutral_pairs() -> None:
    vague = [
        labelled("It has a harbour.", "Split is a town.", 0),
        labelled("He left the harbour.", "The harbour is old.", 2),
    ]
    assert neutral_pairs(vague) == []
    assert (
        neutral_pairs([labelled("Cork floats.", "Cork is light.", 0), labelled("Lead sinks.", "Lead is heavy.", 2)])
        == []
    )


def test_the_shipped_neutral_pairs_are_neutral_and_distinct() -> None:
    rows = shipped_neutral_pairs()
    assert len(set(rows)) == len(rows) >= 30
    assert {row.label for row in rows} == {1}


# Collecting


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    rows = read_pairs(data(tmp_path / "d.jsonl", 2))
    raw = tmp_path / "new" / "raw.jsonl"
    broken = Biased(breaks_after=4)
    with pytest.raises(Unreachable, match="cut"):
        asyncio.run(collect(broken, default_scheme(), rows, raw))
    raw.write_text(raw.read_text() + '{"key": "cut off in the mid')
    model, progress = Biased(), io.StringIO()
    again = asyncio.run(collect(model, default_scheme(), rows, raw, progress))
    assert (broken.calls, model.calls) == (4, 2)
    assert progress.getvalue() == "scored 1 of 2 pairs\rscored 2 of 2 pairs\n"
    fresh = asyncio.run(collect(Biased(), default_scheme(), rows, tmp_path / "fresh.jsonl"))
    assert again.sums == fresh.sums
    assert asyncio.run(collect(Biased(breaks_after=0), default_scheme(), rows, raw)).sums == fresh.sums


def test_scores_of_another_model_are_not_used(tmp_path: Path) -> None:
    rows = read_pairs(data(tmp_path / "d.jsonl", 1))
    asyncio.run(collect(Biased(), default_scheme(), rows, tmp_path / "raw.jsonl"))
    other = Biased()
    other.name = "local:other"
    asyncio.run(collect(other, default_scheme(), rows, tmp_path / "raw.jsonl"))
    assert other.calls == 3


def test_a_file_of_raw_scores_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    rows = read_pairs(data(tmp_path / "d.jsonl", 1))
    with pytest.raises(InputError, match=r"the file of raw scores '.*' cannot be used"):
        asyncio.run(collect(Biased(), default_scheme(), rows, tmp_path))


# Fitting and measuring


def test_the_fit_finds_the_constants_that_made_the_labels() -> None:
    made = Constants(lean=0.3, direction=0.8, bias=-0.5, known=1.5, strength=0.7)
    sums = [(math.log(a), math.log(b), math.log(1 - a - b)) for a in (0.1, 0.3, 0.5) for b in (0.1, 0.2, 0.3)]
    probs = nli_fit.probabilities(made, sums)
    many = [
        (value, label)
        for value, row in zip(sums, probs, strict=True)
        for label in range(3)
        for _ in range(round(1000 * row[label]))
    ]
    found = nli_fit.fit([value for value, _ in many], [label for _, label in many])
    assert nli_fit.probabilities(found, sums) == pytest.approx(probs, abs=0.02)


def test_arrays_and_single_pairs_are_scored_alike() -> None:
    constants = Constants(lean=0.3, direction=0.8, bias=-0.5, known=1.5, strength=0.7)
    sums = [(-0.1, -3.0, -4.0), (-9.0, -math.inf, -0.1), (-1.0, -1.0, -1.0), (-math.inf, 0.0, -math.inf)]
    one_by_one = [(p.entailment, p.neutral, p.contradiction) for p in (combine(constants, s) for s in sums)]
    assert nli_fit.probabilities(constants, sums) == pytest.approx(np.array(one_by_one), abs=1e-12)


def test_a_fit_without_a_class_is_refused() -> None:
    with pytest.raises(InputError, match="no pair of the class 'neutral'"):
        nli_fit.fit([(-1.0, -1.0, -1.0)] * 2, [0, 2])


def test_measures_on_probabilities_that_can_be_judged_by_eye() -> None:
    probs = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6], [0.4, 0.2, 0.4]]
    labels = [0, 2, 1, 0, 2]
    assert nli_fit.measure(np.array(probs), labels) == nli_fit.Measured(
        n=5,
        n_binary=4,
        binary=0.75,  # the tie of the last pair counts as contradiction
        three_way=0.6,
        ece=0.2,  # |2 - 1.6| + |1 - 1.2| + |0 - 0.4|, over 5
        ece_binary=0.35,  # |2 - 1.6| + |0 - 0.6| + |0 - 0.4|, over 4
        flagged_entailment=0.5,
        flagged_neutral=0.0,
        flagged_contradiction=0.5,
    )


def test_shares_of_classes_that_are_absent_are_none() -> None:
    found = nli_fit.measure(np.array([[0.2, 0.6, 0.2]]), [1])
    assert (found.binary, found.ece_binary, found.flagged_entailment, found.flagged_contradiction) == (None,) * 4
    with pytest.raises(InputError, match="no pair to measure on"):
        nli_fit.measure(np.zeros((0, 3)), [])


@pytest.mark.parametrize(
    ("probs", "labels", "expected"),
    [
        ([(0.1, 0.6), (0.3, 0.9), (0.2, 0.75)], [0, 2, 2], (0.61, 0.77)),  # the true claim at 0.6 sets the floor
        ([(0.8, 0.1), (0.3, 0.6), (0.1, 0.8)], [0, 2, 2], (0.5, 0.62)),
        ([(0.8, 0.1), (0.6, 0.2)], [0, 2], (0.5, 0.5)),  # no contradiction is found: nothing to say about a ceiling
        ([(0.001, 0.995), (0.001, 0.998)], [0, 2], (0.99, 0.99)),
    ],
)
def test_bounds_follow_the_data(
    probs: list[tuple[float, float]], labels: list[int], expected: tuple[float, float]
) -> None:
    whole = np.array([(e, 1 - e - c, c) for e, c in probs])
    assert nli_fit.bounds(whole, labels) == pytest.approx(expected, abs=0.006)


def test_cross_validation_needs_enough_groups() -> None:
    with pytest.raises(InputError, match="needs at least 5 groups of unrelated pairs, got 2"):
        nli_fit.cross_validated([(-1.0, -1.0, -1.0)] * 4, [0, 1, 2, 0], [0, 0, 1, 1])


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
    assert found.fitted.before.three_way < 0.9
    assert found.fitted.after.three_way == 1.0
    assert [(result.data, result.after.n, result.after.three_way) for result in found.tests] == [("test", 15, 1.0)]
    assert found.calibration.fitted_on == "train (90 pairs, 30 of them neutral)"
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(found.as_file()))
    assert load_calibration(path) == (found.calibration,)
    assert CLASSES == ("entailment", "neutral", "contradiction")


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


def test_a_limit_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="limit must be at least 1 pair per file, got 0"):
        asyncio.run(refit(Biased(), [tmp_path / "d.jsonl"], raw=tmp_path / "raw.jsonl", limit=0))


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
    printed = capsys.readouterr()
    assert printed.out.startswith(
        f"model     {found.model}\nfitted on train (30 pairs, 10 of them neutral)\nconstants lean "
    )
    assert "  binary accuracy (20 pairs)             0.500   0.500\n" in printed.out
    assert printed.err.endswith("scored 30 of 30 pairs\n")
    assert (tmp_path / "calibrate-nli.raw.jsonl").is_file()


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

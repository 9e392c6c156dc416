"""Fitting: what is found on made-up scores, what is measured on held-out ones, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.eval_records import C, S, U

from corrigenda import policy_files
from corrigenda.calibrate import Fitted, LabelledScore, fit
from corrigenda.errors import ConfigError, InputError, MissingExtra
from corrigenda.evals import stats
from corrigenda.policies import Bounded, Conformal
from corrigenda.types import Verdict

pytest.importorskip("scipy", reason="the extra `eval` is not installed")


def one(signed: float | None, label: Verdict, name: object, *, answer: object = None) -> LabelledScore:
    """A claim; without an answer named, one of its own."""
    place = str(name if answer is None else answer)
    return LabelledScore(signed=signed, label=label, answer=place, group=place, unit=str(name))


def separable(n: int = 30, true: float = -0.4, false: float = -0.8) -> list[LabelledScore]:
    return [one(true if i % 2 else false, S if i % 2 else C, i) for i in range(2 * n)]


def answers(n: int = 40) -> list[LabelledScore]:
    """Answers of four true claims and a false one, all at the same strength: what `paper` is blind to."""
    draw = random.Random(5)
    scores = []
    for i in range(n):
        c = 0.7 + 0.25 * draw.random()
        scores += [one(-c if j == 4 else c, C if j == 4 else S, f"{i}.{j}", answer=i) for j in range(5)]
    return scores


def options(fitted: Fitted) -> dict[str, float]:
    return dict(fitted.file.options)


def test_what_can_be_told_apart_is_told_apart_on_claims_that_the_fit_did_not_see() -> None:
    fitted = fit(separable(), policy="fixed", verifier="onnx:tiny")
    assert options(fitted) == {"threshold": 0.6}
    assert fitted.by_fold == ({"threshold": 0.6},) * 5
    right = {"value": 1.0, "low": 1.0, "high": 1.0}
    assert fitted.file.expected == {
        "precision": right | {"n": 30},
        "recall": right | {"n": 30},
        "f1": right | {"n": 60},
        "flagged_supported": {"value": 0.0, "low": 0.0, "high": 0.0, "n": 30},
        "flagged_unverified": {"value": None, "low": None, "high": None, "n": 0},
    }
    assert fitted.compared["bounded, not fitted"]["recall"]["value"] == 1.0
    assert fitted.file.objective == {"name": "f1"}
    assert {k: v for k, v in fitted.file.fitted_on.items() if k != "date"} == {
        "files": [],
        "claims": {"supported": 30, "contradicted": 30, "unverified": 0},
        "without_score": 0,
        "answers": 60,
        "groups": 60,
        "folds": 5,
        "seed": 0,
        "composed": None,
    }


def test_the_rates_are_of_held_out_groups_and_not_of_the_fit() -> None:
    """Scores that know nothing: any threshold that looks good on the data it was fitted to is luck."""
    draw = random.Random(1)
    scores = [one(-0.34 - 0.65 * draw.random(), draw.choice([C, S]), i) for i in range(60)]
    fitted = fit(scores, policy="fixed", objective="cost")
    in_sample = min(
        sum((s.signed <= -t) != (s.label is C) for s in scores if s.signed is not None) / len(scores)
        for t in (step / 100 for step in range(33, 100))
    )
    held_out = fitted.file.expected["cost"]["value"]
    assert held_out is not None
    assert held_out > in_sample
    assert len({tuple(o.items()) for o in fitted.by_fold}) > 1


def test_no_group_is_both_fitted_on_and_measured_on() -> None:
    """One group holds every low false claim; what it alone would teach is not known when it is measured."""
    scores = [one(-0.4, S, f"t{i}") for i in range(30)] + [one(-0.9, C, f"f{i}") for i in range(30)]
    odd = [replace(one(-0.35, C, f"o{i}"), group="odd") for i in range(25)]
    fitted = fit([*scores, *odd], policy="fixed")
    assert fitted.file.expected["recall"] | {"low": 0, "high": 0} == {
        "value": 30 / 55,
        "low": 0,
        "high": 0,
        "n": 55,
    } | {"value": round(30 / 55, 6)}


def test_bounded_is_fitted_where_the_paper_is_blind() -> None:
    found = fit(answers())
    assert found.file.expected["f1"]["value"] == 1.0
    assert options(found)["ceiling"] <= 0.71
    assert found.compared["paper, not fitted"]["recall"]["value"] == 0.0
    assert fit(answers(), policy="paper").file.options["k"] <= 0.5
    built = found.file.build()
    assert isinstance(built, Bounded)
    assert not built.provisional


def test_with_one_claim_per_answer_k_is_left_alone_and_it_says_so() -> None:
    fitted = fit(separable())
    assert options(fitted) == {"k": 0.7, "floor": 0.6, "ceiling": 0.8}
    assert "every answer has one claim, so that σ = 0: k cannot be told and is left at 0.7" in fitted.file.notes[0]
    with pytest.raises(InputError, match="the policy paper flags every contradiction whatever k is"):
        fit(separable(), policy="paper")


def test_single_claims_can_be_dealt_into_answers() -> None:
    fitted = fit(separable(50), bundle=4, seed=2)
    assert fitted.file.notes[0] == "composed: the claims were dealt at random into answers of 4, which nobody wrote"
    assert fitted.file.fitted_on["composed"] == 4
    assert fitted.file.fitted_on["answers"] == 25
    assert fitted.file.fitted_on["claims"] == {"supported": 50, "contradicted": 50, "unverified": 0}
    assert fitted.file.expected["f1"]["value"] == 1.0
    with pytest.raises(InputError, match="the data have answers with several claims, so that none need be composed"):
        fit(answers(), bundle=4)


def test_claims_that_are_left_over_when_others_are_dealt_are_counted() -> None:
    fitted = fit(separable(53), bundle=4, seed=2)  # 106 claims, 21 or 22 in each of five folds
    assert fitted.file.notes[:2] == (
        "composed: the claims were dealt at random into answers of 4, which nobody wrote",
        "6 of 106 claims fill no answer of 4 in their fold and are left out",
    )
    assert sum(fitted.file.fitted_on["claims"].values()) == 100
    with pytest.raises(
        InputError, match=r"label more \(24 of 60 claims fill no answer of 6 in their fold and are left out\)"
    ):
        fit(separable(30), bundle=6, folds=6)
    with pytest.raises(
        InputError, match=r"60 claims in 5 folds are too few for an answer of 13 in any; ask for a smaller"
    ):
        fit(separable(30), bundle=13)


# Scores that know nothing


@pytest.mark.parametrize(
    ("false", "settings", "found"),
    [
        (0.8, {}, "none of them has a score below 0"),
        (0.0, {"policy": "fixed"}, "none of them has a score below 0"),
        (None, {"policy": "fixed", "objective": "cost"}, "none of them has a score below 0"),
        (
            -0.3,
            {},
            r"the lowest score among them is -0\.3, and the thresholds that are tried begin at 0\.33",
        ),
    ],
)
def test_scores_by_which_nothing_false_could_be_flagged_are_refused(
    false: float | None, settings: dict[str, Any], found: str
) -> None:
    scores = [one(0.9, S, f"t{i}") for i in range(30)] + [one(false, C, f"f{i}") for i in range(30)]
    with pytest.raises(
        InputError, match=f"the scores tell nothing about the 30 contradicted claims: {found}, so that no policy could"
    ):
        fit(scores, **settings)
    with pytest.raises(InputError, match="the scores tell nothing about the 80 contradicted claims"):
        fit([replace(s, signed=abs(s.signed or 0)) for s in [*answers(80)]], policy="paper")


def test_a_fit_that_flags_nothing_says_so() -> None:
    scores = [one(-0.9, S, f"t{i}") for i in range(30)] + [one(-0.8, C, f"f{i}") for i in range(30)]
    fitted = fit(scores, objective="cost", cost_false_positive=50, policy="fixed")
    assert fitted.file.notes[0] == "the fitted policy flags none of the 30 contradicted claims that it was fitted to"


def test_a_guarantee_that_rests_on_no_signal_says_so() -> None:
    scores = [one(0.0, S, f"t{i}") for i in range(30)] + [one(0.0, C, f"f{i}") for i in range(5)]
    fitted = fit(scores, objective="conformal")
    assert options(fitted)["threshold"] == pytest.approx(5e-7)
    assert fitted.file.notes[:2] == (
        "the threshold is 5e-07, and a contradiction that is the most probable of three classes is stronger than "
        "1/3: every contradiction would be flagged as soon as the verifier gives any signal",
        "none of the 5 contradicted claims has a score below 0: whatever the threshold, none is flagged",
    )


def test_a_cost_moves_the_threshold() -> None:
    draw = random.Random(9)
    scores = [one(-0.5 - 0.3 * draw.random(), S, f"t{i}") for i in range(40)]
    scores += [one(-0.6 - 0.3 * draw.random(), C, f"f{i}") for i in range(40)]
    dear = {"objective": "cost", "policy": "fixed"}
    brave = options(fit(scores, cost_false_negative=20, **dear))["threshold"]  # type: ignore[arg-type]
    careful = options(fit(scores, cost_false_positive=20, **dear))["threshold"]  # type: ignore[arg-type]
    assert brave < 0.65 < 0.75 < careful
    assert fit(scores, cost_false_positive=20, **dear).file.objective == {  # type: ignore[arg-type]
        "name": "cost",
        "false_negative": 1.0,
        "false_positive": 20,
    }


def test_claims_without_a_score_are_missed_and_stay_in_the_count() -> None:
    scores = [*separable(), *(one(None, C, f"n{i}") for i in range(10)), *(one(-0.9, U, f"u{i}") for i in range(4))]
    fitted = fit(scores, policy="fixed")
    assert fitted.file.expected["recall"]["value"] == 0.75
    assert fitted.file.expected["recall"]["n"] == 40
    assert fitted.file.expected["flagged_unverified"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 4}
    assert fitted.file.fitted_on["without_score"] == 10
    assert fitted.file.fitted_on["claims"] == {"supported": 30, "contradicted": 40, "unverified": 4}


def test_it_says_when_nothing_is_gained_and_what_the_precision_rests_on() -> None:
    notes = fit(separable(), policy="fixed").file.notes
    assert notes == (
        "50.0% of the labelled claims are contradicted; where the share is another one, so is the precision",
        "bounded, not fitted, is no worse on these claims (f1 1.000 against 1.000 held out)",
        "fixed, not fitted, is no worse on these claims (f1 1.000 against 1.000 held out)",
        "the verifier is not known, so that a report under this policy says it may not fit",
    )


def test_the_same_data_give_the_same_file_in_any_order() -> None:
    scores = answers()
    shuffled = random.Random(0).sample(scores, len(scores))
    assert fit(scores) == fit(shuffled)
    assert fit(scores, objective="conformal") == fit(shuffled, objective="conformal")
    single = [one(s.signed, s.label or U, i) for i, s in enumerate(scores)]
    assert fit(single, bundle=3) == fit(random.Random(0).sample(single, len(single)), bundle=3)


# The guarantee


def test_the_conformal_threshold_rests_on_one_true_claim_of_each_group() -> None:
    scores = [one(-i / 100, S, i) for i in range(1, 40)]  # strengths 0.01 to 0.39
    scores += [replace(s, unit=f"again {s.unit}", answer=f"again {s.answer}", group=s.group) for s in scores]
    scores += [one(-0.9, C, f"c{i}") for i in range(10)]
    fitted = fit(scores, objective="conformal", alpha=0.1)
    assert fitted.file.policy == "conformal"
    assert options(fitted) == {"threshold": pytest.approx(0.36 + 5e-7), "alpha": 0.1, "support": 0.5}
    assert fitted.file.guarantee is not None
    assert "at most 0.1" in fitted.file.guarantee
    assert "exchangeable with the 39 true claims" in fitted.file.guarantee
    assert "rank 36 of 39" in fitted.file.guarantee
    assert "0.1000 where no scores tie" in fitted.file.guarantee
    assert fitted.file.expected["recall"]["value"] == 1.0
    assert fitted.file.expected["flagged_supported"]["n"] == 78
    built = fitted.file.build()
    assert isinstance(built, Conformal)
    assert not built.provisional


def test_a_score_that_was_rounded_to_the_threshold_still_ties_with_it() -> None:
    scores = [one(round(-0.98765437, 6), S, i) for i in range(20)]
    policy = fit(scores, objective="conformal").file.build()
    assert policy.decide([-0.98765437]).verdicts == (Verdict.UNVERIFIED,)


def test_too_few_true_claims_for_alpha_are_refused_with_the_number_needed() -> None:
    few = [one(-i / 100, S, i) for i in range(98)]
    with pytest.raises(
        InputError, match=r"alpha = 0\.01 needs scores of at least 99 true claims of different groups, and there are 98"
    ):
        fit(few, objective="conformal", alpha=0.01)
    with pytest.raises(InputError, match=r"ask for an alpha of at least 0\.0102"):
        fit(few, objective="conformal", alpha=0.01)
    assert options(fit(few, objective="conformal", alpha=0.0102))["threshold"] == pytest.approx(0.97, abs=1e-6)
    with pytest.raises(
        InputError, match="needs scores of at least 9 true claims of different groups, and there are 1;"
    ):
        fit([replace(s, group="g", answer=f"{i}") for i, s in enumerate(few)], objective="conformal")


def test_with_just_enough_true_claims_only_the_others_are_measured() -> None:
    scores = [one(-i / 100, S, i) for i in range(9)] + [one(-0.9, C, "c"), one(-0.9, U, "u")]
    fitted = fit(scores, objective="conformal", alpha=0.1)
    assert fitted.by_fold == ()
    assert list(fitted.file.expected) == ["recall", "flagged_unverified"]
    assert "too few true claims to measure on some of them" in fitted.file.notes[1]


def test_a_threshold_that_nothing_can_pass_is_told() -> None:
    fitted = fit([one(-1.0, S, i) for i in range(20)], objective="conformal")
    assert options(fitted)["threshold"] == 1.0
    assert fitted.file.notes[0] == "the threshold is 1: nothing can be flagged with this alpha"


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "auc"}, "unknown objective 'auc'; there are f1, cost, conformal"),
        ({"policy": "strict"}, "unknown policy 'strict'; there are bounded, conformal, fixed, paper"),
        ({"policy": "conformal"}, "policy 'conformal' cannot be fitted for the objective 'f1'"),
        (
            {"policy": "fixed", "objective": "conformal"},
            "policy 'fixed' cannot be fitted for the objective 'conformal'",
        ),
        ({"alpha": 0.0}, r"alpha must be between 0 and 1 \(both excluded\), got 0\.0"),
        ({"folds": 1}, "folds must be from 2 to 20, got 1"),
        ({"bundle": 1}, "bundle must be from 2 to 100 claims per answer, got 1"),
        (
            {"bundle": 3, "policy": "fixed"},
            "'fixed' decides each claim by itself, whatever its answer; leave bundle out",
        ),
        ({"objective": "cost", "cost_false_negative": -1}, "cost of a false negative must be a finite number of at le"),
        (
            {"objective": "cost", "cost_false_positive": float("nan")},
            "false positive must be a finite number .* got nan",
        ),
        (
            {"objective": "cost", "cost_false_negative": 0, "cost_false_positive": 0},
            "are both 0; give one of them a cost",
        ),
        ({"cost_false_negative": 2}, "costs are used by the objective cost, not by 'f1'"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(separable(), **settings)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (separable(19), "there are 19 contradicted claims in 19 groups, and a fit needs at least 20 of each class"),
        ([one(0.9, S, i) for i in range(50)], "there are 0 contradicted claims in 0 groups"),
        (
            [replace(s, group="g", answer="a") if s.label is C else s for s in separable()],
            r"there are 30 contradicted claims in 1 groups, .* at least as many groups as folds \(5\)",
        ),
        ([one(2.0, S, 1)], "a signed score must be from -1 to 1, got 2.0"),
        ([one(float("nan"), S, 1)], "a signed score must be from -1 to 1, got nan"),
        ([one(0.5, Verdict.FAILED, 1)], "a gold label must be supported, contradicted or unverified, got .*failed"),
        ([one(0.5, S, 1), replace(one(0.5, S, 2), answer="1")], "the answer '1' is in two groups, '1' and '2'"),
        ([one(0.5, S, 1), replace(one(0.5, C, 1))], "the claims of '1' have different labels; a unit has one"),
    ],
)
def test_scores_that_cannot_be_fitted_to_are_refused(scores: list[LabelledScore], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(scores)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "find_spec", lambda package: None)
    with pytest.raises(MissingExtra, match=r'needs the package .numpy.*pip install "corrigenda\[eval\]"'):
        fit(separable())


def test_the_file_is_read_back_as_it_was_fitted(tmp_path: Any) -> None:
    fitted = fit(separable(), verifier="onnx:tiny")
    path = tmp_path / "p.json"
    path.write_text(fitted.file.to_json(), "utf-8")
    assert policy_files.read(path) == fitted.file
    assert policy_files.load(path, "onnx:tiny") == fitted.file.build()

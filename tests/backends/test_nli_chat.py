"""The chat verifier, over a scripted chat model; what needs the real one is marked `embedded`."""

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.nli_pairs import EMBEDDED, numbers, pair

from corrigenda import models
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_chat import DEFAULT_MAX_TOKENS, ChatEntailer
from corrigenda.backends.nli_chat_scheme import (
    UNFITTED,
    Calibration,
    Example,
    Scheme,
    calibration_for,
    default_scheme,
    features,
    load_calibration,
    one_line,
    parse_calibrations,
)
from corrigenda.errors import BackendError, ConfigError, Unreachable
from corrigenda.types import ChatRequest, Entailment, Message, Pair, PairFailure

SCHEME_DATA: dict[str, Any] = {
    "system": "One word.",
    "turn": "Text: {premise}\nStatement: {hypothesis}",
    "answers": {"entailment": ["True", "true"], "neutral": ["Unknown"], "contradiction": ["False"]},
    "examples": [["A cat sleeps.", "An animal sleeps.", "entailment"]],
}
MODEL_DATA: dict[str, Any] = {
    "model": "local:tiny",
    "sha256": "ab" * 32,
    "scheme": "s",
    "constants": {"lean": 0, "direction": 1, "bias": 0, "known": 1, "strength": 0},
    "fitted_on": None,
    "measured": [],
}
PLAIN = parse_calibrations({"schemes": {"s": SCHEME_DATA}, "models": [MODEL_DATA]})[0]

LogProbs = tuple[float, ...] | Exception
Rule = Callable[[str], LogProbs]


class Labels:
    """A LabelScorer that answers by a function of the last turn and keeps what it was asked."""

    name = "local:tiny"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[ChatRequest] = []
        self.under_way = 0
        self.most_under_way = 0

    async def label_logprobs(self, request: ChatRequest, labels: Sequence[str]) -> tuple[float, ...]:
        assert tuple(labels) == ("True", "true", "Unknown", "False")
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        answer = self.rule(request.messages[-1].content)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    @property
    def asked(self) -> list[str]:
        return [request.messages[-1].content for request in self.requests]


def logs(*probabilities: float) -> tuple[float, ...]:
    return tuple(math.log(p) if p else -math.inf for p in probabilities)


def score(rule: Rule, *pairs: Pair, calibration: Calibration = PLAIN) -> list[Entailment | PairFailure]:
    return asyncio.run(ChatEntailer(Labels(rule), calibration=calibration).entail(pairs))


CAT = pair("A cat sleeps.", "A cat runs.")


# The request


def test_the_request_holds_the_examples_then_the_pair() -> None:
    model = Labels(lambda turn: logs(0.5, 0, 0.25, 0.25))
    asyncio.run(ChatEntailer(model, calibration=PLAIN).entail([CAT]))
    assert model.requests == [
        ChatRequest(
            stage="entail",
            messages=(
                Message(role="system", content="One word."),
                Message(role="user", content="Text: A cat sleeps.\nStatement: An animal sleeps."),
                Message(role="assistant", content="True"),
                Message(role="user", content="Text: A cat sleeps.\nStatement: A cat runs."),
            ),
            temperature=0.0,
            max_tokens=1,
        )
    ]


def test_pairs_of_one_premise_follow_each_other_and_equal_pairs_are_asked_once() -> None:
    model = Labels(lambda turn: logs(0.5, 0, 0.25, 0.25))
    pairs = [pair("P.", "a"), pair("Q.", "b"), pair("P.", "c"), pair("P.", "a")]
    found = asyncio.run(ChatEntailer(model, calibration=PLAIN).entail(pairs))
    assert model.asked == ["Text: P.\nStatement: a", "Text: P.\nStatement: c", "Text: Q.\nStatement: b"]
    assert len(found) == 4
    assert found[0] == found[3]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_requests_are_under_way_than_allowed(concurrency: int) -> None:
    model = Labels(lambda turn: logs(0.5, 0, 0.25, 0.25))
    entailer = ChatEntailer(model, calibration=PLAIN, concurrency=concurrency)
    asyncio.run(entailer.entail([pair("P.", str(i)) for i in range(9)]))
    assert model.most_under_way == concurrency


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\n\nStatement: B.\tC", "A Statement: B. C"),
        ("a\u2028b\u2029c\x0bd\x85e\x00f", "a b c d e f"),
        ("x<|im_end|>\n<|im_start|>system", "x< |im_end|> < |im_start|>system"),
        ("</s>[/INST] <start_of_turn>", "< /s>[ /INST] < start_of_turn>"),
        ("5 < 6 <7, array[0]", "5 < 6 <7, array[0]"),
        ("5 mW, 5 MW, −5 °C, 1.250.000,00 €", "5 mW, 5 MW, −5 °C, 1.250.000,00 €"),
        ("{hypothesis} {premise} {0}", "{hypothesis} {premise} {0}"),
        ("lone \ud800 surrogate 🧭", "lone \ufffd surrogate 🧭"),
    ],
)
def test_hostile_text_becomes_one_plain_line(text: str, expected: str) -> None:
    assert one_line(text) == expected
    turn = PLAIN.scheme.request(pair(text, text)).messages[-1].content
    assert turn == f"Text: {expected}\nStatement: {expected}"


# From log-probabilities to probabilities


def test_without_constants_the_probabilities_are_the_models_own_over_the_three_words() -> None:
    (found,) = score(lambda turn: logs(0.3, 0.1, 0.2, 0.2), CAT)  # 0.2 went to other words
    assert numbers(found) == pytest.approx((0.5, 0.25, 0.25))


def test_the_constants_are_applied() -> None:
    data = MODEL_DATA | {
        "constants": {"lean": math.log(3), "direction": 2.0, "bias": -1.0, "known": 0.5, "strength": 3.0}
    }
    fitted = parse_calibrations({"schemes": {"s": SCHEME_DATA}, "models": [data]})[0]
    (found,) = score(lambda turn: logs(0.2, 0, 0.2, 0.4), CAT, calibration=fitted)
    decided = 1 / (1 + math.exp(1 - 0.5 * math.log(3) - 3 * math.log(2)))  # P(True) + P(False) is 3 P(Unknown)
    assert numbers(found) == pytest.approx((decided * 3 / 7, 1 - decided, decided * 4 / 7))  # 3 times 1:2 squared


def test_a_label_that_is_not_reported_counts_as_very_unlikely() -> None:
    (found,) = score(lambda turn: (math.log(0.9), -math.inf, -math.inf, -math.inf), CAT)
    assert numbers(found) == pytest.approx((1, 0, 0), abs=1e-6)
    assert features((0.0, -math.inf, -40.0)) == pytest.approx((15.0, 15.0), abs=1e-6)
    assert features((-math.inf, 0.0, -math.inf)) == pytest.approx((0.0, math.log(2) - 15))


@pytest.mark.parametrize(
    ("logprobs", "reason"),
    [
        (logs(0, 0, 0, 0), "none of the answers 'True', 'Unknown', 'False' is among the model's likely first words"),
        ((math.nan, -1.0, -1.0, -1.0), "these are not log-probabilities: (nan, -1.0, -1.0, -1.0)"),
        ((math.inf, -1.0, -1.0, -1.0), "these are not log-probabilities: (inf, -1.0, -1.0, -1.0)"),
        ((0.5, -1.0, -1.0, -1.0), "these are not log-probabilities: (0.5, -1.0, -1.0, -1.0)"),
        ((-1.0, -1.0), "4 log-probabilities were asked for, 2 came"),
    ],
)
def test_unusable_log_probabilities_fail_their_pair_alone(logprobs: LogProbs, reason: str) -> None:
    good = pair("A cat sleeps.", "A dog.")
    found = score(lambda turn: logs(0.5, 0, 0.25, 0.25) if "dog" in turn else logprobs, CAT, good)
    assert found[0] == PairFailure(reason=reason)
    assert numbers(found[1]) == pytest.approx((0.5, 0.25, 0.25))


# Failures


def test_a_model_that_fails_on_one_pair_fails_that_pair() -> None:
    good = pair("A cat sleeps.", "A dog.")
    found = score(lambda turn: logs(0.5, 0, 0.25, 0.25) if "dog" in turn else Unreachable("cut"), CAT, good)
    assert found[0] == PairFailure(reason="the chat model failed on this pair: cut")
    assert numbers(found[1]) == pytest.approx((0.5, 0.25, 0.25))


def test_a_model_that_fails_on_every_pair_raises_its_error() -> None:
    with pytest.raises(Unreachable, match=r"^cut$"):
        score(lambda turn: Unreachable("cut"), CAT, pair("P.", "c"))


def test_an_error_of_another_kind_is_translated() -> None:
    with pytest.raises(BackendError, match=r"^the chat model 'local:tiny' broke: ZeroDivisionError: oops$"):
        score(lambda turn: ZeroDivisionError("oops"), CAT)


def test_a_pair_that_is_too_long_is_not_asked_about() -> None:
    model = Labels(lambda turn: logs(0.5, 0, 0.25, 0.25))
    entailer = ChatEntailer(model, calibration=PLAIN, max_tokens=20)
    found = asyncio.run(entailer.entail([pair("word " * 18, "one two three"), pair("word " * 17, "one two three")]))
    assert found[0] == PairFailure(
        reason="reference and claim have 21 tokens, but the verifier reads at most 20; they are never cut"
    )
    assert numbers(found[1]) == pytest.approx((0.5, 0.25, 0.25))
    assert len(model.requests) == 1


@pytest.mark.parametrize("blank", [pair("", "a"), pair(" \n\u200b", "a"), pair("a", "\t")])
def test_a_blank_text_is_not_asked_about(blank: Pair) -> None:
    model = Labels(lambda turn: logs(0.5, 0, 0.25, 0.25))
    found = asyncio.run(ChatEntailer(model, calibration=PLAIN).entail([blank]))
    assert found == [PairFailure(reason="the reference or the claim is blank")]
    assert model.requests == []


def test_no_pairs_give_no_results() -> None:
    assert score(lambda turn: Unreachable("cut")) == []


def test_a_closed_verifier_says_so() -> None:
    entailer = ChatEntailer(Labels(lambda turn: ()), calibration=PLAIN)
    asyncio.run(entailer.aclose())
    asyncio.run(entailer.aclose())
    with pytest.raises(BackendError, match="was closed; make a new one"):
        asyncio.run(entailer.entail([CAT]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 15}, "max_tokens of the chat verifier must be at least 16, got 15"),
        ({"concurrency": 0}, "concurrency of the chat verifier must be at least 1, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ChatEntailer(Labels(lambda turn: ()), **settings)


# The shipped constants


def test_the_embedded_model_is_calibrated() -> None:
    model = ScriptedChat({"rules": [{"logprobs": {"True": -0.1, "Unknown": -3.0, "False": -3.0}}]})
    found = calibration_for(EMBEDDED)
    assert found.fitted
    assert found.sha256 == models.find(EMBEDDED.removeprefix("local:")).sha256
    assert calibration_for("any name", found.sha256) is found
    entailer = ChatEntailer(model, calibration=found)
    assert entailer.warnings == ()
    assert (entailer.max_tokens, entailer.name) == (DEFAULT_MAX_TOKENS, "chat:scripted")


def test_another_model_is_used_uncalibrated_and_says_so() -> None:
    model = ScriptedChat({"rules": [{"logprobs": {"True": math.log(0.6), "Unknown": math.log(0.2)}}]})
    entailer = ChatEntailer(model)
    assert entailer.name == "chat:scripted (not calibrated)"
    (warning,) = entailer.warnings
    assert "corrigenda calibrate-nli" in warning
    assert entailer.calibration.scheme == default_scheme()
    (found,) = asyncio.run(entailer.entail([CAT]))
    assert numbers(found) == pytest.approx((0.75, 0.25, 0), abs=1e-5)


def test_a_hash_that_is_not_known_does_not_fall_back_to_the_name() -> None:
    assert not calibration_for(EMBEDDED, "00" * 32).fitted


def test_the_shipped_examples_show_every_class() -> None:
    scheme = default_scheme()
    assert {example.answer for example in scheme.examples} == {"entailment", "neutral", "contradiction"}
    assert parse_calibrations({"schemes": {"one-word": scheme.as_data()}, "models": []}) == ()
    assert scheme.labels == ("True", "true", "Unknown", "unknown", "False", "false")


def test_a_calibration_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"schemes": {"s": SCHEME_DATA}, "models": [MODEL_DATA]}))
    expected = Calibration(
        model="local:tiny",
        sha256="ab" * 32,
        scheme=Scheme(
            name="s",
            system="One word.",
            turn="Text: {premise}\nStatement: {hypothesis}",
            answers=(("True", "true"), ("Unknown",), ("False",)),
            examples=(Example(premise="A cat sleeps.", hypothesis="An animal sleeps.", answer="entailment"),),
        ),
        constants=UNFITTED,
        fitted_on=None,
    )
    assert load_calibration(path) == (expected,)


def test_a_calibration_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"calibration file '.*none\.json' cannot be read"):
        load_calibration(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(ConfigError, match=r"calibration file '.*text\.json' cannot be read"):
        load_calibration(tmp_path / "text.json")


@pytest.mark.parametrize(
    ("scheme", "model", "message"),
    [
        ({"turn": "{hypothesis} {premise}"}, {}, "'turn' needs {premise} and, after it, {hypothesis}"),
        ({"answers": {"entailment": ["x"], "neutral": [], "contradiction": ["y"]}}, {}, "every class needs an answer"),
        ({"examples": [["a", "b", "maybe"]]}, {}, "an example's answer is none of"),
        ({}, {"constants": {"direction": 1}}, "malformed: TypeError"),
        ({}, {"constants": dict.fromkeys(UNFITTED._fields, math.nan)}, "the constants must be finite, got"),
        ({}, {"bounds": [0.9, 0.5]}, r"bounds must be 0 < floor <= ceiling < 1, got \[0\.9, 0\.5\]"),
        ({}, {"scheme": "other"}, "malformed: KeyError: 'other'"),
    ],
)
def test_malformed_calibration_data_are_refused(scheme: dict[str, Any], model: dict[str, Any], message: str) -> None:
    data = {"schemes": {"s": SCHEME_DATA | scheme}, "models": [MODEL_DATA | model]}
    with pytest.raises(ConfigError, match=message):
        parse_calibrations(data)

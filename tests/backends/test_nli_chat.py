"""The chat verifier, over a scripted chat model; what needs the real one is marked `embedded`."""

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest
from tests.nli_pairs import EMBEDDED, PLAIN, TWICE, Labels, LogProbs, Rule, logs, numbers, pair

from corrigenda import models
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_chat import DEFAULT_MAX_TOKENS, ChatEntailer
from corrigenda.backends.nli_chat_scheme import Calibration, calibration_for, default_schemes
from corrigenda.errors import BackendError, ConfigError, Unreachable
from corrigenda.types import ChatRequest, Entailment, Message, Pair, PairFailure


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
    assert model.labels == [("True", "true", "Unknown", "False")]


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


# From log-probabilities to probabilities


def test_without_constants_the_probabilities_are_the_models_own_over_the_three_words() -> None:
    (found,) = score(lambda turn: logs(0.3, 0.1, 0.2, 0.2), CAT)  # 0.2 went to other words
    assert numbers(found) == pytest.approx((0.5, 0.25, 0.25))


def test_a_label_that_is_not_reported_counts_as_very_unlikely() -> None:
    (found,) = score(lambda turn: (math.log(0.9), -math.inf, -math.inf, -math.inf), CAT)
    assert numbers(found) == pytest.approx((1, 0, 0), abs=1e-6)


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
    model = Labels(lambda turn: ())
    model.name = EMBEDDED
    found = calibration_for(EMBEDDED)
    assert found.fitted
    assert found.sha256 == models.find(EMBEDDED.removeprefix("local:")).sha256
    assert calibration_for("any name", found.sha256) is found
    entailer = ChatEntailer(model, calibration=found)
    assert entailer.warnings == ()
    assert (entailer.max_tokens, entailer.name) == (DEFAULT_MAX_TOKENS, f"chat:{EMBEDDED}")


def test_constants_that_do_not_ship_are_named_and_another_models_are_warned_about() -> None:
    own = replace(PLAIN, fitted_on="cats (9 pairs)")
    entailer = ChatEntailer(Labels(lambda turn: ()), calibration=own)
    assert (entailer.name, entailer.warnings) == ("chat:local:tiny (fitted on cats (9 pairs))", ())
    (warning,) = ChatEntailer(Labels(lambda turn: ()), calibration=replace(own, model="local:huge")).warnings
    assert "were fitted for the chat model 'local:huge', so its probabilities may be far off" in warning


def test_another_model_is_used_uncalibrated_and_says_so() -> None:
    model = ScriptedChat({"rules": [{"logprobs": {"True": math.log(0.6), "Unknown": math.log(0.2)}}]})
    entailer = ChatEntailer(model)
    assert entailer.name == "chat:scripted (not calibrated)"
    (warning,) = entailer.warnings
    assert "corrigenda calibrate-nli" in warning
    assert entailer.calibration.scheme == default_schemes()[1]
    (found,) = asyncio.run(entailer.entail([CAT]))
    assert numbers(found) == pytest.approx((0.75, 0.25, 0), abs=1e-5)


# The second look


def first_then(first: LogProbs, second: LogProbs) -> Rule:
    """Answer the two questions about every pair."""
    return lambda turn: first if turn.startswith("Text: ") else second


UNSURE = logs(0.5, 0, 0.25, 0.25)
SURE = logs(0.9, 0, 0.05, 0.05)


def test_where_the_first_look_is_unsure_both_looks_count() -> None:
    """By the two looks together, true to false is 2 * 3 to 1, and decided to undecided 3 * 4 to 1."""
    (found,) = score(first_then(UNSURE, logs(0.6, 0.2, 0.2)), CAT, calibration=TWICE)
    assert numbers(found) == pytest.approx((12 / 13 * 6 / 7, 1 / 13, 12 / 13 / 7))


def test_only_unsure_pairs_are_asked_about_again_after_all_first_looks_and_by_premise() -> None:
    model = Labels(lambda turn: SURE if "c" in turn else first_then(UNSURE, logs(0.6, 0.2, 0.2))(turn))
    pairs = [pair("P", "a"), pair("Q", "b"), pair("P", "c"), pair("P", "d"), pair("P", "a")]
    found = asyncio.run(ChatEntailer(model, calibration=TWICE).entail(pairs))
    assert model.asked == [
        "Text: P\nStatement: a",
        "Text: P\nStatement: c",
        "Text: P\nStatement: d",
        "Text: Q\nStatement: b",
        'Read """P""". Then """a"""?',
        'Read """P""". Then """d"""?',
        'Read """Q""". Then """b"""?',
    ]
    assert model.labels[-1] == ("Yes", "Maybe", "No")
    assert model.requests[-1].messages[0] == Message(role="system", content="Look again.")
    assert {request.stage for request in model.requests} == {"entail"}
    twice = pytest.approx((12 / 13 * 6 / 7, 1 / 13, 12 / 13 / 7))
    assert [numbers(result) == twice for result in found] == [True, True, False, True, True]
    assert numbers(found[2]) == pytest.approx((0.9, 0.05, 0.05))


@pytest.mark.parametrize(
    "failure", [Unreachable("cut"), ZeroDivisionError("oops"), logs(0, 0, 0), (math.nan, -1.0, -1.0), (-1.0,)]
)
def test_a_second_look_that_fails_leaves_the_first_ones_probabilities(failure: LogProbs) -> None:
    (found,) = score(first_then(UNSURE, failure), CAT, calibration=TWICE)
    assert numbers(found) == pytest.approx((0.5, 0.25, 0.25))


def test_a_pair_that_failed_is_not_asked_about_again() -> None:
    model = Labels(lambda turn: logs(0, 0, 0, 0) if "runs" in turn else UNSURE)
    pairs = [CAT, pair(" ", "b"), pair("word " * 20, "c")]
    found = asyncio.run(ChatEntailer(model, calibration=TWICE, max_tokens=20).entail(pairs))
    assert [type(result) for result in found] == [PairFailure] * 3
    assert len(model.asked) == 1


@pytest.mark.parametrize("concurrency", [1, 3])
def test_second_looks_keep_to_the_concurrency(concurrency: int) -> None:
    model = Labels(first_then(UNSURE, logs(0.6, 0.2, 0.2)))
    entailer = ChatEntailer(model, calibration=TWICE, concurrency=concurrency)
    asyncio.run(entailer.entail([pair("P.", str(i)) for i in range(9)]))
    assert (len(model.asked), model.most_under_way) == (18, concurrency)

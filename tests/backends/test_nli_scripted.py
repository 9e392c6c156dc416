import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.errors import BackendError, BadReply, ConfigError, RateLimited, Unreachable
from corrigenda.types import Entailment, Pair, PairFailure

RULES: list[dict[str, Any]] = [
    {"hypothesis_contains": "5 hills", "scores": [0.01, 0.01, 0.98]},
    {"premise_contains": "Oslo", "hypothesis_contains": "Norway", "scores": [0.9, 0.1, 0]},
    {"hypothesis_contains": "broken", "error": "the script says so"},
]
CONTRADICTED = Entailment(entailment=0.01, neutral=0.01, contradiction=0.98)


def pair(premise: str, hypothesis: str) -> Pair:
    return Pair(premise=premise, hypothesis=hypothesis)


def score(entailer: ScriptedEntailer, *pairs: Pair) -> list[Entailment | PairFailure]:
    return asyncio.run(entailer.entail(pairs))


def test_pairs_are_scored_by_the_first_rule_that_fits() -> None:
    entailer = ScriptedEntailer({"rules": RULES})
    pairs = [pair("Oslo is big.", "Oslo is in Norway."), pair("x", "Rome has 5 hills."), pair("x", "broken")]
    assert score(entailer, *pairs) == [
        Entailment(entailment=0.9, neutral=0.1, contradiction=0.0),
        CONTRADICTED,
        PairFailure(reason="the script says so"),
    ]
    assert score(entailer) == []
    assert entailer.calls == [pairs, []]


def test_a_pair_that_no_rule_fits_is_shown() -> None:
    with pytest.raises(BadReply, match=r"none of the 3 rules fits this pair .*premise 'Rome'.*hypothesis 'Norway'"):
        score(ScriptedEntailer({"rules": RULES}), pair("Rome", "Norway"))


def test_a_rule_serves_as_often_as_it_says() -> None:
    entailer = ScriptedEntailer({"rules": [{"error": "first", "times": 1}, {"scores": [0.01, 0.01, 0.98]}]})
    assert score(entailer, pair("a", "b"), pair("a", "b")) == [PairFailure(reason="first"), CONTRADICTED]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"status": 429, "body": "slow"}, RateLimited, "status 429: slow"),
        ({"status": 500}, BackendError, "status 500: the script asks for this error"),
        ({}, Unreachable, "status none"),
    ],
)
def test_an_error_with_a_status_fails_the_call(error: dict[str, Any], kind: type[BackendError], message: str) -> None:
    with pytest.raises(kind, match=message):
        score(ScriptedEntailer({"rules": [{"error": error}]}), pair("a", "b"))


def test_lengths_are_counted_in_words() -> None:
    entailer = ScriptedEntailer({"max_tokens": 4, "rules": [{"scores": [0.01, 0.01, 0.98]}]})
    assert entailer.max_tokens == 4
    assert entailer.count_tokens(" a  b\nc ") == 3
    assert score(entailer, pair("a b", "c d"), pair("a b c", "d e")) == [
        CONTRADICTED,
        PairFailure(reason="the pair has 5 words, and scripted takes 4"),
    ]
    assert ScriptedEntailer({"rules": []}).max_tokens == 1_000_000


def test_simulated_time() -> None:
    entailer = ScriptedEntailer(
        {"seconds_per_call": 0.03, "seconds_per_pair": 0.01, "rules": [{"scores": [0.01, 0.01, 0.98]}]}
    )

    async def work() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await entailer.entail([pair("a", "b")] * 2)
        await entailer.aclose()
        return loop.time() - start

    assert 0.049 <= asyncio.run(work()) < 0.4


def test_files_and_the_log(tmp_path: Path) -> None:
    file, log = tmp_path / "nli.json", tmp_path / "log.jsonl"
    file.write_text(json.dumps({"description": "d", "rules": RULES}), encoding="utf-8")
    entailer = ScriptedEntailer(str(file), log_path=log)
    assert entailer.name == f"scripted:{file}"
    score(entailer, pair("x", "Rome has 5 hills."))
    with pytest.raises(BadReply, match="none of the 3 rules"):
        score(entailer, pair("è", "y"))
    assert [json.loads(line) for line in log.read_text("utf-8").splitlines()] == [
        {"call": "entail", "pairs": [{"premise": "x", "hypothesis": "Rome has 5 hills.", "rule": 0}]},
        {"call": "entail", "pairs": [{"premise": "è", "hypothesis": "y", "rule": None}]},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"rules": [{"scores": [0.5, 0.5]}]}, "'scores' must be .*with sum 1, got"),
        ({"rules": [{"scores": [0.5, 0.5, 0.5]}]}, "'scores' must be .*with sum 1, got"),
        ({"rules": [{"scores": [1.5, -0.5, 0]}]}, "'scores' must be .*with sum 1, got"),
        ({"rules": [{"scores": ["a", 0, 1]}]}, "'scores' must be .*with sum 1, got"),
        ({"rules": [{"premise_contains": "x"}]}, r"rules\[0\] serves nothing; give it one of 'scores', 'error'"),
        ({"rules": [{"error": ""}]}, "'error' must be a text, or an object"),
        ({"rules": [{"error": 5}]}, "'error' must be a text, or an object"),
        ({"rules": [{"error": {"after_tokens": 1}}]}, "'error' must be a text, or an object"),
        ({"rules": [{"contains": "x", "error": "e"}]}, "knows no key 'contains'; allowed: error, hypothesis_contains"),
        ({"rules": [], "defaults": {"scores": [1, 0, 0]}}, "defaults knows no key 'scores'"),
        ({"rules": [], "max_tokens": 0}, "'max_tokens' must be a whole number of at least 1, got 0"),
    ],
)
def test_mistakes(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ScriptedEntailer(content)

"""Pairs and their scores in short, for the tests of the chat verifier."""

from corrigenda.types import Entailment, Pair, PairFailure

EMBEDDED = "local:qwen2.5-coder-1.5b-instruct"


def pair(premise: str, hypothesis: str) -> Pair:
    return Pair(premise=premise, hypothesis=hypothesis)


def numbers(result: Entailment | PairFailure) -> tuple[float, float, float]:
    assert isinstance(result, Entailment), result
    return result.entailment, result.neutral, result.contradiction

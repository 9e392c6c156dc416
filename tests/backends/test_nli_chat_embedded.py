"""The chat verifier on the real embedded model."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.nli_pairs import EMBEDDED, numbers, pair

from corrigenda import models
from corrigenda.backends.chat_local import LocalChat
from corrigenda.backends.nli_chat import ChatEntailer
from corrigenda.backends.nli_numbers import NumberChecked
from corrigenda.errors import ModelError
from corrigenda.types import Entailment


@pytest.fixture(scope="module")
def local() -> Iterator[LocalChat]:
    pytest.importorskip("xllamacpp")
    try:
        path = models.path(models.DEFAULT)
    except ModelError as exc:
        pytest.skip(str(exc))
    model = LocalChat(path, name=EMBEDDED)
    yield model
    asyncio.run(model.aclose())


EIFFEL = "The Eiffel Tower is 330 metres tall and stands in Paris. It was built for the 1889 World's Fair."


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        (EIFFEL, "The Eiffel Tower is in Paris.", "entailment"),
        (EIFFEL, "The Eiffel Tower is in Rome.", "contradiction"),
        ("Lena and Omar both live in Turin and work as nurses.", "Lena lives in Turin.", "entailment"),
        ("Rome stands on seven hills. Italy is in Europe.", "Italy is in Asia.", "contradiction"),
        ("The vaccine was not approved in 2019.", "The vaccine was approved in 2019.", "contradiction"),
    ],
)
def test_the_embedded_model_tells_plain_pairs_apart(
    local: LocalChat, premise: str, hypothesis: str, label: str
) -> None:
    (found,) = asyncio.run(ChatEntailer(local).entail([pair(premise, hypothesis)]))
    assert isinstance(found, Entailment)
    assert found.label == label


@pytest.mark.embedded
def test_the_embedded_model_does_not_flag_what_the_reference_leaves_open(local: LocalChat) -> None:
    open_claims = ["The train from Lyon is usually full.", "The train from Lyon has a dining car."]
    found = asyncio.run(
        ChatEntailer(local).entail([pair("The train from Lyon arrives at noon.", c) for c in open_claims])
    )
    assert all(numbers(result)[2] < 0.5 for result in found)


@pytest.mark.embedded
def test_numbers_units_dates_and_negation(local: LocalChat, shared_cases: dict[str, dict[str, Any]]) -> None:
    case = shared_cases["PC-23"]
    pairs = [pair(*texts) for texts in case["input"]["pairs_(reference,claim)"]]
    found = asyncio.run(NumberChecked(ChatEntailer(local)).entail(pairs))
    flagged = [numbers(result)[2] >= 0.5 for result in found]
    expected = [label == "flagged" for label in case["expected"]["labels"]]
    assert [i for i, (is_, should) in enumerate(zip(flagged, expected, strict=True)) if is_ and not should] == []
    assert sum(is_ and should for is_, should in zip(flagged, expected, strict=True)) >= 5

"""The API's description: it is right, the page made of it reaches nobody, and no request that fits it gives a 500."""

from __future__ import annotations

import json
import re
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from corrigenda.server.describe import OPERATIONS, docs_page, openapi
from corrigenda.server.wire import ChatBody, DecideBody, VerifyBody
from tests.scripted import ASKED, CONTRADICT, ENTAIL, Rules
from tests.server.kit import Running, scripted

BOUND = 40
"""Requests for each operation."""


def test_every_operation_is_described_once() -> None:
    described = openapi(keys=False)
    found = [(method, path) for path, methods in described["paths"].items() for method in methods]
    assert found == [(operation.method, operation.path) for operation in OPERATIONS]
    Draft202012Validator.check_schema(described["components"]["schemas"]["Report"])
    text = json.dumps(described)
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert name in described["components"]["schemas"], name
    assert "security" not in text.partition('"components"')[0]
    keyed = openapi(keys=True)
    assert keyed["paths"]["/v1/verify"]["post"]["security"] == [{"key": []}]
    assert "security" not in keyed["paths"]["/healthz"]["get"]


def test_the_examples_work() -> None:
    with scripted() as server:
        for operation in OPERATIONS:
            if operation.example is not None:
                assert server.call(operation.path, operation.example).status == 200


def test_the_page_names_everything_and_loads_nothing() -> None:
    with scripted() as server:
        got = server.call("/docs")
        described = server.call("/openapi.json").json
    page = got.body.decode()
    assert page == docs_page(described)
    for model in (ChatBody, VerifyBody, DecideBody):
        for name in model.model_fields:
            assert f"<code>{name}</code>" in page
    assert not re.search(r"https?://|//\w|<script|<link|<img|@import|url\(", page)
    assert got.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.fixture(scope="module")
def running() -> Any:
    """A server with small limits, so that the requests made up here meet them too."""
    rules = [*ASKED, {"reply": "Seven."}]
    nli: Rules = [{"hypothesis_contains": "5", "scores": CONTRADICT}, {"scores": ENTAIL}]
    limits = {"answer_chars": 200, "context_chars": 500, "batch": 3, "messages": 4}
    with scripted(rules, nli, limits=limits) as server:
        yield server


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_no_request_gives_a_500(running: Running, operation: Any, mode: schemathesis.GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(openapi(keys=False))
    schema.config.update(base_url=running.base_url)
    strategy = schema[operation.path][operation.method.upper()].as_strategy(generation_mode=mode)
    seen = []

    @hypothesis.given(case=strategy)
    @hypothesis.settings(
        max_examples=BOUND, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
    )
    def run(case: Any) -> None:
        response = case.call()
        seen.append(response.status_code)
        case.validate_response(
            response,
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )

    try:
        run()
    except hypothesis.errors.Unsatisfiable:
        pytest.skip("there is nothing to get wrong in this operation")
    assert 500 not in seen
    if mode is schemathesis.GenerationMode.POSITIVE and operation.path != "/v1/models/{name}":
        assert 200 in seen

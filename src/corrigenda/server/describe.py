"""GET /openapi.json and /docs: the API's description, and a page made of it that loads nothing from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from corrigenda import __version__
from corrigenda.report import json_schema
from corrigenda.server.wire import BatchBody, ChatBody, DecideBody, VerifyBody

_REF = "#/components/schemas/"
PAGE_HEADERS: Mapping[str, str] = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One call of the API, as it is described."""

    method: str
    path: str
    summary: str
    text: str
    takes: tuple[type[BaseModel], ...] = ()
    """The forms that the body may have."""
    gives: Mapping[str, Any] = field(default_factory=dict)
    """Media type → JSON Schema of a good reply; a stream is a text."""
    codes: tuple[int, ...] = ()
    """Statuses of an error that it may answer with."""
    example: Mapping[str, Any] | None = None
    open: bool = False
    """Whether it needs no API key."""


_REPORT = {"$ref": f"{_REF}Report"}
_ANY = {"type": "object"}
_MODEL = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "object": {"type": "string"}},
    "required": ["id"],
}
_BUSY = (400, 401, 408, 413, 415, 421, 429, 500, 503, 504)
_UPSTREAM = (403, 404, 409, 422, 501, 502)
OPERATIONS = (
    Operation(
        method="post",
        path="/v1/chat/completions",
        summary="Answer, check and correct",
        text="OpenAI's chat completions. The last user message is the question; the content of the reply is the "
        "corrected answer, and `corrigenda` beside `choices` is its report. The header `X-Corrigenda: "
        "off|check|correct` and the field `corrigenda` choose per request. Requests with tools, several choices, a "
        "response format, images or audio are passed through unverified, and `corrigenda` says so: "
        '`{"status": "passed_through", …}`.',
        takes=(ChatBody,),
        gives={"application/json": {"$ref": f"{_REF}ChatCompletion"}, "text/event-stream": {"type": "string"}},
        codes=_BUSY + _UPSTREAM,
        example={
            "model": "corrigenda",
            "messages": [{"role": "user", "content": "How many hills was Rome built on?"}],
            "corrigenda": {"contexts": ["Rome stands on seven hills."]},
        },
    ),
    Operation(
        method="post",
        path="/v1/verify",
        summary="Check an answer, or several",
        text="Checks an answer that you have against contexts, or against a reference recalled from the question. With "
        "`items`, several at once; the reply then holds `reports`, each a report or an `error`, in their order.",
        takes=(VerifyBody, BatchBody),
        gives={"application/json": {"anyOf": [_REPORT, {"$ref": f"{_REF}Reports"}]}},
        codes=_BUSY,
        example={"answer": "Rome has 5 hills. It is in Italy.", "contexts": ["Rome, in Italy, stands on seven hills."]},
    ),
    Operation(
        method="post",
        path="/v1/decide",
        summary="Decide a report anew",
        text="Takes a report and another policy, k or threshold, and returns the report decided anew from its scores. "
        "No model runs; edits and final answer stay as they were.",
        takes=(DecideBody,),
        gives={"application/json": _REPORT},
        codes=(400, 401, 408, 413, 415, 421, 500),
    ),
    Operation(
        method="get",
        path="/v1/models",
        summary="List the models",
        text="The upstream's own list, or the one model that answers, whatever name a request gives.",
        gives={
            "application/json": {
                "type": "object",
                "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _MODEL}},
                "required": ["object", "data"],
            }
        },
        codes=(401, 403, 404, 421, 429, 500, 502, 503, 504),
    ),
    Operation(
        method="get",
        path="/v1/models/{name}",
        summary="Describe a model",
        text="One entry of that list.",
        gives={"application/json": _MODEL},
        codes=(401, 403, 404, 421, 429, 500, 502, 503, 504),
    ),
    Operation(
        method="get",
        path="/healthz",
        summary="Does the process answer?",
        text="Says nothing about the models.",
        gives={"application/json": _ANY},
        codes=(421,),
        open=True,
    ),
    Operation(
        method="get",
        path="/readyz",
        summary="Can requests be served?",
        text="200 once the models are loaded and the upstream answers; 503 with the reason until then.",
        gives={"application/json": _ANY},
        codes=(421, 503),
        open=True,
    ),
    Operation(
        method="get",
        path="/metrics",
        summary="Numbers for Prometheus",
        text="Requests, times, reports, claims, tokens, calls of the verifier.",
        gives={"text/plain": {"type": "string"}},
        codes=(401, 421),
    ),
)


def openapi(*, keys: bool) -> dict[str, Any]:
    """Return the description of the API, in OpenAPI 3.1. With `keys`, calls need one."""
    models = [model for operation in OPERATIONS for model in operation.takes]
    _, found = models_json_schema([(model, "validation") for model in models], ref_template=_REF + "{model}")
    schemas: dict[str, Any] = dict(found["$defs"]) | _report_schemas()
    schemas["DecideBody"]["properties"]["report"] = _REPORT
    error = {"message": {"type": "string"}, "type": {"type": "string"}}
    nullable = {"type": ["string", "null"]}
    schemas["Error"] = {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": error | {"param": nullable, "code": nullable},
                "required": ["message", "type", "param", "code"],
            }
        },
        "required": ["error"],
    }
    schemas["Reports"] = {
        "type": "object",
        "properties": {"reports": {"type": "array", "items": {"anyOf": [_REPORT, {"$ref": f"{_REF}Error"}]}}},
        "required": ["reports"],
    }
    schemas["ChatCompletion"] = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "object": {"const": "chat.completion"},
            "created": {"type": "integer"},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": {"type": "object"}},
            "usage": {"type": ["object", "null"]},
            "corrigenda": {"anyOf": [_REPORT, {"$ref": f"{_REF}PassedThrough"}]},
        },
        "required": ["choices", "corrigenda"],
    }
    schemas["PassedThrough"] = {
        "type": "object",
        "properties": {"status": {"const": "passed_through"}, "reason": {"type": "string"}},
        "required": ["status", "reason"],
    }
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, keys=keys)
    components: dict[str, Any] = {"schemas": schemas}
    if keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Corrigenda",
            "version": __version__,
            "description": "Checks an LLM's answer claim by claim and rewrites only what is contradicted.",
        },
        "paths": paths,
        "components": components,
    }


def _report_schemas() -> dict[str, Any]:
    """Return the report's published schema as components, its own definitions among them."""
    text = json.dumps(json_schema()).replace('"#/$defs/', f'"{_REF}Report.')
    whole = json.loads(text)
    parts = {f"Report.{name}": part for name, part in whole.pop("$defs").items()}
    return {"Report": {k: v for k, v in whole.items() if k != "$schema"}} | parts


def _described(operation: Operation, *, keys: bool) -> dict[str, Any]:
    good = {media: {"schema": schema} for media, schema in operation.gives.items()}
    wrong = {"application/json": {"schema": {"$ref": f"{_REF}Error"}}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": good}}
    for code in operation.codes:
        plain = operation.path == "/readyz" and code == 503
        responses[str(code)] = {"description": _CODES[code], "content": good if plain else wrong}
    found: dict[str, Any] = {
        "operationId": operation.path.strip("/").replace("/", "_").replace("{", "").replace("}", ""),
        "summary": operation.summary,
        "description": operation.text,
        "responses": responses,
    }
    if "{name}" in operation.path:
        found["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if operation.path == "/v1/chat/completions":
        modes = {"enum": ["off", "check", "correct"]}
        found["parameters"] = [{"name": "X-Corrigenda", "in": "header", "required": False, "schema": modes}]
    if operation.takes:
        forms = [{"$ref": f"{_REF}{model.__name__}"} for model in operation.takes]
        content: dict[str, Any] = {"schema": forms[0] if len(forms) == 1 else {"anyOf": forms}}
        if operation.example is not None:
            content["example"] = operation.example
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    if keys and not operation.open:
        found["security"] = [{"key": []}]
    return found


_CODES: Mapping[int, str] = {
    400: "The request is not understood, or asks for what is not there.",
    401: "No API key, or a wrong one; or the upstream refuses this server's.",
    403: "The upstream refuses this server's key.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    409: "The upstream refuses the request.",
    413: "The body is too large.",
    415: "The body is not JSON by its Content-Type.",
    421: "This server is not meant under this name.",
    422: "The upstream refuses the request.",
    429: "Too many requests; Retry-After says when to come back.",
    500: "A fault of the server's own.",
    501: "This server has no chat model.",
    502: "The upstream failed; or the check did, with --fail-closed.",
    503: "The models are not there (yet).",
    504: "The upstream, or the request's own deadline, ran out of time.",
}


def docs_page(description: Mapping[str, Any]) -> str:
    """Return the description as a page of HTML, without scripts."""
    parts = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<section><h2><code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}</h2>"
            )
            parts.append(f"<p>{escape(operation['description'])}</p>")
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                parts += _fields(body["schema"], description["components"]["schemas"])
                if "example" in body:
                    text = json.dumps(body["example"], indent=2, ensure_ascii=False)
                    parts.append(f"<details><summary>Example</summary><pre>{escape(text)}</pre></details>")
            codes = "".join(
                f"<li><b>{code}</b> {escape(reply['description'])}</li>"
                for code, reply in operation["responses"].items()
            )
            parts.append(f"<details><summary>Statuses</summary><ul>{codes}</ul></details></section>")
    return _PAGE.replace("{{body}}", "\n".join(parts))


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[str]:
    """Return tables of the fields of a body."""
    tables = []
    for form in schema.get("anyOf", [schema]):
        name = form["$ref"].removeprefix(_REF)
        known = schemas[name]
        rows = "".join(
            f"<tr><td><code>{escape(field)}</code>{' *' if field in known.get('required', ()) else ''}</td>"
            f"<td>{escape(_kind(about))}</td><td>{escape(about.get('description', ''))}</td></tr>"
            for field, about in known["properties"].items()
        )
        tables.append(f"<h3>{escape(known.get('description', name))}</h3>")
        tables.append(f"<table><tr><th>field</th><th>form</th><th></th></tr>{rows}</table>")
        choice = schemas.get("Choice") if name == "ChatBody" else None
        if choice is not None:
            tables += ["<p>In <code>corrigenda</code>:</p>", *_fields({"$ref": f"{_REF}Choice"}, schemas)[1:]]
    return tables


def _kind(schema: Mapping[str, Any]) -> str:
    """Return in a few words what a schema takes."""
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Corrigenda: the API</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin-top: 2.5rem; border-bottom: 1px solid; }
h3 { font-size: 1rem; font-weight: normal; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; }
pre { overflow: auto; padding: .75rem; background: #8882; }
</style>
<h1>Corrigenda: the API</h1>
<p>For any client of OpenAI's API: set its base URL to this server's address with <code>/v1</code>. The same as
<a href="openapi.json">OpenAPI</a>. Fields marked * are needed.</p>
{{body}}
</html>
"""

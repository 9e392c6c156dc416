"""The server: an OpenAI-compatible proxy that returns corrected answers, an API to check answers, and a page.

| module | what |
|---|---|
| `app` | routes only: `create_app(corrigenda, options)` |
| `serve` | `corrigenda serve`: flags, socket, signals |
| `options`, `limits`, `keys` | how an app behaves, what it takes, and from whom |
| `edge`, `bodies`, `problems`, `served` | each request: who may come in, JSON in and out, errors, its record |
| `wire`, `conversation` | OpenAI's schema, and what is done for a conversation |
| `chat`, `passing`, `stream` | /v1/chat/completions, whole or streamed, verified or passed through |
| `verify`, `health` | /v1/verify and /v1/decide; /v1/models, /healthz, /readyz |
| `engine`, `service` | the models behind it |
| `metrics`, `logs` | what is counted and written |
| `describe`, `page` | /docs and /openapi.json; the page for people at / |

Starlette and not FastAPI: bodies must be read and refused in OpenAI's form before any framework parses them, so that
FastAPI would bring little more than a generator of OpenAPI, and with it telemetry that reads its addresses from the
environment.
"""

"""Corrigenda inside other tools, one module each, thin: what they call is the class `Corrigenda`.

| module | for | extra |
|---|---|---|
| `langchain` | LangChain: a Runnable that checks answers | `langchain` |
| `mcp_server` | the Model Context Protocol: `corrigenda mcp` | `mcp` |
| `inspect_scorer` | Inspect: a scorer that goes claim by claim | `inspect` |
| `pytest_plugin` | pytest: `assert_supported` | none; pytest itself |

See docs/integrations.md. None of them is imported by the rest of the package.
"""

from __future__ import annotations

from importlib.util import find_spec

from corrigenda.errors import MissingExtra


def require(what: str, package: str, extra: str) -> None:
    """Raise MissingExtra, naming `what` needs it and the extra that brings it, unless `package` is installed."""
    if find_spec(package) is None:
        raise MissingExtra(what, package, extra)

"""`corrigenda mcp`: the tools `verify` and `ask` for clients of the Model Context Protocol, over standard streams.

Standard output carries the protocol and nothing else; whatever is printed meanwhile, by a native library too, goes to
standard error. The models are loaded on the first call, and one `Corrigenda` serves them all.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any, NoReturn

from corrigenda.files import tell
from corrigenda.flags import add_settings, effective_settings
from corrigenda.integrations import require


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client closes standard input, and return 0. Raises CorrigendaError before that."""
    parser = argparse.ArgumentParser(
        prog="corrigenda mcp",
        description="Serve the tools verify and ask to an MCP client, over standard input and output.",
        epilog="A client starts this command itself; see docs/integrations.md. Models are loaded on the first call: "
        "fetch the embedded one before (corrigenda models pull), since clients wait a minute at most.",
    )
    add_settings(parser)
    arguments = parser.parse_args(argv)
    require("the MCP server", "mcp", "mcp")
    from corrigenda.api import Corrigenda  # noqa: PLC0415  # only here: --help must stay instant
    from corrigenda.integrations.mcp_tools import make_server  # noqa: PLC0415

    settings = effective_settings(arguments)

    async def serve() -> None:
        async with Corrigenda(settings=settings) as corrigenda:
            await make_server(corrigenda).run_stdio_async()

    before = signal.signal(signal.SIGINT, _interrupted)
    try:
        asyncio.run(serve())
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


def _interrupted(*_: Any) -> NoReturn:
    """End at once: a thread waits for the client's next line, and nothing but that line would wake it."""
    tell("interrupted")
    os._exit(130)

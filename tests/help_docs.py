"""`python -m tests.help_docs` writes docs/cli.md from the command line's own help; a test fails when it drifts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from corrigenda import cache_command, index_command
from corrigenda.batch.command import parser as batch_parser
from corrigenda.calibrate import command as calibrate
from corrigenda.calibrate_nli import command as calibrate_nli
from corrigenda.cli import parser
from corrigenda.evals.command import parser as eval_parser
from corrigenda.evals.judge_command import _parser as judge_parser
from corrigenda.server import serve

PATH = Path(__file__).parents[1] / "docs" / "cli.md"


def _parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _parsers(sub)


def _lazy() -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers that the top one does not hold, since they are made when their command runs."""
    yield batch_parser()
    modules = (cache_command, serve, index_command, calibrate, calibrate_nli)
    for top in (*(module._parser() for module in modules), eval_parser(), judge_parser()):
        yield from _parsers(top)


def generated() -> str:
    """Return the page."""
    parts = [
        "# The command line\n\n"
        "Generated from `corrigenda --help` by `make help-docs`; do not edit by hand.\n\n"
        "Exit codes: 0 done; 1 `--fail-on` found what it looks for; 2 usage or bad input; 3 a backend or a model\n"
        "failed; 130 interrupted, 143 ended by SIGTERM.\n"
    ]
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        for each in (*_parsers(parser()), *_lazy()):
            if each.add_help:  # the others only pass their arguments on: their own --help says what they take
                parts.append(f"## {each.prog}\n\n```text\n{each.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(generated(), "utf-8")

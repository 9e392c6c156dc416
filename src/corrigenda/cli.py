"""The command line: parse, call, print. Heavy modules are imported where they are used, so that help is instant.

Exit codes: 0 done; 1 `--fail-on` found what it looks for; 2 usage or bad input; 3 a backend or a model failed, or
standard output did; 130 interrupted.

What comes from outside is printed through `files.write` and `files.tell`, so that it cannot drive the terminal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from corrigenda import __version__
from corrigenda.errors import CorrigendaError, InputError
from corrigenda.files import Page, read_text, silence, tell, write, write_json
from corrigenda.flags import add_settings, effective_settings, given_settings
from corrigenda.terminal import one_line, safe

if TYPE_CHECKING:
    from corrigenda.progress import Progress
    from corrigenda.types import Report


class _Parser(argparse.ArgumentParser):
    """Prints help and complaints as everything else is printed."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            write(message.removesuffix("\n"))
        else:
            super()._print_message(message, file)


FAIL_ON = "exit with 1: when a claim is contradicted, repaired or not; or unless all that is left is supported"


def parser() -> argparse.ArgumentParser:
    """Return the whole command line's parser."""
    top = _Parser(
        prog="corrigenda",
        description="Check an LLM's answer claim by claim and rewrite only what is contradicted.",
        epilog="Settings also come from corrigenda.toml and CORRIGENDA_* variables; see: corrigenda config",
    )
    top.add_argument("--version", action="version", version=f"corrigenda {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    ask = commands.add_parser("ask", help="answer a question, check the answer, correct it")
    ask.add_argument("question", metavar="QUESTION")
    _add_report_flags(ask)

    check = commands.add_parser("check", help="check an answer that you have")
    answer = check.add_mutually_exclusive_group(required=True)
    answer.add_argument("--answer", metavar="TEXT")
    answer.add_argument("--answer-file", metavar="FILE", help="file with the answer; - for standard input")
    check.add_argument("--question", metavar="TEXT", help="the question; without a context, recalled from")
    check.add_argument(
        "--context", metavar="FILE", nargs="+", action="extend", help="files with what the answer must agree with"
    )
    _add_report_flags(check)

    models = commands.add_parser("models", help="list, fetch or locate the embedded models")
    actions = models.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (("list", "what there is and what is here"), ("pull", "download"), ("path", "print the path")):
        action = actions.add_parser(name, help=text)
        if name != "list":
            action.add_argument("name", metavar="NAME", nargs="?", help="default: the embedded chat model")
        if name == "pull":
            action.add_argument("--verify", action="store_true", help="check the SHA-256 of a file that is here")
        add_settings(action, ("models-dir",))

    config = commands.add_parser("config", help="show the effective settings and where each came from")
    config.add_argument("--json", action="store_true", help="as JSON")
    add_settings(config)

    commands.add_parser("schema", help="print the JSON Schema of the report")

    bench = commands.add_parser("bench", help="measure speed on this machine")
    benches = bench.add_subparsers(dest="what", metavar="WHAT", required=True)
    _add_own_command(benches, "latency", "what ask adds to the bare answer; --help says more")
    _add_own_command(benches, "nli", "pairs per second of the verifiers; --help says more")
    _add_own_command(commands, "calibrate", "fit a decision policy to labelled claims; --help says more")
    _add_own_command(commands, "eval", "compare methods over a data set with gold labels; --help says more")
    _add_own_command(commands, "batch", "a report for every row of a file, resumable; --help says more")
    _add_own_command(commands, "calibrate-nli", "refit the chat verifier's calibration; --help says more")
    _add_own_command(commands, "index", "build, describe or search an index of passages; --help says more")
    _add_own_command(commands, "cache", "show or clear what batch has kept on disk; --help says more")
    _add_own_command(commands, "serve", "serve an OpenAI-compatible API and a page; --help says more")
    _add_own_command(commands, "mcp", "serve the tools verify and ask to an MCP client; --help says more")
    return top


def _add_own_command(commands: Any, name: str, text: str) -> None:
    """Add a command that parses its arguments itself: here everything behind its name is passed on as it is."""
    own = commands.add_parser(name, help=text, add_help=False, prefix_chars="\0")
    own.add_argument("rest", nargs=argparse.REMAINDER)


def _add_report_flags(target: argparse.ArgumentParser) -> None:
    target.add_argument("--json", action="store_true", help="print the report alone, as JSON, on standard output")
    target.add_argument("--fail-on", choices=("contradicted", "unverified"), help=FAIL_ON)
    add_settings(target)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        given = sys.argv[1:] if argv is None else list(argv)
        _check_text(given)
        arguments = parser().parse_args(given)
        code = _COMMANDS[arguments.command](arguments)
        if sys.stdout is not None:
            sys.stdout.flush()  # here and not when Python ends, where a full disk could not be told
        return code
    except CorrigendaError as exc:
        tell(str(exc))
        return exc.exit_code
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone; say nothing more.
        silence(sys.stdout)
        return 0
    except OSError as exc:
        silence(sys.stdout)
        where = "" if exc.filename is None else f" ({exc.filename!r})"
        tell(f"the system refuses: {exc.strerror or exc}{where}; make room, or check what may be read and written")
        return 3


def _check_text(arguments: Sequence[str]) -> None:
    """Raise InputError for an argument that is not valid text (bytes of another encoding than the locale's)."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise InputError(
                f"the argument {argument[:200]!r} is not valid UTF-8; convert it, or put a text into a UTF-8 file "
                "(--answer-file, --context)"
            ) from exc


def _ask(arguments: argparse.Namespace) -> int:
    return _report(arguments, lambda c, on_stage: c.ask_sync(arguments.question, on_stage=on_stage))


def _check(arguments: argparse.Namespace) -> int:
    from corrigenda.types import Reference  # noqa: PLC0415

    if arguments.context is None and arguments.question is None:
        raise InputError("there is nothing to check against; give --context FILE, or --question TEXT to recall from")
    answer = arguments.answer if arguments.answer is not None else read_text(arguments.answer_file, "answer file")
    context = None
    if arguments.context is not None:
        context = [Reference(text=read_text(path, "context file"), source=path) for path in arguments.context]
    return _report(
        arguments,
        lambda c, on_stage: c.check_sync(answer, question=arguments.question, context=context, on_stage=on_stage),
    )


def _report(arguments: argparse.Namespace, make: Callable[[Any, Callable[[str, bool], None]], Report]) -> int:
    from corrigenda.api import Corrigenda  # noqa: PLC0415
    from corrigenda.progress import Progress  # noqa: PLC0415

    settings = effective_settings(arguments)
    with Progress() as progress, Corrigenda(settings=settings, progress=_follow(progress)) as corrigenda:
        report = make(corrigenda, progress.stage)
    if arguments.json:
        from corrigenda.report import to_json  # noqa: PLC0415

        write_json(to_json(report))
    else:
        from rich.console import Console  # noqa: PLC0415

        from corrigenda.render import render  # noqa: PLC0415

        page = Page()
        render(report, Console(file=page, highlight=False, markup=False, emoji=False))
        write(page.getvalue().removesuffix("\n"))
    return exit_code(report, arguments.fail_on)


def _follow(progress: Progress) -> Callable[[int, int, str], None]:
    """Return what shows downloads: notes may hold what servers said, and a broken standard error stops nothing."""

    def download(done: int, total: int, note: str) -> None:
        with suppress(OSError):
            progress.download(done, total, one_line(note))

    return download


def exit_code(report: Report, fail_on: str | None) -> int:
    """Return 3 for a failed report, 1 when `fail_on` finds what it looks for, else 0.

    `contradicted` looks for contradicted claims, repaired or not. `unverified` wants the status `verified`, or
    `corrected` with every claim supported that was not repaired; an answer without claims is not verified.
    """
    from corrigenda.types import Status, Verdict  # noqa: PLC0415

    verdicts = {claim.verdict for claim in report.claims}
    if report.status is Status.FAILED:
        return 3
    if fail_on == "contradicted":
        return int(Verdict.CONTRADICTED in verdicts)
    if fail_on == "unverified":
        repaired = report.status is Status.CORRECTED and not verdicts & {Verdict.UNVERIFIED, Verdict.FAILED}
        return int(not (report.status is Status.VERIFIED or repaired))
    return 0


def _models(arguments: argparse.Namespace) -> int:
    from corrigenda import models  # noqa: PLC0415
    from corrigenda.progress import Progress  # noqa: PLC0415

    settings = effective_settings(arguments)
    if arguments.action == "list":
        write(safe("\n".join(models.describe(info) for info in models.list_models(settings.models_dir))))
        return 0
    name = arguments.name or models.DEFAULT
    if arguments.action == "path":
        write(safe(str(models.path(name, settings.models_dir))))
        return 0
    with Progress() as progress:
        path = models.pull(
            name,
            cache_dir=settings.models_dir,
            hub_url=settings.hub_url,
            hub_token=settings.hub_token,
            progress=_follow(progress),
            verify=arguments.verify,
        )
    write(safe(str(path)))
    return 0


def _config(arguments: argparse.Namespace) -> int:
    from corrigenda import config  # noqa: PLC0415

    sourced = config.load(given_settings(arguments), config_file=arguments.config)
    rows = config.shown(sourced)
    for warning in sourced.warnings:
        tell(f"warning: {warning}")
    if arguments.json:
        import json  # noqa: PLC0415

        write_json(json.dumps({name: {"value": value, "source": source} for name, value, source in rows}, indent=2))
    else:
        width = max(len(name) for name, _, _ in rows)
        lines = [f"{name:<{width}}  {'-' if value is None else value}  ({source})" for name, value, source in rows]
        write("\n".join(one_line(line) for line in lines))
    return 0


def _schema(_: argparse.Namespace) -> int:
    import json  # noqa: PLC0415

    from corrigenda.report import json_schema  # noqa: PLC0415

    write_json(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.what == "latency":
        from corrigenda.bench.latency import main as bench  # noqa: PLC0415
    else:
        from corrigenda.bench.nli import main as bench  # noqa: PLC0415

    return bench(arguments.rest)


def _calibrate(arguments: argparse.Namespace) -> int:
    from corrigenda.calibrate import main as calibrate  # noqa: PLC0415

    return calibrate(arguments.rest)


def _eval(arguments: argparse.Namespace) -> int:
    from corrigenda.evals.command import main as evaluate  # noqa: PLC0415

    return evaluate(arguments.rest)


def _batch(arguments: argparse.Namespace) -> int:
    from corrigenda.batch.command import main as batch  # noqa: PLC0415

    return batch(arguments.rest)


def _calibrate_nli(arguments: argparse.Namespace) -> int:
    from corrigenda.calibrate_nli import main as calibrate  # noqa: PLC0415

    return calibrate(arguments.rest)


def _index(arguments: argparse.Namespace) -> int:
    from corrigenda.index_command import main as index  # noqa: PLC0415

    return index(arguments.rest)


def _cache(arguments: argparse.Namespace) -> int:
    from corrigenda.cache_command import main as cache  # noqa: PLC0415

    return cache(arguments.rest)


def _mcp(arguments: argparse.Namespace) -> int:
    from corrigenda.integrations.mcp_server import main as serve  # noqa: PLC0415

    return serve(arguments.rest)


def _serve(arguments: argparse.Namespace) -> int:
    from corrigenda.server.serve import main as serve  # noqa: PLC0415

    return serve(arguments.rest)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "ask": _ask,
    "check": _check,
    "models": _models,
    "config": _config,
    "schema": _schema,
    "bench": _bench,
    "calibrate": _calibrate,
    "eval": _eval,
    "batch": _batch,
    "calibrate-nli": _calibrate_nli,
    "index": _index,
    "cache": _cache,
    "serve": _serve,
    "mcp": _mcp,
}

if __name__ == "__main__":
    sys.exit(main())

"""`corrigenda eval report|sweep|ablation|errors|judge`: parse, compute, print. No model runs but the judge's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError, InputError
from corrigenda.evals import outputs, printing, report_more, store
from corrigenda.evals.ablation import ablation
from corrigenda.evals.errors_of import sort_errors
from corrigenda.evals.records import Record
from corrigenda.evals.report_parts import Block
from corrigenda.evals.sweep import CEILINGS, FLOORS, KS, SWEPT, THRESHOLDS, sweep
from corrigenda.files import tell
from corrigenda.policies import POLICIES


def _parser(word: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"corrigenda eval {word}", description=description, allow_abbrev=False)


def _add_records(target: argparse.ArgumentParser) -> None:
    target.add_argument(
        "records", metavar="RECORDS", type=Path, nargs="+", help="folders of runs, or their records.jsonl"
    )
    target.add_argument("--json", action="store_true", help="as JSON, on standard output")


def _stored(paths: Sequence[Path]) -> store.Stored:
    stored = store.read_all(paths)
    for warning in stored.warnings:
        tell(f"warning: {warning}")
    return stored


def _read(paths: Sequence[Path]) -> tuple[Record, ...]:
    return _stored(paths).records


def _report(argv: Sequence[str]) -> int:
    parser = _parser("report", "Compute the summary of a run again, and write its outputs.")
    _add_records(parser)
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to (default: the folder of the records)")
    parser.add_argument("--force", action="store_true", help="write over the outputs of another run")
    arguments = parser.parse_args(argv)
    printing.require_extras()
    first = arguments.records[0]
    if arguments.out is None and len(arguments.records) > 1:
        raise ConfigError("the report of several runs belongs to none of their folders; say where to with --out DIR")
    folder = arguments.out or _folder_of(first)
    outputs.check_folder(folder)
    if not arguments.force:
        _refuse_other_run(folder, arguments.records)
    stored = _stored(arguments.records)
    printing.report(folder, stored.records, stored.manifests, as_json=arguments.json)
    return 0


def _refuse_other_run(folder: Path, records: Sequence[Path]) -> None:
    """Raise InputError when a folder holds a run of which these are not the records, or not all that are reported."""
    if [_folder_of(path).resolve() for path in records] == [folder.resolve()]:
        return
    if (folder / store.RECORDS).exists() or store.holds_run(folder):
        raise InputError(
            f"{str(folder)!r} holds another run, whose summary and report would be written over; give another --out, "
            "or --force"
        )


def _folder_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _sweep(argv: Sequence[str]) -> int:
    parser = _parser("sweep", "Decide the stored scores again under other policies and settings. No model runs.")
    _add_records(parser)
    add = parser.add_argument
    add("--k", metavar="K,…", type=_numbers, default=KS, help=f"sensitivities (default: {_listed(KS)})")
    add("--floor", metavar="T,…", type=_numbers, default=FLOORS, help=f"of bounded (default: {_listed(FLOORS)})")
    add("--ceiling", metavar="T,…", type=_numbers, default=CEILINGS, help=f"of bounded (default: {_listed(CEILINGS)})")
    add(
        "--threshold",
        metavar="T,…",
        type=_numbers,
        default=THRESHOLDS,
        help=f"of fixed (default: {_listed(THRESHOLDS)})",
    )
    policies = f"from {', '.join(POLICIES)} (default: {','.join(SWEPT)})"
    add("--policies", metavar="NAMES", type=_names, default=SWEPT, help=policies)
    add("--bundle", metavar="N", type=int, help="deal single claims at random into answers of N, decided together")
    add("--method", metavar="NAME", help="whose reports are decided again (default: the first that has any)")
    add("--seed", metavar="N", type=int, default=0, help="of the deal and of the intervals")
    arguments = parser.parse_args(argv)
    rows = sweep(
        _read(arguments.records),
        ks=arguments.k,
        policies=arguments.policies,
        floors=arguments.floor,
        ceilings=arguments.ceiling,
        thresholds=arguments.threshold,
        bundle=arguments.bundle,
        method=arguments.method,
        seed=arguments.seed,
    )
    return _printed(rows, report_more.sweep, as_json=arguments.json)


def _ablation(argv: Sequence[str]) -> int:
    parser = _parser("ablation", "What each of the paper's steps adds: base, self-check, nli-fixed, corrigenda.")
    _add_records(parser)
    parser.add_argument("--full", metavar="NAME", help="the method of the last step (default: the first corrigenda)")
    arguments = parser.parse_args(argv)
    return _printed(
        ablation(_read(arguments.records), full=arguments.full), report_more.ablation, as_json=arguments.json
    )


def _errors(argv: Sequence[str]) -> int:
    parser = _parser("errors", "The errors by kind and category, each with the rule that sorted it, and examples.")
    _add_records(parser)
    parser.add_argument("--examples", metavar="N", type=int, default=3, help="of each category (default: 3)")
    arguments = parser.parse_args(argv)
    if arguments.examples < 0:
        raise ConfigError(f"--examples must be at least 0, got {arguments.examples!r}")
    found = sort_errors(_read(arguments.records), examples=arguments.examples)
    return _printed(found, report_more.errors, as_json=arguments.json)


def _printed(found: Any, blocks: Callable[[Any], Iterable[Block]], *, as_json: bool) -> int:
    """Print as JSON, or as those blocks of a report."""
    if as_json:
        printing.as_json(found)
    else:
        printing.blocks(blocks(found))
    return 0


def _judge(argv: Sequence[str]) -> int:
    from corrigenda.evals.judge_command import main  # noqa: PLC0415  # only it needs models

    return main(argv)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers with commas between") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _listed(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


WORDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "report": _report,
    "sweep": _sweep,
    "ablation": _ablation,
    "errors": _errors,
    "judge": _judge,
}
"""The words that may stand in a data set's place."""

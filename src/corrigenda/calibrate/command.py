"""`corrigenda calibrate`: parse, call, print."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from corrigenda.calibrate.fitting import OBJECTIVES, Fitted, fit
from corrigenda.calibrate.scores import read_scores
from corrigenda.errors import ConfigError
from corrigenda.files import save, write, write_json
from corrigenda.policies import POLICIES
from corrigenda.settings import is_policy_file
from corrigenda.terminal import one_line, safe

EPILOG = (
    "The data: the folder or records.jsonl of `corrigenda eval` (claims, or answers with labelled sentences), or JSONL "
    "rows of signed (a score from -1 to 1) and label, with answer and group where rows belong together."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Prints what was fitted; with --out, writes the policy file. Raises CorrigendaError."""
    arguments = _parser().parse_args(argv)
    if arguments.out is not None and not is_policy_file(str(arguments.out)):
        raise ConfigError(f"--out {str(arguments.out)!r}: --policy takes a file whose name ends in .json; name it so")
    data = read_scores(arguments.data, method=arguments.method)
    fitted = fit(
        data.scores,
        objective=arguments.objective or ("conformal" if arguments.policy == "conformal" else "f1"),
        policy=arguments.policy,
        alpha=arguments.alpha,
        cost_false_negative=arguments.cost_false_negative,
        cost_false_positive=arguments.cost_false_positive,
        folds=arguments.folds,
        seed=arguments.seed,
        bundle=arguments.bundle,
        verifier=arguments.verifier or data.verifier,
        sources=data.sources,
        notes=data.notes,
    )
    if arguments.out is not None:
        save(arguments.out, fitted.file.to_json(), "the policy file")
    if arguments.json:
        write_json(fitted.file.to_json().removesuffix("\n"))
    else:
        write(safe("\n".join(table(fitted, arguments.out))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="corrigenda calibrate", description="Fit a decision policy to labelled claims.", epilog=EPILOG
    )
    add = parser.add_argument
    add("data", metavar="RECORDS_OR_DATA", type=Path, nargs="+", help="where the labelled scores are")
    add("--objective", choices=OBJECTIVES, help="what to optimise (default: f1; conformal for that policy)")
    add("--policy", choices=sorted(POLICIES), help="the policy to fit (default: bounded; conformal for that objective)")
    add("--alpha", metavar="A", type=float, default=0.1, help="accepted share of true claims flagged (conformal)")
    add("--cost-false-negative", metavar="C", type=float, default=1.0, help="of a false claim that is not flagged")
    add("--cost-false-positive", metavar="C", type=float, default=1.0, help="of a true claim that is flagged")
    add("--folds", metavar="N", type=int, default=5, help="parts of the data that the rates are measured on in turn")
    add("--seed", metavar="N", type=int, default=0, help="of the folds and every draw")
    add("--bundle", metavar="N", type=int, help="deal single claims at random into answers of N, so that k can be told")
    add("--method", metavar="NAME", help="whose scores of an evaluation to take (default: corrigenda)")
    add("--verifier", metavar="NAME", help="whose scores they are, where the data do not say")
    add("--out", metavar="FILE", type=Path, help="where to write the policy file (a name that ends in .json)")
    add("--json", action="store_true", help="print the policy file alone, on standard output")
    return parser


def table(fitted: Fitted, out: Path | None) -> list[str]:
    """Return the lines that tell a person what was fitted, on what, and how it does."""
    file = fitted.file
    claims: Mapping[str, int] = file.fitted_on["claims"]
    lines = [
        f"policy    {file.policy}: {_options(file.options)}",
        f"verifier  {one_line(file.verifier or 'not known')}",
        f"objective {', '.join(str(v) if k == 'name' else f'{k} {v:g}' for k, v in file.objective.items())}",
        f"fitted on {', '.join(f'{n} {label}' for label, n in claims.items())} claims in "
        f"{file.fitted_on['answers']} answers, {file.fitted_on['groups']} groups",
        "",
        "on claims that the fit did not see (95% intervals)",
        *_rates(file.expected),
    ]
    for name, rates in fitted.compared.items():
        lines += ["", f"{name} (all claims)", *_rates(rates)]
    if fitted.by_fold:
        lines += ["", f"fitted without each fold: {'; '.join(map(_options, fitted.by_fold))}"]
    if file.guarantee is not None:
        lines += ["", f"Guarantee: {file.guarantee}"]
    lines += ["", *(f"Note: {one_line(note)}" for note in file.notes)]
    written = f"{str(out)!r}; use it with --policy {out}" if out is not None else "nothing; keep it with --out FILE"
    return [*lines, f"Written: {written}"]


def _options(options: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in options.items())


def _rates(rates: Mapping[str, Mapping[str, float | None]]) -> Iterator[str]:
    for name, rate in rates.items():
        value, low, high = rate["value"], rate["low"], rate["high"]
        shown = "-" if value is None else f"{value:.3f}"
        interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
        yield f"  {name.replace('_', ' '):<20}{shown}{interval}, n = {rate['n']:g}"

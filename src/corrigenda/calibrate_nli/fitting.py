"""Ask the model about the pairs, fit the constants, and measure before and after.

The model is asked once per pair; its raw log-probabilities go to a JSONL file as they come, so that a run that
was interrupted goes on where it stopped and a fit never needs the model again. The fit itself, with numpy and
scipy, is in `nli_fit`, which is imported only when something is fitted.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from corrigenda.backends.nli_chat_scheme import Calibration, Scheme, calibration_for, default_scheme
from corrigenda.calibrate_nli.pairs import Labelled, groups, neutral_pairs, read_pairs, sample, shipped_neutral_pairs
from corrigenda.errors import InputError, MissingExtra
from corrigenda.ports import LabelScorer
from corrigenda.types import Pair, PairFailure

if TYPE_CHECKING:
    from corrigenda.nli_fit import Measured


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What the model said about some pairs, in their order."""

    sums: tuple[tuple[float, float, float] | None, ...]
    """The log-probabilities of the three classes' answers; None where the model gave none of them."""
    seconds: tuple[float, ...]
    """How long each pair took when it was asked about."""


async def collect(
    scorer: LabelScorer, scheme: Scheme, rows: Sequence[Labelled], raw: Path, progress: TextIO | None = None
) -> Scores:
    """Ask the model about every pair that `raw` does not hold yet for this model and wording, and append it there.

    Raises BackendError as the model does (what came before is kept), InputError when `raw` can't be used.
    """
    stamp = f"{scorer.name}\0{scheme!r}"
    keys = [hashlib.sha256(f"{stamp}\0{row.pair!r}".encode()).hexdigest()[:24] for row in rows]
    try:
        known = _read_raw(raw)
        todo = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
        raw.parent.mkdir(parents=True, exist_ok=True)
        with raw.open("a", encoding="utf-8") as file:
            if known:
                file.write("\n")  # ends a line that an interruption may have left open
            for done, (key, row) in enumerate(todo.items(), 1):
                known[key] = await _ask(scorer, scheme, row.pair)
                file.write(json.dumps({"key": key, "label": row.label, **known[key]}) + "\n")
                file.flush()
                if progress is not None:
                    progress.write(f"scored {done} of {len(todo)} pairs" + ("\n" if done == len(todo) else "\r"))
                    progress.flush()
    except OSError as exc:
        raise InputError(f"the file of raw scores {str(raw)!r} cannot be used: {exc}") from exc
    sums = [scheme.by_class([-math.inf if v is None else v for v in known[key]["logprobs"]]) for key in keys]
    return Scores(
        sums=tuple(None if isinstance(value, PairFailure) else value for value in sums),
        seconds=tuple(known[key]["seconds"] for key in keys),
    )


async def _ask(scorer: LabelScorer, scheme: Scheme, pair: Pair) -> dict[str, Any]:
    start = time.perf_counter()
    logprobs = await scorer.label_logprobs(scheme.request(pair), scheme.labels)
    # JSON has no infinity: null stands for a label that the model did not report.
    values = [round(value, 4) if math.isfinite(value) else None for value in logprobs]
    return {"logprobs": values, "seconds": round(time.perf_counter() - start, 4)}


def _read_raw(raw: Path) -> dict[str, Mapping[str, Any]]:
    """Return the rows of an earlier run; a last line that was cut short by an interruption is left out."""
    known: dict[str, Mapping[str, Any]] = {}
    if raw.exists():
        for line in raw.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                known[row["key"]] = {"logprobs": list(row["logprobs"]), "seconds": float(row["seconds"])}
            except (ValueError, KeyError, TypeError):
                continue
    return known


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One set of pairs, measured with the constants that were in use before and with the fitted ones."""

    data: str
    before: Measured
    after: Measured
    seconds_per_pair: float
    """Median."""
    failed: int
    """Pairs that the model gave no score for; they are not in the measures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refit:
    """What a refit found out. `as_file` is the content of a calibration file."""

    calibration: Calibration
    fitted: Result
    """On the data of the fit; `after` is cross-validated, so no pair is measured with constants fitted on it."""
    tests: tuple[Result, ...]
    """On data that the fit has not seen, with the constants frozen."""

    def as_file(self) -> dict[str, Any]:
        """Return the JSON content that `nli_chat_scheme.load_calibration` reads and that ships with the package."""
        found, scheme = self.calibration, self.calibration.scheme
        return {
            "schemes": {scheme.name: scheme.as_data()},
            "models": [
                {
                    "model": found.model,
                    "sha256": found.sha256,
                    "scheme": scheme.name,
                    "constants": found.constants._asdict(),
                    "bounds": None if found.bounds is None else list(found.bounds),
                    "fitted_on": found.fitted_on,
                    "measured": [asdict(result) for result in (self.fitted, *self.tests)],
                }
            ],
        }


async def refit(
    scorer: LabelScorer,
    data: Sequence[Path],
    *,
    raw: Path,
    tests: Sequence[Path] = (),
    limit: int | None = None,
    sha256: str | None = None,
    progress: TextIO | None = None,
) -> Refit:
    """Fit the constants for `scorer` on the pairs of `data`, and measure them there and on `tests`.

    `data` and `tests` are JSONL files, see `read_pairs`. Where `data` has no neutral pairs they are made, see
    `neutral_pairs`, and those that ship with the package are added. `limit` takes that many pairs of each file,
    drawn with a fixed seed. `raw` keeps the model's log-probabilities, so that the same call again goes on where
    it was interrupted. `sha256` of the model file goes into the result. `progress`, such as `sys.stderr`, gets a
    line that counts up.

    Raises MissingExtra without numpy and scipy, InputError for data that can't be used or `limit` below 1,
    BackendError when the model fails.
    """
    nli_fit = _fitting()
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1 pair per file, got {limit!r}")
    current = calibration_for(scorer.name, sha256)
    scheme = current.scheme if current.fitted else default_scheme()
    rows = [row for path in data for row in sample(read_pairs(path), limit)]
    if all(row.label != 1 for row in rows):
        rows += neutral_pairs(rows) + shipped_neutral_pairs()
    nli_fit.require_groups(groups(rows))  # before the model is asked for minutes
    used = _usable(rows, await collect(scorer, scheme, rows, raw, progress))
    before, after = current.constants, nli_fit.fit(used.sums, used.labels)
    names = " + ".join(path.stem for path in data)
    unseen = nli_fit.cross_validated(used.sums, used.labels, groups(used.rows))
    fitted = used.result(f"{names}, cross-validated", nli_fit.probabilities(before, used.sums), unseen)
    bounds = nli_fit.bounds(unseen, used.labels)
    results = []
    for path in tests:
        rows = sample(read_pairs(path), limit)
        used = _usable(rows, await collect(scorer, scheme, rows, raw, progress))
        results.append(used.result(path.stem, *(nli_fit.probabilities(by, used.sums) for by in (before, after))))
    calibration = Calibration(
        model=scorer.name,
        sha256=sha256,
        scheme=scheme,
        constants=after,
        fitted_on=f"{names} ({fitted.after.n} pairs, {fitted.after.n - fitted.after.n_binary} of them neutral)",
        bounds=bounds,
    )
    return Refit(calibration=calibration, fitted=fitted, tests=tuple(results))


def _fitting() -> ModuleType:
    """Return the module `nli_fit`. Raises MissingExtra."""
    for package in ("numpy", "scipy"):
        if find_spec(package) is None:
            raise MissingExtra("fitting the verifier's constants", package, "eval")
    from corrigenda import nli_fit  # noqa: PLC0415  # brings numpy and scipy, which nothing else here needs

    return nli_fit


@dataclass(frozen=True, kw_only=True, slots=True)
class _Used:
    """The pairs that the model gave a score for."""

    rows: list[Labelled]
    sums: list[tuple[float, float, float]]
    labels: list[int]
    failed: int
    seconds: float

    def result(self, data: str, before: Any, after: Any) -> Result:
        """Measure two arrays of probabilities of these pairs."""
        measure = _fitting().measure
        return Result(
            data=data,
            before=measure(before, self.labels),
            after=measure(after, self.labels),
            seconds_per_pair=self.seconds,
            failed=self.failed,
        )


def _usable(rows: Sequence[Labelled], scores: Scores) -> _Used:
    """Drop the pairs without a score. Raises InputError when none is left."""
    kept = [(row, value) for row, value in zip(rows, scores.sums, strict=True) if value is not None]
    if not kept:
        raise InputError("the chat model answered with none of the three words, on any pair; it can't be calibrated")
    return _Used(
        rows=[row for row, _ in kept],
        sums=[value for _, value in kept],
        labels=[row.label for row, _ in kept],
        failed=len(rows) - len(kept),
        seconds=round(median(scores.seconds), 3),
    )

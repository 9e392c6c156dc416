"""Ask the model about the pairs, fit the constants, and measure before and after.

The model is asked about each pair once per look; its raw log-probabilities go to a JSONL file as they come, so that a
run that was interrupted goes on where it stopped and a fit never needs the model again. The fit itself, with numpy
and scipy, is in `nli_fit`, which is imported only when something is fitted.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from corrigenda.backends.nli_chat_scheme import (
    Calibration,
    Scheme,
    SecondLook,
    Sums,
    calibration_for,
    default_schemes,
)
from corrigenda.calibrate_nli.pairs import Labelled, groups, neutral_pairs, read_pairs, sample, shipped_neutral_pairs
from corrigenda.errors import InputError, MissingExtra
from corrigenda.ports import LabelScorer
from corrigenda.types import Pair, PairFailure

if TYPE_CHECKING:
    from corrigenda.nli_fit import Measured

BELOW = 0.75
"""A pair is asked about again where the first look gives no class this probability. See docs/calibration.md."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What the model said about some pairs, in their order."""

    sums: tuple[Sums | None, ...]
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
                    end = "\n" if done == len(todo) else "\r"
                    progress.write(f"{scheme.name}: scored {done} of {len(todo)} pairs{end}")
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
    """As the calibration that ships for the model scores them; by its first look alone where only one was taken."""
    once: Measured
    """By the fitted constants, all pairs asked about once."""
    after: Measured
    """As the fitted verifier scores them: asked about again where the first look is unsure. `once` without that."""
    asked_twice: float
    """Share of the pairs that the fitted verifier asks about again, in [0, 1]."""
    seconds_per_look: tuple[float, ...]
    """Median of each look over the pairs."""
    seconds_per_pair: float
    """The first look's median, and the second's times the share of pairs that it is taken for."""
    failed: int
    """Pairs that the model gave no score for in one of the looks; they are not in the measures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refit:
    """What a refit found out. `as_file` is the content of a calibration file."""

    calibration: Calibration
    fitted: Result
    """On the data of the fit; `once` and `after` by constants that were fitted without the pair's group."""
    tests: tuple[Result, ...]
    """On data that the fit has not seen, with the constants frozen."""

    def as_file(self) -> dict[str, Any]:
        """Return the JSON content that `nli_chat_scheme.load_calibration` reads and that ships with the package."""
        found, second = self.calibration, self.calibration.second
        schemes = [found.scheme, *([second.scheme] if second is not None else [])]
        return {
            "schemes": {scheme.name: scheme.as_data() for scheme in schemes},
            "models": [
                {
                    "model": found.model,
                    "sha256": found.sha256,
                    "scheme": found.scheme.name,
                    "constants": found.constants.as_data(),
                    "second": None if second is None else second.as_data(),
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
    test_limit: int | None = None,
    looks: int = 2,
    sha256: str | None = None,
    progress: TextIO | None = None,
) -> Refit:
    """Fit the constants for `scorer` on the pairs of `data`, and measure them there and on `tests`.

    `data` and `tests` are JSONL files, see `read_pairs`. Where `data` has no neutral pairs they are made, see
    `neutral_pairs`, and those that ship with the package are added. `limit` takes that many pairs of each file,
    drawn with a fixed seed; `test_limit` is the one for `tests`, where it differs. `looks` (1 or 2) is how often
    the verifier may ask about a pair; here every pair is asked about as often. `raw` keeps the model's
    log-probabilities, so that the same call again goes on where it was interrupted. `sha256` of the model file goes
    into the result. `progress`, such as `sys.stderr`, gets a line that counts up.

    Raises MissingExtra without numpy and scipy, InputError for data that can't be used, a limit below 1 or other
    `looks`, BackendError when the model fails.
    """
    nli_fit = _fitting()
    for name, value in (("limit", limit), ("test_limit", test_limit)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1 pair per file, got {value!r}")
    if looks not in (1, 2):
        raise InputError(f"looks must be 1 or 2, got {looks!r}")
    current = calibration_for(scorer.name, sha256)
    schemes = _schemes(current)[:looks]
    rows = [row for path in data for row in sample(read_pairs(path), limit)]
    if all(row.label != 1 for row in rows):
        rows += neutral_pairs(rows) + shipped_neutral_pairs()
    nli_fit.require_groups(groups(rows))  # before the model is asked for minutes
    used = await _scored(scorer, schemes, rows, raw, progress)
    names = " + ".join(path.stem for path in data)
    found = _fit(used, current, schemes)
    unseen = _Probabilities.of(
        *(nli_fit.cross_validated(values, used.labels, groups(used.rows)) for values in used.by_looks()),
        below=None if found.second is None else found.second.below,
    )
    fitted = used.result(f"{names}, cross-validated", before=used.probabilities(current), after=unseen)
    results = []
    for path in tests:
        rows = sample(read_pairs(path), limit if test_limit is None else test_limit)
        seen = await _scored(scorer, schemes, rows, raw, progress)
        before, after = seen.probabilities(current), seen.probabilities(found)
        results.append(seen.result(path.stem, before=before, after=after))
    calibration = replace(
        found,
        model=scorer.name,
        sha256=sha256,
        fitted_on=f"{names} ({fitted.after.n} pairs, {fitted.after.n - fitted.after.n_binary} of them neutral)",
        bounds=nli_fit.bounds(unseen.after, used.labels),
    )
    return Refit(calibration=calibration, fitted=fitted, tests=tuple(results))


def _schemes(current: Calibration) -> tuple[Scheme, Scheme]:
    """Return the wordings to fit: the model's own as far as it has some, else those for any model."""
    if not current.fitted:
        return default_schemes()
    return current.scheme, default_schemes()[1] if current.second is None else current.second.scheme


def _fit(used: _Used, current: Calibration, schemes: Sequence[Scheme]) -> Calibration:
    """Return `current` with the wordings `schemes` and the constants that fit the pairs."""
    constants = [_fitting().fit(values, used.labels) for values in used.by_looks()]
    second = None
    if len(schemes) > 1:
        below = BELOW if current.second is None else current.second.below
        second = SecondLook(scheme=schemes[1], constants=constants[1], below=below)
    return replace(current, scheme=schemes[0], constants=constants[0], second=second)


def _fitting() -> ModuleType:
    """Return the module `nli_fit`. Raises MissingExtra."""
    for package in ("numpy", "scipy"):
        if find_spec(package) is None:
            raise MissingExtra("fitting the verifier's constants", package, "eval")
    from corrigenda import nli_fit  # noqa: PLC0415  # brings numpy and scipy, which nothing else here needs

    return nli_fit


@dataclass(frozen=True, kw_only=True, slots=True)
class _Probabilities:
    """Arrays (n, 3): by the first look alone, and as the verifier gives them."""

    once: Any
    after: Any
    asked_twice: float

    @classmethod
    def of(cls, once: Any, both: Any = None, *, below: float | None) -> _Probabilities:
        """From the probabilities by one look and, where there is a second one, by both."""
        if both is None or below is None:
            return cls(once=once, after=once, asked_twice=0.0)
        after, unsure = _fitting().cascaded(once, both, below)
        return cls(once=once, after=after, asked_twice=round(float(unsure.mean()), 4))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Used:
    """The pairs that the model gave a score for in each look."""

    rows: list[Labelled]
    looks: list[tuple[Sums, ...]]
    """Per pair, as many for each."""
    failed: int
    seconds: tuple[float, ...]
    """Per look."""

    @property
    def labels(self) -> list[int]:
        return [row.label for row in self.rows]

    def by_looks(self) -> list[list[tuple[Sums, ...]]]:
        """Return the scores of the first look, then those of the first two, and so on."""
        return [[looks[:count] for looks in self.looks] for count in range(1, len(self.seconds) + 1)]

    def probabilities(self, calibration: Calibration) -> _Probabilities:
        """Return what a verifier with this calibration gives, with no more looks than were taken here."""
        second = calibration.second
        constants = [calibration.constants, *([second.constants] if second is not None else [])]
        probabilities = _fitting().probabilities
        arrays = [probabilities(by, values) for by, values in zip(constants, self.by_looks(), strict=False)]
        return _Probabilities.of(*arrays, below=None if second is None else second.below)

    def result(self, data: str, *, before: _Probabilities, after: _Probabilities) -> Result:
        """Measure two sets of probabilities of these pairs."""
        measure = _fitting().measure
        shares = (1.0, after.asked_twice)
        return Result(
            data=data,
            before=measure(before.after, self.labels),
            once=measure(after.once, self.labels),
            after=measure(after.after, self.labels),
            asked_twice=after.asked_twice,
            seconds_per_look=self.seconds,
            seconds_per_pair=round(sum(s * share for s, share in zip(self.seconds, shares, strict=False)), 3),
            failed=self.failed,
        )


async def _scored(
    scorer: LabelScorer, schemes: Sequence[Scheme], rows: Sequence[Labelled], raw: Path, progress: TextIO | None
) -> _Used:
    """Ask about the pairs in every wording; drop those without a score. Raises InputError when none is left."""
    scores = [await collect(scorer, scheme, rows, raw, progress) for scheme in schemes]
    whole = [
        (row, tuple(value for value in values if value is not None))
        for row, *values in zip(rows, *(score.sums for score in scores), strict=True)
    ]
    kept = [(row, looks) for row, looks in whole if len(looks) == len(schemes)]
    if not kept:
        raise InputError("the chat model answered with none of the three words, on any pair; it can't be calibrated")
    return _Used(
        rows=[row for row, _ in kept],
        looks=[looks for _, looks in kept],
        failed=len(rows) - len(kept),
        seconds=tuple(round(median(score.seconds), 3) for score in scores),
    )

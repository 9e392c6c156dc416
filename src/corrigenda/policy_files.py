"""Policy files: a decision policy that was fitted to labelled claims, kept as a small JSON file.

`corrigenda calibrate` writes them, `--policy FILE` takes them. A file is data only: whoever wrote it chooses among
the four policies and their numbers, and nothing else. Everything in it is checked when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from corrigenda.errors import ConfigError
from corrigenda.policies import POLICIES, Bounded, Conformal, Decided, Fixed, Paper, Policy

POLICY_SCHEMA = "1.0"
"""Version of the file's form. A file of any other version is refused: a field unknown here may change its meaning."""
MAX_BYTES = 1_000_000
"""A policy file has a few kilobytes; what is larger is something else."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "paper": ("k",),
    "fixed": ("threshold",),
    "bounded": ("k", "floor", "ceiling"),
    "conformal": ("threshold", "alpha", "support"),
}
"""Policy → the options that its file must give, all of them and no others."""

_MAKE: Mapping[str, Callable[..., Policy]] = {
    "paper": Paper,
    "fixed": Fixed,
    "bounded": lambda **options: Bounded(**options, provisional=False),
    "conformal": lambda **options: Conformal(**options, provisional=False),
}
assert _MAKE.keys() == OPTIONS.keys() == POLICIES.keys()


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyFile:
    """The content of a policy file. Raises ConfigError when the policy or an option of it is wrong."""

    policy: str
    """`paper`, `fixed`, `bounded` or `conformal`."""
    options: Mapping[str, float]
    """The options of `OPTIONS` for this policy."""
    verifier: str | None = None
    """Name of the verifier whose scores it was fitted to, as reports give it; None when that is not known."""
    objective: Mapping[str, Any] = field(default_factory=dict)
    """What was optimised: `name` (`f1`, `cost`, `conformal`) and its parameters."""
    fitted_on: Mapping[str, Any] = field(default_factory=dict)
    """The data: `files` (name and SHA-256 each), claims by label, answers, groups, date."""
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Rate → `value`, `low`, `high` (95% interval), `n`; from claims that took no part in the fit."""
    guarantee: str | None = None
    """What holds whatever the distribution, in words; None where nothing does."""
    notes: tuple[str, ...] = ()
    """What a user of the file should know."""

    def __post_init__(self) -> None:
        """Check the policy and its options, so that no file can be written that could not be read."""
        self.build()

    def build(self) -> Policy:
        """Return the policy itself, which is not provisional. Raises ConfigError for a value out of range."""
        if self.policy not in OPTIONS:
            raise ConfigError(f"unknown policy {self.policy!r}; there are {', '.join(sorted(OPTIONS))}")
        wanted = OPTIONS[self.policy]
        for name in self.options:
            if name not in wanted:
                raise ConfigError(f"policy {self.policy!r} has no option {name!r}; it has {', '.join(wanted)}")
        for name in wanted:
            if name not in self.options:
                raise ConfigError(f"policy {self.policy!r} needs the option {name!r}")
        return _MAKE[self.policy](**self.options)

    def warnings_for(self, verifier: str) -> tuple[str, ...]:
        """Return what a user should know who decides with it over the scores of `verifier`."""
        if self.verifier == verifier:
            return ()
        if self.verifier is None:
            return (
                f"the policy {self.policy!r} comes from a file that does not say for which verifier it was fitted, so "
                f"its rates may not hold for {verifier!r}",
            )
        return (
            f"the policy {self.policy!r} was fitted for the verifier {self.verifier!r}, and this one is {verifier!r}: "
            "its thresholds and rates may not hold; fit one for this verifier with corrigenda calibrate",
        )

    def to_json(self) -> str:
        """Return the file's text."""
        rest = {name: value for name, value in asdict(self).items() if name not in ("policy", "options")}
        content = {"schema": POLICY_SCHEMA, "policy": self.policy, "options": dict(self.options), **rest}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """A policy that decides as another one does, and adds warnings to each decision."""

    policy: Policy
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        """The policy's own name."""
        return self.policy.name

    def decide(self, scores: Sequence[float | None]) -> Decided:
        """Decide as the policy does; the warnings come first."""
        decided = self.policy.decide(scores)
        return replace(decided, warnings=(*self.warnings, *decided.warnings))


def with_k(policy: Policy, k: float) -> Policy:
    """Return a policy that decides as `policy` does, with another k.

    One whose bounds were calibrated for its own k is provisional with any other. Raises ConfigError when k is negative
    or not finite, and for a policy of the caller's own.
    """
    if isinstance(policy, Warned):
        return replace(policy, policy=with_k(policy.policy, k))
    if isinstance(policy, Bounded):
        return replace(policy, k=k, provisional=policy.provisional or k != policy.k)
    if isinstance(policy, Paper | Fixed | Conformal):
        return replace(policy, k=k)
    raise ConfigError(f"k cannot be chosen for the policy {policy.name!r}; name one of {', '.join(sorted(POLICIES))}")


def with_threshold(policy: Policy, threshold: float) -> Policy:
    """Return a policy that decides as `policy` does, with another threshold.

    `conformal` guarantees nothing with any but its calibrated one, so it is provisional then. Raises ConfigError when
    the threshold is not from 0 to 1, and for a policy that has none.
    """
    if isinstance(policy, Warned):
        return replace(policy, policy=with_threshold(policy.policy, threshold))
    if isinstance(policy, Fixed):
        return replace(policy, threshold=threshold)
    if isinstance(policy, Conformal):
        provisional = policy.provisional or threshold != policy.threshold
        return replace(policy, threshold=threshold, provisional=provisional)
    raise ConfigError(
        f"threshold is used by the policies fixed and conformal, not by {policy.name!r}; leave it out or choose one "
        "of these"
    )


def load(path: str | Path, verifier: str | None = None) -> Policy:
    """Return the policy of the file at `path`, ready to decide over the scores of `verifier`.

    With the name of a verifier other than the one it was fitted for, the policy puts a warning into every
    report. Raises ConfigError as `read` does.
    """
    return for_verifier(read(path), verifier)


def for_verifier(found: PolicyFile, verifier: str | None) -> Policy:
    """Return the file's policy; with a verifier that it was not fitted for, as one that warns."""
    policy, warnings = found.build(), () if verifier is None else found.warnings_for(verifier)
    return Warned(policy=policy, warnings=warnings) if warnings else policy


def read(path: str | Path) -> PolicyFile:
    """Return the content of the policy file at `path`.

    Raises ConfigError, naming the file and the value, when it cannot be read, is larger than 1,000,000 bytes, is
    not JSON (NaN and infinity are none), has another schema version, an unknown policy or field, or an option
    that is missing, unknown, no number or out of range.
    """
    data = _parsed(path)
    version = data.pop("schema", None)
    if version != POLICY_SCHEMA:
        _refuse(
            path,
            f"its schema version is {_short(version)}, and this version of Corrigenda reads {POLICY_SCHEMA!r}; "
            "write it anew with corrigenda calibrate",
        )
    for name, kinds in _FIELDS.items():
        if name in data and not isinstance(data[name], kinds):
            _refuse(path, f"{name} must be {_KINDS[kinds]}, got {_short(data[name])}")
    unknown = sorted(set(data) - set(_FIELDS))
    if unknown:
        _refuse(path, f"it has an unknown field {_short(unknown[0])}; known are {', '.join(_FIELDS)}")
    for name in ("policy", "options"):
        if name not in data:
            _refuse(path, f"it has no field {name!r}")
    notes = data.pop("notes", [])
    if not all(isinstance(note, str) for note in notes):
        _refuse(path, f"notes must be a list of texts, got {_short(notes)}")
    options = {name: _number(path, name, value) for name, value in data.pop("options").items()}
    try:
        return PolicyFile(options=options, notes=tuple(notes), **data)
    except ConfigError as exc:
        _refuse(path, str(exc))


_OBJECT, _TEXT, _PERHAPS, _LIST = (dict,), (str,), (str, type(None)), (list,)
_KINDS = {_OBJECT: "an object", _TEXT: "a text", _PERHAPS: "a text or null", _LIST: "a list"}
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "policy": _TEXT,
    "options": _OBJECT,
    "verifier": _PERHAPS,
    "objective": _OBJECT,
    "fitted_on": _OBJECT,
    "expected": _OBJECT,
    "guarantee": _PERHAPS,
    "notes": _LIST,
}


def _parsed(path: str | Path) -> dict[str, Any]:
    """Return the file's JSON object. Raises ConfigError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        _refuse(path, f"it cannot be read: {reason}; check the path (--policy)", exc)
    if len(content) > MAX_BYTES:
        _refuse(path, f"it is larger than {MAX_BYTES:,} bytes, so it is no policy file")
    try:
        data = json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        _refuse(path, f"it is not JSON: {exc}", exc)
    if not isinstance(data, dict):
        _refuse(path, f"it must hold a JSON object, got {_short(data)}")
    return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _number(path: str | Path, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"the option {name!r} must be a number, got {_short(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        _refuse(path, f"the option {name!r} must be a finite number, got {_short(value)}")
    return number


def _short(value: Any) -> str:
    """Return how a value of a stranger's file appears in a message."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a nest without end
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}…"


def _refuse(path: str | Path, why: str, cause: BaseException | None = None) -> NoReturn:
    raise ConfigError(f"policy file {str(path)!r}: {why}") from cause

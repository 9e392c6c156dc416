"""How a chat model is read as a verifier: the prompts, and the way from log-probabilities to three probabilities.

A pair is looked at once or twice: each look asks with another wording (`Scheme`). Pure: nothing is awaited here. The
wordings, the examples and the fitted numbers are data, in `nli_chat_calibration.json`, so that a refit changes no code.
See docs/calibration.md for how they were found.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from corrigenda.errors import ConfigError
from corrigenda.types import ChatRequest, Entailment, Message, Pair, PairFailure

CLASSES = ("entailment", "neutral", "contradiction")
"""The order in which classes stand everywhere in this module and in the data file."""

LEAST_LOGPROB = -15.0
"""What a label outside the reported tokens counts as (natural logarithm). Below what the hundredth token has."""

_DATA = "nli_chat_calibration.json"
_CONTROL_TOKEN = re.compile(r"<(?=[|/]?[A-Za-z_])|\[(?=/?INST\])")
_FENCE = '"""'
_IN_FENCE = re.compile('"(?="")')
_FIRST, _SECOND = "supported-or-unknown", "one-word"

Sums = tuple[float, float, float]
"""The log-probabilities of the answers of the three `CLASSES` in one look, before fitting; any may be `-inf`."""


class Look(NamedTuple):
    """What one look counts for, see `Constants`; with d = log P(E) - log P(C), u = log(P(E) + P(C)) - log P(N)."""

    direction: float
    """Weight of d in the direction. No constant is added: a look with d = 0 says nothing about it."""
    known: float
    """Weight of u."""
    strength: float
    """Weight of |d|."""


class Constants(NamedTuple):
    """The fitted numbers: three in common and three for each look.

    P(decided) = sigmoid(bias + the sum over the looks of known * u + strength * |d|), which is 1 - P(neutral), and
    with s = the sum over the looks of direction * d,
    P(entailment given decided) = sigmoid(agree * s) where s is above 0, sigmoid(differ * s) where it is below.
    """

    bias: float
    agree: float
    differ: float
    looks: tuple[Look, ...]
    """In the order in which the model is asked."""

    def as_data(self) -> dict[str, Any]:
        """Return the constants in the form of the data file."""
        return {**self._asdict(), "looks": [look._asdict() for look in self.looks]}


UNFITTED = Constants(bias=0.0, agree=1.0, differ=1.0, looks=(Look(direction=1.0, known=1.0, strength=0.0),))
"""With these the result is the model's own probabilities, normalised over the three answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A pair whose answer is shown to the model; all of them are made up and speak of nobody."""

    premise: str
    hypothesis: str
    answer: str
    """One of `CLASSES`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """The wording of a request. Everything but the last turn is the same for every pair."""

    name: str
    system: str
    turn: str
    """Has `{premise}` before `{hypothesis}`, so that the claims on one reference share all that stands before."""
    answers: tuple[tuple[str, ...], ...]
    """For each class, the spellings of its one-word answer; the first is the one shown in the examples."""
    examples: tuple[Example, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """All spellings, class after class, as `LabelScorer.label_logprobs` takes them."""
        return tuple(label for spellings in self.answers for label in spellings)

    def as_data(self) -> dict[str, Any]:
        """Return the scheme in the form of the data file."""
        return {
            "system": self.system,
            "turn": self.turn,
            "answers": {name: list(spellings) for name, spellings in zip(CLASSES, self.answers, strict=True)},
            "examples": [[example.premise, example.hypothesis, example.answer] for example in self.examples],
        }

    def request(self, pair: Pair) -> ChatRequest:
        """Return the request that asks about one pair."""
        messages = [*self._preamble(), Message(role="user", content=self._turn(pair.premise, pair.hypothesis))]
        return ChatRequest(stage="entail", messages=tuple(messages), temperature=0.0, max_tokens=1)

    def _preamble(self) -> list[Message]:
        messages = [Message(role="system", content=self.system)]
        for example in self.examples:
            answer = self.answers[CLASSES.index(example.answer)][0]
            messages.append(Message(role="user", content=self._turn(example.premise, example.hypothesis)))
            messages.append(Message(role="assistant", content=answer))
        return messages

    def _turn(self, premise: str, hypothesis: str) -> str:
        # Not str.format and not two replaces: braces in the data mean nothing.
        before, _, rest = self.turn.partition("{premise}")
        between, _, after = rest.partition("{hypothesis}")
        return f"{before}{self._data(premise)}{between}{self._data(hypothesis)}{after}"

    def _data(self, text: str) -> str:
        """Return `text` on one line; where the wording fences its data with three quotes, it holds no such fence."""
        line = one_line(text)
        return _IN_FENCE.sub('" ', line) if _FENCE in self.turn else line

    def by_class(self, logprobs: Sequence[float]) -> Sums | PairFailure:
        """Return, per class, the log of the summed probability of its spellings (`logprobs` as `labels`).

        A PairFailure when a value is not a log-probability (NaN, above 0) or the model gave none of the labels.
        """
        if len(logprobs) != len(self.labels):
            return PairFailure(reason=f"{len(self.labels)} log-probabilities were asked for, {len(logprobs)} came")
        if any(math.isnan(value) or value > 1e-3 for value in logprobs):
            return PairFailure(reason=f"these are not log-probabilities: {tuple(logprobs)!r}")
        sums, start = [], 0
        for spellings in self.answers:
            total = math.fsum(math.exp(value) for value in logprobs[start : start + len(spellings)])
            sums.append(math.log(total) if total > 0 else -math.inf)
            start += len(spellings)
        if max(sums) == -math.inf:
            shown = ", ".join(repr(spellings[0]) for spellings in self.answers)
            return PairFailure(reason=f"none of the answers {shown} is among the model's likely first words")
        entailment, neutral, contradiction = sums
        return entailment, neutral, contradiction


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondLook:
    """Another question, asked about the pairs that the first look leaves unsure."""

    scheme: Scheme
    constants: Constants
    """For both looks together, which replace the first look's own: two looks, the first one first."""
    below: float
    """In (0, 1]: a pair is unsure where the first look gives no class this probability."""

    def as_data(self) -> dict[str, Any]:
        """Return the second look in the form of the data file, where the scheme is named only."""
        return {"scheme": self.scheme.name, "constants": self.constants.as_data(), "below": self.below}


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A scheme with the constants that were fitted for one chat model. ConfigError for constants of other looks."""

    model: str
    """The chat model's name as in reports (`local:…`), or `*` for any that was not calibrated."""
    sha256: str | None
    """Of the model file that the constants were fitted on."""
    scheme: Scheme
    constants: Constants
    """For the first look alone."""
    fitted_on: str | None
    """The data, for reports; None when nothing was fitted."""
    bounds: tuple[float, float] | None = None
    """Floor and ceiling that suit these probabilities, for the policy `bounded`; None for the policy's own."""
    second: SecondLook | None = None
    """None: every pair is asked about once."""

    def __post_init__(self) -> None:
        """Refuse constants for another number of looks than they are used for, and `below` out of range."""
        counts = [(1, self.constants), *([(2, self.second.constants)] if self.second is not None else [])]
        for count, constants in counts:
            if len(constants.looks) != count:
                raise ConfigError(f"{self.model!r}: {count} under 'looks' needed here, got {constants!r}")
        if self.second is not None and not 0 < self.second.below <= 1:
            raise ConfigError(f"{self.model!r}: below must be above 0 and at most 1, got {self.second.below!r}")

    @property
    def fitted(self) -> bool:
        """Whether the constants come from data; otherwise the model's own probabilities are used as they are."""
        return self.fitted_on is not None

    def unsure(self, found: Entailment) -> bool:
        """Whether a pair with these probabilities from the first look is asked about again."""
        most = max(found.entailment, found.neutral, found.contradiction)
        return self.second is not None and most < self.second.below


def combine(constants: Constants, *sums: Sums) -> Entailment:
    """Return the three probabilities from the log-probabilities of each look. ValueError for more or fewer looks."""
    decided, direction = constants.bias, 0.0
    for look, values in zip(constants.looks, sums, strict=True):
        d, u = features(values)
        decided += look.known * u + look.strength * abs(d)
        direction += look.direction * d
    slope = constants.agree if direction > 0 else constants.differ
    known, true = _sigmoid(decided), _sigmoid(slope * direction)
    return Entailment(entailment=known * true, neutral=1 - known, contradiction=known * (1 - true))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else 1 - 1 / (1 + math.exp(x))


def features(sums: Sequence[float]) -> tuple[float, float]:
    """Return (d, u), see `Look`, from the three classes' log-probabilities; both in [-16, 16]."""
    entailment, neutral, contradiction = (max(value, LEAST_LOGPROB) for value in sums)
    either = max(entailment, contradiction) + math.log1p(math.exp(-abs(entailment - contradiction)))
    return entailment - contradiction, either - neutral


def one_line(text: str) -> str:
    """Return `text` as one line of plain text, so that nothing in it can pass for a part of the prompt.

    Line breaks and control characters become spaces, runs of white space one space; what a server may read as a
    control token (`<|im_end|>`, `</s>`, `[INST]`) gets a space that breaks it; a lone surrogate becomes U+FFFD.
    Case, digits and punctuation stay as they are.
    """
    plain = "".join(" " if unicodedata.category(char) in ("Cc", "Zl", "Zp") else char for char in text)
    broken = _CONTROL_TOKEN.sub(lambda match: f"{match[0]} ", " ".join(plain.split()))
    return broken.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def calibration_for(model: str, sha256: str | None = None) -> Calibration:
    """Return the shipped calibration of a chat model, by its file's SHA-256 where known, else by its name.

    For a model that has none, the one that changes nothing (`fitted` is False).
    """
    known = _shipped()[0]
    for found in known:
        if sha256 is not None and found.sha256 == sha256:
            return found
    for found in known:
        if sha256 is None and found.model == model:
            return found
    return next(found for found in known if not found.fitted)


def default_schemes() -> tuple[Scheme, Scheme]:
    """Return the wordings, first look and second, that a model without constants of its own is fitted with.

    Without constants only the second one is used: it has examples, so that even raw probabilities tell neutral apart.
    """
    schemes = _shipped()[1]
    return schemes[_FIRST], schemes[_SECOND]


def load_calibration(path: Path) -> tuple[Calibration, ...]:
    """Read a calibration file (what a refit wrote). Raises ConfigError when it can't be read or is malformed."""
    try:
        return parse_calibrations(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError(f"calibration file {str(path)!r} cannot be read: {exc}") from exc
    except ConfigError as exc:
        raise ConfigError(f"calibration file {str(path)!r}: {exc}") from exc


def choose(known: Sequence[Calibration], model: str, path: str) -> Calibration:
    """Return, of the calibrations in the file at `path`, the chat model's own, or the only one that there is.

    Raises ConfigError when there is none, or several and all of them for other models.
    """
    own = [found for found in known if found.model == model] or list(known)
    if len(own) != 1:
        names = ", ".join(repr(found.model) for found in known) or "no model"
        raise ConfigError(
            f"calibration file {path!r} has constants for {names}, and the chat model is {model!r}; fit them with "
            "corrigenda calibrate-nli, or name another file (nli_calibration)"
        )
    return own[0]


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[Calibration, ...], dict[str, Scheme]]:
    """Return what ships with the package: the calibrations, and all wordings by name."""
    data = json.loads(resources.files("corrigenda.backends").joinpath(_DATA).read_text(encoding="utf-8"))
    return parse_calibrations(data), {name: _scheme(name, value) for name, value in data["schemes"].items()}


def parse_calibrations(data: Any) -> tuple[Calibration, ...]:
    """Return the calibrations of a file's content. Raises ConfigError that says what is wrong with it."""
    try:
        schemes = {name: _scheme(name, value) for name, value in data["schemes"].items()}
        return tuple(_calibration(entry, schemes) for entry in data["models"])
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
        raise ConfigError(f"the calibration data are malformed: {type(exc).__name__}: {exc}") from exc


def _scheme(name: str, data: Mapping[str, Any]) -> Scheme:
    turn = str(data["turn"])
    premise, hypothesis = turn.find("{premise}"), turn.find("{hypothesis}")
    if not 0 <= premise < hypothesis:
        raise ValueError(f"scheme {name!r}: 'turn' needs {{premise}} and, after it, {{hypothesis}}")
    answers = tuple(tuple(map(str, data["answers"][label])) for label in CLASSES)
    if not all(answers):
        raise ValueError(f"scheme {name!r}: every class needs an answer")
    examples = tuple(Example(premise=p, hypothesis=h, answer=a) for p, h, a in data["examples"])
    if any(example.answer not in CLASSES for example in examples):
        raise ValueError(f"scheme {name!r}: an example's answer is none of {CLASSES}")
    return Scheme(name=name, system=str(data["system"]), turn=turn, answers=answers, examples=examples)


def _calibration(entry: Mapping[str, Any], schemes: Mapping[str, Scheme]) -> Calibration:
    if not isinstance(entry["model"], str) or not isinstance(entry["fitted_on"], str | None):
        raise TypeError(f"model and fitted_on must be texts, got {entry['model']!r} and {entry['fitted_on']!r}")
    bounds = entry.get("bounds")
    if bounds is not None and not 0 < bounds[0] <= bounds[1] < 1:
        raise ValueError(f"{entry['model']!r}: bounds must be 0 < floor <= ceiling < 1, got {bounds!r}")
    return Calibration(
        model=entry["model"],
        sha256=entry["sha256"],
        scheme=schemes[entry["scheme"]],
        constants=_constants(entry["model"], entry["constants"]),
        fitted_on=entry["fitted_on"],
        bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
        second=None if entry.get("second") is None else _second(entry["model"], entry["second"], schemes),
    )


def _second(model: str, data: Mapping[str, Any], schemes: Mapping[str, Scheme]) -> SecondLook:
    constants = _constants(model, data["constants"])
    return SecondLook(scheme=schemes[data["scheme"]], constants=constants, below=float(data["below"]))


def _constants(model: str, data: Mapping[str, Any]) -> Constants:
    if "agree" not in data:
        raise ValueError(
            f"{model!r}: the constants {', '.join(map(repr, data))} are those of an older version; 'bias', 'agree', "
            "'differ' and 'looks' are read now; fit them anew with corrigenda calibrate-nli"
        )
    looks = tuple(Look(**{name: float(value) for name, value in look.items()}) for look in data["looks"])
    common = {name: float(value) for name, value in data.items() if name != "looks"}
    constants = Constants(looks=looks, **common)
    if not all(map(math.isfinite, (*constants[:3], *(value for look in looks for value in look)))):
        raise ValueError(f"{model!r}: the constants must be finite, got {constants!r}")
    return constants

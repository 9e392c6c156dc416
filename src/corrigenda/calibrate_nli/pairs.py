"""The labelled pairs that constants are fitted to: read, grouped, and neutral ones made where there are none."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from corrigenda.errors import InputError
from corrigenda.fever_text import detokenise, mostly_tokenised
from corrigenda.types import Pair

LABELS = {
    "SUPPORTS": 0,
    "REFUTES": 2,
    "NOT ENOUGH INFO": 1,
    "ENTAILMENT": 0,
    "NEUTRAL": 1,
    "CONTRADICTION": 2,
}
"""The labels that a data file may use (FEVER's, or those of natural language inference), in any case."""

_NEUTRALS = "neutral_pairs.jsonl"
SEED = 7
"""Of every draw, so that a refit can be repeated."""
_WORD = re.compile(
    r"(?!(?:the|and|for|with|from|that|this|which|who|has|have|had|was|were|are|not|only|his|her|its)\b)\b[^\W_]{3,}"
)
_VAGUE = re.compile(
    r"(?:It|Its|He|She|His|Her|They|Their|This|The (?:film|series|show|album|song|book|city|structure)"
    r"|Directed|Distributed|Production|Produced|Filmed|Following|Several|After|As|Despite|Because|Describing)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A pair with its class (index into CLASSES)."""

    pair: Pair
    label: int


def read_pairs(path: Path) -> list[Labelled]:
    """Read a JSONL file with `claim`, `evidence` (a text or a list of texts) and `label`, one of LABELS.

    Where more than half of the rows show FEVER's tokenisation (`Rome 's hills .`), it is undone in all of them:
    the verifier is used on text as people write it. Raises InputError that names the file and the line.
    """
    found = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON may hold what splitlines breaks at
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"data file {str(path)!r} cannot be read: {exc}") from exc
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_labelled(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise InputError(
                f"{str(path)!r}, line {number}: needs 'claim', 'evidence' and 'label' (one of {', '.join(LABELS)}): "
                f"{type(exc).__name__}: {exc}"
            ) from exc
    if not found:
        raise InputError(f"data file {str(path)!r} has no rows")
    if mostly_tokenised([(row.pair.premise, row.pair.hypothesis) for row in found]):
        found = [replace(row, pair=_detokenised(row.pair)) for row in found]
    return found


def _detokenised(pair: Pair) -> Pair:
    return Pair(premise=detokenise(pair.premise), hypothesis=detokenise(pair.hypothesis))


def _labelled(row: Mapping[str, Any]) -> Labelled:
    claim, evidence = row["claim"], row["evidence"]
    premise = evidence if isinstance(evidence, str) else " ".join(evidence)
    if not isinstance(claim, str):
        raise TypeError(f"'claim' is no text: {claim!r}")
    return Labelled(pair=Pair(premise=premise, hypothesis=claim), label=LABELS[row["label"].upper()])


def groups(rows: Sequence[Labelled]) -> list[int]:
    """Return a group number per row: rows that share a claim or an evidence text, also by way of others, have one.

    Folds are made of whole groups, so that no text is both fitted on and measured on.
    """
    return linked([("h" + row.pair.hypothesis, "p" + row.pair.premise) for row in rows])


def linked(keys: Sequence[Sequence[str]]) -> list[int]:
    """Return a group number per row, from 0 in order of appearance, where `keys` are the texts of each row.

    Rows that share a key have the same number, and so have rows that others link in this way. A row without keys
    stands alone.
    """
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for row in keys:
        for key in row:
            parent[root(row[0])] = root(key)
    numbers: dict[str | int, int] = {}
    return [numbers.setdefault(root(row[0]) if row else place, len(numbers)) for place, row in enumerate(keys)]


def neutral_pairs(rows: Sequence[Labelled], seed: int = SEED) -> list[Labelled]:
    """Return neutral pairs for data that have none: claims beside the evidence of another group.

    Each group is joined with one other at most, the one that shares most words up to three, and gives two pairs.
    Evidence that begins with a pronoun or the like is left out: nothing says that it is about something else.
    """
    numbers = groups(rows)
    members: dict[int, list[int]] = {}
    for index, number in enumerate(numbers):
        members.setdefault(number, []).append(index)
    claims = [_words(row.pair.hypothesis) for row in rows]
    evidence = [_words(row.pair.premise) for row in rows]
    order = sorted(members)
    random.Random(seed).shuffle(order)  # noqa: S311  (no secret)
    found: list[Labelled] = []
    used: set[int] = set()
    for group in order:
        shared = {
            other: max(len(claims[i] & evidence[j]) for i in members[group] for j in members[other])
            for other in order
            if other != group and other not in used and group not in used
        }
        fitting = {other: count for other, count in shared.items() if 1 <= count <= 3}
        if not fitting:
            continue
        other = max(fitting, key=fitting.__getitem__)
        used |= {group, other}
        for one, two in ((group, other), (other, group)):
            i, j = max(
                ((i, j) for i in members[one] for j in members[two]),
                key=lambda ij: len(claims[ij[0]] & evidence[ij[1]]),
            )
            if not _VAGUE.match(rows[j].pair.premise):
                pair = Pair(premise=rows[j].pair.premise, hypothesis=rows[i].pair.hypothesis)
                found.append(Labelled(pair=pair, label=1))
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def shipped_neutral_pairs() -> list[Labelled]:
    """Return the neutral pairs that ship with the package: claims on the premise's subject that it does not decide."""
    with resources.as_file(resources.files("corrigenda.calibrate_nli").joinpath(_NEUTRALS)) as path:
        return read_pairs(path)


def sample(rows: list[Labelled], limit: int | None) -> list[Labelled]:
    """Return `limit` of the rows, drawn with a fixed seed, or all of them when there are no more."""
    if limit is None or limit >= len(rows):
        return rows
    return random.Random(SEED).sample(rows, limit)  # noqa: S311  # nothing secret

"""A summary with few resamples, how its numbers are read, and the answers that its tests share."""

from __future__ import annotations

import json
from typing import Any

from corrigenda.evals.records import Record
from corrigenda.evals.summary import summarise
from tests.eval_records import question, record


def summary(records: list[Record], **more: Any) -> dict[str, Any]:
    found = summarise(records, **({"resamples": 50} | more))
    json.dumps(found, allow_nan=False)
    return found


def value(found: dict[str, Any], metric: str, method: str = "m") -> Any:
    return found["methods"][method][metric]["value"]


def n(found: dict[str, Any], metric: str, method: str = "m") -> Any:
    return found["methods"][method][metric]["n"]


ANSWERS = [
    question("a", True, True, flagged=False),
    question("b", False, True, flagged=True),  # fixed
    question("c", False, False, flagged=True, changed=True),
    question("d", True, False, flagged=True),  # broken
    question("e", None, None, flagged=False),  # the judge could not tell
    record("f", kind="question"),
]

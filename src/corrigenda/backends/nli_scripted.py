"""`scripted:FILE`: a verifier that scores from a file of rules, for tests, demonstrations and benchmarks.

The rules are tried in order and the first that fits a pair serves. See docs/scripted.md for every key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corrigenda.backends.scripts import (
    LATEST,
    SECONDS,
    TEXT,
    TIMES,
    Check,
    RequestLog,
    Rule,
    Source,
    check_any_of,
    error_for_status,
    is_count,
    is_number,
    read_script,
    remember,
)
from corrigenda.errors import BadReply
from corrigenda.replies import shorten
from corrigenda.types import Entailment, Pair, PairFailure


def _is_scores(value: Any) -> bool:
    if not (isinstance(value, list) and len(value) == 3 and all(map(is_number, value))):
        return False
    return all(0 <= v <= 1 for v in value) and abs(sum(value) - 1) <= 1e-6


def _is_error(value: Any) -> bool:
    if isinstance(value, str):
        return value != ""
    return (
        isinstance(value, Mapping)
        and value.keys() <= {"status", "body"}
        and (value.get("status") is None or (is_count(value["status"]) and 100 <= value["status"] <= 599))
        and isinstance(value.get("body", ""), str)
    )


RULE_KEYS: Mapping[str, Check] = {
    "premise_contains": TEXT,
    "hypothesis_contains": TEXT,
    "scores": (_is_scores, "[entailment, neutral, contradiction], each in [0, 1], with sum 1"),
    "error": (_is_error, "a text, or an object with 'status' (100 to 599 or null) and 'body' (text)"),
    "times": TIMES,
}
TOP_KEYS: Mapping[str, Check] = {
    "description": TEXT,
    "max_tokens": TIMES,
    "seconds_per_call": SECONDS,
    "seconds_per_pair": SECONDS,
}


class ScriptedEntailer:
    """An Entailer that scores from rules.

    `calls` holds the pairs of the latest calls (at least 50), in the order in which they came, for tests.
    """

    def __init__(self, rules: Source, log_path: str | Path | None = None) -> None:
        """Read the rules from a JSON file, or from the same content as a dict.

        `log_path` names a file to which every call is appended, a JSON object a line. Raises ConfigError.
        """
        self._script = read_script(rules, rule_keys=RULE_KEYS, default_keys=frozenset(), top_keys=TOP_KEYS)
        check_any_of(self._script, "scores", "error")
        self._log = RequestLog(log_path)
        self.calls: list[list[Pair]] = []

    @property
    def name(self) -> str:
        """`scripted:FILE`, or `scripted` where the rules came as a dict."""
        return self._script.name

    @property
    def max_tokens(self) -> int:
        """The file's `max_tokens`, in words; 1,000,000 where it says nothing."""
        return int(self._script.extra.get("max_tokens", 1_000_000))

    def count_tokens(self, text: str) -> int:
        """Return the number of words (runs of anything but white space)."""
        return len(text.split())

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        """Score every pair by the first rule that fits it.

        Raises BadReply for a pair that no rule fits (a gap in the script, not a failure to simulate), and the
        error of a rule whose `error` is an object. An `error` that is a text fails its pair alone.
        """
        remember(self.calls, list(pairs), LATEST // 20)  # each holds many pairs
        chosen = [self._choose(pair) for pair in pairs]
        self._log.write(
            call="entail",
            pairs=[
                {"premise": pair.premise, "hypothesis": pair.hypothesis, "rule": None if rule is None else rule.index}
                for pair, rule in zip(pairs, chosen, strict=True)
            ],
        )
        extra = self._script.extra
        await asyncio.sleep(extra.get("seconds_per_call", 0) + len(pairs) * extra.get("seconds_per_pair", 0))
        return [self._score(pair, rule) for pair, rule in zip(pairs, chosen, strict=True)]

    async def aclose(self) -> None:
        """Do nothing; there is nothing to free."""

    def _choose(self, pair: Pair) -> Rule | None:
        rule = next((r for r in self._script.serving() if _fits(r.settings, pair)), None)
        if rule is not None:
            rule.spend()
        return rule

    def _score(self, pair: Pair, rule: Rule | None) -> Entailment | PairFailure:
        if rule is None:
            used_up = sum(r.left <= 0 for r in self._script.rules)
            raise BadReply(
                f"{self.name}: none of the {len(self._script.rules)} rules fits this pair ({used_up} used up by "
                f"'times'); add a rule for it: premise {shorten(pair.premise, 300)!r}, "
                f"hypothesis {shorten(pair.hypothesis, 300)!r}"
            )
        length = self.count_tokens(pair.premise) + self.count_tokens(pair.hypothesis)
        if length > self.max_tokens:
            return PairFailure(reason=f"the pair has {length} words, and {self.name} takes {self.max_tokens}")
        error = rule.settings.get("error")
        if isinstance(error, str):
            return PairFailure(reason=error)
        if error is not None:
            status = error.get("status")
            body = error.get("body") or "the script asks for this error"
            shown = "none" if status is None else status
            raise error_for_status(status, f"{self.name}: rules[{rule.index}]: status {shown}: {body}")
        entailment, neutral, contradiction = rule.settings["scores"]
        return Entailment(entailment=entailment, neutral=neutral, contradiction=contradiction)


def _fits(settings: Mapping[str, Any], pair: Pair) -> bool:
    return (
        settings.get("premise_contains", "") in pair.premise
        and settings.get("hypothesis_contains", "") in pair.hypothesis
    )

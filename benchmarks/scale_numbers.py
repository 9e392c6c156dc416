"""What one answer costs a batch, as tables, and what 100 million of them would: the numbers of docs/scale.md (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measured import spread, table
from benchmarks.peer_models import SHAPES

from corrigenda.bench.latency import FIRST_TOKEN_S, TOKENS_PER_S

KINDS: Mapping[str, str] = {
    "given": "checked against a context",
    "recalled": "checked, reference recalled",
    "asked": "asked and checked",
}
WRONG_EACH = 10
"""One answer in so many says something wrong."""


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """What is not measured here: prices, limits, the size of the job."""

    answers: int = 100_000_000
    hours: float = 24.0
    price_prompt: float = 0.15
    """Of a million tokens of prompts, in dollars."""
    price_completion: float = 0.60
    price_core_hour: float = 0.04
    """Of one core for an hour, in dollars."""
    cores: int = 16
    """Of a machine."""
    requests_per_minute: float = 30_000.0
    """What a provider lets an account do."""
    tokens_per_minute: float = 150_000_000.0


ASSUMED = Assumed()

Shown = Callable[[Mapping[str, Any]], str]
"""Returns what stands in a table for a kind of row."""


def numbers(own: Mapping[str, Any] | None, others: Mapping[str, Mapping[str, Any]], assumed: Assumed = ASSUMED) -> str:
    """Return the page's numbers. `own` is what `run` found, framed; `others` what other benchmarks kept, by name."""
    if own is None:
        return "*Not measured yet: `python -m benchmarks.scale`.*"
    result, place = own["result"], own["machine"]
    verifiers = _verifiers(others.get("nli_peers"))
    parts = [
        "### Measured",
        f"*{own['made']}; {place['processor']}, {place['cores']} cores; {result['rows']:,} rows of each kind, one in "
        f"{WRONG_EACH} contradicted in one claim. SIMULATED models, which reply at once; for the seconds of a row, a "
        f"first token after {1000 * FIRST_TOKEN_S:.0f} ms and then {TOKENS_PER_S:.0f} a second. A token is a word or a "
        "mark. Who is asked here answers all questions alike, so pairs of the third kind are taken from the second.*",
        _per_answer(result["kinds"]),
        _rates(result["driver"], others.get("batch"), verifiers),
        f"### {assumed.answers / 1e6:,.0f} million answers, worked out",
        _assumptions(assumed),
        _whole(result, verifiers, assumed),
        "### What saturates first",
        _limits(result, verifiers, assumed),
    ]
    return "\n\n".join(parts)


def _rate(kind: Mapping[str, Any]) -> float:
    return spread(kind["rows_per_s"]).median


def _tokens(kind: Mapping[str, Any]) -> float:
    return float(kind["prompt_tokens"] + kind["completion_tokens"])


def _driver_rate(driver: Mapping[str, Any]) -> float:
    """Return how many rows a second one process takes in and, at the end, writes out."""
    return 1 / (1 / spread(driver["taken_per_s"]).median + 1 / spread(driver["written_per_s"]).median)


def _per_answer(kinds: Mapping[str, Mapping[str, Any]]) -> str:
    lines: tuple[tuple[str, Shown], ...] = (
        ("calls of the chat model", lambda k: f"{k['calls']:.2f}"),
        ("tokens of prompts", lambda k: f"{k['prompt_tokens']:.0f}"),
        ("tokens of completions", lambda k: f"{k['completion_tokens']:.0f}"),
        ("pairs for the verifier", lambda k: f"{k['pairs']:.2f}"),
        ("rows/s of one process, models aside", lambda k: spread(k["rows_per_s"]).text(0)),
        ("seconds of a row, simulated API", lambda k: f"{k['seconds']:.2f}"),
        ("bytes in the state", lambda k: f"{k['state_bytes']:,.0f}"),
        ("bytes of output", lambda k: f"{k['output_bytes']:,.0f}"),
    )
    return table(
        ["an answer", *KINDS.values()], [[what, *(shown(kinds[kind]) for kind in KINDS)] for what, shown in lines]
    )


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """How many pairs a second one core scores."""

    name: str
    pairs_per_core_s: float
    measured: bool


def _verifiers(kept: Mapping[str, Any] | None) -> list[Verifier]:
    """Return those that were measured, and the large one, extrapolated from the largest of them."""
    if kept is None:
        return []
    shapes = kept["result"]["shapes"]
    found = [
        Verifier(
            name=f"{shape}{' int8' * (way == 'onnx-int8')}",
            pairs_per_core_s=shapes[shape]["pairs"] / spread(shapes[shape]["cpu_s"][way]).median,
            measured=True,
        )
        for shape in shapes
        for way in ("onnx", "onnx-int8")
    ]
    largest = max(shapes, key=_work)
    more = _LARGE[0] * _LARGE[1] ** 2 / _work(largest)
    base = [one for one in found if one.name.split()[0] == largest]
    return found + [
        Verifier(name=one.name.replace(largest, "large"), pairs_per_core_s=one.pairs_per_core_s / more, measured=False)
        for one in base
    ]


_LARGE = (24, 1024)
"""Layers and width of DeBERTa-v3-large; the work of a token grows with layers × width²."""


def _work(shape: str) -> float:
    layers, hidden, _ = SHAPES[shape]
    return float(layers * hidden**2)


def _rates(driver: Mapping[str, Any], kept: Mapping[str, Any] | None, verifiers: Sequence[Verifier]) -> str:
    lines = [
        f"- One process takes in {spread(driver['taken_per_s']).text(0)} outcomes a second (unpacking, compressing, "
        f"SQLite), and writes {spread(driver['written_per_s']).text(0)} rows a second to the output at the end.",
    ]
    ray = None if kept is None else kept["result"]["ray"]
    if isinstance(ray, list):
        shown = ", ".join(
            f"{one['way']}: {spread(one['rows_per_s']).text(0)}" for one in ray if one["model"] == "no waiting"
        )
        lines.append(f"- Ray on that one machine, models that reply at once, rows/s: {shown} (`benchmarks.batch`).")
    else:
        lines.append("- Ray: not measured yet (`make bench`).")
    known = ", ".join(f"{one.name}: {one.pairs_per_core_s:.1f}" for one in verifiers if one.measured)
    lines.append(
        f"- Pairs a second of one core, `onnx:` with a DeBERTa-v3 of each size: {known} (`benchmarks.nli_peers`)."
        if known
        else "- Verifiers: not measured yet (`make bench`)."
    )
    return "\n".join(lines)


def _assumptions(a: Assumed) -> str:
    return (
        f"Assumed, not measured: ${a.price_prompt:.2f} for a million tokens of prompts and ${a.price_completion:.2f} "
        f"of completions; ${a.price_core_hour:.2f} for a core for an hour; machines of {a.cores} cores; a provider "
        f"that takes {a.requests_per_minute:,.0f} requests and {a.tokens_per_minute / 1e6:,.0f} million tokens a "
        "minute. Everything below is **extrapolated** from what stands above by multiplication: no run of that size "
        "was made."
    )


def _whole(result: Mapping[str, Any], verifiers: Sequence[Verifier], a: Assumed) -> str:
    kinds, n = result["kinds"], a.answers
    driver = _driver_rate(result["driver"])
    per_s = n / (3600 * a.hours)

    def cores(kind: Mapping[str, Any], verifier: Verifier) -> float:
        return per_s * (1 / _rate(kind) + float(kind["pairs"]) / verifier.pairs_per_core_s)

    def dollars(kind: Mapping[str, Any]) -> float:
        prompts, completions = float(kind["prompt_tokens"]), float(kind["completion_tokens"])
        return n / 1e6 * (prompts * a.price_prompt + completions * a.price_completion)

    lines: list[tuple[str, Shown]] = [
        ("calls, millions", lambda k: f"{n * k['calls'] / 1e6:,.0f}"),
        ("tokens, billions", lambda k: f"{n * _tokens(k) / 1e9:,.1f}"),
        ("dollars for tokens", lambda k: f"{dollars(k):,.0f}"),
        ("pairs, millions", lambda k: f"{n * k['pairs'] / 1e6:,.0f}"),
        ("core hours of the batch itself", lambda k: f"{n / _rate(k) / 3600:,.0f}"),
        *(
            (
                f"core hours of the verifier, {one.name}",
                lambda k, one=one: f"{n * k['pairs'] / one.pairs_per_core_s / 3600:,.0f}",
            )
            for one in verifiers
        ),
        *(
            (
                f"machines to be done in {a.hours:g} h, {one.name}",
                lambda k, one=one: f"{-(-cores(k, one) // a.cores):,.0f}",
            )
            for one in verifiers
        ),
        *(
            (
                f"dollars for them, {one.name}",
                lambda k, one=one: f"{-(-cores(k, one) // a.cores) * a.cores * a.hours * a.price_core_hour:,.0f}",
            )
            for one in verifiers
        ),
        (f"rows a second to be done in {a.hours:g} h", lambda k: f"{per_s:,.0f}"),
        ("rows in flight for that", lambda k: f"{per_s * k['seconds']:,.0f}"),
        ("calls a minute", lambda k: f"{60 * per_s * k['calls']:,.0f}"),
        ("tokens a minute, millions", lambda k: f"{60 * per_s * _tokens(k) / 1e6:,.1f}"),
        ("hours of one driver, were it alone", lambda k: f"{n / driver / 3600:,.0f}"),
        ("GB of state", lambda k: f"{n * k['state_bytes'] / 1e9:,.0f}"),
        ("GB of output", lambda k: f"{n * k['output_bytes'] / 1e9:,.0f}"),
    ]
    return table(
        [f"{n:,} answers", *KINDS.values()], [[what, *(f(kinds[kind]) for kind in KINDS)] for what, f in lines]
    )


def _limits(result: Mapping[str, Any], verifiers: Sequence[Verifier], a: Assumed) -> str:
    """Return how many rows a second each thing allows by itself, the least first."""
    driver = _driver_rate(result["driver"])
    wanted = a.answers / (3600 * a.hours)
    parts = []
    for kind, name in KINDS.items():
        found = result["kinds"][kind]
        limits = {
            f"one driver ({driver:,.0f})": driver,
            f"the provider's requests ({a.requests_per_minute / 60 / (found['calls'] or 1e-9):,.0f})": (
                a.requests_per_minute / 60 / (found["calls"] or 1e-9)
            ),
            f"its tokens ({a.tokens_per_minute / 60 / (_tokens(found) or 1e-9):,.0f})": (
                a.tokens_per_minute / 60 / (_tokens(found) or 1e-9)
            ),
            f"a machine's cores, batch alone ({a.cores * _rate(found):,.0f})": a.cores * _rate(found),
        } | {
            f"a machine's cores, verifier {one.name} ({a.cores * one.pairs_per_core_s / found['pairs']:,.1f})": (
                a.cores * one.pairs_per_core_s / found["pairs"]
            )
            for one in verifiers
        }
        order = ", ".join(sorted(limits, key=limits.__getitem__))
        parts.append(f"- {name}: {order}.")
    return (
        f"Rows a second that each allows by itself, the least first ({wanted:,.0f} are wanted; more machines multiply "
        "what a machine allows, more runs side by side what a driver allows, and nothing what a provider does):\n\n"
        + "\n".join(parts)
    )

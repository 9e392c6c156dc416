"""Make the numbers of docs/scale.md: what one answer costs a batch, measured here, and 100 million of them, worked out.

    python -m benchmarks.scale            measures (some minutes), keeps docs/scale.json, writes the page's numbers
    python -m benchmarks.scale --write    only writes, from docs/scale.json and docs/performance/*.json

SIMULATED models: scripted ones that reply at once, so that what is measured is the batch's own work, its calls and its
tokens; for the seconds of a row, at the speed of an API. One answer in ten says something wrong and is corrected. The
rates of verifiers and of Ray are those that `benchmarks.nli_peers` and `benchmarks.batch` kept.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.batch import batch
from benchmarks.measured import ROOT, Result, at_least, framed, keep, load, spread, table
from benchmarks.peer_models import SHAPES

from corrigenda.backends.chat_scripted import pieces
from corrigenda.batch import output
from corrigenda.batch.rows import pack, unpack_done
from corrigenda.batch.state import State
from corrigenda.bench.latency import FIRST_TOKEN_S, TOKENS_PER_S

PAGE = ROOT / "docs" / "scale.md"
KEPT = ROOT / "docs" / "scale.json"
PERFORMANCE = ROOT / "docs" / "performance"
BEGIN, END = "<!-- numbers: python -m benchmarks.scale -->\n", "<!-- /numbers -->\n"
KINDS: Mapping[str, str] = {
    "given": "checked against a context",
    "recalled": "checked, reference recalled",
    "asked": "asked and checked",
}
WRONG_EACH = 10
FEW = 60
"""Rows whose tokens are counted, and which wait as for an API."""
RIGHT = (
    "{town} is a port on the west coast of Norway. {town} was founded in 1070 by a king. The wharf of {town} is a "
    "World Heritage Site. Rain falls in {town} on more than two hundred days a year."
)
WRONG = RIGHT.replace("Norway", "Portugal")
REFERENCE = (
    "{town} is a Norwegian port on the west coast, founded in 1070 by a king, and known for its wharf, a World "
    "Heritage Site, and for rain on more than two hundred days a year."
)
RULES = (
    {"stage": "generate", "contains": "Town0", "reply": WRONG.format(town="Town0")},
    {"stage": "generate", "reply": RIGHT.format(town="Town")},
    {"stage": "recall", "reply": REFERENCE.format(town="Town")},
    {"stage": "correct", "reply": "Town is a port on the west coast of Norway."},
)
"""Of the chat model; the wrong answer is one whose town's number begins with a nought."""


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


# Measuring ----------------------------------------------------------------------------------------------------------


def run(rows: int, rounds: int) -> Result:
    """Measure what each kind of row costs, and what the driver does with what comes back."""
    with tempfile.TemporaryDirectory(prefix="corrigenda-bench-") as name:
        folder = Path(name)
        _write_scripts(folder)
        kinds = {kind: _kind(folder, kind, rows, rounds) for kind in KINDS}
        kinds["asked"]["pairs"] = kinds["recalled"]["pairs"]  # who is asked answers all alike: scored once
        return {"rows": rows, "kinds": kinds, "driver": _driver(folder, rounds)}


def _write_scripts(folder: Path) -> None:
    """Write the scripted models."""
    speed = {"first_token_s": FIRST_TOKEN_S, "tokens_per_s": TOKENS_PER_S}
    false = {"hypothesis_contains": "Portugal", "scores": [0.01, 0.01, 0.98]}
    for file, content in (
        ("at-once.json", {"rules": RULES}),
        ("api.json", {"rules": RULES, "defaults": speed}),
        ("nli.json", {"rules": [false, {"scores": [0.98, 0.01, 0.01]}]}),
    ):
        (folder / file).write_text(json.dumps(content), "utf-8")


def _rows(kind: str, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        wrong = number % WRONG_EACH == 0
        town = f"Town{0 if wrong else 1}{number}"
        row: dict[str, Any] = {"id": f"row {number}", "question": f"What is {town} known for?"}
        if kind != "asked":
            row["answer"] = (WRONG if wrong else RIGHT).format(town=town)
        if kind == "given":
            row["contexts"] = [REFERENCE.format(town=town)]
        yield row


def _write(path: Path, kind: str, count: int) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows(kind, count)), "utf-8")
    return path


def _kind(folder: Path, kind: str, count: int, rounds: int) -> Result:
    rows = _write(folder / f"{kind}.jsonl", kind, count)
    flags = ("--decomposer", "deterministic")
    took = [batch(folder, rows, *flags, chat="at-once.json") for _ in range(rounds)]
    out, state = folder / "out.jsonl", folder / "out.jsonl.state"
    summary = _summary(folder)
    found = {
        "rows_per_s": [each.rows_per_s for each in took],
        "calls": summary["calls"]["made"] / count,
        "pairs": summary["pairs"]["scored"] / count,
        "state_bytes": state.stat().st_size / count,
        "output_bytes": out.stat().st_size / count,
    }
    if kind == "recalled":
        state.rename(folder / "kept.state")
    few = _write(folder / "few.jsonl", kind, FEW)
    log = folder / f"{kind}.log"
    batch(folder, few, *flags, "--concurrency", str(FEW), "--script-log", str(log), chat="api.json")
    prompts, completions = _tokens_in(log)
    seconds = _summary(folder)["seconds"]["per_row"]["mean"]
    return found | {"seconds": seconds, "prompt_tokens": prompts / FEW, "completion_tokens": completions / FEW}


def _summary(folder: Path) -> Any:
    return json.loads((folder / "out.jsonl.summary.json").read_text("utf-8"))


def _tokens_in(log: Path) -> tuple[int, int]:
    """Return the tokens of all prompts and of all replies that the scripted chat model has logged."""
    prompts = completions = 0
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        entry = json.loads(line)
        if "messages" in entry:
            prompts += sum(len(pieces(message["content"])) for message in entry["messages"])
            completions += len(pieces(RULES[entry["rule"]]["reply"]))
    return prompts, completions


def _driver(folder: Path, rounds: int) -> Result:
    """Measure how many outcomes a second one process takes in, and how many it writes out at the end."""
    with closing(State(folder / "kept.state")) as state:
        texts = [pack(done) for done in state.all()]
    taken, written = [], []
    for number in range(rounds):
        with closing(State(folder / f"driver-{number}.state")) as state:
            state.begin({})
            begun = time.perf_counter()
            for text in texts:
                state.put(unpack_done(text))
            taken.append(len(texts) / (time.perf_counter() - begun))
            begun = time.perf_counter()
            output.write(folder / "driver.jsonl", state.all())
            written.append(len(texts) / (time.perf_counter() - begun))
    return {"taken_per_s": taken, "written_per_s": written}


Shown = Callable[[Mapping[str, Any]], str]
"""Returns what stands in a table for a kind of row."""


# The page -----------------------------------------------------------------------------------------------------------


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
    taken = spread(result["driver"]["taken_per_s"]).median
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
        ("hours of one driver, were it alone", lambda k: f"{n / taken / 3600:,.0f}"),
        ("GB of state", lambda k: f"{n * k['state_bytes'] / 1e9:,.0f}"),
        ("GB of output", lambda k: f"{n * k['output_bytes'] / 1e9:,.0f}"),
    ]
    return table(
        [f"{n:,} answers", *KINDS.values()], [[what, *(f(kinds[kind]) for kind in KINDS)] for what, f in lines]
    )


def _limits(result: Mapping[str, Any], verifiers: Sequence[Verifier], a: Assumed) -> str:
    """Return how many rows a second each thing allows by itself, the least first."""
    taken = spread(result["driver"]["taken_per_s"]).median
    wanted = a.answers / (3600 * a.hours)
    parts = []
    for kind, name in KINDS.items():
        found = result["kinds"][kind]
        limits = {
            f"one driver ({taken:,.0f})": taken,
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


def page(text: str, made: str) -> str:
    """Return the page with its numbers replaced. Raises ValueError when their place is not marked."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no {BEGIN.strip()} … {END.strip()}")
    return f"{before}{BEGIN}\n{made}\n\n{END}{after}"


def written() -> str:
    """Return the page as it has to be now, from what is kept."""
    own = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else None
    others = {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in (PERFORMANCE / "batch.json", PERFORMANCE / "nli_peers.json")
        if path.exists()
    }
    return page(PAGE.read_text("utf-8"), numbers(own, others))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, unless only the page is to be written; then write it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="measure nothing, only write the page")
    parser.add_argument("--rows", type=at_least(100), default=3000, help="rows of each kind (default: 3000)")
    parser.add_argument("--rounds", type=at_least(1), default=3, help="runs of each (default: 3)")
    parser.add_argument("--print", action="store_true", help="measure and print; keep and write nothing")
    arguments = parser.parse_args(argv)
    if not arguments.write:
        busy, begun = load(), time.perf_counter()
        result = run(arguments.rows, arguments.rounds)
        seconds = time.perf_counter() - begun
        own = framed(result, command="python -m benchmarks.scale", busy=busy, seconds=seconds, names=("pyarrow",))
        if arguments.print:
            print(numbers(own, {}))
            return 0
        keep(KEPT, own)
    PAGE.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

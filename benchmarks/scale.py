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
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.batch import batch
from benchmarks.measured import ROOT, Result, at_least, framed, keep, load
from benchmarks.scale_numbers import KINDS, WRONG_EACH, numbers

from corrigenda.backends.chat_scripted import pieces
from corrigenda.batch import output
from corrigenda.batch.rows import pack, unpack_done
from corrigenda.batch.state import State
from corrigenda.bench.latency import FIRST_TOKEN_S, TOKENS_PER_S

PAGE = ROOT / "docs" / "scale.md"
KEPT = ROOT / "docs" / "scale.json"
PERFORMANCE = ROOT / "docs" / "performance"
BEGIN, END = "<!-- numbers: python -m benchmarks.scale -->\n", "<!-- /numbers -->\n"
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


# The page ------------------------------------------------------------------------------------------------------------


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

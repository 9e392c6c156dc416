"""`corrigenda bench latency`: what `ask` adds to the bare answer, as a ratio in one run, with the critical path.

Two profiles. `simulated`: the scripted chat model at the speed of an API (first token after 300 ms, then 80 tokens
a second) and a scripted verifier that takes no time, so that what is measured is the pipeline's own work and the
order of its calls; nothing is computed by a model and the output says so. `embedded`: the embedded chat model and
verifier on this machine.

`base` is the same generate request alone. Both run in turns, and the ratio is that of their medians; `of runs` are the
least and the largest of single runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from corrigenda.api import Corrigenda
from corrigenda.backends.chat_scripted import ScriptedChat, pieces
from corrigenda.backends.nli_scripted import ScriptedEntailer
from corrigenda.ports import ChatModel
from corrigenda.prompts import load as load_prompts
from corrigenda.sentences import split_sentences
from corrigenda.settings import Settings
from corrigenda.stages import generate
from corrigenda.types import Report, Timing

FIRST_TOKEN_S = 0.3
TOKENS_PER_S = 80.0
QUESTION = "What is the city of Bergen known for?"
SENTENCES = (
    "Bergen is a large port city in Norway.",
    "The wharf Bryggen is a World Heritage Site and draws many visitors.",
    "It lies on the west coast of Norway between seven mountains.",
    "King Olav Kyrre founded it in 1070.",
    "A funicular has carried people up Mount Fløyen since 1918.",
    "The University of Bergen opened in 1946 and has about 20,000 students.",
    "The composer Edvard Grieg was born there in 1843.",
    "Rain falls on more than two hundred days a year.",
    "The city was the capital of Norway in the thirteenth century.",
    "Merchants of the Hanseatic League ran an office there until 1754.",
    "The railway to Oslo was finished in 1909 and crosses a high plateau.",
    "The harbour is one of the busiest in the country.",
    "Its football club plays at a stadium that holds some 17,000 people.",
    "The fish market has been held since the thirteenth century.",
    "The old town hall was built in 1558 as a private house.",
    "The first theatre of the country opened there in 1850.",
    "An aquarium stands on the headland west of the harbour.",
    "The airport lies about eighteen kilometres south of the city.",
)
SPLITS = {
    "The wharf Bryggen is a World Heritage Site and draws many visitors.": (
        "The wharf Bryggen is a World Heritage Site.",
        "The wharf Bryggen draws many visitors.",
    ),
    "The University of Bergen opened in 1946 and has about 20,000 students.": (
        "The University of Bergen opened in 1946.",
        "The University of Bergen has about 20,000 students.",
    ),
    "The railway to Oslo was finished in 1909 and crosses a high plateau.": (
        "The railway to Oslo was finished in 1909.",
        "The railway to Oslo crosses a high plateau.",
    ),
}
REFERENCE = "Bergen is a Norwegian port on the west coast, founded in 1070, known for Bryggen and its rain."


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a profile and a decomposer at one answer length."""

    profile: str
    decomposer: str
    tokens: int
    """Length of the answer in tokens (the scripted model's pieces, or as the embedded model reports)."""
    base_s: float
    ask_s: float
    stages: dict[str, float]
    """Busy seconds per stage, median over the runs."""
    path: str
    """The critical path of the median run."""
    between: tuple[float, float]
    """The least and the largest ratio of a run of `ask` to the run of `base` before it."""

    @property
    def ratio(self) -> float:
        """`ask` over `base`."""
        return self.ask_s / self.base_s


def answer_of(tokens: int) -> str:
    """Return the longest run of whole sentences that has at most `tokens` pieces (at least one sentence)."""
    chosen: list[str] = []
    for sentence in SENTENCES:
        if chosen and len(pieces(" ".join([*chosen, sentence]))) > tokens:
            break
        chosen.append(sentence)
    return " ".join(chosen)


def compound_last() -> str:
    """Return the answer of 42 pieces with its compound sentence at the end: the worst case for a model decomposer."""
    sentences = [s.text for s in split_sentences(answer_of(42), "en")]
    return " ".join(sorted(sentences, key=lambda sentence: sentence in SPLITS))


def script(answer: str) -> dict[str, Any]:
    """Return the rules of the simulated chat model for this answer."""
    rules: list[dict[str, Any]] = [
        {"stage": "generate", "reply": answer},
        {"stage": "recall", "reply": REFERENCE},
    ]
    for sentence in split_sentences(answer, "en"):
        claims = SPLITS.get(sentence.text, ())
        rules.append({"stage": "decompose", "contains": sentence.text, "reply": json.dumps({"claims": list(claims)})})
    return {"defaults": {"first_token_s": FIRST_TOKEN_S, "tokens_per_s": TOKENS_PER_S}, "rules": rules}


async def base_seconds(chat: ChatModel, settings: Settings, question: str) -> tuple[float, str]:
    """Return how long the bare answer takes, and the answer."""
    request = generate.request(
        question,
        load_prompts("en"),
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_answer_tokens,
        seed=settings.seed,
    )
    begun = time.perf_counter()
    parts = [delta.text async for delta in generate.generate(chat, request)]
    return time.perf_counter() - begun, "".join(parts)


def critical_path(timings: Sequence[Timing]) -> list[Timing]:
    """Return the chain of stage runs that ends last, each one the latest to end before the next one began.

    A run that the next one overlaps (claims scored while the answer streams) is cut where the next one begins.
    """
    path: list[Timing] = []
    end = max((t.end_s for t in timings), default=0.0)
    while True:
        reaching = [t for t in timings if t.start_s < end - 1e-6 and t.end_s > t.start_s]
        if not reaching:
            return path[::-1]
        latest = max(reaching, key=lambda t: (min(t.end_s, end), -t.start_s))
        path.append(replace(latest, end_s=min(latest.end_s, end)))
        end = latest.start_s


def _path_text(report: Report) -> str:
    steps: list[tuple[str, float]] = []
    for step in critical_path(report.timings):
        seconds = step.end_s - step.start_s
        if steps and steps[-1][0] == step.stage:
            steps[-1] = (step.stage, steps[-1][1] + seconds)
        elif seconds >= 0.001:
            steps.append((step.stage, seconds))
    return " → ".join(f"{stage} {seconds:.3f} s" for stage, seconds in steps)


async def measure(
    profile: str, make: Any, settings: Settings, questions: Sequence[str], tokens: int | None = None
) -> Row:
    """Run base and ask in turns over `questions` and return the medians. `make()` returns (chat, Corrigenda)."""
    chat, corrigenda = make()
    base, asked, reports = [], [], []
    async with corrigenda:
        await corrigenda.check("Warm-up.", context="Warm-up.")
        for question in questions:
            seconds, _ = await base_seconds(chat, settings, question)
            base.append(seconds)
            begun = time.perf_counter()
            reports.append(await corrigenda.ask(question))
            asked.append(time.perf_counter() - begun)
    middle = reports[asked.index(statistics.median_low(asked))]
    stages: dict[str, list[float]] = {}
    for report in reports:
        for name in dict.fromkeys(t.stage for t in report.timings):
            busy = sum(t.end_s - t.start_s for t in report.timings if t.stage == name)
            stages.setdefault(name, []).append(busy)
    usage = middle.usage["generate"].completion_tokens
    ratios = [a / b for a, b in zip(asked, base, strict=True)]
    return Row(
        profile=profile,
        decomposer=settings.decomposer,
        tokens=tokens if tokens is not None else (usage or 0),
        base_s=statistics.median(base),
        ask_s=statistics.median(asked),
        stages={name: statistics.median(values) for name, values in stages.items()},
        path=_path_text(middle),
        between=(min(ratios), max(ratios)),
    )


async def simulated(runs: int, lengths: Sequence[int] = (42, 200)) -> list[Row]:
    """Measure the simulated profile at each answer length, with each decomposer; last, the model's worst case."""
    answers = [("simulated", answer_of(n), d) for n in lengths for d in ("deterministic", "auto", "model")]
    rows = []
    for profile, answer, decomposer in [*answers, ("worst case", compound_last(), "model")]:
        settings = Settings(llm="none", decomposer=decomposer)

        def make(answer: str = answer, settings: Settings = settings) -> tuple[ChatModel, Corrigenda]:
            chat = ScriptedChat(script(answer))
            nli = ScriptedEntailer({"rules": [{"scores": [0.98, 0.01, 0.01]}]})
            return chat, Corrigenda(llm=chat, nli=nli, settings=settings)

        rows.append(await measure(profile, make, settings, [QUESTION] * runs, len(pieces(answer))))
    return rows


EMBEDDED_QUESTIONS = (
    "What is the capital of Australia?",
    "Who wrote the novel Moby-Dick, and when was it published?",
    "What is the chemical symbol of gold, and what is gold used for?",
)


async def embedded(runs: int) -> list[Row]:
    """Measure the embedded profile. Raises ModelError or MissingExtra when the model is not here."""
    from corrigenda.loading import Loader  # noqa: PLC0415  # only where the real model is used

    rows = []
    for decomposer in ("deterministic", "auto"):
        settings = Settings(decomposer=decomposer, seed=1, temperature=0.0, max_answer_tokens=96)
        loader = Loader(settings)
        tools = await loader.tools(chat=True)
        assert tools.chat is not None

        def make(tools: Any = tools, settings: Settings = settings) -> tuple[ChatModel, Corrigenda]:
            return tools.chat, Corrigenda(llm=tools.chat, nli=tools.entailer, settings=settings)

        questions = [EMBEDDED_QUESTIONS[i % len(EMBEDDED_QUESTIONS)] for i in range(runs)]
        rows.append(await measure("embedded", make, settings, questions))
        await loader.aclose()
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    lines = [
        f"{'profile':<10} {'decomposer':<14} {'tokens':>6} {'base s':>8} {'ask s':>8} {'ratio':>6} {'of runs':>12}  "
        "critical path"
    ]
    for row in rows:
        lines.append(
            f"{row.profile:<10} {row.decomposer:<14} {row.tokens:>6} {row.base_s:>8.3f} {row.ask_s:>8.3f} "
            f"{row.ratio:>6.2f} {f'{row.between[0]:.2f} to {row.between[1]:.2f}':>12}  {row.path}"
        )
        busy = ", ".join(f"{name} {seconds:.3f}" for name, seconds in row.stages.items())
        lines.append(f"{'':<10} busy seconds per stage: {busy}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(prog="corrigenda bench latency", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", choices=("simulated", "embedded", "both"), default="both")
    parser.add_argument("--runs", type=int, default=5, help="runs per row (default 5)")
    arguments = parser.parse_args(argv)
    if arguments.runs < 1:
        parser.error(f"--runs must be at least 1, got {arguments.runs}")
    if arguments.profile in ("simulated", "both"):
        print(
            f"SIMULATED speed: a scripted chat model, first token after {FIRST_TOKEN_S * 1000:.0f} ms, then "
            f"{TOKENS_PER_S:.0f} tokens/s, and a scripted verifier that takes no time. Nothing is flagged.\n"
            "Worst case: the compound sentence comes last, so that its whole decomposition follows the answer."
        )
        print(table(asyncio.run(simulated(arguments.runs))), flush=True)
    if arguments.profile in ("embedded", "both"):
        print("\nEMBEDDED models, measured on this machine (greedy answers of at most 96 tokens).")
        print(table(asyncio.run(embedded(arguments.runs))), flush=True)
    return 0

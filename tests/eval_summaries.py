"""A small evaluation with hostile texts in it, for the tests of what is printed of one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from corrigenda.evals.ablation import ablation
from corrigenda.evals.errors_of import sort_errors
from corrigenda.evals.records import PairCalls, Record
from corrigenda.evals.summary import summarise
from corrigenda.evals.sweep import sweep
from tests.eval_records import C, S, U, call, judged, outcome, record, reported, scored

EVIL = (
    "<script>alert(\"1\")</script> & 'x' | `y` <img src=//evil.example onerror=z> [l](http://evil.example) \x1b[2J $1$"
)
MODELS: dict[str, Any] = {"models": {"verifier": "onnx:<tiny>", "chat": "local:x"}, "judge": "nli:onnx:<tiny>"}


@cache
def records() -> tuple[Record, ...]:
    """Ten answers under three methods, four of them right; the wrong ones have a sentence that is labelled so."""
    found = []
    for i in range(10):
        signed = [-0.9, 0.8, 0.7 - i / 20] if i % 3 else [0.9, -0.55 - i / 50, 0.6]
        claims = [scored(s, f"Claim {j} {EVIL}", said=C if s < 0 else S, sentence=j) for j, s in enumerate(signed)]
        labels = (C, S, U) if i % 3 else (S, S, U)
        wrong = i % 3 != 0
        for method, seconds in (("base", 0.8), ("nli-fixed", 1.0), ("corrigenda", 1.2)):
            made = outcome(answer=EVIL) if method == "base" else reported(*claims, answer=EVIL, reference=EVIL)
            fixed = method == "corrigenda" and i != 4
            found.append(
                record(
                    i,
                    method,
                    kind="answer",
                    dataset="truthfulqa",
                    question=f"Question {i}? {EVIL}",
                    made=replace(made, final_answer="Changed.") if fixed and wrong else made,
                    sentence_labels=labels,
                    before=judged(not wrong),
                    after=judged(not wrong or fixed),
                    latency_s=seconds + i / 100,
                    calls=(call("generate", seconds * 0.8), call("correct", seconds * 0.1)),
                    pairs=PairCalls(pairs=3, seconds=seconds * 0.1),
                    **MODELS,
                )
            )
    return tuple(found)


@cache
def _summary() -> dict[str, Any]:
    found = summarise(records(), resamples=60)
    found["sweep"] = sweep(records(), resamples=20, floors=(0.5,), ceilings=(0.8,), thresholds=(0.7,))
    found["ablation"] = ablation(records(), resamples=20)
    found["errors"] = sort_errors(records(), examples=1)
    return found


def full_summary() -> dict[str, Any]:
    """Return the summary with its sweep, its ablation and its errors."""
    return dict(_summary())


def bare_summary() -> dict[str, Any]:
    """Return the summary of one claim under one method that gives no score: little was measured."""
    return summarise([record("c", "m", label=S, made=outcome(flagged=False))], resamples=5)

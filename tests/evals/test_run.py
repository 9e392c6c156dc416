from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from tests.evaluating import CHAT, CLAIMS, ITEMS, METHODS, data_set, kit_of, plan_of, ran
from tests.scripted import Rules

from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.errors import InputError
from corrigenda.evals.needs import skipped_kinds
from corrigenda.evals.records import Call, Record
from corrigenda.evals.run import prepared, told
from corrigenda.evals.store import read
from corrigenda.evals.summary import summarise
from corrigenda.methods import make
from corrigenda.methods.protocol import Kit, Method, NeededInput, Outcome, Task, Traits
from corrigenda.types import Reference, Verdict

TRAITS = Traits(paper="ours", retrieval=False, claim_level=False, adaptive=False, corrects=False, calls="0")


Seen = tuple[list[Task], list[Kit]]


@dataclass(frozen=True)
class Fake:
    """A method that returns or raises what it is given; `seen` takes the tasks and kits that it gets."""

    result: Any = "ok"
    seen: Seen | None = None
    needs: tuple[NeededInput, ...] = ()
    traits: Traits = TRAITS
    name: ClassVar[str] = "fake"

    async def run(self, task: Task, kit: Kit) -> Outcome:
        if self.seen is not None:
            self.seen[0].append(task)
            self.seen[1].append(kit)
        if isinstance(self.result, BaseException):
            raise self.result
        if isinstance(self.result, Outcome):
            return self.result
        return Outcome(answer="A.", final_answer=str(self.result))


def fake(result: Any = "ok", **more: Any) -> Method:
    return cast(Method, Fake(result, **more))


def fakes(**results: Any) -> dict[str, Method]:
    return {name: fake(result) for name, result in results.items()}


def shown(records: tuple[Record, ...]) -> list[tuple[str, str, str]]:
    return [(r.item, r.method, r.status) for r in records]


def without_time(record: Record) -> Record:
    """Return a record without what differs from run to run: times, and which calls were made before."""
    calls = tuple(replace(c, seconds=0.0, reused=False) for c in record.calls)
    outcome = record.outcome
    if outcome is not None and outcome.report is not None:
        outcome = replace(outcome, report=replace(outcome.report, timings=()))
    pairs = replace(record.pairs, seconds=0.0, reused=0)
    return replace(record, calls=calls, pairs=pairs, latency_s=None, outcome=outcome)


# A whole run --------------------------------------------------------------------------------------------------------


def test_every_item_is_run_under_every_method_and_kept(tmp_path: Path) -> None:
    records = ran(tmp_path, plan_of())
    assert shown(records) == [(i.id, m, "ok") for i in ITEMS for m in METHODS]
    assert [(r.item, r.status) for r in read(tmp_path).records] == [(r.item, r.status) for r in records]
    rome = records[2]
    assert rome.outcome is not None
    assert (rome.outcome.answer, rome.outcome.final_answer) == ("Rome has five hills.", "Rome has seven hills.")
    assert [(r.before and r.before.correct, r.after and r.after.correct) for r in records] == [
        *((False, False), (False, True), (False, True)),
        *((True, True), (True, True), (True, True)),
        *((False, False), (False, False), (False, False)),
    ]
    assert {(r.dataset, r.kind, r.judge, r.seed, r.repeat) for r in records} == {
        ("hand-made", "question", "lexical", 7, 0)
    }
    assert records[0].models == {"chat": "scripted", "verifier": "scripted"}


def test_methods_share_calls_and_each_counts_its_own(tmp_path: Path) -> None:
    kit = kit_of()
    records = ran(tmp_path, plan_of(*ITEMS[:1]), kit)
    assert isinstance(kit.chat, ScriptedChat)
    assert [r.stage for r in kit.chat.requests] == ["generate", "recall", "correct"]
    assert [[(c.stage, c.reused) for c in r.calls] for r in records] == [
        [("generate", False)],
        [("generate", True), ("recall", False), ("correct", False)],
        [("generate", True), ("recall", True), ("correct", True)],
    ]
    assert [(r.pairs.pairs, r.pairs.reused) for r in records] == [(0, 0), (2, 0), (2, 2)]
    assert all(c.completion_tokens == 5 for r in records for c in r.calls)


def test_without_reuse_every_call_is_made(tmp_path: Path) -> None:
    kit = kit_of()
    records = ran(tmp_path, plan_of(*ITEMS[:1], reuse=False), kit)
    assert isinstance(kit.chat, ScriptedChat)
    assert len(kit.chat.requests) == 7
    assert not any(c.reused for r in records for c in r.calls)


def test_two_metrics_of_the_summary_by_hand(tmp_path: Path) -> None:
    """Accuracy and the mean number of calls, counted in the lines of the file."""
    ran(tmp_path, plan_of())
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text("utf-8").splitlines()]
    summary = summarise(read(tmp_path).records, resamples=50)
    for method, right, calls in (("base", 1, 3), ("nli-fixed", 2, 7), ("corrigenda:paper", 2, 7)):
        own = [line for line in lines if line["method"] == method]
        assert (sum(line["after"]["correct"] for line in own), sum(len(line["calls"]) for line in own)) == (
            right,
            calls,
        )
        found = summary["methods"][method]
        assert (found["accuracy"]["value"], found["accuracy"]["n"]) == (pytest.approx(right / 3), 3)
        assert (found["calls"]["value"], found["calls"]["n"]) == (pytest.approx(calls / 3), 3)


def test_repeats_have_seeds_of_their_own(tmp_path: Path) -> None:
    kit = kit_of()
    records = ran(tmp_path, plan_of(*ITEMS[:1], repeats=2, methods={"base": make("base")}), kit)
    assert [(r.repeat, r.seed) for r in records] == [(0, 7), (1, 8)]
    assert isinstance(kit.chat, ScriptedChat)
    assert [r.seed for r in kit.chat.requests] == [7, 8]


def test_several_items_at_a_time_give_the_same_records(tmp_path: Path) -> None:
    one = ran(tmp_path / "one", plan_of())
    many = ran(tmp_path / "many", plan_of(concurrency=3))
    order = [(r.item, r.method) for r in one]
    assert [without_time(r) for r in sorted(many, key=lambda r: order.index((r.item, r.method)))] == [
        without_time(r) for r in one
    ]


# What a method sees -------------------------------------------------------------------------------------------------


def test_a_task_holds_no_gold_label_and_the_kit_speaks_the_items_language(tmp_path: Path) -> None:
    seen: Seen = ([], [])
    contexts = (Reference(text="Evidence.", source="evidence"),)
    claim = replace(CLAIMS[0], contexts=contexts)
    italian = replace(ITEMS[0], id="it", question="Quanti sono i colli di Roma e dove sono?")
    given = replace(ITEMS[1], id="given", kind="answer", answer="Oslo lies in Sweden.", label=Verdict.CONTRADICTED)
    ran(tmp_path, plan_of(ITEMS[0], italian, claim, given, methods={"fake": fake(seen=seen)}))
    assert seen[0] == [
        Task(question="What is rome?"),
        Task(question="Quanti sono i colli di Roma e dove sono?"),
        Task(answer="Claim 0.", contexts=contexts, whole=True, correct=False),
        Task(question="What is oslo?", answer="Oslo lies in Sweden."),
    ]
    assert [kit.prompts.language for kit in seen[1]] == ["en", "it", "en", "en"]


@pytest.mark.parametrize(
    ("correct", "expected"), [(None, [True, False]), (True, [True, True]), (False, [False, False])]
)
def test_claims_are_corrected_only_when_asked_for(tmp_path: Path, correct: bool | None, expected: list[bool]) -> None:
    seen: Seen = ([], [])
    records = ran(tmp_path, plan_of(ITEMS[0], CLAIMS[0], methods={"fake": fake(seen=seen)}, correct=correct))
    assert [task.correct for task in seen[0]] == expected
    assert [r.judge for r in records] == ["lexical", "gold" if correct else None]


# Failures -----------------------------------------------------------------------------------------------------------


def test_a_method_that_fails_is_a_record_with_its_reason_and_the_run_goes_on(tmp_path: Path) -> None:
    group = ExceptionGroup("several", [ExceptionGroup("more", [KeyError("x")])])
    methods = fakes(ours=InputError("too long"), theirs=ValueError("oops"), nested=group, fine="B.")
    records = ran(tmp_path, plan_of(*ITEMS[:1], methods=methods))
    assert [(r.method, r.status, r.reason) for r in records] == [
        ("ours", "failed", "too long"),
        ("theirs", "failed", "ValueError: oops"),
        ("nested", "failed", "KeyError: 'x'"),
        ("fine", "ok", None),
    ]
    assert [(r.outcome, r.before, r.after) for r in records[:3]] == [(None, None, None)] * 3
    assert all(r.latency_s is not None for r in records)


def test_a_model_that_fails_on_one_item_fails_that_item_alone(tmp_path: Path) -> None:
    broken: Rules = [{"contains": "oslo", "error": {"status": 500, "body": "out of order"}}, *CHAT]
    records = ran(tmp_path, plan_of(methods={"base": make("base")}), kit_of(broken))
    assert [r.status for r in records] == ["ok", "failed", "ok"]
    assert "out of order" in (records[1].reason or "")
    assert [(c.stage, c.error is not None) for c in records[1].calls] == [("generate", True)]
    assert summarise(records, resamples=50)["methods"]["base"]["failures"]["value"] == 1


def test_failed_items_are_run_again_only_when_asked_for(tmp_path: Path) -> None:
    broken: Rules = [{"contains": "oslo", "error": {"status": 500}, "times": 1}, *CHAT]
    kit = kit_of(broken)
    plan = plan_of(methods={"base": make("base")})
    assert [r.status for r in ran(tmp_path, plan, kit)] == ["ok", "failed", "ok"]
    assert [r.status for r in ran(tmp_path, plan, kit)] == ["ok", "failed", "ok"]
    assert [r.status for r in ran(tmp_path, replace(plan, retry_failed=True), kit)] == ["ok", "ok", "ok"]
    assert len((tmp_path / "records.jsonl").read_text("utf-8").splitlines()) == 4


def test_calls_to_a_model_of_its_own_are_the_methods_calls(tmp_path: Path) -> None:
    call = {"stage": "generate", "seconds": 2.0, "prompt_tokens": 9, "completion_tokens": None}
    own = Outcome(answer="A.", final_answer="A.", details={"calls": [call]})
    odd = Outcome(answer="A.", final_answer="A.", details={"calls": ["nonsense"]})
    records = ran(tmp_path, plan_of(*ITEMS[:1], methods=fakes(own=own, odd=odd)))
    assert [r.calls for r in records] == [(Call(stage="generate", seconds=2.0, prompt_tokens=9),), ()]


def test_reasons_name_the_kind_of_error_that_is_not_ours() -> None:
    assert told(InputError("so")) == "so"
    assert told(RuntimeError("so")) == "RuntimeError: so"


# Interruption -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stop_after", "calls"), [(1, 7), (4, 4), (8, 2)])
def test_an_interrupted_run_goes_on_and_ends_as_an_unbroken_one(tmp_path: Path, stop_after: int, calls: int) -> None:
    whole = ran(tmp_path / "whole", plan_of())
    assert len(ran(tmp_path / "broken", plan_of(), stop_after=stop_after)) == stop_after
    kit = kit_of()
    resumed = ran(tmp_path / "broken", plan_of(), kit)
    assert [without_time(r) for r in resumed] == [without_time(r) for r in whole]
    assert [without_time(r) for r in read(tmp_path / "broken").records] == [
        without_time(r) for r in read(tmp_path / "whole").records
    ]
    assert isinstance(kit.chat, ScriptedChat)
    assert len(kit.chat.requests) == calls


def test_a_run_that_is_done_calls_no_model(tmp_path: Path) -> None:
    ran(tmp_path, plan_of())
    nothing = kit_of([], [])
    assert len(ran(tmp_path, plan_of(), nothing)) == 9


def test_a_method_that_is_added_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    first = ran(tmp_path, plan_of(methods={"base": make("base")}))
    both = ran(tmp_path, plan_of(methods={"base": make("base"), "fake": fake()}))
    assert both[:3] == first
    assert [r.method for r in both[3:]] == ["fake"] * 3


# What a method needs ------------------------------------------------------------------------------------------------


def needing(*needs: NeededInput, retrieval: bool = False) -> dict[str, Method]:
    return {"fake": fake(needs=needs, traits=replace(TRAITS, retrieval=retrieval))}


@pytest.mark.parametrize(
    ("items", "methods", "message"),
    [
        (
            CLAIMS,
            needing("question"),
            "the method 'fake' needs a question, and no item of 'hand-made' has that; choose a",
        ),
        (
            (replace(CLAIMS[0], question="Q?"), CLAIMS[1]),
            needing("question"),
            r"needs a question, which 1 of 2 items of 'hand-made' lack \(the first: 'c1'\)",
        ),
        (CLAIMS, needing("contexts"), "needs contexts to check against, and no item"),
        (ITEMS, needing("answer"), "needs an answer that is given, and no item"),
        (CLAIMS, needing("chat"), "the method 'fake' needs a chat model; name one with --llm"),
        (CLAIMS, needing("retriever"), "the method 'fake' needs a retriever; build an index with `corrigenda index`"),
        (CLAIMS, needing(retrieval=True), "needs a retriever, or contexts, and no item"),
        (ITEMS, needing(), "3 items of 'hand-made' have no answer, and there is no chat model to give one; name one"),
    ],
)
def test_a_method_that_cannot_take_the_data_is_told_before_anything_runs(
    items: Any, methods: dict[str, Method], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        skipped_kinds(data_set(*items), methods, chat=False, retriever=False)


def test_in_mixed_data_a_method_is_not_run_on_the_kind_that_it_cannot_take(tmp_path: Path) -> None:
    plan = plan_of(*ITEMS[:1], *CLAIMS[:1], methods={**needing("question"), "base": make("base")})
    assert plan.skipped == {"fake": frozenset({"claim"})}
    assert shown(ran(tmp_path, plan)) == [("rome", "fake", "ok"), ("rome", "base", "ok"), ("c0", "base", "ok")]


def test_what_a_method_needs_may_come_from_either_place() -> None:
    given = replace(CLAIMS[0], contexts=(Reference(text="x", source="evidence"),))
    assert skipped_kinds(data_set(given), needing(retrieval=True), chat=False, retriever=False) == {}
    assert skipped_kinds(data_set(*ITEMS), needing(retrieval=True), chat=True, retriever=True) == {}


@pytest.mark.parametrize(
    ("items", "correct", "calls_chat", "judges"),
    [(ITEMS, None, True, True), (CLAIMS, None, False, False), (CLAIMS, True, True, True)],
)
def test_models_are_loaded_beforehand_only_where_they_are_wanted(
    items: Any, correct: bool | None, calls_chat: bool, judges: bool
) -> None:
    plan = plan_of(*items, methods={"base": make("base")}, correct=correct)
    assert (plan.calls_chat, plan.judges) == (calls_chat, judges)


async def _with_hooks(told_of: list[str]) -> None:
    class Own(Fake):
        async def prepare(self) -> None:
            told_of.append("prepare")

        async def aclose(self) -> None:
            told_of.append("close")

    async with prepared({"own": cast(Method, Own()), "plain": fake()}):
        told_of.append("run")


def test_a_method_with_a_model_of_its_own_may_load_and_free_it() -> None:
    told_of: list[str] = []
    asyncio.run(_with_hooks(told_of))
    assert told_of == ["prepare", "run", "close"]

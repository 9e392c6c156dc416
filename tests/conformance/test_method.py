"""What every method must do, whatever it is. A new method is in the table of `corrigenda.methods`, and so in here."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import math
from typing import Any, get_args

import pytest
from tests.method_kit import QUESTION, Passages, contexts, kit_of, requests_of
from tests.scripted import ANSWER, FIVE_HILLS, Rules

from corrigenda.errors import BackendError, InputError, MissingExtra
from corrigenda.methods import METHODS, make, method_class, options_of
from corrigenda.methods.common import is_flagged
from corrigenda.methods.protocol import Judged, Kit, NeededInput, Outcome, Task, Traits
from corrigenda.policies import POLICIES
from corrigenda.report import to_json
from corrigenda.types import Verdict

NAMES = [*METHODS, *(f"corrigenda:{policy}" for policy in POLICIES)]
OWN_ANSWER = ("rag", "dola")
"""Methods that answer the question in their own way."""
OWN_MODEL = ("dola",)
"""Methods that run on a chat model of their own kind; `tests/methods` runs them."""
CHAT: Rules = [
    {"stage": "generate", "reply": ANSWER},
    {"stage": "answer", "reply": ANSWER},
    {"stage": "recall", "reply": "Rome stands on seven hills."},
    {"stage": "sample", "reply": "Rome has seven hills."},
    {"stage": "correct", "reply": "Rome has seven hills."},
    {"stage": "decompose", "reply": '{"claims": []}'},
    {"stage": "verify", "contains": "True or False", "reply": "False"},
    {"stage": "verify", "contains": "<claim>", "reply": "CONTRADICTED"},
    {"stage": "verify", "contains": "CORRECT", "reply": "INCORRECT\nRome has seven hills. It is in Italy."},
    {"stage": "feedback", "reply": "- It has seven hills."},
    {"stage": "plan", "reply": f"1. {QUESTION}\n2. Where is Rome?"},
    {"stage": "compare", "reply": "INCONSISTENT"},
    {"reply": "Rome has seven hills. It is in Italy."},
]
PASSAGE = "Rome stands on seven hills. It is in Italy."
ASK = Task(question=QUESTION)
GIVEN = Task(question=QUESTION, answer=ANSWER, contexts=contexts(PASSAGE))
CLAIM = Task(question=QUESTION, answer="Rome has 5 hills.", contexts=contexts(PASSAGE), whole=True)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def method(name: str) -> Any:
    """Return each method; those whose packages are not installed are skipped."""
    try:
        return make(name)
    except MissingExtra as exc:
        pytest.skip(str(exc))


@pytest.fixture(params=[name for name in NAMES if name not in OWN_MODEL])
def runnable(request: pytest.FixtureRequest) -> Any:
    """Return each method that runs on the scripted models."""
    return make(request.param)


def full_kit(chat: Rules = CHAT, nli: Any = FIVE_HILLS, **settings: Any) -> Kit:
    return kit_of(chat, nli, **({"retriever": Passages(PASSAGE)} | settings))


def run(method: Any, task: Task, kit: Kit) -> Outcome:
    """Run a method and check what holds for every outcome."""
    outcome: Outcome = asyncio.run(method.run(task, kit))
    check(outcome)
    return outcome


def check(outcome: Outcome) -> None:
    assert isinstance(outcome, Outcome)
    assert isinstance(outcome.answer, str)
    assert isinstance(outcome.final_answer, str)
    for judged in outcome.verdicts:
        assert isinstance(judged, Judged)
        assert isinstance(judged.verdict, Verdict)
        assert judged.text.strip()
        assert judged.span is None or 0 <= judged.span.start < judged.span.end <= len(outcome.answer)
        assert judged.score is None or 0 <= judged.score <= 1
        assert judged.signed is None or -1 <= judged.signed <= 1
        assert judged.verdict is not Verdict.FAILED or judged.reason
    assert outcome.flagged in (None, is_flagged(outcome.verdicts))
    assert outcome.score is None or math.isfinite(outcome.score)
    assert all(isinstance(warning, str) and warning for warning in outcome.warnings)
    assert len(set(outcome.warnings)) == len(outcome.warnings)
    json.dumps(dict(outcome.details), allow_nan=False)
    if outcome.report is not None:
        assert to_json(outcome.report)


def told(outcome: Outcome) -> Any:
    """Return an outcome without the times of its report."""
    return dataclasses.replace(outcome, report=None)


def test_what_it_says_of_itself(name: str, method: Any) -> None:
    assert method.name == name.partition(":")[0]
    assert isinstance(method.traits, Traits)
    assert method.traits.calls
    assert method.traits.paper.endswith(".")
    assert all(line.endswith(".") for line in method.traits.differs)
    assert set(method.needs) <= set(get_args(NeededInput))
    assert method_class(name) is type(method)
    assert len(inspect.getdoc(type(method)) or "") > 100


def test_it_is_frozen_and_holds_only_its_options(name: str, method: Any) -> None:
    assert [f.name for f in dataclasses.fields(method)] == list(options_of(name))
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError), match=r".+"):
        method.k = 1
    assert make(name) == method


def test_a_question(runnable: Any) -> None:
    kit = full_kit()
    outcome = run(runnable, ASK, kit)
    assert outcome.answer == ANSWER
    if runnable.name not in OWN_ANSWER:
        assert [r.seed for r in requests_of(kit, "generate")] == [1]
    if not runnable.traits.corrects:
        assert outcome.final_answer == ANSWER


def test_a_given_answer_is_the_one_that_is_examined(runnable: Any) -> None:
    kit = full_kit()
    outcome = run(runnable, GIVEN, kit)
    assert outcome.answer == ANSWER
    assert requests_of(kit, "generate") == requests_of(kit, "answer") == []


def test_without_correction_the_answer_stays(runnable: Any) -> None:
    for task in (ASK, GIVEN, CLAIM):
        outcome = run(runnable, dataclasses.replace(task, correct=False), full_kit())
        assert outcome.final_answer == outcome.answer


def test_a_whole_claim_is_not_split(runnable: Any) -> None:
    outcome = run(runnable, CLAIM, full_kit())
    assert {v.text for v in outcome.verdicts} == (set() if runnable.name == "base" else {"Rome has 5 hills."})
    assert all(v.sentence in (0, None) for v in outcome.verdicts)


def test_a_claim_that_is_contradicted_by_all_is_flagged(runnable: Any) -> None:
    """Every scripted voice contradicts it: the verifier, the second look, the feedback, the passages."""
    assert run(runnable, CLAIM, full_kit()).flagged is (None if runnable.name == "base" else True)


def test_every_call_has_a_stage_and_a_seed(runnable: Any) -> None:
    """So that usage is counted, and runs can be repeated: a seed, or temperature 0."""
    kit = full_kit(seed=3)
    run(runnable, ASK, kit)
    assert all(r.stage and (r.seed is not None or r.temperature == 0) for r in requests_of(kit))
    assert all(r.max_tokens for r in requests_of(kit))


def test_the_same_kit_gives_the_same_outcome_also_at_the_same_time(runnable: Any) -> None:
    async def both(kit: Kit) -> list[Outcome]:
        return list(await asyncio.gather(*(runnable.run(ASK, kit) for _ in range(2))))

    alone = told(run(runnable, ASK, full_kit()))
    assert [told(outcome) for outcome in asyncio.run(both(full_kit()))] == [alone, alone]


def test_a_chat_model_that_is_down_is_a_backend_error(runnable: Any) -> None:
    with pytest.raises(BackendError, match="status 500"):
        run(runnable, ASK, full_kit([{"error": {"status": 500}}]))


def test_a_chat_model_that_fails_after_the_answer_loses_nothing(runnable: Any) -> None:
    """There is an outcome, or a BackendError when nothing can be said; nothing else gets out."""
    broken: Rules = [*CHAT[:2], {"error": {"status": 500}}]
    try:
        outcome = run(runnable, ASK, full_kit(broken))
    except BackendError:
        assert runnable.name == "selfcheckgpt"  # without a sample there is nothing to compare with
    else:
        assert outcome.answer == outcome.final_answer == ANSWER


def test_nonsense_from_the_model_loses_nothing(runnable: Any) -> None:
    """Everything after the answer is a reply in no form that was asked for."""
    for nonsense in ("", "???", "{" * 50, "</answer>", "I'm sorry, but I can't help with that."):
        outcome = run(runnable, GIVEN, full_kit([{"stage": "sample", "reply": "Rome."}, {"reply": nonsense}]))
        assert outcome.answer == ANSWER


def test_a_verifier_that_is_down_loses_nothing(runnable: Any) -> None:
    outcome = run(runnable, ASK, full_kit(nli=[{"error": {"status": 500}}]))
    assert outcome.answer == ANSWER


def test_a_refusal_is_not_flagged(runnable: Any) -> None:
    refusal = "I'm sorry, but I can't help with that."
    kit = full_kit([{"stage": "generate", "reply": refusal}, {"stage": "answer", "reply": refusal}, *CHAT[2:]])
    outcome = run(runnable, ASK, kit)
    assert not outcome.flagged
    assert all(v.verdict is not Verdict.CONTRADICTED for v in outcome.verdicts)


def test_an_empty_answer_is_an_answer(runnable: Any) -> None:
    kit = full_kit([{"stage": "generate", "reply": ""}, {"stage": "answer", "reply": ""}, *CHAT[2:]])
    outcome = run(runnable, ASK, kit)
    assert (outcome.answer, outcome.flagged) == ("", None)


@pytest.mark.parametrize("task", [Task(), Task(question=" "), Task(question=QUESTION, answer=" ")])
def test_a_task_with_nothing_in_it_is_an_input_error(runnable: Any, task: Task) -> None:
    with pytest.raises(InputError, match=r"question|answer"):
        run(runnable, task, full_kit())


def test_without_what_it_needs_it_says_so(runnable: Any) -> None:
    lacking = {
        "question": (dataclasses.replace(GIVEN, question=None), full_kit()),
        "chat": (GIVEN, dataclasses.replace(full_kit(), chat=None)),
        "retriever": (GIVEN, dataclasses.replace(full_kit(), retriever=None)),
    }
    for need in runnable.needs:
        task, kit = lacking[need]
        with pytest.raises(InputError, match=f"needs a {need}"):
            run(runnable, task, kit)


def test_the_models_are_not_closed(runnable: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = full_kit()
    closed: list[str] = []

    async def close(self: Any) -> None:
        closed.append(self.name)

    for model in (kit.chat, kit.entailer, kit.retriever):
        monkeypatch.setattr(type(model), "aclose", close)
    run(runnable, ASK, kit)
    assert closed == []

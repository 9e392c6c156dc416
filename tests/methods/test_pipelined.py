"""`base`, `nli-fixed` and `corrigenda`: the answer as it comes, and the pipeline under each policy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.method_kit import QUESTION, contexts, do, kit_of, pairs_of, requests_of, said
from tests.scripted import ANSWER, ASKED, CONTRADICT, NEUTRAL, REWRITE, C, F, S, U

from corrigenda.errors import BackendError, ConfigError, InputError
from corrigenda.methods.protocol import Task
from corrigenda.types import Span, Status, Verdict

ASK = Task(question=QUESTION)
GIVEN = Task(answer=ANSWER, contexts=contexts("Rome stands on seven hills."))


def test_base_returns_one_generation_and_says_nothing_of_it() -> None:
    kit = kit_of(ASKED)
    outcome = do("base", ASK, kit)
    assert (outcome.answer, outcome.final_answer) == (ANSWER, ANSWER)
    assert (outcome.verdicts, outcome.flagged, outcome.score, outcome.report) == ((), None, None, None)
    assert [r.stage for r in requests_of(kit)] == ["generate"]


def test_base_returns_a_given_answer_without_a_call() -> None:
    assert do("base", Task(question=QUESTION, answer="Seven."), kit_of(None)).final_answer == "Seven."


def test_all_methods_ask_for_the_same_answer() -> None:
    """To the letter, so that what one has asked for can be reused by the others."""
    requests = []
    for method in ("base", "corrigenda", "nli-fixed", "self-check", "selfcheckgpt", "self-consistency", "self-refine"):
        kit = kit_of([*ASKED, {"reply": "CORRECT"}], temperature=0.3, top_p=0.8, max_answer_tokens=99, seed=7)
        do(method, ASK, kit)
        requests += requests_of(kit, "generate")
    assert len(requests) == 7
    assert all(request == requests[0] for request in requests)
    assert (requests[0].temperature, requests[0].top_p, requests[0].max_tokens, requests[0].seed) == (0.3, 0.8, 99, 7)


def test_a_cut_off_and_an_empty_answer_are_told() -> None:
    cut = do("base", ASK, kit_of([{"reply": "Rome has", "finish_reason": "length"}]))
    assert cut.warnings == ("the answer was cut off at its cap of 256 tokens",)
    empty = do("base", ASK, kit_of([{"reply": " "}]))
    assert (empty.answer, empty.warnings) == (" ", ("the model gave an empty answer",))
    refused = do("base", ASK, kit_of([{"reply": {"content": None, "refusal": "No."}}]))
    assert refused.warnings == ("the model refused to answer",)


@pytest.mark.parametrize("method", ["nli-fixed", "corrigenda", "corrigenda:fixed", "corrigenda:bounded"])
def test_the_pipeline_flags_and_corrects(method: str) -> None:
    kit = kit_of(ASKED)
    outcome = do(method, ASK, kit)
    assert said(outcome) == [("Rome has 5 hills.", C), ("It is in Italy.", S)]
    assert [(v.score, v.signed) for v in outcome.verdicts] == [(0.98, -0.98), (0.01, 0.98)]
    assert [(v.span, v.sentence) for v in outcome.verdicts] == [(Span(0, 17), 0), (Span(18, 33), 1)]
    assert (outcome.flagged, outcome.score) == (True, 0.98)
    assert (outcome.answer, outcome.final_answer) == (ANSWER, "Rome has seven hills. It is in Italy.")
    assert outcome.report is not None
    assert outcome.report.status is Status.CORRECTED
    assert [r.stage for r in requests_of(kit)] == ["generate", "recall", "correct"]


def test_the_published_rule_decides_under_its_name() -> None:
    outcome = do("corrigenda:paper", ASK, kit_of(ASKED))  # signed scores of -0.98 and 0.98: µ = 0, σ = 0.98
    assert outcome.report is not None
    assert outcome.report.decision is not None
    assert outcome.report.decision.policy == "paper"
    assert outcome.report.decision.tau == pytest.approx(0.7 * 0.98)


@pytest.mark.parametrize(
    ("scores", "options", "expected"),
    [
        ([0.1, 0.15, 0.75], {}, C),
        ([0.1, 0.25, 0.65], {}, U),
        ([0.1, 0.25, 0.65], {"threshold": 0.6}, C),
        ([0.72, 0.14, 0.14], {}, S),
    ],
)
def test_the_fixed_threshold(scores: list[float], options: Any, expected: Verdict) -> None:
    task = Task(answer="Rome has 5 hills.", contexts=contexts("Rome stands on seven hills."), correct=False)
    kit = kit_of(None, [{"scores": scores}], policy_options={"threshold": 0.1})
    assert said(do("nli-fixed", task, kit, **options)) == [("Rome has 5 hills.", expected)]


def test_the_kits_threshold_belongs_to_the_kits_policy() -> None:
    task = Task(answer="Rome has 5 hills.", contexts=contexts("Rome stands on seven hills."), correct=False)

    def threshold(method: str, **settings: Any) -> float | None:
        kit = kit_of(None, policy_options={"threshold": 0.93, "k": 0.5, "floor": 0.6}, **settings)
        report = do(method, task, kit).report
        assert report is not None
        assert report.decision is not None
        assert report.decision.k == 0.5
        return report.decision.threshold if report.decision.threshold is not None else report.decision.floor

    assert threshold("corrigenda", policy="conformal") == 0.93
    assert threshold("corrigenda:fixed", policy="conformal") == 0.7
    assert threshold("corrigenda:fixed", policy="fixed") == 0.93
    assert threshold("corrigenda", policy="bounded") == 0.6


def test_an_option_that_does_not_fit_the_kits_policy_is_an_error() -> None:
    with pytest.raises(ConfigError, match="policy 'paper' has no option 'floor'; it has k"):
        do("corrigenda", GIVEN, kit_of(None, policy="paper"), floor=0.2)


def test_without_correction_only_the_verdicts_are_made() -> None:
    kit = kit_of(ASKED)
    outcome = do("corrigenda", Task(question=QUESTION, correct=False), kit)
    assert said(outcome) == [("Rome has 5 hills.", C), ("It is in Italy.", S)]
    assert outcome.final_answer == ANSWER
    assert outcome.report is not None
    assert outcome.report.edits == ()
    assert [r.stage for r in requests_of(kit)] == ["generate", "recall"]


def test_a_given_answer_is_checked_against_the_contexts_without_a_chat_model() -> None:
    kit = kit_of(None)
    outcome = do("corrigenda", GIVEN, kit)
    assert said(outcome) == [("Rome has 5 hills.", C), ("It is in Italy.", S)]
    assert outcome.final_answer == ANSWER
    assert {premise for premise, _ in pairs_of(kit)} == {"Rome stands on seven hills."}


def test_a_question_with_contexts_is_answered_and_checked_against_them() -> None:
    kit = kit_of(ASKED)
    outcome = do("corrigenda", Task(question=QUESTION, contexts=contexts("Rome stands on seven hills.")), kit)
    assert (outcome.answer, outcome.final_answer) == (ANSWER, "Rome has seven hills. It is in Italy.")
    assert [r.stage for r in requests_of(kit)] == ["generate", "correct"]


def test_a_whole_claim_is_verified_word_for_word() -> None:
    """One claim, whatever is in it: not split, not tidied."""
    claim = " Rome has *5 hills* and lies on the Tiber; it is nice. "
    kit = kit_of([REWRITE], [{"scores": CONTRADICT}])
    outcome = do("corrigenda", Task(answer=claim, contexts=contexts("Rome."), whole=True, correct=False), kit)
    assert said(outcome) == [(claim.strip(), C)]
    assert outcome.verdicts[0].span == Span(1, len(claim) - 1)
    assert pairs_of(kit) == [("Rome.", claim.strip())]
    assert outcome.report is not None
    assert outcome.report.models["decomposer"] == "WholeClaim"
    assert requests_of(kit) == []


def test_a_whole_claim_can_be_corrected() -> None:
    kit = kit_of([REWRITE])
    task = Task(answer="Rome has 5 hills.", contexts=contexts("Rome stands on seven hills."), whole=True)
    assert do("nli-fixed", task, kit).final_answer == "Rome has seven hills."


def test_a_whole_claim_must_be_given() -> None:
    for method in ("corrigenda", "self-check", "base"):
        with pytest.raises(InputError, match="must be given as the task's answer"):
            do(method, Task(question=QUESTION, whole=True), kit_of(ASKED))


def test_the_score_is_that_of_the_window_that_decides() -> None:
    """PC-17: k windows of the reference, k premises for the claim, and the most confident of them decides."""
    nli = {
        "max_tokens": 16,
        "rules": [{"premise_contains": "seven", "scores": CONTRADICT}, {"scores": [0.05, 0.9, 0.05]}],
    }
    long = "The Tiber is a river. It runs through Rome. Rome stands on seven hills. It lies in Italy. It is old."
    kit = kit_of(None, nli)
    outcome = do("corrigenda", Task(answer="Rome has 5 hills.", contexts=contexts(long)), kit)
    assert outcome.score == 0.98
    pairs = pairs_of(kit)
    assert len({premise for premise, _ in pairs}) == len(pairs) > 1
    assert {hypothesis for _, hypothesis in pairs} == {"Rome has 5 hills."}


def test_a_failing_recall_fails_the_claims_and_keeps_the_answer() -> None:
    outcome = do("corrigenda", ASK, kit_of([ASKED[0], {"stage": "recall", "error": {"status": 500}}]))
    assert [v.verdict for v in outcome.verdicts] == [F, F]
    assert (outcome.final_answer, outcome.flagged, outcome.score) == (ANSWER, None, None)


def test_a_failing_answer_is_an_error_for_all() -> None:
    for method in ("base", "corrigenda", "nli-fixed", "self-check", "selfcheckgpt", "self-consistency", "self-refine"):
        with pytest.raises(BackendError, match="status 500"):
            do(method, ASK, kit_of([{"stage": "generate", "error": {"status": 500}}, *ASKED[1:]]))


def test_an_empty_answer_says_nothing() -> None:
    for contexts_ in (None, contexts("Rome.")):
        kit = kit_of([{"stage": "generate", "reply": " "}, *ASKED[1:]])
        outcome = do("corrigenda", Task(question=QUESTION, contexts=contexts_), kit)
        assert (outcome.verdicts, outcome.flagged, outcome.final_answer.strip()) == ((), None, "")


def test_a_refusal_is_not_checkable_and_not_flagged() -> None:
    kit = kit_of([{"stage": "generate", "reply": "I'm sorry, but I can't help with that."}, *ASKED[1:]])
    outcome = do("corrigenda", ASK, kit)
    assert [v.verdict for v in outcome.verdicts] == [Verdict.NOT_CHECKABLE]
    assert outcome.flagged is False


def test_neutral_claims_stay_unverified_and_are_not_flagged() -> None:
    outcome = do("corrigenda", GIVEN, kit_of(None, [{"scores": NEUTRAL}]))
    assert ([v.verdict for v in outcome.verdicts], outcome.flagged, outcome.score) == ([U, U], False, 0.01)


def test_what_is_missing_is_an_input_error() -> None:
    with pytest.raises(InputError, match="needs a chat model"):
        do("base", ASK, kit_of(None))
    with pytest.raises(InputError, match="asking needs a chat model"):
        do("corrigenda", ASK, kit_of(None))
    with pytest.raises(InputError, match="needs a question; this task has none"):
        do("corrigenda", Task(), kit_of(ASKED))
    with pytest.raises(InputError, match="the answer is empty"):
        do("base", Task(answer=" "), kit_of(ASKED))

"""`selfcheckgpt`: its formula by hand, and what becomes of samples that do not come."""

from __future__ import annotations

from typing import Any

import pytest
from tests.method_kit import QUESTION, contexts, do, kit_of, pairs_of, requests_of, said
from tests.scripted import CONTRADICT, ENTAIL, C, F, Rules, S, U

from corrigenda.errors import BackendError, InputError
from corrigenda.methods.protocol import Task
from corrigenda.methods.selfcheckgpt import NO_SAMPLE, contradiction, mean
from corrigenda.types import Entailment, Span, Verdict

ANSWER = "Rome has 5 hills. It is in Italy."
SAMPLES = ("Rome has seven hills.", "There are 7 hills.", "Rome has 5 hills.")


def chat_of(*samples: Any, answer: str = ANSWER) -> Rules:
    """Return the rules of a chat model that gives these samples (or errors) in order."""
    rules = [{"stage": "sample", "times": 1, **(s if isinstance(s, dict) else {"reply": s})} for s in samples]
    return [{"stage": "generate", "reply": answer}, *rules]


TASK = Task(question=QUESTION)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((0.2, 0.4, 0.4), 2 / 3),  # 0.4 / (0.2 + 0.4): neutral plays no part
        ((0.2, 0.8, 0.0), 0.0),
        ((0.0, 0.99, 0.01), 1.0),
        ((0.25, 0.5, 0.25), 0.5),
        ((0.0, 1.0, 0.0), 0.5),  # nothing is known of the two logits
    ],
)
def test_the_softmax_over_two_classes(scores: tuple[float, float, float], expected: float) -> None:
    entailment, neutral, contra = scores
    found = contradiction(Entailment(entailment=entailment, neutral=neutral, contradiction=contra))
    assert found == pytest.approx(expected)


def test_the_scores_by_hand() -> None:
    """Two sentences, two samples: (2/3 + 0.9)/2 = 0.7833 and (0.1 + 0)/2 = 0.05; the answer (0.7833 + 0.05)/2."""
    nli = [
        {"premise_contains": "seven", "hypothesis_contains": "5 hills", "scores": [0.2, 0.4, 0.4]},
        {"premise_contains": "7", "hypothesis_contains": "5 hills", "scores": [0.05, 0.5, 0.45]},
        {"premise_contains": "seven", "hypothesis_contains": "Italy", "scores": [0.72, 0.2, 0.08]},
        {"premise_contains": "7", "hypothesis_contains": "Italy", "scores": [0.5, 0.5, 0.0]},
    ]
    kit = kit_of(chat_of(*SAMPLES[:2]), nli)
    outcome = do("selfcheckgpt", TASK, kit, n=2)
    assert said(outcome) == [("Rome has 5 hills.", C), ("It is in Italy.", S)]
    assert [v.score for v in outcome.verdicts] == [pytest.approx(0.78333333), pytest.approx(0.05)]
    assert [(v.span, v.sentence) for v in outcome.verdicts] == [(Span(0, 17), 0), (Span(18, 33), 1)]
    assert outcome.score == pytest.approx(0.41666667)
    assert (outcome.flagged, outcome.final_answer, outcome.warnings) == (True, ANSWER, ())
    assert outcome.details["samples"] == list(SAMPLES[:2])
    assert outcome.details["contradiction"][0] == [pytest.approx(2 / 3), pytest.approx(0.9)]
    assert [r.stage for r in requests_of(kit)] == ["generate", "sample", "sample"]


def test_the_sample_is_the_premise_and_the_sentence_the_hypothesis() -> None:
    """PC-17. The released class puts the sentence first; the pair's parts have names here."""
    kit = kit_of(chat_of(*SAMPLES[:2]))
    do("selfcheckgpt", TASK, kit, n=2)
    assert pairs_of(kit) == [
        ("Rome has seven hills.", "Rome has 5 hills."),
        ("Rome has seven hills.", "It is in Italy."),
        ("There are 7 hills.", "Rome has 5 hills."),
        ("There are 7 hills.", "It is in Italy."),
    ]


def test_the_shared_case_of_premise_and_hypothesis(shared_cases: dict[str, dict[str, Any]]) -> None:
    case = shared_cases["PC-17"]["input"]
    kit = kit_of(
        chat_of(case["reference"], case["reference"], answer=case["answer"]),
        [
            {"premise_contains": "both live in Turin", "hypothesis_contains": case["answer"], "scores": ENTAIL},
            {"scores": [0.01, 0.98, 0.01]},
        ],
    )
    outcome = do("selfcheckgpt", Task(question="Where does Lena live?"), kit, n=2)
    assert pairs_of(kit) == [(case["reference"], case["answer"])] * 2
    assert said(outcome) == [(case["answer"], S)]
    assert outcome.score == pytest.approx(0.01 / 0.99)


def test_a_long_sample_is_windowed_not_cut() -> None:
    """The contradiction stands in the last sentence of a sample that the verifier cannot read at once."""
    long = "Rome is old. The Tiber runs through it. It lies in Italy. Many people visit it. Rome has seven hills."
    nli = {
        "max_tokens": 16,
        "rules": [{"premise_contains": "seven", "scores": CONTRADICT}, {"scores": [0.05, 0.9, 0.05]}],
    }
    kit = kit_of(chat_of(long, answer="Rome has 5 hills."), nli)
    outcome = do("selfcheckgpt", TASK, kit, n=1)
    assert outcome.score == pytest.approx(0.98 / 0.99)
    assert len(pairs_of(kit)) > 1
    assert all(long.find(premise) >= 0 for premise, _ in pairs_of(kit))
    assert {hypothesis for _, hypothesis in pairs_of(kit)} == {"Rome has 5 hills."}


def test_the_samples_are_drawn_as_the_paper_draws_them() -> None:
    kit = kit_of(chat_of(*SAMPLES), seed=5, temperature=0.7)
    do("selfcheckgpt", TASK, kit, n=3)
    answer, *samples = requests_of(kit)
    assert (answer.temperature, answer.top_p, answer.seed) == (0.7, 0.9, 5)
    assert [(r.temperature, r.top_p, r.seed) for r in samples] == [(1, 1, 1005), (1, 1, 2005), (1, 1, 3005)]
    assert {r.messages for r in samples} == {answer.messages}
    kit = kit_of(chat_of(*SAMPLES), seed=None)
    do("selfcheckgpt", TASK, kit, n=3, temperature=0.4)
    assert [(r.temperature, r.seed) for r in requests_of(kit, "sample")] == [(0.4, None)] * 3


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, C), (0.9, C), (0.99, S), (1, S)])
def test_a_sentence_is_flagged_above_the_threshold(threshold: float, expected: Verdict) -> None:
    kit = kit_of(chat_of("Seven.", answer="Rome has 5 hills."), [{"scores": [0.0196, 0.0004, 0.98]}])
    outcome = do("selfcheckgpt", TASK, kit, n=1, threshold=threshold)
    assert said(outcome) == [("Rome has 5 hills.", expected)]
    assert outcome.flagged is (expected is C)


def test_samples_that_fail_or_say_nothing_are_left_out() -> None:
    samples = [{"error": {"status": 500}}, "", "I don't know.", "I'm sorry, but I can't help with that.", SAMPLES[0]]
    kit = kit_of(chat_of(*samples, answer="Rome has 5 hills."))
    outcome = do("selfcheckgpt", TASK, kit)
    assert pairs_of(kit) == [("Rome has seven hills.", "Rome has 5 hills.")]
    assert outcome.details["samples"] == ["Rome has seven hills."]
    first, second, third = outcome.warnings
    assert first.startswith("sample 1 of 5 is missing: scripted: rules[1]: status 500")
    assert second == "sample 2 of 5 is missing: the model gave an empty answer (finish reason 'stop')"
    assert third == "2 of 5 samples say that they do not know, or refuse; they were left out"


def test_without_any_sample_nothing_is_said() -> None:
    kit = kit_of(chat_of("I don't know.", {"reply": {"content": None, "refusal": "No."}}))
    outcome = do("selfcheckgpt", TASK, kit, n=2)
    assert [(v.verdict, v.score, v.reason) for v in outcome.verdicts] == [(U, None, NO_SAMPLE)] * 2
    assert (outcome.flagged, outcome.score) == (False, None)
    assert outcome.warnings[0] == "sample 2 of 2 is missing: the model refused to answer"


def test_when_all_samples_fail_the_method_fails() -> None:
    with pytest.raises(BackendError, match="status 503"):
        do("selfcheckgpt", TASK, kit_of(chat_of({"error": {"status": 503}}, {"error": {"status": 500}})), n=2)
    with pytest.raises(BackendError, match="the model gave an empty answer"):
        do("selfcheckgpt", TASK, kit_of(chat_of("", " ")), n=2)


def test_a_verifier_that_fails_fails_its_sentence_alone() -> None:
    nli = [
        {"hypothesis_contains": "Italy", "error": "cannot be scored"},
        {"premise_contains": "There", "hypothesis_contains": "5 hills", "error": "not this one"},
        {"scores": CONTRADICT},
    ]
    outcome = do("selfcheckgpt", TASK, kit_of(chat_of(*SAMPLES[:2]), nli), n=2)
    assert [(v.verdict, v.reason) for v in outcome.verdicts] == [
        (C, "1 of 2 samples could not be scored: not this one"),
        (F, "cannot be scored"),
    ]
    assert outcome.score == pytest.approx(0.98 / 0.99)
    broken = do("selfcheckgpt", TASK, kit_of(chat_of(*SAMPLES[:2]), [{"error": {"status": 500}}]), n=2)
    assert ([v.verdict for v in broken.verdicts], broken.flagged, broken.score) == ([F, F], None, None)


def test_a_given_answer_takes_the_place_of_the_first() -> None:
    kit = kit_of(chat_of(*SAMPLES[:2]))
    outcome = do("selfcheckgpt", Task(question=QUESTION, answer="Rome has 5 hills.", contexts=contexts("x")), kit, n=2)
    assert (said(outcome), outcome.final_answer) == ([("Rome has 5 hills.", C)], "Rome has 5 hills.")
    assert [r.stage for r in requests_of(kit)] == ["sample", "sample"]
    assert outcome.warnings == ("selfcheckgpt compares with samples alone; the contexts were not looked at",)


def test_a_whole_claim_is_one_unit() -> None:
    kit = kit_of(chat_of("Rome has seven hills."))
    outcome = do("selfcheckgpt", Task(question=QUESTION, answer=f" {ANSWER}", whole=True), kit, n=1)
    assert said(outcome) == [(ANSWER, C)]
    assert (outcome.verdicts[0].span, outcome.verdicts[0].sentence) == (Span(1, 1 + len(ANSWER)), None)


@pytest.mark.parametrize("answer", ["I don't know.", "I'm sorry, but I can't help with that."])
def test_an_answer_that_states_nothing_is_not_checkable(answer: str) -> None:
    kit = kit_of(chat_of(answer=answer))
    outcome = do("selfcheckgpt", TASK, kit)
    assert (said(outcome), outcome.flagged) == ([(answer, Verdict.NOT_CHECKABLE)], False)
    assert [r.stage for r in requests_of(kit)] == ["generate"]


def test_it_needs_a_question_and_a_chat_model() -> None:
    with pytest.raises(InputError, match="'selfcheckgpt' needs a question; this task has none"):
        do("selfcheckgpt", Task(answer=ANSWER), kit_of(chat_of()))
    with pytest.raises(InputError, match="'selfcheckgpt' needs a chat model"):
        do("selfcheckgpt", Task(question=QUESTION, answer=ANSWER), kit_of(None))


def test_markdown_is_not_put_to_the_verifier() -> None:
    kit = kit_of(chat_of("Seven.", answer="Rome has **5 hills** [1]."))
    do("selfcheckgpt", TASK, kit, n=1)
    assert pairs_of(kit) == [("Seven.", "Rome has 5 hills.")]


def test_the_mean_of_nothing_is_none() -> None:
    assert (mean([]), mean([0.25, 0.75])) == (None, 0.5)

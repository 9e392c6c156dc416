"""`cove`: plan, verify in isolation, compare, revise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.method_kit import QUESTION, contexts, do, kit_of, requests_of, said
from tests.scripted import C, F, N, Rules, S, U

from corrigenda.errors import BackendError, ConfigError, InputError, ParseError
from corrigenda.methods.cove import NOT_KNOWN
from corrigenda.methods.cove_replies import label_of, plan_of
from corrigenda.methods.protocol import Task
from corrigenda.sentences import split_sentences
from corrigenda.types import Span

ANSWER = "Rome has 5 hills. It is in Italy."
TASK = Task(question=QUESTION, answer=ANSWER)
HOW_MANY, WHERE = "On how many hills does Rome stand?", "In which country is Rome?"


def plan(*questions: tuple[int, str]) -> str:
    return json.dumps({"questions": [{"sentence": number, "question": text} for number, text in questions]})


RULES: Rules = [
    {"stage": "generate", "reply": ANSWER},
    {"stage": "plan", "reply": plan((1, HOW_MANY), (2, WHERE))},
    {"stage": "verify", "contains": HOW_MANY, "reply": "On seven."},
    {"stage": "verify", "contains": WHERE, "reply": "In Italy."},
    {"stage": "compare", "contains": HOW_MANY, "reply": "INCONSISTENT"},
    {"stage": "compare", "reply": "CONSISTENT"},
    {"stage": "revise", "reply": "Rome has seven hills. It is in Italy."},
]


def rules(*first: dict[str, Any]) -> Rules:
    """The rules above, with others before them."""
    return [*first, *RULES]


# Top to bottom ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [TASK, Task(question=QUESTION)])
def test_it_plans_verifies_compares_and_revises(task: Task) -> None:
    its = kit_of(RULES)
    outcome = do("cove", task, its)
    assert said(outcome) == [("Rome has 5 hills.", C), ("It is in Italy.", S)]
    assert [(v.score, v.span, v.sentence) for v in outcome.verdicts] == [
        (1.0, Span(0, 17), 0),
        (0.0, Span(18, 33), 1),
    ]
    assert outcome.verdicts[0].reason == f"{HOW_MANY} On seven.: INCONSISTENT"
    assert (outcome.flagged, outcome.score) == (True, 0.5)
    assert (outcome.answer, outcome.final_answer) == (ANSWER, "Rome has seven hills. It is in Italy.")
    stages = [r.stage for r in requests_of(its)]
    assert sorted(stages) == sorted(
        [*(["generate"] if task.answer is None else []), "plan", "verify", "verify", "compare", "compare", "revise"]
    )
    assert outcome.details["checks"][0] == {
        "sentence": 0,
        "question": HOW_MANY,
        "answer": "On seven.",
        "label": "INCONSISTENT",
        "failure": None,
    }


def test_no_verification_request_holds_anything_of_the_answer() -> None:
    """Rare words, so that none of them can be in the wording of the request."""
    secret = "Zyxomma petiolatum is a vellichor. Quixotry came in 48151623."
    question = "What is a dragonfly?"
    chat: Rules = [
        {"stage": "plan", "reply": plan((1, "What is that insect?"), (2, "When did it come?"))},
        {"stage": "verify", "reply": "Something else."},
        {"stage": "compare", "reply": "INCONSISTENT"},
        {"stage": "revise", "reply": "Something else."},
    ]
    its = kit_of(chat)
    do("cove", Task(question=question, answer=secret), its)
    verified = requests_of(its, "verify")
    assert [len(r.messages) for r in verified] == [2, 2]
    assert [r.messages[1].content for r in verified] == [
        "<question>\nWhat is that insect?\n</question>",
        "<question>\nWhen did it come?\n</question>",
    ]
    sent = " ".join(m.content for r in verified for m in r.messages).casefold()
    assert not [word for word in secret.casefold().replace(".", "").split() if len(word) > 4 and word in sent]


def test_nothing_is_revised_when_all_is_consistent() -> None:
    its = kit_of(rules({"stage": "compare", "reply": "CONSISTENT"}))
    outcome = do("cove", TASK, its)
    assert [v.verdict for v in outcome.verdicts] == [S, S]
    assert (outcome.flagged, outcome.score, outcome.final_answer) == (False, 0.0, ANSWER)
    assert requests_of(its, "revise") == []


def test_partially_consistent_is_flagged_with_half_the_score() -> None:
    outcome = do("cove", TASK, kit_of(rules({"stage": "compare", "contains": HOW_MANY, "reply": "Partially."})))
    assert [(v.verdict, v.score) for v in outcome.verdicts] == [(C, 0.5), (S, 0.0)]
    assert (outcome.flagged, outcome.score) == (True, 0.25)
    assert outcome.final_answer == "Rome has seven hills. It is in Italy."


def test_nothing_is_revised_when_only_the_verdicts_matter() -> None:
    its = kit_of(RULES)
    outcome = do("cove", Task(question=QUESTION, answer=ANSWER, correct=False), its)
    assert (outcome.flagged, outcome.final_answer) == (True, ANSWER)
    assert requests_of(its, "revise") == []


def test_the_revision_sees_the_inconsistent_checks_alone() -> None:
    its = kit_of(RULES)
    do("cove", TASK, its)
    (request,) = requests_of(its, "revise")
    assert request.messages[-1].content == (
        f"<question>\n{QUESTION}\n</question>\n<answer>\n{ANSWER}\n</answer>\n"
        f"<check>\n{HOW_MANY}\nOn seven.\n</check>\n\nCorrected answer:"
    )


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"reply": ""}, "the model gave no new answer"),
        ({"reply": "I don't know."}, "the model refused, or said that it does not know"),
        ({"reply": "Rome has", "finish_reason": "length"}, "the new answer was cut off"),
        ({"error": {"status": 500, "body": "broken"}}, "broken"),
    ],
)
def test_a_revision_that_cannot_be_used_leaves_the_answer(reply: dict[str, Any], why: str) -> None:
    outcome = do("cove", TASK, kit_of(rules({"stage": "revise", **reply})))
    assert (outcome.flagged, outcome.final_answer) == (True, ANSWER)
    assert len(outcome.warnings) == 1
    assert outcome.warnings[0].startswith("revise: the answer was not revised: ")
    assert why in outcome.warnings[0]


# Checks -------------------------------------------------------------------------------------------------------------


def test_a_question_that_the_model_cannot_answer_leaves_its_sentence_unverified() -> None:
    its = kit_of(rules({"stage": "verify", "contains": HOW_MANY, "reply": "I don't know."}))
    outcome = do("cove", TASK, its)
    assert [(v.verdict, v.score) for v in outcome.verdicts] == [(U, None), (S, 0.0)]
    assert outcome.verdicts[0].reason == f"{NOT_KNOWN}: {HOW_MANY}"
    assert (outcome.flagged, outcome.score) == (False, 0.0)
    assert len(requests_of(its, "compare")) == 1


def test_a_check_that_fails_is_a_verdict() -> None:
    broken = {"error": {"status": 500, "body": "broken"}}
    outcome = do("cove", TASK, kit_of(rules({"stage": "verify", "contains": HOW_MANY, **broken})))
    assert [v.verdict for v in outcome.verdicts] == [F, S]
    assert "broken" in str(outcome.verdicts[0].reason)
    outcome = do("cove", TASK, kit_of(rules({"stage": "compare", "reply": "Hm."})))
    assert [v.verdict for v in outcome.verdicts] == [F, F]
    assert (outcome.flagged, outcome.score) == (None, None)
    assert "does not begin with CONSISTENT, INCONSISTENT or PARTIALLY: 'Hm.'" in str(outcome.verdicts[0].reason)


def test_a_comparison_that_cannot_be_read_is_asked_for_again() -> None:
    again = {"stage": "compare", "contains": "and nothing else.", "reply": "consistent"}
    its = kit_of(rules(again, {"stage": "compare", "reply": "Well, consistent."}))
    assert [v.verdict for v in do("cove", TASK, its).verdicts] == [S, S]
    assert len(requests_of(its, "compare")) == 4


def test_with_contexts_the_questions_are_answered_by_them() -> None:
    its = kit_of(RULES)
    do("cove", Task(question=QUESTION, answer=ANSWER, contexts=contexts("Rome stands on seven hills.")), its)
    request = next(r for r in requests_of(its, "verify") if HOW_MANY in r.messages[1].content)
    assert request.messages[1].content == (
        f"<context>\nRome stands on seven hills.\n</context>\n<question>\n{HOW_MANY}\n</question>"
    )
    assert "by the context alone" in request.messages[0].content


# The plan -----------------------------------------------------------------------------------------------------------


def test_the_plan_is_asked_for_by_numbered_sentences() -> None:
    its = kit_of(RULES)
    do("cove", TASK, its, questions=2)
    (request,) = requests_of(its, "plan")
    assert request.messages[1].content == (
        f"<question>\n{QUESTION}\n</question>\n<answer>\n1. Rome has 5 hills.\n2. It is in Italy.\n</answer>\n\n"
        'At most 2 questions, as {"questions": [{"sentence": 1, "question": "..."}]}.'
    )
    assert request.json_schema is not None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (plan((2, WHERE), (1, HOW_MANY), (2, WHERE.upper())), [(1, WHERE), (0, HOW_MANY)]),
        (json.dumps({"questions": [HOW_MANY, WHERE]}), [(None, HOW_MANY), (None, WHERE)]),
        (f"Sure:\n1. {HOW_MANY}\n2) {WHERE}\nI hope this helps.", [(None, HOW_MANY), (None, WHERE)]),
        (f"- {HOW_MANY}", [(None, HOW_MANY)]),
        (plan((7, HOW_MANY)), [(None, HOW_MANY)]),
        (plan((1, "Is it true that Rome has 5 hills?"), (1, ""), (1, "?" * 301), (2, WHERE)), [(1, WHERE)]),
    ],
)
def test_plans_that_can_be_read(reply: str, expected: list[tuple[int | None, str]]) -> None:
    found = plan_of(reply, split_sentences(ANSWER, "en"), 6)
    assert [(None if q.sentence is None else q.sentence.index, q.text) for q in found] == expected


@pytest.mark.parametrize("reply", ["", "What?", '{"questions": []}', '{"questions": "x"}', "{}", '{"questions": [1]}'])
def test_plans_that_cannot_be_read(reply: str) -> None:
    with pytest.raises(ParseError, match=r"no usable question|holds no JSON|is empty"):
        plan_of(reply, split_sentences(ANSWER, "en"), 6)


def test_the_number_of_questions_is_bounded() -> None:
    outcome = do("cove", TASK, kit_of(RULES), questions=1)
    assert [check["question"] for check in outcome.details["checks"]] == [HOW_MANY]


def test_a_question_of_no_sentence_is_compared_with_the_whole_answer() -> None:
    its = kit_of(rules({"stage": "plan", "reply": f"1. {HOW_MANY}"}))
    outcome = do("cove", TASK, its)
    assert [(v.text, v.verdict, v.sentence) for v in outcome.verdicts] == [(ANSWER, C, None)]


def test_a_plan_that_cannot_be_read_is_asked_for_again_and_then_has_failed() -> None:
    its = kit_of(rules({"stage": "plan", "reply": "No."}))
    outcome = do("cove", TASK, its)
    assert [(v.text, v.verdict) for v in outcome.verdicts] == [(ANSWER, F)]
    assert (outcome.flagged, outcome.final_answer) == (None, ANSWER)
    assert outcome.warnings[0].startswith("plan: the reply holds no JSON object: 'No.'")
    assert [len(r.messages) for r in requests_of(its)] == [2, 4]


def test_a_long_answer_is_planned_for_as_far_as_there_is_room() -> None:
    long = " ".join(f"Hill {i} of Rome is {'very ' * 40}old." for i in range(60))
    its = kit_of(rules({"stage": "compare", "reply": "CONSISTENT"}))
    outcome = do("cove", Task(question=QUESTION, answer=long), its)
    assert outcome.warnings == ("cove: only the first 35 of 60 sentences were planned for",)


# Tasks --------------------------------------------------------------------------------------------------------------


def test_a_claim_that_is_given_as_such_is_one_sentence() -> None:
    outcome = do("cove", Task(answer=ANSWER, whole=True, correct=False), kit_of(RULES))
    assert [(v.text, v.verdict, v.sentence) for v in outcome.verdicts] == [(ANSWER, C, None), (ANSWER, S, None)]


def test_an_abstention_is_not_planned_for() -> None:
    its = kit_of(RULES)
    outcome = do("cove", Task(question=QUESTION, answer="I don't know."), its)
    assert ([v.verdict for v in outcome.verdicts], outcome.flagged) == ([N], False)
    assert requests_of(its) == []


def test_what_it_cannot_do_without() -> None:
    with pytest.raises(InputError, match="'cove' needs a chat model"):
        do("cove", TASK, kit_of(None))
    with pytest.raises(BackendError, match="broken"):
        do("cove", Task(question=QUESTION), kit_of([{"error": {"status": 500, "body": "broken"}}]))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("CONSISTENT", "CONSISTENT"),
        ("**Inconsistent.** The years differ.", "INCONSISTENT"),
        ("PARTIALLY CONSISTENT", "PARTIALLY"),
        ("partially-inconsistent: the year", "PARTIALLY"),
    ],
)
def test_labels_that_can_be_read(reply: str, expected: str) -> None:
    assert label_of(reply) == expected


@pytest.mark.parametrize("reply", ["", "Not consistent", "consistent or inconsistent", "It is CONSISTENT"])
def test_labels_that_cannot_be_read(reply: str) -> None:
    with pytest.raises(ParseError, match="does not begin with CONSISTENT"):
        label_of(reply)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"questions": 0}, "questions must be from 1 to 50"), ({"retries": -1}, "retries must be from 0 to 10")],
)
def test_options_out_of_range(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        do("cove", TASK, kit_of(RULES), **options)

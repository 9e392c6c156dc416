"""Reports with everything in them, as the page shows them: recorded ones, given out in the server's place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from corrigenda.report import to_dict
from tests.scripted import REWRITE, check
from tests.server.page_kit import Visit, a_browser, marks, tags, visiting

ANSWER = "Rome has 5 hills. It is in Italy."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def visit(browser: Browser) -> Iterator[Visit]:
    with visiting(browser) as found:
        yield found


@pytest.fixture
def report() -> dict[str, Any]:
    """A report that a test may change: claim 1 is contradicted and rewritten, claim 2 supported."""
    made = check(ANSWER, chat=[REWRITE], context=["Rome stands on seven hills.", "Rome is in Italy."])
    return copy.deepcopy(to_dict(made))


def shown(visit: Visit, report: dict[str, Any], claim: int = 1) -> Page:
    """Show a report with the details of a claim, numbered from 1."""
    page = visit.page
    page.unroute_all()
    page.route("**/v1/verify", lambda route: route.fulfill(json=report))
    visit.check(ANSWER, "x")
    page.locator(".tag").nth(claim - 1).click()
    expect(page.locator("#detail-title")).to_contain_text(f"Claim {claim} of")
    return page


def test_a_window_is_shown_with_its_source_and_the_reference_around_it(visit: Visit, report: dict[str, Any]) -> None:
    report["references"][0] = {"text": "🧭 Before. The window. After.", "source": "guide.txt", "truncated": True}
    report["claims"][0]["evidence"] |= {"reference": 0, "span": [10, 21], "text": "The window."}
    page = shown(visit, report)
    window = page.locator("#detail .window")
    assert window.locator(".source").inner_text() == "guide.txt"
    assert window.locator("blockquote").inner_text() == "The window."
    window.get_by_text("The whole reference").click()
    assert window.locator("mark").inner_text() == "The window."
    whole = window.locator(".passage-text").inner_text()
    assert whole == "🧭 Before. The window. After. (cut off at its cap of tokens)"


def test_a_window_that_says_the_opposite_is_shown_too(visit: Visit, report: dict[str, Any]) -> None:
    counter = report["claims"][0]["evidence"] | {"reference": 1, "text": "Rome is in Italy."}
    report["claims"][0]["counter_evidence"] = counter
    page = shown(visit, report)
    opposite = page.locator("#detail .window").nth(1)
    assert "A window that says the opposite" in opposite.inner_text()
    assert opposite.locator("blockquote").inner_text() == "Rome is in Italy."


def test_what_was_looked_up_is_shown_with_the_verdicts_around_it(visit: Visit, report: dict[str, Any]) -> None:
    report["retrieval"] = [
        {
            "claim": 1,
            "query": "Rome Italy",
            "passages": [{"id": "p1", "title": "Rome <b>", "score": 2.0, "reference": 1}],
            "signed": 0.98,
            "decides": True,
            "before": "unverified",
            "before_signed": 0.0,
            "after": "supported",
            "after_signed": 0.98,
            "reason": None,
        }
    ]
    page = shown(visit, report, claim=2)
    looked_up = page.locator("#detail .lookup").inner_text()
    assert "? unverified (0.00) → ✓ supported (+0.98). A passage decides it." in looked_up
    assert "Rome <b>" in looked_up
    page.locator(".tag").first.click()
    expect(page.locator("#detail .lookup")).to_have_count(0)


def test_an_early_verdict_is_told(visit: Visit, report: dict[str, Any]) -> None:
    report["claims"][1]["released"] = {"verdict": "unverified", "tau": 0.9, "at_s": 1.254}
    page = shown(visit, report, claim=2)
    assert page.locator("#detail .early").inner_text() == "Released after 1.25 s as ? unverified, with τ at 0.90."


def test_an_edit_that_was_not_accepted_is_shown_as_such(visit: Visit, report: dict[str, Any]) -> None:
    report["edits"][0] |= {"accepted": False, "reason": "the rewrite is still contradicted", "claims": [0, 1]}
    report["final_answer"] = report["answer"]
    page = shown(visit, report)
    edit = page.locator("#detail .edit").inner_text()
    assert "Rewrite, not accepted, for 2 claims" in edit
    assert "The rewrite is still contradicted." in edit
    assert page.get_by_role("region", name="Before and after").count() == 0


def test_a_removal_without_a_text_of_its_own_is_shown(visit: Visit, report: dict[str, Any]) -> None:
    report["edits"][0] |= {"after": None, "accepted": False, "kind": "remove", "reason": "nothing would be left"}
    report["final_answer"] = report["answer"]
    assert "Removal, not accepted" in shown(visit, report).locator("#detail .edit").inner_text()


def test_claims_that_do_not_stand_in_the_answer_are_listed_below_it(visit: Visit, report: dict[str, Any]) -> None:
    report["claims"][1] |= {"span": None, "text": "Rome is in Italy."}
    page = shown(visit, report, claim=2)
    assert marks(page) == [("Rome has 5 hills.", "contradicted"), ("Rome is in Italy.", "supported")]
    assert "Claims that don't stand in the answer word for word" in page.locator(".loose").inner_text()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#detail-title")).to_contain_text("Claim 1 of 2")


def test_claims_that_share_their_text_share_the_more_pressing_line(visit: Visit, report: dict[str, Any]) -> None:
    report["claims"][1] |= {"span": [0, 17], "verdict": "supported"}
    page = shown(visit, report, claim=2)
    assert marks(page) == [("Rome has 5 hills.", "contradicted")]
    assert tags(page) == ["1 ✕ contradicted", "2 ✓ supported"]


def test_a_report_of_an_older_or_newer_server_is_shown_as_far_as_it_is_understood(
    visit: Visit, report: dict[str, Any]
) -> None:
    del report["retrieval"]
    report["claims"][1]["verdict"] = "doubtful"
    report["status"] = "odd"
    page = shown(visit, report, claim=2)
    assert page.locator("#result-title").inner_text() == "odd"
    assert tags(page) == ["1 ✕ contradicted", "2 · doubtful"]


def test_a_report_without_scores_or_timings_is_shown(visit: Visit, report: dict[str, Any]) -> None:
    report |= {
        "decision": None,
        "timings": [],
        "usage": {},
        "references": [],
        "warnings": ["there is nothing to check against"],
    }
    for claim in report["claims"]:
        claim |= {"scores": None, "signed": None, "evidence": None, "verdict": "unverified", "reason": "no reference"}
    page = shown(visit, report)
    assert "No reference." in page.locator("#detail").inner_text()
    assert page.get_by_role("list", name="Warnings").inner_text() == "there is nothing to check against"
    for name in ("Decision", "Stages"):
        assert page.get_by_role("region", name=name).count() == 0


@pytest.mark.parametrize(
    ("decision", "labels"),
    [
        ({"policy": "conformal", "tau": 0.4, "threshold": 0.4, "alpha": 0.1}, ["µ 0.20", "−τ −0.40"]),
        ({"policy": "conformal", "tau": None, "threshold": None, "alpha": 0.1}, ["µ 0.20"]),
        ({"policy": "paper", "tau": -0.5, "mu": -0.9}, ["µ −0.90", "−τ 0.50", "+τ −0.50"]),
        ({"policy": "paper", "tau": 1.5}, ["µ 0.20", "← −τ −1.50", "+τ 1.50 →"]),
    ],
)
def test_the_thresholds_of_every_policy_are_drawn(
    visit: Visit, report: dict[str, Any], decision: dict[str, Any], labels: list[str]
) -> None:
    report["decision"] |= {"mu": 0.2, "sigma": 0.5} | decision
    page = shown(visit, report)
    assert page.locator(".plot :is(.mu, .tau) text").all_text_contents() == labels
    slider = page.get_by_role("slider", name="threshold" if decision["policy"] == "conformal" else "k")
    assert slider.is_disabled() == (decision["tau"] is None)


@pytest.mark.parametrize(
    ("decision", "name", "why"),
    [
        (
            {"policy": "conformal", "tau": None, "threshold": None},
            "threshold",
            "No threshold: it was calibrated on too few claims, so nothing can be flagged.",
        ),
        (
            {"policy": "<mine>", "tau": 0.4},
            "No number",
            "The server's own policy: it has no number that can be moved here.",
        ),
    ],
)
def test_a_policy_without_a_number_to_move_says_why(
    visit: Visit, report: dict[str, Any], decision: dict[str, Any], name: str, why: str
) -> None:
    report["decision"] |= decision
    page = shown(visit, report)
    slider = page.get_by_role("slider", name=name)
    assert slider.is_disabled()
    expect(slider).to_have_accessible_description(why)
    assert page.get_by_text(why).is_visible()
    box = page.get_by_role("region", name="Decision").get_by_label("Policy")
    assert box.input_value() == decision["policy"]
    box.select_option("bounded")
    expect(page.get_by_role("slider", name="k")).to_be_enabled()
    expect(page.locator("#decide-why")).to_be_empty()
    page.get_by_role("button", name="As it was run").click()
    expect(slider).to_be_disabled()
    expect(slider).to_have_accessible_description(why)
    box.select_option("fixed")
    expect(page.get_by_role("slider", name="Threshold")).to_be_enabled()
    box.select_option(decision["policy"])
    if decision["policy"] == "conformal":  # whose threshold is now the one of the server, which may have another
        expect(slider).to_have_value("0.9")
        expect(slider).to_be_enabled()
        page.get_by_role("button", name="As it was run").click()
    expect(slider).to_be_disabled()
    expect(slider).to_have_accessible_description(why)


def test_a_choice_of_models_is_offered_and_sent(browser: Browser) -> None:
    with visiting(browser) as visit:
        listed = {"object": "list", "data": [{"id": "small"}, {"id": "<large>"}]}
        visit.page.route("**/v1/models", lambda route: route.fulfill(json=listed))
        visit.page.route("**/v1/chat/completions", lambda route: route.fulfill(status=500, body=json.dumps({})))
        page = visit.open()
        page.get_by_text("Options", exact=True).click()
        page.get_by_label("Model").select_option("<large>")
        page.get_by_label("Question", exact=True).fill("How many hills has Rome?")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator("#problem")).to_be_visible()
        assert [body["model"] for body in visit.bodies("/v1/chat/completions")] == ["<large>"]


def test_the_tabs_follow_the_address(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.open("check")
        expect(page.get_by_label("Answer", exact=True)).to_be_visible()
        page.evaluate("location.hash = '#ask'")
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()
        page.evaluate("location.hash = '#nothing'")
        expect(page.get_by_role("tab", name="Ask a question")).to_have_attribute("aria-selected", "true")
        page.get_by_role("tab", name="Check an answer").click()
        assert page.url.endswith("#check")

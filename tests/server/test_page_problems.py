"""What the page shows when something goes wrong, while it works, and how a run is cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from corrigenda.report import to_dict
from tests.scripted import Rules, check
from tests.server.page_kit import TOWER, Visit, a_browser, tags, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


def refusing(visit: Visit, path: str, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    """Answer calls of this path in the server's place."""
    text = body if isinstance(body, str) else json.dumps(body)

    def reply(route: Route) -> None:
        route.fulfill(status=status, body=text, headers={"content-type": "application/json", **(headers or {})})

    visit.page.route(f"**{path}", reply)


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "x", "param": None, "code": None} | more}


def press_check(visit: Visit) -> Page:
    page = visit.open("check")
    page.get_by_role("button", name="Use an example").click()
    page.get_by_role("button", name="Check", exact=True).click()
    return page


@pytest.mark.parametrize(
    ("status", "body", "title", "says"),
    [
        (400, error("contexts.0: Input should be a valid string"), "The server can't use this input", "contexts.0"),
        (413, error("the body has 9 MB; at most 8 MB are taken"), "That is too long for this server", "9 MB"),
        (422, error("no"), "The server can't use this input", "no"),
        (429, error("256 requests wait"), "The server is busy", "256 requests wait"),
        (500, error("its log says more"), "The server met an error of its own", "its log says more"),
        (502, error("no connection to the model"), "The model behind the server failed", "no connection"),
        (502, "<html><h1>Bad Gateway</h1>", "The model behind the server failed", "Try again"),
        (503, error("still loading"), "The server isn't ready yet", "still loading"),
        (504, error("30 s"), "The model behind the server didn't answer in time", "30 s"),
        (504, error("2 s", code="deadline"), "It took longer than the server allows", "2 s"),
        (418, error("a teapot"), "The server can't use this input", "a teapot"),
        (401, error("not its key", code="upstream_unauthorized"), "The model's server refuses this server", "not its"),
        (200, "not JSON", "The server's reply can't be read", "the reply is not JSON"),
        (200, {"status": "verified"}, "The server's reply can't be read", "the reply holds no report"),
        (200, "null", "The server's reply can't be read", "the reply holds no report"),
    ],
)
def test_each_refusal_says_what_happened_and_what_to_do(
    browser: Browser, status: int, body: Any, title: str, says: str
) -> None:
    with visiting(browser) as visit:
        refusing(visit, "/v1/verify", status, body, {"x-request-id": "r-17"})
        page = press_check(visit)
        problem = page.get_by_role("alert").filter(has=page.get_by_role("heading", name=title, exact=True))
        problem.wait_for()
        assert says in problem.inner_text()
        assert page.locator("#work").is_hidden()
        assert page.locator("#result").is_hidden()
        assert ("Request r-17" in problem.inner_text()) == (status != 200)
        # What was typed is still there, and so is the way on.
        page.unroute("**/v1/verify")
        problem.get_by_role("button", name="Try again").click()
        visit.result()
        assert problem.is_hidden()


def test_a_server_that_is_gone_is_told_as_such(browser: Browser) -> None:
    with visiting(browser) as visit:
        visit.page.route("**/v1/verify", lambda route: route.abort("connectionrefused"))
        page = press_check(visit)
        expect(page.get_by_role("heading", name="The server can't be reached")).to_be_visible()
        assert "corrigenda serve" in page.locator("#problem").inner_text()


def test_a_busy_server_says_when_to_come_back(browser: Browser) -> None:
    with visiting(browser) as visit:
        visit.page.clock.install()
        refusing(visit, "/v1/verify", 429, error("the queue is full"), {"retry-after": "7"})
        page = press_check(visit)
        again = page.get_by_role("button", name="Try again")
        expect(again).to_be_disabled()
        assert "It asks to wait 7 seconds." in page.locator("#problem").inner_text()
        page.clock.run_for(6_000)
        expect(again).to_be_disabled()
        page.clock.run_for(2_000)
        expect(again).to_be_enabled()


def test_a_field_that_the_server_refuses_is_marked(browser: Browser) -> None:
    with visiting(browser) as visit:
        refusing(visit, "/v1/verify", 400, error("answer: too long by 3 characters", param="answer"))
        page = press_check(visit)
        box = page.get_by_label("Answer", exact=True)
        expect(box).to_have_attribute("aria-invalid", "true")
        expect(box).to_have_accessible_description("answer: too long by 3 characters")
        assert box.evaluate("box => box === document.activeElement")


@pytest.mark.parametrize(
    ("tab", "button", "field", "mistake"),
    [
        ("ask", "Ask", "#ask-question", "Type a question."),
        ("check", "Check", "#check-answer", "Paste an answer."),
    ],
)
def test_an_empty_form_is_not_sent(browser: Browser, tab: str, button: str, field: str, mistake: str) -> None:
    with visiting(browser) as visit:
        page = visit.open(tab)
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.locator(field)).to_have_accessible_description(mistake)
        expect(page.locator(field)).to_be_focused()
        assert visit.bodies("/v1/verify") + visit.bodies("/v1/chat/completions") == []


def test_an_answer_needs_something_to_check_it_against(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.open("check")
        page.get_by_label("Answer", exact=True).fill(TOWER)
        page.get_by_label("Passage 1", exact=True).fill("   ")
        page.get_by_role("button", name="Check", exact=True).click()
        field = page.locator("#check-question")
        expect(field).to_have_accessible_description("Give a passage to check against, or the question that was asked.")
        page.locator("#option-k").evaluate("box => { box.value = '-1'; }")
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.locator("#option-k")).to_have_attribute("aria-invalid", "true")
        assert visit.bodies("/v1/verify") == []


def events(*values: Any, done: bool = False) -> str:
    return "".join(f"data: {json.dumps(value)}\n\n" for value in values) + ("data: [DONE]\n\n" if done else "")


def delta(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


def ask_with(visit: Visit, body: str) -> Page:
    refusing(visit, "/v1/chat/completions", 200, body, {"content-type": "text/event-stream"})
    page = visit.open()
    page.get_by_label("Question", exact=True).fill("How many hills has Rome?")
    page.get_by_role("button", name="Ask", exact=True).click()
    return page


@pytest.mark.parametrize(
    ("body", "title", "says"),
    [
        (events(delta("Rome has ")), "The answer broke off", "it ended early"),
        (events(delta("Rome has "), done=True), "The answer broke off", "it brought no report"),
        (events(delta("Rome has ")) + "data: {nonsense\n\n", "The answer broke off", "an event in it is not JSON"),
        (events(delta("Rome has ")) + "data: 7\n\n", "The answer broke off", "an event in it is not JSON"),
        (events(delta("Rome has "), error("gone", status=502)), "The model behind the server failed", "gone"),
        (events(delta("Rome has "), error("gone")), "The answer broke off", "gone"),
    ],
)
def test_a_stream_that_breaks_keeps_what_had_come(browser: Browser, body: str, title: str, says: str) -> None:
    with visiting(browser) as visit:
        page = ask_with(visit, body)
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        assert says in page.locator("#problem").inner_text()
        assert page.locator("#work-answer").inner_text() == "Rome has "
        assert "What had come of the answer" in page.locator("#work").inner_text()
        assert page.get_by_role("button", name="Cancel").is_hidden()


def test_a_failure_that_brings_its_report_shows_both(browser: Browser) -> None:
    report = to_dict(check("Rome has 5 hills."))
    with visiting(browser) as visit:
        page = ask_with(visit, events(delta("Rome "), error("gone", status=504) | {"corrigenda": report}))
        expect(page.get_by_role("heading", name="The model behind the server didn't answer in time")).to_be_visible()
        assert tags(page) == ["1 ✕ contradicted"]


def test_an_answer_that_was_passed_through_is_said_to_be_unchecked(browser: Browser) -> None:
    beside = {"corrigenda": {"status": "passed_through", "reason": "mode off"}}
    with visiting(browser) as visit:
        page = ask_with(visit, events(delta("Rome has <b>5</b> hills.", **beside), done=True))
        visit.result()
        assert page.locator("#result-title").inner_text() == "Passed through"
        assert "The answer was not checked. mode off" in page.locator("#result").inner_text()
        assert page.locator("#result .answer").inner_text() == "Rome has <b>5</b> hills."


def test_claims_are_counted_while_the_answer_comes(browser: Browser) -> None:
    claims = to_dict(check("Rome has 5 hills. It is in Italy."))["claims"]
    with visiting(browser) as visit:
        body = events(delta("Rome has 7 hills.", corrigenda={"claims": claims}), error("gone", status=502))
        visit.page.add_init_script(
            """new MutationObserver(() => {
              const line = document.getElementById("work-claims");
              if (line?.textContent) window.seen = line.textContent;
            }).observe(document, { subtree: true, childList: true, characterData: true });"""
        )
        page = ask_with(visit, body)
        expect(page.locator("#problem")).to_be_visible()
        assert page.evaluate("window.seen") == "2 claims so far: 1 contradicted, 1 supported"


def test_a_report_whose_check_broke_is_shown_as_failed(browser: Browser) -> None:
    nli = [{"error": {"status": 500, "body": "the verifier is down"}}]
    with visiting(browser, nli=nli) as visit:
        page = visit.check("Rome has 5 hills.", "Rome has 7 hills.")
        assert page.locator("#result-title").inner_text() == "Failed"
        assert tags(page) == ["1 ! failed"]
        assert page.get_by_role("region", name="Decision").count() == 0
        assert "the verifier is down" in page.locator("#detail").inner_text()


def test_an_answer_without_claims_says_so(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.check("***", "Rome has 7 hills.")
        assert "No claims were found." in page.locator("#result").inner_text()
        assert page.locator("#detail").count() == 0


def test_progress_is_shown_and_a_run_can_be_cancelled(browser: Browser) -> None:
    slow: Rules = [{"stage": "generate", "reply": TOWER, "first_token_s": 60}, {"stage": "recall", "reply": "x"}]
    with visiting(browser, chat=slow) as visit:
        page = visit.open()
        page.get_by_label("Question", exact=True).fill("How tall is it?")
        run = page.get_by_role("button", name="Ask", exact=True)
        run.click()
        progress = page.get_by_role("region", name="Progress")
        expect(progress).to_contain_text("Answering, and checking what is answered")
        expect(progress).to_contain_text(" s")
        expect(page.locator("#announcer")).to_have_text("Answering, and checking what is answered.")
        expect(run).to_have_attribute("aria-disabled", "true")
        run.click(force=True)  # does nothing: one run at a time
        with page.expect_event("requestfailed") as failed:
            page.get_by_role("button", name="Cancel").click()
        assert failed.value.url == f"{visit.address}/v1/chat/completions"
        expect(page.get_by_role("alert").filter(has_text="Cancelled")).to_be_visible()
        expect(progress).to_be_hidden()
        expect(run).to_be_focused()
        assert len(visit.bodies("/v1/chat/completions")) == 1
        # The page is ready for the next one.
        page.get_by_role("tab", name="Check an answer").click()
        page.get_by_role("button", name="Use an example").click()
        page.get_by_role("button", name="Check", exact=True).click()
        visit.result()


def test_a_slider_whose_call_fails_keeps_the_verdicts_and_says_so(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        before = tags(page)
        refusing(visit, "/v1/decide", 500, error("its log says more"))
        page.get_by_role("slider", name="k").fill("2")
        trouble = page.get_by_role("alert").filter(has_text="The server met an error of its own")
        expect(trouble).to_contain_text("its log says more The verdicts are those of before.")
        assert tags(page) == before
        page.unroute("**/v1/decide")
        page.get_by_role("slider", name="k").fill("2.1")
        expect(page.locator("#result .tag").first).to_contain_text("supported")
        expect(trouble).to_have_count(0)


def test_a_threshold_that_the_server_cannot_tell_is_not_made_up(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        before = tags(page)
        refusing(visit, "/v1/decide", 500, error("its log says more"))
        policy = page.get_by_role("region", name="Decision").get_by_label("Policy")
        policy.select_option("fixed")
        expect(page.get_by_role("alert").filter(has_text="an error of its own")).to_be_visible()
        slider = page.get_by_role("slider", name="threshold")
        expect(slider).to_be_disabled()
        expect(slider).to_have_accessible_description("The server has not told its threshold yet.")
        assert tags(page) == before
        page.unroute("**/v1/decide")
        policy.select_option("bounded")
        policy.select_option("fixed")
        expect(slider).to_be_enabled()


def test_a_threshold_beyond_its_range_is_not_sent(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.open("check")
        page.get_by_role("button", name="Use an example").click()
        page.get_by_text("Options", exact=True).click()
        page.locator("#option-k").fill("-1")
        page.locator("#option-policy").select_option("fixed")  # under which k does not count
        page.get_by_label("Threshold").fill("1.5")
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.locator("#option-threshold")).to_have_accessible_description(
            "A threshold is a number from 0 to 1, or left empty."
        )
        assert visit.bodies("/v1/verify") == []
        page.get_by_label("Threshold").fill("0.6")
        page.get_by_role("button", name="Check", exact=True).click()
        visit.result()
        (body,) = visit.bodies("/v1/verify")
        assert (body["policy"], body["threshold"], "k" in body) == ("fixed", 0.6, False)

"""The page in a real Chromium: asking, checking, looking at claims, deciding anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from corrigenda.report import from_dict
from tests.scripted import CONTRADICT, ENTAIL, NEUTRAL, Rules
from tests.server.page_kit import CONTEXT, FINAL, TOWER, Visit, a_browser, line_of, marks, tags, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


SENTENCES = [
    "The Eiffel Tower stands in Paris.",
    "The tower is 230 metres tall.",
    "It was built for the 1889 World's Fair.",
    "Its lifts were made by Otis.",
]
DECIDED = ["1 ✓ supported", "2 ✕ contradicted", "3 ✓ supported", "4 ? unverified"]


def detail(page: Page) -> str:
    return page.get_by_role("region", name="Claim").inner_text()


def test_a_question_is_answered_and_each_claim_shown_with_its_verdict(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        assert page.locator("#result-title").inner_text() == "Corrected"
        assert tags(page) == DECIDED
        assert marks(page) == list(
            zip(SENTENCES, ["supported", "contradicted", "supported", "unverified"], strict=True)
        )
        assert page.locator(".answer.checked").evaluate("box => box.textContent").count("230") == 2  # and its label
        assert visit.bodies("/v1/chat/completions") == [
            {
                "messages": [{"role": "user", "content": "How tall is the Eiffel Tower?"}],
                "corrigenda": {"mode": "correct", "decision": "incremental"},
                "stream": True,
            }
        ]


def test_an_underline_tells_its_verdict_by_pattern_and_colour(browser: Browser) -> None:
    answer = "I think Rome is lovely. " + TOWER + " It weighs nothing."
    nli: Rules = [
        {"hypothesis_contains": "weighs", "error": "this pair cannot be scored"},
        {"hypothesis_contains": "230", "scores": CONTRADICT},
        {"hypothesis_contains": "Otis", "scores": NEUTRAL},
        {"scores": ENTAIL},
    ]
    with visiting(browser, nli=nli) as visit:
        page = visit.check(answer)
        verdicts = ["supported", "contradicted", "unverified", "not_checkable", "failed"]
        lines = [line_of(page, f".checked .mark.v-{verdict}") for verdict in verdicts]
        assert [pattern for pattern, _ in lines] == ["solid", "wavy", "dashed", "dotted", "double"]
        assert len({colour for _, colour in lines}) == 5
        words = ["supported", "contradicted", "unverified", "not checkable", "failed"]
        assert {tag.split(" ", 2)[2] for tag in tags(page)} == set(words)
        assert page.locator(".legend li").all_inner_texts() == [
            "abc 1 contradicted",
            "abc 1 failed",
            "abc 1 unverified",
            "abc 2 supported",
            "abc 1 not checkable",
        ]


def test_an_answer_is_checked_against_the_passages_that_were_given(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.check(TOWER, CONTEXT, "Gustave Eiffel's company built it.", question="How tall is it?")
        assert tags(page) == DECIDED
        assert visit.bodies("/v1/verify") == [
            {
                "answer": TOWER,
                "question": "How tall is it?",
                "contexts": [CONTEXT, "Gustave Eiffel's company built it."],
                "mode": "correct",
            }
        ]


def test_the_options_travel_with_the_request(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.open("check")
        page.get_by_role("button", name="Use an example").click()
        page.get_by_text("Options", exact=True).click()
        page.get_by_label("What is contradicted").select_option("check")
        page.locator("#option-policy").select_option("paper")
        page.locator("#option-k").fill("0.3")
        assert page.get_by_label("Threshold").is_hidden()  # which this policy does not have
        page.get_by_label("Language").select_option("en")
        assert page.get_by_label("Sentences are released").is_hidden()  # an answer at hand is decided as a whole
        page.get_by_role("button", name="Check", exact=True).click()
        visit.result()
        (body,) = visit.bodies("/v1/verify")
        assert {name: body[name] for name in ("mode", "policy", "k", "language")} == {
            "mode": "check",
            "policy": "paper",
            "k": 0.3,
            "language": "en",
        }


def test_the_details_of_a_claim_show_scores_window_and_edit(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        # The contradicted one is shown at first.
        assert detail(page).splitlines()[0] == "Claim 2 of 4 ✕ contradicted"
        shown = detail(page)
        assert "Signed score −0.980" in shown
        for figure in ("0.010", "0.980"):
            assert figure in shown
        assert CONTEXT in shown
        assert "Rewrite, accepted" in shown
        assert page.locator("#detail del").all_text_contents() == [" removed: 230 end "]
        assert page.locator("#detail ins").all_text_contents() == [" added: 330 end "]


def test_pointing_at_a_claim_shows_it_and_pointing_away_shows_the_chosen_one(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        title = page.locator("#detail-title")
        page.get_by_text("Its lifts were made by Otis.").first.hover()
        expect(title).to_contain_text("Claim 4 of 4 ? unverified")
        page.locator("#result-title").hover()
        expect(title).to_contain_text("Claim 2 of 4 ✕ contradicted")
        page.get_by_text(SENTENCES[0]).first.click()
        page.locator("#result-title").hover()
        expect(title).to_contain_text("Claim 1 of 4 ✓ supported")
        assert page.locator(".mark.chosen").all_inner_texts() == [SENTENCES[0]]


def test_what_appears_under_a_pointer_at_rest_is_not_pointed_at(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        place = page.get_by_text(SENTENCES[3]).first.bounding_box()
        assert place is not None
        page.mouse.move(place["x"] + 5, place["y"] + 5)
        page.locator("#ask-question").press("Control+Enter")
        expect(page.locator("#work")).to_be_hidden()
        visit.result()
        expect(page.locator("#detail-title")).to_contain_text("Claim 2 of 4")


def test_before_and_after_differ_only_where_it_was_rewritten(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        box = page.get_by_role("region", name="Before and after").locator(".changes")
        assert box.evaluate("box => [...box.querySelectorAll('del, ins')].map((one) => one.tagName)") == ["DEL", "INS"]
        page.get_by_role("button", name="Before").click()
        assert box.inner_text() == TOWER
        page.get_by_role("button", name="After").click()
        assert box.inner_text() == FINAL
        assert page.get_by_role("button", name="After").get_attribute("aria-pressed") == "true"


def test_an_unchanged_answer_has_no_before_and_after(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.check("The Eiffel Tower stands in Paris.")
        assert page.locator("#result-title").inner_text() == "Verified"
        assert page.get_by_role("region", name="Before and after").count() == 0


def test_the_plot_shows_every_score_with_mean_and_thresholds(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        plot = page.locator(".plot svg")
        # Scores 0.98, -0.98, 0.8 and 0: µ = 0.2, σ = 0.775, τ = µ + 0.7σ = 0.742.
        assert plot.get_attribute("aria-label") == (
            "Signed scores of 4 claims, from −0.98 to 0.98; mean µ 0.20, standard deviation σ 0.77; "
            "threshold τ 0.74; 1 contradicted, 1 unverified, 2 supported."
        )
        assert plot.locator("text").all_text_contents() == [
            "−1", "contradiction", "0", "neutral", "1", "entailment", "µ 0.20", "−τ −0.74", "+τ 0.74",
        ]  # fmt: skip
        shapes = plot.locator(".point").evaluate_all("all => all.map((one) => one.classList[1])")
        assert sorted(shapes) == ["v-contradicted", "v-supported", "v-supported", "v-unverified"]
        plot.locator(".point.v-unverified").click()
        expect(page.locator("#detail-title")).to_contain_text("Claim 4 of 4")


def test_the_slider_decides_anew_without_any_model(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        asked = len(visit.chat.requests)
        page.get_by_role("slider", name="k").fill("0.9")  # τ = 0.2 + 0.9 · 0.775 = 0.897
        expect(page.locator("#result .tag").nth(2)).to_contain_text("unverified")
        assert tags(page) == [DECIDED[0], DECIDED[1], "3 ? unverified", DECIDED[3]]
        assert page.locator(".plot text", has_text="+τ").text_content() == "+τ 0.90"
        assert "Decided anew from the stored scores" in page.get_by_role("region", name="Decision").inner_text()
        (body,) = visit.bodies("/v1/decide")
        assert (body["policy"], body["k"]) == ("bounded", 0.9)
        assert from_dict(body["report"]).answer == TOWER
        assert len(visit.chat.requests) == asked
        assert [r.url for r in visit.requests[-1:]] == [f"{visit.address}/v1/decide"]


def test_many_movements_of_the_slider_ask_the_server_once(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        page.evaluate(
            """() => {
              const slider = document.getElementById("decide-number");
              for (const k of ["0.8", "1.2", "1.7", "0.9"]) {
                slider.value = k;
                slider.dispatchEvent(new Event("input", { bubbles: true }));
              }
            }"""
        )
        expect(page.locator("#result .tag").nth(2)).to_contain_text("unverified")
        assert [body["k"] for body in visit.bodies("/v1/decide")] == [0.9]


def test_another_policy_decides_anew_and_a_reset_brings_the_run_back(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.check()
        decision = page.get_by_role("region", name="Decision")
        decision.get_by_label("Policy").select_option("paper")
        page.get_by_role("slider", name="k").fill("2")  # τ = 1.75, which nothing reaches
        expect(page.locator(".plot .tau text").last).to_have_text("+τ 1.75 →")
        assert tags(page) == [f"{n} ? unverified" for n in (1, 2, 3, 4)]
        assert "is unreachable" in page.get_by_role("list", name="Warnings").inner_text()
        decision.get_by_role("button", name="As it was run").click()
        expect(page.get_by_role("list", name="Warnings")).to_have_count(0)
        assert tags(page) == DECIDED
        assert decision.get_by_label("Policy").input_value() == "bounded"


def choices(visit: Visit, path: str) -> list[dict[str, Any]]:
    """Return what each call of this path said about the decision."""
    return [{n: body[n] for n in ("policy", "k", "threshold") if n in body} for body in visit.bodies(path)]


def test_a_policy_without_k_offers_its_threshold(browser: Browser) -> None:
    with visiting(browser, settings={"policy": "fixed", "threshold": 0.75}) as visit:
        page = visit.check()
        decision = page.get_by_role("region", name="Decision")
        slider = page.get_by_role("slider", name="threshold")
        expect(slider).to_have_value("0.75")
        slider.fill("0.9")
        expect(page.locator("#announcer")).to_have_text(
            "fixed, threshold 0.90: 1 contradicted, 2 unverified, 1 supported"
        )
        assert page.locator(".plot .tau text").all_text_contents() == ["−τ −0.90", "+τ 0.90"]
        decision.get_by_label("Policy").select_option("bounded")
        expect(page.get_by_role("slider", name="k")).to_have_value("0.7")
        expect(page.locator("#announcer")).to_contain_text("bounded, k 0.70: ")
        decision.get_by_label("Policy").select_option("fixed")  # which stands where it was left
        expect(slider).to_have_value("0.9")
        expect(page.locator("#announcer")).to_contain_text("fixed, threshold 0.90: ")
        assert choices(visit, "/v1/decide") == [
            {"policy": "fixed", "threshold": 0.9},
            {"policy": "bounded", "k": 0.7},
            {"policy": "fixed", "threshold": 0.9},
        ]
        decision.get_by_role("button", name="As it was run").click()
        expect(slider).to_have_value("0.75")
        assert tags(page) == DECIDED


def test_a_threshold_that_was_not_chosen_is_the_servers(browser: Browser) -> None:
    with visiting(browser, settings={"alpha": 0.2}) as visit:
        page = visit.check()
        decision = page.get_by_role("region", name="Decision")
        for policy, threshold in (("fixed", "0.7"), ("conformal", "0.9")):
            decision.get_by_label("Policy").select_option(policy)
            expect(page.get_by_role("slider", name="threshold")).to_have_value(threshold)
            expect(page.get_by_role("slider", name="threshold")).to_be_enabled()
        page.get_by_role("slider", name="threshold").fill("0.99")
        expect(page.locator("#announcer")).to_contain_text("conformal, threshold 0.99: ")
        assert "is not guaranteed" in page.get_by_role("list", name="Warnings").inner_text()
        assert choices(visit, "/v1/decide") == [
            {"policy": "fixed"},
            {"policy": "conformal"},
            {"policy": "conformal", "threshold": 0.99},
        ]


def test_what_was_decided_anew_can_be_run_again(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.check()
        decision = page.get_by_role("region", name="Decision")
        decision.get_by_label("Policy").select_option("fixed")
        decision.get_by_role("button", name="Run again with this").click()
        expect(page.locator("#option-policy")).to_have_value("fixed")
        expect(page.locator("#option-threshold")).to_have_value("")
        expect(decision.get_by_label("Policy")).to_have_value("fixed")
        page.get_by_role("slider", name="threshold").fill("0.5")
        decision.get_by_role("button", name="Run again with this").click()
        expect(page.locator("#option-threshold")).to_have_value("0.5")
        expect(page.get_by_role("slider", name="threshold")).to_have_value("0.5")
        decision.get_by_label("Policy").select_option("paper")
        decision.get_by_role("button", name="Run again with this").click()
        expect(page.locator("#option-k")).to_have_value("0.7")
        expect(decision.get_by_label("Policy")).to_have_value("paper")
        assert choices(visit, "/v1/verify") == [
            {},
            {"policy": "fixed"},
            {"policy": "fixed", "threshold": 0.5},
            {"policy": "paper", "k": 0.7},
        ]


def test_a_claim_that_only_the_new_decision_contradicts_says_that_nothing_was_rewritten(browser: Browser) -> None:
    nli: Rules = [{"hypothesis_contains": "230", "scores": [0.1, 0.25, 0.65]}, {"scores": ENTAIL}]
    with visiting(browser, nli=nli, settings={"policy": "paper", "k": 2.0}) as visit:
        page = visit.check()
        assert page.get_by_role("region", name="Before and after").count() == 0
        page.get_by_role("slider", name="k").fill("0")
        page.locator("#result .tag").nth(1).click()
        expect(page.locator("#result .tag").nth(1)).to_contain_text("contradicted")
        expect(page.locator("#detail")).to_contain_text("nothing was rewritten")


def test_the_stages_are_shown_with_their_times_and_costs(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        rows = page.get_by_role("region", name="Stages").locator("tbody tr")
        names = rows.locator("th").all_inner_texts()
        assert names[:2] == ["generate", "recall"]
        assert set(names) == {"generate", "recall", "decompose", "entail", "decide", "correct", "reassemble"}
        costs = dict(zip(names, rows.locator("td:last-child").all_inner_texts(), strict=True))
        assert costs["generate"] == "1 call, 31 + 44 tokens"
        assert costs["correct"] == "1 call"


def test_the_report_and_the_answer_can_be_copied(browser: Browser) -> None:
    with visiting(browser, permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.ask()
        page.get_by_role("button", name="Copy answer").click()
        expect(page.locator("#announcer")).to_have_text("The answer was copied.")
        assert page.evaluate("navigator.clipboard.readText()") == FINAL
        page.get_by_role("button", name="Copy as JSON").click()
        expect(page.locator("#announcer")).to_have_text("The report was copied.")
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        assert from_dict(copied).final_answer == FINAL


def test_where_the_clipboard_is_kept_away_the_text_is_shown_selected(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')))")
        page.get_by_role("button", name="Copy answer").click()
        box = page.get_by_role("dialog").get_by_label("The text to copy")
        assert box.input_value() == FINAL
        assert box.evaluate("box => [box.selectionStart, box.selectionEnd]") == [0, len(FINAL)]
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_all_claims_and_all_references_are_listed(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.check(TOWER, CONTEXT, "Gustave Eiffel's company built it.")
        page.get_by_text("All claims").click()
        rows = page.locator(".claims tbody tr").all_inner_texts()
        assert [row.split("\t")[:3] for row in rows] == [
            ["1", "✓ supported", "+0.980"],
            ["2", "✕ contradicted", "−0.980"],
            ["3", "✓ supported", "+0.800"],
            ["4", "? unverified", "0.000"],
        ]
        page.get_by_text("All references (2)").click()
        assert page.locator(".more blockquote").all_inner_texts() == [CONTEXT, "Gustave Eiffel's company built it."]

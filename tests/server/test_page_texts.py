"""Texts on the page: markup stays text, every script and emoji is cut where the report says, a hundred claims fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from tests.scripted import CONTRADICT, ENTAIL, Rules
from tests.server.page_kit import Visit, a_browser, marks, tags, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def modules(browser: Browser) -> Iterator[Page]:
    """The page, whose modules can be called: `run(page, file, expression)`."""
    with visiting(browser) as visit:
        yield visit.open()


def run(page: Page, file: str, expression: str, *arguments: Any) -> Any:
    """Return the value of `expression` over the exports of a module (`m`) and the arguments (`a`)."""
    code = f"async (a) => {{ const m = await import('/page/{file}'); return {expression}; }}"
    return page.evaluate(code, list(arguments))


MARKUP = "<script>document.title='x'</script> <img src=x onerror=\"document.title='x'\"> &amp; <b>Rome</b> has 5 hills."


def test_markup_in_every_text_is_shown_as_it_is_and_does_nothing(browser: Browser) -> None:
    chat: Rules = [{"stage": "correct", "reply": "<i>Rome</i> has seven <script>hills</script>."}]
    nli: Rules = [{"hypothesis_contains": "5 hills", "scores": CONTRADICT}, {"scores": ENTAIL}]
    with visiting(browser, chat=chat, nli=nli) as visit:
        page = visit.check(MARKUP, "<script>alert(1)</script><b>Rome</b> stands on seven hills.")
        assert "".join(text for text, _ in marks(page)) in MARKUP
        page.get_by_text("All claims").click()
        page.get_by_text("All references").click()
        shown = page.locator("#result").inner_text()
        assert "<script>document.title='x'</script> <img src=x onerror=" in shown
        assert "<script>alert(1)</script><b>Rome</b> stands on seven hills." in shown
        assert page.title() == "Corrigenda"
        assert page.locator("#result :is(script, img, i, iframe, object, embed, style, link, a)").count() == 0


def test_markup_that_arrives_in_a_stream_is_text_too(browser: Browser) -> None:
    chat: Rules = [{"stage": "generate", "reply": MARKUP}, {"stage": "recall", "reply": "Rome has seven hills."}]
    with visiting(browser, chat=chat, nli=[{"scores": ENTAIL}]) as visit:
        page = visit.ask("<img src=x onerror=alert(1)>")
        assert "&amp; <b>Rome</b> has 5 hills." in page.locator(".answer.checked").inner_text()
        assert page.title() == "Corrigenda"


EMOJI = "Rome 👩‍👩‍👧‍👦🇮🇹 has 5 hills 🏛️. The 𝒢reek city 🏺 is Athens. It is in Italy."
ARABIC = "تقع روما في إيطاليا. بُنيت على 5 تلال. نهرها هو التيبر."


CHINESE = "罗马在意大利。它有5座山。"
COMBINING = "e\u0301te\u0301 à Rome. Elle a 5 collines."


@pytest.mark.parametrize("answer", [EMOJI, ARABIC, CHINESE, COMBINING])
def test_claims_are_cut_where_the_report_says_in_every_script(browser: Browser, answer: str) -> None:
    nli: Rules = [{"hypothesis_contains": "5", "scores": CONTRADICT}, {"scores": ENTAIL}]
    with visiting(browser, nli=nli, chat=[{"stage": "correct", "reply": "x"}]) as visit:
        with visit.page.expect_response("**/v1/verify") as got:
            page = visit.check(answer, "Rome has seven hills.")
        claims = got.value.json()["claims"]
        assert len(claims) > 1
        assert marks(page) == [(answer[slice(*c["span"])], c["verdict"]) for c in claims]
        # With the labels taken out, the answer stands there character for character.
        bare = page.locator(".answer.checked").evaluate(
            """box => {
              const copy = box.cloneNode(true);
              copy.querySelectorAll(".tag").forEach((tag) => tag.remove());
              return copy.textContent;
            }"""
        )
        assert bare == answer


def test_right_to_left_text_runs_from_the_right(browser: Browser) -> None:
    with visiting(browser, nli=[{"scores": ENTAIL}]) as visit:
        page = visit.check(ARABIC, ARABIC)
        first, second = (page.locator(".checked .mark").nth(n).bounding_box() for n in (0, 1))
        box = page.locator(".answer.checked").bounding_box()
        assert first is not None
        assert second is not None
        assert box is not None
        assert first["x"] > second["x"]
        assert abs((first["x"] + first["width"]) - (box["x"] + box["width"])) < 3
        assert tags(page) == ["1 ✓ supported", "2 ✓ supported", "3 ✓ supported"]
        assert page.get_by_label("Answer", exact=True).evaluate("box => getComputedStyle(box).direction") == "rtl"


def test_a_hundred_claims_are_all_there_and_one_stop_of_the_tab_key(browser: Browser) -> None:
    answer = " ".join(f"City number {n} has {n} hills." for n in range(1, 101))
    nli: Rules = [{"hypothesis_contains": "City number 50 ", "scores": CONTRADICT}, {"scores": ENTAIL}]
    with visiting(browser, nli=nli, settings={"policy": "fixed"}, chat=[{"stage": "correct", "reply": "x"}]) as visit:
        page = visit.check(answer, "There are a hundred cities.")
        found = tags(page)
        assert (len(found), found[0], found[49], found[99]) == (
            100,
            "1 ✓ supported",
            "50 ✕ contradicted",
            "100 ✓ supported",
        )
        assert page.locator(".tag[tabindex='0']").count() == 1
        strip = page.locator(".plot .strip").bounding_box()
        assert strip is not None
        points = page.locator(".plot .point > :last-child").evaluate_all(
            "all => all.map((one) => { const box = one.getBoundingClientRect(); return [box.top, box.bottom]; })"
        )
        assert len(points) == 100
        assert min(top for top, _ in points) >= strip["y"] - 1
        assert max(bottom for _, bottom in points) <= strip["y"] + strip["height"] + 1
        assert "Claim 50 of 100" in page.locator("#detail-title").inner_text()
        page.locator(".tag.v-contradicted").focus()
        for key, number in (("ArrowRight", 51), ("ArrowDown", 52), ("ArrowLeft", 51), ("End", 100), ("Home", 1)):
            page.keyboard.press(key)
            expect(page.locator("#detail-title")).to_contain_text(f"Claim {number} of 100")


def test_claims_that_overlap_share_a_line_and_keep_their_own_labels(modules: Page) -> None:
    found = run(modules, "text.js", "m.pieces(a[0], a[1])", "Rome, 5 hills, Italy.", [[0, 21], [0, 13], [6, 13], None])
    assert found == [
        {"text": "Rome, ", "inside": [0, 1], "ending": []},
        {"text": "5 hills", "inside": [0, 1, 2], "ending": [1, 2]},
        {"text": ", Italy.", "inside": [0], "ending": [0]},
    ]


@pytest.mark.parametrize("span", [[3, 3], [5, 3], [-1, 4], [0, 99], [0], "no"])
def test_a_span_that_cannot_be_is_left_out(modules: Page, span: Any) -> None:
    assert run(modules, "text.js", "m.pieces(a[0], [a[1]])", "Rome is", span) == [
        {"text": "Rome is", "inside": [], "ending": []}
    ]


# A lone surrogate cannot travel to the browser as text, so those are left out here.
characters = st.one_of(st.sampled_from("ab 🧭👩\u200d👧é\u0301א.٣\n"), st.characters(exclude_categories=["Cs"]))
texts = st.text(characters, max_size=30)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@few
@given(text=texts, data=st.data())
def test_spans_are_code_points(modules: Page, text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    code = "[new m.Points(a[0]).slice(a[1], a[2]), new m.Points(a[0]).length]"
    assert run(modules, "text.js", code, text, start, end) == [text[start:end], len(text)]


def test_a_lone_surrogate_counts_as_one_as_in_python(modules: Page) -> None:
    assert run(modules, "text.js", r"new m.Points('a\ud83db').length") == len("a\ud83db")


@few
@given(before=texts, after=texts)
def test_changes_lead_from_one_text_to_the_other(modules: Page, before: str, after: str) -> None:
    changes = run(modules, "text.js", "m.wordChanges(a[0], a[1])", before, after)
    assert "".join(c["text"] for c in changes if c["kind"] != "added") == before
    assert "".join(c["text"] for c in changes if c["kind"] != "removed") == after
    assert all(c["text"] for c in changes)
    if before == after:
        assert {c["kind"] for c in changes} <= {"same"}


def test_changes_are_word_by_word_and_split_no_character(modules: Page) -> None:
    before, after = "Rome 👩‍👩‍👧 has 5 hills.", "Rome 👩‍👩‍👦 has seven hills."
    assert run(modules, "text.js", "m.wordChanges(a[0], a[1])", before, after) == [
        {"kind": "same", "text": "Rome "},
        {"kind": "removed", "text": "👩‍👩‍👧"},
        {"kind": "added", "text": "👩‍👩‍👦"},
        {"kind": "same", "text": " has "},
        {"kind": "removed", "text": "5"},
        {"kind": "added", "text": "seven"},
        {"kind": "same", "text": " hills."},
    ]


def test_an_answer_too_long_to_compare_is_shown_as_replaced(modules: Page) -> None:
    before, after = "a " * 3000 + "x", "b " * 3000 + "y"
    changes = run(modules, "text.js", "m.wordChanges(a[0], a[1])", before, after)
    assert changes == [{"kind": "removed", "text": before}, {"kind": "added", "text": after}]


def edit(start: int, end: int, after: str | None, accepted: bool = True) -> dict[str, Any]:
    return {"span": [start, end], "after": after, "accepted": accepted}


def test_changes_of_an_answer_come_from_its_edits(modules: Page) -> None:
    report = {
        "answer": "🧭 Rome has 5 hills. It is old.",
        "final_answer": "🧭 Rome has seven hills. It is old.",
        "edits": [edit(20, 30, "No.", accepted=False), edit(2, 19, "Rome has seven hills.")],
    }
    assert run(modules, "text.js", "m.answerChanges(a[0])", report) == [
        {"kind": "same", "text": "🧭 "},
        {"kind": "same", "text": "Rome has "},
        {"kind": "removed", "text": "5"},
        {"kind": "added", "text": "seven"},
        {"kind": "same", "text": " hills."},
        {"kind": "same", "text": " It is old."},
    ]


def test_where_the_edits_do_not_add_up_the_answers_are_compared_as_wholes(modules: Page) -> None:
    report = {"answer": "a b", "final_answer": "a c", "edits": []}
    assert run(modules, "text.js", "m.answerChanges(a[0])", report) == [
        {"kind": "same", "text": "a "},
        {"kind": "removed", "text": "b"},
        {"kind": "added", "text": "c"},
    ]


CHUNKS = """(async () => {
  const body = new ReadableStream({ start(c) { a[0].forEach((one) => c.enqueue(new Uint8Array(one))); c.close(); } });
  const found = [];
  for await (const data of m.events(body)) found.push(data);
  return found;
})()"""


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_events_are_read_however_the_network_cuts_them(modules: Page, size: int) -> None:
    text = ': still working\r\n\r\ndata:{"a": "Perù 雪国 🧭"}\r\n\r\ndata: one\ndata: two\n\n'
    raw = (text + "event: x\ndata: three\r\rdata: [DONE]\n\ndata: cut").encode()
    pieces = [list(raw[i : i + size]) for i in range(0, len(raw), size)]
    assert run(modules, "api.js", CHUNKS, pieces) == ['{"a": "Perù 雪国 🧭"}', "one\ntwo", "three", "[DONE]"]


def test_the_case_of_a_cut_stream_from_outside(modules: Page, shared_cases: dict[str, dict[str, Any]]) -> None:
    case = shared_cases["PC-31"]
    pieces = [list(bytes.fromhex(chunk)) for chunk in case["input"]["chunks_hex"]]
    found = run(modules, "api.js", CHUNKS, pieces)
    assert found[-1] == "[DONE]"
    code = "a[0].slice(0, -1).map((data) => JSON.parse(data).choices[0].delta.content ?? '').join('')"
    assert run(modules, "api.js", code, found) == case["expected"]["text"]


def test_the_answer_so_far_grows_with_the_stream(browser: Browser) -> None:
    slow: Rules = [
        {"stage": "generate", "reply": "Rome is old. It has 7 hills. " + "It is far. " * 60, "tokens_per_s": 30},
        {"stage": "recall", "reply": "Rome has seven hills."},
    ]
    with visiting(browser, chat=slow, nli=[{"scores": ENTAIL}]) as visit:
        page = begin(visit)
        expect(page.locator("#work-answer")).to_contain_text("Rome is old. It has 7 hills.")
        expect(page.locator("#work-claims")).to_contain_text("so far")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("alert").filter(has_text="Cancelled")).to_be_visible()


def begin(visit: Visit) -> Page:
    page = visit.open()
    page.get_by_label("Question", exact=True).fill("How many hills has Rome?")
    page.get_by_role("button", name="Ask", exact=True).click()
    return page

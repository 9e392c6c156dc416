"""The page without a mouse, without sight, without a wide screen; its API key; and what the browser keeps it from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page, expect

from corrigenda.server.keys import line_for, read_keys
from tests.server.page_kit import CONTEXT, TOWER, Visit, a_browser, tags, visiting

PHONE: dict[str, Any] = {"viewport": {"width": 380, "height": 760}, "has_touch": True, "is_mobile": True}
KEY = "ck-correct-horse-battery-staple"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


def focused(page: Page) -> str:
    """Return the id, or else the text, of what has the keyboard's focus."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent"))


def press_until(page: Page, key: str, wanted: str, most: int = 30) -> None:
    for _ in range(most):
        page.keyboard.press(key)
        if focused(page) == wanted:
            return
    pytest.fail(f"{key} does not lead to {wanted!r}; the focus is on {focused(page)!r}")


def test_everything_works_by_keyboard_alone(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.open()
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to the form"
        press_until(page, "Tab", "tab-ask")
        page.keyboard.press("ArrowRight")
        assert focused(page) == "tab-check"
        press_until(page, "Tab", "check-answer")
        page.keyboard.insert_text(TOWER)
        press_until(page, "Tab", "passage-1")
        page.keyboard.insert_text(CONTEXT)
        page.keyboard.press("Control+Enter")
        visit.result()
        expect(page.locator("#result")).to_be_focused()
        # To the labels: one stop, arrows from there, Enter to the details, Escape back, Tab onwards.
        press_until(page, "Tab", page.locator(".tag").nth(1).text_content() or "")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#detail-title")).to_contain_text("Claim 3 of 4")
        page.keyboard.press("Enter")
        assert focused(page) == "detail"
        page.keyboard.press("Escape")
        expect(page.locator(".tag").nth(2)).to_be_focused()
        press_until(page, "Tab", "decide-policy")
        press_until(page, "Tab", "decide-number")
        page.keyboard.press("End")
        expect(page.locator("#result .tag").nth(2)).to_contain_text("unverified")
        assert [body["k"] for body in visit.bodies("/v1/decide")] == [3]
        press_until(page, "Tab", "As it was run")
        page.keyboard.press("Enter")
        assert focused(page) == "decide-policy"


def test_every_stop_of_the_keyboard_is_seen(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        page.locator("#tab-ask").focus()
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break  # behind the last one
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            where = page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.id")
            assert outline != "none", where


def serious(page: Page) -> list[str]:
    """Return what axe-core finds wrong, as texts."""
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {[node['html'][:200] for node in v['nodes']]}" for v in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, {"width": 380, "height": 760}])
def test_axe_finds_nothing_wrong(browser: Browser, scheme: str, size: dict[str, int]) -> None:
    """Names, roles, contrast: what can be found by a program."""
    with visiting(browser, color_scheme=scheme, viewport=size) as visit:
        page = visit.open("check")
        page.get_by_text("Options", exact=True).click()
        page.get_by_role("button", name="Check", exact=True).click()
        assert serious(page) == []
        page = visit.check("I think Rome is lovely. " + TOWER)
        page.locator(".tag").nth(2).click()
        for name in ("All claims", "All references"):
            page.get_by_text(name).click()
        assert serious(page) == []
        page.route("**/v1/verify", lambda route: route.abort())
        page.get_by_role("button", name="Check", exact=True).click()
        page.locator("#problem:not([hidden])").wait_for()
        assert serious(page) == []


def test_a_screen_reader_is_told_what_a_claim_is(browser: Browser) -> None:
    with visiting(browser) as visit:
        page = visit.ask()
        expect(page.locator("#announcer")).to_have_text(
            "Corrected. 4 claims: 1 contradicted, 1 unverified, 2 supported."
        )
        labels = page.get_by_role("group", name="The answer with its claims").get_by_role("button")
        expect(labels).to_have_count(4)
        expect(labels.nth(1)).to_have_accessible_name(
            "Claim 2 of 4, contradicted, score −0.98: The tower is 230 metres tall."
        )
        expect(labels.nth(1)).to_have_attribute("aria-expanded", "true")
        expect(page.get_by_role("slider", name="k")).to_have_value("0.7")
        expect(page.get_by_role("img", name="Signed scores of 4 claims")).to_have_count(1)
        expect(page.get_by_role("tab", name="Ask a question")).to_have_attribute("aria-selected", "true")
        page.get_by_role("slider", name="k").fill("2")
        expect(page.locator("#announcer")).to_have_text("bounded, k 2.00: 1 contradicted, 2 unverified, 1 supported")


def too_wide(page: Page) -> Any:
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_a_phone_shows_it_all_without_scrolling_sideways(browser: Browser) -> None:
    with visiting(browser, **PHONE) as visit:
        page = visit.open()
        assert not too_wide(page)
        page.get_by_text("Options", exact=True).tap()
        assert not too_wide(page)
        page = visit.check(TOWER + " " + "Llanfairpwllgwyngyll" * 8 + " is in Wales.", CONTEXT + " " + "x" * 200)
        page.get_by_text("All claims").tap()
        page.get_by_text("All references").tap()
        assert not too_wide(page)
        heights = page.locator("main button:visible, main select:visible").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().height)"
        )
        assert min(heights) >= 18


def test_on_a_phone_the_details_come_up_from_below_and_go_away(browser: Browser) -> None:
    with visiting(browser, **PHONE) as visit:
        page = visit.check()
        detail = page.locator("#detail")
        expect(detail).to_be_hidden()
        page.get_by_text("The tower is 230 metres tall.").first.tap()
        expect(detail).to_be_visible()
        assert "Claim 2 of 4 ✕ contradicted" in detail.inner_text()
        box = detail.bounding_box()
        assert box is not None
        assert (round(box["x"]), round(box["width"]), round(box["y"] + box["height"])) == (0, 380, 760)
        assert box["height"] <= 381
        claim = page.locator(".mark.chosen").bounding_box()
        assert claim is not None
        assert claim["y"] + claim["height"] <= box["y"], "the claim itself stays in sight"
        page.get_by_role("button", name="Close the details").tap()
        expect(detail).to_be_hidden()
        page.locator(".tag").nth(3).tap()
        assert "Claim 4 of 4" in detail.inner_text()


@pytest.fixture
def guarded(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "keys.txt"
    file.write_text(line_for("me", KEY) + "\n", encoding="utf-8")
    return {"keys": read_keys(file)}


def give(page: Page, key: str) -> None:
    page.get_by_label("API key", exact=True).fill(key)
    page.get_by_role("button", name="Use this key").click()


def test_a_server_with_keys_is_asked_with_one_that_only_memory_holds(browser: Browser, guarded: dict[str, Any]) -> None:
    with visiting(browser, options=guarded) as visit:
        page = visit.open("check")
        expect(page.get_by_role("heading", name="This server asks for an API key")).to_be_visible()
        give(page, "ck-wrong-horse-battery-staple-x")
        expect(page.get_by_label("API key", exact=True)).to_have_attribute("aria-invalid", "true")
        give(page, f"  {KEY} ")
        expect(page.locator("#key-card")).to_be_hidden()
        page.get_by_role("button", name="Use an example").click()
        page.get_by_role("button", name="Check", exact=True).click()
        visit.result()
        assert len(tags(page)) == 3
        sent = [r.headers.get("authorization") for r in visit.requests if r.url.endswith("/v1/verify")]
        assert sent == [f"Bearer {KEY}"]
        assert [r.url for r in visit.requests if "/page/" in r.url and "authorization" in r.headers] == []
        kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href]")
        assert kept == [0, 0, "", f"{visit.address}/#check"]
        assert KEY not in page.content()
        page.reload()
        expect(page.get_by_role("heading", name="This server asks for an API key")).to_be_visible()


def test_a_key_that_is_forgotten_is_asked_for_again_and_then_what_was_asked_goes_on(
    browser: Browser, guarded: dict[str, Any]
) -> None:
    with visiting(browser, options=guarded) as visit:
        page = visit.open("check")
        give(page, KEY)
        page.get_by_role("button", name="Forget the API key").click()
        page.get_by_role("button", name="Use an example").click()
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.locator("#key-card")).to_be_visible()
        give(page, "no spaces")
        expect(page.locator("#key-error")).to_contain_text("without white space")
        give(page, KEY)
        visit.result()
        assert len(tags(page)) == 3


def forbidden(visit: Visit, script: str) -> str:
    """Run a script in the page that must fail; return what the browser says."""
    with pytest.raises(Error) as caught:
        visit.page.evaluate(script)
    visit.complaints.clear()
    return str(caught.value)


def test_the_browser_is_told_to_let_nothing_else_in_or_out(browser: Browser) -> None:
    with visiting(browser) as visit, visiting(browser) as other:
        visit.open()
        assert "TrustedHTML" in forbidden(visit, "document.body.innerHTML = '<b>x</b>'")
        assert "Failed to fetch" in forbidden(visit, f"fetch('{other.address}/healthz', {{ mode: 'no-cors' }})")
        load = f"""new Promise((resolve, reject) => {{
          const image = new Image();
          image.onerror = () => reject(new Error('kept out'));
          image.onload = resolve;
          image.src = '{other.address}/page/icon.svg';
        }})"""
        assert "kept out" in forbidden(visit, load)
        assert visit.page.evaluate("fetch('/healthz').then((reply) => reply.status)") == 200
        # A request that the policy stops is announced by the browser all the same; none of them arrived.
        visit.requests = [r for r in visit.requests if not r.url.startswith(other.address)]


def test_the_page_also_works_below_a_path_of_a_reverse_proxy(browser: Browser) -> None:
    with visiting(browser) as visit:
        below = "/tools/corrigenda"
        visit.page.route(
            f"**{below}/**",
            lambda route: route.fulfill(response=route.fetch(url=route.request.url.replace(below, ""))),
        )
        page = visit.page
        page.goto(f"{visit.address}/tools/corrigenda/#check")
        page.get_by_role("button", name="Use an example").click()
        page.get_by_role("button", name="Check", exact=True).click()
        visit.result()
        assert len(visit.bodies("/tools/corrigenda/v1/verify")) == 1

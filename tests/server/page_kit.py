"""A real Chromium for the tests of the page, the server that it talks to, and what may not happen meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, expect, sync_playwright

from corrigenda import Corrigenda, Settings
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.backends.nli_scripted import ScriptedEntailer
from tests.scripted import CONTRADICT, ENTAIL, NEUTRAL, Rules
from tests.server.kit import serving

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_MS = 60_000
"""How long a test waits for what must come, on however busy a machine; nothing is timed."""
expect.set_options(timeout=PATIENCE_MS)

TOWER = (
    "The Eiffel Tower stands in Paris. The tower is 230 metres tall. It was built for the 1889 World's Fair. "
    "Its lifts were made by Otis."
)
CONTEXT = "The Eiffel Tower is 330 metres tall and stands in Paris. It was built for the 1889 World's Fair."
TOWER_CHAT: Rules = [
    {"stage": "generate", "reply": TOWER, "usage": {"prompt_tokens": 31, "completion_tokens": 44}},
    {"stage": "recall", "reply": CONTEXT, "usage": {"prompt_tokens": 40, "completion_tokens": 39}},
    {"stage": "correct", "contains": "230", "reply": "The tower is 330 metres tall."},
]
TOWER_NLI: Rules = [
    {"hypothesis_contains": "230", "scores": CONTRADICT},
    {"hypothesis_contains": "Otis", "scores": NEUTRAL},
    {"hypothesis_contains": "Fair", "scores": [0.8, 0.16, 0.04]},
    {"scores": ENTAIL},
]
FINAL = TOWER.replace("230", "330")


def chromium() -> str | None:
    """Return where a Chromium is, if this machine has one; nothing is downloaded."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


@contextmanager
def a_browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


class Visit:
    """One visit to the page: the tab itself, and everything that it asked the network for."""

    def __init__(self, page: Page, address: str, chat: ScriptedChat) -> None:
        self.page = page
        self.address = address
        self.chat = chat
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        page.context.on("request", self._request)
        page.context.on("page", lambda other: self.complaints.append(f"another page: {other.url}"))

    def _request(self, request: Request) -> None:
        self.requests.append(request)

    def _console(self, message: ConsoleMessage) -> None:
        # A reply with an error's status is told there by the browser itself, and is what some tests are about.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def _error(self, error: Error) -> None:
        self.complaints.append(str(error))

    def open(self, tab: str = "ask") -> Page:
        self.page.goto(f"{self.address}/#{tab}")
        return self.page

    def ask(self, question: str = "How tall is the Eiffel Tower?") -> Page:
        """Open the page, ask, and wait for the result."""
        page = self.open()
        page.get_by_label("Question", exact=True).fill(question)
        page.get_by_role("button", name="Ask", exact=True).click()
        return self.result()

    def check(self, answer: str = TOWER, *contexts: str, question: str = "") -> Page:
        """Open the page, check an answer, and wait for the result."""
        page = self.open("check")
        page.get_by_label("Answer", exact=True).fill(answer)
        for number, text in enumerate(contexts or (CONTEXT,), start=1):
            if number > 1:
                page.get_by_role("button", name="Add a passage").click()
            page.get_by_label(f"Passage {number}", exact=True).fill(text)
        page.locator("#check-question").fill(question)
        page.get_by_role("button", name="Check", exact=True).click()
        return self.result()

    def result(self) -> Page:
        self.page.locator("#result:not([hidden])").wait_for()
        return self.page

    def bodies(self, path: str) -> list[Any]:
        """Return what was sent to this path of the API, in order."""
        return [r.post_data_json for r in self.requests if r.url == f"{self.address}{path}" and r.method == "POST"]

    def judge(self) -> None:
        """Fail when the page asked another origin for something, or when the browser complained."""
        strangers = [r.url for r in self.requests if not r.url.startswith((f"{self.address}/", f"blob:{self.address}"))]
        assert strangers == []
        assert self.complaints == []


Visiting = Callable[..., AbstractContextManager[Visit]]


@contextmanager
def visiting(
    browser: Browser,
    *,
    chat: Rules = TOWER_CHAT,
    nli: Rules = TOWER_NLI,
    settings: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **context: Any,
) -> Iterator[Visit]:
    """Serve scripted models on a free port and open a tab; `options` are the server's, `context` is the browser's."""
    scripted = ScriptedChat({"rules": chat})
    entailer = ScriptedEntailer({"rules": nli})
    base = Settings(**({"llm": "none", "decomposer": "deterministic"} | (settings or {})))
    model = Corrigenda(llm=scripted, nli=entailer, settings=base)
    with serving(model, **(options or {})) as running:
        tab = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | context))
        tab.set_default_timeout(PATIENCE_MS)
        visit = Visit(tab.new_page(), running.base_url, scripted)
        yield visit
        tab.close()
        visit.judge()


def tags(page: Page) -> list[str]:
    """Return the visible labels of the claims, as `1 ✓ supported`."""
    return [str(text).strip() for text in page.locator("#result .tag > [aria-hidden]").all_inner_texts()]


def marks(page: Page) -> list[tuple[str, str]]:
    """Return each underlined piece with its verdict's class."""
    found = page.locator("#result .mark:not(.sample)")
    classes = found.evaluate_all("all => all.map((one) => [one.textContent, one.classList[1].slice(2)])")
    return [(text, verdict) for text, verdict in classes]


def line_of(page: Page, selector: str) -> tuple[str, str]:
    """Return the pattern and the colour of an underline."""
    style = page.locator(selector).first.evaluate(
        "one => [getComputedStyle(one).textDecorationStyle, getComputedStyle(one).textDecorationColor]"
    )
    return style[0], style[1]


SOURCE = Path(__file__).parents[2] / "src" / "corrigenda" / "server" / "page"

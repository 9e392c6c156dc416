"""The page's files and how they are served: what needs no browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.server.kit import Running, scripted
from tests.server.page_kit import SOURCE

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = sorted(path.name for path in SOURCE.iterdir())


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with scripted() as found:
        yield found


def test_the_document_is_at_the_root(running: Running) -> None:
    reply = running.call("/")
    assert reply.status == 200
    assert reply.body == (SOURCE / "index.html").read_bytes()
    assert reply.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_with_its_type_and_strict_headers(running: Running, name: str) -> None:
    reply = running.call(f"/page/{name}")
    assert (reply.status, reply.body) == (200, (SOURCE / name).read_bytes())
    assert reply.headers["content-type"].split(";")[0] == TYPES[name[name.rfind(".") :]]
    assert reply.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["cross-origin-opener-policy"] == "same-origin"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert reply.headers["cache-control"] == "no-cache"


def test_a_file_that_the_browser_has_is_not_sent_again(running: Running) -> None:
    tag = running.call("/page/app.js").headers["etag"]
    assert re.fullmatch('"[0-9a-f]{32}"', tag)
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        reply = running.call("/page/app.js", if_none_match=known)
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert running.call("/page/app.js", if_none_match='"other"').status == 200
    assert running.call("/page/dom.js").headers["etag"] != tag


def test_head_is_answered_without_a_body(running: Running) -> None:
    reply = running.call("/", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) == len((SOURCE / "index.html").read_bytes())


@pytest.mark.parametrize(
    "path",
    ["/page/", "/page/none.js", "/page/..%2fpage.py", "/page/../page.py", "/page/%2e%2e/page.py", "/page/APP.JS"],
)
def test_nothing_else_is_served(running: Running, path: str) -> None:
    reply = running.call(path)
    assert reply.status == 404
    assert reply.error["type"] == "not_found_error"


def test_nothing_can_be_sent_to_the_page(running: Running) -> None:
    assert running.call("/", {"a": 1}).status == 405


def test_a_server_can_do_without_the_page() -> None:
    with scripted(page=False) as bare:
        assert bare.call("/").status == 404
        assert bare.call("/page/app.js").status == 404
        assert bare.call("/healthz").status == 200


def test_the_document_and_the_modules_name_only_files_that_there_are() -> None:
    document = (SOURCE / "index.html").read_text("utf-8")
    named = set(re.findall(r'"page/([^"]+)"', document))
    for path in SOURCE.glob("*.js"):
        named |= set(re.findall(r'from "\./([^"]+)"', path.read_text("utf-8")))
    assert sorted({*named, "index.html"}) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_no_other_address_and_parses_no_text_as_markup(name: str) -> None:
    text = (SOURCE / name).read_text("utf-8")
    assert set(re.findall(r"\b(?:https?|wss?):[^\s\"'`)]+|[\"'(]//\w[^\"')]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
        r"|localStorage|sessionStorage|indexedDB|document\.cookie|\son\w+=\"|style=\"|@import|javascript:",
        text,
    )
    assert len(text.splitlines()) <= 400, "files stay small"
    assert max(map(len, text.splitlines())) <= (300 if name.endswith(".svg") else 160)

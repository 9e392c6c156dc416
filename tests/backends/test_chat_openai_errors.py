"""What goes wrong with an OpenAI-compatible server, and what it refuses."""

import asyncio
import traceback
from typing import Any

import openai
import pytest
from tests.fake_openai import FakeOpenAI, Reply, error, fake_openai
from tests.openai_calls import KEY, SCHEMA, chat_for, complete, request, stream

from corrigenda.backends.chat_openai import OpenAIChat
from corrigenda.backends.openai_errors import Server, translate
from corrigenda.errors import (
    BackendError,
    BadReply,
    ConfigError,
    RateLimited,
    RequestRefused,
    TimedOut,
    Unauthorized,
    Unreachable,
)

# Errors


@pytest.mark.parametrize(
    ("status", "kind", "remedy"),
    [
        (300, BackendError, "server's own message"),
        (400, RequestRefused, "does not take this request"),
        (401, Unauthorized, "check the API key"),
        (403, Unauthorized, "no right"),
        (404, RequestRefused, "check the model's name"),
        (408, TimedOut, "server's own message"),
        (409, RequestRefused, "server's own message"),
        (418, RequestRefused, "server's own message"),
        (413, RequestRefused, "too long"),
        (422, RequestRefused, "does not take this request"),
        (429, RateLimited, "wait"),
        (500, BackendError, "try again later"),
        (503, BackendError, "try again later"),
        (504, TimedOut, "try again later"),
    ],
)
@pytest.mark.parametrize("ask", [complete, stream])
def test_every_status_has_its_exception(
    server: FakeOpenAI, status: int, kind: type[BackendError], remedy: str, ask: Any
) -> None:
    server.default = error(status, {"error": {"message": "the reason"}})
    with pytest.raises(kind, match=f"127.0.0.1:{server.port} answered {status}: the reason; .*{remedy}") as caught:
        ask(chat_for(server))
    assert type(caught.value) is kind
    assert isinstance(caught.value.__cause__, openai.APIStatusError)
    if isinstance(caught.value, RequestRefused):
        assert caught.value.status == status


@pytest.mark.parametrize("body", [{"error": {"message": f"bad key {KEY}"}}, f"echo {KEY}", {"detail": [KEY]}])
@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("ask", [complete, stream])
def test_the_key_is_in_no_message_and_no_traceback(server: FakeOpenAI, body: Any, status: int, ask: Any) -> None:
    server.default = error(status, body)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1") as caught:
        ask(chat_for(server, api_key=KEY))
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_a_key_is_hidden_before_a_body_is_cut() -> None:
    hidden = Server("http://user:pass-word@h:1/secret-path?token=query-secret", [KEY])
    assert hidden.place == "http://h:1"
    assert hidden.excerpt("x" * 190 + KEY) == "x" * 190 + "***"
    assert hidden.hide("pass-word query-secret user") == "*** *** user"
    assert Server("http://[::1]:8/v1", []).place == "http://[::1]:8"


LOGIN = "http://us%40er:hunt%2Fer2@127.0.0.1:{port}/v1?key=a%20query-secret"


def echo(headers: dict[str, str]) -> dict[str, Any]:
    return {"error": {"message": f"not for {headers.get('authorization')}", "seen": headers}}


@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("ask", [complete, stream])
def test_a_password_in_the_address_is_in_no_message_however_the_server_says_it(
    server: FakeOpenAI, status: int, ask: Any
) -> None:
    server.default = lambda _: error(status, echo(server.received[-1].headers))
    with pytest.raises(BackendError, match=r"not for Basic \*\*\*") as caught:
        ask(OpenAIChat("m", base_url=LOGIN.format(port=server.port), max_retries=0))
    assert server.received[0].headers["authorization"] == "Basic dXNAZXI6aHVudC9lcjI="
    told = "".join(traceback.format_exception(caught.value))
    assert [form for form in ("dXNAZXI6", "hunt/er2", "hunt%2Fer2", "a query-secret") if form in told] == []


@pytest.mark.parametrize(
    ("address", "secrets", "said"),
    [
        ("http://user:hunter2@h", [], "Basic dXNlcjpodW50ZXIy"),
        ("http://user:hunter2@h", [], "user:hunter2"),
        ("http://u:pw1@h", [], "Basic dTpwdzE="),  # too short by themselves, but not together
        ("http://u:pw1@h", [], "Basic dTpwdzE"),
        ("http://user:pw1@h", [], "user:pw1!"),
        ("http://sk-token-of-a-user@h", [], "Basic c2stdG9rZW4tb2YtYS11c2VyOg=="),
        ("http://us%C3%A9r:p%20w%C3%A9%3F%3E@h", [], "usér:p wé?>"),
        ("http://us%C3%A9r:p%20w%C3%A9%3F%3E@h", [], "Basic dXPDqXI6cCB3w6k/Pg=="),
        ("http://us%C3%A9r:p%20w%C3%A9%3F%3E@h", [], "Basic dXPDqXI6cCB3w6k_Pg=="),
        ("http://us%C3%A9r:p%20w%C3%A9%3F%3E@h", [], r"p w\u00e9?>"),
        ("http://h/?token=query%2Bsecret", [], "query+secret"),
        ("http://h", ["Bearer sk-12345678"], "sk-12345678"),
        ("http://h", ["Basic dXNlcjpodW50ZXIy"], "dXNlcjpodW50ZXIy"),
        ("http://h", ["Basic dXNlcjpodW50ZXIy"], "hunter2"),
        ("http://h", ['se"cr\\et'], 'se\\"cr\\\\et'),
        ("http://h", ["se<cr>et&"], "se&lt;cr&gt;et&amp;"),
        ("http://h", ["se/cr/et"], "se%2Fcr%2Fet"),
    ],
)
def test_a_secret_is_hidden_in_every_form_of_it(address: str, secrets: list[str], said: str) -> None:
    hidden = Server(address, secrets).hide(f"so: {said}")
    assert "***" in hidden
    assert hidden.removeprefix("so: ").removeprefix("Basic ").strip("*=!> ") == ""


def test_what_only_looks_like_a_login_hides_nothing_more() -> None:
    server = Server("http://h/v1", ["Basic not-in-base64!", "text/plain charset", "", None])
    assert server.hide("a charset, and plain text: not-in-base64") == "a charset, and plain text: not-in-base64"
    assert not server.has_login
    assert not Server("http://:@h/v1", []).has_login


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"api_key": KEY}, r"an API key \(OPENAI_API_KEY, api_key\)"),
        ({"headers": {"authorization": f"Bearer {KEY}"}}, r"an Authorization header \(headers\)"),
    ],
)
def test_a_login_in_the_address_and_a_key_are_one_too_many(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"base_url holds a name or password for http://h:1, and there is {told} too"
    ) as caught:
        OpenAIChat("m", base_url="http://user:hunter2@h:1/v1", **settings)
    assert [secret for secret in ("hunter2", KEY) if secret in str(caught.value)] == []
    OpenAIChat("m", base_url="http://user:hunter2@h:1/v1", api_key=" ", headers={"X-Team": "blue"})


def test_html_error_pages_are_shortened(server: FakeOpenAI) -> None:
    server.default = Reply(
        chunks=[b"<html>\n <h1>Bad Gateway</h1>" + b"x" * 5000], status=502, content_type="text/html"
    )
    with pytest.raises(BackendError, match="answered 502: <html> <h1>Bad Gateway") as caught:
        complete(chat_for(server))
    assert len(str(caught.value)) < 400


def test_no_server_there() -> None:
    chat = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(Unreachable, match=r"no connection to http://127.0.0.1:9 \(.+\); is the server running"):
        complete(chat)
    with pytest.raises(Unreachable, match=r"no connection to http://127.0.0.1:9"):
        stream(OpenAIChat("m", base_url="http://127.0.0.1:9/v1", max_retries=0))


@pytest.mark.parametrize("ask", [complete, stream])
def test_a_slow_server_is_timed_out(server: FakeOpenAI, ask: Any) -> None:
    server.default = Reply(chunks=[b"{"], pause_s=0.4)
    with pytest.raises(TimedOut, match=r"did not answer within 0\.1 s; raise request_timeout"):
        ask(chat_for(server, timeout_s=0.1))


def test_passing_failures_are_tried_again_as_often_as_was_said(server: FakeOpenAI) -> None:
    busy = error(503, {"error": {"message": "busy"}}, retry_after_ms="1")
    server.script = [busy, error(429, {}, retry_after="0.01")]
    assert complete(chat_for(server, max_retries=2)).text == "Rome has seven hills."
    assert len(server.received) == 3
    server.script = [busy] * 3
    with pytest.raises(BackendError, match="answered 503: busy"):
        complete(chat_for(server, max_retries=2))
    assert len(server.received) == 6


def test_a_refused_request_is_not_tried_again(server: FakeOpenAI) -> None:
    server.default = error(400, {"error": {"message": "no"}})
    with pytest.raises(RequestRefused, match="answered 400: no"):
        complete(chat_for(server, max_retries=2))
    assert len(server.received) == 1


def _all_subclasses(cls: type[Exception]) -> set[type[Exception]]:
    return {cls}.union(*map(_all_subclasses, cls.__subclasses__()))


LIBRARY_ERRORS = {cls.__name__: cls for cls in _all_subclasses(openai.OpenAIError)}


@pytest.mark.parametrize("name", sorted(LIBRARY_ERRORS))
def test_every_exception_of_the_library_is_mapped(name: str) -> None:
    expected = {
        "APITimeoutError": TimedOut,
        "APIConnectionError": Unreachable,
        "APIResponseValidationError": BadReply,
        "BadRequestError": RequestRefused,
        "NotFoundError": RequestRefused,
        "ConflictError": RequestRefused,
        "UnprocessableEntityError": RequestRefused,
        "AuthenticationError": Unauthorized,
        "OAuthError": Unauthorized,
        "PermissionDeniedError": Unauthorized,
        "RateLimitError": RateLimited,
    }
    cls = LIBRARY_ERRORS[name]
    instance = cls.__new__(cls)
    Exception.__init__(instance, f"said {KEY}")
    translated = translate(instance, Server("http://h/v1", [KEY]), 1.0)
    assert type(translated) is expected.get(name, BackendError)
    assert "http://h" in str(translated)
    assert KEY not in str(translated) + str(instance)


# What a server refuses is left out


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, {"error": {"message": "response_format is not supported", "param": "response_format"}}),
        error(422, {"detail": [{"loc": ["body", "response_format"], "msg": "extra fields not permitted"}]}),
        error(404, {"error": "json_schema is unknown here"}),
        Reply(chunks=[b"unknown field: response_format"], status=400, content_type="text/plain"),
    ],
)
def test_a_json_schema_is_left_out_once_refused(server: FakeOpenAI, refusal: Reply) -> None:
    server.script = [refusal]

    async def work() -> list[str]:
        chat = chat_for(server)
        texts = [(await chat.complete(request(json_schema=SCHEMA))).text for _ in range(2)]
        await chat.aclose()
        return texts

    assert asyncio.run(work()) == ["Rome has seven hills."] * 2
    assert ["response_format" in body for body in server.bodies] == [True, False, False]


def test_an_echo_of_the_request_is_no_complaint(server: FakeOpenAI) -> None:
    echo = {"detail": [{"loc": ["body", "seed"], "msg": "no", "input": {"temperature": 1, "max_tokens": 5}}]}
    server.script = [error(422, echo)]
    complete(chat_for(server), request(seed=1, temperature=1.0, max_tokens=5))
    assert [sorted(body) for body in server.bodies] == [
        ["max_tokens", "messages", "model", "seed", "temperature"],
        ["max_tokens", "messages", "model", "temperature"],
    ]


def test_newer_models_get_the_cap_by_its_newer_name(server: FakeOpenAI) -> None:
    server.script = [
        error(400, {"error": {"param": "max_tokens", "message": "use max_completion_tokens, not max_tokens"}}),
        error(400, {"error": {"param": "temperature", "message": "only the default temperature is supported"}}),
    ]
    complete(chat_for(server), request(max_tokens=9, temperature=0.0))
    asked = {"model": "m", "messages": [{"role": "user", "content": "How many hills?"}]}
    assert server.bodies == [
        asked | {"max_tokens": 9, "temperature": 0.0},
        asked | {"max_completion_tokens": 9, "temperature": 0.0},
        asked | {"max_completion_tokens": 9},
    ]


def test_a_cap_that_is_too_large_is_no_refusal_of_the_setting(server: FakeOpenAI) -> None:
    server.script = [error(400, {"error": {"message": "max_tokens is too large"}})] * 2

    async def work() -> None:
        chat = chat_for(server)
        with pytest.raises(RequestRefused, match="max_tokens is too large"):
            await chat.complete(request(max_tokens=99999))
        await chat.complete(request(max_tokens=5))
        await chat.aclose()

    asyncio.run(work())
    assert server.bodies[-1]["max_tokens"] == 5


def test_other_refusals_are_passed_on(server: FakeOpenAI) -> None:
    server.script = [error(400, {"error": {"message": "the prompt is empty"}}), error(404, [1, {"msg": None}])]
    for status in (400, 404):
        with pytest.raises(RequestRefused, match=f"answered {status}"):
            complete(chat_for(server), request(json_schema=SCHEMA, seed=1))
    assert len(server.received) == 2


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("ask", [complete, stream])
def test_no_redirect_is_followed(server: FakeOpenAI, status: int, ask: Any) -> None:
    with fake_openai() as other:
        target = f"http://me:hush@localhost:{other.port}/v1/{KEY}?k={KEY}"
        server.default = Reply(status=status, headers={"Location": target})
        message = (
            f"^http://127.0.0.1:{server.port} answered {status}: it redirects to http://localhost:{other.port}, where "
            r"nothing was sent; if that is the right place, set base_url \(--base-url\) to its address$"
        )
        with pytest.raises(BackendError, match=message) as caught:
            ask(chat_for(server, api_key=KEY, headers={"X-Secret": "hush-hush"}))
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert (len(server.received), other.received) == (1, [])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "/v1/elsewhere",
            "it redirects to another path of its own, where nothing was sent; if that is the right place",
        ),
        ("http://[::1", "nothing; see the server's own message"),
        ("mailto:me", "nothing; see the server's own message"),
    ],
)
def test_a_redirect_to_no_other_server_is_an_error_too(server: FakeOpenAI, target: str, message: str) -> None:
    server.default = Reply(status=307, headers={"Location": target})
    with pytest.raises(BackendError, match=f"127.0.0.1:{server.port} answered 307: {message}"):
        complete(chat_for(server))
    assert len(server.received) == 1

"""The LangChain Runnable, with the real package: as LangChain defines a Runnable, and silent towards LangSmith."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tracers.context import tracing_v2_callback_var
from langchain_core.tracers.langchain import LangChainTracer
from langsmith import Client, get_tracing_context, tracing_context
from tests.scripted import ANSWER, ASKED, REWRITE, make
from tests.upstream import Verifier, asked, hills

from corrigenda import BackendError, ConfigError, Corrigenda, InputError, MissingExtra, Report, Settings, Status
from corrigenda.integrations import require
from corrigenda.integrations.langchain import CorrigendaRunnable

HILLS = "Rome stands on seven hills."
CORRECTED = "Rome has seven hills. It is in Italy."


@pytest.fixture
def corrigenda() -> Iterator[Corrigenda]:
    with make([*ASKED, REWRITE]) as made:
        yield made


def test_an_answer_becomes_the_corrected_text(corrigenda: Corrigenda) -> None:
    checked = CorrigendaRunnable(corrigenda, context=HILLS)
    assert checked.invoke(ANSWER) == CORRECTED
    assert asyncio.run(checked.ainvoke(ANSWER)) == CORRECTED
    assert checked.invoke(AIMessage(ANSWER)) == CORRECTED


def test_the_output_can_be_the_report(corrigenda: Corrigenda) -> None:
    checked = CorrigendaRunnable(corrigenda, output="report")
    report = checked.invoke({"answer": ANSWER, "question": "How many hills has Rome?", "contexts": HILLS})
    assert isinstance(report, Report)
    assert (report.status, report.question, report.final_answer) == (
        Status.CORRECTED,
        "How many hills has Rome?",
        CORRECTED,
    )
    assert [r.source for r in report.references] == ["context"]


def test_a_retrievers_documents_are_the_context_and_keep_their_sources(corrigenda: Corrigenda) -> None:
    checked = CorrigendaRunnable(corrigenda, output="report", context="unused")
    documents = [Document(HILLS, metadata={"source": "rome.txt"}), Document("It is old.", id="7"), Document("Old.")]
    report = checked.invoke({"answer": ANSWER, "contexts": [*documents, "It is in Italy."]})
    assert isinstance(report, Report)
    assert [r.source for r in report.references] == ["rome.txt", "7", "context 3", "context 4"]
    alone = checked.invoke({"answer": ANSWER, "contexts": documents[0]})
    assert isinstance(alone, Report)
    assert [r.source for r in alone.references] == ["rome.txt"]


def test_a_question_without_an_answer_is_asked(corrigenda: Corrigenda) -> None:
    checked = CorrigendaRunnable(corrigenda, output="report")
    report = checked.invoke({"question": AIMessage("How many hills has Rome?")})
    assert isinstance(report, Report)
    assert (report.answer, report.final_answer, report.references[0].source) == (ANSWER, CORRECTED, "recall")
    assert isinstance(asyncio.run(checked.ainvoke({"question": "How many hills has Rome?"})), Report)


def test_it_is_a_step_of_a_chain(corrigenda: Corrigenda) -> None:
    prompt = ChatPromptTemplate.from_messages([("user", "{question}")])
    model = GenericFakeChatModel(messages=iter([AIMessage(ANSWER)] * 3))
    chain = prompt | model | CorrigendaRunnable(corrigenda, context=HILLS)
    assert chain.invoke({"question": "How many hills has Rome?"}) == CORRECTED
    assert list(chain.stream({"question": "How many hills has Rome?"})) == [CORRECTED]  # it takes the whole answer
    retrieving = (
        RunnablePassthrough.assign(contexts=RunnableLambda(lambda _: [Document(HILLS)]))
        | RunnablePassthrough.assign(answer=prompt | model)
        | CorrigendaRunnable(corrigenda)
    )
    assert retrieving.invoke({"question": "How many hills has Rome?"}) == CORRECTED


def test_batch_stream_and_their_asynchronous_forms_are_langchains_own(corrigenda: Corrigenda) -> None:
    checked = CorrigendaRunnable(corrigenda, context=HILLS)
    inputs: list[Any] = [ANSWER, "It is in Italy.", {"nonsense": 1}]
    got = checked.batch(inputs, return_exceptions=True)
    assert got[:2] == [CORRECTED, "It is in Italy."]
    assert isinstance(got[2], InputError)
    assert list(checked.stream(ANSWER)) == [CORRECTED]

    async def asynchronous() -> list[Any]:
        streamed = [chunk async for chunk in checked.astream(ANSWER)]
        events = [e["event"] async for e in checked.astream_events(ANSWER, version="v2")]
        return [await checked.abatch(inputs[:2]), streamed, events]

    assert asyncio.run(asynchronous()) == [
        [CORRECTED, "It is in Italy."],
        [CORRECTED],
        ["on_chain_start", "on_chain_stream", "on_chain_end"],
    ]


NO_WAIT = Settings(llm="none", decomposer="deterministic", language="en")
PIECES = ["Rome has seven hills.", " It is in Italy."]
QUESTION = {"question": "How many hills has Rome?"}


def test_an_answer_to_a_question_comes_sentence_by_sentence(corrigenda: Corrigenda) -> None:
    checked, report = CorrigendaRunnable(corrigenda), CorrigendaRunnable(corrigenda, output="report")
    passing: Any = RunnablePassthrough() | checked
    upper = RunnableLambda(lambda text: text.upper())
    listener = Listener()

    async def go() -> list[list[Any]]:
        config: Any = {"callbacks": [listener], "run_name": "asking"}
        return [
            [piece async for piece in checked.astream(QUESTION, config)],
            [piece async for piece in checked.astream({**QUESTION, "contexts": [Document(HILLS)]})],
            [piece async for piece in passing.astream(QUESTION)],
            [piece async for piece in (checked | upper).astream(QUESTION)],
            [e["data"].get("chunk") async for e in checked.astream_events(QUESTION, version="v2")],
            [piece async for piece in checked.astream({**QUESTION, "answer": ANSWER, "contexts": HILLS})],
            [piece.final_answer async for piece in report.astream(QUESTION) if isinstance(piece, Report)],
        ]

    assert asyncio.run(go()) == [
        PIECES,
        PIECES,
        PIECES,
        [CORRECTED.upper()],
        [None, *PIECES, None],
        [CORRECTED],
        [CORRECTED],
    ]
    # LangChain tells the input of a stream at its end, since it may come in pieces, too.
    assert listener.heard == [("start", "asking", {"input": ""}, []), ("end", CORRECTED)]


def test_a_sentence_comes_while_the_model_still_answers() -> None:
    async def go() -> list[Any]:
        gate = asyncio.Event()
        chat = asked("Rome has 5 hills. It is", gate, " in Italy.")
        c = Corrigenda(llm=chat, nli=Verifier(hills), settings=NO_WAIT)
        async with c, aclosing(CorrigendaRunnable(c).astream(QUESTION)) as pieces:  # type: ignore[type-var]
            first = await anext(pieces)
            gate.set()
            return [first, *[piece async for piece in pieces]]

    assert asyncio.run(go()) == PIECES


def test_who_stops_early_cancels_the_models_call() -> None:
    async def go() -> tuple[Any, int, int]:
        chat = asked("Rome has 5 hills. It is", asyncio.Event())
        async with Corrigenda(llm=chat, nli=Verifier(hills), settings=NO_WAIT) as c:
            async with aclosing(CorrigendaRunnable(c).astream(QUESTION)) as pieces:  # type: ignore[type-var]
                first, running = await anext(pieces), chat.running
            return first, running, chat.running

    assert asyncio.run(go()) == (PIECES[0], 1, 0)


def test_an_empty_answer_is_a_piece_and_what_goes_wrong_is_raised() -> None:
    async def go(*steps: Any) -> list[Any]:
        async with Corrigenda(llm=asked(*steps), nli=Verifier(hills), settings=NO_WAIT) as c:
            return [piece async for piece in CorrigendaRunnable(c).astream(QUESTION)]

    assert asyncio.run(go()) == [""]
    with pytest.raises(BackendError, match="it is gone"):
        asyncio.run(go(BackendError("it is gone")))
    with pytest.raises(InputError, match="the input has neither an answer nor a question; give one of them"):
        asyncio.run(anext(CorrigendaRunnable(llm="none", nli="scripted:none.json").astream({})))  # type: ignore[arg-type]


class Listener(BaseCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
        self.heard.append(("start", more["name"], inputs, more["tags"]))

    def on_chain_end(self, outputs: Any, **_: Any) -> None:
        self.heard.append(("end", outputs))

    def on_chain_error(self, error: BaseException, **_: Any) -> None:
        self.heard.append(("error", type(error).__name__))


def test_callbacks_tags_and_names_work_as_for_every_runnable(corrigenda: Corrigenda) -> None:
    listener = Listener()
    checked = CorrigendaRunnable(corrigenda, context=HILLS)
    checked.invoke(ANSWER, {"callbacks": [listener], "tags": ["mine"], "run_name": "checking"})
    with pytest.raises(InputError, match="the answer is empty; give its text"):
        checked.with_config({"callbacks": [listener]}).invoke(" ")
    assert listener.heard == [
        ("start", "checking", ANSWER, ["mine"]),
        ("end", CORRECTED),
        ("start", "CorrigendaRunnable", " ", []),
        ("error", "InputError"),
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "the input must be a text, a message or a dict with answer, question, contexts, got int"),
        ({}, "the input has neither an answer nor a question; give one of them"),
        ({"answer": "a", "context": "c"}, "unknown key 'context' in the input; there are answer, contexts, question"),
        ({"answer": 3}, "the answer must be a text or a message, got int"),
        ({"question": ["q"]}, "the question must be a text or a message, got list"),
    ],
)
def test_an_input_that_is_none_is_refused(corrigenda: Corrigenda, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CorrigendaRunnable(corrigenda).invoke(value)


def test_schemas_say_what_goes_in_and_comes_out(corrigenda: Corrigenda) -> None:
    text, report = CorrigendaRunnable(corrigenda), CorrigendaRunnable(corrigenda, output="report")
    assert text.get_output_jsonschema() == {"title": "CorrigendaRunnableOutput", "type": "string"}
    assert "final_answer" in str(report.get_output_jsonschema())
    assert "contexts" in str(text.get_input_jsonschema())


def test_its_own_corrigenda_is_made_from_settings_and_closed(tmp_path: Path) -> None:
    (tmp_path / "nli.json").write_text('{"rules": [{"scores": [0.98, 0.01, 0.01]}]}')
    checked = CorrigendaRunnable(
        llm="none", decomposer="deterministic", nli=f"scripted:{tmp_path / 'nli.json'}", context=HILLS
    )
    assert checked.invoke(ANSWER) == ANSWER
    checked.close()


def test_wrong_arguments_are_refused(corrigenda: Corrigenda) -> None:
    with pytest.raises(ConfigError, match="unknown output 'words'; there are report and text"):
        CorrigendaRunnable(corrigenda, output="words")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="llm cannot be set beside a Corrigenda, which has its own settings"):
        CorrigendaRunnable(corrigenda, llm="none")
    CorrigendaRunnable(corrigenda).close()
    assert corrigenda.check_sync(ANSWER, context=HILLS).final_answer == CORRECTED  # one that was given stays open


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match=r"the X needs the package 'no_such_x'.* \"corrigenda\[langchain\]\""):
        require("the X", "no_such_x", "langchain")


@pytest.fixture
def langsmith() -> Iterator[tuple[str, list[str]]]:
    """A server in LangSmith's place, and the paths of the requests that it gets."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            got.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", got
    server.shutdown()
    thread.join()
    server.server_close()


TRACED = """
import asyncio
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_core.tracers.langchain import wait_for_all_tracers
from corrigenda.integrations.langchain import CorrigendaRunnable
from tests.scripted import ANSWER, make

async def streamed(checked):
    return [piece async for piece in checked.astream(ANSWER)]

with make(None) as c:
    checked = CorrigendaRunnable(c, context="Rome stands on seven hills.", traced={traced})
    {use}
wait_for_all_tracers()
"""
ALONE = (
    "checked.invoke(ANSWER), asyncio.run(checked.ainvoke(ANSWER)), checked.batch([ANSWER]), [*checked.stream(ANSWER)],"
    " asyncio.run(streamed(checked))"
)
IN_A_BLOCK = "with tracing_v2_enabled(): checked.invoke(ANSWER)"
CALLED_INSIDE = "RunnableLambda(lambda a: checked.invoke(a)).with_config(tags=['outer']).invoke(ANSWER)"


def run_traced(url: str, use: str, *, traced: bool) -> None:
    environment = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "k", "LANGSMITH_ENDPOINT": url}
    subprocess.run(
        [sys.executable, "-c", TRACED.format(use=use, traced=traced)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("use", [ALONE, IN_A_BLOCK])
def test_langsmith_gets_nothing_even_where_the_environment_asks_for_it(
    langsmith: tuple[str, list[str]], use: str
) -> None:
    url, got = langsmith
    run_traced(url, use, traced=False)
    assert [path for path in got if path != "/info"] == []  # which the block itself asks for, before any run


def test_langsmith_gets_this_step_when_it_is_asked_for(langsmith: tuple[str, list[str]]) -> None:
    url, got = langsmith
    run_traced(url, ALONE, traced=True)
    assert [path for path in got if path != "/info"] != []


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("through_context", [False, True])
def test_a_chains_langsmith_tracer_does_not_hear_this_step(
    corrigenda: Corrigenda, traced: bool, through_context: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(LangChainTracer, "_persist_run_single", lambda _, run: heard.append(run.name))
    monkeypatch.setattr(LangChainTracer, "_update_run_single", lambda *_: None)
    client = Client("http://127.0.0.1:9", api_key="k", auto_batch_tracing=False, info={})
    checked = CorrigendaRunnable(corrigenda, context=HILLS, traced=traced)
    first = RunnableLambda(lambda text: text, name="first")

    def call(text: str) -> Any:
        return checked.invoke(text)  # no config is passed on: it comes through the context

    last: Any = RunnableLambda(call) if through_context else checked
    listener = Listener()
    (first | last).invoke(ANSWER, {"callbacks": [LangChainTracer(client=client), listener]})
    assert ("CorrigendaRunnable" in heard) is traced
    assert "first" in heard
    assert "CorrigendaRunnable" in [entry[1] for entry in listener.heard if entry[0] == "start"]


@pytest.mark.parametrize("traced", [False, True])
def test_a_stream_is_as_quiet_and_leaves_its_reader_alone(
    corrigenda: Corrigenda, traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(LangChainTracer, "_persist_run_single", lambda _, run: heard.append(run.name))
    monkeypatch.setattr(LangChainTracer, "_update_run_single", lambda *_: None)
    client = Client("http://127.0.0.1:9", api_key="k", auto_batch_tracing=False, info={})
    tracer = LangChainTracer(client=client)
    checked = CorrigendaRunnable(corrigenda, traced=traced)

    async def go() -> list[Any]:
        found = []
        with tracing_context(enabled=True, client=client):
            token = tracing_v2_callback_var.set(tracer)
            async for piece in (RunnableLambda(lambda value: value, name="first") | checked).astream(QUESTION):
                found.append((piece, get_tracing_context()["enabled"], tracing_v2_callback_var.get() is tracer))
            async for piece in checked.astream(QUESTION):
                found.append((piece, get_tracing_context()["enabled"], tracing_v2_callback_var.get() is tracer))
            tracing_v2_callback_var.reset(token)
        return found

    assert asyncio.run(go()) == [(piece, True, True) for piece in PIECES] * 2
    assert ("CorrigendaRunnable" in heard) is traced
    assert "first" in heard

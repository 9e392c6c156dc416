"""The MCP server, driven by the official package's own client over real standard streams, with scripted models."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent
from tests.scripted import ANSWER, ASKED, FIVE_HILLS, REWRITE

from corrigenda.cli import main
from corrigenda.report import from_dict

HILLS = "Rome stands on seven hills."
QUESTION = "How many hills has Rome?"


@pytest.fixture
def scripted(tmp_path: Path) -> list[str]:
    """The flags that name scripted models which know about Rome."""
    (tmp_path / "chat.json").write_text(json.dumps({"rules": [*ASKED, REWRITE]}))
    (tmp_path / "nli.json").write_text(json.dumps({"rules": FIVE_HILLS}))
    return flags(tmp_path)


def flags(folder: Path) -> list[str]:
    named = ["--llm", f"scripted:{folder / 'chat.json'}", "--nli", f"scripted:{folder / 'nli.json'}"]
    return [*named, "--decomposer", "deterministic"]


def talk(command: Sequence[str], work: Callable[[Client], Awaitable[Any]], errors: Path | None = None) -> Any:
    """Start the command, connect a client to its standard streams, and return what `work` makes of it."""

    async def run() -> Any:
        with (errors or Path(os.devnull)).open("w") as stderr:
            server = StdioServerParameters(command=sys.executable, args=list(command), env=dict(os.environ))
            async with Client(stdio_client(server, errlog=stderr)) as client:
                return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 60))


def call(flags: list[str], tool: str, **arguments: Any) -> CallToolResult:
    async def work(client: Client) -> CallToolResult:
        return await client.call_tool(tool, arguments)

    found = talk(["-m", "corrigenda", "mcp", *flags], work)
    assert isinstance(found, CallToolResult)
    return found


def error(result: CallToolResult) -> str:
    assert result.is_error
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_it_offers_two_tools_that_say_what_they_take(scripted: list[str]) -> None:
    async def work(client: Client) -> Any:
        listed = await client.list_tools()
        assert client.server_info is not None
        return client.server_info.name, client.instructions, listed.tools

    name, instructions, tools = talk(["-m", "corrigenda", "mcp", *scripted], work)
    assert name == "corrigenda"
    assert "claim by claim" in instructions
    assert [(t.name, sorted(t.input_schema["properties"]), t.input_schema["required"]) for t in tools] == [
        ("verify", ["answer", "contexts", "correct", "full", "question"], ["answer"]),
        ("ask", ["full", "question"], ["question"]),
    ]
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert sorted(tool.output_schema["properties"]) == [
            "answer",
            "claims",
            "final_answer",
            "reason",
            "report",
            "status",
            "warnings",
        ]
        assert all(p["description"] for p in tool.input_schema["properties"].values())


def test_verify_checks_and_corrects_an_answer(scripted: list[str]) -> None:
    result = call(scripted, "verify", answer=ANSWER, contexts=[HILLS])
    assert not result.is_error
    found = result.structured_content
    assert found is not None
    warnings = found.pop("warnings")
    assert found == {
        "status": "corrected",
        "reason": None,
        "answer": ANSWER,
        "final_answer": "Rome has seven hills. It is in Italy.",
        "claims": [
            {
                "text": "Rome has 5 hills.",
                "span": [0, 17],
                "verdict": "contradicted",
                "reason": "the reference contradicts it",
                "signed_score": -0.98,
                "evidence": HILLS,
                "source": "context",
            },
            {
                "text": "It is in Italy.",
                "span": [18, 33],
                "verdict": "supported",
                "reason": "the reference entails it",
                "signed_score": 0.98,
                "evidence": HILLS,
                "source": "context",
            },
        ],
        "report": None,
    }
    [content] = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == {**found, "warnings": warnings}


def test_verify_can_leave_the_answer_as_it_is_and_return_the_whole_report(scripted: list[str]) -> None:
    found = call(scripted, "verify", answer=ANSWER, question=QUESTION, correct=False, full=True).structured_content
    assert found is not None
    assert (found["status"], found["final_answer"], found["claims"][0]["source"]) == ("contradicted", ANSWER, "recall")
    assert from_dict(found["report"]).question == QUESTION


def test_ask_answers_and_corrects(scripted: list[str]) -> None:
    found = call(scripted, "ask", question=QUESTION).structured_content
    assert found is not None
    assert (found["answer"], found["final_answer"]) == (ANSWER, "Rome has seven hills. It is in Italy.")


MISUSE: list[tuple[str, dict[str, Any], str]] = [
    ("verify", {"answer": ANSWER}, "there is nothing to check against; give contexts, or a question to recall from"),
    ("verify", {"answer": " ", "contexts": [HILLS]}, "the answer is empty; give its text"),
    (
        "verify",
        {"answer": "a" * 1_000_001, "contexts": []},
        "answer: 1,000,001 characters; 1,000,000 are the most that are",
    ),
    ("verify", {"answer": "a", "contexts": [HILLS] * 40_000}, "contexts: 1,080,000 characters; 1,000,000 are the most"),
    ("verify", {"contexts": [HILLS]}, "answer"),
    ("verify", {"answer": 5, "contexts": [HILLS]}, "Input should be a valid string"),
    ("ask", {"question": ""}, "the question is empty; give its text"),
    ("ask", {"question": "Who?", "full": "perhaps"}, "Input should be a valid boolean"),
]


def test_misuse_is_an_error_that_says_what_to_do(scripted: list[str]) -> None:
    async def work(client: Client) -> list[CallToolResult]:
        return [await client.call_tool(tool, arguments) for tool, arguments, _ in MISUSE]

    results = talk(["-m", "corrigenda", "mcp", *scripted], work)
    wrong = [(m, error(result)) for result, (_, _, m) in zip(results, MISUSE, strict=True) if m not in error(result)]
    assert wrong == []


def test_a_backend_that_fails_is_told_and_the_server_goes_on(tmp_path: Path) -> None:
    rules = [
        {"stage": "generate", "error": {"status": 503, "body": "overloaded"}, "times": 1},
        *ASKED,
    ]
    (tmp_path / "chat.json").write_text(json.dumps({"rules": rules}))
    (tmp_path / "nli.json").write_text(json.dumps({"rules": FIVE_HILLS}))

    async def work(client: Client) -> Any:
        return [await client.call_tool("ask", {"question": QUESTION}) for _ in range(2)]

    first, second = talk(["-m", "corrigenda", "mcp", *flags(tmp_path)], work)
    assert "503" in error(first)
    assert second.structured_content["status"] == "corrected"


def test_calls_run_beside_each_other_and_one_that_is_given_up_stops_nothing(tmp_path: Path) -> None:
    rules = [{"stage": "generate", "contains": "slow", "reply": "Slow.", "first_token_s": 600}, *ASKED]
    (tmp_path / "chat.json").write_text(json.dumps({"rules": rules}))
    (tmp_path / "nli.json").write_text(json.dumps({"rules": FIVE_HILLS}))

    async def work(client: Client) -> Any:
        slow = asyncio.create_task(client.call_tool("ask", {"question": "A slow question?"}))
        quick = await client.call_tool("ask", {"question": QUESTION})
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        again = await client.call_tool("ask", {"question": QUESTION})
        return [result.structured_content["status"] for result in (quick, again)]

    assert talk(["-m", "corrigenda", "mcp", *flags(tmp_path)], work) == ["corrected", "corrected"]


NOISY = """
import os, sys
from corrigenda.backends.chat_scripted import ScriptedChat
from corrigenda.cli import main

quiet = ScriptedChat.complete

async def noisy(self, request):
    print("a library prints")
    os.write(1, b"native code prints\\n")
    return await quiet(self, request)

ScriptedChat.complete = noisy
sys.exit(main(["mcp", *sys.argv[1:]]))
"""


def test_whatever_is_printed_goes_to_standard_error_and_the_protocol_is_not_disturbed(
    scripted: list[str], tmp_path: Path
) -> None:
    async def work(client: Client) -> Any:
        return await client.call_tool("verify", {"answer": ANSWER, "contexts": [HILLS]})

    errors = tmp_path / "stderr.txt"
    result = talk(["-c", NOISY, *scripted], work, errors)
    assert result.structured_content["status"] == "corrected"
    assert "native code prints" in errors.read_text()


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "corrigenda", "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def test_every_line_of_standard_output_is_a_message_and_the_end_of_input_ends_it(scripted: list[str]) -> None:
    messages: list[dict[str, Any]] = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with start(scripted) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("this is no message\n" + "".join(json.dumps(m) + "\n" for m in messages))
        process.stdin.flush()
        lines: list[str] = []
        while not lines or json.loads(lines[-1]).get("id") != 2:
            lines.append(process.stdout.readline())
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(30) == 0
    assert rest == ""
    assert {json.loads(line)["jsonrpc"] for line in lines} == {"2.0"}


def test_an_interrupt_ends_it(scripted: list[str]) -> None:
    with start(scripted) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read().endswith("interrupted\n")


def test_wrong_settings_are_told_on_standard_error_before_anything_is_served(tmp_path: Path) -> None:
    with start(["--llm", "nonsense"]) as process:
        out, err = process.communicate("", timeout=30)
    assert (process.returncode, out) == (2, "")
    assert "flag --llm: unknown llm 'nonsense'" in err


def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("corrigenda.integrations.find_spec", lambda _: None)
    assert main(["mcp", "--llm", "none"]) == 2
    assert "the MCP server needs the package 'mcp', which is not installed; run: pip install \"corrigenda[mcp]\"" in (
        capsys.readouterr().err
    )


def test_help_needs_no_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("corrigenda.integrations.find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="0"):
        main(["mcp", "--help"])
    assert "Serve the tools verify and ask" in capsys.readouterr().out

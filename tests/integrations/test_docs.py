"""The examples of docs/integrations.md run as they are written, and print what they say, with scripted models."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from tests.collector import Collector, collecting
from tests.scripted import ANSWER, ASKED, FIVE_HILLS

from corrigenda.cli import parser
from corrigenda.integrations import pytest_plugin

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def block(section: str, language: str) -> str:
    """Return the section's one block in this language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", SECTIONS[section], re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose corrigenda.toml names scripted models."""
    (tmp_path / "chat.json").write_text(json.dumps({"rules": ASKED}))
    (tmp_path / "nli.json").write_text(json.dumps({"rules": FIVE_HILLS}))
    names = {"llm": f"scripted:{tmp_path / 'chat.json'}", "nli": f"scripted:{tmp_path / 'nli.json'}"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**names, "decomposer": "deterministic"}.items()]
    (tmp_path / "corrigenda.toml").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(pytest_plugin.__file__).parents[2]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def run(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the section's example and compare what it prints."""
    exec(compile(block(section, "python"), section, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == block(section, "text")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("section", ["LangChain", "MCP"])
def test_the_example_prints_what_the_page_says(section: str) -> None:
    done = subprocess.run([sys.executable, "-c", block(section, "python")], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (block(section, "text"), 0), done.stderr


@modelapi(name="rome")
class RomeModel(ModelAPI):
    """A model of Inspect's kind that always says the same."""

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        output = ModelOutput.from_content("rome/rome", ANSWER)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output


@pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <function Memory:pytest.PytestUnraisableExceptionWarning")
def test_the_inspect_example(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"XDG_DATA_HOME": str(folder), "INSPECT_DISPLAY": "none", "INSPECT_LOG_DIR": "logs"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("INSPECT_EVAL_MODEL", "rome/rome")
    run("Inspect", capsys)


@pytest.mark.usefixtures("folder")
def test_the_opentelemetry_example(
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    run("OpenTelemetry", capsys)
    assert sorted(path for path, _ in collector.got) == ["/v1/logs", "/v1/traces"]


def test_the_pytest_example(folder: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_bot=block("pytest", "python"))
    (pytester.path / "corrigenda.toml").write_text((folder / "corrigenda.toml").read_text())
    os.chdir(pytester.path)
    found = pytester.runpytest_subprocess("-p", pytest_plugin.__name__, "-p", "no:corrigenda")
    found.assert_outcomes(passed=1)


def test_the_mcp_configuration_is_one_that_the_command_takes() -> None:
    servers: dict[str, Any] = json.loads(block("MCP", "json"))["mcpServers"]
    command = servers["corrigenda"]
    assert command["command"] == "corrigenda"
    assert vars(parser().parse_args(command["args"])) == {"command": "mcp", "rest": ["--unrepaired", "hedge"]}


def test_every_example_is_about_ten_lines() -> None:
    lengths = {
        name: len([line for line in block(name, "python").splitlines() if line and "import" not in line])
        for name, text in SECTIONS.items()
        if "```python" in text
    }
    assert max(lengths.values()) <= 10, lengths

"""`assert_supported`: what passes, what a failure shows, and the fixtures in a real run of pytest."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from tests.scripted import ANSWER, ASKED, ENTAIL, FIVE_HILLS, NEUTRAL, Rules, make

from corrigenda import ConfigError, Corrigenda, InputError, Status
from corrigenda.integrations import pytest_plugin
from corrigenda.integrations.pytest_plugin import assert_supported

pytest_plugins = ["pytester"]
HILLS = "Rome stands on seven hills."
TRUE = "It is in Italy."


@pytest.fixture
def checker() -> Iterator[Corrigenda]:
    with make(ASKED) as made:
        yield made


def failure(answer: str, *, nli: Rules = FIVE_HILLS, **more: Any) -> str:
    """Return what the failing assertion says."""
    with make(ASKED, nli=nli) as made, pytest.raises(AssertionError, match=r"\S") as caught:
        assert_supported(answer, HILLS, corrigenda=made, **more)
    return str(caught.value)


def test_an_answer_that_is_supported_passes_and_the_report_is_returned(checker: Corrigenda) -> None:
    report = assert_supported(TRUE, [HILLS], question="Where is Rome?", corrigenda=checker)
    assert (report.status, report.question) == (Status.VERIFIED, "Where is Rome?")


def test_without_a_context_a_reference_is_recalled_from_the_question(checker: Corrigenda) -> None:
    report = assert_supported(TRUE, question="Where is Rome?", corrigenda=checker)
    assert report.references[0].source == "recall"


def test_a_failure_shows_claim_verdict_score_and_evidence() -> None:
    assert failure(ANSWER) == (
        "1 of 2 claims is not supported\n"
        "  contradicted (-0.98): Rome has 5 hills.\n"
        "      because the reference contradicts it\n"
        "      context: Rome stands on seven hills."
    )


def test_what_the_context_does_not_mention_fails_unless_it_is_allowed() -> None:
    unmentioned: Rules = [{"scores": NEUTRAL}]
    message = failure(ANSWER, nli=unmentioned)
    assert message.startswith("2 of 2 claims are not supported\n  unverified (+0.00): Rome has 5 hills.\n")
    with make(None, nli=unmentioned) as made:
        assert assert_supported(ANSWER, HILLS, corrigenda=made, allow_unverified=True).status is Status.UNVERIFIED
    assert failure(ANSWER, allow_unverified=True).startswith("1 of 2 claims is not supported\n  contradicted")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("Do you like Rome?", "there is no claim to check: the answer makes no claim that can be checked"),
        ("I don't know.", "there is no claim to check: the answer says that it does not know, or refuses"),
    ],
)
def test_an_answer_without_a_claim_is_not_taken_for_supported(answer: str, message: str) -> None:
    assert failure(answer).startswith(message)
    assert failure(answer, allow_unverified=True).startswith(message)


def test_what_the_report_warns_of_is_shown_too() -> None:
    with (
        make(None) as made,
        pytest.raises(AssertionError, match=r"\n  warning: there is nothing to check against: give"),
    ):
        assert_supported(ANSWER, "", corrigenda=made)


def test_a_check_that_broke_is_told_from_a_claim_that_is_wrong() -> None:
    assert failure(ANSWER, nli=[{"error": "out of order"}]).startswith(
        "the check itself broke, so that nothing is known about the answer: "
    )
    half: Rules = [{"hypothesis_contains": "5 hills", "error": "out of order"}, {"scores": ENTAIL}]
    assert failure(ANSWER, nli=half, allow_unverified=True).startswith(
        "1 of 2 claims is not supported\n  failed: Rome has 5 hills.\n"
    )


def test_its_own_corrigenda_is_made_of_settings(tmp_path: Path) -> None:
    (tmp_path / "nli.json").write_text(json.dumps({"rules": FIVE_HILLS}))
    settings: dict[str, Any] = {"llm": "none", "nli": f"scripted:{tmp_path / 'nli.json'}"}
    assert_supported(TRUE, HILLS, **settings)
    with pytest.raises(AssertionError, match="1 of 2 claims is not supported"):
        assert_supported(ANSWER, HILLS, **settings)


def test_misuse_is_told(checker: Corrigenda) -> None:
    with pytest.raises(InputError, match="there is nothing to check against; give a context, or a question to recall"):
        assert_supported(TRUE, corrigenda=checker)
    with pytest.raises(ConfigError, match="llm cannot be set beside a Corrigenda, which has its own settings"):
        assert_supported(TRUE, HILLS, corrigenda=checker, llm="none")
    with pytest.raises(InputError, match="the answer is empty; give its text"):
        assert_supported(" ", HILLS, corrigenda=checker)


TESTS = """
    async_answer = "Rome has 5 hills. It is in Italy."

    def test_right(assert_supported):
        assert assert_supported("It is in Italy.", "Rome stands on seven hills.").status == "verified"

    def test_wrong(assert_supported):
        assert_supported(async_answer, "Rome stands on seven hills.")

    def test_in_a_loop(assert_supported):
        import asyncio

        async def inside():
            assert_supported("It is in Italy.", "Rome stands on seven hills.")

        asyncio.run(inside())
"""


def test_the_fixtures_work_in_a_run_of_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(pytest_plugin.__file__).parents[2]))
    nli = pytester.path / "nli.json"
    nli.write_text(json.dumps({"rules": FIVE_HILLS}))
    (pytester.path / "corrigenda.toml").write_text(f"llm = 'none'\nnli = 'scripted:{nli}'\n")
    pytester.makepyfile(TESTS)
    arguments = [] if _installed() else ["-p", pytest_plugin.__name__]
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(passed=2, failed=1)
    shown = result.stdout.str()
    assert "AssertionError: 1 of 2 claims is not supported" in shown
    assert re.search(r"E +contradicted \(-0\.98\): Rome has 5 hills\.", shown)
    assert "pytest_plugin.py" not in shown  # the failure is at the test's own line
    fixtures = pytester.runpytest_subprocess(*arguments, "--fixtures").stdout.str()
    assert "Return the function `assert_supported` over the fixture `corrigenda`" in fixtures


def _installed() -> bool:
    """Return whether pytest finds the plugin by itself here, as it does where this version is installed."""
    return any(point.value == pytest_plugin.__name__ for point in entry_points(group="pytest11"))


def test_the_package_names_it_to_pytest() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"corrigenda": pytest_plugin.__name__}


def test_loading_the_plugin_imports_nothing_of_the_pipeline() -> None:
    """Every run of pytest loads it, wherever the package is installed."""
    code = (
        "import sys, corrigenda.integrations.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('corrigenda')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "['corrigenda', 'corrigenda.errors', 'corrigenda.integrations', 'corrigenda.integrations.pytest_plugin']"
    )

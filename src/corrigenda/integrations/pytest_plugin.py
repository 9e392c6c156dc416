"""`assert_supported` for tests of what a model says, and pytest fixtures that load the models once.

    def test_the_bot(assert_supported):
        assert_supported(bot("How many hills has Rome?"), "Rome stands on seven hills.")

The plugin is found by pytest where the package is installed; it adds the fixtures `corrigenda` and `assert_supported`
and nothing else. The function `assert_supported` of this module works under any test runner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

# Every run of pytest imports this module, so it imports the rest only when it is used.
if TYPE_CHECKING:
    from corrigenda.api import Context, Corrigenda
    from corrigenda.types import Claim, Report

__all__ = ["assert_supported"]

_MARGIN = "\n      "


def assert_supported(
    answer: str,
    context: Context | None = None,
    *,
    question: str | None = None,
    allow_unverified: bool = False,
    corrigenda: Corrigenda | None = None,
    **settings: Any,
) -> Report:
    """Check that every claim of `answer` is supported by `context`, and return the report.

    Without a context, a reference is recalled from `question` by the chat model. With `allow_unverified`, claims that
    the context neither supports nor contradicts are let pass. `corrigenda` is used as it is and not closed; without
    one, an object is made of `settings`, which loads its models, and closed: the fixture of the same name loads them
    once for all tests. Nothing is rewritten.

    Raises AssertionError, which shows each claim that fails with its verdict, its score and the evidence, also when
    the answer has no claim that can be checked and when the check itself broke. Raises InputError for blank texts and
    where there is nothing to check against, ConfigError and ModelError as `Corrigenda` does.
    """
    __tracebackhide__ = True
    report = _checked(answer, context, question, corrigenda, settings)
    problem = _problem(report, allow_unverified=allow_unverified)
    if problem is not None:
        raise AssertionError(problem)
    return report


def _checked(
    answer: str,
    context: Context | None,
    question: str | None,
    corrigenda: Corrigenda | None,
    settings: dict[str, Any],
) -> Report:
    from corrigenda.api import Corrigenda  # noqa: PLC0415  # see above
    from corrigenda.errors import ConfigError, InputError  # noqa: PLC0415
    from corrigenda.settings import Choices  # noqa: PLC0415

    if context is None and question is None:
        raise InputError("there is nothing to check against; give a context, or a question to recall from")
    if corrigenda is not None and settings:
        raise ConfigError(f"{sorted(settings)[0]} cannot be set beside a Corrigenda, which has its own settings")
    checker = corrigenda or Corrigenda(**settings)
    try:
        return checker.check_sync(answer, question=question, context=context, choices=Choices(correct=False))
    finally:
        if corrigenda is None:
            checker.close()


def _problem(report: Report, *, allow_unverified: bool) -> str | None:
    """Return what is wrong with the answer, for a person; None when nothing is."""
    from corrigenda.types import Status, Verdict  # noqa: PLC0415  # see above

    if report.status is Status.FAILED:
        return f"the check itself broke, so that nothing is known about the answer: {report.reason}"
    passing = {Verdict.SUPPORTED, Verdict.NOT_CHECKABLE} | ({Verdict.UNVERIFIED} if allow_unverified else set())
    failing = [claim for claim in report.claims if claim.verdict not in passing]
    checkable = [claim for claim in report.claims if claim.verdict is not Verdict.NOT_CHECKABLE]
    if not checkable:
        return f"there is no claim to check: {report.reason or report.status}\n  answer: {report.answer!r}"
    if not failing:
        return None
    count = f"{len(failing)} of {len(checkable)} claims"
    lines = [f"{count} {'is' if len(failing) == 1 else 'are'} not supported", *(_told(c, report) for c in failing)]
    lines += [f"warning: {warning}" for warning in report.warnings]
    return "\n  ".join(lines)


def _told(claim: Claim, report: Report) -> str:
    """Return a claim with its verdict, score and evidence, on lines of their own."""
    score = "" if claim.signed is None else f" ({claim.signed:+.2f})"
    parts = [f"{claim.verdict}{score}: {claim.text}"]
    if claim.reason is not None:
        parts.append(f"because {claim.reason}")
    if claim.evidence is not None:
        parts.append(f"{report.references[claim.evidence.reference].source}: {claim.evidence.text}")
    return _MARGIN.join(parts)


class AssertSupported(Protocol):
    """The type of the fixture `assert_supported`."""

    def __call__(
        self,
        answer: str,
        context: Context | None = None,
        *,
        question: str | None = None,
        allow_unverified: bool = False,
    ) -> Report:
        """Do as the function of the same name, with the models of the fixture `corrigenda`."""
        ...


@pytest.fixture(scope="session")
def corrigenda() -> Iterator[Corrigenda]:
    """Return a Corrigenda with the settings of the environment and of `corrigenda.toml`, for all tests.

    Override it in your `conftest.py` to choose the models there.
    """
    from corrigenda.api import Corrigenda  # noqa: PLC0415  # see above

    with Corrigenda() as made:
        yield made


@pytest.fixture(scope="session", name="assert_supported")
def _assert_supported(corrigenda: Corrigenda) -> AssertSupported:
    """Return the function `assert_supported` over the fixture `corrigenda`, which loads the models once."""

    def bound(
        answer: str,
        context: Context | None = None,
        *,
        question: str | None = None,
        allow_unverified: bool = False,
    ) -> Report:
        __tracebackhide__ = True
        return assert_supported(
            answer, context, question=question, allow_unverified=allow_unverified, corrigenda=corrigenda
        )

    return bound

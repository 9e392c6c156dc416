"""The MCP server's two tools. What comes in is data; what goes out is short, for a model reads it.

`make_server` returns a server of the official package `mcp`, which can be served over any of its transports.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

from corrigenda import __version__
from corrigenda.api import Corrigenda
from corrigenda.errors import CorrigendaError
from corrigenda.integrations import require
from corrigenda.report import to_dict
from corrigenda.settings import Choices
from corrigenda.types import Claim, Report

require("the MCP server", "mcp", "mcp")

from mcp.server.mcpserver import MCPServer  # noqa: E402  # the line above says what to install
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402
from mcp.types import ToolAnnotations  # noqa: E402
from pydantic import Field  # noqa: E402
from typing_extensions import TypedDict  # noqa: E402  # pydantic wants this one

MAX_TEXT = 1_000_000
"""Code points of an answer, or of all contexts together, that a call may bring."""

INSTRUCTIONS = (
    "Checks answers claim by claim. Use verify for an answer that is at hand, with the passages that it must agree "
    "with in contexts; use ask to have a question answered and the answer checked. Verdicts: supported, contradicted, "
    "unverified (neither), not_checkable (opinion, question), failed (the check broke). Only supported means that a "
    "passage states it."
)

Full = Annotated[bool, Field(description="Also return the whole report, with scores and timings.")]


class CheckedClaim(TypedDict):
    """One claim of the answer."""

    text: str
    span: list[int] | None
    """[start, end) in code points of the answer."""
    verdict: str
    reason: str | None
    signed_score: float | None
    evidence: str | None
    """The part of a passage that decided."""
    source: str | None
    """That passage: `recall` (the model's own memory), or the context's number."""


class Result(TypedDict):
    """What both tools return."""

    status: str
    reason: str | None
    answer: str
    final_answer: str
    claims: list[CheckedClaim]
    warnings: list[str]
    report: dict[str, Any] | None


def make_server(corrigenda: Corrigenda) -> MCPServer[Any]:
    """Return an MCP server with the tools `verify` and `ask` over `corrigenda`, which it never closes."""
    server: MCPServer[Any] = MCPServer(
        "corrigenda",
        version=__version__,
        instructions=INSTRUCTIONS,
        log_level="WARNING",  # at INFO it logs what calls say
    )
    only_reads = ToolAnnotations(read_only_hint=True)

    @server.tool(annotations=only_reads)
    async def verify(
        answer: Annotated[str, Field(description="The answer to check, as it stands.")],
        question: Annotated[
            str, Field(description="The question that it answers. Without contexts, a reference is recalled from it.")
        ] = "",
        contexts: Annotated[
            list[str] | None, Field(description="The passages that the answer must agree with, each as text.")
        ] = None,
        correct: Annotated[bool, Field(description="Rewrite the sentences that are contradicted.")] = True,
        full: Full = False,
    ) -> Result:
        """Check an answer claim by claim against passages, and rewrite only the sentences that are contradicted."""
        if contexts is None and not question.strip():
            raise ToolError("there is nothing to check against; give contexts, or a question to recall from")
        _check_size("answer", answer)
        _check_size("contexts", *(contexts or ()))
        work = corrigenda.check(
            answer, question=question if question.strip() else None, context=contexts, choices=Choices(correct=correct)
        )
        return await _result(work, full=full)

    @server.tool(annotations=only_reads)
    async def ask(
        question: Annotated[str, Field(description="The question.")],
        full: Full = False,
    ) -> Result:
        """Answer a question, check the answer against what the model recalls in a fresh context, and correct it."""
        _check_size("question", question)
        return await _result(corrigenda.ask(question), full=full)

    return server


def _check_size(what: str, *texts: str) -> None:
    length = sum(map(len, texts))
    if length > MAX_TEXT:
        raise ToolError(f"{what}: {length:,} characters; {MAX_TEXT:,} are the most that are taken; give less")


async def _result(work: Awaitable[Report], *, full: bool) -> Result:
    """Return the tool's result. Our own errors say what to do, so the client gets them; others stay here."""
    try:
        report = await work
    except CorrigendaError as exc:
        raise ToolError(str(exc)) from exc
    return {
        "status": str(report.status),
        "reason": report.reason,
        "answer": report.answer,
        "final_answer": report.final_answer,
        "claims": [_claim(claim, report) for claim in report.claims],
        "warnings": list(report.warnings),
        "report": to_dict(report) if full else None,
    }


def _claim(claim: Claim, report: Report) -> CheckedClaim:
    evidence = claim.evidence
    return {
        "text": claim.text,
        "span": None if claim.span is None else list(claim.span),
        "verdict": str(claim.verdict),
        "reason": claim.reason,
        "signed_score": None if claim.signed is None else round(claim.signed, 6),
        "evidence": None if evidence is None else evidence.text,
        "source": None if evidence is None else report.references[evidence.reference].source,
    }

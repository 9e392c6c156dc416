"""Corrigenda checks an LLM's answer claim by claim and rewrites only what is contradicted.

from corrigenda import Corrigenda

with Corrigenda() as c:
report = c.check_sync("Rome has 5 hills.", context="Rome stands on seven hills.")
print(report.status, report.final_answer)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from corrigenda.api import Context, Corrigenda
    from corrigenda.errors import BackendError, ConfigError, CorrigendaError, InputError, MissingExtra, ModelError
    from corrigenda.policies import Bounded, Conformal, Fixed, Paper, Policy
    from corrigenda.ports import ChatModel, Entailer, LabelScorer, Retriever
    from corrigenda.prompts import Prompts
    from corrigenda.releasing import Release
    from corrigenda.report import from_dict, json_schema, to_dict, to_json
    from corrigenda.settings import Choices, Settings
    from corrigenda.types import (
        AtomicClaim,
        ChatRequest,
        Claim,
        Completion,
        Decision,
        Delta,
        Edit,
        Entailment,
        Evidence,
        Message,
        Pair,
        PairFailure,
        Passage,
        Reference,
        Released,
        Report,
        Retrieval,
        RetrievedPassage,
        Sentence,
        Span,
        StageUsage,
        Status,
        Timing,
        TokenUsage,
        Verdict,
    )

# Where each public name lives. They are imported on first use, so that `import corrigenda` costs next to nothing.
_HOMES = {
    "api": ("Context", "Corrigenda"),
    "releasing": ("Release",),
    "settings": ("Choices", "Settings"),
    "errors": ("BackendError", "ConfigError", "CorrigendaError", "InputError", "MissingExtra", "ModelError"),
    "policies": ("Bounded", "Conformal", "Fixed", "Paper", "Policy"),
    "ports": ("ChatModel", "Entailer", "LabelScorer", "Retriever"),
    "prompts": ("Prompts",),
    "report": ("from_dict", "json_schema", "to_dict", "to_json"),
    "types": (
        "AtomicClaim",
        "ChatRequest",
        "Claim",
        "Completion",
        "Decision",
        "Delta",
        "Edit",
        "Entailment",
        "Evidence",
        "Message",
        "Pair",
        "PairFailure",
        "Passage",
        "Reference",
        "Released",
        "Report",
        "Retrieval",
        "RetrievedPassage",
        "Sentence",
        "Span",
        "StageUsage",
        "Status",
        "Timing",
        "TokenUsage",
        "Verdict",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AtomicClaim",
    "BackendError",
    "Bounded",
    "ChatModel",
    "ChatRequest",
    "Choices",
    "Claim",
    "Completion",
    "ConfigError",
    "Conformal",
    "Context",
    "Corrigenda",
    "CorrigendaError",
    "Decision",
    "Delta",
    "Edit",
    "Entailer",
    "Entailment",
    "Evidence",
    "Fixed",
    "InputError",
    "LabelScorer",
    "Message",
    "MissingExtra",
    "ModelError",
    "Pair",
    "PairFailure",
    "Paper",
    "Passage",
    "Policy",
    "Prompts",
    "Reference",
    "Release",
    "Released",
    "Report",
    "Retrieval",
    "RetrievedPassage",
    "Retriever",
    "Sentence",
    "Settings",
    "Span",
    "StageUsage",
    "Status",
    "Timing",
    "TokenUsage",
    "Verdict",
    "__version__",
    "from_dict",
    "json_schema",
    "to_dict",
    "to_json",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'corrigenda' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"corrigenda.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return __all__

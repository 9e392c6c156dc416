"""The words that data sets use for gold labels, and the verdict that each stands for."""

from __future__ import annotations

from collections.abc import Mapping

from corrigenda.calibrate_nli.pairs import LABELS
from corrigenda.evals.datasets.files import Row, shown
from corrigenda.types import Verdict

_CLASSES = (Verdict.SUPPORTED, Verdict.UNVERIFIED, Verdict.CONTRADICTED)

CLAIM_LABELS: Mapping[str, Verdict] = {name: _CLASSES[index] for name, index in LABELS.items()} | {
    "SUPPORTED": Verdict.SUPPORTED,
    "CONTRADICTED": Verdict.CONTRADICTED,
    "UNVERIFIED": Verdict.UNVERIFIED,
}
"""FEVER's words, those of natural language inference, and our own."""

ANSWER_LABELS: Mapping[str, Verdict] = {
    "CORRECT": Verdict.SUPPORTED,
    "INCORRECT": Verdict.CONTRADICTED,
    "TRUE": Verdict.SUPPORTED,
    "FALSE": Verdict.CONTRADICTED,
    **CLAIM_LABELS,
}
"""Of a whole answer: it is incorrect when it holds a falsehood."""

SENTENCE_LABELS: Mapping[str, Verdict] = {
    **CLAIM_LABELS,
    "ACCURATE": Verdict.SUPPORTED,
    "MINOR INACCURATE": Verdict.CONTRADICTED,
    "MAJOR INACCURATE": Verdict.CONTRADICTED,
}
"""Of a sentence. The last three are those of SelfCheckGPT's annotations (Manakul et al. 2023), where both kinds
of inaccuracy count as non-factual in the paper's main setting."""


def verdict_of(row: Row, name: str, value: object, known: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict that the label `value`, which stands under `name`, means.

    In any case, with spaces or underscores; JSON's true and false where `known` has those words. Raises
    InputError, listing the words there are, for anything else; numbers too, since data sets number differently.
    """
    word = str(value).strip().upper().replace("_", " ") if isinstance(value, str | bool) else ""
    if word in known:
        return known[word]
    more = " (data sets number their classes differently)" if isinstance(value, int | float) and not word else ""
    raise row.error(f"{name!r} is {shown(value)}, which is no known label{more}; write one of {', '.join(known)}")

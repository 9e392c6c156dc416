"""Any JSONL file of claims with the evidence that each is to be checked against, and a gold label.

A row has `claim`, `evidence` and `label`; optional are `id`, `category` and `tags`. `evidence` is a text, or a list of
texts that belong together and are read as one, or a list of such lists: alternatives, any one of which is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corrigenda.errors import InputError
from corrigenda.evals.datasets.files import Row, Source, distinct, json_rows
from corrigenda.evals.datasets.groups import grouped
from corrigenda.evals.datasets.labels import CLAIM_LABELS, verdict_of
from corrigenda.evals.items import DataSet, Item
from corrigenda.fever_text import detokenise as plain
from corrigenda.fever_text import mostly_tokenised
from corrigenda.types import Reference, Verdict

DETOKENISE = ("auto", "on", "off")
COLUMNS = ("claim", "evidence", "label")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A claim as it was read, before rows are compared with each other."""

    row: Row
    claim: str
    label: Verdict
    contexts: tuple[Reference, ...]
    """Alternatives; none where the row gives no evidence."""
    unresolved: bool = False
    """The row names evidence that could not be found: the claim is kept without any."""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether it can be used. A claim that is labelled unverified may well have no evidence."""
        return bool(self.claim) and (bool(self.contexts) or self.label is Verdict.UNVERIFIED or self.unresolved)

    @property
    def texts(self) -> tuple[str, ...]:
        """The claim and its evidence."""
        return (self.claim, *(reference.text for reference in self.contexts))

    def detokenised(self) -> Draft:
        """Return the claim with that undone, in its evidence too."""
        contexts = tuple(replace(reference, text=plain(reference.text)) for reference in self.contexts)
        return replace(self, claim=plain(self.claim), contexts=contexts)


def read(source: Source, *, name: str | None = None, detokenise: str = "auto") -> DataSet:
    """Return the claims of a file as items of the kind `claim`.

    `detokenise`: whether FEVER's tokenisation (`Rome 's hills -LRB- seven -RRB- .`) is undone; `auto` does so where
    more than half of the rows show it. Raises InputError, naming file, line and value.
    """
    rows, repeated = distinct(json_rows(source))
    return build(
        name or f"claims:{source.stem}",
        source,
        [draft(row) for row in rows],
        counts={"rows": len(rows) + repeated, "duplicate": repeated},
        detokenise=detokenise,
    )


def draft(row: Row) -> Draft:
    """Return the claim of a row with its label and the evidence that the row holds itself."""
    row.require(*COLUMNS)
    label = verdict_of(row, "label", row.values["label"], CLAIM_LABELS)
    return Draft(row=row, claim=row.text("claim"), label=label, contexts=_evidence(row), tags=row.tags())


def _evidence(row: Row) -> tuple[Reference, ...]:
    value = row.values["evidence"]
    alternatives = value if isinstance(value, list) and any(isinstance(entry, list) for entry in value) else [value]
    if any(isinstance(part, list) for entry in alternatives if isinstance(entry, list) for part in entry):
        raise row.error(
            "'evidence' names pages, as FEVER's own files do; use the data set 'fever', with --wiki DIR for the pages"
        )
    texts = [" ".join(row.as_texts("evidence", entry)) for entry in alternatives]
    texts = [text for text in dict.fromkeys(texts) if text]
    return tuple(
        Reference(text=text, source="evidence" if len(texts) == 1 else f"evidence {number}")
        for number, text in enumerate(texts, 1)
    )


def build(
    name: str,
    source: Source,
    drafts: Sequence[Draft],
    *,
    counts: Mapping[str, int],
    notes: Sequence[str] = (),
    detokenise: str = "auto",
) -> DataSet:
    """Return the data set of these claims: incomplete ones left out and counted, texts detokenised, groups found.

    Incomplete is a claim without text, and one labelled supported or contradicted whose row gives no evidence.
    Raises InputError when no claim is left, or for another `detokenise` than auto, on and off.
    """
    if detokenise not in DETOKENISE:
        raise InputError(f"detokenise must be one of {', '.join(DETOKENISE)}, got {detokenise!r}")
    kept = [d for d in drafts if d.complete]
    if not kept:
        raise InputError(f"{source.name!r} has no complete row: each needs {', '.join(map(repr, COLUMNS))}")
    told = list(notes)
    if detokenise == "on" or (detokenise == "auto" and mostly_tokenised([d.texts for d in kept])):
        kept = [d.detokenised() for d in kept]
        told.append("FEVER's tokenisation of claims and evidence was undone")
    if bare := sum(not d.contexts for d in kept):
        told.append(
            f"claims without evidence: {bare} of {len(kept)}; there is nothing to check them against, and a method "
            f"that checks against evidence leaves them unverified"
        )
    return DataSet(
        name=name,
        items=grouped([_item(d) for d in kept]),
        source=source.name,
        sha256=source.sha256,
        counts={
            **counts,
            "incomplete": len(drafts) - len(kept),
            "kept": len(kept),
            "without_evidence": bare,
        },
        notes=tuple(told),
    )


def _item(d: Draft) -> Item:
    return Item(id=d.row.id(), kind="claim", answer=d.claim, contexts=d.contexts, label=d.label, tags=d.tags)

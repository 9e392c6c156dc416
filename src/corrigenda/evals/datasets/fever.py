"""FEVER (Thorne et al. 2018, "FEVER: a Large-scale Dataset for Fact Extraction and VERification", arXiv:1803.05355).

The shared task's files name the evidence of a claim by page and sentence number, in sets: all sentences of one set are
needed together, and any one set is enough. The sentences are in the dump of Wikipedia that comes with them. A set
becomes one context, its sentences joined in the order in which it names them; the sets of a claim are alternatives.

Files that hold the evidence's text itself (`claim`, `evidence`, `label`) are read as the data set `claims` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corrigenda.errors import InputError
from corrigenda.evals.datasets import claims, wiki
from corrigenda.evals.datasets.claims import Draft
from corrigenda.evals.datasets.download import Progress
from corrigenda.evals.datasets.files import Row, Source, distinct, json_rows, shown
from corrigenda.evals.datasets.labels import CLAIM_LABELS, verdict_of
from corrigenda.evals.items import DataSet
from corrigenda.fever_text import display_title, title_key
from corrigenda.types import Reference

Pages = Mapping[str, Mapping[int, str]]


class Sentence(NamedTuple):
    """Where a sentence of evidence stands."""

    title: str
    """The page's title as the file writes it."""
    number: int


Set = tuple[Sentence, ...]


def read(
    source: Source, *, pages: Path | None = None, detokenise: str = "auto", progress: Progress | None = None
) -> DataSet:
    """Return the claims of a FEVER file as items of the kind `claim`.

    `pages` is the folder of the dump, which a file of the shared task needs. NOT ENOUGH INFO names no evidence: such
    a claim is labelled unverified and has no contexts. A set of which any sentence is missing is left out; a claim
    whose every set is left out keeps its label, has no contexts and the tag `evidence: not found`. All of it is
    counted. Raises InputError, naming file, line and value.
    """
    rows, repeated = distinct(json_rows(source))
    named = {row.number: _sets(row) for row in rows if _names_pages(row)}
    found: Pages = {}
    if any(named.values()):
        if pages is None:
            raise InputError(
                f"{source.name!r} names its evidence by page and sentence, which are in FEVER's dump of Wikipedia; "
                f"give its folder with --wiki DIR (wiki-pages.zip, from https://fever.ai/dataset/fever.html)"
            )
        titles = {title_key(s.title) for sets in named.values() for alternative in sets for s in alternative}
        found = wiki.pages(pages, titles, progress)
    drafts = [_draft(row, named[row.number], found) if row.number in named else claims.draft(row) for row in rows]
    counts = {"rows": len(rows) + repeated, "duplicate": repeated}
    notes: list[str] = []
    if any(named.values()):
        missing = _missing([s for sets in named.values() for alternative in sets for s in alternative], found)
        counts |= missing | {"unresolved": sum(d.unresolved for d in drafts)}
        if any(missing.values()):
            notes.append(_told(missing, drafts))
    return claims.build("fever", source, drafts, counts=counts, notes=notes, detokenise=detokenise)


def _missing(sentences: Sequence[Sentence], found: Pages) -> dict[str, int]:
    """Return how many different pages, and sentences of pages that are there, could not be found."""
    absent = {title_key(s.title) for s in sentences} - found.keys()
    lost = {(title_key(s.title), s.number) for s in sentences if not _text(s, found)}
    return {"pages_missing": len(absent), "sentences_missing": sum(title not in absent for title, _ in lost)}


def _told(missing: Mapping[str, int], drafts: Sequence[Draft]) -> str:
    lost = [d.row.id() for d in drafts if d.unresolved]
    named = f" ({', '.join(lost[:5])}{', …' if len(lost) > 5 else ''})" if lost else ""
    return (
        f"not in the dump: {missing['pages_missing']} of the pages that evidence names, and "
        f"{missing['sentences_missing']} sentences of others; claims left without their evidence, kept and tagged "
        f"'evidence: not found': {len(lost)}{named}"
    )


def _names_pages(row: Row) -> bool:
    """Return whether the evidence is a list of sets of lists: the form of the shared task."""
    value = row.values.get("evidence")
    return isinstance(value, list) and any(
        isinstance(entry, list) and any(isinstance(part, list) for part in entry) for entry in value
    )


def _sets(row: Row) -> tuple[Set, ...]:
    """Return the sets of evidence that the row names, each once; those of NOT ENOUGH INFO name nothing."""
    sets: list[Set] = []
    for entry in row.values["evidence"]:
        if not isinstance(entry, list):
            raise row.error(f"'evidence' mixes sets and other things: {shown(entry)}")
        sentences = [_sentence(row, part) for part in entry]
        if sentences and None not in sentences:
            sets.append(tuple(s for s in sentences if s is not None))
    return tuple(dict.fromkeys(sets))


def _sentence(row: Row, part: Any) -> Sentence | None:
    """Return where a sentence stands; None where page and number are null."""
    match part:
        case [_, _, None, None, *_]:
            return None
        case [_, _, str(title), int(number), *_] if title.strip() and not isinstance(number, bool):
            return Sentence(row.checked("evidence", title), number)
    raise row.error(
        f"'evidence' holds {shown(part)}; write [annotation id, evidence id, page title, sentence number], or null for "
        f"the last two"
    )


def _draft(row: Row, sets: Sequence[Set], found: Pages) -> Draft:
    row.require(*claims.COLUMNS)
    label = verdict_of(row, "label", row.values["label"], CLAIM_LABELS)
    contexts = [context for alternative in sets if (context := _context(alternative, found)) is not None]
    unresolved = bool(sets) and not contexts
    return Draft(
        row=row,
        claim=row.text("claim"),
        label=label,
        contexts=tuple({context.text: context for context in contexts}.values()),
        unresolved=unresolved,
        tags=row.tags() | ({"evidence": "not found"} if unresolved else {}),
    )


def _context(alternative: Set, found: Pages) -> Reference | None:
    """Return the sentences of a set as one text; None when any of them is missing."""
    texts = [_text(sentence, found) for sentence in alternative]
    if not all(texts):
        return None
    titles = dict.fromkeys(display_title(sentence.title) for sentence in alternative)
    return Reference(text=" ".join(texts), source="; ".join(titles))


def _text(sentence: Sentence, found: Pages) -> str:
    return found.get(title_key(sentence.title), {}).get(sentence.number, "")

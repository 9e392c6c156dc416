"""The data sets of an evaluation: one table, and `load`, which gives the items of any of them.

`truthfulqa`, `fever`, `claims`, `answers` and `mini` read one data set or format each. `files` reads bytes, text and
lines, `download` fetches, `wiki` looks pages up in FEVER's dump, `labels` knows the words of gold labels, `draws` holds
everything that is drawn with a seed, and `groups` finds what belongs together. A row is never lost in silence: what
is left out is in `DataSet.counts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from corrigenda.errors import InputError
from corrigenda.evals.datasets import answers, claims, draws, fever, files, mini, truthfulqa
from corrigenda.evals.datasets.download import Progress, fetched
from corrigenda.evals.datasets.draws import SPLITS
from corrigenda.evals.items import DataSet

__all__ = ["DATASETS", "SPLITS", "Entry", "Progress", "load"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What was asked for, as far as reading the data is concerned."""

    path: Path | None
    wiki: Path | None
    task: str | None
    seed: int
    language: str
    detokenise: str
    cache_dir: str | Path | None
    url: str | None
    progress: Progress | None

    @property
    def file(self) -> files.Source:
        """The content of the file that was given."""
        assert self.path is not None
        return files.read(self.path)


def _truthfulqa(asked: _Asked) -> DataSet:
    source = asked.file if asked.path else None
    if source is None:
        url = asked.url or truthfulqa.URL
        source = fetched("truthfulqa", url, cache_dir=asked.cache_dir, progress=asked.progress)
    return truthfulqa.read(source, task=asked.task or "question", seed=asked.seed)


def _fever(asked: _Asked) -> DataSet:
    return fever.read(asked.file, pages=asked.wiki, detokenise=asked.detokenise, progress=asked.progress)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What a person needs to know to ask for a data set."""

    summary: str
    tasks: tuple[str, ...]
    """What its items can be."""
    default: str
    """What they are when no task is named."""
    data: Literal["optional", "needed", "none"]
    """Whether a file is given: `optional` where it can be downloaded, `none` where it comes with the package."""
    read: Callable[[_Asked], DataSet]


DATASETS: Mapping[str, Entry] = {
    "truthfulqa": Entry(
        summary="TruthfulQA's questions, with correct and incorrect answers; downloaded when no file is given",
        tasks=truthfulqa.TASKS,
        default="question",
        data="optional",
        read=_truthfulqa,
    ),
    "fever": Entry(
        summary="FEVER's claims: a file of the shared task with the wiki dump, or one that holds the evidence's text",
        tasks=("claim",),
        default="claim",
        data="needed",
        read=_fever,
    ),
    "claims": Entry(
        summary="any JSONL file of claim, evidence and label",
        tasks=("claim",),
        default="claim",
        data="needed",
        read=lambda asked: claims.read(asked.file, detokenise=asked.detokenise),
    ),
    "answers": Entry(
        summary="any JSONL file of answers, with questions or contexts, and labels where there are any",
        tasks=("answer",),
        default="answer",
        data="needed",
        read=lambda asked: answers.read(asked.file, language=asked.language),
    ),
    "mini": Entry(
        summary="a small set of our own, which needs no file",
        tasks=mini.TASKS,
        default="question and claim",
        data="none",
        read=lambda asked: mini.read(asked.task, seed=asked.seed),
    ),
}
"""Every data set, by name."""


def load(
    name: str,
    *,
    path: str | Path | None = None,
    wiki: str | Path | None = None,
    task: str | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 7,
    language: str = "en",
    detokenise: str = "auto",
    cache_dir: str | Path | None = None,
    url: str | None = None,
    progress: Progress | None = None,
) -> DataSet:
    """Return the data set `name`, one of DATASETS.

    `path`: its file; TruthfulQA is downloaded without one, from `url` or its authors' address, into `cache_dir` or the
    user's cache. `wiki`: the folder of FEVER's dump. `task`: what the items are to be, one of the entry's `tasks`.
    `split`: `validation` (a fifth of the groups, rounded up), `test` (the others) or `all`. `limit`: that many items,
    in their own order. All draws are by `seed` and do not depend on the rows' order. `language` is that of given
    answers; `detokenise` (auto, on, off) says whether FEVER's tokenisation is undone. `progress` follows downloads and
    the reading of the dump, in bytes.

    Raises InputError, naming the place, the value and the remedy, for whatever can't be used. What is left out is in
    `counts`: `rows` that were read, `kept` ones, those dropped by reason, and `items`, which are in the result.
    """
    entry = _checked(name, path, wiki, task)
    found = entry.read(
        _Asked(
            path=None if path is None else Path(path).expanduser(),
            wiki=None if wiki is None else Path(wiki).expanduser(),
            task=task,
            seed=seed,
            language=language,
            detokenise=detokenise,
            cache_dir=cache_dir,
            url=url,
            progress=progress,
        )
    )
    found = draws.draw(draws.split(found, split, seed), limit, seed)
    return replace(found, counts={**found.counts, "items": len(found.items)})


def _checked(name: str, path: str | Path | None, wiki: str | Path | None, task: str | None) -> Entry:
    """Return the entry of that name. Raises InputError unless what is given fits it."""
    if name not in DATASETS:
        raise InputError(
            f"no data set is named {name!r}; there are {', '.join(DATASETS)} (your own file: claims, answers)"
        )
    entry = DATASETS[name]
    if entry.data == "needed" and path is None:
        raise InputError(f"the data set {name!r} needs a file; give it with --data FILE")
    if entry.data == "none" and path is not None:
        raise InputError(
            f"the data set {name!r} comes with the package and takes no file, got {str(path)!r}; for a file of your "
            f"own name the data set 'claims' or 'answers'"
        )
    if wiki is not None and name != "fever":
        raise InputError(f"the data set {name!r} takes no wiki folder, got {str(wiki)!r}; only 'fever' does")
    if task is not None and task not in entry.tasks:
        raise InputError(f"the data set {name!r} has no task {task!r}; it has {', '.join(entry.tasks)}")
    return entry

"""Passages in memory, ranked by BM25: for small collections, tests and demonstrations. Needs no package.

The score is the one that the backend `bm25` uses (Robertson and Zaragoza 2009, in Lucene's form, which is never
negative): the sum over the query's terms of idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / mean length)),
with idf = ln(1 + (N - n + 0.5) / (n + 0.5)) for a term in n of N passages. Both rank alike for passages of up to
40 terms; beyond, the index on disk rounds lengths down (by less than an eighth), which may swap near neighbours.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from corrigenda.backends.retrieve_terms import K1, B, query_terms, terms
from corrigenda.errors import BackendError, InputError
from corrigenda.types import Passage
from corrigenda.windows import is_blank


class MemoryRetriever:
    """A Retriever over passages in memory. Building it and searching take time linear in the collection's size.

    Blank passages are left out. Passages are found by their text and their title.
    """

    def __init__(self, passages: Iterable[Passage], name: str = "memory") -> None:
        """Take the passages in the order in which equal scores are to be given. `name` is for reports."""
        self._name = name
        self._passages: list[Passage] = []
        self._lengths: list[int] = []
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for passage in passages:
            if is_blank(passage.text):
                continue
            found = Counter(terms(f"{passage.title or ''}\n{passage.text}"))
            for term, count in found.items():
                self._postings.setdefault(term, []).append((len(self._passages), count))
            self._passages.append(passage)
            self._lengths.append(found.total())
        self._mean = sum(self._lengths) / len(self._lengths) if self._lengths else 1.0
        self._closed = False

    @property
    def name(self) -> str:
        """The name given, or `memory`."""
        return self._name

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._passages)

    async def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return, per query, the `k` best passages, best first; see the port.

        Raises InputError when k is less than 1, BackendError after `aclose`.
        """
        check_k(k)
        if self._closed:
            raise BackendError(f"{self.name} was closed and cannot be searched any more")
        return await asyncio.to_thread(lambda: [self._best(query, k) for query in queries])

    async def aclose(self) -> None:
        """Let the passages go. May be called twice."""
        self._closed = True
        self._passages, self._lengths, self._postings = [], [], {}

    def _best(self, query: str, k: int) -> list[Passage]:
        scores: dict[int, float] = {}
        for term in query_terms(query):
            postings = self._postings.get(term, [])
            rest = len(self._passages) - len(postings)
            weight = math.log(1 + (rest + 0.5) / (len(postings) + 0.5)) * (K1 + 1)
            for number, count in postings:
                norm = K1 * (1 - B + B * self._lengths[number] / self._mean)
                scores[number] = scores.get(number, 0.0) + weight * count / (count + norm)
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
        return [replace(self._passages[number], score=score) for number, score in ranked]


def check_k(k: int) -> None:
    """Raise InputError unless `k` is a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k, the number of passages per query, must be a whole number of at least 1, got {k!r}")

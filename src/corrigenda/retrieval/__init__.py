"""Passages from outside: reading collections, building their index, opening it. See docs/retrieval.md.

| module | what |
|---|---|
| `source` | the files of a collection: found, read once, counted and hashed |
| `passages` | from files to passages, as a stream; duplicates and blank ones left out |
| `seen` | a small set for telling duplicates |
| `build` | the index, written beside its place and put there when complete |
| `opening` | from a path to a retriever |

The retrievers themselves are backends: `backends/retrieve_bm25.py` and `backends/retrieve_memory.py`.
"""

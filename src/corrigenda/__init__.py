"""Corrigenda checks an LLM's answer claim by claim and rewrites only what is contradicted."""

__version__ = "0.1.0"

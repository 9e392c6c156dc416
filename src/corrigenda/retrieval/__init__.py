"""Passages from outside: reading collections, building and opening their index."""

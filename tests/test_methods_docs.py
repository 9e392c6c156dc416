"""The documented methods are the real ones."""

from __future__ import annotations

import pytest

from corrigenda.methods import METHODS, method_class, options_of
from tests.methods_docs import PATH, field_docs, generated


def test_the_page_shows_the_classes_as_they_are() -> None:
    assert PATH.read_text("utf-8") == generated(), "run: make help-docs"


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_explained(name: str) -> None:
    told = field_docs(method_class(name))
    assert {key for key in options_of(name) if not told.get(key)} == set()

"""The documented command line is the real one."""

import sys

import pytest

from tests.help_docs import PATH, generated


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays help out differently in other versions")
def test_docs_show_the_help_as_it_is() -> None:
    assert PATH.read_text("utf-8") == generated(), "run: make help-docs"

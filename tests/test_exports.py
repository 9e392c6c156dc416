"""The public names are what `__all__` says, each documented, and importing them is cheap."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import corrigenda


def test_all_is_sorted_and_complete() -> None:
    names = [name for name in corrigenda.__all__ if name != "__version__"]
    assert corrigenda.__all__ == sorted(corrigenda.__all__)
    tree = ast.parse(Path(str(corrigenda.__file__)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(names) == typed
    assert {name: getattr(corrigenda, name) for name in names}.keys() == set(names)
    assert dir(corrigenda) == corrigenda.__all__


@pytest.mark.parametrize("name", [n for n in corrigenda.__all__ if n not in ("__version__", "Context")])
def test_every_public_name_is_documented(name: str) -> None:
    assert len(inspect.getdoc(getattr(corrigenda, name)) or "") > 20


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'corrigenda' has no attribute 'nonsense'"):
        _ = corrigenda.nonsense


def test_help_and_import_load_nothing_heavy() -> None:
    """What makes start-up slow is what is imported; the time itself is measured in a benchmark."""
    code = (
        "import sys, contextlib, io\n"
        "import corrigenda.cli\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    corrigenda.cli.main(['--help'])\n"
        "heavy = {'openai', 'pydantic', 'rich', 'asyncio', 'numpy', 'torch', 'onnxruntime', 'xllamacpp', 'sentencex'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

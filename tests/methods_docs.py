"""`python -m tests.methods_docs` writes docs/methods.md from the methods' classes; a test fails when it drifts."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

from corrigenda.methods import METHODS, method_class, options_of, traits_table

PATH = Path(__file__).parents[1] / "docs" / "methods.md"

_FOR_PROGRAMMERS = re.compile(r"\s*(?:What (?:else )?differs[^.]*`traits\.differs`|Raises [A-Z][^.]*)\.")
HEAD = """\
# The methods that are compared

Generated from the classes in `src/corrigenda/methods/` by `make help-docs`; do not edit by hand.

All methods of a run get the same chat model, the same verifier, the same seed and, unless they answer in a way of
their own (`rag`, `dola`), examine the same answer: what `base` returns. `corrigenda` runs under the policy of the
settings; `corrigenda:paper`, `corrigenda:fixed`, `corrigenda:bounded` and `corrigenda:conformal` are the same system
under that policy.

"""

LEGEND = """
Calls are those of the chat model for one answer, the answer itself included; a given answer saves that one. The
letters: s sentences, n claims or facts, f sentences with a contradicted claim, N samples, R rounds; others are
explained where they stand. "yes" under *adaptive threshold* holds under the policies `paper` and `bounded`.

A method says of an answer that it is *flagged* (it holds a hallucination) when one of its verdicts is `contradicted`;
it says nothing (`null`) when it does not judge, or when every check that was due failed.
"""


def field_docs(cls: type) -> dict[str, str]:
    """Return what stands under each field of a class, by the field's name, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value)
            found[field.target.id] = " ".join(text.split())
    return found


def section(name: str) -> str:
    """Return what the page says of one method."""
    cls = method_class(name)
    traits = cls.traits
    about = _FOR_PROGRAMMERS.sub("", inspect.getdoc(cls) or "").strip()
    lines = [f"## `{name}`", "", about, "", f"**Source.** {traits.paper}"]
    if cls.needs:
        lines += ["", f"**Needs** {', '.join(cls.needs)}."]
    options = options_of(name)
    if options:
        told = field_docs(cls)
        lines += ["", "| option | default | meaning |", "|---|---|---|"]
        for key, (_, default) in options.items():
            shown = "the settings'" if default is None else f"`{default}`"
            lines.append(f"| `{key}` | {shown} | {told[key]} |")
    if traits.differs:
        lines += ["", "**Where it differs:**", "", *(f"- {line}" for line in traits.differs)]
    return "\n".join(lines)


def generated() -> str:
    """Return the page."""
    return HEAD + traits_table() + "\n" + LEGEND + "\n" + "\n\n".join(section(name) for name in METHODS) + "\n"


if __name__ == "__main__":
    PATH.write_text(generated(), "utf-8")

"""Imports run one way. The edges are read from the source with `ast`, so that a stray import cannot hide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "corrigenda"

# From the bottom up: a module may import from its own layer and from those above it in this list.
LAYERS = (
    ("types", "errors"),
    (
        "concurrency",
        "guards",
        "ports",
        "shelf",
        "prompts",
        "reasoning",
        "rewrites",
        "streaming",
        "terminal",
        "text",
        "sentences",
        "boundaries",
        "checkable",
        "fever_text",
        "grammar",
        "layout",
        "replies",
        "windows",
        "nli",
        "quantities",
    ),
    ("policies", "locks", "cache"),
    ("progress", "report", "trace", "status", "stages", "models", "backends"),
    ("retrieval",),
    ("run", "lookup", "finish", "pipeline", "releasing", "redecide"),
    ("methods",),
    ("settings", "policy_files"),
    ("config", "files"),
    ("flags",),
    ("loading",),
    ("api",),
    ("nli_fit", "calibrate_nli", "bench", "index_command", "cache_command", "render", "telemetry"),
    ("evals",),
    ("calibrate",),
    ("server", "batch", "integrations"),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, Path]:
    """Return every module's dotted name below the package."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Yield (imported module below the package, line, inside a function) for each import of our own modules."""
    tree = ast.parse(path.read_text("utf-8"))
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "corrigenda":
            whole = node.module.removeprefix("corrigenda").lstrip(".")
            names = [f"{whole}.{a.name}".strip(".") for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name.removeprefix("corrigenda.") for a in node.names if a.name.startswith("corrigenda.")]
        for name in names:
            yield name, getattr(node, "lineno", 0), id(node) in lazy


def top(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


@pytest.mark.parametrize("name", [n for n in modules() if n])
def test_a_module_imports_only_what_lies_below_it(name: str) -> None:
    assert top(name) in LEVEL, f"{name} has no place in LAYERS"
    for imported, line, _ in imports(modules()[name]):
        if imported in ("", "__version__"):
            continue
        target = top(imported)
        assert LEVEL[target] <= LEVEL[top(name)], f"{name}:{line} imports {imported}"
        if LEVEL[target] == LEVEL[top(name)] and target != top(name):
            assert (top(name), target) in SIDEWAYS, f"{name}:{line} imports {imported} sideways"


# What a module may import from its own layer; anything else there is independent.
SIDEWAYS = {
    ("types", "errors"),
    ("ports", "types"),
    ("replies", "reasoning"),
    ("rewrites", "text"),
    ("streaming", "sentences"),
    ("text", "boundaries"),
    ("text", "layout"),
    ("text", "sentences"),
    ("sentences", "boundaries"),
    ("sentences", "layout"),
    ("sentences", "text"),
    ("layout", "boundaries"),
    ("replies", "prompts"),
    ("grammar", "text"),
    ("checkable", "grammar"),
    ("checkable", "prompts"),
    ("checkable", "replies"),
    ("checkable", "sentences"),
    ("checkable", "text"),
    ("lookup", "run"),
    ("finish", "lookup"),
    ("finish", "run"),
    ("pipeline", "finish"),
    ("pipeline", "run"),
    ("releasing", "finish"),
    ("releasing", "lookup"),
    ("releasing", "pipeline"),
    ("releasing", "run"),
    ("calibrate_nli", "nli_fit"),
}


def test_backends_know_only_types_errors_ports_and_the_text_layer() -> None:
    for name, path in modules().items():
        if top(name) == "backends":
            allowed = {*LAYERS[0], *LAYERS[1], "backends", "__version__", ""}
            assert {top(i) for i, _, _ in imports(path)} <= allowed, name


def test_stages_import_no_backend_and_the_core_does_no_io() -> None:
    io_inside = {
        "ports",
        "prompts",
        "concurrency",
        "guards",
        "shelf",
    }  # ports, concurrency and shelf are async, prompts reads its files
    pure = {*LAYERS[0], *LAYERS[1], "policies"} - io_inside
    io = {"asyncio", "os", "socket", "pathlib", "subprocess", "urllib", "http", "openai", "threading", "io"}
    for name, path in modules().items():
        tree = ast.parse(path.read_text("utf-8"))
        foreign = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        } | {str(n.module).split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        if top(name) in pure or name in ("stages.decide", "stages.reassemble"):
            assert not foreign & io, f"{name} imports {foreign & io}"
        if top(name) == "stages":
            assert "backends" not in {top(i) for i, _, _ in imports(path)}, name


def test_there_are_no_cycles() -> None:
    names = modules()
    edges: dict[str, set[str]] = {
        name: {
            target
            for imported, _, lazy in imports(path)
            if not lazy and (target := imported if imported in names else imported.rpartition(".")[0]) in names
        }
        - {name, ""}
        for name, path in names.items()
        if name
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail, name))
        if name not in done:
            for target in sorted(edges.get(name, ())):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())


def test_files_stay_small() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text("utf-8").splitlines()) for path in modules().values()}
    assert {name: n for name, n in lengths.items() if n > 400} == {}

"""The layout is the data flow: pure parts import nothing that touches the world, Ray stands in two files."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "raygraph"
PURE = ("build", "plan", "reduce", "state", "run.py")
WORLD = {"ray", "asyncio", "threading", "time", "random", "uuid", "socket", "subprocess", "multiprocessing"}
#: What each layer may import of raygraph: the flow is build -> plan -> execute -> reduce.
MAY_IMPORT = {
    "state": {"state", "errors"},
    "reduce": {"state", "errors", "build", "reduce"},
    "plan": {"state", "errors", "build", "plan", "reduce"},
}


def modules(*parts: str) -> Iterator[Path]:
    for part in parts:
        path = PACKAGE / part
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def imports(path: Path, *, at_import_time: bool = False) -> Iterator[str]:
    """Full names of the modules that a file imports; not those under `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        or (at_import_time and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", list(modules(*PURE)), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_pure_parts_do_not_touch_the_world(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & WORLD


def test_ray_is_imported_in_two_files_at_most() -> None:
    users = {path for path in PACKAGE.rglob("*.py") if any(n.split(".")[0] == "ray" for n in imports(path))}
    assert {path.parent.name for path in users} <= {"execute"}
    assert len(users) <= 2, users


@pytest.mark.parametrize(("layer", "allowed"), MAY_IMPORT.items())
def test_layers_import_only_what_comes_before_them(layer: str, allowed: set[str]) -> None:
    for path in modules(layer):
        for name in imports(path, at_import_time=True):
            if name.startswith("raygraph."):
                assert name.split(".")[1] in allowed, f"{path.name} imports {name}"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_raygraph_loads_neither_ray_nor_langchain_and_starts_nothing() -> None:
    code = (
        "import sys, threading, raygraph; raygraph.StateGraph, raygraph.Send;"
        "heavy = {'ray', 'langchain_core', 'langgraph', 'pydantic', 'numpy', 'rich', 'click'};"
        "print(sorted(heavy & set(sys.modules)), threading.active_count())"
    )
    assert run(code) == "[] 1"


def test_public_names() -> None:
    import raygraph

    assert raygraph.__all__ == sorted(raygraph.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    for name in raygraph.__all__:
        assert getattr(raygraph, name) is not None
    assert set(raygraph.__all__) <= set(dir(raygraph))
    with pytest.raises(AttributeError, match="has no attribute 'Stategraph'"):
        raygraph.Stategraph  # noqa: B018

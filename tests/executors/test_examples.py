"""The examples print the same bytes on every executor, run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import raygraph
from raygraph import examples

FOLDER = Path(examples.__file__).resolve().parent
EXECUTORS = ("threads", "processes", "ray")
CSV = "id;city;when\n1;Köln;2024-01-02\n2;;2024-01-03\n3;Köln;NA;more\n"

#: Arguments of each example that make it quick.
EXAMPLES = {
    "stdlib_census.py": ["--limit", "6"],
    "profile_csv.py": ["cities.csv"],
    "langgraph_port.py": ["What", "is", "polarised", "light?"],
}


def run(arguments: list[str], executor: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run Python with `executor` as the default; Ray keeps its token in a home of its own."""
    root = str(Path(raygraph.__file__).resolve().parents[1])
    environment = {**os.environ, "RAYGRAPH_EXECUTOR": executor, "PYTHONPATH": root, "HOME": str(folder)}
    environment.pop("RAY_ADDRESS", None)
    return subprocess.run([sys.executable, *arguments], capture_output=True, timeout=100, cwd=folder, env=environment)


def outputs(arguments: list[str], executor: str, folder: Path) -> bytes:
    finished = run(arguments, executor, folder)
    assert finished.returncode == 0, finished.stderr.decode()
    assert finished.stdout
    return finished.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A current directory for the examples."""
    made = tmp_path_factory.mktemp("examples")
    (made / "cities.csv").write_text(CSV, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def inline(folder: Path) -> dict[str, bytes]:
    """What each example prints when all its nodes run in one process, one after another."""
    return {name: outputs([str(FOLDER / name), *EXAMPLES[name]], "inline", folder) for name in EXAMPLES}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_the_same_on_every_executor(
    name: str, executor: str, folder: Path, inline: dict[str, bytes]
) -> None:
    assert outputs([str(FOLDER / name), *EXAMPLES[name]], executor, folder) == inline[name]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_command_prints_the_same_on_every_executor(executor: str, folder: Path) -> None:
    target = f"{FOLDER / 'langgraph_port.py'}:build"
    arguments = ["-m", "raygraph", "run", target, "--input", '{"question": "bees"}', "--executor"]
    assert outputs([*arguments, executor], executor, folder) == outputs([*arguments, "inline"], "inline", folder)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_demo_has_one_digest(executor: str, folder: Path, inline: dict[str, bytes]) -> None:
    arguments = ["-m", "raygraph", "demo", "--limit", "6", "--executor", executor]
    printed = outputs(arguments, executor, folder).splitlines()
    assert printed[-1].startswith(b"digest: ")
    assert printed[-1] == inline["stdlib_census.py"].splitlines()[-1]


def test_the_examples_are_all_here() -> None:
    scripts = {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
    assert scripts >= set(EXAMPLES)

"""The command line: what it runs, what it prints where, and how it ends when something is wrong."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest
from click.testing import CliRunner, Result

import raygraph
from raygraph.cli.json_io import encode, read_json, to_json
from raygraph.cli.main import main
from raygraph.cli.problems import Problem

GRAPHS = """
import operator
from typing import Annotated, TypedDict

from raygraph import END, START, StateGraph
from raygraph.runtime import get_stream_writer

class State(TypedDict, total=False):
    n: int
    seen: Annotated[set, operator.or_]

def double(state):
    print("noise")
    get_stream_writer()("halfway")
    return {"n": state.get("n", 1) * 2, "seen": {3, 1, 2}}

def helper(state):
    raise ValueError("n is odd")

def fails(state):
    helper(state)

def graph_of(node):
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph

builder = graph_of(double)
app = builder.compile(executor="inline")
failing = graph_of(fails)
broken = StateGraph(State)
looping = StateGraph(State)
looping.add_node("node", double)
looping.add_edge(START, "node")
looping.add_edge("node", "node")

def factory():
    return builder

def compiled_factory(name="x"):
    return app

def needs_argument(argument):
    return app

def failing_factory():
    raise RuntimeError("no licence")

class Holder:
    app = app

number = 3
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The current directory, holding the modules `cli_graphs`, `cli_broken` and `cli_exits`."""
    (tmp_path / "cli_graphs.py").write_text(GRAPHS)
    (tmp_path / "cli_broken.py").write_text("def f():\n    return 1 / 0\nf()\n")
    (tmp_path / "cli_exits.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "cli_needs.py").write_text("import no_such_dependency\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("cli_"):
            del sys.modules[name]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["run", *arguments], input=stdin)


def refused(*arguments: str, stdin: str | None = None) -> str:
    """Run what cannot be run; return the one line that says why."""
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[0].startswith("Error: ")
    assert len(lines) == 1
    return lines[0].removeprefix("Error: ")


TARGETS = ("app", "builder", "factory", "compiled_factory", "Holder.app")


@pytest.mark.parametrize("attribute", TARGETS)
@pytest.mark.parametrize("where", ["cli_graphs", "cli_graphs.py", "./cli_graphs.py"])
def test_a_graph_is_found_in_a_module_or_a_file(folder: pathlib.Path, where: str, attribute: str) -> None:
    result = run(f"{where}:{attribute}", "--input", '{"n": 4}', "--executor", "inline")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {"n": 8, "seen": [1, 2, 3]}


def test_what_nodes_print_goes_to_standard_error(folder: pathlib.Path) -> None:
    result = run("cli_graphs:app")
    assert result.stderr == "noise\n"
    assert "noise" not in result.stdout


def test_a_file_elsewhere_can_import_its_neighbours(folder: pathlib.Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "cli_neighbour.py").write_text("from cli_graphs import builder\n")
    (folder / "sub" / "cli_main.py").write_text("from cli_neighbour import builder\n")
    assert run("sub/cli_main.py:builder", "--executor", "inline").exit_code == 0


def test_a_file_named_like_a_known_module_is_not_mistaken_for_it(folder: pathlib.Path) -> None:
    (folder / "json.py").write_text("from cli_graphs import builder\n")
    assert run("json.py:builder", "--executor", "inline").exit_code == 0
    assert sys.modules["json"] is json


def test_input_comes_from_a_file_or_standard_input(folder: pathlib.Path) -> None:
    (folder / "in.json").write_text('\ufeff{"n": 5}', encoding="utf-8")
    assert json.loads(run("cli_graphs:app", "--input", "@in.json").stdout)["n"] == 10
    assert json.loads(run("cli_graphs:app", "--input", "-", stdin='{"n": 6}').stdout)["n"] == 12


def test_streamed_events_are_lines_of_json_and_the_output_is_the_last(folder: pathlib.Path) -> None:
    result = run("cli_graphs:app", "--stream", "updates", "--stream", "custom")
    assert list(map(json.loads, result.stdout.splitlines())) == [
        {"mode": "custom", "data": "halfway"},
        {"mode": "updates", "data": {"node": {"n": 2, "seen": [1, 2, 3]}}},
        {"mode": "output", "data": {"n": 2, "seen": [1, 2, 3]}},
    ]


def test_options_win_over_the_config(folder: pathlib.Path) -> None:
    arguments = ("cli_graphs:looping", "--executor", "inline", "--config", '{"recursion_limit": 2}')
    assert "limit of 2 reached" in run(*arguments).stderr
    assert "limit of 3 reached" in run(*arguments, "--recursion-limit", "3").stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cli_graphs", "'cli_graphs' names no graph: write module:attribute"),
        (":app", "':app' names no graph"),
        ("cli_nope:app", "there is no module 'cli_nope' in "),
        ("cli_nope.deep:app", "there is no module 'cli_nope' in "),
        ("cli_nope.py:app", "there is no file 'cli_nope.py'"),
        ("cli_graphs:ap", "'cli_graphs' has no attribute 'ap'. Did you mean 'app'?"),
        ("cli_graphs:number", "'cli_graphs:number' is an int, not a graph: "),
        ("cli_graphs:State", "'cli_graphs:State' is a _TypedDictMeta, not a graph: "),
        ("cli_graphs:needs_argument", "'cli_graphs:needs_argument' is a function, not a graph: "),
        ("cli_graphs:broken", "'cli_graphs:broken' does not compile: "),
    ],
)
def test_a_target_that_is_no_graph_is_one_clear_line(folder: pathlib.Path, target: str, said: str) -> None:
    assert refused(target, "--executor", "inline").startswith(said)


def test_a_graph_of_langgraph_is_recognised(folder: pathlib.Path) -> None:
    source = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n"
    (folder / "cli_lg.py").write_text(source)
    assert "import StateGraph from raygraph instead" in refused("cli_lg:graph")


@pytest.mark.parametrize(
    ("target", "first", "last"),
    [
        ("cli_broken:app", "importing 'cli_broken' failed: ZeroDivisionError: division by zero", "return 1 / 0"),
        ("cli_exits:app", "importing 'cli_exits' failed: SystemExit: 3", "sys.exit(3)"),
        (
            "cli_needs:app",
            "importing 'cli_needs' failed: ModuleNotFoundError: No module named 'no_such_dependency'",
            "import no_such_dependency",
        ),
        (
            "cli_graphs:failing_factory",
            "importing 'cli_graphs:failing_factory' failed: RuntimeError: no licence",
            'raise RuntimeError("no licence")',
        ),
    ],
)
def test_a_module_that_fails_shows_where(folder: pathlib.Path, target: str, first: str, last: str) -> None:
    result = run(target)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = [line for line in result.stderr.splitlines() if set(line) - set(" ^~")]
    assert lines[0] == f"Error: {first}"
    assert lines[-1].strip() == last
    assert "click" not in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--input", '{"n": }'], "--input: the value is not JSON: Expecting value at line 1, column 7"),
        (["--input", "@nope.json"], "--input: cannot read 'nope.json': No such file or directory"),
        (["--input", "@bad.json"], "--input: bad.json is not JSON: Expecting value at line 2, column 1"),
        (["--input", "@binary"], "--input: binary is not UTF-8: invalid start byte"),
        (["--input", "[" * 100_000], "--input: the value is nested too deeply"),
        (["--config", "[1]"], "--config: expected a JSON object, got [1]"),
        (["--config", '{"recursion_limt": 1}'], "config has no setting 'recursion_limt'. Did you mean"),
        (["--input", '{"m": 1}'], "The input writes key 'm' (value 1), which the state does not have."),
        (["--input", "null"], "The run got None as input"),
    ],
)
def test_bad_input_and_config_are_one_clear_line(folder: pathlib.Path, options: list[str], said: str) -> None:
    (folder / "bad.json").write_text("[1,\n")
    (folder / "binary").write_bytes(b"\xff\x00")
    assert refused("cli_graphs:app", *options).startswith(said)


def test_standard_input_that_is_not_json(folder: pathlib.Path) -> None:
    assert refused("cli_graphs:app", "--input", "-", stdin="").startswith(
        "--input: standard input is not JSON: Expecting value at line 1, column 1"
    )


def test_a_node_that_fails_is_named_with_its_step_and_its_own_traceback(folder: pathlib.Path) -> None:
    result = run("cli_graphs:failing", "--executor", "inline")
    assert (result.exit_code, result.stdout) == (1, "")
    lines = result.stderr.splitlines()
    assert lines[0] == "Error: node 'node' failed in step 1: ValueError: n is odd"
    assert lines[1] == "Traceback (most recent call last):"
    assert "in fails" in lines[2]
    assert "--executor inline" in lines[-1]
    assert "raygraph/" not in result.stderr.replace(str(folder), "")


def test_a_run_that_takes_too_many_steps_says_how_to_go_on(folder: pathlib.Path) -> None:
    result = run("cli_graphs:looping", "--executor", "inline", "--recursion-limit", "2")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "GraphRecursionError" in result.stderr
    assert "recursion_limit" in result.stderr


def test_the_command_leaves_the_environment_as_it_was(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYGRAPH_EXECUTOR", "threads")
    run("cli_graphs:app", "--executor", "inline")
    assert os.environ["RAYGRAPH_EXECUTOR"] == "threads"


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, **options)


def test_the_module_can_be_run_and_worker_processes_print_to_standard_error(folder: pathlib.Path) -> None:
    command = ("-m", "raygraph", "run", "cli_graphs.py:builder", "--executor", "processes")
    result = python(*command, env=environment())
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"n": 2, "seen": [1, 2, 3]}
    assert "noise" in result.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(raygraph.__file__).parents[1])}


def test_ctrl_c_ends_with_130_and_without_a_traceback(folder: pathlib.Path) -> None:
    (folder / "cli_slow.py").write_text(
        GRAPHS + "import time\ndef slow(state):\n    print('ready', flush=True)\n    time.sleep(30)\n"
        "slow_graph = graph_of(slow)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "raygraph", "run", "cli_slow:slow_graph", "--executor", "inline"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "Interrupted.\n")
    assert time.monotonic() - started < 10


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, raygraph, raygraph.cli.main\n"
        "heavy = {'ray', 'rich', 'numpy', 'langchain_core', 'cloudpickle', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert python("-c", code, env=environment()).stdout.strip() == "[]"
    assert python("-c", "import raygraph, sys; print('click' in sys.modules)", env=environment()).stdout == "False\n"


def test_help_lists_the_commands_and_documents_the_encoding() -> None:
    listed = CliRunner().invoke(main, ["--help"]).output
    assert "demo" in listed
    assert "run" in listed
    assert "bytes as base64" in " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())


def test_the_demo_ends_with_the_digest_of_its_result() -> None:
    result = CliRunner().invoke(main, ["demo", "--executor", "inline", "--limit", "3"])
    assert result.exit_code == 0, result.stderr
    assert "speed-up" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("digest: ")
    assert len(result.stdout.splitlines()[-1]) == len("digest: ") + 64
    assert "measured 3 of 3" in result.stderr


# --- JSON ----------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Box:
    inside: Any


class Model(pydantic.BaseModel):
    tags: set[str]
    when: datetime.date


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": (1, 2.5, None, True)}, {"a": [1, 2.5, None, True]}),
        ({10, 9, 1}, [1, 9, 10]),
        ({"b", "a"}, ["a", "b"]),
        ({1, "a", None}, ["a", 1, None]),
        ({(2, 1), (1, 2)}, [[1, 2], [2, 1]]),
        (Box(Box({2, 1})), {"inside": {"inside": [1, 2]}}),
        (Model(tags={"b", "a"}, when=datetime.date(2024, 1, 2)), {"tags": ["a", "b"], "when": "2024-01-02"}),
        (datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc), "2024-01-02T03:00:00+00:00"),
        (datetime.time(3, 4), "03:04:00"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Point(1, 2), [1, 2]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (b"ab", "YWI="),
        (bytearray(b"ab"), "YWI="),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (OrderedDict(a=deque([1])), {"a": [1]}),
        (range(3), [0, 1, 2]),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "null": "b", "[1, 2]": "c"}),
        ({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]]),
        (Opaque(), "Opaque()"),
        (Opaque, "<class 'tests.executors.test_cli.Opaque'>"),
    ],
)
def test_values_that_json_has_no_word_for(value: Any, expected: Any) -> None:
    assert encode(value) == expected
    assert json.loads(to_json(value)) == expected


def test_a_value_that_contains_itself_ends() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    twice = [0]
    assert encode(loop) == [1, "<list that contains itself>"]
    assert encode([twice, twice]) == [[0], [0]]


def test_an_object_whose_repr_fails_is_still_shown() -> None:
    assert "Rude object at" in encode(Rude())


def test_text_that_utf8_cannot_hold_is_still_valid_json(folder: pathlib.Path) -> None:
    source = GRAPHS + "def odd(state):\n    return {'n': '\\udc80é'}\nodd_graph = graph_of(odd)\n"
    (folder / "cli_odd.py").write_text(source, encoding="utf-8")
    result = run("cli_odd:odd_graph", "--executor", "inline")
    assert json.loads(result.stdout)["n"] == "\udc80é"


def test_read_json_tells_where(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Problem, match="line 1, column 2"):
        read_json("[", "--input")

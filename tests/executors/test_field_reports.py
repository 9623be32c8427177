"""What users of other engines ran into (`field_reports.md`, by number), with raygraph's right answer, everywhere.

Reports about checkpoints and interrupts (13, 15 to 21) wait for those.
"""

import asyncio
import functools
import multiprocessing
import operator
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any

import psutil
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from raygraph import START, Overwrite, Send, StateGraph
from raygraph.errors import InvalidUpdateError, ShippingError, SnapshotMutationError, SnapshotMutationWarning
from raygraph.reducers import merge
from tests.conftest import ROOT

Names = Annotated[list, operator.add]


class Trace(TypedDict):
    xs: Names


class Plain(TypedDict, total=False):
    v: Any


def say(name: str) -> Any:
    return lambda state: {"xs": [name]}


def graph(schema: Any, nodes: dict[str, Any], edges: str) -> StateGraph:
    """Nodes by name; edges as "S>a a>b a+b>j"; a node in `deferred:` form is given as (fn, True)."""
    builder = StateGraph(schema)
    for name, fn in nodes.items():
        fn, defer = fn if isinstance(fn, tuple) else (fn, False)
        builder.add_node(name, fn, defer=defer)
    for edge in edges.split():
        start, end = edge.split(">")
        starts = [START if s == "S" else s for s in start.split("+")]
        builder.add_edge(starts if len(starts) > 1 else starts[0], end)
    return builder


def fan(schema: Any, count: int, node: Any) -> StateGraph:
    builder = StateGraph(schema).add_node("w", node)
    return builder.add_conditional_edges(START, lambda state: [Send("w", i) for i in range(count)], ["w"])


def run(builder: StateGraph, executor: str, value: Any, **kwargs: Any) -> Any:
    return builder.compile(executor=executor, **kwargs).invoke(value)


# ---- (a) reducers, channels, merge, joins, ordering -----------------------------------------------------------


def test_fr01_two_branches_return_the_whole_state(executor):
    """Both nodes `return state`, and a key neither meant to change blows up. The error must say who and what."""
    echo = graph(Plain, {"a": lambda s: dict(s), "b": lambda s: dict(s)}, "S>a S>b")
    with pytest.raises(InvalidUpdateError, match="returned the key unchanged") as caught:
        run(echo, executor, {"v": 7})
    assert caught.value.key == "v"
    for part in ("'v'", "'a'", "'b'", "7", "Annotated"):
        assert part in str(caught.value)


def test_fr01_two_branches_write_one_key(executor):
    """One key, two values, no reducer: never a silent winner."""
    two = graph(Plain, {"a": lambda s: {"v": "from a"}, "b": lambda s: {"v": "from b"}}, "S>a S>b")
    with pytest.raises(InvalidUpdateError, match="At key 'v': Can receive only one value per step") as caught:
        run(two, executor, {"v": "in"})
    for part in ("node 'a'", "'from a'", "node 'b'", "'from b'"):
        assert part in str(caught.value)
    assert "unchanged" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({"a": Overwrite(["A"]), "b": ["b"]}, ["A"]),
        ({"a": ["a"], "b": Overwrite(["B"])}, ["B"]),
        ({"a": ["a"], "b": Overwrite(["B"]), "c": ["c"]}, ["B"]),
        ({"a": Overwrite([])}, []),
    ],
)
def test_fr02_overwrite_and_plain_writes_in_one_step(executor, nodes, expected):
    """One written rule: what comes before an `Overwrite` is superseded, what comes after it is dropped."""
    functions = {name: (lambda s, value=value: {"xs": value}) for name, value in nodes.items()}
    built = graph(Trace, functions, " ".join(f"S>{name}" for name in nodes))
    assert run(built, executor, {"xs": ["0"]}) == {"xs": expected}


def test_fr02_sanitize_tells_of_a_lost_update(executor):
    """With `sanitize=True` an `Overwrite` that makes a sibling's update vanish is an error that names both."""
    functions = {"a": lambda s: {"xs": Overwrite(["A"])}, "b": lambda s: {"xs": ["b"]}}
    with pytest.raises(InvalidUpdateError) as caught:
        run(graph(Trace, functions, "S>a S>b"), executor, {"xs": ["0"]}, sanitize=True)
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)
    assert caught.value.key == "xs"


def test_fr02_two_overwrites_in_one_step(executor):
    """Two bases for one step: nobody can say which."""
    functions = {name: (lambda s, name=name: {"xs": Overwrite([name])}) for name in ("a", "b")}
    with pytest.raises(InvalidUpdateError) as caught:
        run(graph(Trace, functions, "S>a S>b"), executor, {"xs": ["0"]})
    for part in ("'xs'", "'a'", "'b'"):
        assert part in str(caught.value)


def test_fr02_overwrite_unwraps_everywhere(executor):
    """Without a reducer, and as the first value of an empty key, the wrapper itself ended up in the state."""

    class State(TypedDict, total=False):
        plain: int
        empty: Annotated[int | str, lambda old, new: f"{old}{new}"]

    built = graph(State, {"a": lambda s: {"plain": Overwrite(3), "empty": Overwrite(4)}}, "S>a")
    assert run(built, executor, {"plain": 1}) == {"plain": 3, "empty": 4}


@dataclass
class DataclassState:
    n: Annotated[int, operator.add] = 10
    v: int = 5
    made: list = field(default_factory=list)


class PydanticState(BaseModel):
    n: Annotated[int, operator.add] = 10
    v: int = 5
    made: list = Field(default_factory=list)


@pytest.mark.parametrize("schema", [DataclassState, PydanticState])
def test_fr03_defaults_of_a_reduced_key(executor, schema):
    """A declared default of a key with a reducer was replaced by the type's zero, or not, by how the run began."""
    app = graph(schema, {"a": lambda s: {"n": 1}}, "S>a").compile(executor=executor)
    assert app.invoke({}) == {"n": 11, "v": 5, "made": []}
    assert app.invoke(schema()) == {"n": 11, "v": 5, "made": []}


@pytest.mark.filterwarnings("ignore::raygraph.errors.SnapshotMutationWarning")
def test_fr03_a_default_is_not_shared_between_runs(executor):
    """`default_factory=list`: the list of one run must not turn up in the next."""

    def a(state):
        state.made.append("mine")
        return {"made": state.made}

    app = graph(DataclassState, {"a": a}, "S>a").compile(executor=executor)
    assert [app.invoke({})["made"] for _ in range(3)] == [["mine"]] * 3


def test_fr04_a_typo_in_a_returned_key(executor):
    """A key the state does not have disappeared without a word."""

    class State(TypedDict):
        value: int

    built = graph(State, {"writer": lambda s: {"value": 1, "vaule": 2}}, "S>writer")
    with pytest.raises(InvalidUpdateError, match="Did you mean 'value'") as caught:
        run(built, executor, {"value": 0})
    assert (caught.value.node, caught.value.key) == ("writer", "vaule")
    assert run(built, executor, {"value": 0}, strict=False) == {"value": 1}


@pytest.mark.parametrize(
    ("edges", "defer", "expected"),
    [
        ("a>j b2>j", False, ["a", "b", "b2", "j", "j"]),
        ("a+b2>j", False, ["a", "b", "b2", "j"]),
        ("a>j b2>j", True, ["a", "b", "b2", "j"]),
    ],
)
def test_fr06_branches_of_unequal_length(executor, edges, defer, expected):
    """Plain edges run the join per arrival, as in LangGraph; a list edge and `defer` run it once."""
    nodes = {"a": say("a"), "b": say("b"), "b2": say("b2"), "j": (say("j"), defer)}
    assert run(graph(Trace, nodes, f"S>a S>b b>b2 {edges}"), executor, {"xs": []}) == {"xs": expected}


def test_fr09_a_change_in_place_is_seen_by_nobody(executor):
    """A node appends to its snapshot and returns nothing: a sibling must not see it, nor the result hold it."""

    def a(state):
        state["xs"].append("HACK")
        return {}

    nodes = {"a": a, "b": lambda s: {"xs": [f"b saw {s['xs']}"]}, "c": lambda s: {"xs": [f"c saw {len(s['xs'])}"]}}
    app = graph(Trace, nodes, "S>a S>b a+b>c").compile(executor=executor)
    with pytest.warns(SnapshotMutationWarning, match="'a' changed 'xs'") as warned:
        result = app.invoke({"xs": ["0"]})
    assert len(warned) == 1
    assert result == {"xs": ["0", "b saw ['0']", "c saw 2"]}


def test_fr09_sanitize_makes_it_an_error(executor):
    """The same with `sanitize=True`: the run stops and says which node and key."""

    def a(state):
        state["xs"][0].append("deep down")

    with pytest.raises(SnapshotMutationError) as caught:
        run(graph(Trace, {"a": a}, "S>a"), executor, {"xs": [["0"]]}, sanitize=True)
    assert (caught.value.node, caught.value.key) == ("a", "xs")


def test_fr09_returned_and_changed(executor):
    """The node returns the list it has appended to: the reducer adds it to the state as it was."""

    def a(state):
        state["xs"].append("m")
        return {"xs": state["xs"]}

    assert run(graph(Trace, {"a": a}, "S>a"), executor, {"xs": ["0"]}) == {"xs": ["0", "0", "m"]}


def test_fr09_a_reducer_that_changes_its_left_side(executor):
    """`operator.iadd` as a reducer changed states that had been streamed before."""

    class State(TypedDict):
        xs: Annotated[list, operator.iadd]

    given = {"xs": ["0"]}
    app = graph(State, {"a": say("a"), "b": say("b")}, "S>a a>b").compile(executor=executor)
    chunks = list(app.stream(given, stream_mode="values"))
    assert chunks == [{"xs": ["0"]}, {"xs": ["0", "a"]}, {"xs": ["0", "a", "b"]}]
    assert given == {"xs": ["0"]}


def test_fr10_the_order_is_not_the_order_of_completion(executor):
    """The first of twelve tasks ends last, and still comes first."""

    def w(i):
        time.sleep((12 - i) * 0.004)
        return {"xs": [i]}

    app = fan(Trace, 12, w).compile(executor=executor)
    assert all(app.invoke({"xs": []})["xs"] == list(range(12)) for _ in range(3))


def test_fr10_nodes_by_name_and_before_sends(executor):
    """Added as z, m, a: merged as a, m, z; and a step's own nodes before its `Send`s."""

    def late(name, delay):
        def node(state):
            time.sleep(delay)
            return {"xs": [name]}

        return node

    nodes = {"z": late("z", 0), "m": late("m", 0.02), "a": late("a", 0.04), "w": lambda i: {"xs": [f"w{i}"]}}
    built = graph(Trace, nodes, "S>z S>m S>a")
    built.add_conditional_edges(START, lambda s: [Send("w", i) for i in range(2)], ["w"])
    assert run(built, executor, {"xs": []}) == {"xs": ["a", "m", "z", "w0", "w1"]}


def test_fr11_ids_of_messages_do_not_change(executor):
    """A message without an id gets one where it is made, derived from its place: two equal runs give equal ids."""
    import raygraph

    if not hasattr(raygraph, "MessagesState"):
        pytest.skip("not there yet: MessagesState")
    from langchain_core.messages import AIMessage

    node = {"a": lambda s: {"messages": [AIMessage("one"), AIMessage("two")]}}
    app = graph(raygraph.MessagesState, node, "S>a").compile(executor=executor)
    runs = [[m.id for m in app.invoke({"messages": []}, {"run_id": "run"})["messages"]] for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 2
    assert None not in runs[0]


def test_fr12_last_one_wins_hides_lost_work(executor):
    """Two branches write parts of one dict: without a reducer an error, with `merge` both parts."""
    parts = {"a": lambda s: {"v": {"x": 1}}, "b": lambda s: {"v": {"y": 2}}}
    with pytest.raises(InvalidUpdateError):
        run(graph(Plain, parts, "S>a S>b"), executor, {"v": {}})

    class Merged(TypedDict):
        v: Annotated[dict, merge]

    assert run(graph(Merged, parts, "S>a S>b"), executor, {"v": {}}) == {"v": {"x": 1, "y": 2}}


# ---- (c) CPU-bound work ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["processes", "ray"], indirect=True)
def test_fr25_pure_python_runs_in_parallel(executor):
    """Eight nodes burn pure Python: they run in several processes, none of them the driver's, with one result."""

    def burn(i):
        total, until = 0, time.process_time() + 0.15
        while time.process_time() < until:
            total += 1
        return {"xs": [(i, os.getpid(), total > 0)]}

    found = run(fan(Trace, 8, burn), executor, {"xs": []})["xs"]
    assert [(i, ran) for i, _, ran in found] == [(i, True) for i in range(8)]
    pids = {pid for _, pid, _ in found}
    assert len(pids) >= 2
    assert os.getpid() not in pids


# ---- (d) pickling ---------------------------------------------------------------------------------------------


def double(state):
    return {"xs": [x * 2 for x in state["xs"]]}


def inside(blob: bytes) -> Any:
    return pickle.loads(blob).invoke({"xs": ["z"]})


def test_fr31_a_compiled_graph_can_be_pickled(executor):
    """`pickle.dumps(app)` failed on local objects, and its advice could not be followed."""
    app = graph(Trace, {"double": double}, "S>double").compile(executor=executor)
    again = pickle.loads(pickle.dumps(app))
    assert again.invoke({"xs": ["x"]}) == app.invoke({"xs": ["x"]}) == {"xs": ["x", "xx"]}


def test_fr31_a_graph_runs_inside_another_process():
    """In a worker of multiprocessing, started by spawn."""
    app = graph(Trace, {"double": double}, "S>double").compile(executor="inline")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(inside, [pickle.dumps(app)]) == {"xs": ["z", "zz"]}
        pool.close()
        pool.join()


def test_fr31_a_graph_runs_inside_a_ray_task(one_ray):
    """In a Ray task and in an actor that hold a CPU."""
    import ray

    blob = pickle.dumps(graph(Trace, {"double": double}, "S>double").compile(executor="ray"))
    assert ray.get(ray.remote(inside).remote(blob), timeout=60) == {"xs": ["z", "zz"]}

    class Actor:
        def run(self, blob):
            return inside(blob)

    actor = ray.remote(Actor).options(num_cpus=1).remote()
    assert ray.get(actor.run.remote(blob), timeout=60) == {"xs": ["z", "zz"]}
    ray.kill(actor)


class Client:
    """An object that holds something that cannot travel, two levels down."""

    def __init__(self) -> None:
        self.pool = {"lock": threading.Lock()}

    def fetch(self, state):
        with self.pool["lock"]:
            return {"xs": ["fetched"]}


def lock_in_closure() -> Any:
    lock = threading.Lock()

    def node(state):
        with lock:
            return {"xs": ["fetched"]}

    return node


def object_in_closure() -> Any:
    client = Client()
    return lambda state: client.fetch(state)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lock_in_closure, ["lock"]),
        (lambda: Client().fetch, ["self.pool", "lock"]),
        (object_in_closure, ["client.pool", "lock"]),
    ],
    ids=["closure", "bound method", "object in closure"],
)
def test_fr32_a_node_captured_what_cannot_travel(executor, make, parts):
    """ "cannot pickle '_thread.lock' object" says neither which node nor where. In the driver's process it is fine."""
    built = graph(Trace, {"fetch": make()}, "S>fetch")
    if executor in ("inline", "threads"):
        assert run(built, executor, {"xs": []}) == {"xs": ["fetched"]}
        return
    with pytest.raises(ShippingError) as caught:
        built.compile(executor=executor)
    assert caught.value.node == "fetch"
    for part in ("'fetch'", "per_worker", *parts):
        assert part in str(caught.value)


def test_fr32_such_a_node_may_stay_on_the_driver(executor):
    """`executor="threads"` for that one node."""
    built = StateGraph(Trace).add_node("fetch", Client().fetch, executor="threads").add_edge(START, "fetch")
    assert run(built, executor, {"xs": []}) == {"xs": ["fetched"]}


class TwoArguments(Exception):
    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


class KeywordOnly(Exception):
    def __init__(self, *, code, detail):
        super().__init__("keyword only")
        self.code, self.detail = code, detail


class NoArguments(Exception):
    def __init__(self):
        super().__init__("always the same")
        self.code, self.detail = 4, "x"


class HoldsALock(Exception):
    def __init__(self):
        super().__init__("holds a lock")
        self.code, self.detail, self.lock = 4, "x", threading.Lock()


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (lambda: TwoArguments(4, "x"), ("4: x",)),
        (lambda: KeywordOnly(code=4, detail="x"), ("keyword only",)),
        (lambda: NoArguments(), ("always the same",)),
        (lambda: HoldsALock(), ("holds a lock",)),
    ],
    ids=["two arguments", "keyword only", "no arguments", "holds a lock"],
)
def test_fr33_exceptions_that_pickle_cannot_rebuild(executor, make, args):
    """`except MyError as e` works, with its attributes and its cause, whatever its `__init__` asks for."""
    kind = type(make())

    def a(state):
        try:
            {}["cause"]
        except KeyError as cause:
            raise make() from cause

    with pytest.raises(kind) as caught:
        run(graph(Trace, {"a": a}, "S>a"), executor, {"xs": []})
    error = caught.value
    assert type(error) is kind
    assert (error.args, error.code, error.detail) == (args, 4, "x")
    assert type(error.__cause__) is KeyError
    assert any("'a'" in note for note in error.__notes__)


SCRIPT = """
import functools, operator
from typing import Annotated, TypedDict
from raygraph import START, StateGraph

print("script runs")

class State(TypedDict):
    xs: Annotated[list, operator.add]

class Adder:
    def __init__(self, name): self.name = name
    def __call__(self, state): return {{"xs": [self.name]}}

def named(name, state): return {{"xs": [name + helper()]}}
def helper(): return "!"
def make():
    def nested(state): return {{"xs": ["nested" + helper()]}}
    return nested

b = StateGraph(State)
b.add_sequence([("l", lambda s: {{"xs": ["lambda"]}}), ("n", make()), ("p", functools.partial(named, "partial")),
                ("c", Adder("object"))])
b.add_edge(START, "l")
print(b.compile(executor={executor!r}).invoke({{"xs": []}})["xs"])
"""


def script(code: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    return subprocess.run(
        [sys.executable, *(arguments or ("-c", code))],
        input=code if arguments == ("-",) else None,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "ray"])
def test_fr36_a_script_without_a_main_guard(executor, tmp_path):
    """Lambdas, nested functions, partials and objects of `__main__`, in a script that nothing may run twice."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(executor=executor))
    finished = script("", str(path))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["script runs", "['lambda', 'nested!', 'partial!', 'object']"]


# ---- (e) Ray --------------------------------------------------------------------------------------------------


class Two(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code


class NoSubclass(Exception):
    """Ray wraps an exception in a class made of it, which this one refuses."""

    def __init_subclass__(cls, **kwargs):
        raise TypeError("no subclasses")


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (lambda: ValueError("v"), ("v",)),
        (lambda: KeyError("k"), ("k",)),
        (lambda: Two(4, "x"), (4, "x")),
        (lambda: NoSubclass("n"), ("n",)),
        (lambda: StopIteration("s"), ("s",)),
    ],
    ids=["ValueError", "KeyError", "Two", "NoSubclass", "StopIteration"],
)
def test_fr38_the_callers_exception_is_the_nodes_own(executor, make, args):
    """No wrapper: class, args and text are the node's, with a note that says where it came from."""
    kind = type(make())

    def broken(state):
        raise make()

    with pytest.raises(kind) as caught:
        run(graph(Trace, {"broken": broken}, "S>broken"), executor, {"xs": []})
    error = caught.value
    assert type(error) is kind
    assert error.args == args
    assert str(error) == str(make())
    notes = "\n".join(error.__notes__)
    for part in ("'broken'", "attempt 1", os.uname().nodename):
        assert part in notes
    assert executor in ("inline", "threads") or "in broken" in notes  # the remote traceback
    seen, chain = set(), [error]
    while chain:
        link = chain.pop()
        seen.add(type(link).__module__.split(".")[0])
        chain += [e for e in (link.__cause__, link.__context__) if e is not None]
    assert "ray" not in seen


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are new in 3.11")
def test_fr38_exception_groups(executor):
    """A group arrives as a group, with its members."""

    def broken(state):
        raise ExceptionGroup("several", [ValueError("v"), TwoArguments(4, "x")])  # noqa: F821

    with pytest.raises(ExceptionGroup) as caught:  # noqa: F821
        run(graph(Trace, {"broken": broken}, "S>broken"), executor, {"xs": []})
    assert caught.value.message == "several"
    assert [(type(e), e.args) for e in caught.value.exceptions] == [(ValueError, ("v",)), (TwoArguments, ("4: x",))]


def test_fr45_a_ray_of_the_users_is_used_and_left_alone(one_ray):
    """(i) The user has called `ray.init`: attach to it, and don't shut it down."""
    import ray

    before = ray.get_runtime_context().get_job_id()
    assert run(graph(Trace, {"a": say("a")}, "S>a"), "ray", {"xs": []}) == {"xs": ["a"]}
    assert ray.is_initialized()
    assert ray.get_runtime_context().get_job_id() == before


def test_fr45_a_ray_of_our_own_is_started_and_stopped(tmp_path):
    """(ii) No `ray.init`: we start one, and it is gone with the program."""
    code = """
        import operator, psutil
        from typing import Annotated, TypedDict
        from raygraph import START, StateGraph

        class State(TypedDict):
            xs: Annotated[list, operator.add]

        b = StateGraph(State).add_node("a", lambda s: {"xs": ["a"]}).add_edge(START, "a")
        print(b.compile(executor="ray").invoke({"xs": []}))
        print(*[c.pid for c in psutil.Process().children(recursive=True)])
        """
    finished = script(textwrap.dedent(code))
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    result, pids = finished.stdout.splitlines()
    assert result == "{'xs': ['a']}"
    started = {int(pid) for pid in pids.split()}
    assert started
    deadline = time.monotonic() + 20
    while (left := [pid for pid in started if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_fr45_import_starts_nothing():
    """(iii) `import raygraph`, and building and compiling a graph, start no process and load no Ray."""
    code = """
        import sys, threading, typing, psutil
        import raygraph
        heavy = {"ray", "langchain_core", "langgraph", "numpy", "pydantic"}
        print(sorted(heavy & set(sys.modules)))
        from raygraph import START, StateGraph
        class State(typing.TypedDict):
            v: int
        app = StateGraph(State).add_node("a", lambda s: {"v": 1}).add_edge(START, "a").compile()
        print("ray" in sys.modules, threading.active_count(), len(psutil.Process().children()))
        """
    finished = script(textwrap.dedent(code))
    assert finished.stdout.splitlines() == ["[]", "False 1 0"], finished.stderr


def test_fr45_a_graph_in_a_task_and_a_subgraph_in_a_node_do_not_deadlock(one_ray):
    """(iv) All CPUs are held by tasks that each run a graph whose nodes run graphs."""
    import ray

    inner = graph(Trace, {"double": double}, "S>double").compile(executor="ray")
    outer = fan(Trace, 4, lambda i: {"xs": inner.invoke({"xs": [str(i)]})["xs"]}).compile(executor="ray")
    expected = {"xs": ["0", "00", "1", "11", "2", "22", "3", "33"]}
    assert outer.invoke({"xs": []}) == expected
    nested = graph(Trace, {"outer": outer}, "S>outer").compile(executor="ray")

    def held():
        return nested.invoke({"xs": []})

    tasks = [ray.remote(held).options(num_cpus=1).remote() for _ in range(3)]
    assert ray.get(tasks, timeout=90) == [expected] * 3


def test_fr45_from_a_thread_and_from_an_event_loop(executor):
    """(v) The driver may be any thread, and a loop that is running (as in a notebook)."""
    app = fan(Trace, 5, lambda i: {"xs": [i]}).compile(executor=executor)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(app.invoke, {"xs": []}).result(60) == {"xs": [0, 1, 2, 3, 4]}

    async def main():
        return app.invoke({"xs": []}), await app.ainvoke({"xs": []})

    assert asyncio.run(main()) == ({"xs": [0, 1, 2, 3, 4]},) * 2


def test_fr45_several_runs_at_once(executor):
    """(vi) Runs share the executor and nothing else."""
    app = fan(Trace, 6, lambda i: {"xs": [i]}).compile(executor=executor)
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(app.invoke, {"xs": [f"run {n}"]}) for n in range(8)]
        assert [r.result(60)["xs"] for r in runs] == [[f"run {n}", 0, 1, 2, 3, 4, 5] for n in range(8)]


# ---- (f) other engines ----------------------------------------------------------------------------------------


def test_fr54_what_was_set_before_the_branches_is_there_after_the_join(executor):
    """Metaflow users have to spell a merge out. Here an untouched key just stays."""

    class State(TypedDict, total=False):
        t0: Any
        xs: Names
        seen: Any

    def prepare(state):
        return {"t0": {"made": "before"}}

    nodes = {"prepare": prepare, "a": say("a"), "b": say("b"), "join": lambda s: {"seen": s["t0"]}}
    built = graph(State, nodes, "S>prepare prepare>a prepare>b a+b>join")
    assert run(built, executor, {"xs": []}) == {
        "t0": {"made": "before"},
        "xs": ["a", "b"],
        "seen": {"made": "before"},
    }


def test_fr54_branches_that_set_it_differently_conflict(executor):
    """And two answers are an error, not a choice."""
    made = {n: functools.partial(lambda state, name: {"v": name}, name=n) for n in "ab"}
    with pytest.raises(InvalidUpdateError, match="'v'"):
        run(graph(Plain, made, "S>a S>b"), executor, {"v": "before"})

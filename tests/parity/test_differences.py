"""The stated differences from LangGraph, shown: each test asserts both engines' values.

A difference that disappears, on either side, fails here, so that README's table stays true.
"""

import copy
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import ReadOnly, TypedDict

from tests.parity.differences import DIFFERENCES
from tests.parity.harness import LANGGRAPH, canon, raygraph
from tests.parity.test_handwritten import Counted, Names, Trace, graph, say, says

pytestmark = pytest.mark.filterwarnings("ignore:Node .* changed:UserWarning")

#: By name of the difference: takes a namespace, returns what its users see.
SHOWN: dict[str, Callable[[Any], Any]] = {}


def shows(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """File a function that shows a difference. It returns a value, or raises what a run raises."""

    def file(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
        assert name not in SHOWN, name
        SHOWN[name] = show
        return show

    return file


def run(lg: Any, builder: Any, value: Any, config: Any = None, **kwargs: Any) -> Any:
    return lg.compile(builder, **kwargs).invoke(copy.deepcopy(value), config)


def seen(show: Callable[[Any], Any], lg: Any, expected: Any) -> Any:
    """What `show` returns, or `expected` if that names a class of the exception raised."""
    try:
        return show(lg)
    except Exception as error:
        kinds = [f"raises {kind.__name__}" for kind in type(error).__mro__]
        return expected if expected in kinds else kinds[0]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.name)
def test_difference(difference):
    show = SHOWN[difference.name]
    for lg, expected in ((LANGGRAPH, difference.langgraph), (raygraph(), difference.raygraph)):
        assert canon(seen(show, lg, expected)) == canon(expected), lg.engine


def test_each_difference_is_shown_and_named_once():
    assert sorted(SHOWN) == sorted(d.name for d in DIFFERENCES)
    assert len({d.title for d in DIFFERENCES}) == len(DIFFERENCES)
    assert all(canon(d.langgraph) != canon(d.raygraph) for d in DIFFERENCES)


# ---- limits ---------------------------------------------------------------------------------------------------


@shows("recursion_limit_is_exact")
def _(lg):
    return run(lg, graph(lg, Trace, says("a"), "S>a"), {"xs": []}, {"recursion_limit": 1})


@shows("default_recursion_limit")
def _(lg):
    builder = graph(lg, Counted, {"a": lambda s: {"n": 1}}, "S>a")
    builder.add_conditional_edges("a", lambda s: "a" if s["n"] < 30 else lg.END)
    return run(lg, builder, {"n": 0})


@shows("remaining_steps")
def _(lg):
    class State(TypedDict):
        xs: Names
        left: lg.RemainingSteps
        last: lg.IsLastStep

    nodes = {n: lambda s: {"xs": [(s["left"], s["last"])]} for n in "abcd"}
    return run(lg, graph(lg, State, nodes, "S>a a>b b>c"), {"xs": []}, {"recursion_limit": 4})


# ---- state ----------------------------------------------------------------------------------------------------


@shows("defaults_seed_channels")
def _(lg):
    @dataclass
    class State:
        n: Annotated[int, operator.add] = 10
        v: int = 5

    return run(lg, graph(lg, State, {"a": lambda s: {"n": 1}}, "S>a"), {})


@shows("mutation_is_isolated")
def _(lg):
    def a(state):
        state["xs"].append("HACK")
        return {}

    nodes = {"a": a, "b": lambda s: {"n": len(s["xs"])}}
    return run(lg, graph(lg, Counted, nodes, "S>a a>b"), {"xs": ["0"], "n": 0})


@shows("returned_values_are_copied")
def _(lg):
    kept: list[str] = ["a"]
    nodes = {"a": lambda s: {"v": kept}, "b": lambda s: kept.append("later")}

    class State(TypedDict):
        v: list

    return run(lg, graph(lg, State, nodes, "S>a a>b"), {"v": []})


@shows("input_is_not_changed")
def _(lg):
    class State(TypedDict):
        v: list

    def a(state):
        state["v"].append("HACK")

    value = {"v": ["mine"]}
    lg.compile(graph(lg, State, {"a": a}, "S>a")).invoke(value)
    return value


@shows("uncopyable_values_are_refused")
def _(lg):
    class State(TypedDict):
        v: Any

    nodes = {"a": lambda s: {"v": (i for i in range(3))}, "b": lambda s: {"v": list(s["v"])}}
    return run(lg, graph(lg, State, nodes, "S>a a>b"), {})


@shows("overwrite_without_a_reducer")
def _(lg):
    class State(TypedDict):
        v: int

    return run(lg, graph(lg, State, {"a": lambda s: {"v": lg.Overwrite(3)}}, "S>a"), {"v": 1})


@shows("overwrite_as_a_first_value")
def _(lg):
    class State(TypedDict):
        v: Annotated[int | str, lambda old, new: new]

    return run(lg, graph(lg, State, {"a": lambda s: {"v": lg.Overwrite(3)}}, "S>a"), {})


@shows("read_only_keeps_its_reducer")
def _(lg):
    class State(TypedDict):
        xs: ReadOnly[Annotated[list, operator.add]]

    return run(lg, graph(lg, State, says("a b"), "S>a a>b"), {"xs": ["0"]})


@shows("a_builtin_as_a_reducer")
def _(lg):
    class State(TypedDict):
        n: Annotated[int, max]

    return run(lg, graph(lg, State, {"a": lambda s: {"n": 3}}, "S>a"), {"n": 5})


@shows("a_partial_as_a_reducer_in_two_schemas")
def _(lg):
    def merge(old, new, extra=()):
        return [*old, *new, *extra]

    reducer = functools.partial(merge, extra=())

    class State(TypedDict):
        xs: Annotated[list, reducer]

    class Other(TypedDict):
        xs: Annotated[list, reducer]

    builder = lg.StateGraph(State).add_node("a", say("a"), input_schema=Other).add_edge(lg.START, "a")
    return run(lg, builder, {"xs": ["0"]})


# ---- strictness -----------------------------------------------------------------------------------------------


class V(TypedDict):
    v: int


@shows("unknown_key_in_an_update")
def _(lg):
    return run(lg, graph(lg, V, {"a": lambda s: {"v": 1, "typo": 2}}, "S>a"), {})


@shows("unknown_key_in_the_input")
def _(lg):
    return run(lg, graph(lg, V, {"a": lambda s: {"v": 1}}, "S>a"), {"typo": 2})


@shows("unknown_goto")
def _(lg):
    nodes = {"a": lambda s: lg.Command(update={"v": 1}, goto="nowhere")}
    return run(lg, graph(lg, V, nodes, "S>a"), {})


@shows("unknown_send")
def _(lg):
    builder = graph(lg, V, {"a": lambda s: {"v": 1}}, "S>a")
    return run(lg, builder.add_conditional_edges("a", lambda s: lg.Send("nowhere", 1)), {})


@shows("unknown_route")
def _(lg):
    builder = graph(lg, V, {"a": lambda s: {"v": 1}}, "S>a")
    return run(lg, builder.add_conditional_edges("a", lambda s: "nowhere"), {})


@shows("route_outside_the_path_map")
def _(lg):
    builder = graph(lg, V, {"a": lambda s: {"v": 1}}, "S>a")
    return run(lg, builder.add_conditional_edges("a", lambda s: "elsewhere", {"here": "a"}), {})


@shows("a_join_left_open")
def _(lg):
    builder = graph(lg, Trace, says("a b j"), "S>a a+b>j")
    return run(lg, builder.add_conditional_edges("a", lambda s: lg.END, ["b", lg.END]), {"xs": []})


@shows("a_setting_in_the_wrong_place")
def _(lg):
    config = {"configurable": {"recursion_limit": 1}}
    return run(lg, graph(lg, Trace, says("a b"), "S>a a>b"), {"xs": []}, config)


@shows("parent_command_without_a_parent")
def _(lg):
    nodes = {"a": lambda s: lg.Command(graph=lg.Command.PARENT, goto="a")}
    return run(lg, graph(lg, V, nodes, "S>a"), {})


# ---- joins, commands, nodes -----------------------------------------------------------------------------------


@shows("deferred_nodes_compose")
def _(lg):
    builder = graph(lg, Trace, says("a b b2 b3"), "S>a S>b b>b2 b2>b3")
    builder.add_node("d1", say("d1"), defer=True).add_node("d2", say("d2"), defer=True)
    return run(lg, builder.add_edge("a", "d1").add_edge("d1", "d2").add_edge("b3", "d2"), {"xs": []})


@shows("deferred_nodes_wait_for_sends")
def _(lg):
    builder = graph(lg, Trace, {"a": say("a"), "w": lambda i: {"xs": [f"w{i}"]}}, "S>a")
    builder.add_node("d", lambda s: {"xs": [f"d saw {len(s['xs'])}"]}, defer=True)
    builder.add_edge("a", "d").add_edge("w", "d")
    return run(lg, builder.add_conditional_edges("a", lambda s: [lg.Send("w", 0), lg.Send("w", 1)], ["w"]), {"xs": []})


@shows("command_as_input_is_applied_once")
def _(lg):
    return lg.compile(graph(lg, Trace, says("a"), "S>a")).invoke(lg.Command(update={"xs": ["in"]}))


@shows("async_nodes_in_invoke")
def _(lg):
    async def a(state):
        return {"v": 1}

    return run(lg, graph(lg, V, {"a": a}, "S>a"), {})


@shows("a_tuple_of_stream_modes")
def _(lg):
    app = lg.compile(graph(lg, V, {"a": lambda s: {"v": 1}}, "S>a"))
    return list(app.stream({}, stream_mode=("values", "updates")))


@shows("private_defaults")
def _(lg):
    """A node's own schema has a default: the key exists from the start, but is no output."""

    class Own(BaseModel):
        v: int = 3

    def a(state: Own):
        return {"xs": [state.v]}

    builder = lg.StateGraph(Trace).add_node("a", a).add_edge(lg.START, "a")
    return list(lg.compile(builder).stream({"xs": []}, stream_mode="values"))

"""Building and compiling: what is accepted, what is refused, and how it is said."""

from __future__ import annotations

import asyncio
import functools
import operator
import pickle
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pydantic
import pytest
from typing_extensions import TypedDict

from raygraph import END, START, Command, StateGraph
from raygraph.errors import (
    ConfigError,
    GraphDefinitionError,
    InvalidUpdateError,
    NotSupportedError,
    SnapshotMutationError,
    SnapshotMutationWarning,
)
from tests.unit.engine import says


class State(TypedDict, total=False):
    xs: Annotated[list[Any], operator.add]
    v: int


def node(state: State) -> dict[str, Any]:
    return {"xs": ["n"]}


def one(fn: Any = node, **options: Any) -> StateGraph:
    built = StateGraph(State)
    built.add_node("a", fn, **options)
    built.add_edge(START, "a")
    return built


def run(built: StateGraph, given: Any, **compiled: Any) -> Any:
    return built.compile(executor="inline", **compiled).invoke(given)


class Adder:
    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __call__(self, state: State) -> dict[str, Any]:
        return {"xs": [self.tag]}

    def method(self, state: State) -> dict[str, Any]:
        return {"xs": [self.tag + "m"]}


async def coroutine(state: State) -> dict[str, Any]:
    return {"xs": ["async"]}


class TestNodes:
    @pytest.mark.parametrize(
        ("fn", "tag"),
        [
            (node, "n"),
            (lambda s: {"xs": ["lambda"]}, "lambda"),
            (functools.partial(lambda s, tag: {"xs": [tag]}, tag="partial"), "partial"),
            (Adder("object"), "object"),
            (Adder("bound").method, "boundm"),
            (coroutine, "async"),
        ],
    )
    def test_kinds_of_functions(self, fn: Any, tag: str) -> None:
        assert run(one(fn), {}) == {"xs": [tag]}

    def test_names_are_inferred(self) -> None:
        built = StateGraph(State)
        built.add_node(node)
        built.add_node(Adder("x"))
        assert set(built.nodes) == {"node", "Adder"}

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (("a|b", node), r"contains '\|'"),
            (("a:b", node), "contains ':'"),
            ((START, node), "reserved"),
            ((END, node), "reserved"),
            (("", node), "non-empty string"),
            (("a", None), "has no function"),
            (("a", 3), "must be a function"),
            (("a", lambda: {"v": 1}), "takes no argument"),
        ],
    )
    def test_refused(self, args: Any, words: str) -> None:
        built = StateGraph(State)
        with pytest.raises(GraphDefinitionError, match=words):
            built.add_node(*args)
        assert built.nodes == {}

    def test_a_taken_name(self) -> None:
        built = one()
        with pytest.raises(GraphDefinitionError, match="'a' is already in the graph"):
            built.add_node("a", says("other"))
        assert built.nodes["a"].fn is node

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"num_cpu": 2}, ConfigError, "no argument 'num_cpu'. Did you mean 'num_cpus'"),
            ({"num_cpus": -1}, ConfigError, "num_cpus must be a number of at least 0; got -1"),
            ({"num_cpus": "2"}, ConfigError, "got '2' .str."),
            ({"max_concurrency": 0}, ConfigError, "max_concurrency must be an int of at least 1"),
            ({"resources": {"gadget": "x"}}, ConfigError, "resources.'gadget'."),
            ({"cache_policy": object()}, NotSupportedError, "cache_policy= is not supported"),
            ({"retry_policy": object()}, ConfigError, "must be a RetryPolicy"),
            ({"timeout": 3}, NotSupportedError, "timeout= is not supported"),
        ],
    )
    def test_options(self, options: Any, error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            one(**options)

    def test_asks_by_name(self) -> None:
        def asking(state: State, config: Any, *, runtime: Any) -> dict[str, Any]:
            return {"xs": [config["configurable"]["who"], runtime.node, runtime.step, runtime.attempt]}

        app = one(asking).compile(executor="inline")
        assert app.invoke({}, {"configurable": {"who": "me"}}) == {"xs": ["me", "a", 1, 1]}

    def test_seed_is_the_same_every_time_and_different_per_task(self) -> None:
        def draw(state: State, runtime: Any) -> dict[str, Any]:
            return {"xs": [runtime.seed]}

        built = StateGraph(State)
        for name in "abcd":
            built.add_node(name, draw)
            built.add_edge(START, name)
        app = built.compile(executor="inline")
        first = app.invoke({}, {"seed": 7})["xs"]
        assert len(set(first)) == 4
        assert app.invoke({}, {"seed": 7})["xs"] == first
        assert app.invoke({}, {"seed": 8})["xs"] != first


class TestGraphChecks:
    def test_all_problems_at_once(self) -> None:
        built = one()
        built.add_edge("a", "bb")
        built.add_conditional_edges("x", lambda s: END)
        with pytest.raises(GraphDefinitionError, match="for 2 reasons") as caught:
            built.compile(executor="inline")
        assert "'bb'" in str(caught.value)
        assert "'x'" in str(caught.value)

    def test_no_entry_point(self) -> None:
        built = StateGraph(State)
        built.add_node("a", node)
        with pytest.raises(GraphDefinitionError, match="no entry point"):
            built.compile(executor="inline")

    def test_a_path_map_to_nowhere(self) -> None:
        built = one()
        built.add_conditional_edges("a", lambda s: "x", {"x": "bee"})
        with pytest.raises(GraphDefinitionError, match="can lead to node 'bee'"):
            built.compile(executor="inline")

    def test_an_orphan_is_fine(self) -> None:
        built = one()
        built.add_node("lonely", node)
        assert run(built, {}) == {"xs": ["n"]}

    @pytest.mark.parametrize("edge", [(END, "a"), ("a", START), ([], "a"), (["a", "zz"], "a"), ([START], "a")])
    def test_edges_refused(self, edge: Any) -> None:
        built = one()
        with pytest.raises(GraphDefinitionError):
            built.add_edge(*edge)
        assert built.edges == {(START, "a")}
        assert built.waiting_edges == set()

    def test_two_routers_of_one_name(self) -> None:
        built = one()
        built.add_conditional_edges("a", lambda s: END)
        with pytest.raises(GraphDefinitionError, match="named 'condition'"):
            built.add_conditional_edges("a", lambda s: END)

    def test_a_declared_destination_that_does_not_exist(self) -> None:
        def goes(state: State) -> Command[Literal["nowhere"]]:
            return Command(goto="nowhere")

        # The hint is resolved from the function's own annotations.
        goes.__annotations__["return"] = Command[Literal["nowhere"]]
        with pytest.raises(GraphDefinitionError, match="declares destination 'nowhere'"):
            one(goes).compile(executor="inline")

    def test_a_compiled_graph_is_frozen(self) -> None:
        built = one()
        app = built.compile(executor="inline")
        built.add_node("b", says("b"))
        built.add_edge("a", "b")
        assert app.invoke({}) == {"xs": ["n"]}
        assert run(built, {}) == {"xs": ["n", "b"]}

    def test_later_features_say_so(self) -> None:
        with pytest.raises(NotSupportedError, match="checkpointer"):
            one().compile(checkpointer=object())
        app = one().compile(executor="inline")
        with pytest.raises(AttributeError, match=r"get_state\(\) is not supported"):
            app.get_state({})
        with pytest.raises(NotSupportedError, match="stream_mode 'messages'"):
            app.stream({}, stream_mode="messages")
        with pytest.raises(ConfigError, match=r"no stream_mode 'value'. Did you mean 'values'"):
            app.stream({}, stream_mode="value")

    def test_a_compiled_graph_can_be_pickled(self) -> None:
        built = StateGraph(State)
        built.add_node("node", node)
        built.add_edge(START, "node")
        app = built.compile(executor="inline")
        assert pickle.loads(pickle.dumps(app)).invoke({"v": 1}) == app.invoke({"v": 1})


class TestInput:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ([1], r"must be a dict of state keys .* got \[1\] \(list\)"),
            ("text", "got 'text' .str."),
            ({"xss": [1]}, "The input writes key 'xss'.*Did you mean 'xs'"),
        ],
    )
    def test_odd_input(self, given: Any, words: str) -> None:
        with pytest.raises(InvalidUpdateError, match=words):
            run(one(), given)

    def test_unknown_input_keys_are_dropped_when_not_strict(self) -> None:
        assert run(one(), {"xss": [1]}, strict=False) == {"xs": ["n"]}

    def test_a_key_outside_the_input_schema_is_dropped_with_a_warning(self) -> None:
        class In(TypedDict):
            v: int

        built = StateGraph(State, input_schema=In)
        built.add_node("a", node)
        built.add_edge(START, "a")
        with pytest.warns(UserWarning, match="'xs' is in the state but not in the input schema"):
            assert run(built, {"v": 1, "xs": ["lost"]}) == {"v": 1, "xs": ["n"]}

    def test_the_callers_dict_is_not_shared(self) -> None:
        mine: dict[str, Any] = {"xs": ["mine"]}
        out = run(one(), mine)
        out["xs"].append("more")
        assert mine == {"xs": ["mine"]}


@dataclass
class Data:
    n: Annotated[int, operator.add] = 10
    v: int = 5
    log: Annotated[list[str], operator.add] = field(default_factory=lambda: ["born"])


class Model(pydantic.BaseModel):
    n: Annotated[int, operator.add] = 10
    v: int = 5
    log: Annotated[list[str], operator.add] = pydantic.Field(default_factory=lambda: ["born"])


@pytest.mark.parametrize("schema", [Data, Model])
class TestDefaults:
    """A declared default seeds its channel; the input is an update like any other."""

    def app(self, schema: Any) -> Any:
        built = StateGraph(schema)
        built.add_node("a", lambda s: {"n": 1, "log": [f"saw {type(s).__name__} {s.n}"]})
        built.add_edge(START, "a")
        return built.compile(executor="inline")

    def test_same_for_nothing_and_for_an_instance(self, schema: Any) -> None:
        expected = {"n": 11, "v": 5, "log": ["born", f"saw {schema.__name__} 10"]}
        app = self.app(schema)
        assert app.invoke({}) == app.invoke(schema()) == app.invoke({}) == expected

    def test_input_is_reduced_onto_the_default(self, schema: Any) -> None:
        app = self.app(schema)
        assert app.invoke({"n": 3})["n"] == app.invoke(schema(n=3))["n"] == 14
        assert app.invoke({"v": 6})["v"] == 6


class TestReturns:
    def test_typo_names_node_and_key(self) -> None:
        with pytest.raises(InvalidUpdateError, match=r"'a' writes key 'xz'.*Did you mean 'xs'") as caught:
            run(one(lambda s: {"xz": [1]}), {})
        assert (caught.value.node, caught.value.key, caught.value.step) == ("a", "xz", 1)

    @pytest.mark.parametrize("returned", [3, "text", [], [{"v": 1}], object()])
    def test_not_a_dict(self, returned: Any) -> None:
        with pytest.raises(InvalidUpdateError, match="'a' returned") as caught:
            run(one(lambda s: returned), {})
        assert caught.value.code == "INVALID_GRAPH_NODE_RETURN_VALUE"

    def test_commands_in_a_list_make_several_writes(self) -> None:
        returned = [Command(update={"xs": [1]}), {"xs": [2]}, Command(update=[("xs", [3]), ("v", 4)])]
        assert run(one(lambda s: returned), {}) == {"xs": [1, 2, 3], "v": 4}


class TestSnapshots:
    def sneaky(self) -> StateGraph:
        def a(state: State) -> dict[str, Any]:
            state["xs"].append("HACK")
            return {"v": 1}

        return one(a)

    def test_a_change_in_place_is_lost_and_said(self) -> None:
        with pytest.warns(SnapshotMutationWarning, match="Node 'a' changed 'xs' of its state in place"):
            assert run(self.sneaky(), {"xs": ["0"]}) == {"xs": ["0"], "v": 1}

    def test_sanitize_makes_it_an_error(self) -> None:
        with pytest.raises(SnapshotMutationError, match="changed 'xs'") as caught:
            run(self.sneaky(), {"xs": ["0"]}, sanitize=True)
        assert (caught.value.node, caught.value.key) == ("a", "xs")

    def test_assigning_into_the_state_is_said_too(self) -> None:
        def a(state: State) -> None:
            state["v"] = 9

        with pytest.warns(SnapshotMutationWarning, match="changed 'v'"):
            assert run(one(a), {"v": 1}) == {"v": 1, "xs": []}

    def test_change_and_return_is_fine(self) -> None:
        def a(state: State) -> dict[str, Any]:
            state["xs"].append("m")
            return {"xs": state["xs"]}

        assert run(one(a), {"xs": ["0"]}) == {"xs": ["0", "0", "m"]}


class TestConfig:
    @pytest.mark.parametrize(
        ("config", "words"),
        [
            ({"thread_id": "1"}, "wrong place; write config={'configurable': {'thread_id': '1'}}"),
            ({"configurable": {"recursion_limit": 5}}, "wrong place .* write config={'recursion_limit': 5}"),
            ({"recursionlimit": 5}, "Did you mean 'recursion_limit'"),
            ({"recursion_limit": 0}, "at least 1; got 0"),
            ({"max_concurrency": "two"}, "must be an int of at least 1; got 'two'"),
            ({"executor": "rai"}, "no executor 'rai'. Did you mean 'ray'"),
            ({"executor": 3}, "executor must be a name"),
            ({"configurable": 3}, "must be a dict"),
            ([], "config must be a dict"),
        ],
    )
    def test_misplaced_and_unknown(self, config: Any, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            one().compile(executor="inline").invoke({}, config)

    def test_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAYGRAPH_EXECUTOR", "inline")
        monkeypatch.setenv("RAYGRAPH_STRICT", "0")
        assert one(lambda s: {"typo": 1, "v": 2}).compile().invoke({}) == {"xs": [], "v": 2}
        monkeypatch.setenv("RAYGRAPH_STRICT", "maybe")
        with pytest.raises(ConfigError, match="RAYGRAPH_STRICT must be 0 or 1; got 'maybe'"):
            one().compile()


def test_a_graph_can_be_looked_at() -> None:
    built = StateGraph(State)
    for name in ("a", "b", "b2", "j"):
        built.add_node(name, says(name))
    for start, end in ((START, "a"), (START, "b"), ("b", "b2"), ("a", "j"), ("b2", "j")):
        built.add_edge(start, end)
    app = built.compile(executor="inline")
    assert "b2" in app.get_graph().draw_mermaid()
    assert any("'j'" in finding.message and "defer" in finding.message for finding in app.check())
    assert "Step 1" in app.explain()
    assert app._repr_mimebundle_()
    assert asyncio.run(app.aget_graph()).draw_mermaid() == app.get_graph().draw_mermaid()

"""`get_graph` gives LangGraph's nodes and edges, on graphs built by the same code on both engines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import langgraph.graph
import pytest
from typing_extensions import TypedDict

import raygraph
from raygraph.inspect.drawing import get_graph

START, END = raygraph.START, raygraph.END


class State(TypedDict, total=False):
    v: int


def node(state: State) -> dict[str, Any]:
    return {}


def route(state: State) -> str:
    return "a"


def route_literal(state: State) -> Literal["b", "c", "__end__"]:
    return "b"


class Builder:
    """One of the two engines, with a short way to add nodes."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.graph = engine.StateGraph(State)

    def nodes(self, names: str, action: Any = node, **options: Any) -> Builder:
        for name in names.split():
            self.graph.add_node(name, action, **options)
        return self

    def edges(self, *pairs: tuple[Any, str]) -> Builder:
        for start, end in pairs:
            self.graph.add_edge(start, end)
        return self

    def routes(self, source: str, ends: Any, path: Any = route) -> Builder:
        self.graph.add_conditional_edges(source, path, ends)
        return self

    def inner(self) -> Builder:
        return Builder(self.engine)


def chain(b: Builder) -> None:
    b.nodes("a b c").edges((START, "a"), ("a", "b"), ("b", "c"), ("c", END))


def fan_out_and_list_edge(b: Builder) -> None:
    b.nodes("a b c d").edges((START, "a"), ("a", "b"), ("a", "c"), (["b", "c"], "d"))


def plain_joins_of_unequal_length(b: Builder) -> None:
    b.nodes("a b b2 j").edges((START, "a"), (START, "b"), ("b", "b2"), ("a", "j"), ("b2", "j"), ("j", END))


def several_entries_without_exit_edges(b: Builder) -> None:
    b.nodes("a b c").edges((START, "a"), (START, "b"), (START, "c"))


def path_map_dict(b: Builder) -> None:
    b.nodes("a b c").edges((START, "a")).routes("a", {"left": "b", "right": "c", "stop": END})


def path_map_list(b: Builder) -> None:
    b.nodes("a b c").edges((START, "a"), ("b", END)).routes("a", ["b", "c"])


def literal_hint(b: Builder) -> None:
    b.nodes("a b c").edges((START, "a"), ("b", "c")).routes("a", None, route_literal)


def conditional_entry(b: Builder) -> None:
    b.nodes("a b c").edges(("a", "c"), ("b", "c")).routes(START, {"x": "a", "y": "b"})


def agent_loop(b: Builder) -> None:
    b.nodes("agent tools").edges((START, "agent"), ("tools", "agent")).routes("agent", ["tools", END])


def self_loop(b: Builder) -> None:
    b.nodes("a b").edges((START, "a"), ("b", END)).routes("a", {"again": "a", "done": "b"})


def nested_loops(b: Builder) -> None:
    b.nodes("plan write check").edges((START, "plan"), ("plan", "write"), ("write", "check"))
    b.routes("check", {"revise": "write", "replan": "plan", "accept": END})


def declared_destinations(b: Builder) -> None:
    b.nodes("a", destinations=("b", "c")).nodes("b c").edges((START, "a"), ("b", "c"))


def destination_end(b: Builder) -> None:
    b.nodes("a", destinations=("b", END)).nodes("b").edges((START, "a"))


def deferred_join(b: Builder) -> None:
    b.nodes("a b b2").nodes("j", defer=True)
    b.edges((START, "a"), (START, "b"), ("b", "b2"), ("a", "j"), ("b2", "j"))


def map_and_reduce(b: Builder) -> None:
    b.nodes("split work gather").edges((START, "split"), ("work", "gather")).routes("split", ["work"])


def odd_names(b: Builder) -> None:
    b.nodes("Größe").graph.add_node("two words", node)
    b.edges((START, "Größe"), ("Größe", "two words"))


def subgraph(b: Builder) -> None:
    inner = b.inner().nodes("x y").edges((START, "x"), ("x", "y"))
    b.nodes("a c").nodes("s", inner.graph.compile()).edges((START, "a"), ("a", "s"), ("s", "c"))


def subgraph_with_router(b: Builder) -> None:
    inner = b.inner().nodes("x y z").edges((START, "x"), ("x", "y")).routes("y", {"again": "x", "ok": END})
    inner.routes("x", {"skip": "z"}, lambda state: "skip")
    b.nodes("a").nodes("s", inner.graph.compile()).edges((START, "s"), ("s", "a"))


def subgraph_in_subgraph(b: Builder) -> None:
    deep = b.inner().nodes("p q").edges((START, "p"), ("p", "q"))
    inner = b.inner().nodes("x").nodes("deep", deep.graph.compile()).edges((START, "x"), ("x", "deep"))
    b.nodes("a").nodes("s", inner.graph.compile()).edges((START, "s"), ("s", "a"))


GRAPHS: list[Callable[[Builder], None]] = [
    chain, fan_out_and_list_edge, plain_joins_of_unequal_length, several_entries_without_exit_edges, path_map_dict,
    path_map_list, literal_hint, conditional_entry, agent_loop, self_loop, nested_loops, declared_destinations,
    destination_end, deferred_join, map_and_reduce, odd_names, subgraph, subgraph_with_router, subgraph_in_subgraph,
]  # fmt: skip


def both(build: Callable[[Builder], None], xray: int | bool) -> tuple[Any, Any]:
    ours, theirs = Builder(raygraph), Builder(langgraph.graph)
    build(ours)
    build(theirs)
    return get_graph(ours.graph.compile().spec, xray=xray), theirs.graph.compile().get_graph(xray=xray)


def edges(graph: Any) -> set[tuple[str, str, Any, bool]]:
    return {(edge.source, edge.target, edge.data, edge.conditional) for edge in graph.edges}


def drawn_edges(mermaid: str) -> set[tuple[str, str, bool, str]]:
    """Edges of Mermaid text, ours or LangGraph's: from, to, dotted, label."""
    found = set()
    for line in mermaid.splitlines():
        plain = re.fullmatch(r'\t(\S+) (-->|-\.->)(?:\|"(.*)"\|)? (\S+);', line)
        labelled = re.fullmatch(r"\t(\S+) -\. &nbsp;(.*)&nbsp; \.-> (\S+);", line)
        if plain:
            found.add((plain[1], plain[4], plain[2] == "-.->", plain[3] or ""))
        elif labelled:
            found.add((labelled[1], labelled[3], True, labelled[2]))
    return found


def drawn_nodes(mermaid: str) -> set[str]:
    nodes = re.findall(r"^\t+([^\s(\[]+)(?:\(|\[)", mermaid, re.MULTILINE)
    return set(nodes) - {"subgraph"}


@pytest.mark.parametrize("xray", [False, 1, True])
@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_nodes_and_edges_are_langgraphs(build: Callable[[Builder], None], xray: int | bool) -> None:
    ours, theirs = both(build, xray)
    assert set(ours.nodes) == set(theirs.nodes)
    assert edges(ours) == edges(theirs)
    assert {key: bool((n.metadata or {}).get("defer")) for key, n in ours.nodes.items()} == {
        key: bool((n.metadata or {}).get("defer")) for key, n in theirs.nodes.items()
    }


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_mermaid_draws_the_same_nodes_and_edges(build: Callable[[Builder], None]) -> None:
    ours, theirs = (graph.draw_mermaid() for graph in both(build, True))
    assert drawn_edges(ours) == drawn_edges(theirs)
    assert drawn_nodes(ours) == drawn_nodes(theirs)
    assert drawn_edges(ours)


@pytest.mark.parametrize("build", [agent_loop, subgraph], ids=lambda build: build.__name__)
def test_json_has_the_same_form(build: Callable[[Builder], None]) -> None:
    ours, theirs = (graph.to_json() for graph in both(build, True))
    order = {"key": lambda edge: (edge["source"], edge["target"])}
    assert sorted(ours["edges"], **order) == sorted(theirs["edges"], **order)
    assert {n["id"] for n in ours["nodes"]} == {n["id"] for n in theirs["nodes"]}


def unknown_router(b: Builder) -> None:
    b.nodes("a b").edges((START, "a")).routes("a", None)


def unreachable(b: Builder) -> None:
    b.nodes("a b c").edges((START, "a"), ("b", "c"))


def endless(b: Builder) -> None:
    b.nodes("a b").edges((START, "a"), ("a", "b"), ("b", "a"))


def shared_end(b: Builder) -> None:
    b.nodes("a b").edges((START, "a")).routes("a", {"x": "b", "y": "b"})


def late_deferred(b: Builder) -> None:
    b.nodes("a check b").nodes("d", defer=True).edges((START, "a"), ("a", "check"), ("b", "d"))
    b.routes("check", {"again": "a", "on": "b"})


@pytest.mark.parametrize(
    ("build", "ours_only", "theirs_only"),
    [
        # LangGraph plays the graph through with routers that choose nothing, so it draws no way out of these.
        (unknown_router, {("a", "a"), ("a", "b"), ("b", END)}, set()),
        (unreachable, {("b", "c"), ("c", END)}, set()),
        # It plays 250 steps, and gives the node that runs in the last of them a way to the end, which isn't there.
        (endless, set(), {("b", END)}),
        # A deferred node that becomes due in a step of its own is drawn as led to by whoever ran just before.
        (late_deferred, set(), {("check", "d")}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_known_differences(build: Any, ours_only: set[Any], theirs_only: set[Any]) -> None:
    ours, theirs = ({(e.source, e.target) for e in graph.edges} for graph in both(build, False))
    assert ours - theirs == ours_only
    assert theirs - ours == theirs_only


def test_all_results_that_lead_to_a_node_are_named() -> None:
    ours, theirs = both(shared_end, False)
    assert ("a", "b", "x, y", True) in edges(ours)
    assert ("a", "b", "x", True) in edges(theirs)

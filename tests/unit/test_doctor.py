"""The doctor's findings, each on the smallest graph that has it and on neighbours that don't; the plan in words."""

from __future__ import annotations

import operator
import random
from collections import Counter
from typing import Annotated, Any, Literal

import pytest
from typing_extensions import TypedDict

from raygraph import END, START, Command, RetryPolicy, StateGraph
from raygraph.inspect.doctor import Finding, check
from raygraph.inspect.explain import explain
from tests.unit.engine import says


class State(TypedDict, total=False):
    xs: Annotated[list[str], operator.add]


def graph(names: str, *edges: tuple[Any, str], defer: str = "", routes: dict[str, Any] | None = None) -> StateGraph:
    """A graph whose nodes append their names."""
    built = StateGraph(State)
    for name in names.split():
        built.add_node(name, says(name), defer=name in defer.split())
    for start, end in edges:
        built.add_edge(start, end)
    for source, ends in (routes or {}).items():
        built.add_conditional_edges(source, lambda state: END, ends)
    return built


def findings(built: StateGraph) -> list[Finding]:
    return check(built.compile(executor="inline").spec)


def codes(built: StateGraph) -> list[tuple[str, str | None]]:
    return [(finding.code, finding.node or finding.key) for finding in findings(built)]


UNEQUAL = ((START, "a"), (START, "b"), ("b", "b2"))


def test_a_join_of_unequal_length_is_found_and_the_way_out_works() -> None:
    plain = graph("a b b2 j", *UNEQUAL, ("a", "j"), ("b2", "j"))
    (finding,) = findings(plain)
    assert (finding.severity, finding.code, finding.node) == ("warning", "RUNS_TWICE", "j")
    assert "reachable by two routes of different depth and will run twice" in finding.message
    assert "__start__ -> a -> j, depth 2; __start__ -> b -> b2 -> j, depth 3" in finding.message
    assert "add_edge(['a', 'b2'], 'j')" in finding.message
    assert "defer=True" in finding.message
    assert plain.compile(executor="inline").invoke({"xs": []})["xs"].count("j") == 2
    assert codes(graph("a b b2 j", *UNEQUAL, (["a", "b2"], "j"))) == []
    assert codes(graph("a b b2 j", *UNEQUAL, ("a", "j"), ("b2", "j"), defer="j")) == []


def test_what_only_follows_a_node_that_runs_twice_is_not_named() -> None:
    assert codes(graph("a b b2 j k", *UNEQUAL, ("a", "j"), ("b2", "j"), ("j", "k"))) == [("RUNS_TWICE", "j")]


def test_an_edge_from_start_that_makes_a_node_run_twice() -> None:
    (finding,) = findings(graph("a j", (START, "a"), ("a", "j"), (START, "j")))
    assert finding.code == "RUNS_TWICE"
    assert "leave out the edge from START" in finding.message
    assert "add_edge(" not in finding.message


def test_routes_of_equal_length_and_alternatives_are_fine() -> None:
    assert codes(graph("a b j", (START, "a"), (START, "b"), ("a", "j"), ("b", "j"))) == []
    assert codes(graph("a b c j", (START, "a"), ("b", "j"), ("c", "b"), routes={"a": ["b", "c"]})) == []


def test_a_router_beside_a_plain_route_is_only_a_hint() -> None:
    built = graph("a b c j", (START, "a"), (START, "b"), ("a", "j"), ("c", "j"), routes={"b": ["c", END]})
    (finding,) = findings(built)
    assert (finding.severity, finding.code, finding.node) == ("hint", "MAY_RUN_TWICE", "j")
    assert "can run twice" in finding.message
    assert "add_edge(" not in finding.message


def test_an_agent_loop_is_fine() -> None:
    assert codes(graph("agent tools", (START, "agent"), ("tools", "agent"), routes={"agent": ["tools", END]})) == []


@pytest.mark.parametrize("seed", range(60))
def test_the_certain_joins_are_those_that_run_twice(seed: int) -> None:
    """On graphs of plain and list edges alone the engine itself is the judge."""
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(7)]
    edges: list[tuple[Any, str]] = [(START, "n0")]
    for number, name in enumerate(names[1:], 1):
        before = chance.sample([START, *names[:number]], min(number + 1, chance.choice((1, 1, 2))))
        if len(before) == 2 and START not in before and chance.random() < 0.3:
            edges.append((before, name))
        else:
            edges += [(start, name) for start in before]
    deferred = " ".join(name for name in names if chance.random() < 0.1)
    built = graph(" ".join(names), *edges, defer=deferred)
    ran = Counter(built.compile(executor="inline").invoke({"xs": []})["xs"])
    twice = {name for name in ran if ran[name] > 1}
    said = {finding.node for finding in findings(built) if finding.code == "RUNS_TWICE"}
    assert said <= twice
    assert bool(said) == bool(twice - set(deferred.split()))


def test_unreachable_nodes() -> None:
    found = findings(graph("a b c", (START, "a"), ("b", "c")))
    assert [(f.severity, f.code, f.node) for f in found] == [
        ("warning", "UNREACHABLE", "b"),
        ("warning", "UNREACHABLE", "c"),
    ]
    assert "destinations=" in found[0].message


def test_declared_destinations_and_open_routers_reach() -> None:
    built = StateGraph(State)

    def go(state: State) -> Command[Literal["b"]]:
        return Command(goto="b")

    built.add_node("a", go).add_node("b", says("b")).add_edge(START, "a")
    assert codes(built) == []
    assert codes(graph("a b", (START, "a"), routes={"a": None})) == []


def test_a_list_edge_that_waits_for_what_cannot_come() -> None:
    found = findings(graph("a x j", (START, "a"), (["a", "x"], "j")))
    assert (found[0].severity, found[0].code, found[0].node) == ("error", "JOIN_NEVER_COMPLETES", "j")
    assert "waits for 'x'" in found[0].message
    assert [(f.code, f.node) for f in found[1:]] == [("UNREACHABLE", "x")]


def test_a_list_edge_from_alternatives() -> None:
    (finding,) = findings(graph("a b c j", (START, "a"), (["b", "c"], "j"), routes={"a": ["b", "c"]}))
    assert (finding.severity, finding.code, finding.node) == ("warning", "JOIN_OF_ALTERNATIVES", "j")
    assert "'condition' of 'a'" in finding.message


def test_list_edges_that_can_complete() -> None:
    # One of the two comes anyway.
    assert codes(graph("a b c j", (START, "a"), (START, "c"), (["b", "c"], "j"), routes={"a": ["b", END]})) == []
    # Both follow from the same result.
    both = graph("a b c d j", (START, "a"), ("b", "c"), ("b", "d"), (["c", "d"], "j"), routes={"a": ["b", END]})
    assert codes(both) == []
    # The router decides again and again, and the join remembers.
    again = graph("a b c j", (START, "a"), ("b", "a"), ("c", "a"), (["b", "c"], "j"), routes={"a": ["b", "c", END]})
    assert "JOIN_OF_ALTERNATIVES" not in dict(codes(again))


@pytest.mark.parametrize("exit_too", [False, True])
def test_a_loop_of_plain_edges_never_ends_whatever_else_it_leads_to(exit_too: bool) -> None:
    ways = [("b", "c")] if exit_too else []
    found = findings(graph("a b c", (START, "a"), (START, "c"), ("a", "b"), ("b", "a"), *ways))
    loops = [f for f in found if f.code == "ENDLESS_LOOP"]
    assert [(f.severity, f.node) for f in loops] == [("error", "a")]
    assert "a -> b -> a" in loops[0].message
    assert "add_conditional_edges" in loops[0].message


def test_a_loop_whose_router_never_leads_out() -> None:
    (finding,) = findings(graph("a b", (START, "a"), ("b", "a"), routes={"a": ["b", "a"]}))
    assert finding.code == "ENDLESS_LOOP"
    assert codes(graph("a b", (START, "a"), ("b", "a"), routes={"a": None})) == []


def test_a_loop_by_commands_may_end() -> None:
    built = StateGraph(State)
    built.add_node("a", says("a"), destinations=["b"]).add_node("b", says("b"), destinations=["a"])
    assert codes(built.add_edge(START, "a")) == []


def concat(old: Any, new: Any) -> Any:
    return [*old, *new]


def note(value: Any) -> Any:
    return value


def test_a_reducer_that_is_not_the_last_item() -> None:
    class Odd(TypedDict):
        lost: Annotated[list[int], concat, "appended"]
        used: Annotated[list[int], "appended", concat]
        one_argument: Annotated[int, note, "a validator"]
        a_class: Annotated[int, dict, "a class"]
        plain: int

    built = StateGraph(Odd)
    built.add_node("a", lambda state: {}).add_edge(START, "a")
    (finding,) = check(built.compile(executor="inline").spec)
    assert (finding.code, finding.key, finding.node) == ("REDUCER_NOT_USED", "lost", None)
    assert "concat" in finding.message
    assert str(finding).startswith("warning REDUCER_NOT_USED lost: ")


def test_subgraphs_are_looked_over_too() -> None:
    inner = graph("a b b2 j", *UNEQUAL, ("a", "j"), ("b2", "j")).compile(executor="inline")
    outer = StateGraph(State)
    outer.add_node("s", inner).add_edge(START, "s")
    assert codes(outer) == [("RUNS_TWICE", "s:j")]


def test_the_plan_of_a_join_of_unequal_length() -> None:
    built = StateGraph(State)
    built.add_node("a", says("a"), executor="threads", num_cpus=2, retry_policy=RetryPolicy(max_attempts=5))
    for name in ("b", "b2"):
        built.add_node(name, says(name))
    built.add_node("j", says("j"), defer=True)
    for start, end in (*UNEQUAL, ("a", "j"), ("b2", "j")):
        built.add_edge(start, end)
    spec = built.compile(executor="inline").spec
    assert explain(spec, executor="ray").splitlines()[2:] == [
        "",
        "Step 1  (2 nodes may run at the same time)",
        "  a  [executor = threads; num_cpus = 2; tried up to 5 times]",
        "      at the start",
        "      then j",
        "  b",
        "      at the start",
        "      then b2",
        "",
        "Step 2",
        "  b2",
        "      after b",
        "      then j",
        "",
        "Step 3",
        "  j",
        "      after a or b2, each by itself (once if they end in the same step)",
        "      deferred: waits until no other node is due",
        "      then the end",
    ]
    assert explain(spec, executor="ray").startswith("Graph 'LangGraph': 4 nodes on ray, unless a node says otherwise.")


def test_the_plan_shows_routers_loops_list_edges_subgraphs_and_what_never_runs() -> None:
    inner = graph("p q", (START, "p"), ("p", "q")).compile(executor="inline", name="inner")
    built = graph("a b c j lost", (START, "a"), (START, "b"), (["a", "b"], "j"), routes={"j": {"more": "a", "ok": END}})
    built.add_node("s", inner).add_edge("j", "s")
    text = explain(built.compile(executor="inline").spec)
    for line in (
        "after all of a, b",
        "if condition of j says so with more",
        "then s, a (perhaps), the end (perhaps)",
        "s  [subgraph 'inner']",
        "| Step 2",
        "j can lead back to a, and the steps from there on come again",
        "Never, as far as can be seen: c, lost",
    ):
        assert line in text
    open_router = explain(graph("a b", (START, "a"), routes={"a": None}).compile(executor="inline").spec)
    assert "then whatever its router names" in open_router
    assert "if condition of a says so (it may lead anywhere)" in open_router

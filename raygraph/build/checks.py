"""The checks of a graph as a whole. All problems are collected and raised at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raygraph.errors import GraphDefinitionError, did_you_mean
from raygraph.state.constants import END, START

if TYPE_CHECKING:
    from raygraph.build.graph import StateGraph


def check_graph(graph: StateGraph, interrupt: Sequence[str] = ()) -> None:
    """Check edges, targets and declared keys.

    Raises:
        GraphDefinitionError: With every problem found, one a line.
    """
    problems = [*_edge_problems(graph), *_branch_problems(graph), *_node_problems(graph)]
    problems += [
        f"interrupt names node {name!r}, which does not exist." for name in interrupt if name not in graph.nodes
    ]
    if not problems:
        return
    if len(problems) == 1:
        raise GraphDefinitionError(f"The graph cannot run: {problems[0]}")
    listed = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
    raise GraphDefinitionError(f"The graph cannot run, for {len(problems)} reasons:\n{listed}")


def _edge_problems(graph: StateGraph) -> list[str]:
    problems = []
    for start, end in sorted(graph.edges):
        for name, virtual in ((start, START), (end, END)):
            if name != virtual and name not in graph.nodes:
                guess = did_you_mean(name, graph.nodes)
                problems.append(f"The edge {start!r} -> {end!r} names node {name!r}, which does not exist.{guess}")
    for starts, end in sorted(graph.waiting_edges):
        if end not in graph.nodes:
            guess = did_you_mean(end, graph.nodes)
            problems.append(f"The edge {list(starts)} -> {end!r} names node {end!r}, which does not exist.{guess}")
    if not any(start == START for start, _ in graph.edges) and not graph.branches.get(START):
        problems.append(
            "It has no entry point; add_edge(START, 'node') or add_conditional_edges(START, router) gives it one."
        )
    return problems


def _branch_problems(graph: StateGraph) -> list[str]:
    problems = []
    for source, branches in graph.branches.items():
        if source != START and source not in graph.nodes:
            guess = did_you_mean(source, graph.nodes)
            problems.append(f"A conditional edge starts at node {source!r}, which does not exist.{guess}")
        for name, branch in branches.items():
            for end in dict.fromkeys((branch.ends or {}).values()):
                if end != END and end not in graph.nodes:
                    problems.append(
                        f"The conditional edge {name!r} of {source!r} can lead to node {end!r}, which does not "
                        f"exist.{did_you_mean(end, graph.nodes)}"
                    )
    return problems


def _node_problems(graph: StateGraph) -> list[str]:
    problems = []
    keys = {*graph.channels, *graph.managed}
    for name, node in graph.nodes.items():
        for target in node.destinations:
            if target != END and target not in graph.nodes:
                guess = did_you_mean(target, graph.nodes)
                problems.append(f"Node {name!r} declares destination {target!r}, which does not exist.{guess}")
        for key in node.reads or ():
            if key not in keys:
                problems.append(
                    f"Node {name!r} reads key {key!r}, which the state does not have.{did_you_mean(key, keys)}"
                )
    return problems

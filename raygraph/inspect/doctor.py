"""The doctor: what is probably wrong with a graph, seen without running it.

Only what the tables show is said. A node may return a `Command` that leads anywhere; one that is not declared is
not seen here, and where it could excuse a finding the finding says so.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from raygraph.build.specs import GraphSpec
from raygraph.inspect.edges import Edge, edges_of
from raygraph.inspect.joins import RepeatedJoin, endless_joins, repeated_joins
from raygraph.inspect.loops import endless_loops
from raygraph.state.channels import BaseChannel, LastValue
from raygraph.state.channels.annotations import peel
from raygraph.state.constants import START

#: "error": it cannot work as it stands. "warning": it works, but hardly as meant. "hint": worth a look.
Severity = Literal["error", "warning", "hint"]
_ORDER: Final = ("error", "warning", "hint")


@dataclass(frozen=True)
class Finding:
    """Something the doctor found.

    Attributes:
        severity: See `Severity`.
        code: Stable name of the kind of finding.
        message: What is wrong, and the way out.
        node: The node it is about; `outer:inner` within a subgraph.
        key: The state key it is about.
    """

    severity: Severity
    code: str
    message: str
    node: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        where = f" {self.node or self.key}" if self.node or self.key else ""
        return f"{self.severity} {self.code}{where}: {self.message}"


def check(spec: GraphSpec) -> list[Finding]:
    """Look a graph and its subgraphs over.

    Args:
        spec: The compiled graph.

    Returns:
        The findings, the gravest first; empty if all looks well.
    """
    edges = edges_of(spec)
    found: list[Finding] = []
    for look in (_unreachable, _never_complete, _endless, _twice):
        found += look(spec, edges)
    found += _unused_reducers(spec)
    for node in spec.nodes.values():
        if node.subgraph is not None:
            found += (_within(node.name, finding) for finding in check(node.subgraph))
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def _within(outer: str, finding: Finding) -> Finding:
    """A subgraph's finding, as the graph around it names the place."""
    if finding.node is None:
        return dataclasses.replace(finding, message=f"In subgraph {outer!r}: {finding.message}")
    return dataclasses.replace(finding, node=f"{outer}:{finding.node}")


def _unreachable(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[Finding]:
    for name in spec.nodes:
        if name != START and name not in spec.reach[START]:
            yield Finding(
                "warning",
                "UNREACHABLE",
                f"Node {name!r} can't be reached from START. Add the edge that is missing, or remove the node. If "
                "a Command or a Send leads there, declare it: add_node(..., destinations=[...]), a `-> "
                "Command[Literal[...]]` hint, or the path_map of the conditional edge.",
                node=name,
            )


def _never_complete(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[Finding]:
    for join in endless_joins(spec, edges):
        listed = list(join.starts)
        if join.missing:
            yield Finding(
                "error",
                "JOIN_NEVER_COMPLETES",
                f"The list edge {listed} -> {join.target!r} waits for {join.missing!r}, which can't be reached from "
                f"START, so it never leads to {join.target!r}. Reach {join.missing!r} or take it out of the list.",
                node=join.target,
            )
        else:
            first, second = join.apart
            yield Finding(
                "warning",
                "JOIN_OF_ALTERNATIVES",
                f"The list edge {listed} -> {join.target!r} waits for both {first!r} and {second!r}, but they "
                f"follow from different results of the conditional edge {join.branch!r} of {join.source!r}: unless "
                "it returns several at once, the join never completes. Use a plain edge from each.",
                node=join.target,
            )


def _endless(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[Finding]:
    for loop, certain in endless_loops(spec, edges):
        way = " -> ".join((*loop, loop[0]))
        why = "its edges are always taken" if certain else "no edge and no declared Command leads out of it"
        yield Finding(
            "error",
            "ENDLESS_LOOP",
            f"The loop {way} has no end: {why}, so a run that enters it goes on until recursion_limit stops it. "
            f"Replace one of its edges by add_conditional_edges with a result that leads out, such as END.",
            node=loop[0],
        )


def _twice(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[Finding]:
    for join in repeated_joins(spec, edges):
        name = join.target
        routes = "; ".join(f"{' -> '.join(route)}, depth {len(route) - 1}" for route in join.routes)
        when = "will run" if join.sure else "can run"
        yield Finding(
            "warning" if join.sure else "hint",
            "RUNS_TWICE" if join.sure else "MAY_RUN_TWICE",
            f"Node {name!r} is reachable by two routes of different depth and {when} twice ({routes}). "
            f"{_to_run_once(join)}",
            node=name,
        )


def _to_run_once(join: RepeatedJoin) -> str:
    """The way out for a node that runs twice."""
    name = join.target
    starts = [route[-2] for route in join.routes]
    defer = f"add_node({name!r}, ..., defer=True) makes it wait until no other node is due."
    if not join.sure:
        # A list edge would wait for ever where the router decides otherwise.
        return f"If that isn't meant, {defer}"
    if START in starts:
        return f"If that isn't meant, leave out the edge from START; or {defer}"
    return f"If that isn't meant, put add_edge({starts!r}, {name!r}) in the place of the plain edges; or {defer}"


def _unused_reducers(spec: GraphSpec) -> Iterator[Finding]:
    for key, channel in spec.channels.items():
        if type(channel) is not LastValue:
            continue
        metadata = peel(channel.typ)[1]
        for item in metadata[:-1]:
            if _is_reducer(item):
                name = getattr(item, "__name__", type(item).__name__)
                yield Finding(
                    "warning",
                    "REDUCER_NOT_USED",
                    f"Key {key!r} is annotated with {name}, which looks like a reducer, but only the last item in "
                    f"Annotated is one, and that is {metadata[-1]!r}: updates replace the value, and two in one "
                    f"step are an error. Put {name} last.",
                    key=key,
                )


def _is_reducer(item: Any) -> bool:
    """Whether something in an annotation could be called with two values."""
    if not callable(item) or isinstance(item, (type, BaseChannel)):
        return False
    function: Callable[..., Any] = item
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds for parameter in parameters) == 2

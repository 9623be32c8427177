"""Loops that no run gets out of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raygraph.build.specs import GraphSpec
from raygraph.inspect.edges import Edge, closure
from raygraph.state.constants import END, START


def endless_loops(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Loops that can be entered and not left.

    Args:
        spec: The graph.
        edges: Its edges.

    Yields:
        A loop's nodes, in the order they run in, and whether it goes round by plain edges alone.
    """
    plain = [edge for edge in edges if edge.kind == "plain"]
    seen: set[str] = set()
    for certain, ways in ((True, plain), (False, list(edges))):
        for group in _groups(ways):
            if seen.isdisjoint(group) and group & spec.reach[START] and (certain or not _exit(group, edges)):
                seen |= group
                yield _cycle(spec, group, ways), certain


def _groups(edges: Sequence[Edge]) -> list[frozenset[str]]:
    """Sets of nodes that all lead to each other."""
    ahead = {source: closure(source, edges) for source in dict.fromkeys(edge.source for edge in edges)}
    groups = []
    for name, reached in ahead.items():
        if name in reached:
            groups.append(frozenset(other for other in reached if name in ahead.get(other, ())))
    return list(dict.fromkeys(groups))


def _exit(group: frozenset[str], edges: Sequence[Edge]) -> bool:
    """Whether a run can leave a group: by an edge, or by a node that may return no `Command` and so lead nowhere."""
    for name in group:
        ways = [edge for edge in edges if edge.source == name]
        if any(edge.target == END or edge.target not in group for edge in ways):
            return True
        if all(edge.kind == "command" for edge in ways):
            return True
    return False


def _cycle(spec: GraphSpec, group: frozenset[str], edges: Sequence[Edge]) -> tuple[str, ...]:
    """A shortest way round, from the group's first node back to it."""
    first = next(name for name in spec.nodes if name in group)
    ways: list[tuple[str, ...]] = [(first,)]
    visited: set[str] = set()
    while ways:
        further: list[tuple[str, ...]] = []
        for way in ways:
            for edge in edges:
                if edge.source != way[-1] or edge.target not in group:
                    continue
                if edge.target == first:
                    return way
                if edge.target not in visited:
                    visited.add(edge.target)
                    further.append((*way, edge.target))
        ways = further
    return tuple(group)

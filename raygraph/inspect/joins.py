"""Joins that do not work as their author thought: nodes that run twice, list edges that never complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from raygraph.build.specs import GraphSpec
from raygraph.inspect.edges import Edge, closure
from raygraph.inspect.waves import Wave, waves
from raygraph.state.constants import END, START


@dataclass(frozen=True)
class RepeatedJoin:
    """A node that runs more than once because the routes to it differ in length.

    Attributes:
        target: The node.
        routes: Two of the routes, of different length, from where they part.
        sure: It always does; else only if a router decides so.
    """

    target: str
    routes: tuple[tuple[str, ...], tuple[str, ...]]
    sure: bool


def repeated_joins(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[RepeatedJoin]:
    """Nodes that run again although no loop leads to them; each once, the certain ones first.

    Args:
        spec: The graph.
        edges: Its edges.
    """
    sure = [edge for edge in edges if edge.sure and edge.target != END]
    # Routes part where several nodes become due at once; a fork that a run passes through needs none of its own.
    forks = [name for name in spec.nodes if len({edge.target for edge in sure if edge.source == name}) > 1]
    runs: dict[str, set[str]] = {}
    found: set[str] = set()
    for origin in (START, *forks):
        if not any(origin in run for run in runs.values()):
            runs[origin] = {name for wave in waves(spec, sure, origin) for name in wave}
            yield from _repeated(spec, sure, origin, found, True)
    for origin, run in runs.items():
        for edge in edges:
            if edge.kind in ("router", "command") and edge.source in run and edge.target != END:
                yield from _repeated(spec, [*sure, edge], origin, found, False)


def _repeated(
    spec: GraphSpec, edges: Sequence[Edge], origin: str, found: set[str], sure: bool
) -> Iterator[RepeatedJoin]:
    steps = waves(spec, edges, origin)
    counts = Counter(name for wave in steps for name in wave)
    for name, count in counts.items():
        if count < 2 or name in found or spec.nodes[name].defer:
            continue
        sources = {source for wave in steps for source in wave.get(name, ())}
        # What only follows a node that runs twice is not at fault itself; what follows a loop is no join.
        if any(counts[source] > 1 or source in closure(source, edges) for source in sources):
            continue
        depths = [depth for depth, wave in enumerate(steps) if name in wave]
        found.add(name)
        routes = _parting(_route(steps, depths[0], name), _route(steps, depths[-1], name))
        yield RepeatedJoin(name, routes, sure)


def _route(steps: Sequence[Wave], depth: int, name: str) -> tuple[str, ...]:
    """The way by which a node became due at a step, from the first step to it."""
    way = [name]
    for wave in range(depth, 0, -1):
        sources = steps[wave][way[-1]]
        # Of a join's starts, one that ran right before; a deferred node may have been due for longer.
        before = [source for source in sources if source in steps[wave - 1]]
        if not before:
            return (*sources[:1], *reversed(way))
        way.append(before[0])
    return tuple(reversed(way))


def _parting(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two routes without what they share at their beginning, but for the last node of that."""
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    start = max(shared - 1, 0)
    return first[start:], second[start:]


@dataclass(frozen=True)
class EndlessJoin:
    """A list edge that cannot complete, or hardly.

    Attributes:
        target: Where it leads.
        starts: What it waits for.
        missing: One of the starts, which nothing leads to; "" if all are reached.
        apart: Two of the starts that exclude each other.
        source: The node whose router decides between the two.
        branch: That router's name.
    """

    target: str
    starts: tuple[str, ...]
    missing: str = ""
    apart: tuple[str, str] = ("", "")
    source: str = ""
    branch: str = ""


def endless_joins(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[EndlessJoin]:
    """List edges that wait for what never comes.

    Args:
        spec: The graph.
        edges: Its edges.
    """
    for starts, target in dict.fromkeys((edge.starts, edge.target) for edge in edges if edge.kind == "list"):
        missing = [start for start in starts if start not in spec.reach[START]]
        # A join that no start leads to is just unreachable, and so is what it leads to.
        if missing and len(missing) < len(starts):
            yield EndlessJoin(target, starts, missing[0])
        elif not missing:
            apart = next(_apart(spec, edges, starts), None)
            if apart is not None:
                pair, router = apart
                yield EndlessJoin(target, starts, "", pair, router.source, router.branch)


def _apart(spec: GraphSpec, edges: Sequence[Edge], starts: tuple[str, ...]) -> Iterator[tuple[tuple[str, str], Edge]]:
    """Pairs of nodes that follow only from different results of one router, with an edge of that router.

    A router on a loop decides several times, and a join remembers what has come: that is no fault.
    """
    routers = {(edge.source, edge.branch): edge for edge in edges if edge.kind == "router"}
    for (source, branch), router in routers.items():
        if source in spec.reach[source]:
            continue
        ends = [edge for edge in edges if edge.source == source and edge.branch == branch]
        others = [edge for edge in edges if edge not in ends]
        anyway = closure(START, others)
        after = {edge.target: {edge.target, *closure(edge.target, edges)} for edge in ends if edge.target != END}
        for first, second in combinations(starts, 2):
            one, two = ({end for end, nodes in after.items() if name in nodes} for name in (first, second))
            if one and two and not one & two and first not in anyway and second not in anyway:
                yield (first, second), router

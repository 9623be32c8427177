"""Super-steps worked out on the edges alone: who runs when, if every given edge is taken whenever it can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from raygraph.build.specs import GraphSpec
from raygraph.inspect.edges import Edge
from raygraph.state.constants import END

#: A super-step: the nodes that run, each with those whose edges made it due.
Wave = Mapping[str, tuple[str, ...]]


def waves(spec: GraphSpec, edges: Iterable[Edge], origin: str, *, once: bool = False, limit: int = 0) -> list[Wave]:
    """Run the edges from a node on.

    Args:
        spec: The graph, for its deferred nodes.
        edges: The edges that are taken.
        origin: What runs first, alone.
        once: Run each node the first time only, so that loops end.
        limit: So many steps at most; default the number of nodes, which no run without a loop exceeds.

    Returns:
        The steps; the first is the origin's.
    """
    by_source: dict[str, list[Edge]] = {}
    for edge in edges:
        by_source.setdefault(edge.source, []).append(edge)
    steps: list[Wave] = [{origin: ()}]
    done = {origin}
    waiting: dict[str, dict[str, None]] = {}
    barriers: dict[tuple[tuple[str, ...], str], dict[str, None]] = {}
    for _ in range(limit or len(spec.nodes)):
        for source in steps[-1]:
            for edge in by_source.get(source, ()):
                if edge.target != END and not (once and edge.target in done):
                    _arrive(edge, waiting, barriers)
        ready = _ready(spec, waiting)
        if not ready:
            break
        steps.append({name: tuple(waiting.pop(name)) for name in spec.nodes if name in ready})
        done |= ready
    return steps


def _arrive(
    edge: Edge,
    waiting: dict[str, dict[str, None]],
    barriers: dict[tuple[tuple[str, ...], str], dict[str, None]],
) -> None:
    """Make the target due; for a list edge, only once all its starts have run."""
    if edge.kind != "list":
        waiting.setdefault(edge.target, {})[edge.source] = None
        return
    join = (edge.starts, edge.target)
    seen = barriers.setdefault(join, {})
    seen[edge.source] = None
    if seen.keys() == set(edge.starts):
        waiting.setdefault(edge.target, {}).update(barriers.pop(join))


def _ready(spec: GraphSpec, waiting: Mapping[str, object]) -> set[str]:
    """Of the nodes that are due, those that run next; the rule is `plan/due.py`'s.

    Deferred nodes wait until no other is due, and for each other where one can reach the other but not back.
    """
    now = {name for name in waiting if not spec.nodes[name].defer}
    if now:
        return now
    reach = spec.reach
    return {name for name in waiting if not any(name in reach[other] and other not in reach[name] for other in waiting)}

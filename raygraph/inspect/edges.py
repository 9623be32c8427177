"""The edges of a compiled graph, read back from its tables. Drawing, doctor and plan all start from these.

The tables hold what the engine does, so an edge to END is not in them: a node that leads nowhere ends its branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from raygraph.build.specs import GraphSpec, NodeSpec
from raygraph.state.constants import END, START, branch_channel

#: "plain": always taken. "list": taken once all its starts have run. "router": a conditional edge that says where
#: it can lead. "open": one that does not, so it may lead anywhere. "command": a declared `Command` destination.
Kind = Literal["plain", "list", "router", "open", "command"]


@dataclass(frozen=True)
class Edge:
    """One way from a node to another (or to END).

    Attributes:
        source: Where it starts.
        target: Where it leads.
        kind: See `Kind`.
        label: For a router: the results that lead there, where they are not the node's name.
        starts: For a list edge: all its starts, in the order of the graph's nodes.
        branch: For a router: its name, unique per source.
    """

    source: str
    target: str
    kind: Kind
    label: str | None = None
    starts: tuple[str, ...] = ()
    branch: str = ""

    @property
    def sure(self) -> bool:
        """Whether it is taken without anybody deciding so at run time."""
        return self.kind in ("plain", "list")


def edges_of(spec: GraphSpec) -> tuple[Edge, ...]:
    """Every edge of a graph, in the order of its nodes; those of subgraphs are their own.

    Args:
        spec: The compiled graph.
    """
    found: list[Edge] = []
    for node in spec.nodes.values():
        ways = [*_static(spec, node), *_routed(spec, node), *_declared(node)]
        found += ways or [Edge(node.name, END, "plain")]
    return tuple(found)


def _static(spec: GraphSpec, node: NodeSpec) -> Iterator[Edge]:
    for channel, _ in node.program.static:
        for target in spec.listeners.get(channel, ()):
            if channel == branch_channel(target):
                yield Edge(node.name, target, "plain")
            else:
                names = getattr(spec.channels[channel], "names", frozenset({node.name}))
                yield Edge(node.name, target, "list", starts=tuple(name for name in spec.nodes if name in names))


def _routed(spec: GraphSpec, node: NodeSpec) -> Iterator[Edge]:
    for branch in node.program.branches:
        if branch.ends is None:
            for target in (*(name for name in spec.nodes if name != START), END):
                yield Edge(node.name, target, "open", branch=branch.name)
            continue
        for target, labels in _by_target(branch.ends).items():
            yield Edge(node.name, target, "router", label=_label(target, labels), branch=branch.name)


def _declared(node: NodeSpec) -> Iterator[Edge]:
    for target in dict.fromkeys(node.destinations):
        yield Edge(node.name, target, "command")


def _by_target(ends: Mapping[object, str]) -> dict[str, list[str]]:
    targets: dict[str, list[str]] = {}
    for result, target in ends.items():
        targets.setdefault(target, []).append(str(result))
    return targets


def _label(target: str, results: list[str]) -> str | None:
    """What to write on the edge: nothing where the router simply returns the node's name."""
    return None if results == [target] else ", ".join(results)


def closure(start: str, edges: Iterable[Edge]) -> frozenset[str]:
    """The nodes that can run after `start`, by the given edges; `start` itself only if it is on a loop."""
    ahead: dict[str, list[str]] = {}
    for edge in edges:
        ahead.setdefault(edge.source, []).append(edge.target)
    found: set[str] = set()
    open_ends = list(ahead.get(start, ()))
    while open_ends:
        node = open_ends.pop()
        if node not in found:
            found.add(node)
            open_ends += ahead.get(node, ())
    return frozenset(found)

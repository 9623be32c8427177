"""The plan of super-steps, in words: who runs when at the earliest, what it waits for, and where it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from raygraph.build.specs import GraphSpec, NodeSpec
from raygraph.inspect.edges import Edge, closure, edges_of
from raygraph.inspect.placing import endurance, placement
from raygraph.inspect.waves import Wave, waves
from raygraph.state.constants import END, START

_RULE: Final = (
    "A step begins when every node of the one before has ended; a node is listed in the first step it can run in."
)


def explain(spec: GraphSpec, *, executor: str | None = None) -> str:
    """The plan of a graph, as a text to read.

    Args:
        spec: The compiled graph.
        executor: What nodes that name no executor run on; default "the executor of the run".
    """
    edges = edges_of(spec)
    count = len(spec.nodes) - 1
    where = executor or "the executor of the run"
    lines = [f"Graph {spec.name!r}: {count} node{'s' if count != 1 else ''} on {where}, unless a node says otherwise."]
    lines += [_RULE, *_steps(spec, edges)]
    return "\n".join(lines) + "\n"


def _steps(spec: GraphSpec, edges: Sequence[Edge]) -> Iterator[str]:
    steps = waves(spec, edges, START, once=True)
    for number, wave in enumerate(steps):
        if number == 0:
            continue
        yield ""
        yield f"Step {number}" + (f"  ({len(wave)} nodes may run at the same time)" if len(wave) > 1 else "")
        for name in wave:
            yield from _node(spec.nodes[name], edges)
            subgraph = spec.nodes[name].subgraph
            if subgraph is not None:
                yield from (f"      | {line}".rstrip() for line in _steps(subgraph, edges_of(subgraph)))
    yield from _loops(steps, edges)
    left = [name for name in spec.nodes if not any(name in wave for wave in steps)]
    if left:
        yield ""
        yield f"Never, as far as can be seen: {', '.join(left)}"


def _node(node: NodeSpec, edges: Sequence[Edge]) -> Iterator[str]:
    said = [f"{option} = {value}" for option, value in placement(node).items()]
    said += endurance(node)
    if node.subgraph is not None:
        said.insert(0, f"subgraph {node.subgraph.name!r}" if node.subgraph.name != "LangGraph" else "subgraph")
    yield f"  {node.name}" + (f"  [{'; '.join(said)}]" if said else "")
    for start in _entries(node.name, edges):
        yield f"      {start}"
    if node.defer:
        yield "      deferred: waits until no other node is due"
    ways = [edge for edge in edges if edge.source == node.name]
    yield f"      then {', '.join(_exits(ways))}"


def _entries(name: str, edges: Sequence[Edge]) -> list[str]:
    """What makes a node due, a line for each way."""
    lines: list[str] = []
    plain = [edge.source for edge in edges if edge.target == name and edge.kind == "plain"]
    if START in plain:
        lines.append("at the start")
        plain.remove(START)
    if plain:
        lines.append(f"after {_either(plain)}")
    lines += dict.fromkeys(
        f"after all of {', '.join(edge.starts)}" for edge in edges if edge.target == name and edge.kind == "list"
    )
    for edge in edges:
        if edge.target == name and edge.kind == "router":
            result = "" if edge.label is None else f" with {edge.label}"
            lines.append(f"if {edge.branch} of {edge.source} says so{result}")
        elif edge.target == name and edge.kind == "open":
            lines.append(f"if {edge.branch} of {edge.source} says so (it may lead anywhere)")
        elif edge.target == name and edge.kind == "command":
            lines.append(f"if {edge.source} returns a Command that goes there")
    return lines


def _either(names: Sequence[str]) -> str:
    """Each plain edge makes the node due by itself, which is what people trip over: say it."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} or {names[-1]}, each by itself (once if they end in the same step)"


def _exits(ways: Sequence[Edge]) -> list[str]:
    if any(edge.kind == "open" for edge in ways):
        sure = [edge.target for edge in ways if edge.sure]
        return [*sure, "whatever its router names"]
    said: dict[str, bool] = {}
    for edge in ways:
        said[edge.target] = said.get(edge.target, False) or edge.sure
    return [("the end" if name == END else name) + ("" if sure else " (perhaps)") for name, sure in said.items()]


def _loops(steps: Sequence[Wave], edges: Sequence[Edge]) -> Iterator[str]:
    """The edges that lead back to an earlier step."""
    depth = {name: number for number, wave in enumerate(steps) for name in wave}
    known = [edge for edge in edges if edge.kind != "open" and edge.target in depth and edge.source in depth]
    back = [
        edge
        for edge in known
        if depth[edge.target] <= depth[edge.source] and edge.source in {edge.target, *closure(edge.target, known)}
    ]
    if back:
        yield ""
        yield "Loops"
    for edge in dict.fromkeys((edge.source, edge.target) for edge in back):
        yield f"  {edge[0]} can lead back to {edge[1]}, and the steps from there on come again"

"""From the builder's records to the frozen tables (`specs.py`) that the engine runs.

Edges become channels, as in LangGraph: one `branch:to:<node>` per node, which its predecessors write to, and one
barrier per list edge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raygraph.build.checks import check_graph
from raygraph.build.definition import NodeDef
from raygraph.build.schema import input_constructor
from raygraph.build.specs import Branch, GraphSpec, InputSpec, NodeSpec, Program
from raygraph.state.channels import (
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from raygraph.state.constants import END, START, TASKS, branch_channel, join_channel
from raygraph.state.message_ids import names_messages
from raygraph.state.records import NodeOptions, Write
from raygraph.state.types import Send

if TYPE_CHECKING:
    from raygraph.build.graph import StateGraph


class Compiler:
    """Makes the tables of one graph.

    Args:
        graph: The builder; it is not changed.
        name: Name of the graph.
        strict: Unknown keys and targets are errors at run time.
    """

    def __init__(self, graph: StateGraph, name: str, strict: bool) -> None:
        check_graph(graph)
        self.graph = graph
        self.name = name
        self.strict = strict
        self.state = {key: channel.copy() for key, channel in graph.channels.items()}
        self.managed = dict(graph.managed)
        self.untracked = frozenset(k for k, c in self.state.items() if isinstance(c, UntrackedValue))
        self.messages = frozenset(k for k, c in self.state.items() if names_messages(c))
        self.targets = frozenset(graph.nodes)

    def compile(self) -> GraphSpec:
        """The tables of the whole graph."""
        graph = self.graph
        nodes: dict[str, NodeSpec] = {START: self._start()}
        for name, definition in graph.nodes.items():
            nodes[name] = self._node(name, definition)
        return GraphSpec(
            name=self.name,
            nodes=nodes,
            channels={**self.state, **self._control()},
            outputs=tuple(graph.keys_of(graph.output_schema).channels),
            streams=tuple(self.state),
            managed=self.managed,
            reach=reach(graph),
            by_reference=self.untracked,
            seeded=any(channel.declared() is not None for channel in self.state.values()),
            strict=self.strict,
        )

    def _control(self) -> dict[str, Any]:
        """The channels of edges, joins and Sends."""
        channels: dict[str, Any] = {TASKS: Topic(Send, accumulate=False)}
        for name, node in self.graph.nodes.items():
            kind: Any = LastValueAfterFinish(Any) if node.defer else EphemeralValue(Any, guard=False)
            channels[branch_channel(name)] = kind
        for starts, end in sorted(self.graph.waiting_edges):
            deferred = self.graph.nodes[end].defer
            barrier = NamedBarrierValueAfterFinish if deferred else NamedBarrierValue
            channels[join_channel(starts, end)] = barrier(str, set(starts))
        for key, channel in channels.items():
            channel.key = key
        return channels

    def _start(self) -> NodeSpec:
        allowed = frozenset(self.graph.keys_of(self.graph.input_schema).channels)
        program = self._program(START, None, InputSpec(()), allowed)
        return NodeSpec(START, program, triggers=(), options=NodeOptions(executor="inline"))

    def _node(self, name: str, definition: NodeDef) -> NodeSpec:
        graph = self.graph
        subgraph: GraphSpec | None = getattr(definition.fn, "spec", None)
        fn = definition.fn
        options = definition.options
        if subgraph is not None:
            shared = tuple(k for k in subgraph.nodes[START].program.keys if k in self.state)
            spec = InputSpec(tuple(sorted(shared)))
            fn = None
            if not graph.branches.get(name):
                # All that is left to do once the subgraph has ended is to pass its output on.
                options = replace(options, executor="inline")
        else:
            spec = self._input(definition.input_schema, definition.reads)
        joins = sorted((starts, end) for starts, end in graph.waiting_edges if end == name)
        return NodeSpec(
            name=name,
            program=self._program(name, fn, spec, frozenset(self.state)),
            triggers=(branch_channel(name), *(join_channel(starts, end) for starts, end in joins)),
            defer=definition.defer,
            options=options,
            subgraph=subgraph,
            delta=definition.delta,
            metadata=definition.metadata,
            destinations=definition.destinations,
            policies=definition.policies,
        )

    def _program(self, name: str, fn: Any, spec: InputSpec, keys: frozenset[str]) -> Program:
        # A router without a schema of its own sees what its node sees (LangGraph's rule).
        own = self.graph.nodes[name].input_schema if name in self.graph.nodes else None
        branches = tuple(
            Branch(
                label,
                branch.path,
                branch.ends,
                self._input(branch.input_schema or own, None),
                branch.input_schema is None,
            )
            for label, branch in self.graph.branches.get(name, {}).items()
        )
        routed = {key: self.state[key] for branch in branches for key in branch.input.keys}
        return Program(
            node=name,
            fn=fn,
            input=spec,
            keys=keys,
            managed=frozenset(self.managed),
            static=self._static(name),
            branches=branches,
            channels=routed,
            targets=self.targets,
            by_reference=self.untracked,
            messages=self.messages,
            strict=self.strict,
            dropped=frozenset(self.state) - keys,
        )

    def _static(self, name: str) -> tuple[Write, ...]:
        """The writes of a node's edges, in an order that no hash seed has a part in."""
        ends = sorted(end for start, end in self.graph.edges if start == name and end != END)
        joins = sorted((starts, end) for starts, end in self.graph.waiting_edges if name in starts)
        edges: list[Write] = [(branch_channel(end), None) for end in ends]
        return (*edges, *((join_channel(starts, end), name) for starts, end in joins))

    def _input(self, schema: Any, reads: tuple[str, ...] | None) -> InputSpec:
        schema = self.graph.state_schema if schema is None else schema
        used = self.graph.keys_of(schema)
        wanted = [key for key in (*used.channels, *used.managed) if reads is None or key in reads]
        keys = tuple(key for key in wanted if key not in self.managed)
        managed = {key: self.managed[key] for key in wanted if key in self.managed}
        return InputSpec(keys, input_constructor(schema), managed)


def reach(graph: StateGraph) -> dict[str, frozenset[str]]:
    """For each node, the nodes that can still run after it, by edges, conditional edges and declared gotos.

    A conditional edge that does not say where it can lead may lead anywhere.
    """
    ahead: dict[str, set[str]] = {name: set(node.destinations) - {END} for name, node in graph.nodes.items()}
    ahead[START] = set()
    for start, end in graph.edges:
        ahead[start].add(end)
    for starts, end in graph.waiting_edges:
        for start in starts:
            ahead[start].add(end)
    for source, branches in graph.branches.items():
        for branch in branches.values():
            ahead[source].update(graph.nodes if branch.ends is None else branch.ends.values())
    for ends in ahead.values():
        ends.discard(END)
    return {name: _closure(name, ahead) for name in ahead}


def _closure(name: str, ahead: dict[str, set[str]]) -> frozenset[str]:
    found: set[str] = set()
    open_ends = list(ahead[name])
    while open_ends:
        node = open_ends.pop()
        if node not in found:
            found.add(node)
            open_ends += ahead[node]
    return frozenset(found)

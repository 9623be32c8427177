"""The compiled form of a graph: frozen tables that planning, execution and drawing all read.

There is no second description of a graph. `Program` is the part of a node that travels to a worker; `NodeSpec`
adds what only the driver needs; `GraphSpec` is the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from raygraph.state.channels import BaseChannel
from raygraph.state.policies import Policies
from raygraph.state.records import NodeOptions, Write

if TYPE_CHECKING:
    from raygraph.state.managed import ManagedValueSpec


@dataclass(frozen=True)
class InputSpec:
    """How a node's or router's input is made from the state.

    Attributes:
        keys: The state keys it reads; `("__root__",)` alone means that value itself, not a dict.
        schema: Class to construct from those keys (dataclass, pydantic); None for a plain dict.
        managed: Managed values it reads, by key.
    """

    keys: tuple[str, ...]
    schema: type[Any] | None = None
    managed: Mapping[str, ManagedValueSpec] = field(default_factory=dict)


@dataclass(frozen=True)
class Branch:
    """A conditional edge.

    Attributes:
        name: Name of the path function, unique per source.
        path: Called with the state as it will be after the node's own writes.
        ends: The path's results to node names; None if it returns names directly.
        input: What the path reads.
        untyped: The path's first parameter names no schema.
    """

    name: str
    path: Callable[..., Any]
    ends: Mapping[Any, str] | None
    input: InputSpec
    untyped: bool = True


@dataclass(frozen=True)
class Program:
    """All of a node that a worker needs: its function, and how to turn its return value into writes.

    Attributes:
        node: Name of the node.
        fn: The node's function; None passes the call's argument on as the node's return value (START, and the
            second half of a subgraph node).
        input: How its input is made; unused when the call has an argument of its own.
        keys: The state keys that it may write.
        managed: Keys that are managed values, which nobody may write.
        static: Writes that follow every run of the node: its edges and joins.
        branches: Its conditional edges, in the order they were added.
        channels: Empty channels of the keys that the branches read, to see the node's own writes applied.
        targets: Names of the graph's nodes, to recognise a wrong goto.
        by_reference: Keys of `UntrackedValue` channels, whose values may pass by reference within the driver.
        messages: Keys whose messages get their ids where they are written (`state/message_ids.py`).
        strict: Unknown keys and targets are errors.
        dropped: For START: state keys outside the input schema.
    """

    node: str
    fn: Callable[..., Any] | None
    input: InputSpec
    keys: frozenset[str]
    managed: frozenset[str] = frozenset()
    static: tuple[Write, ...] = ()
    branches: tuple[Branch, ...] = ()
    channels: Mapping[str, BaseChannel[Any, Any, Any]] = field(default_factory=dict)
    targets: frozenset[str] = frozenset()
    by_reference: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    strict: bool = True
    dropped: frozenset[str] = frozenset()

    @property
    def reads(self) -> tuple[str, ...]:
        """Every state key the program needs: those of its input, then those only its branches read."""
        keys = dict.fromkeys(self.input.keys)
        for branch in self.branches:
            keys.update(dict.fromkeys(branch.input.keys))
        return tuple(keys)


@dataclass(frozen=True)
class NodeSpec:
    """A node as the driver sees it.

    Attributes:
        name: Unique in the graph; may not contain `|` or `:`.
        program: What runs.
        triggers: The channels whose change makes it due.
        defer: It waits until nothing else is due, nor any pending `Send` or deferred node can reach it.
        options: Where it runs.
        subgraph: A compiled graph to drive instead of calling `program.fn`.
        delta: The subgraph's contribution is merged, not its whole output.
        metadata: The user's, for drawing and streams.
        destinations: Nodes it may go to with a `Command`, declared for drawing and for deferred nodes.
        policies: How often it is tried.
    """

    name: str
    program: Program
    triggers: tuple[str, ...]
    defer: bool = False
    options: NodeOptions = NodeOptions()
    subgraph: GraphSpec | None = None
    delta: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    destinations: tuple[str, ...] = ()
    policies: Policies = Policies()


@dataclass(frozen=True)
class GraphSpec:
    """A compiled graph.

    Attributes:
        name: For messages and task names.
        nodes: By name, START included.
        channels: Every channel, empty or holding its declared default; never updated, only copied.
        outputs: The keys `invoke` returns.
        streams: The keys `stream` shows.
        managed: Managed values of the state, by key.
        reach: For each node, the nodes that can still run after it.
        by_reference: Keys of `UntrackedValue` channels.
        seeded: Some key has a declared default, so there is a state before anything is written.
        strict: Unknown keys and targets are errors.
    """

    name: str
    nodes: Mapping[str, NodeSpec]
    channels: Mapping[str, BaseChannel[Any, Any, Any]]
    outputs: tuple[str, ...]
    streams: tuple[str, ...]
    managed: Mapping[str, Any]
    reach: Mapping[str, frozenset[str]]
    by_reference: frozenset[str] = frozenset()
    seeded: bool = False
    strict: bool = True

    @cached_property
    def listeners(self) -> dict[str, tuple[str, ...]]:
        """For each channel, the nodes it triggers."""
        found: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for trigger in node.triggers:
                found.setdefault(trigger, []).append(node.name)
        return {channel: tuple(names) for channel, names in found.items()}

    @cached_property
    def deferred(self) -> tuple[str, ...]:
        """The deferred nodes."""
        return tuple(name for name, node in self.nodes.items() if node.defer)

    @cached_property
    def finishing(self) -> tuple[str, ...]:
        """Channels that wait for the end of the run and start no deferred node."""
        held = {trigger for name in self.deferred for trigger in self.nodes[name].triggers}
        return tuple(n for n, channel in self.channels.items() if channel.tracks_finish and n not in held)

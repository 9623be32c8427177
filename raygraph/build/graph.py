"""`StateGraph`: the builder. It records and checks; `compiler.py` makes the tables that run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from raygraph.build.definition import (
    BranchDef,
    NodeDef,
    check_callable,
    check_node_name,
    declared_destinations,
    first_argument_schema,
    node_name,
    path_ends,
)
from raygraph.build.merge import merge_channels
from raygraph.build.options import node_options, node_policies
from raygraph.build.schema import SchemaKeys, read_schema, schema_name
from raygraph.errors import GraphDefinitionError, did_you_mean, short
from raygraph.state.constants import END, START

if TYPE_CHECKING:
    from raygraph.app import CompiledStateGraph

logger = logging.getLogger("raygraph")


class StateGraph:
    """A graph whose nodes read and update a shared state.

    Each key of the state is a channel; a key annotated `Annotated[T, reducer]` merges the updates of a
    super-step with the reducer, others take one update per step. Names, arguments and meaning are LangGraph's;
    the differences are listed in the README.

    Args:
        state_schema: TypedDict, dataclass or pydantic model; or any other type, for a state of one value.
        context_schema: Class of the `context=` that a run may be given.
        input_schema: The keys a run's input may have; default the state's.
        output_schema: The keys that `invoke` returns; default the state's.

    Raises:
        ValueError: A reducer without exactly two positional parameters; a key with two different reducers; a
            managed value in the input or output schema.
    """

    def __init__(
        self,
        state_schema: Any,
        context_schema: Any = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
        **deprecated: Any,
    ) -> None:
        renamed = {"input": "input_schema", "output": "output_schema", "config_schema": "context_schema"}
        for old in deprecated:
            if old not in renamed:
                raise TypeError(f"StateGraph() got an unknown argument {old!r}.{did_you_mean(old, renamed.values())}")
            warnings.warn(f"{old}= is deprecated; use {renamed[old]}=.", DeprecationWarning, stacklevel=2)
        self.state_schema = state_schema
        self.context_schema = context_schema or deprecated.get("config_schema")
        self.input_schema = input_schema or deprecated.get("input") or state_schema
        self.output_schema = output_schema or deprecated.get("output") or state_schema
        self.nodes: dict[str, NodeDef] = {}
        self.edges: set[tuple[str, str]] = set()
        self.waiting_edges: set[tuple[tuple[str, ...], str]] = set()
        self.branches: dict[str, dict[str, BranchDef]] = {}
        self.channels: dict[str, Any] = {}
        self.managed: dict[str, Any] = {}
        self.compiled = False
        self._schemas: list[tuple[Any, SchemaKeys]] = []
        self._owners: dict[str, str] = {}
        self.keys_of(self.state_schema)
        self.keys_of(self.input_schema, managed=False)
        self.keys_of(self.output_schema, managed=False)

    def keys_of(self, schema: Any, *, managed: bool = True) -> SchemaKeys:
        """What a schema declares; the first time a schema is seen, its keys join the graph's.

        Args:
            schema: The schema.
            managed: Whether it may hold managed values.

        Raises:
            GraphDefinitionError: Its keys cannot be used, or contradict another schema's.
        """
        for known, keys in self._schemas:
            if known is schema:
                return keys
        keys = read_schema(schema, allow_managed=managed)
        self.managed.update({key: spec for key, spec in keys.managed.items() if key not in self.channels})
        merge_channels(
            self.channels,
            keys.channels,
            schema_name(schema),
            owners=self._owners,
            managed=self.managed,
            adopt_defaults=not managed,
        )
        self._schemas.append((schema, keys))
        return keys

    def _warn_if_compiled(self, what: str) -> None:
        if self.compiled:
            logger.warning("Adding %s to a graph that has been compiled does not change the compiled graph.", what)

    # -- nodes ---------------------------------------------------------------------------------------------

    def add_node(
        self,
        node: str | Callable[..., Any],
        action: Any = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        reads: Sequence[str] | None = None,
        output: str | None = None,
        **options: Any,
    ) -> Self:
        """Add a node.

        Args:
            node: Its name, or the function itself, whose name is then taken.
            action: The function (or callable object, coroutine function, compiled graph).
            defer: Run it only when nothing else is due, nor any pending `Send` or deferred node can reach it.
            metadata: Kept with the node, for drawing.
            input_schema: Make its input from this class instead of the state; new keys become private state.
            destinations: Nodes it may go to with a `Command`, where a return hint doesn't say so.
            reads: Send it only these keys of the state.
            output: For a compiled graph: "delta" merges only what its nodes wrote, not its whole output.
            **options: `executor`, `num_cpus`, `num_gpus`, `memory` (bytes), `resources`, `runtime_env`,
                `label_selector`, `max_concurrency`: see `raygraph.state.records.NodeOptions`.

        Returns:
            The builder.

        Raises:
            GraphDefinitionError: A name that is taken or not allowed, an action that cannot be called.
            ConfigError: An option that does not exist or has a wrong value.
        """
        name, fn = (node, action) if isinstance(node, str) else (node_name(node), node if action is None else action)
        if fn is None:
            raise GraphDefinitionError(f"add_node({short(node)}) has no function: add_node(name, function).")
        if output not in (None, "delta", "full"):
            raise GraphDefinitionError(f"Node {name!r}: output must be 'full' or 'delta'; got {output!r}.", node=name)
        check_node_name(name, self.nodes)
        is_graph = hasattr(fn, "spec") and hasattr(fn, "invoke")
        if not is_graph:
            check_callable(name, fn)
        schema = input_schema
        if schema is None and not is_graph:
            schema = first_argument_schema(fn)
        definition = NodeDef(
            fn=fn,
            input_schema=schema,
            defer=defer,
            destinations=tuple(destinations) if destinations is not None else declared_destinations(fn),
            options=node_options(name, options),
            policies=node_policies(name, options),
            reads=None if reads is None else tuple(reads),
            delta=output == "delta",
            metadata=dict(metadata or {}),
        )
        if schema is not None:
            self.keys_of(schema)
        self._warn_if_compiled(f"node {name!r}")
        self.nodes[name] = definition
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> Self:
        """Add nodes and an edge from each to the next.

        Args:
            nodes: Functions, or `(name, function)` pairs.

        Raises:
            GraphDefinitionError: The sequence is empty, or a node is refused.
        """
        if not nodes:
            raise GraphDefinitionError("add_sequence() needs at least one node.")
        before: str | None = None
        for item in nodes:
            name, fn = item if isinstance(item, tuple) and len(item) == 2 else (node_name(item), item)
            self.add_node(name, fn)
            if before is not None:
                self.add_edge(before, name)
            before = name
        return self

    # -- edges ---------------------------------------------------------------------------------------------

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Run `end_key` after `start_key`; for a list of starts, once all of them have run.

        Raises:
            GraphDefinitionError: An edge out of END or into START; a list with nodes that are not there yet.
        """
        if end_key == START:
            raise GraphDefinitionError("START cannot be the end of an edge; a run begins there.")
        if isinstance(start_key, str):
            if start_key == END:
                raise GraphDefinitionError("END cannot be the start of an edge; a branch ends there.")
            self._warn_if_compiled("an edge")
            self.edges.add((start_key, end_key))
            return self
        starts = tuple(start_key)
        if not starts:
            raise GraphDefinitionError(f"The list edge to {end_key!r} has no starts.")
        for start in starts:
            if start in (START, END):
                raise GraphDefinitionError(f"{start!r} cannot be in the list of starts of an edge to {end_key!r}.")
            if start not in self.nodes:
                raise GraphDefinitionError(
                    f"The list edge to {end_key!r} starts at node {start!r}, which has not been added."
                    f"{did_you_mean(start, self.nodes)} Add the node first."
                )
        self._warn_if_compiled("an edge")
        if end_key != END:
            self.waiting_edges.add((starts, end_key))
        return self

    def add_conditional_edges(self, source: str, path: Callable[..., Any], path_map: Any = None) -> Self:
        """After `source`, run what `path` says.

        Args:
            source: A node, or START.
            path: Called with the state as it is after the node's own update; returns a node name, END, a
                `Send`, or a list of those.
            path_map: Dict from results to node names, or a list of the names it may return. Without it a
                `-> Literal[...]` hint is used, else the results are node names.

        Raises:
            GraphDefinitionError: `path` cannot be called; the source has a conditional edge of that name.
        """
        if not callable(path) and not callable(getattr(path, "invoke", None)):
            raise GraphDefinitionError(f"The conditional edge of {source!r} must be a function; got {short(path)}.")
        name = getattr(path, "name", None) or getattr(path, "__name__", None) or type(path).__name__
        name = "condition" if name == "<lambda>" else str(name)
        taken = self.branches.setdefault(source, {})
        if name in taken:
            raise GraphDefinitionError(
                f"Node {source!r} already has a conditional edge named {name!r}; give the function another name.",
                node=source,
            )
        schema = first_argument_schema(path)
        if schema is not None:
            self.keys_of(schema)
        self._warn_if_compiled("a conditional edge")
        taken[name] = BranchDef(path, path_ends(path, path_map), schema)
        return self

    def set_entry_point(self, key: str) -> Self:
        """The same as `add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(self, path: Callable[..., Any], path_map: Any = None) -> Self:
        """The same as `add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """The same as `add_edge(key, END)`."""
        return self.add_edge(key, END)

    # -- compiling -----------------------------------------------------------------------------------------

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check the graph as a whole.

        Args:
            interrupt: Node names that are to exist as well.

        Raises:
            GraphDefinitionError: Lists every problem found.
        """
        from raygraph.build.checks import check_graph

        check_graph(self, interrupt or ())
        return self

    def compile(
        self,
        checkpointer: Any = None,
        *,
        cache: Any = None,
        store: Any = None,
        interrupt_before: Any = None,
        interrupt_after: Any = None,
        debug: bool = False,
        name: str | None = None,
        executor: Any = None,
        strict: bool | None = None,
        sanitize: bool | None = None,
    ) -> CompiledStateGraph:
        """Freeze the graph into something that runs. Later changes to the builder don't reach it.

        Args:
            checkpointer: Not supported yet.
            cache: Not supported yet.
            store: Not supported yet.
            interrupt_before: Not supported yet.
            interrupt_after: Not supported yet.
            debug: Not supported yet.
            name: For messages and task names.
            executor: "ray", "processes", "threads", "inline", or an executor object; default the environment's
                `RAYGRAPH_EXECUTOR`, else "ray". A run's `config["executor"]` goes before it.
            strict: Unknown keys and targets are errors; default True, or the environment's `RAYGRAPH_STRICT`.
            sanitize: A node that changes its snapshot in place fails; default False, or `RAYGRAPH_SANITIZE`.

        Raises:
            GraphDefinitionError: Lists every problem of the graph.
            ShippingError: A node captured something that cannot be sent to the executor's processes.
            NotSupportedError: An argument of a feature that is not there yet.
        """
        from raygraph.app import compile_app

        later = {
            "checkpointer": checkpointer,
            "cache": cache,
            "store": store,
            "interrupt_before": interrupt_before,
            "interrupt_after": interrupt_after,
            "debug": debug or None,
        }
        app = compile_app(self, name=name, executor=executor, strict=strict, sanitize=sanitize, later=later)
        self.compiled = True
        return app

"""What `compile()` returns: a graph that runs. A thin facade over `run.py` and `drive.py`."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from raygraph.build.compiler import Compiler
from raygraph.build.context import coerce_context
from raygraph.build.specs import GraphSpec, NodeSpec
from raygraph.config import RunConfig, default_executor, environment_flag, read_config
from raygraph.drive import Drive, Plan
from raygraph.errors import ConfigError, NotSupportedError, did_you_mean
from raygraph.execute.protocol import Executor
from raygraph.execute.registry import resolve
from raygraph.execute.shipping import check_program
from raygraph.run import Run, Settings
from raygraph.runtime import in_task
from raygraph.state.records import RunContext
from raygraph.stream.modes import read_modes, shaper
from raygraph.stream.report import Report
from raygraph.stream.sink import AsyncStreamRun, StreamRun

if TYPE_CHECKING:
    from raygraph.build.graph import StateGraph
    from raygraph.inspect.doctor import Finding
    from raygraph.inspect.drawing import Graph

#: Config entries that are bound to the driver and never sent to workers.
_DRIVER_ONLY: Final = frozenset({"callbacks", "executor"})
#: LangGraph's methods that this version does not have, so that asking for one says so.
_LATER: Final = frozenset(
    {
        "get_state", "aget_state", "get_state_history", "aget_state_history", "update_state", "aupdate_state",
        "bulk_update_state", "abulk_update_state", "get_subgraphs", "aget_subgraphs",
        "stream_events", "astream_events", "batch", "abatch", "with_config", "clear_cache", "aclear_cache",
    }
)  # fmt: skip


class CompiledStateGraph:
    """A compiled graph. Use it from any thread, any number of runs at once; it can be pickled.

    Attributes:
        name: Name of the graph.
        spec: Its tables.
        executor: The executor chosen at compile time, None for the environment's choice.
    """

    def __init__(self, spec: GraphSpec, executor: Any, sanitize: bool, context_schema: Any) -> None:
        self.spec = spec
        self.name = spec.name
        self.executor = executor
        self.sanitize = sanitize
        self.context_schema = context_schema

    def __repr__(self) -> str:
        return f"CompiledStateGraph({self.name!r}, nodes={[name for name in self.spec.nodes if name != '__start__']})"

    def __getattr__(self, name: str) -> Any:
        if name in _LATER:
            raise AttributeError(f"{name}() is not supported by this version of raygraph.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.")

    def invoke(
        self, input: Any, config: Mapping[str, Any] | None = None, *, context: Any = None, **options: Any
    ) -> Any:
        """Run the graph and return its output.

        Args:
            input: The first update of the state: a dict, an instance of the input schema, or a `Command`.
            config: `recursion_limit`, `max_concurrency`, `executor`, `seed`, `configurable`, `tags`, ...
            context: The run's context, an instance of the context schema or a dict for it.
            **options: `stream_mode` (other than "values": return the list of its chunks), `output_keys`.

        Returns:
            The output keys as a dict (or the one value of a graph without keys); None if no node and no input
            wrote any of them.

        Raises:
            Exception: A node's own exception, with a note that says where it came from.
            RaygraphError: See `raygraph.errors`.
        """
        stream_mode = options.pop("stream_mode", "values")
        if stream_mode != "values":
            return list(self.stream(input, config, context=context, stream_mode=stream_mode, **options))
        drive = self._drive(config, context, frozenset(), options)
        for _ in drive.parts(input):
            pass
        return drive.result()

    def stream(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        stream_mode: str | Sequence[str] = "updates",
        subgraphs: bool = False,
        **options: Any,
    ) -> StreamRun:
        """Run the graph and yield what happens.

        Args:
            input: As for `invoke`.
            config: As for `invoke`.
            context: As for `invoke`.
            stream_mode: "values" (the state after each super-step that wrote to it), "updates" (`{node: update}`
                for each task, as it ends), "custom" (what nodes pass to their stream writer); or a list of them.
            subgraphs: Show what happens in subgraphs too.
            **options: `output_keys`.

        Returns:
            An iterator over the chunks; its `report` tells what the run cost.
        """
        drive = self._drive(config, context, frozenset(read_modes(stream_mode)), options, subgraphs)
        return StreamRun(drive, input, shaper(stream_mode, subgraphs))

    async def ainvoke(
        self, input: Any, config: Mapping[str, Any] | None = None, *, context: Any = None, **options: Any
    ) -> Any:
        """`invoke` for an event loop. Cancelling the awaiting task cancels the run."""
        stream_mode = options.pop("stream_mode", "values")
        if stream_mode != "values":
            chunks = self.astream(input, config, context=context, stream_mode=stream_mode, **options)
            return [chunk async for chunk in chunks]
        drive = self._drive(config, context, frozenset(), options)
        async for _ in AsyncStreamRun(drive, input, lambda part: part):
            pass
        return drive.result()

    def astream(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        stream_mode: str | Sequence[str] = "updates",
        subgraphs: bool = False,
        **options: Any,
    ) -> AsyncStreamRun:
        """`stream` for an event loop."""
        drive = self._drive(config, context, frozenset(read_modes(stream_mode)), options, subgraphs)
        return AsyncStreamRun(drive, input, shaper(stream_mode, subgraphs))

    # -- looking at the graph ------------------------------------------------------------------------------------------

    def get_graph(self, config: Mapping[str, Any] | None = None, *, xray: int | bool = False) -> Graph:
        """The graph as a drawing: `.draw_mermaid()`, `.draw_ascii()`, `.draw_png()`, `.draw_svg()`.

        Args:
            config: Not used; LangGraph's argument.
            xray: Show what is inside subgraphs; a number limits the depth.
        """
        from raygraph.inspect.drawing import get_graph

        return get_graph(self.spec, xray=xray)

    async def aget_graph(self, config: Mapping[str, Any] | None = None, *, xray: int | bool = False) -> Graph:
        """`get_graph` for an event loop."""
        return self.get_graph(config, xray=xray)

    def check(self) -> list[Finding]:
        """What looks wrong about the graph, such as a join that will run twice; each finding says what to do."""
        from raygraph.inspect.doctor import check

        return check(self.spec)

    def explain(self) -> str:
        """The plan of super-steps, as text: what may run when, what it waits for, and where it runs."""
        from raygraph.inspect.explain import explain

        return explain(self.spec)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """How a notebook shows the graph."""
        from raygraph.inspect.drawing import notebook_bundle

        return notebook_bundle(self.spec)

    # -- preparing a run -----------------------------------------------------------------------------------

    def _drive(
        self,
        config: Mapping[str, Any] | None,
        context: Any,
        modes: frozenset[str],
        options: dict[str, Any],
        subgraphs: bool = False,
    ) -> Drive:
        settings = read_config(config)
        outputs = self._output_keys(options)
        run_id = settings.run_id or str(uuid.uuid4())
        run = Run(
            self.spec,
            Settings(
                run_id,
                settings.seed,
                settings.recursion_limit,
                modes,
                outputs=outputs,
                sanitize=self.sanitize,
            ),
        )
        local = RunContext(
            run_id=run_id,
            graph=self.name,
            config={**settings.given, "recursion_limit": settings.recursion_limit},
            context=coerce_context(self.context_schema, context),
            custom="custom" in modes,
            sanitize=self.sanitize,
        )
        portable = {key: value for key, value in local.config.items() if key not in _DRIVER_ONLY}
        executor = self._executor(settings)
        check_requests(self.spec, executor)
        plan = Plan(
            run=run,
            default=executor,
            resolve=resolve,
            local=local,
            remote=dataclasses.replace(local, config=portable),
            max_concurrency=settings.max_concurrency,
            subgraphs=subgraphs,
        )
        return Drive(plan, Report())

    def _executor(self, settings: RunConfig) -> Executor:
        if settings.executor is not None:
            return resolve(settings.executor)
        if in_task():
            # A graph called inside a node runs right there: waiting for another worker while holding this
            # one's CPU could wait for ever.
            return resolve("inline")
        return resolve(self.executor or default_executor())

    def _output_keys(self, options: dict[str, Any]) -> tuple[str, ...] | None:
        keys = options.pop("output_keys", None)
        for name, value in options.items():
            if value is not None and value is not False:
                raise NotSupportedError(f"{name}= is not supported by this version of raygraph; leave it out.")
        if keys is None:
            return None
        keys = (keys,) if isinstance(keys, str) else tuple(keys)
        for key in keys:
            if key not in self.spec.streams:
                raise ConfigError(
                    f"output_keys names {key!r}, which the state does not have.{did_you_mean(key, self.spec.streams)}"
                )
        return keys


def check_code(spec: GraphSpec, default: Executor) -> None:
    """Find out at compile time whether every node's code can be sent where it is to run.

    Raises:
        ShippingError: Names the node and what it captured.
    """
    for node, executor in _placements(spec, default):
        if not executor.in_driver:
            check_program(node.program)


def check_requests(spec: GraphSpec, default: Executor) -> None:
    """Find out before the first task whether every node can ever get what it asks for.

    Raises:
        InfeasibleError: Names the node, what it asks for, and what there is.
    """
    for node, executor in _placements(spec, default):
        executor.check(node.name, node.options)


def _placements(spec: GraphSpec, default: Executor) -> Iterator[tuple[NodeSpec, Executor]]:
    """Every node that runs somewhere, those of subgraphs included, with its executor."""
    for node in spec.nodes.values():
        if node.subgraph is not None:
            yield from _placements(node.subgraph, default)
        yield node, default if node.options.executor is None else resolve(node.options.executor)


def compile_app(
    graph: StateGraph,
    *,
    name: str | None,
    executor: Any,
    strict: bool | None,
    sanitize: bool | None,
    later: Mapping[str, Any],
) -> CompiledStateGraph:
    """See `StateGraph.compile`."""
    for argument, value in later.items():
        if value is not None:
            raise NotSupportedError(
                f"compile({argument}=...) is not supported by this version of raygraph; leave it out.",
                key=argument,
            )
    strict = environment_flag("RAYGRAPH_STRICT", True) if strict is None else strict
    sanitize = environment_flag("RAYGRAPH_SANITIZE", False) if sanitize is None else sanitize
    spec = Compiler(graph, name or "LangGraph", strict).compile()
    app = CompiledStateGraph(spec, executor, sanitize, graph.context_schema)
    check_code(spec, resolve(executor or default_executor()))
    return app

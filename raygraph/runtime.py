"""What a node may ask for about the run it is in: `Runtime`, `get_runtime`, `get_config`, `get_stream_writer`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from raygraph.state.records import TaskPath, Write

ContextT = TypeVar("ContextT", default=None)
StreamWriter = Callable[[Any], None]


def _nobody_listens(_: Any) -> None:
    """The stream writer when the caller did not ask for `custom` events."""


@dataclass(frozen=True)
class Runtime(Generic[ContextT]):
    """The run, as the node that asks for it sees it (`def node(state, runtime: Runtime[MyContext])`).

    The first fields are LangGraph's; the rest is raygraph's.

    Attributes:
        context: The value passed as `context=`, an instance of the graph's `context_schema`.
        store: The graph's store, None if it has none.
        stream_writer: Sends a value to the caller's `custom` stream at once.
        previous: The functional API's previous result.
        seed: 64-bit integer derived from the run's seed, the step and the task's path: the same in every run,
            retry and executor, different in every task. Use it as `random.Random(runtime.seed)`.
        attempt: 1 for the first try.
        task_id: The task, unique in the run and equal in a re-run of it.
        task_path: Where the task stands, such as `("pull", "node")` or `("push", 3)`.
        step: Number of the super-step; the first nodes run in 1.
        node: Name of the node.
    """

    context: ContextT = None  # type: ignore[assignment]  # None is the default of ContextT
    store: Any = None
    stream_writer: StreamWriter = _nobody_listens
    previous: Any = None
    seed: int = 0
    attempt: int = 1
    task_id: str = ""
    task_path: TaskPath = ()
    step: int = 0
    node: str = ""


@dataclass(frozen=True)
class Scope:
    """What the context variables of a running task hold.

    Attributes:
        config: The run's config.
        runtime: What the node may ask for.
        pushed: What the node wrote while it ran; these writes come before those it returns.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    runtime: Runtime[Any] = field(default_factory=Runtime)
    pushed: list[Write] = field(default_factory=list)


_SCOPE: ContextVar[Scope | None] = ContextVar("raygraph_scope", default=None)


@contextmanager
def entered(scope: Scope) -> Iterator[Scope]:
    """Make `scope` the current one while a node runs."""
    token = _SCOPE.set(scope)
    try:
        yield scope
    finally:
        _SCOPE.reset(token)


def in_task() -> bool:
    """Whether the caller runs inside a node."""
    return _SCOPE.get() is not None


def _current(asker: str) -> Scope:
    scope = _SCOPE.get()
    if scope is None:
        raise RuntimeError(f"{asker}() was called outside of a node. It works only while a node of a graph runs.")
    return scope


def push_write(key: str | None, value: Any) -> None:
    """Write to a state key before what the running node returns; with None as key only check that one runs.

    Raises:
        RuntimeError: Called outside of a node.
    """
    pushed = _current("push_message").pushed
    if key:
        pushed.append((key, value))


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The `Runtime` of the node that runs now.

    Args:
        context_schema: Only for the type checker.

    Raises:
        RuntimeError: Called outside of a node.
    """
    return cast("Runtime[ContextT]", _current("get_runtime").runtime)


def get_config() -> Mapping[str, Any]:
    """The config of the run, with the task's own `metadata`.

    Raises:
        RuntimeError: Called outside of a node.
    """
    return _current("get_config").config


def get_stream_writer() -> StreamWriter:
    """The function that sends a value to the caller's `custom` stream.

    Raises:
        RuntimeError: Called outside of a node.
    """
    return _current("get_stream_writer").runtime.stream_writer


def get_store() -> Any:
    """The graph's store, None if it was compiled without one.

    Raises:
        RuntimeError: Called outside of a node.
    """
    return _current("get_store").runtime.store

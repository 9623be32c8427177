"""Every exception raygraph raises.

Each one has a stable `code`, says in its text what was wrong, where, with which value, and the way out, and
carries the place as attributes (`node`, `key`, `step`, `task`), so that a program can act on it. All survive
pickling. The names and base classes that LangGraph documents are kept.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = 4


def short(value: object) -> str:
    """`repr(value)`, shortened for an error text, and safe for objects whose repr fails."""
    try:
        return _SHORT.repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known name, otherwise the empty string."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


class RaygraphError(Exception):
    """Base of raygraph's own errors.

    Args:
        message: What was wrong, where, and the way out.
        code: Stable identifier; each class has a default.
        node: The node at fault, where there is one.
        key: The state key at fault, where there is one.
        step: The super-step, counted as LangGraph does (input is -1, START 0, the first nodes 1).
        task: The task's id.
    """

    code: str = "RAYGRAPH_ERROR"

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        node: str | None = None,
        key: str | None = None,
        step: int | None = None,
        task: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.node = node
        self.key = key
        self.step = step
        self.task = task

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """Restore an exception without calling its `__init__`, whatever that one asks for."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class GraphDefinitionError(RaygraphError, ValueError):
    """The graph, as built, cannot run. Every problem found is listed at once."""

    code = "INVALID_GRAPH"


class InvalidUpdateError(RaygraphError):
    """An update that the state cannot take: unknown key, not a dict, two values for one `LastValue` key."""

    code = "INVALID_UPDATE"


class EmptyInputError(RaygraphError):
    """A run was started without an input and had nothing to resume."""

    code = "EMPTY_INPUT"


class ConfigError(RaygraphError, ValueError):
    """A setting that is unknown, in the wrong place or of the wrong type."""

    code = "INVALID_CONFIG"


class NotSupportedError(RaygraphError, NotImplementedError):
    """Something this version of raygraph (or the chosen executor) cannot do; the text says what to do instead."""

    code = "NOT_SUPPORTED"


class GraphRecursionError(RaygraphError, RecursionError):
    """The run needed more super-steps than `recursion_limit` allows.

    Attributes:
        state: The state after the last super-step that ran, as a dict.
        pending: Names of the nodes that were due next.
    """

    code = "GRAPH_RECURSION_LIMIT"

    def __init__(self, message: str = "", *, state: Any = None, pending: tuple[str, ...] = (), **where: Any) -> None:
        super().__init__(message, **where)
        self.state = state
        self.pending = pending


class EmptyChannelError(RaygraphError):
    """A channel was read that holds no value."""

    code = "EMPTY_CHANNEL"


class SnapshotError(RaygraphError):
    """A value that cannot be copied for the nodes, so that nobody could be kept from changing it."""

    code = "UNCOPYABLE_VALUE"


class SnapshotMutationError(RaygraphError):
    """A node changed its snapshot of the state in place and did not return the key (with `sanitize=True`)."""

    code = "SNAPSHOT_MUTATED"


class SnapshotMutationWarning(UserWarning):
    """A node changed its snapshot of the state in place; the change was not kept, on any executor."""


class ShippingError(RaygraphError):
    """Something that has to travel to a worker process and cannot: a node's code, a value, a result."""

    code = "CANNOT_SHIP"


class InfeasibleError(RaygraphError):
    """A node asks for resources that no machine of the cluster has in total."""

    code = "INFEASIBLE_REQUEST"


class NodeCrashed(RaygraphError):
    """The process that ran a node died: killed, crashed in C code, or left by `os._exit` or `sys.exit`.

    Attributes:
        attempt: 1 for the first try.
        exit_code: The exit status, negative for a signal, None where it is not known.
        host: Name of the machine.
    """

    code = "NODE_CRASHED"

    def __init__(
        self,
        message: str = "",
        *,
        attempt: int = 1,
        exit_code: int | None = None,
        host: str | None = None,
        **where: Any,
    ) -> None:
        super().__init__(message, **where)
        self.attempt = attempt
        self.exit_code = exit_code
        self.host = host


class NodeOutOfMemory(NodeCrashed):
    """A node's process was killed because the machine ran out of memory."""

    code = "NODE_OUT_OF_MEMORY"


class IncompleteJoinError(RaygraphError):
    """The run ended while a list edge still waited for some of its starts, so its node never ran."""

    code = "INCOMPLETE_JOIN"


class NodeCancelledError(RaygraphError):
    """A node raised `asyncio.CancelledError` by itself."""

    code = "NODE_CANCELLED"


class NodeTimeoutError(RaygraphError):
    """A node took longer than it may. Not a `TimeoutError`, so that the default retry policy tries it again.

    Attributes:
        kind: "run" or "idle".
        timeout: The limit, in seconds.
    """

    code = "NODE_TIMEOUT"

    def __init__(self, message: str = "", *, kind: str = "run", timeout: float = 0.0, **where: Any) -> None:
        super().__init__(message, **where)
        self.kind = kind
        self.timeout = timeout


class ExecutorError(RaygraphError):
    """The executor itself failed: no Ray could be reached or started, workers do not come up."""

    code = "EXECUTOR_FAILED"


class GraphBubbleUp(Exception):
    """Base of what passes through a graph as control flow rather than as a failure."""


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=Command.PARENT)` from a subgraph to the graph around it."""

    args: tuple[Any, ...]


class RoutingError(RaygraphError, ValueError):
    """A router, a `Command` or a `Send` named a node that is not there, or nothing at all."""

    code = "INVALID_ROUTE"


def add_note(error: BaseException, note: str) -> None:
    """`error.add_note(note)`, also on Python 3.10, which shows no notes but can carry them."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.__dict__["__notes__"] = [*getattr(error, "__notes__", ()), note]

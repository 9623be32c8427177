"""The values users put into and get out of a graph: Send, Command, Overwrite."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

N = TypeVar("N", bound=Hashable)


class Send:
    """Start `node` in the next super-step with an input of its own.

    Several `Send`s to one node are that many tasks; their updates are merged in the order the `Send`s were
    made.

    Args:
        node: Name of the node to start.
        arg: Its input, passed as it is: it needn't have the shape of the state.
        timeout: Seconds this one task may take (LangGraph's argument).
    """

    __slots__ = ("arg", "node", "timeout")

    def __init__(self, node: str, arg: Any, *, timeout: Any = None) -> None:
        self.node = node
        self.arg = arg
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"Send(node={self.node!r}, arg={self.arg!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Send) and self.node == other.node and bool(self.arg == other.arg)

    def __hash__(self) -> int:
        return hash((self.node, self.arg))


@dataclass(frozen=True, kw_only=True, slots=True)
class Command(Generic[N]):
    """An update and a route in one value, returned by a node or passed as a run's input.

    Args:
        graph: None for the current graph, `Command.PARENT` for the one around it.
        update: A dict, a list of `(key, value)` pairs, or an instance of a schema class.
        resume: Answer to an `interrupt`.
        goto: A node name, a `Send`, or a sequence of both. It adds to the node's edges.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = None
    goto: Send | Sequence[Send | N] | N = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replace a key's value instead of merging into it with the key's reducer.

    At most one per key and super-step. Values before it in the fold order are superseded, values after it in
    the same step are dropped. Works on every kind of channel.
    """

    value: Any


_OVERWRITE_KEY: Final = "__overwrite__"


def unwrap_overwrite(value: Any) -> tuple[bool, Any]:
    """Tell whether `value` is an overwrite, in any of its three spellings, and what it holds.

    Returns:
        `(True, inner)` for `Overwrite(inner)`, `{"__overwrite__": inner}` and
        `{"type": "__overwrite__", "value": inner}`; `(False, value)` otherwise.
    """
    kind = type(value)
    if kind is Overwrite or isinstance(value, Overwrite):
        return True, value.value
    if kind is dict:
        if len(value) == 1 and _OVERWRITE_KEY in value:
            return True, value[_OVERWRITE_KEY]
        if len(value) == 2 and value.get("type") == _OVERWRITE_KEY and "value" in value:
            return True, value["value"]
    return False, value

"""Names that the engine and its users share, and the sentinel for "no value"."""

from __future__ import annotations

from typing import Final, Literal

#: The virtual node every run starts from (the value is LangGraph's).
START: Final[Literal["__start__"]] = "__start__"
#: The virtual node that ends a branch (the value is LangGraph's).
END: Final[Literal["__end__"]] = "__end__"
#: Channel that carries the pending `Send`s from one super-step to the next.
TASKS: Final[Literal["__pregel_tasks"]] = "__pregel_tasks"
#: The one state key of a graph whose schema has no fields, such as `StateGraph(int)`.
ROOT: Final[Literal["__root__"]] = "__root__"

#: Super-steps of nodes a run may take when the caller does not say.
DEFAULT_RECURSION_LIMIT: Final = 25


class Missing:
    """The type of `MISSING`: one instance per process, also after pickling."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


#: "No value here", as opposed to the value None.
MISSING: Final = Missing()


def branch_channel(node: str) -> str:
    """Name of the channel that an edge to `node` writes to (LangGraph's naming)."""
    return f"branch:to:{node}"


def join_channel(starts: tuple[str, ...], end: str) -> str:
    """Name of the barrier channel of a list edge (LangGraph's naming)."""
    return f"join:{'+'.join(starts)}:{end}"

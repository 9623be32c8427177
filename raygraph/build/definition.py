"""What the builder has recorded so far: nodes and conditional edges as the user defined them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_origin

from typing_extensions import get_type_hints

from raygraph.errors import GraphDefinitionError, short
from raygraph.state.constants import END, START
from raygraph.state.policies import Policies
from raygraph.state.records import NodeOptions
from raygraph.state.types import Command

#: Separators in the namespaces of subgraphs, so not allowed in a node's name (LangGraph's rule).
_RESERVED: Final = ("|", ":")


@dataclass
class NodeDef:
    """A node as `add_node` got it.

    Attributes:
        fn: The function, or a compiled graph.
        input_schema: What its input is made from; None for the state.
        defer: It waits until nothing else is due, nor any pending `Send` or deferred node can reach it.
        destinations: Nodes it may go to with a `Command`.
        options: Where it runs.
        reads: Limits the keys it is sent; None for all of its schema.
        delta: For a subgraph: merge what it contributed instead of its whole output.
        metadata: The user's.
        policies: How often it is tried.
    """

    fn: Any
    input_schema: Any = None
    defer: bool = False
    destinations: tuple[str, ...] = ()
    options: NodeOptions = NodeOptions()
    reads: tuple[str, ...] | None = None
    delta: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    policies: Policies = Policies()


@dataclass
class BranchDef:
    """A conditional edge as `add_conditional_edges` got it."""

    path: Callable[..., Any]
    ends: dict[Any, str] | None
    input_schema: Any = None


def node_name(fn: Any) -> str:
    """The name of a node that was added without one: the runnable's, function's or class's (LangGraph's rule).

    Raises:
        GraphDefinitionError: It has none.
    """
    get_name = getattr(fn, "get_name", None)
    name = get_name() if callable(get_name) else getattr(fn, "__name__", type(fn).__name__)
    if not isinstance(name, str) or not name:
        raise GraphDefinitionError(f"No name can be told from {short(fn)}: use add_node('name', function).")
    return name


def check_node_name(name: Any, taken: Mapping[str, Any]) -> None:
    """Refuse a node name that is no string, reserved, or taken.

    Raises:
        GraphDefinitionError: With what to do instead.
    """
    if not isinstance(name, str) or not name:
        raise GraphDefinitionError(f"A node's name must be a non-empty string; got {short(name)}.")
    if name in (START, END):
        raise GraphDefinitionError(f"Node name {name!r} is reserved; choose another.", node=name)
    bad = [character for character in _RESERVED if character in name]
    if bad:
        raise GraphDefinitionError(
            f"Node name {name!r} contains {bad[0]!r}, which separates the names of nested graphs; leave it out.",
            node=name,
        )
    if name in taken:
        raise GraphDefinitionError(
            f"Node {name!r} is already in the graph; give one of the two another name.", node=name
        )


def check_callable(name: str, fn: Any) -> None:
    """Refuse what cannot be called with the state.

    Raises:
        GraphDefinitionError: Not callable, or a function that takes no argument.
    """
    if not callable(fn):
        if callable(getattr(fn, "invoke", None)):
            return
        raise GraphDefinitionError(
            f"Node {name!r} must be a function, a callable object or a compiled graph; got {short(fn)} "
            f"({type(fn).__name__}).",
            node=name,
        )
    if isinstance(fn, type):
        return
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return
    if not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        raise GraphDefinitionError(
            f"Node {name!r} takes no argument; a node is called with the state: def {name}(state): ...",
            node=name,
        )


def hints_of(fn: Any) -> dict[str, Any]:
    """The type hints of a function or of an object's `__call__`, empty where they cannot be resolved."""
    target = fn if inspect.isroutine(fn) or isinstance(fn, type) else getattr(fn, "__call__", fn)  # noqa: B004
    try:
        return dict(get_type_hints(target, include_extras=True))
    except Exception:  # names that exist only for the type checker, say; the state schema is used then
        return {}


def first_argument_schema(fn: Any) -> Any:
    """The schema class that a function's first parameter is annotated with, None if it is not."""
    try:
        parameters = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return None
    hint = hints_of(fn).get(parameters[0]) if parameters else None
    is_schema = isinstance(hint, type) and bool(getattr(hint, "__annotations__", None))
    return hint if is_schema and get_origin(hint) is None else None


def declared_destinations(fn: Any) -> tuple[str, ...]:
    """The targets in a `-> Command[Literal["a", "b"]]` hint."""
    hint = hints_of(fn).get("return")
    if get_origin(hint) is Command or (isinstance(hint, type) and hint is Command):
        return tuple(n for arg in get_args(hint) if get_origin(arg) is Literal for n in get_args(arg))
    found: list[str] = []
    for arg in get_args(hint):
        if get_origin(arg) is Command:
            found += [n for inner in get_args(arg) if get_origin(inner) is Literal for n in get_args(inner)]
    return tuple(found)


def path_ends(path: Any, path_map: Any) -> dict[Any, str] | None:
    """The mapping from a router's results to node names: the `path_map`, or a `-> Literal[...]` hint, or None."""
    if isinstance(path_map, Mapping):
        return dict(path_map)
    if path_map is not None:
        return {name: name for name in path_map}
    hint = hints_of(path).get("return")
    if get_origin(hint) is Literal:
        return {name: name for name in get_args(hint)}
    return None

"""What a node returned, as a list of writes.

Follows LangGraph: a dict, an instance of a schema class, a `Command`, a `Send`, or a list with at least one
`Command` among them. Runs where the node ran, so that an error is the node's own and is retried with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from raygraph.build.items import explicit_items, update_items
from raygraph.build.specs import Program
from raygraph.errors import InvalidUpdateError, NotSupportedError, ParentCommand, RoutingError, did_you_mean, short
from raygraph.state.constants import END, ROOT, START, TASKS, branch_channel
from raygraph.state.records import Write
from raygraph.state.types import Command, Send


def writes_of(program: Program, returned: Any, pushed: Sequence[Write] = ()) -> list[Write]:
    """The writes a node's return value stands for, in the order it gave them.

    Args:
        program: The node's program: which keys and targets exist.
        returned: The return value, or for START the run's input.
        pushed: What the node wrote while it ran; it comes first.

    Raises:
        InvalidUpdateError: Not an update, or (strict) a key the state does not have.
        RoutingError: A goto or `Send` to a node that does not exist (strict).
        ParentCommand: The node addresses the graph around this one.
    """
    writes = _known(program, pushed)
    if isinstance(returned, (list, tuple)) and any(isinstance(item, Command) for item in returned):
        return writes + [write for item in returned for write in _one(program, item)]
    return writes + _one(program, returned)


def _one(program: Program, item: Any) -> list[Write]:
    if item is None:
        return []
    if isinstance(item, Command):
        return _command(program, item)
    if isinstance(item, Send):
        return send_writes(program, item)
    return _update(program, item)


def _command(program: Program, command: Command[Any]) -> list[Write]:
    if command.graph is not None:
        raise ParentCommand(command)
    writes: list[Write] = []
    update = command.update
    if update is not None:
        pairs = isinstance(update, (list, tuple)) and all(_is_pair(item) for item in update)
        if pairs and ROOT not in program.keys:
            writes += _known(program, update)
        else:
            writes += _update(program, update)
    return writes + goto_writes(program, command.goto)


def _is_pair(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str)


def goto_writes(program: Program, goto: Any) -> list[Write]:
    """The writes of a `Command.goto`: a node name, a `Send`, or a sequence of both."""
    targets = goto if isinstance(goto, Sequence) and not isinstance(goto, str) else (goto,)
    writes: list[Write] = []
    for target in targets:
        if isinstance(target, Send):
            writes += send_writes(program, target)
        elif isinstance(target, str):
            if target != END and is_target(program, target, "Command(goto=...)"):
                writes.append((branch_channel(target), None))
        else:
            raise RoutingError(
                f"{_who(program)} returned a Command with goto={short(goto)}; expected a node name, a Send, or a "
                f"sequence of both.",
                node=program.node,
            )
    return writes


def is_target(program: Program, name: str, by: str) -> bool:
    """Whether a route may lead to `name`; strict graphs raise instead of answering no."""
    if name in program.targets:
        return True
    problem = f"{_who(program)} routes to node {name!r} by {by}, which the graph does not have."
    if program.strict:
        raise RoutingError(
            f"{problem}{did_you_mean(name, program.targets)} Nodes: {', '.join(sorted(program.targets))}. "
            f"Add the node, or compile with strict=False to ignore unknown targets.",
            node=program.node,
            key=name,
        )
    warnings.warn(f"{problem} It is ignored.", stacklevel=2)
    return False


def send_writes(program: Program, send: Send, by: str = "Send") -> list[Write]:
    """The write of a `Send`: none if it leads nowhere and the graph is not strict.

    Raises:
        InvalidUpdateError: It is addressed to END.
        RoutingError: Its node does not exist (strict).
    """
    if send.timeout is not None:
        raise NotSupportedError(
            f"{_who(program)} made a Send to {send.node!r} with timeout={short(send.timeout)}, which this version of "
            f"raygraph does not carry out; leave it out.",
            node=program.node,
        )
    if send.node == END:
        raise InvalidUpdateError(
            f"{_who(program)} sent a Send to END. A Send starts a node; to end a branch return END itself.",
            code="INVALID_ROUTE",
            node=program.node,
        )
    return [(TASKS, send)] if is_target(program, send.node, by) else []


def _update(program: Program, update: Any) -> list[Write]:
    if ROOT in program.keys:
        return [(ROOT, update)]
    if isinstance(update, dict):
        return _known(program, update.items())
    if hasattr(type(update), "__annotations__") and not isinstance(update, type):
        items = explicit_items if program.node == START else update_items
        return _known(program, items(update))
    if program.node == START:
        raise InvalidUpdateError(
            f"The input must be a dict of state keys or an instance of the input schema; "
            f"got {short(update)} ({type(update).__name__}). Keys: {', '.join(sorted(program.keys))}.",
            node=START,
            step=0,
        )
    raise InvalidUpdateError(
        f"{_who(program)} returned {short(update)} ({type(update).__name__}); expected a dict of state keys to "
        f"update, a Command, or None. Return {{'key': value}} with keys from: {', '.join(sorted(program.keys))}.",
        code="INVALID_GRAPH_NODE_RETURN_VALUE",
        node=program.node,
    )


def _known(program: Program, items: Iterable[tuple[Any, Any]]) -> list[Write]:
    writes: list[Write] = []
    keys = program.keys
    for key, value in items:
        if key in keys:
            writes.append((key, value))
        elif program.strict or key in program.managed:
            _refuse(program, key, value)
    return writes


def _refuse(program: Program, key: Any, value: Any) -> None:
    if key in program.dropped:
        warnings.warn(
            f"The input's key {key!r} is in the state but not in the input schema; it is ignored, as in LangGraph.",
            stacklevel=2,
        )
        return
    if key in program.managed:
        raise InvalidUpdateError(
            f"{_who(program)} writes {key!r}, a managed value that only the engine sets. Take it out of the update.",
            node=program.node,
            key=str(key),
        )
    raise InvalidUpdateError(
        f"{_who(program)} writes key {key!r} (value {short(value)}), which the state does not have."
        f"{did_you_mean(key, program.keys)} Keys: {', '.join(sorted(program.keys))}. "
        f"Correct the key, add it to the state schema, or compile with strict=False to drop unknown keys.",
        node=program.node,
        key=str(key),
    )


def _who(program: Program) -> str:
    return "The input" if program.node == START else f"Node {program.node!r}"

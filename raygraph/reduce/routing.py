"""Conditional edges: where a node's results lead.

A router belongs to its node's task: it runs where the node ran, sees the state at the start of the step with
that node's own writes applied (siblings' are not visible, as in LangGraph), and its failure is the task's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raygraph.build.specs import Branch, Program
from raygraph.errors import RoutingError, did_you_mean, short
from raygraph.reduce.updates import is_target, send_writes
from raygraph.state.constants import END, MISSING, ROOT, START, branch_channel
from raygraph.state.records import Write
from raygraph.state.snapshot import Packed, unpack
from raygraph.state.types import Send

#: Calls a path function with its input (injecting config and the like) and returns its result.
CallPath = Callable[[Branch, Any], Any]


def branch_input(
    program: Program,
    branch: Branch,
    inputs: Mapping[str, Packed],
    writes: list[Write],
    managed: Mapping[str, Any],
    returned: Any,
) -> Any:
    """What a router sees, built from the snapshot and the node's own writes.

    Two rules are LangGraph's. Keys that a super-step clears when nobody writes them (`EphemeralValue` and its like)
    are absent unless this node wrote them. And where the router names no schema and the node returned a dict, the keys
    of that dict which the router would not see otherwise are added as they were returned.
    """
    view: dict[str, Any] = {}
    for key in branch.input.keys:
        own = [value for channel, value in writes if channel == key]
        channel = program.channels[key]
        if own:
            after = channel.from_value(unpack(inputs[key])) if key in inputs else channel.from_checkpoint(MISSING)
            after.update(own)
            if after.is_available():
                view[key] = after.get()
        elif key in inputs and not channel.clears_when_idle:
            view[key] = unpack(inputs[key])
    if branch.input.keys == (ROOT,):
        return view.get(ROOT)
    for key in branch.input.managed:
        view[key] = managed[key]
    if branch.input.schema is not None:
        return branch.input.schema(**view)
    return {**returned, **view} if branch.untyped and isinstance(returned, dict) else view


def route(program: Program, call_path: CallPath, view_of: Callable[[Branch], Any]) -> list[Write]:
    """Run every conditional edge of a node and return the writes that start what they chose.

    Args:
        program: The node's program.
        call_path: Calls a path function.
        view_of: Makes the input of a branch.

    Raises:
        RoutingError: A result that is no node, names nothing, or is missing from the path map.
    """
    writes: list[Write] = []
    for branch in program.branches:
        result = call_path(branch, view_of(branch))
        for choice in result if isinstance(result, (list, tuple)) else (result,):
            writes += _destination(program, branch, choice)
    return writes


def _destination(program: Program, branch: Branch, choice: Any) -> list[Write]:
    by = f"its conditional edge {branch.name!r}"
    if isinstance(choice, Send):
        return send_writes(program, choice, by)
    target = _mapped(program, branch, choice) if branch.ends is not None else choice
    if target is None or target == START or not isinstance(target, str):
        raise RoutingError(
            f"Branch did not return a valid destination: the conditional edge {branch.name!r} of node "
            f"{program.node!r} returned {short(choice)}. Return a node name, END, a Send, or a list of those.",
            node=program.node,
        )
    if target == END or not is_target(program, target, by):
        return []
    return [(branch_channel(target), None)]


def _mapped(program: Program, branch: Branch, choice: Any) -> Any:
    ends = branch.ends or {}
    try:
        return ends[choice]
    except (KeyError, TypeError):
        names = ", ".join(short(end) for end in ends)
        raise RoutingError(
            f"The conditional edge {branch.name!r} of node {program.node!r} returned {short(choice)}, which its "
            f"path_map does not have.{did_you_mean(choice, map(str, ends))} It maps: {names}.",
            node=program.node,
        ) from None

"""Running one call, the same way in every place: in the driver, in a worker process, in a Ray task.

Phases: make the input from the snapshot, call the node, turn what it returned into writes, run its routers,
notice what it changed in place, pack the writes. `run_call` never raises: everything that goes wrong comes back
as data, so that only the death of a process looks different to the driver.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

from raygraph.build.specs import Branch, Program
from raygraph.errors import (
    NodeCancelledError,
    NodeCrashed,
    ShippingError,
    SnapshotError,
    SnapshotMutationError,
    SnapshotMutationWarning,
    short,
)
from raygraph.execute.calling import Callee
from raygraph.execute.usage import host, start
from raygraph.reduce.routing import branch_input, route
from raygraph.reduce.updates import writes_of
from raygraph.runtime import Runtime, Scope, entered
from raygraph.state.constants import ROOT, START
from raygraph.state.message_ids import MessageIds, ids_for_writes, ids_from
from raygraph.state.records import Call, Outcome, RunContext, Task, Write
from raygraph.state.snapshot import Packed, dumps, pack, unpack
from raygraph.state.types import Send

_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
#: Larger values are not searched for changes made in place unless `sanitize=True`: pickling them once more
#: would cost more than most nodes do (1 MiB of plain lists takes about 5 ms).
_MUTATION_CHECK_BYTES: Final = 1 << 20


def run_call(call: Call, run: RunContext, post_custom: Callable[[Any], None] | None, *, in_driver: bool) -> Outcome:
    """Run a call to its outcome.

    Args:
        call: The call.
        run: What all tasks of the run are told.
        post_custom: Takes what the node passes to its stream writer; None if nobody listens.
        in_driver: The node shares the driver's process: values that cannot be copied may pass by reference.

    Returns:
        The outcome; it holds the error if there was one. Nothing is raised, `BaseException`s included.
    """
    meter = start(in_driver)
    writer = _CountingWriter(post_custom) if post_custom is not None else None
    writes: tuple[Write, ...] = ()
    mutated: tuple[str, ...] = ()
    error: BaseException | None = None
    try:
        with entered(_scope(call.task, run, writer)) as scope, ids_from(call.task.id) as ids:
            writes, mutated = _run(call, run, scope, ids, in_driver)
    except BaseException as caught:
        error = _as_node_error(caught, call.task)
    return Outcome(
        task_id=call.task.id,
        attempt=call.task.attempt,
        writes=writes,
        error=error,
        mutated=mutated,
        customs=writer.count if writer else 0,
        usage=meter.stop(),
    )


def _as_node_error(error: BaseException, task: Task) -> BaseException:
    """The error as the caller is to get it: the node's own, but for those that would mean something else there.

    `SystemExit` would end the caller's program, and `CancelledError` look like the caller's own cancellation.
    """
    where: dict[str, Any] = {"node": task.node, "step": task.step, "task": task.id}
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        crashed = NodeCrashed(
            f"Node {task.node!r} called sys.exit({short(error.code)}). A node cannot end the program: return, or "
            f"raise an exception of another kind.",
            attempt=task.attempt,
            exit_code=code,
            host=host(),
            **where,
        )
        crashed.__cause__ = error
        return crashed
    if isinstance(error, asyncio.CancelledError):
        cancelled = NodeCancelledError(f"Node {task.node!r} raised asyncio.CancelledError.", **where)
        cancelled.__cause__ = error
        return cancelled
    return error.with_traceback(_users_part(error.__traceback__))


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the user's function on: the engine's own frames tell the user nothing."""
    frame = traceback
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.tb_next
    return frame or traceback


class _CountingWriter:
    """The stream writer of a task, which also counts, so that no event can get lost on the way unnoticed."""

    __slots__ = ("count", "post")

    def __init__(self, post: Callable[[Any], None]) -> None:
        self.post = post
        self.count = 0

    def __call__(self, payload: Any) -> None:
        self.count += 1
        self.post(payload)


def _scope(task: Task, run: RunContext, writer: _CountingWriter | None) -> Scope:
    runtime: Runtime[Any] = Runtime(
        context=run.context,
        seed=task.seed,
        attempt=task.attempt,
        task_id=task.id,
        task_path=task.path,
        step=task.step,
        node=task.node,
        **({"stream_writer": writer} if writer else {}),
    )
    metadata = {
        **run.config.get("metadata", {}),
        "langgraph_step": task.step,
        "langgraph_node": task.node,
        "langgraph_triggers": task.triggers,
        "langgraph_path": task.path,
    }
    return Scope({**run.config, "metadata": metadata}, runtime)


def _run(
    call: Call, run: RunContext, scope: Scope, ids: MessageIds, in_driver: bool
) -> tuple[tuple[Write, ...], tuple[str, ...]]:
    program = call.program
    given, snapshot = _input(call)
    returned = given if program.fn is None else _callee(program.fn)(given, scope)
    writes = writes_of(program, returned, scope.pushed)
    if program.messages:
        writes = ids_for_writes(writes, program.messages, ids)
    mutated = _mutated(call, given, snapshot, writes, everything=run.sanitize) if snapshot else ()
    if mutated and run.sanitize:
        raise SnapshotMutationError(mutation_text(program.node, mutated), node=program.node, key=mutated[0])
    if program.branches:

        def call_path(branch: Branch, view: Any) -> Any:
            return _callee(branch.path)(view, scope)

        def view_of(branch: Branch) -> Any:
            return branch_input(program, branch, call.inputs, writes, call.managed, returned)

        writes += route(program, call_path, view_of)
    writes += program.static
    return tuple([(channel, _pack_write(program, channel, value, in_driver)) for channel, value in writes]), mutated


@lru_cache(maxsize=1024)
def _cached_callee(fn: Callable[..., Any]) -> Callee:
    return Callee(fn)


def _callee(fn: Callable[..., Any]) -> Callee:
    try:
        return _cached_callee(fn)
    except TypeError:  # an unhashable callable object
        return Callee(fn)


def _input(call: Call) -> tuple[Any, dict[str, Any]]:
    """The node's input, and the snapshot's values in it by key (empty where the input is not the state)."""
    if call.arg is not None:
        return unpack(call.arg), {}
    spec = call.program.input
    inputs = call.inputs
    snapshot = {key: unpack(inputs[key]) for key in spec.keys if key in inputs}
    if spec.keys == (ROOT,):
        return snapshot.get(ROOT), snapshot
    if not spec.managed and spec.schema is None:
        return dict(snapshot), snapshot
    state = {**snapshot, **{key: call.managed[key] for key in spec.managed}}
    return spec.schema(**state) if spec.schema else state, snapshot


def _mutated(
    call: Call, given: Any, snapshot: dict[str, Any], writes: list[Write], *, everything: bool
) -> tuple[str, ...]:
    """State keys that the node changed in place and did not return: changes nobody will ever see."""
    written = {channel for channel, _ in writes}
    found = []
    for key, value in snapshot.items():
        packed = call.inputs[key]
        if key in written:
            continue
        if type(given) is dict and key in given and given[key] is not value:
            found.append(key)
        elif packed.data is None or not (everything or len(packed.data) <= _MUTATION_CHECK_BYTES):
            continue
        elif _differs(packed, value):
            found.append(key)
    if type(given) is dict and len(given) > len(snapshot):
        found += [k for k in given if k in call.program.keys and k not in snapshot and k not in written]
    return tuple(found)


def _differs(packed: Packed, value: Any) -> bool:
    try:
        if dumps(value)[0] == packed.data:
            return False
        # A pickle depends on which equal strings are one object, which unpickling may change; a second copy
        # made the same way as the first has the same such history.
        return dumps(value)[0] != dumps(unpack(packed))[0]
    except Exception:
        return True  # it could be pickled before the node ran


def mutation_text(node: str, keys: tuple[str, ...]) -> str:
    """What to tell the author of a node that changed its snapshot in place."""
    listed = ", ".join(repr(key) for key in keys)
    return (
        f"Node {node!r} changed {listed} of its state in place and did not return it, so the change is lost: a node "
        f"works on a snapshot. Return the new value, such as return {{{keys[0]!r}: ...}}, or change a copy."
    )


def _pack_write(program: Program, channel: str, value: Any, in_driver: bool) -> Any:
    if isinstance(value, Send):
        return Send(value.node, _pack_value(program, f"Send({value.node!r})", value.arg), timeout=value.timeout)
    if in_driver and channel in program.by_reference:
        return Packed(value)
    return _pack_value(program, channel, value)


def _pack_value(program: Program, where: str, value: Any) -> Packed:
    try:
        return pack(value)
    except Exception as error:
        from raygraph.execute.shipping import find_unpicklable

        path, culprit = find_unpicklable(value, where)
        who = "The input" if program.node == START else f"Node {program.node!r}"
        kind = SnapshotError if program.node == START else ShippingError
        raise kind(
            f"{who} put a value into {path} that cannot be copied or sent: {short(culprit)} "
            f"({type(culprit).__module__}.{type(culprit).__qualname__}; {error}). Return plain data instead, or "
            f"keep such objects in an UntrackedValue channel read by nodes with executor='threads' or 'inline'.",
            node=program.node,
            key=where,
        ) from error


def warn_mutated(node: str, keys: tuple[str, ...]) -> None:
    """Tell the user, in the driver, that a node's change in place was lost."""
    warnings.warn(mutation_text(node, keys), SnapshotMutationWarning, stacklevel=2)

"""The fold: from the writes of a super-step's tasks to the next state. Runs in the driver, once per step.

Phases, in this order (LangGraph's `apply_writes` has the same observable ones):

1. sort the tasks by `reduce/order.py`; mark their triggers as seen and consume them;
2. group the writes per channel, keeping that order;
3. let each written channel take all its values in one call, on a copy, so that a failing reducer leaves the
   whole state as it was;
4. tell the channels that clear when idle that a step passed without them.

Elsewhere on purpose: who runs next and when deferred nodes are released (`plan/due.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from raygraph.errors import InvalidUpdateError, add_note, short
from raygraph.reduce.order import order_key
from raygraph.state.board import AnyChannel, Board
from raygraph.state.constants import START
from raygraph.state.message_ids import ids_from
from raygraph.state.records import Task, Write
from raygraph.state.snapshot import Packed, unpack
from raygraph.state.types import unwrap_overwrite


def fold(
    board: Board,
    done: Sequence[tuple[Task, Sequence[Write]]],
    *,
    sanitize: bool = False,
) -> set[str]:
    """Fold the writes of a super-step into the board.

    Args:
        board: The state; changed in place, or not at all if an error is raised.
        done: The step's tasks with their writes, in any order.
        sanitize: An `Overwrite` that makes another node's update disappear is an error.

    Returns:
        The channels that changed and are available: what the next step is planned from.

    Raises:
        InvalidUpdateError: Two values for a channel that takes one; names the key and the nodes.
        Exception: Whatever a reducer raised, with a note that names the key and the nodes.
    """
    done = sorted(done, key=lambda item: order_key(item[0].path))
    arrivals: dict[str, list[tuple[str, Any]]] = {}
    for task, writes in done:
        for channel, value in writes:
            arrivals.setdefault(channel, []).append((task.node, unpack(value) if isinstance(value, Packed) else value))
    if sanitize:
        for name, values in arrivals.items():
            _check_overwrite(name, values)
    consumed = _consumed(board, done)
    # A reducer of messages that the worker gave no id to takes it from the step's first task.
    with ids_from(f"{done[0][0].id}|fold" if done else "fold"):
        updated = {name: _updated(board, name, values, consumed.get(name)) for name, values in arrivals.items()}
    # Nothing above touched the board; nothing below can fail for what a user wrote.
    for task, _ in done:
        board.mark_seen(task.node, task.triggers)
    version = board.clock + 1
    available: set[str] = set()
    for name, taken in consumed.items():
        board.channels[name] = taken
        board.versions[name] = version
    for name, (merged, changed) in updated.items():
        board.channels[name] = merged
        if changed:
            board.versions[name] = version
            if merged.is_available():
                available.add(name)
    available |= _idle(board, updated, version)
    board.clock = version
    return available


def _check_overwrite(name: str, arrivals: list[tuple[str, Any]]) -> None:
    """Refuse an `Overwrite` beside another node's write, which would get lost."""
    overwriting = [node for node, value in arrivals if unwrap_overwrite(value)[0]]
    losing = [node for node, _ in arrivals if node not in overwriting]
    if overwriting and losing:
        raise InvalidUpdateError(
            f"At key {name!r}: {_writer(overwriting[0])} overwrites the value in the same step in which "
            f"{_writer(losing[0])} updates it, so that update would be lost. Let them run in different steps, or "
            f"compile without sanitize=True to accept it.",
            code="OVERWRITTEN_UPDATE",
            node=losing[0],
            key=name,
        )


def _consumed(board: Board, done: Sequence[tuple[Task, Any]]) -> dict[str, AnyChannel]:
    """Copies of the triggers that change because a node they started has run."""
    consumed: dict[str, AnyChannel] = {}
    for task, _ in done:
        for trigger in task.triggers:
            channel = board.channels.get(trigger)
            if channel is not None and channel.tracks_consume and trigger not in consumed:
                copy = channel.copy()
                if copy.consume():
                    consumed[trigger] = copy
    return consumed


def _updated(
    board: Board, name: str, arrivals: list[tuple[str, Any]], consumed: AnyChannel | None
) -> tuple[AnyChannel, bool]:
    current = board.channels[name]
    channel = consumed if consumed is not None else current.copy()
    values = [value for _, value in arrivals]
    try:
        return channel, channel.update(values)
    except InvalidUpdateError as error:
        raise _conflict(error, name, current, arrivals) from error
    except Exception as error:
        nodes = ", ".join(dict.fromkeys(_writer(node) for node, _ in arrivals))
        add_note(
            error,
            f"While merging into key {name!r} the updates of {nodes}. The nodes' results are intact; "
            f"correct the reducer of {name!r}.",
        )
        raise


def _conflict(
    error: InvalidUpdateError, name: str, current: AnyChannel, arrivals: list[tuple[str, Any]]
) -> InvalidUpdateError:
    """The channel's error with what only the fold knows: which nodes wrote which values."""
    listed = "; ".join(f"{_writer(node)} wrote {short(value)}" for node, value in arrivals[:6])
    more = f"; and {len(arrivals) - 6} more" if len(arrivals) > 6 else ""
    echoes = dict.fromkeys(node for node, value in arrivals if _is_echo(current, value))
    hint = "".join(
        f" {_writer(node)} returned the key unchanged: let it return only what it changed." for node in echoes
    )
    return InvalidUpdateError(f"{error} Here {listed}{more}.{hint}", code=error.code, node=arrivals[-1][0], key=name)


def _is_echo(current: AnyChannel, value: Any) -> bool:
    try:
        return current.is_available() and bool(current.get() == value)
    except Exception:
        return False  # values that cannot be compared, such as arrays


def _writer(node: str) -> str:
    return "the input" if node == START else f"node {node!r}"


def _idle(board: Board, written: Iterable[str], version: int) -> set[str]:
    """Tell clearing channels that a step passed without them; returns those that changed and are available."""
    available = set()
    for name in board.transient.difference(written):
        channel = board.channels[name].copy()
        if channel.update([]):
            board.channels[name] = channel
            board.versions[name] = version
            if channel.is_available():
                available.add(name)
            else:
                board.transient.discard(name)
    board.transient.update(n for n in written if _is_transient(board.channels[n]))
    return available


def _is_transient(channel: AnyChannel) -> bool:
    return channel.clears_when_idle and channel.is_available()

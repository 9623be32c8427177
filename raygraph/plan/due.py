"""Which nodes run next.

A node is due when one of its triggers changed since it last ran. Deferred nodes wait: none is released while
another due node remains, nor while a pending `Send` or another pending deferred node can still reach it. In a
cycle of deferred nodes nobody waits for anybody.
"""

from __future__ import annotations

from collections.abc import Iterable

from raygraph.build.specs import GraphSpec
from raygraph.state.board import Board
from raygraph.state.channels import NamedBarrierValue


def due_nodes(spec: GraphSpec, board: Board, updated: Iterable[str]) -> list[str]:
    """The nodes due next, by name; releases deferred ones when their time has come.

    Args:
        spec: The graph.
        board: The state. Channels that wait for the end are told of it here (`finish`).
        updated: The channels that changed in the last fold and are available.
    """
    listeners = spec.listeners
    names = {node for channel in updated for node in listeners.get(channel, ())}
    due = sorted(name for name in names if board.is_due(name, spec.nodes[name].triggers))
    if due:
        return due
    released = _release(spec, board)
    return sorted(name for name in released if board.is_due(name, spec.nodes[name].triggers))


def open_joins(spec: GraphSpec, board: Board) -> list[tuple[str, set[str], set[str]]]:
    """List edges that have waited in vain: some of their starts ran, others did not, and their node never did.

    Returns:
        For each, its node, the starts that ran and those it waits for.
    """
    found = []
    for name, channel in board.channels.items():
        if isinstance(channel, NamedBarrierValue) and channel.seen and channel.seen != channel.names:
            missing = set(channel.names) - set(channel.seen)
            found += [(n, set(channel.seen), missing) for n in spec.listeners.get(name, ()) if n not in board.seen]
    return found


def _release(spec: GraphSpec, board: Board) -> set[str]:
    """Finish the channels whose time has come; returns the nodes they start."""
    waiting = [name for name in spec.deferred if _waits(spec, board, name)]
    sent = {send.node for send in board.sends()}
    ready = [name for name in waiting if not _is_held(spec, name, waiting, sent)]
    channels = [trigger for name in ready for trigger in spec.nodes[name].triggers]
    if not waiting:
        channels += spec.finishing
    released: set[str] = set()
    for channel in dict.fromkeys(channels):
        if board.channels[channel].finish():
            board.clock += 1
            board.versions[channel] = board.clock
            released.update(spec.listeners.get(channel, ()))
    return released


def _waits(spec: GraphSpec, board: Board, node: str) -> bool:
    for trigger in spec.nodes[node].triggers:
        probe = board.channels[trigger].copy()
        if probe.finish() and probe.is_available():
            return True
    return False


def _is_held(spec: GraphSpec, node: str, waiting: Iterable[str], sent: Iterable[str]) -> bool:
    reach = spec.reach
    if any(node in reach[other] for other in sent):
        return True
    return any(node in reach[other] and other not in reach[node] for other in waiting if other != node)

"""What runs inside Ray: the one remote function of raygraph, and the relay for custom events.

One function is registered with Ray, ever; nodes travel as arguments, since each registered function stays in the
cluster's memory for the life of the job. Importing this module does not import Ray.
"""

from __future__ import annotations

import functools
import os
import pickle
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import raygraph.errors

if TYPE_CHECKING:
    from raygraph.execute.depot import Depot

#: Bytes of blobs a worker process keeps; the same figure as for local worker processes (see `child`).
_HELD: Final = 256 * 1024 * 1024
#: Seconds a request for custom events waits at the relay before it comes back empty. Any value does that keeps
#: an idle stream from being busy.
_PULL_SECONDS: Final = 10.0

#: Where the package lies: what a worker of the same machine needs to import it.
_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(raygraph.errors.__file__)))

#: Handle of the relay and the session's name there; None if nobody listens to custom events.
RelayAddress = tuple[Any, str] | None


@functools.cache
def remote_function() -> Any:
    """The remote function that runs a call."""
    import ray

    root = _ROOT

    # A nested function travels by value, so that it can put the package on the path before it imports it.
    def raygraph_call(packet: bytes, refs: Any, relay: Any) -> Any:
        import sys

        try:
            from raygraph.execute.ray_remote import execute
        except ImportError:
            sys.path.append(root)
            from raygraph.execute.ray_remote import execute
        return execute(packet, refs, relay)

    # Never retried by Ray: it would repeat the node's side effects without telling anyone.
    return ray.remote(max_retries=0)(raygraph_call)


def pack_packet(data: bytes, inline: Sequence[tuple[str, tuple[Any, ...]]]) -> bytes:
    """One byte string for a call and its small blobs; Ray passes those on as they are."""
    return pickle.dumps((data, inline), protocol=5)


def wrap_parts(parts: Sequence[Any]) -> Any:
    """Byte strings in a form that Ray stores without copying. The tuple keeps Ray from using msgpack."""
    return (tuple([pickle.PickleBuffer(part) for part in parts]),)


@functools.cache
def _depot() -> Depot:
    from raygraph.execute.depot import Depot

    return Depot(_HELD)


def execute(packet: bytes, refs: Sequence[tuple[str, Any]] | None, relay: RelayAddress) -> Any:
    """In the worker: run a call and return its encoded outcome."""
    data, inline = pickle.loads(packet)
    depot = _depot()
    for key, parts in inline:
        if not depot.has(key):
            depot.add(key, parts)
    for key, ref in refs or ():
        if not depot.has(key):
            import ray

            (parts,) = ray.get(ref)
            depot.add(key, [memoryview(part) for part in parts])
    outcome = depot.serve(data, _Push(relay))
    depot.trim()
    return outcome[0] if len(outcome) == 1 else wrap_parts(outcome)


class _Push:
    """Sends a task's custom events to the relay, numbered, since Ray does not promise their order."""

    def __init__(self, relay: RelayAddress) -> None:
        self._relay = relay
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, task_id: str, parts: Sequence[Any]) -> None:
        if self._relay is None:
            return
        handle, session = self._relay
        with self._lock:
            handle.push.remote(session, (task_id, self._count, [bytes(part) for part in parts]))
            self._count += 1


def start_relay() -> Any:
    """An actor that custom events pass through on their way to the driver. It needs no CPU."""
    import ray

    return ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(_Relay).remote()


class _Relay:
    """Mailboxes by session. All methods are coroutines, and so run one after the other in one loop."""

    def __init__(self) -> None:
        self._boxes: dict[str, list[Any]] = {}
        self._waiting: dict[str, Any] = {}

    async def open(self, session: str) -> None:
        self._boxes[session] = []

    async def push(self, session: str, event: Any) -> None:
        if session in self._boxes:
            self._boxes[session].append(event)
            self._wake(session)

    async def pull(self, session: str) -> Any:
        """The events that have come since the last time; None once the session is closed."""
        import asyncio

        if not self._boxes.get(session, True):
            event = self._waiting[session] = asyncio.Event()
            try:
                await asyncio.wait_for(event.wait(), _PULL_SECONDS)
            except asyncio.TimeoutError:
                pass
        if session not in self._boxes:
            return None
        events, self._boxes[session] = self._boxes[session], []
        return events

    async def close(self, session: str) -> None:
        self._boxes.pop(session, None)
        self._wake(session)

    def _wake(self, session: str) -> None:
        event = self._waiting.pop(session, None)
        if event is not None:
            event.set()

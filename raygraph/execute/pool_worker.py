"""The life of a local worker process: take a call, run it, send the outcome, until the driver has gone.

Started by `process_pool` as a fresh interpreter that never sees the user's script, so scripts need no main guard.
Calls run on the main thread, where signal handlers and `asyncio.run` work. A second thread does nothing but watch
for the driver's end, so that a busy worker doesn't outlive it.
"""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from raygraph.execute import wire

#: Exit status of a worker whose driver has gone (nobody is left to read it).
_ORPHANED: Final = 0
#: Seconds between looks at the parent's id. The socket tells at once, unless a fork of the driver holds it open.
_PARENT_CHECK: Final = 1.0

#: Set in local worker processes: a graph run inside a node stays in that node's process.
ENVIRONMENT_MARK: Final = "_RAYGRAPH_WORKER"


def main(descriptor: int, parent: int) -> None:
    """Serve the driver at the other end of the socket."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    _settle()
    threading.Thread(target=_watch, args=(descriptor, parent), name="raygraph-watch", daemon=True).start()
    from raygraph.execute.depot import Depot  # takes the time it takes to import the engine

    depot = Depot()
    sending = threading.Lock()  # a node's own threads may use the stream writer too

    def custom(task_id: str, parts: Sequence[Any]) -> None:
        with sending:
            wire.send(sock, wire.Kind.CUSTOM, parts)

    inbox = wire.Inbox(sock, wait=True)
    try:
        wire.send(sock, wire.Kind.HELLO, ())
        while True:
            for _, parts in inbox.receive():
                _store(depot, parts)
                outcome = depot.serve(parts[1], custom)
                _flush()
                with sending:
                    wire.send(sock, wire.Kind.OUTCOME, outcome)
    except (EOFError, OSError):
        _flush()
        os._exit(_ORPHANED)


def _settle() -> None:
    """Ctrl-C is the driver's to decide on; output appears line by line; crashes in C code leave a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    try:
        faulthandler.enable()
    except (OSError, ValueError, RuntimeError, AttributeError):  # no usable stderr
        pass


def _store(depot: Any, parts: list[memoryview]) -> None:
    """Take in the blobs that came with a call, and drop those the driver has counted out."""
    if not parts[0]:
        return
    drop, add = pickle.loads(parts[0])
    for key in drop:
        depot.drop(key)
    at = 2
    for key, count in add:
        depot.add(key, parts[at : at + count])
        at += count


def _watch(descriptor: int, parent: int) -> None:
    """Exit at once when the driver has gone, also in the middle of a node."""
    poll = select.poll()
    poll.register(descriptor, 0)  # hang-up is always reported; data is the main thread's business
    while os.getppid() == parent:
        if any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(_PARENT_CHECK * 1000)):
            break
    os._exit(_ORPHANED)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed or replaced by the node
            pass

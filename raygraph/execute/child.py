"""One local worker process as the driver sees it: how it starts, what it holds, how it is killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from raygraph.errors import ExecutorError
from raygraph.execute import wire
from raygraph.execute.cpus import THREAD_VARIABLES
from raygraph.execute.pool_worker import ENVIRONMENT_MARK
from raygraph.execute.shipping import Blob

if TYPE_CHECKING:
    from raygraph.execute.process_pool import Job

#: Bytes of blobs a worker keeps. A guess: the current state of most graphs fits several times over, and a machine
#: with 4 GiB per CPU gives up a sixteenth. What a single call needs is kept whatever its size.
_HELD: Final = 256 * 1024 * 1024
#: Seconds a process whose socket has closed may take to end by itself. The kernel closes sockets after it has freed
#: the memory, so it is nearly gone by then; only a node that closed descriptors at random is not.
_END: Final = 0.5

#: The interpreter starts here. The path arrives in a variable because `-c` must find raygraph where the driver did.
_BOOTSTRAP: Final = (
    "import json,os,sys;"
    "sys.path[:]=json.loads(os.environ.pop('_RAYGRAPH_PATH'));"
    "from raygraph.execute.pool_worker import main;"
    "main(int(sys.argv[2]),int(sys.argv[3]))"
)


class Child:
    """A worker process and the driver's end of its socket.

    Attributes:
        job: What it is running; None while idle.
        sent: The job has been handed over completely.
        ready: It has come up.
        doomed: It has been told to die, or must not be given anything any more.
        idle_since: When it became idle (monotonic clock).
    """

    def __init__(self) -> None:
        self.job: Job | None = None
        self.sent = False
        self.ready = False
        self.doomed = False
        self.idle_since = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        self._held: OrderedDict[str, int] = OrderedDict()
        self._held_size = 0
        self._stale: list[str] = []

    def start(self, threads: int) -> None:
        """Start the process, with numeric libraries limited to this many threads unless the user has said."""
        ours, theirs = socket.socketpair()
        self.sock = ours
        self.inbox = wire.Inbox(ours, wait=False)
        environ = dict.fromkeys(THREAD_VARIABLES, str(threads)) | os.environ
        environ |= {ENVIRONMENT_MARK: "1", "_RAYGRAPH_PATH": json.dumps(sys.path)}
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
        command = [sys.executable, *flags, "-c", _BOOTSTRAP, "raygraph-worker", str(theirs.fileno()), str(os.getpid())]
        # Ctrl-C reaches the whole process group. The worker inherits this mask and so never sees one, not even
        # before it has installed its own handling.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environ, pass_fds=[theirs.fileno()])
        except (OSError, TypeError, ValueError) as error:
            ours.close()
            raise ExecutorError(
                f"No worker process could be started with sys.executable = {sys.executable!r}: {error}. Use "
                "executor='threads' where Python cannot start itself."
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def send(self, data: bytes, blobs: Sequence[Blob]) -> None:
        """Hand over a call, with those of its blobs that the worker lacks.

        Raises:
            OSError: The worker has gone.
        """
        new = [blob for blob in blobs if blob.key not in self._held]
        drop, self._stale = self._stale, []
        for blob in blobs:
            if blob.key in self._held:
                self._held.move_to_end(blob.key)
            else:
                self._held[blob.key] = blob.size
                self._held_size += blob.size
        in_use = {blob.key for blob in blobs}
        while self._held_size > _HELD and (oldest := next(iter(self._held))) not in in_use:
            self._held_size -= self._held.pop(oldest)
            drop.append(oldest)
        about = b""
        if new or drop:
            about = pickle.dumps((drop, [(blob.key, len(blob.parts)) for blob in new]), protocol=5)
        wire.send(self.sock, wire.Kind.CALL, [about, data, *(part for blob in new for part in blob.parts)])

    def forget(self, keys: Sequence[str]) -> None:
        """Have these blobs dropped with the next call. Only for keys no call will name again."""
        for key in keys:
            if key in self._held:
                self._held_size -= self._held.pop(key)
                self._stale.append(key)

    def hang_up(self) -> None:
        """Close the conversation: an idle worker exits, and the reader sees the end of the stream."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def kill(self) -> None:
        """Kill the process and everything it started."""
        if self.process is not None and self.process.poll() is None:
            kill_tree(self.process.pid)

    def wait(self) -> int | None:
        """Wait for the end of a process whose socket has closed, and return its exit status."""
        if self.process is None:
            return None
        try:
            return self.process.wait(_END)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait()

    def abandon(self) -> None:
        """In a forked child of the driver: close the copy of the socket and never wait for the process."""
        if self.process is not None:
            self.process.returncode = 0
            self.sock.close()


def kill_tree(pid: int) -> None:
    """SIGKILL a process and its descendants."""
    import psutil

    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return
    for member in family:
        try:
            member.kill()
        except psutil.Error:
            pass

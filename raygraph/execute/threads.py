"""The `threads` executor: nodes run in daemon threads of the driver's process.

For light and I/O-bound nodes, and for nodes that need an object that cannot travel. Threads share one
interpreter lock, so CPU-heavy nodes gain nothing here, and a thread cannot be stopped: a cancelled node runs to
its end, unheard.
"""

from __future__ import annotations

import queue
import threading
from typing import Final

from raygraph.execute.cpus import available_cpus
from raygraph.execute.protocol import Post
from raygraph.execute.worker import run_call
from raygraph.state.records import Call, Custom, NodeOptions, RunContext

#: I/O-bound nodes mostly wait, so more threads than CPUs; 32 is the cap concurrent.futures chose.
_DEFAULT_THREADS: Final = 32
#: A thread without work for this long ends (seconds).
_IDLE_SECONDS: Final = 10.0

_Job = tuple["ThreadSession", Call]


class ThreadExecutor:
    """Runs nodes in threads, started as needed and shared by all runs. Resource requests are not looked at.

    Args:
        max_workers: The most threads at once; default 32 or the number of CPUs, whichever is larger.
    """

    name = "threads"
    in_driver = True

    def __init__(self, max_workers: int | None = None) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers must be at least 1; got {max_workers!r}.")
        self.max_workers = max_workers or max(_DEFAULT_THREADS, available_cpus())
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0

    def check(self, node: str, options: NodeOptions) -> None:
        """Everything can run here."""

    def open(self, run: RunContext, post: Post) -> ThreadSession:
        """Begin a session."""
        return ThreadSession(self, run, post)

    def shutdown(self) -> None:
        """Idle threads end by themselves, and as daemons they never hold up the interpreter's exit."""

    def start(self, session: ThreadSession, call: Call) -> None:
        """Hand a job to an idle thread, or start one."""
        with self._lock:
            self._jobs.put((session, call))
            if self._idle >= self._jobs.qsize() or self._threads >= self.max_workers:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="raygraph-node", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                session, call = self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    self._idle -= 1
                    if self._jobs.empty():
                        self._threads -= 1
                        return
                continue
            with self._lock:
                self._idle -= 1
            session.run(call)
            del session, call  # a waiting thread must not keep the last run's state alive


class ThreadSession:
    """One run's calls on the shared threads."""

    def __init__(self, executor: ThreadExecutor, run: RunContext, post: Post) -> None:
        self.window = executor.max_workers
        self._executor = executor
        self._run = run
        self._post = post
        self._cancelled: set[str] = set()
        self._closed = False

    def submit(self, call: Call) -> None:
        """Start the call in a thread."""
        self._executor.start(self, call)

    def run(self, call: Call) -> None:
        """In a thread: run the call unless it was cancelled while it waited, and post what came of it."""
        task_id = call.task.id
        if self._closed or task_id in self._cancelled:
            return
        post = self._post
        custom = (lambda payload: post(Custom(task_id, payload))) if self._run.custom else None
        post(run_call(call, self._run, custom, in_driver=True))

    def park(self, timeout: float) -> bool:
        """The driver may block on its own queue."""
        return False

    def cancel(self, task_id: str) -> None:
        """Keep the call from starting; if it runs already, it runs to its end."""
        self._cancelled.add(task_id)

    def close(self) -> None:
        """Keep waiting calls from starting. Running ones end by themselves; nobody hears their outcome."""
        self._closed = True

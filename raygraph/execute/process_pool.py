"""A pool of local worker processes shared by all sessions: one queue in, outcomes out.

A call goes to a worker straight from `submit` if there is room, otherwise when a running one ends. The queue is
first in, first out, heavy calls included: whoever stands at its head gets the next CPUs, so nobody starves. One
reader thread per pool takes what the workers send. Locks are held for bookkeeping only, never while something is
pickled, sent, or started.

Roads not taken: `concurrent.futures.ProcessPoolExecutor` and loky (one crash fails every pending call; no way to
stop one task), `multiprocessing` start methods (they import the user's script again), a pipelined second call in
each worker (saves a round trip of about 0.15 ms, but a killed worker would take a bystander with it).
"""

from __future__ import annotations

import atexit
import os
import selectors
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from raygraph.errors import ExecutorError, NodeCrashed, RaygraphError, ShippingError
from raygraph.execute.child import Child
from raygraph.execute.cpus import available_cpus
from raygraph.execute.shipping import Blob, decode_custom, decode_outcome
from raygraph.execute.usage import host
from raygraph.execute.wire import Kind
from raygraph.state.records import Custom, Outcome, Task

#: Processes per CPU for nodes that ask for less than one. A guess: enough for num_cpus=0.25; a process of its own
#: costs tens of megabytes, and what mostly waits is better off with executor='threads'.
_PER_CPU: Final = 4
#: Seconds a worker beyond one per CPU stays without work. Ray's limit is 1 s; starting one takes about 0.2 s.
_SPARE_SECONDS: Final = 10.0
#: Seconds idle workers get to exit at shutdown before they are killed.
_EXIT_SECONDS: Final = 1.0
#: How often a call is handed to another worker when the first one had died before it took it.
_HANDOVERS: Final = 3
#: Room for the sum of fractions such as 0.1.
_EPSILON: Final = 1e-9


@dataclass(eq=False, slots=True)
class Job:
    """A call in the pool. `post` takes its customs and its outcome, unless it was cancelled."""

    task: Task
    weight: float
    data: bytes
    blobs: Sequence[Blob]
    post: Callable[[Job, Outcome | Custom], None]
    child: Child | None = None
    handovers: int = 0
    cancelled: bool = False
    unreadable: RaygraphError | None = None


@dataclass
class Pool:
    """Worker processes for `size` CPUs, started as calls need them. Thread-safe."""

    size: int
    pid: int = field(default_factory=os.getpid)
    _lock: Any = field(default_factory=threading.Lock)
    _queue: deque[Job] = field(default_factory=deque)
    _children: set[Child] = field(default_factory=set)
    _idle: list[Child] = field(default_factory=list)
    _load: float = 0.0
    _reader: threading.Thread | None = None
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wakeup = os.pipe()
        self._selector.register(self._wakeup[0], selectors.EVENT_READ)
        self._threads = max(1, available_cpus() // self.size)

    @property
    def most(self) -> int:
        """The most processes at once."""
        return self.size * _PER_CPU

    def submit(self, job: Job) -> None:
        """Queue a job and start whatever can start."""
        with self._lock:
            if self._stopped:
                raise ExecutorError("The executor was shut down while this run was going on.")
            self._queue.append(job)
            pairs = self._match()
        self._begin(pairs)

    def cancel(self, job: Job) -> Child | None:
        """Drop a queued job, or kill the worker that runs it. Returns that worker, whose end can be waited for."""
        pairs: list[tuple[Child, Job]] = []
        with self._lock:
            job.cancelled = True
            child = job.child if job.child is not None and job.child.job is job else None
            if child is not None:
                child.doomed = True
            elif job in self._queue:
                self._queue.remove(job)
                pairs = self._match()  # it may have been too heavy for the ones behind it
        self._begin(pairs)
        if child is not None:
            child.kill()
        return child

    def forget(self, keys: Sequence[str]) -> None:
        """Let workers drop blobs that no call will name again."""
        with self._lock:
            for child in self._children:
                child.forget(keys)

    def warm(self) -> None:
        """Start a first worker, if there is none, so that it comes up while the first step is planned."""
        with self._lock:
            if self._children:
                return
            child = Child()
            self._children.add(child)
        try:
            self._start(child)
        except ExecutorError:  # whoever submits a call will be told
            with self._lock:
                self._children.discard(child)
            return
        self._now_idle(child)

    def stop(self) -> None:
        """End all workers; calls still there are killed without an outcome."""
        with self._lock:
            self._stopped = True
            children = list(self._children)
            self._queue.clear()
            for child in children:
                child.doomed = True
                if child.job is not None:
                    child.job.cancelled = True
            if self._reader is None:
                self.abandon()
            else:
                os.write(self._wakeup[1], b"x")
        for child in children:
            if child.job is not None:
                child.kill()
            if child.process is not None:
                child.hang_up()
        deadline = time.monotonic() + _EXIT_SECONDS
        for child in children:
            while child.process is not None and child.process.poll() is None:
                if time.monotonic() > deadline:
                    child.kill()
                time.sleep(0.002)

    def abandon(self) -> None:
        """Forget the workers: this is a forked child of the process they belong to."""
        for child in self._children:
            child.abandon()
        self._selector.close()
        for descriptor in self._wakeup:
            os.close(descriptor)

    def _match(self) -> list[tuple[Child, Job]]:
        """Pair queued jobs with workers, in order, as far as CPUs and processes go. The lock is held."""
        pairs = []
        while self._queue:
            job = self._queue[0]
            if self._load + job.weight > self.size + _EPSILON:
                break
            if self._idle:
                child = self._idle.pop()
            elif len(self._children) < self.most:
                child = Child()
                self._children.add(child)
            else:
                break
            self._queue.popleft()
            self._load += job.weight
            child.job, child.sent, job.child = job, False, child
            pairs.append((child, job))
        return pairs

    def _begin(self, pairs: Sequence[tuple[Child, Job]]) -> None:
        for child, job in pairs:
            try:
                if child.process is None:
                    self._start(child)
                if not child.doomed:
                    child.send(job.data, job.blobs)
                    child.sent = True
            except ExecutorError as error:
                self._never_started(child, job, error)
            except OSError:
                child.hang_up()  # the reader sees the end of the stream and does the rest
            if child.doomed:  # cancelled meanwhile
                child.kill()

    def _start(self, child: Child) -> None:
        child.start(self._threads)
        self._selector.register(child.sock, selectors.EVENT_READ, child)
        with self._lock:
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="raygraph-pool", daemon=True)
                self._reader.start()

    def _never_started(self, child: Child, job: Job, error: RaygraphError) -> None:
        with self._lock:
            self._children.discard(child)
            self._load -= job.weight
            pairs = self._match()
        self._post_error(job, error)
        self._begin(pairs)

    def _read(self) -> None:
        """The reader thread: what workers send, until the pool is stopped and they have gone."""
        while not self._stopped or self._children:
            spare = len(self._children) > self.size
            for key, _ in self._selector.select(1.0 if spare else None):
                child = key.data
                if child is None:
                    self._selector.unregister(self._wakeup[0])
                    continue
                try:
                    messages = child.inbox.receive()
                except EOFError:
                    self._ended(child)
                    continue
                for kind, parts in messages:
                    self._take(child, kind, parts)
            if spare:
                self._retire()
        self.abandon()

    def _take(self, child: Child, kind: int, parts: list[memoryview]) -> None:
        if kind == Kind.HELLO:
            child.ready = True
            return
        job = child.job
        if job is None:
            return
        if kind == Kind.OUTCOME:
            self._now_idle(child, job)  # the next call first: decoding can take a while
        if job.cancelled:
            return
        try:
            if kind == Kind.CUSTOM:
                job.post(job, Custom(job.task.id, decode_custom(parts)))
            else:
                outcome = decode_outcome(parts, job.task.node)
                if job.unreadable is not None and outcome.error is None:
                    outcome = replace(outcome, error=job.unreadable)
                job.post(job, outcome)
        except Exception as error:  # a class that only the worker has
            job.unreadable = ShippingError(
                f"What node {job.task.node!r} sent cannot be read in the driver: {error}", node=job.task.node
            )
            if kind == Kind.OUTCOME:
                self._post_error(job, job.unreadable)

    def _now_idle(self, child: Child, job: Job | None = None) -> None:
        with self._lock:
            if job is not None:
                self._load -= job.weight
                child.job = None
            if not child.doomed:
                child.idle_since = time.monotonic()
                self._idle.append(child)
            pairs = self._match()
        self._begin(pairs)

    def _retire(self) -> None:
        """Let go of workers beyond one per CPU that have had nothing to do for a while."""
        with self._lock:
            now = time.monotonic()
            many = len(self._children) - self.size
            old = [child for child in self._idle if now - child.idle_since > _SPARE_SECONDS][: max(0, many)]
            for child in old:
                self._idle.remove(child)
                child.doomed = True
        for child in old:
            child.hang_up()

    def _ended(self, child: Child) -> None:
        """A worker's stream has ended: it was killed, it crashed, or it was let go."""
        self._selector.unregister(child.sock)
        child.doomed = True
        status = child.wait()
        child.sock.close()
        with self._lock:
            self._children.discard(child)
            if child in self._idle:
                self._idle.remove(child)
            job, child.job = child.job, None
            if job is not None:
                self._load -= job.weight
                if not child.sent and not job.cancelled and job.handovers < _HANDOVERS:
                    # It died idle, before it took the call.
                    job.handovers += 1
                    job.child = None
                    self._queue.appendleft(job)
                    job = None
            pairs = self._match()
        self._begin(pairs)
        if job is not None and not job.cancelled:
            self._post_error(job, _crash(job.task, status) if child.ready else _stillborn(status))

    def _post_error(self, job: Job, error: RaygraphError) -> None:
        job.post(job, Outcome(job.task.id, job.task.attempt, error=error))


def _crash(task: Task, status: int | None) -> NodeCrashed:
    hint = ""
    if status == -signal.SIGKILL:
        hint = " SIGKILL often comes from the kernel when memory has run out."
    elif status in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT):
        hint = " The worker's traceback is on stderr."
    return NodeCrashed(
        f"Node {task.node!r} (step {task.step}, task {task.id}, attempt {task.attempt}) took its worker process on "
        f"{host()} down with it: {_status_text(status)}.{hint}",
        attempt=task.attempt,
        exit_code=status,
        host=host(),
        node=task.node,
        step=task.step,
        task=task.id,
    )


def _stillborn(status: int | None) -> ExecutorError:
    return ExecutorError(
        f"A worker process ended before it was ready: {_status_text(status)}. Its stderr says why; a `sitecustomize` "
        "or an environment variable of Python's that stops the interpreter is the usual cause."
    )


def _status_text(status: int | None) -> str:
    if status is None:
        return "exit status unknown"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


_pools: dict[int, Pool] = {}
_pools_lock = threading.Lock()
#: Pools of the process this one was forked from, kept so that nothing of theirs is finalised here.
_abandoned: list[Pool] = []


def shared_pool(size: int) -> Pool:
    """The pool of this size in this process."""
    with _pools_lock:
        if size not in _pools:
            _pools[size] = Pool(size)
        return _pools[size]


def stop_pool(size: int) -> None:
    """Stop the pool of this size; the next use starts a new one."""
    with _pools_lock:
        pool = _pools.pop(size, None)
    if pool is not None:
        pool.stop()


def _stop_all() -> None:
    for size in list(_pools):
        stop_pool(size)


def _forked() -> None:
    global _pools, _pools_lock
    _abandoned.extend(_pools.values())
    for pool in _pools.values():
        pool.abandon()
    _pools, _pools_lock = {}, threading.Lock()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forked)

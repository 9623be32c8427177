"""The `processes` executor: nodes run in local worker processes, in true parallel and isolated from crashes."""

from __future__ import annotations

import os

from raygraph.errors import ExecutorError, InfeasibleError, NotSupportedError
from raygraph.execute.cpus import available_cpus
from raygraph.execute.process_pool import Job, Pool, shared_pool, stop_pool
from raygraph.execute.protocol import Post
from raygraph.execute.shipping import Shipper
from raygraph.state.records import Call, Custom, NodeOptions, Outcome, RunContext


class ProcessExecutor:
    """Runs nodes in worker processes of this machine, one per CPU, kept across runs.

    Executors of the same size share their workers. A node's `num_cpus` counts against the size; `num_gpus`,
    `memory`, `resources` and `label_selector` describe machines of a cluster and are not looked at.

    Args:
        max_workers: CPUs to use; default all this process may use.
    """

    name = "processes"
    in_driver = False

    def __init__(self, max_workers: int | None = None) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers must be at least 1; got {max_workers!r}.")
        self._asked = max_workers
        self._used: set[int] = set()

    @property
    def max_workers(self) -> int:
        """CPUs this executor uses."""
        return self._asked or available_cpus()

    def check(self, node: str, options: NodeOptions) -> None:
        """Raise if the node asks for more CPUs than there are, or for an environment of its own."""
        if options.num_cpus > self.max_workers:
            raise InfeasibleError(
                f"Node {node!r} asks for num_cpus={options.num_cpus:g}, but executor 'processes' has "
                f"{self.max_workers}. Lower num_cpus, or use executor='ray' with a cluster that has a larger machine.",
                node=node,
            )
        if options.runtime_env:
            raise NotSupportedError(
                f"Node {node!r} asks for a runtime_env, which only Ray can build. Use executor='ray', or leave it out.",
                node=node,
            )

    def open(self, run: RunContext, post: Post) -> ProcessSession:
        """Begin a session and start a first worker if there is none."""
        pool = shared_pool(self.max_workers)
        self._used.add(self.max_workers)
        pool.warm()
        return ProcessSession(pool, run, post)

    def shutdown(self) -> None:
        """Stop the workers; calls of any executor of the same size that still run are lost."""
        while self._used:
            stop_pool(self._used.pop())


class ProcessSession:
    """One run's use of the pool."""

    def __init__(self, pool: Pool, run: RunContext, post: Post) -> None:
        # Every process busy, and one call for each CPU queued behind them: the next one starts without waiting
        # for the driver's thread.
        self.window = pool.most + pool.size
        self._pool = pool
        self._post = post
        self._shipper = Shipper(run, surroundings=True)
        self._jobs: dict[str, Job] = {}

    def submit(self, call: Call) -> None:
        """Start a call, or queue it."""
        if self._pool.pid != os.getpid():
            raise ExecutorError("This process was forked in the middle of a run; the run goes on in its parent.")
        data, blobs = self._shipper.encode(call)
        job = Job(call.task, call.options.num_cpus, data, blobs, self._arrived)
        self._jobs[call.task.id] = job
        self._pool.submit(job)

    def park(self, timeout: float) -> bool:
        """The driver may block on its own queue."""
        return False

    def cancel(self, task_id: str) -> None:
        """Drop a queued call, or kill the one worker that runs it."""
        job = self._jobs.pop(task_id, None)
        if job is not None:
            self._pool.cancel(job)

    def close(self) -> None:
        """Stop all calls and wait for the end of the processes that ran them."""
        ended = [self._pool.cancel(job) for job in list(self._jobs.values())]
        self._jobs.clear()
        for child in ended:
            if child is not None:
                child.wait()
        self._pool.forget(self._shipper.keys)

    def _arrived(self, job: Job, what: Outcome | Custom) -> None:
        """In the pool's reader thread."""
        if isinstance(what, Outcome):
            self._jobs.pop(job.task.id, None)
        self._post(what)

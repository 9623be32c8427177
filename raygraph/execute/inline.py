"""The `inline` executor: each node runs in the driver's own thread, one after the other.

For debugging (`breakpoint()` works) and for graphs whose nodes are tiny. Snapshots, packing and the fold order
are those of every other executor, and so are the results.
"""

from __future__ import annotations

from raygraph.execute.protocol import Post
from raygraph.execute.worker import run_call
from raygraph.state.records import Call, Custom, NodeOptions, RunContext


class InlineExecutor:
    """Runs nodes in the thread that drives the graph. Resource requests are not looked at."""

    name = "inline"
    in_driver = True

    def check(self, node: str, options: NodeOptions) -> None:
        """Everything can run here."""

    def open(self, run: RunContext, post: Post) -> InlineSession:
        """Begin a session."""
        return InlineSession(run, post)

    def shutdown(self) -> None:
        """Nothing was started."""


class InlineSession:
    """Runs each call when it is submitted."""

    window = 1

    def __init__(self, run: RunContext, post: Post) -> None:
        self._run = run
        self._post = post

    def submit(self, call: Call) -> None:
        """Run the call, and post what came of it."""
        post = self._post
        task_id = call.task.id
        custom = (lambda payload: post(Custom(task_id, payload))) if self._run.custom else None
        post(run_call(call, self._run, custom, in_driver=True))

    def park(self, timeout: float) -> bool:
        """Nothing is ever pending here."""
        return False

    def cancel(self, task_id: str) -> None:
        """A call has ended when `submit` returns."""

    def close(self) -> None:
        """Nothing is left to stop."""

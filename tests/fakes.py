"""An executor whose calls end in any order a test asks for, without a thread and without waiting.

It keeps every call that is submitted. When the driver has nothing else to do it parks; then one of the calls that
are ready is drawn, run right there, and its outcome posted. A test says by which `Random`, and which nodes to hold
back until nothing else is left. Nothing is ever dropped: what was submitted and not cancelled ends.
"""

from collections.abc import Callable, Collection
from random import Random
from typing import Any

from raygraph.execute.worker import run_call
from raygraph.state.records import Call, Custom, NodeOptions, Outcome, RunContext

Post = Callable[[Outcome | Custom], None]


class ShuffledExecutor:
    """Ends calls in an order drawn from `random`.

    Args:
        random: Decides what ends next.
        window: Calls in flight at once. With 1 the driver's own order is kept: only a larger window shuffles.
        eager: How often, of 1, a call ends while it is being submitted, as one does on a fast worker.
        burst: How many calls may end between two looks of the driver at its queue.
        hold: Nodes whose calls end only when no others are left.

    Attributes:
        order: The nodes in the order in which their calls ended, over all runs.
    """

    name = "shuffled"
    in_driver = True

    def __init__(
        self,
        random: Random,
        *,
        window: int = 1000,
        eager: float = 0.0,
        burst: int = 1,
        hold: Collection[str] = (),
    ) -> None:
        self.random = random
        self.window = window
        self.eager = eager
        self.burst = burst
        self.hold = frozenset(hold)
        self.order: list[str] = []

    def check(self, node: str, options: NodeOptions) -> None:
        """Everything can run here."""

    def open(self, run: RunContext, post: Post) -> "ShuffledSession":
        return ShuffledSession(self, run, post)

    def shutdown(self) -> None:
        """Nothing was started."""


class ShuffledSession:
    """One run's calls that have not ended."""

    def __init__(self, executor: ShuffledExecutor, run: RunContext, post: Post) -> None:
        self.window = executor.window
        self._executor = executor
        self._run = run
        self._post = post
        self._open: list[Call] = []

    def submit(self, call: Call) -> None:
        self._open.append(call)
        if self._executor.random.random() < self._executor.eager:
            self._end_one()

    def park(self, timeout: float) -> bool:
        """The driver waits: now something ends."""
        if not self._open:
            return False
        for _ in range(self._executor.random.randint(1, self._executor.burst)):
            self._end_one()
        return True

    def cancel(self, task_id: str) -> None:
        self._open = [call for call in self._open if call.task.id != task_id]

    def close(self) -> None:
        self._open = []

    def _end_one(self) -> None:
        ready = [call for call in self._open if call.task.node not in self._executor.hold] or self._open
        if not ready:
            return
        call = self._executor.random.choice(ready)
        self._open.remove(call)
        self._executor.order.append(call.task.node)
        custom: Any = (lambda payload: self._post(Custom(call.task.id, payload))) if self._run.custom else None
        self._post(run_call(call, self._run, custom, in_driver=True))

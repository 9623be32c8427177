"""What an executor is: it takes calls, runs each in some place, and posts one outcome for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from raygraph.state.records import Call, Custom, NodeOptions, Outcome, RunContext

#: Takes what happened. Thread-safe and never blocks.
Post = Callable[[Outcome | Custom], None]


class Session(Protocol):
    """One run's use of an executor. Used from one thread; posts from any."""

    #: How many calls it is worth having in flight. 1: `submit` itself runs the call (and posts before it returns).
    window: int

    def submit(self, call: Call) -> None:
        """Start a call. Exactly one `Outcome` with the call's task id and attempt is posted, failures included,
        after the `Custom`s of the task. Raises only for what is wrong with the call itself (`ShippingError`)."""

    def park(self, timeout: float) -> bool:
        """Wait for something to happen in a way the scheduler can see, at most `timeout` seconds.

        Returns False at once where the driver may simply block on its own queue, which is nearly everywhere.
        Only a driver that itself runs inside a Ray task must wait with Ray's own calls, since those alone give
        its CPU to the tasks it waits for.
        """

    def cancel(self, task_id: str) -> None:
        """Stop a call, started or not. Whatever it would still post is of no interest to the caller."""

    def close(self) -> None:
        """Stop every call of this session that has not ended, and return when none can run any more.

        (A thread cannot be stopped: there, the call is left to end by itself and its outcome is dropped.)
        """


class Executor(Protocol):
    """A place to run nodes, shared by any number of runs at once."""

    #: As users write it: "ray", "processes", "threads", "inline".
    name: str
    #: Nodes run in the driver's process: code and by-reference values need not travel.
    in_driver: bool

    def check(self, node: str, options: NodeOptions) -> None:
        """Raise `InfeasibleError` if this executor can never give the node what it asks for."""

    def open(self, run: RunContext, post: Post) -> Session:
        """Begin a session, starting whatever has to run (processes, Ray) the first time."""

    def shutdown(self) -> None:
        """Stop what this executor started, and only that. It may be used again afterwards."""

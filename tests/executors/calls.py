"""Calls made by hand, for testing executors without a graph around them."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable, Mapping
from typing import Any

from raygraph.build.specs import InputSpec, Program
from raygraph.execute.protocol import Executor
from raygraph.state.records import Call, Custom, NodeOptions, Outcome, RunContext, Task
from raygraph.state.snapshot import pack, unpack

_ids = itertools.count()


def program(fn: Callable[..., Any], node: str = "node", key: str = "x") -> Program:
    return Program(node, fn, InputSpec((key,)), frozenset({key}))


def make_call(what: Program | Callable[..., Any], value: Any = 0, *, attempt: int = 1) -> Call:
    made = what if isinstance(what, Program) else program(what)
    task = Task(f"task-{next(_ids)}", made.node, 1, ("pull", made.node), (), 7, attempt)
    return Call(task, made, {key: pack(value) for key in made.input.keys})


class Runner:
    """A session and its queue, as a driver has them."""

    def __init__(self, executor: Executor, *, custom: bool = False, config: Mapping[str, Any] | None = None) -> None:
        self.inbox: queue.SimpleQueue[Outcome | Custom] = queue.SimpleQueue()
        self.session = executor.open(RunContext("run", "graph", config or {}, custom=custom), self.inbox.put)

    def submit(self, what: Any, value: Any = 0) -> Call:
        call = what if isinstance(what, Call) else make_call(what, value)
        self.session.submit(call)
        return call

    def take(self, seconds: float = 60) -> Any:
        """The next thing posted."""
        deadline = time.monotonic() + seconds
        while self.session.park(0.5) and time.monotonic() < deadline:
            if not self.inbox.empty():
                break
        return self.inbox.get(timeout=max(0.01, deadline - time.monotonic()))

    def outcome(self, what: Any, value: Any = 0) -> Outcome:
        self.submit(what, value)
        return self.take()

    def result(self, what: Any, value: Any = 0) -> Any:
        """The value the node returned for its key."""
        return result_of(self.outcome(what, value))

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()


def result_of(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return unpack(outcome.writes[0][1])


def options(**values: Any) -> NodeOptions:
    return NodeOptions(**values)

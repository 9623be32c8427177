"""The one shell around `Run`: it carries the instructions out with executors, and blocks while they work.

    feed an event -> obey: submit calls, spawn subgraphs, collect what is to be shown
    dispatch what fits into the windows -> wait for the next outcomes -> feed them

A subgraph is another `Run` in the same loop, so that no worker ever waits for another one. All decisions are in
`run.py`; what is here is bookkeeping: which session a call went to, how many may be in flight, whom an outcome
belongs to.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from raygraph.errors import ExecutorError, ParentCommand
from raygraph.execute.protocol import Executor, Session
from raygraph.execute.worker import warn_mutated
from raygraph.plan.instructions import (
    Begin,
    Emit,
    Event,
    Fail,
    Finish,
    Instruction,
    Mutated,
    Spawn,
    SubgraphDone,
    Submit,
)
from raygraph.run import Run, Settings
from raygraph.state.records import Call, Custom, Outcome, RunContext, Task
from raygraph.state.types import Command
from raygraph.stream.report import Report

#: Seconds between two looks at the queue while the driver waits inside a Ray task (see `Session.park`).
_PARK_SECONDS: Final = 1.0

#: What a stream yields: namespace, mode, payload.
Part = tuple[tuple[str, ...], str, Any]


class Stop:
    """Posted from outside to make a drive end (`ainvoke` cancelled, stream closed)."""


class Cancelled(BaseException):
    """How a drive that was told to stop ends."""


@dataclass(frozen=True)
class Plan:
    """Everything a drive needs to know.

    Attributes:
        run: The outermost run, not begun.
        default: The executor of nodes that have none of their own.
        resolve: Turns a node's `executor=` into one.
        local: What tasks in the driver's process are told.
        remote: The same without what cannot leave the driver.
        max_concurrency: The most tasks in flight at once; None for no limit but the executors'.
        subgraphs: Show what happens in subgraphs too.
    """

    run: Run
    default: Executor
    resolve: Callable[[Any], Executor]
    local: RunContext
    remote: RunContext
    max_concurrency: int | None = None
    subgraphs: bool = False


@dataclass(slots=True)
class _Lane:
    """Calls that wait for one session, and for one node's own limit if it has one."""

    session: Session
    limit: int | None
    waiting: deque[Call] = field(default_factory=deque)
    running: int = 0


@dataclass(slots=True)
class _Owner:
    """To whom the outcome of a task belongs, and where its call is."""

    run: Run
    namespace: tuple[str, ...]
    lane: _Lane | None = None


@dataclass(slots=True)
class _Nested:
    """A subgraph's run: whom to tell when it ends."""

    parent: Run
    task: Task
    delta: bool


class Drive:
    """Drives one run to its end. Iterate over `parts()` once, to its end, then ask for the `result()`.

    Args:
        plan: See `Plan`.
        report: Filled while the run goes on.
    """

    def __init__(self, plan: Plan, report: Report) -> None:
        self.plan = plan
        self.report = report
        self._output: Any = None
        self._inbox: queue.SimpleQueue[Outcome | Custom | Stop] = queue.SimpleQueue()
        self._sessions: dict[int, Session] = {}
        self._lanes: dict[tuple[int, str | None], _Lane] = {}
        self._owners: dict[str, _Owner] = {}
        self._namespaces: dict[Run, tuple[str, ...]] = {plan.run: ()}
        self._nested: dict[Run, _Nested] = {}
        self._shown: list[Part] = []
        self._failing: BaseException | None = None
        self._in_flight = 0
        self._delayed: list[tuple[float, int, Run, Submit | Spawn]] = []
        self._count = itertools.count()

    def stop(self) -> None:
        """Make the drive end at its next step, from any thread."""
        self._inbox.put(Stop())

    def parts(self, given: Any) -> Generator[Part, None, None]:
        """Run on the input `given`, yielding what is to be streamed as it comes."""
        root = self.plan.run
        try:
            self._feed(root, Begin(given))
            while True:
                if self._shown:
                    shown, self._shown = self._shown, []
                    yield from shown
                if self._failing is not None:
                    self._collect_failures()
                    return
                if root.ended:
                    self.report.output = self._output
                    return
                self._dispatch()
                for posted in self._receive():
                    self._on_posted(posted)
        finally:
            for session in self._sessions.values():
                session.close()
            self.report.close()

    def result(self) -> Any:
        """What the run came to, once `parts()` has ended: its output, or the exception it failed with, raised.

        (Not raised by `parts()` itself: a generator cannot raise every kind of exception.)
        """
        if self._failing is not None:
            raise self._failing
        return self._output

    # -- obeying -------------------------------------------------------------------------------------------

    def _feed(self, run: Run, event: Event) -> None:
        for instruction in run.feed(event):
            self._obey(run, instruction)

    def _obey(self, run: Run, instruction: Instruction) -> None:
        if isinstance(instruction, (Submit, Spawn)) and instruction.delay > 0:
            due = time.monotonic() + instruction.delay
            heapq.heappush(self._delayed, (due, next(self._count), run, replace(instruction, delay=0.0)))
        elif isinstance(instruction, Submit):
            self._enqueue(run, instruction)
        elif isinstance(instruction, Emit):
            self._shown.append((self._namespaces[run], instruction.mode, instruction.payload))
        elif isinstance(instruction, Spawn):
            self._spawn(run, instruction)
        elif isinstance(instruction, Mutated):
            warn_mutated(instruction.node, instruction.keys)
        elif isinstance(instruction, Finish):
            self._finished(run, instruction.output)
        else:
            self._failed(run, instruction)

    def _enqueue(self, run: Run, submit: Submit) -> None:
        options = submit.node.options
        executor = self.plan.default if options.executor is None else self.plan.resolve(options.executor)
        limit = options.max_concurrency
        key = (
            id(executor),
            None if limit is None else f"{'/'.join(self._namespaces[run])}:{submit.node.name}",
        )
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(self._session(executor), limit)
        lane.waiting.append(submit.call)
        self._owners[submit.call.task.id] = _Owner(run, self._namespaces[run], lane)

    def _session(self, executor: Executor) -> Session:
        session = self._sessions.get(id(executor))
        if session is None:
            context = self.plan.local if executor.in_driver else self.plan.remote
            session = self._sessions[id(executor)] = executor.open(context, self._inbox.put)
        return session

    def _spawn(self, run: Run, spawn: Spawn) -> None:
        spec = spawn.node.subgraph
        assert spec is not None
        modes = run.settings.modes if self.plan.subgraphs else frozenset()
        settings: Settings = replace(
            run.settings,
            run_id=_attempt_id(run.settings.run_id, spawn.task.attempt),
            prefix=spawn.prefix,
            path=spawn.task.path,
            outputs=None,
            modes=modes,
        )
        child = Run(spec, settings)
        self._namespaces[child] = (*self._namespaces[run], f"{spawn.node.name}:{spawn.task.id}")
        self._nested[child] = _Nested(run, spawn.task, spawn.node.delta)
        self._feed(child, Begin(spawn.input))

    def _finished(self, run: Run, output: Any) -> None:
        nested = self._nested.pop(run, None)
        if nested is None:
            self._output = output
            return
        returned = run.contribution() if nested.delta else output
        del self._namespaces[run]
        self._feed(nested.parent, SubgraphDone(nested.task.id, returned))

    def _failed(self, run: Run, fail: Fail) -> None:
        nested = self._nested.pop(run, None)
        if nested is None:
            self._failing = self._failing or fail.error
            return
        self._cancel(run)
        if isinstance(fail.error, ParentCommand):
            command: Command[Any] = fail.error.args[0]
            self._feed(nested.parent, SubgraphDone(nested.task.id, replace(command, graph=None)))
            return
        self._feed(nested.parent, Outcome(nested.task.id, nested.task.attempt, error=fail.error))

    def _cancel(self, run: Run) -> None:
        """Stop what a subgraph that left early still has running."""
        for task_id, owner in self._owners.items():
            if owner.run is run and owner.lane is not None:
                owner.lane.session.cancel(task_id)

    # -- dispatching and waiting ---------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Submit waiting calls as far as the windows allow."""
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            _, _, run, instruction = heapq.heappop(self._delayed)
            self._obey(run, instruction)
        most = self.plan.max_concurrency
        for lane in list(self._lanes.values()):
            while lane.waiting and self._has_room(lane, most):
                call = lane.waiting.popleft()
                lane.running += 1
                self._in_flight += 1
                try:
                    lane.session.submit(call)
                except Exception as error:  # the call itself cannot be sent: that is how it ended
                    self._inbox.put(Outcome(call.task.id, call.task.attempt, error=error))

    def _has_room(self, lane: _Lane, most: int | None) -> bool:
        if most is not None and self._in_flight >= most:
            return False
        if lane.limit is not None and lane.running >= lane.limit:
            return False
        return sum(o.running for o in self._lanes.values() if o.session is lane.session) < lane.session.window

    def _receive(self) -> list[Outcome | Custom | Stop]:
        """Wait for something to be posted; returns all that has been."""
        if not self._in_flight and not self._delayed:
            raise ExecutorError(
                f"The run of {self.plan.run.spec.name!r} has nothing running and has not ended. "
                f"This is a fault in raygraph; please report it with the graph."
            )
        first = self._wait()
        posted = [] if first is None else [first]
        while True:
            try:
                posted.append(self._inbox.get_nowait())
            except queue.Empty:
                return posted

    def _wait(self) -> Outcome | Custom | Stop | None:
        """The next thing posted; None when the next delayed call is due before anything is."""
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            pass
        sessions = list(self._sessions.values())
        while True:
            patience = self._delayed[0][0] - time.monotonic() if self._delayed else None
            if patience is not None and patience <= 0:
                return None
            park = _PARK_SECONDS if patience is None else min(patience, _PARK_SECONDS)
            parked = any(session.park(park) for session in sessions)
            try:
                return self._inbox.get_nowait() if parked else self._inbox.get(timeout=patience)
            except queue.Empty:
                continue

    def _on_posted(self, posted: Outcome | Custom | Stop) -> None:
        if isinstance(posted, Custom):
            owner = self._owners.get(posted.task_id)
            if owner is not None:
                self._shown.append((owner.namespace, "custom", posted.payload))
        elif isinstance(posted, Outcome):
            self._on_outcome(posted)
        else:
            self._failing = Cancelled()

    def _on_outcome(self, outcome: Outcome) -> None:
        owner = self._owners.pop(outcome.task_id, None)
        if owner is None:
            return
        if owner.lane is not None:
            owner.lane.running -= 1
            self._in_flight -= 1
        self.report.add(outcome)
        self._feed(owner.run, outcome)

    def _collect_failures(self) -> None:
        """Feed what else has ended by now, so that the error raised can tell of it."""
        while True:
            try:
                posted = self._inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(posted, Outcome):
                self._on_outcome(posted)


def _attempt_id(run_id: str, attempt: int) -> str:
    """What goes into the ids of a subgraph's tasks: they must not be those of an earlier attempt, which may still
    be under way. (Their seeds stay the same.)"""
    return run_id if attempt == 1 else f"{run_id}#{attempt}"

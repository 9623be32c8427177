"""The super-step machine of one run: events in, instructions out. Pure: no clock, no thread, no I/O.

Theory of operation
-------------------
A run goes through super-steps. In each one it

1. plans: which nodes are due, and which `Send`s are pending (`plan/`); every task gets a packed snapshot of the
   state as it is at the start of the step;
2. waits: it has answered with `Submit` (or `Spawn`, for a subgraph) and takes an `Outcome` for each, in any
   order;
3. folds, once the last outcome is in (`reduce/fold.py`), in an order that arrival has no part in;
4. plans again, until nothing is due.

Two rules about this file. Everything that decides what happens next is here or in what it calls, and nowhere
else. And nothing here touches the world: whoever drives a `Run` obeys its instructions (`drive.py`, or a test).

The input is an update like any other: it is the result of START, a node without a function, in step 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from raygraph.build.specs import GraphSpec, NodeSpec
from raygraph.errors import (
    EmptyInputError,
    GraphRecursionError,
    IncompleteJoinError,
    InvalidUpdateError,
    NodeCrashed,
    ParentCommand,
    short,
)
from raygraph.plan.due import due_nodes, open_joins
from raygraph.plan.identity import child_prefix, make_task
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
from raygraph.plan.retry import retry_delay
from raygraph.reduce.fold import fold
from raygraph.reduce.order import PULL, PUSH, order_key
from raygraph.state.board import Board
from raygraph.state.channels import BinaryOperatorAggregate, DeltaChannel, Topic
from raygraph.state.constants import ROOT, START
from raygraph.state.failure import Failure, describe
from raygraph.state.managed import Scratch
from raygraph.state.records import Call, Outcome, Task, TaskPath, Write
from raygraph.state.snapshot import Packed, pack, unpack
from raygraph.state.types import Command, Overwrite, Send, unwrap_overwrite

#: What was packed for the present step, by the keys that were read.
_Snapshots = dict[tuple[str, ...], dict[str, Packed]]
#: Kinds of channel for which every single write counts.
_MERGING: Final = (BinaryOperatorAggregate, DeltaChannel, Topic)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run needs to know beside its graph.

    Attributes:
        run_id: Unique per run; goes into task ids.
        seed: The run's seed.
        recursion_limit: How many super-steps of nodes are allowed.
        modes: The stream modes somebody listens to.
        prefix: Position of the enclosing task, empty for the outermost graph.
        path: Path of the enclosing task.
        outputs: The keys to return and to show in `values`; None for the graph's own.
        sanitize: See `StateGraph.compile`.
    """

    run_id: str
    seed: int = 0
    recursion_limit: int = 25
    modes: frozenset[str] = frozenset()
    prefix: str = ""
    path: TaskPath = ()
    outputs: tuple[str, ...] | None = None
    sanitize: bool = False


@dataclass(slots=True)
class _Pending:
    """A task of the present step: what to run, and its writes once it has ended.

    `start` is how an attempt begins, `crashes` how many processes it has cost.
    """

    task: Task
    node: NodeSpec
    writes: tuple[Write, ...] | None = None
    start: Submit | Spawn | None = None
    crashes: int = 0


@dataclass(slots=True)
class _Contribution:
    """What a subgraph's nodes wrote to one key, for `output="delta"`."""

    writes: list[Any] = field(default_factory=list)
    replaced: bool = False


class Run:
    """One run of one graph. Feed it events; it answers with instructions.

    Args:
        spec: The graph.
        settings: See `Settings`.
    """

    def __init__(self, spec: GraphSpec, settings: Settings) -> None:
        self.spec = spec
        self.settings = settings
        self.board = Board(spec.channels, spec.by_reference)
        self.step = 0
        self.ended = False
        self.failure: Failure | None = None
        self._pending: dict[str, _Pending] = {}
        self._left = 0
        self._written = spec.seeded
        self._shown: dict[str, Any] | None = None
        self._contributions: dict[str, _Contribution] = {}

    def feed(self, event: Event) -> list[Instruction]:
        """Take an event and say what is to be done.

        Outcomes of tasks that are not awaited (late, repeated, of an earlier attempt) are ignored.
        """
        if isinstance(event, Begin):
            return list(self._on_begin(event))
        if isinstance(event, SubgraphDone):
            return list(self._on_subgraph_done(event))
        return list(self._on_outcome(event))

    def check_invariants(self) -> None:
        """Raise AssertionError if the machine's parts disagree (for tests)."""
        waiting = sum(pending.writes is None for pending in self._pending.values())
        assert self.failure is not None or self._left == waiting, (self._left, waiting)
        assert not (self.ended and self.failure is None and waiting), "ended with tasks open"
        assert all(v <= self.board.clock for v in self.board.versions.values())

    # -- events --------------------------------------------------------------------------------------------

    def _on_begin(self, event: Begin) -> Iterator[Instruction]:
        given = event.input
        if given is None or (isinstance(given, Command) and given.resume is not None):
            what = "None" if given is None else "Command(resume=...)"
            yield from self._fail_run(
                EmptyInputError(
                    f"The run got {what} as input and has nothing to resume. Pass the first state as a dict, such "
                    f"as {{{', '.join(repr(k) + ': ...' for k in sorted(self.spec.nodes[START].program.keys)[:3])}}}.",
                    step=-1,
                )
            )
            return
        node = self.spec.nodes[START]
        task = self._task(START, (PULL, START), ())
        self._pending = {task.id: _Pending(task, node)}
        self._left = 1
        yield self._submit(task, node, {}, Packed(given))

    def _on_subgraph_done(self, event: SubgraphDone) -> Iterator[Instruction]:
        pending = self._pending.get(event.task_id)
        if pending is None or pending.writes is not None or self.ended:
            return
        program = pending.node.program
        returned = event.returned
        if isinstance(returned, dict) and ROOT not in program.keys:
            returned = {key: value for key, value in returned.items() if key in program.keys}
        yield self._submit(pending.task, pending.node, {}, Packed(returned))

    def _on_outcome(self, outcome: Outcome) -> Iterator[Instruction]:
        pending = self._pending.get(outcome.task_id)
        if pending is None or pending.writes is not None or pending.task.attempt != outcome.attempt:
            return
        if outcome.error is not None:
            yield from self._on_failed(pending, outcome)
            return
        pending.writes = outcome.writes
        pending.start = None
        self._left -= 1
        if self.failure is not None:
            self.failure.finished.append(pending.task.node)
            return
        if outcome.mutated:
            yield Mutated(pending.task.node, outcome.mutated)
        if "updates" in self.settings.modes and pending.task.node != START:
            yield Emit("updates", {pending.task.node: self._update_payload(outcome.writes)})
        if self._left == 0:
            yield from self._complete_step()

    def _on_failed(self, pending: _Pending, outcome: Outcome) -> Iterator[Instruction]:
        error = outcome.error
        assert error is not None
        if self.failure is not None:
            self.failure.attach(error, pending.task)
            return
        policies = pending.node.policies
        crashes_left = policies.retry_crashes - pending.crashes
        delay = retry_delay(error, pending.task, policies.retry, crashes_left=crashes_left)
        if delay is not None:
            pending.crashes += isinstance(error, NodeCrashed)
            yield self._again(pending, delay)
            return
        if isinstance(error, ParentCommand) and not self.settings.prefix:
            error = InvalidUpdateError(
                f"Node {pending.task.node!r} returned Command(graph=Command.PARENT), but there is no graph around "
                f"{self.spec.name!r}. Leave graph out, or run this graph as a node of another.",
                node=pending.task.node,
                step=self.step,
            )
        finished = [p.task.node for p in self._sorted() if p.writes is not None]
        self.failure = describe(error, pending.task, outcome.usage, self.spec.name, finished)
        yield from self._fail_run(error)

    # -- the super-step ------------------------------------------------------------------------------------

    def _complete_step(self) -> Iterator[Instruction]:
        done = [(p.task, p.writes or ()) for p in self._sorted()]
        try:
            updated = fold(self.board, done, sanitize=self.settings.sanitize)
        except Exception as error:
            if isinstance(error, InvalidUpdateError) and error.step is None:
                error.step = self.step
            yield from self._fail_run(error)
            return
        if self.step > 0:
            self._record_contributions(done)
        yield from self._show_values(done)
        yield from self._next_step(updated)

    def _next_step(self, updated: set[str]) -> Iterator[Instruction]:
        sends = self.board.sends()
        due = due_nodes(self.spec, self.board, updated)
        self._pending = {}
        if not due and not sends:
            yield from self._end()
            return
        if self.step >= self.settings.recursion_limit:
            yield from self._fail_run(self._recursion_error(due, sends))
            return
        self.step += 1
        snapshots: _Snapshots = {}
        instructions = [self._push(index, send, snapshots) for index, send in enumerate(sends)]
        instructions += [self._pull(name, snapshots) for name in due]
        self._left = len(instructions)
        yield from instructions

    def _end(self) -> Iterator[Instruction]:
        waiting = open_joins(self.spec, self.board) if self.spec.strict else []
        if not waiting:
            self.ended = True
            yield Finish(self._output())
            return
        name, ran, missing = waiting[0]
        yield from self._fail_run(
            IncompleteJoinError(
                f"The run ended while node {name!r} still waited: its list edge needs {_names(missing)}, which did not "
                f"run (of its starts, {_names(ran)} ran). Route to the missing node, make {name!r} a deferred node "
                f"with plain edges, or compile with strict=False to let it go.",
                node=name,
                step=self.step,
            )
        )

    def _pull(self, name: str, snapshots: _Snapshots) -> Instruction:
        node = self.spec.nodes[name]
        task = self._task(name, (PULL, name), node.triggers)
        self._pending[task.id] = _Pending(task, node)
        if node.subgraph is not None:
            inputs = self._snapshot(node, snapshots)
            state = {key: unpack(inputs[key]) for key in node.program.input.keys if key in inputs}
            return self._spawn(task, node, state.get(ROOT) if ROOT in state else state)
        return self._submit(task, node, snapshots)

    def _push(self, index: int, send: Send, snapshots: _Snapshots) -> Instruction:
        node = self.spec.nodes[send.node]
        task = self._task(send.node, (PUSH, index), ())
        self._pending[task.id] = _Pending(task, node)
        arg = send.arg if isinstance(send.arg, Packed) else pack(send.arg)
        if node.subgraph is not None:
            return self._spawn(task, node, unpack(arg))
        return self._submit(task, node, snapshots, arg)

    def _again(self, pending: _Pending, delay: float) -> Submit | Spawn:
        """The next attempt of a task, from its beginning."""
        pending.task = task = replace(pending.task, attempt=pending.task.attempt + 1)
        start = pending.start
        assert start is not None
        if isinstance(start, Spawn):
            return replace(start, task=task, delay=delay)
        return replace(start, call=replace(start.call, task=task), delay=delay)

    def _submit(self, task: Task, node: NodeSpec, snapshots: _Snapshots, arg: Packed | None = None) -> Submit:
        """The call of a task on the state, or on `arg`; then only its routers read the state."""
        reads = arg is None or node.program.branches
        inputs = self._snapshot(node, snapshots) if reads else {}
        submit = Submit(Call(task, node.program, inputs, arg, self._managed(node), node.options), node)
        pending = self._pending[task.id]
        pending.start = pending.start or submit
        return submit

    def _spawn(self, task: Task, node: NodeSpec, state: Any) -> Spawn:
        spawn = Spawn(task, node, state, child_prefix(self.settings.prefix, task))
        self._pending[task.id].start = spawn
        return spawn

    def _snapshot(self, node: NodeSpec, snapshots: _Snapshots) -> dict[str, Packed]:
        keys = node.program.reads
        if keys not in snapshots:
            snapshots[keys] = self.board.snapshot(keys)
        return snapshots[keys]

    def _task(self, node: str, path: TaskPath, triggers: tuple[str, ...]) -> Task:
        settings = self.settings
        return make_task(
            node,
            self.step,
            settings.path + path,
            triggers,
            run_id=settings.run_id,
            seed=settings.seed,
            prefix=settings.prefix,
        )

    def _managed(self, node: NodeSpec) -> dict[str, Any]:
        """The managed values of the present step that the node or one of its routers reads."""
        program = node.program
        wanted = {**program.input.managed}
        for branch in program.branches:
            wanted.update(branch.input.managed)
        remaining = self.settings.recursion_limit - self.step + 1
        return {key: spec.get(Scratch(self.step, remaining)) for key, spec in wanted.items()}

    # -- results -------------------------------------------------------------------------------------------

    def _sorted(self) -> list[_Pending]:
        return sorted(self._pending.values(), key=lambda pending: order_key(pending.task.path))

    def _output_keys(self) -> tuple[str, ...]:
        return self.settings.outputs or self.spec.outputs

    def _output(self) -> Any:
        """What `invoke` returns: None if no output key was ever written (as in LangGraph)."""
        if not self._written:
            return None
        if self._shown is not None:
            return self._shape(self._shown)
        return self._shape(self.board.copies(self._output_keys()))

    def _shape(self, values: dict[str, Any]) -> Any:
        return values.get(ROOT) if ROOT in self.spec.channels else values

    def _show_values(self, done: list[tuple[Task, tuple[Write, ...]]]) -> Iterator[Instruction]:
        written = {channel for _, writes in done for channel, _ in writes}
        first = self.step == 0 and self.spec.seeded
        outputs = self._output_keys()
        if not written.isdisjoint(outputs):
            self._written = True
            # The output is the state after the last step that wrote to it (as in LangGraph): a key that a later step
            # clears is still in it.
            passing = not self.board.transient.isdisjoint(outputs)
            self._shown = self.board.copies(outputs) if passing else None
        if "values" in self.settings.modes:
            keys = self.settings.outputs or self.spec.streams
            if first or not written.isdisjoint(keys):
                yield Emit("values", self._shape(self.board.copies(keys)))

    def _update_payload(self, writes: tuple[Write, ...]) -> Any:
        """One task's part of the `updates` stream: a dict, a list of dicts, None, or a root value."""
        shown = self.settings.outputs or self.spec.streams
        pairs = [(key, unpack(value)) for key, value in writes if key in shown and isinstance(value, Packed)]
        if not pairs:
            return None
        if ROOT in shown:
            return pairs[0][1] if len(pairs) == 1 else [value for _, value in pairs]
        if len({key for key, _ in pairs}) < len(pairs):
            return [{key: value} for key, value in pairs]
        return dict(pairs)

    def _record_contributions(self, done: list[tuple[Task, tuple[Write, ...]]]) -> None:
        """Remember what the nodes of a subgraph wrote, in fold order, for `output="delta"`."""
        if not self.settings.prefix:
            return
        for _, writes in done:
            for key, value in writes:
                if key in self.spec.outputs and isinstance(value, Packed):
                    kept = self._contributions.setdefault(key, _Contribution())
                    plain = unpack(value)
                    kept.replaced = kept.replaced or unwrap_overwrite(plain)[0]
                    kept.writes.append(plain)

    def contribution(self) -> Command[Any]:
        """What this subgraph's nodes contributed, as an update for the graph around it.

        Once a key was overwritten, or where it has no reducer, its last value stands for everything before.
        """
        pairs: list[tuple[str, Any]] = []
        values = self.board.copies(self.spec.outputs)
        for key, kept in self._contributions.items():
            if kept.replaced:
                pairs.append((key, Overwrite(values[key])))
            elif isinstance(self.board.channels[key], _MERGING):
                pairs += [(key, value) for value in kept.writes]
            elif key in values:
                pairs.append((key, values[key]))
        return Command(update=pairs)

    # -- failing -------------------------------------------------------------------------------------------

    def _fail_run(self, error: BaseException) -> Iterator[Instruction]:
        self.ended = True
        if self.failure is None:
            self.failure = Failure(error, step=self.step)
        yield Fail(error)

    def _recursion_error(self, due: list[str], sends: list[Send]) -> GraphRecursionError:
        limit = self.settings.recursion_limit
        pending = tuple(dict.fromkeys([*due, *(send.node for send in sends)]))
        state = self.board.copies(self.spec.streams)
        return GraphRecursionError(
            f"Recursion limit of {limit} reached: {limit} super-steps ran and {', '.join(map(repr, pending))} "
            f"{'is' if len(pending) == 1 else 'are'} still due. State so far: {short(state)} (also as `.state` of "
            f"this error). If the graph is not meant to loop for ever, raise the limit: "
            f"config={{'recursion_limit': {limit * 4}}}.",
            state=self._shape(state),
            pending=pending,
            step=self.step,
        )


def _names(nodes: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(nodes)))

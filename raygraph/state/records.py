"""What travels between the parts of the engine: tasks, calls, outcomes, events, instructions.

Plain frozen data, one vocabulary: `plan` makes `Task`s, the driver sends `Call`s to an executor, an executor
posts `Outcome`s and `Custom`s, `Run.feed` takes events and answers with instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raygraph.state.snapshot import Packed

if TYPE_CHECKING:
    from raygraph.build.specs import Program

#: One write of a task: channel name and value.
Write = tuple[str, Any]
#: Where a task stands in its super-step: ("pull", node) or ("push", index), below the path of the task whose
#: subgraph it belongs to. It decides the fold order (`reduce/order.py`) and the identity of the task.
TaskPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """One node to be run once in one super-step.

    Attributes:
        id: Unique in the run and equal in every re-run of it (shaped like a UUID).
        node: Name of the node.
        step: The super-step (START is 0, the first nodes 1).
        path: See `TaskPath`.
        triggers: The channels that made the node due; empty for a `Send`.
        seed: Derived from the run's seed, the step and the path; 64 bits.
        attempt: 1 for the first try.
    """

    id: str
    node: str
    step: int
    path: TaskPath
    triggers: tuple[str, ...]
    seed: int
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Where and with what resources a node runs. The fields are the arguments of `StateGraph.add_node`."""

    executor: Any = None
    num_cpus: float = 1
    num_gpus: float = 0
    memory: float | None = None
    resources: Mapping[str, float] | None = None
    runtime_env: Mapping[str, Any] | None = None
    label_selector: Mapping[str, str] | None = None
    max_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every task of a run is told. Shipped once per worker process and run.

    Attributes:
        run_id: Unique per run.
        graph: Name of the graph, for task names and messages.
        config: The caller's config, without what cannot leave the driver.
        context: The value of `context=`, coerced to the context schema.
        custom: Whether somebody listens to the stream writer.
        sanitize: Whether a changed snapshot is an error instead of a warning.
    """

    run_id: str
    graph: str
    config: Mapping[str, Any]
    context: Any = None
    custom: bool = False
    sanitize: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A task with all it needs to be run anywhere.

    Attributes:
        task: Which task.
        program: What to run.
        inputs: The packed state keys that the node and its routers read, shared by the calls of a step.
        arg: The packed input where it is not the state: a `Send`'s, the run's, a subgraph's output.
        managed: Managed values the node reads (`RemainingSteps`, ...).
        options: Where and with what resources it is to run.
    """

    task: Task
    program: Program
    inputs: Mapping[str, Packed]
    arg: Packed | None = None
    managed: Mapping[str, Any] = field(default_factory=dict)
    options: NodeOptions = NodeOptions()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a task cost, measured where it ran.

    Attributes:
        started: Wall clock at the start (seconds since the epoch, on that machine).
        wall: Seconds from start to end.
        cpu: CPU seconds, user and system.
        peak_rss: Bytes of resident memory at the highest point seen, of the whole process; None if not measured.
        pid: Process.
        host: Machine.
    """

    started: float = 0.0
    wall: float = 0.0
    cpu: float = 0.0
    peak_rss: int | None = None
    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: with writes, or with an error.

    Attributes:
        task_id: Of which task.
        attempt: Of which attempt; a late outcome of an earlier one is recognised by it.
        writes: What the task writes, in the order it was returned; every value is a `Packed`, or a `Send` whose
            `arg` is one. Packing is done by `run_call`, which also reports what cannot be packed, so that an
            executor only has to move the outcome.
        error: The node's own exception, or one that says what happened to its process.
        mutated: State keys that the node changed in place without returning them.
        customs: How many `Custom`s the task posted before.
        usage: What it cost.
    """

    task_id: str
    attempt: int = 1
    writes: tuple[Write, ...] = ()
    error: BaseException | None = None
    mutated: tuple[str, ...] = ()
    customs: int = 0
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Custom:
    """Something a node passed to its stream writer."""

    task_id: str
    payload: Any

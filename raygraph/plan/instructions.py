"""What a run is told, and what it answers: the events it is fed and the instructions it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raygraph.build.specs import NodeSpec
from raygraph.state.records import Call, Outcome, Task

# -- events (besides `Outcome`) ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """The run starts with this input."""

    input: Any


@dataclass(frozen=True, slots=True)
class SubgraphDone:
    """The subgraph that a task runs has ended, with what the task is to be taken to have returned."""

    task_id: str
    returned: Any


Event = Begin | SubgraphDone | Outcome

# -- instructions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submit:
    """Run this call of this node, after `delay` seconds, and feed its outcome."""

    call: Call
    node: NodeSpec
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Spawn:
    """After `delay` seconds, drive the node's subgraph; feed `SubgraphDone`, or an `Outcome` with its error."""

    task: Task
    node: NodeSpec
    input: Any
    prefix: str
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Emit:
    """Show this to whoever streams `mode`."""

    mode: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Mutated:
    """Warn: `node` changed `keys` of its snapshot in place."""

    node: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over; `output` is what `invoke` returns."""

    output: Any


@dataclass(frozen=True, slots=True)
class Fail:
    """The run cannot go on. Stop what still runs, feed what has ended meanwhile, raise `error`."""

    error: BaseException


Instruction = Submit | Spawn | Emit | Mutated | Finish | Fail

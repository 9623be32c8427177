"""The account of a failed step, attached to the exception that the caller gets.

The caller catches the node's own exception, with its own type. What raygraph knows about it stands in a note
and, for programs, in `error.raygraph`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raygraph.errors import RaygraphError, add_note, short
from raygraph.state.records import Task, Usage


@dataclass(slots=True)
class Failure:
    """What happened in a step that failed.

    Attributes:
        error: The exception raised to the caller.
        node: The node that raised it; None if it came from the engine (a reducer, the recursion limit).
        step: Number of the super-step.
        task: Id of the task.
        attempt: Which attempt it was.
        host: Machine on which the node ran.
        pid: Process in which it ran.
        others: Further nodes that failed in the step, with their exceptions.
        finished: Nodes of the step that had finished.
    """

    error: BaseException
    node: str | None = None
    step: int = 0
    task: str = ""
    attempt: int = 1
    host: str = ""
    pid: int = 0
    others: list[tuple[str, BaseException]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)

    def attach(self, error: BaseException, task: Task) -> None:
        """Add another failure of the same step."""
        self.others.append((task.node, error))
        add_note(self.error, f"raygraph: node {task.node!r} failed in the same step: {short(error)}")


def describe(error: BaseException, task: Task, usage: Usage, graph: str, finished: list[str]) -> Failure:
    """Note on `error` where it came from, and return the account of it."""
    where = f" on {usage.host} (pid {usage.pid})" if usage.host else ""
    done = f" Finished in the same step: {', '.join(map(repr, finished))}." if finished else ""
    add_note(
        error,
        f"raygraph: in node {task.node!r} of graph {graph!r}, step {task.step}, task {task.id}, "
        f"attempt {task.attempt}{where}.{done}",
    )
    if isinstance(error, RaygraphError):
        error.node = error.node or task.node
        error.step = task.step if error.step is None else error.step
        error.task = error.task or task.id
    failure = Failure(error, task.node, task.step, task.id, task.attempt, usage.host, usage.pid, finished=finished)
    try:
        error.raygraph = failure  # type: ignore[attr-defined]
    except AttributeError:
        pass  # an exception class with __slots__ takes no attribute; the note is there
    return failure

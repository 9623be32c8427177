"""The one total order in which a super-step's writes are folded.

Per channel: the run's input first, then node tasks by name (code-point order), then `Send` tasks by index; each
task's own writes in the order it returned them. No completion time, host, thread or random id takes part, so
the order is the same on every executor, for every number of workers, after a retry and after a resume.

The rule is LangGraph's. Changing it changes results: that takes a new `ORDER_VERSION`.
"""

from __future__ import annotations

from typing import Final

from raygraph.state.records import TaskPath

#: Stored with checkpoints, so that a thread is always folded by the rule it began with.
ORDER_VERSION: Final = 1

#: First element of a task's path: due by its triggers, or started by a `Send`.
PULL: Final = "pull"
PUSH: Final = "push"


def order_key(path: TaskPath) -> tuple[int, str, int]:
    """Sort key of a task among the tasks of its super-step.

    Args:
        path: `("pull", node)` or `("push", index)`, possibly below the path of an enclosing task, which is the
            same for all tasks of the super-step.
    """
    kind, which = path[-2:]
    return (0, str(which), 0) if kind == PULL else (1, "", int(which))

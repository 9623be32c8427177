"""The identity of a task: its path, its id and its seed, derived from where it stands and from nothing else."""

from __future__ import annotations

from hashlib import blake2b

from raygraph.state.records import Task, TaskPath


def make_task(
    node: str, step: int, path: TaskPath, triggers: tuple[str, ...], *, run_id: str, seed: int, prefix: str
) -> Task:
    """A task with its id and seed.

    Args:
        node: Name of the node.
        step: Number of the super-step.
        path: Where the task stands in the step.
        triggers: What made it due.
        run_id: Goes into the id only, so that two runs with one seed draw the same numbers.
        seed: The run's seed.
        prefix: The position of the enclosing task where this is a subgraph's; step and path included, so that
            a subgraph called in a loop has new tasks each time.
    """
    place = f"{prefix}{step}:{path[-2]}:{path[-1]}:{node}"
    digest = blake2b(f"{run_id}|{place}".encode(), digest_size=16).hexdigest()
    task_id = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"
    own_seed = int.from_bytes(blake2b(f"{seed}|{place}".encode(), digest_size=8).digest(), "big")
    return Task(task_id, node, step, path, triggers, own_seed)


def child_prefix(prefix: str, task: Task) -> str:
    """The prefix of the tasks of a subgraph that `task` runs."""
    return f"{prefix}{task.step}:{task.path[-2]}:{task.path[-1]}:{task.node}/"

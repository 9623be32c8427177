"""What went wrong in Ray, in raygraph's words. Works on names, so that no Ray class is needed, or leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from raygraph.errors import (
    ExecutorError,
    InfeasibleError,
    NodeCrashed,
    NodeOutOfMemory,
    RaygraphError,
    ShippingError,
)
from raygraph.state.records import NodeOptions, Task

_LOST: Final = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "LocalRayletDiedError", "RayActorError")
_NEVER: Final = ("TaskUnschedulableError", "TaskPlacementGroupRemoved", "ActorUnschedulableError")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def translate(error: BaseException, task: Task) -> RaygraphError:
    """Ray's error for a task whose outcome did not come, as one of ours."""
    names = {kind.__name__ for kind in type(error).__mro__}
    text = _text(error)
    where: dict[str, Any] = {"node": task.node, "step": task.step, "task": task.id}
    who = f"Node {task.node!r} (step {task.step}, task {task.id}, attempt {task.attempt})"
    if "OutOfMemoryError" in names:
        return NodeOutOfMemory(
            f"{who} was killed because its machine ran out of memory. Ask for memory= in add_node, or lower the "
            f"number of nodes at once. Ray says: {text}",
            attempt=task.attempt,
            **where,
        )
    if names.intersection(_LOST):
        return NodeCrashed(f"{who} took its worker down with it. Ray says: {text}", attempt=task.attempt, **where)
    if names.intersection(_NEVER):
        return InfeasibleError(f"{who} cannot be placed in the cluster. Ray says: {text}", **where)
    if "RuntimeEnvSetupError" in names:
        return ExecutorError(f"The runtime_env of node {task.node!r} could not be set up: {text}", **where)
    if "TaskCancelledError" in names:
        return ExecutorError(f"{who} was cancelled, but not by raygraph.", **where)
    if "RayTaskError" in names:
        return ShippingError(
            f"{who} could not be run by a Ray worker. Is the same raygraph installed there? Ray says: {text}", **where
        )
    return ExecutorError(f"{who} failed in Ray: {type(error).__name__}: {text}", **where)


def _text(error: BaseException) -> str:
    try:
        return _COLOURS.sub("", str(error)).strip()
    except Exception:  # some of Ray's fail on what they were not given
        return type(error).__name__


def check_feasible(node: str, options: NodeOptions, machines: Sequence[Mapping[str, Any]]) -> None:
    """Raise if no single machine has in total what the node asks for.

    Args:
        node: The node's name.
        options: What it asks for.
        machines: Ray's description of the nodes of the cluster.
    """
    wanted = requests(options)
    alive = [machine for machine in machines if machine.get("Alive", True)]
    selector = options.label_selector or {}
    fitting = [machine for machine in alive if _labels_match(selector, machine.get("Labels") or {})]
    if any(all(m["Resources"].get(name, 0) >= amount for name, amount in wanted.items()) for m in fitting):
        return
    asked = ", ".join(f"{name}={amount:g}" for name, amount in wanted.items())
    if selector:
        asked += f"{', ' if asked else ''}labels {dict(selector)}"
    if selector and not fitting:
        has = f"none of the {len(alive)} machines has such labels: " + "; ".join(
            str({k: v for k, v in (m.get("Labels") or {}).items() if not k.startswith("ray.io/")}) for m in alive[:5]
        )
    else:
        largest = max(fitting, key=lambda m: [m["Resources"].get(name, 0) for name in wanted], default=None)
        amounts = {} if largest is None else largest["Resources"]
        has = "the largest machine has " + ", ".join(f"{name}={amounts.get(name, 0):g}" for name in wanted)
    raise InfeasibleError(
        f"Node {node!r} asks for {asked or 'nothing'}, but {has}. Ask for less, or add a machine to the cluster; if "
        "an autoscaler will, set RAYGRAPH_ALLOW_PENDING=1.",
        node=node,
    )


def requests(options: NodeOptions) -> dict[str, float]:
    """What a node asks for, by Ray's names."""
    wanted = {"CPU": options.num_cpus, "GPU": options.num_gpus, "memory": options.memory or 0}
    return {name: float(amount) for name, amount in {**wanted, **(options.resources or {})}.items() if amount}


def _labels_match(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(_label_matches(condition, labels.get(key)) for key, condition in selector.items())


def _label_matches(condition: str, value: str | None) -> bool:
    """Ray's grammar: `v`, `!v`, `in(a, b)`, `!in(a, b)`. A missing label satisfies the negative forms."""
    negative = condition.startswith("!")
    rest = condition.removeprefix("!").strip()
    among = rest[3:-1].split(",") if rest.startswith("in(") and rest.endswith(")") else [rest]
    return (value in [choice.strip() for choice in among]) is not negative

"""Whether a failed task is tried again, and after how long."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from raygraph.errors import GraphBubbleUp, NodeCancelledError, NodeCrashed, NodeTimeoutError, RaygraphError
from raygraph.state.policies import RetryPolicy
from raygraph.state.records import Task

#: raygraph's own errors that another attempt may not meet again.
_TRANSIENT = (NodeTimeoutError, NodeCancelledError)


def retry_delay(
    error: BaseException, task: Task, policies: Sequence[RetryPolicy], *, crashes_left: int
) -> float | None:
    """Seconds to wait before the next attempt; None if there is to be none.

    A process that died is retried only where the node allows it (`retry_crashes`), whatever its policies say:
    what it did before may happen twice. Errors about the graph itself come again every time.

    Args:
        error: What the attempt failed with.
        task: The failed attempt.
        policies: The node's; the first that matches the error decides (as in LangGraph).
        crashes_left: How many more deaths of its process the node puts up with.
    """
    if isinstance(error, NodeCrashed):
        return 0.0 if crashes_left > 0 else None
    if not isinstance(error, Exception) or isinstance(error, GraphBubbleUp):
        return None
    if isinstance(error, RaygraphError) and not isinstance(error, _TRANSIENT):
        return None
    for policy in policies:
        if _matches(policy, error):
            return _interval(policy, task) if task.attempt < policy.max_attempts else None
    return None


def _matches(policy: RetryPolicy, error: Exception) -> bool:
    on = policy.retry_on
    if isinstance(on, type):
        return issubclass(on, BaseException) and isinstance(error, on)
    if isinstance(on, Sequence):
        return isinstance(error, tuple(on))
    return bool(on(error))


def _interval(policy: RetryPolicy, task: Task) -> float:
    wait = min(policy.max_interval, policy.initial_interval * policy.backoff_factor ** (task.attempt - 1))
    if policy.jitter:
        digest = blake2b(f"{task.seed}|{task.attempt}".encode(), digest_size=8).digest()
        wait += int.from_bytes(digest, "big") / 2**64
    return wait

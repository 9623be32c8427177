"""What a node may be given beside its function: how often it is tried."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from raygraph.errors import ConfigError, short

#: Kinds of exception that mean the program is wrong: trying again gives the same (LangGraph's list).
_FINAL: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    RuntimeError,
    ReferenceError,
    StopIteration,
    StopAsyncIteration,
    OSError,
)


def default_retry_on(error: BaseException) -> bool:
    """Whether an error is worth another try: lost connections, HTTP 5xx, and what is not plainly a program's fault.

    The rule is LangGraph's.
    """
    if isinstance(error, ConnectionError):
        return True
    for module in ("httpx", "requests"):
        library: Any = sys.modules.get(module)
        kind = getattr(library, "HTTPStatusError" if module == "httpx" else "HTTPError", None)
        if kind is not None and isinstance(error, kind):
            response = getattr(error, "response", None)
            return response is None or 500 <= response.status_code < 600
    return not isinstance(error, _FINAL)


class RetryPolicy(NamedTuple):
    """When and how often a failed node is tried again. Names and defaults are LangGraph's.

    Attributes:
        initial_interval: Seconds before the second attempt.
        backoff_factor: Each further wait is this many times as long.
        max_interval: The longest wait, in seconds.
        max_attempts: Attempts in all, the first included.
        jitter: Add up to one second to each wait; drawn from the task's seed, so the same in every run.
        retry_on: Exception classes, or a function that says yes or no.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on


@dataclass(frozen=True, slots=True)
class Policies:
    """A node's policies, read.

    Attributes:
        retry: The first that matches an error decides.
        retry_crashes: How many deaths of its process the node puts up with.
    """

    retry: tuple[RetryPolicy, ...] = ()
    retry_crashes: int = 0


def read_retry(value: Any, where: str) -> tuple[RetryPolicy, ...]:
    """Retry policies as users write them: one, a sequence, or None.

    Raises:
        ConfigError: Something that is no `RetryPolicy`, or one with impossible numbers.
    """
    if value is None:
        return ()
    policies = (value,) if _is_retry(value) else tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for policy in policies:
        if not _is_retry(policy):
            raise ConfigError(
                f"{where}: retry_policy must be a RetryPolicy or a list of them; got {short(policy)} "
                f"({type(policy).__name__}).",
                key="retry_policy",
            )
        if not isinstance(policy.max_attempts, int) or policy.max_attempts < 1:
            raise ConfigError(
                f"{where}: max_attempts must be an int of at least 1 (the first attempt counts); "
                f"got {short(policy.max_attempts)}.",
                key="max_attempts",
            )
        for name in ("initial_interval", "backoff_factor", "max_interval"):
            amount = getattr(policy, name)
            if not isinstance(amount, (int, float)) or not amount >= 0:
                raise ConfigError(f"{where}: {name} must be a number of at least 0; got {short(amount)}.", key=name)
    return policies


def _is_retry(value: Any) -> bool:
    """A `RetryPolicy`, LangGraph's own included: they have the same fields."""
    return isinstance(value, tuple) and hasattr(value, "max_attempts") and hasattr(value, "retry_on")

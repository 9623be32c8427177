"""Reading a run's config and the environment: which settings there are, and where they belong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from raygraph.errors import ConfigError, did_you_mean, short
from raygraph.state.constants import DEFAULT_RECURSION_LIMIT

#: Keys of a config: LangChain's `RunnableConfig`, then raygraph's own.
_KEYS: Final = (
    "tags",
    "metadata",
    "callbacks",
    "run_name",
    "max_concurrency",
    "recursion_limit",
    "configurable",
    "run_id",
    "executor",
    "seed",
)
#: Keys that LangGraph reads from `config["configurable"]`.
_CONFIGURABLE: Final = ("thread_id", "checkpoint_id", "checkpoint_ns")


@dataclass(frozen=True)
class RunConfig:
    """A config, checked.

    Attributes:
        recursion_limit: Super-steps of nodes allowed.
        max_concurrency: The most tasks in flight; None for no limit.
        executor: Overrides the compiled choice.
        seed: The run's seed; 0 unless set, so that a run draws the same numbers every time.
        run_id: Given by the caller, or None.
        given: What nodes see as their config.
    """

    recursion_limit: int = DEFAULT_RECURSION_LIMIT
    max_concurrency: int | None = None
    executor: Any = None
    seed: int = 0
    run_id: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)


def read_config(config: Mapping[str, Any] | None) -> RunConfig:
    """Check a config.

    Args:
        config: As passed to `invoke`.

    Raises:
        ConfigError: A key that does not exist or stands in the wrong place, or a value of the wrong kind.
    """
    if config is None:
        return RunConfig(given={"configurable": {}})
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must be a dict; got {short(config)} ({type(config).__name__}).")
    for key in config:
        if key not in _KEYS:
            _refuse(key, config[key])
    configurable = config.get("configurable") or {}
    if not isinstance(configurable, Mapping):
        raise ConfigError(
            f"config['configurable'] must be a dict; got {short(configurable)} ({type(configurable).__name__}).",
            key="configurable",
        )
    for key in configurable:
        if key in _KEYS and key not in ("metadata", "tags"):
            raise ConfigError(
                f"config['configurable'][{key!r}] is in the wrong place and would have no effect; "
                f"write config={{{key!r}: {short(configurable[key])}}}.",
                key=key,
            )
    run_id = config.get("run_id")
    return RunConfig(
        recursion_limit=_whole(config, "recursion_limit", DEFAULT_RECURSION_LIMIT, least=1) or 0,
        max_concurrency=_whole(config, "max_concurrency", None, least=1),
        executor=config.get("executor"),
        seed=_whole(config, "seed", 0, least=None) or 0,
        run_id=None if run_id is None else str(run_id),
        given={**config, "configurable": dict(configurable)},
    )


def _refuse(key: Any, value: Any) -> None:
    if key in _CONFIGURABLE:
        raise ConfigError(
            f"config[{key!r}] is in the wrong place; write config={{'configurable': {{{key!r}: {short(value)}}}}}.",
            key=str(key),
        )
    raise ConfigError(
        f"config has no setting {short(key)}.{did_you_mean(key, _KEYS)} Settings: {', '.join(_KEYS)}; "
        f"values for your own nodes go into config['configurable'].",
        key=str(key),
    )


def _whole(config: Mapping[str, Any], key: str, default: int | None, *, least: int | None) -> int | None:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least}"
        raise ConfigError(f"config[{key!r}] must be an int{bound}; got {short(value)}.", key=key)
    return value


def environment_flag(name: str, default: bool) -> bool:
    """A yes/no setting from the environment: 1, true, yes, on; 0, false, no, off.

    Raises:
        ConfigError: Any other value.
    """
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise ConfigError(f"Environment variable {name} must be 0 or 1; got {value!r}.", key=name)


def default_executor() -> str:
    """The executor to use where nobody chose one: `RAYGRAPH_EXECUTOR`, else "ray"."""
    return os.environ.get("RAYGRAPH_EXECUTOR", "").strip() or "ray"

"""Executors by name: one shared instance of each kind in a process, made when first asked for."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any, Final, cast

from raygraph.errors import ConfigError, did_you_mean, short
from raygraph.execute.protocol import Executor

_KINDS: Final = {
    "inline": ("raygraph.execute.inline", "InlineExecutor"),
    "processes": ("raygraph.execute.processes", "ProcessExecutor"),
    "ray": ("raygraph.execute.ray_executor", "RayExecutor"),
    "threads": ("raygraph.execute.threads", "ThreadExecutor"),
}

_shared: dict[str, Executor] = {}
_lock: Final = threading.Lock()


def resolve(spec: Any) -> Executor:
    """The executor that `spec` stands for.

    Args:
        spec: A name ("ray", "processes", "threads", "inline"), or an executor object, which is returned as it is.

    Raises:
        ConfigError: Neither of the two.
    """
    if not isinstance(spec, str):
        if all(hasattr(spec, name) for name in ("name", "in_driver", "check", "open")):
            return cast(Executor, spec)
        raise ConfigError(
            f"executor must be a name ({', '.join(_KINDS)}) or an executor object; got {short(spec)} "
            f"({type(spec).__name__}).",
            key="executor",
        )
    executor = _shared.get(spec)
    return executor if executor is not None else _make(spec)


def _make(name: str) -> Executor:
    if name not in _KINDS:
        raise ConfigError(
            f"There is no executor {name!r}.{did_you_mean(name, _KINDS)} Executors: {', '.join(_KINDS)}.",
            key="executor",
        )
    module, kind = _KINDS[name]
    with _lock:
        if name not in _shared:
            _shared[name] = cast(Executor, getattr(import_module(module), kind)())
        return _shared[name]

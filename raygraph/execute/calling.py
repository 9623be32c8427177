"""Calling users' functions: what they ask for by parameter name, and coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from raygraph.runtime import Scope

#: Parameters a node or router may have beside its first, and what the annotation of one with a default must
#: mention for the engine to fill it in (None: any annotation will do). The names are LangGraph's.
_ASKABLE: Final[dict[str, str | None]] = {
    "config": "RunnableConfig",
    "writer": "StreamWriter",
    "store": "BaseStore",
    "previous": None,
    "runtime": None,
}


class Callee:
    """A user's function, with its signature read once."""

    __slots__ = ("asks", "fn", "is_runnable")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.is_runnable = _is_runnable(fn)
        self.asks = () if self.is_runnable else _asks_for(fn)

    def __call__(self, value: Any, scope: Scope) -> Any:
        """Call with `value` as the first argument and what the signature asks for; wait for a coroutine."""
        if self.is_runnable:
            return self.fn.invoke(value, dict(scope.config))  # type: ignore[attr-defined]
        if not self.asks:
            result = self.fn(value)
        else:
            result = self.fn(value, **{name: _offer(name, scope) for name in self.asks})
        if inspect.iscoroutine(result):
            return run_coroutine(result)
        return result


def _is_runnable(fn: Any) -> bool:
    """A LangChain `Runnable` (a chain, a model, a tool): called through `invoke`."""
    return not callable(fn) and callable(getattr(fn, "invoke", None))


def _asks_for(fn: Callable[..., Any]) -> tuple[str, ...]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # builtins without a signature
        return ()
    return tuple(p.name for p in parameters[1:] if _is_asked(p))


def _is_asked(parameter: inspect.Parameter) -> bool:
    if parameter.name not in _ASKABLE or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return False
    wanted = _ASKABLE[parameter.name]
    if wanted is None or parameter.annotation in (parameter.empty, Any) or parameter.default is parameter.empty:
        return True
    # As text, so that `from __future__ import annotations` and unions make no difference.
    return wanted in str(parameter.annotation)


def _offer(name: str, scope: Scope) -> Any:
    runtime = scope.runtime
    offers: dict[str, Any] = {
        "config": scope.config,
        "runtime": runtime,
        "writer": runtime.stream_writer,
        "store": runtime.store,
        "previous": runtime.previous,
    }
    return offers[name]


def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, also where this thread already runs an event loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(coroutine))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="raygraph-coroutine")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]

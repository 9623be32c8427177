"""Things that are built once per worker process and reused: models, clients, connections."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from raygraph.errors import short

T = TypeVar("T")

_built: Final[dict[str, Any]] = {}
_locks: Final[dict[str, threading.Lock]] = {}
_guard: Final = threading.Lock()


class PerWorker(Generic[T]):
    """Returns the same object in every call within one process. Made by `per_worker`."""

    __slots__ = ("factory", "key")

    def __init__(self, factory: Callable[[], T], key: str) -> None:
        self.factory = factory
        self.key = key

    def __call__(self) -> T:
        """The object, built when it is first asked for in this process."""
        if self.key not in _built:
            with _guard:
                lock = _locks.setdefault(self.key, threading.Lock())
            with lock:
                if self.key not in _built:
                    _built[self.key] = self.factory()
        return _built[self.key]  # type: ignore[no-any-return]  # what the factory made

    def __repr__(self) -> str:
        return f"per_worker({short(self.factory)})"


def per_worker(factory: Callable[[], T]) -> PerWorker[T]:
    """A resource that is built once per worker process, where it is used, and never travels.

        model = per_worker(load_model)

        def node(state):
            return {"label": model().predict(state["text"])}

    Args:
        factory: Makes the resource. It travels to the workers, so it must not capture the resource itself.

    Returns:
        A callable that gives this process's resource; threads of one process share it. If the factory raises,
        the node that asked gets the exception, and the next one to ask tries again.

    Raises:
        TypeError: `factory` cannot be called.
    """
    if not callable(factory):
        raise TypeError(f"per_worker() takes a function that makes the resource; got {short(factory)}.")
    return PerWorker(factory, uuid.uuid4().hex)

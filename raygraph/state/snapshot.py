"""Read-only snapshots: how a value is copied so that nobody can change it for anybody else.

A value that cannot be changed (a number, a string, a tuple of such) is passed as it is. Everything else is
pickled once per channel version (`pack`) and unpickled once per reader (`unpack`), in the driver's process just
as in a worker, so that a node sees the same thing on every executor. Large buffers (numpy arrays) are kept
apart as immutable bytes and come back read-only and without a further copy.

Roads not taken: `copy.deepcopy` (4 to 10 times slower than a pickle round trip, and not what a worker process
sees), frozen proxies for dict and list (`isinstance`, `json` and C code see through them or refuse them).
"""

from __future__ import annotations

import pickle
from typing import Any, Final

ATOMS: Final = frozenset({int, float, str, bytes, bool, type(None), complex})


def is_immutable(value: Any) -> bool:
    """True when `value` can be shared without a copy: an atom, or a tuple or frozenset of such."""
    kind = type(value)
    if kind in ATOMS:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_immutable, value))
    return False


class Packed:
    """A value at rest: itself if immutable, otherwise its pickle and the buffers taken out of it.

    Attributes:
        value: The value where it is immutable or passes by reference.
        data: The pickle, or None where `value` stands for itself.
        buffers: Immutable buffers that the pickle refers to, in order.
    """

    __slots__ = ("buffers", "data", "value")

    def __init__(self, value: Any = None, data: bytes | None = None, buffers: tuple[Any, ...] = ()) -> None:
        self.value = value
        self.data = data
        self.buffers = buffers

    def __reduce__(self) -> tuple[Any, ...]:
        return (Packed, (self.value, self.data, self.buffers))

    @property
    def size(self) -> int:
        """Bytes of the pickle and its buffers; 0 for an immutable value."""
        if self.data is None:
            return 0
        return len(self.data) + sum(memoryview(b).nbytes for b in self.buffers)


def pack(value: Any) -> Packed:
    """Copy `value` into its resting form.

    Raises:
        Exception: Whatever pickling the value raised; the caller knows the node and key and says so.
    """
    if is_immutable(value):
        return Packed(value)
    data, buffers = dumps(value)
    return Packed(None, data, buffers)


def unpack(packed: Packed) -> Any:
    """A private copy of the packed value; its numpy arrays are read-only."""
    if packed.data is None:
        return packed.value
    return pickle.loads(packed.data, buffers=packed.buffers)


def dumps(value: Any) -> tuple[bytes, tuple[Any, ...]]:
    """Pickle `value`, by value where a reference would not be found in another process.

    Plain pickle comes first because it is several times faster. It names classes and functions by module, which
    another process cannot look up for `__main__`; cloudpickle sends those, and whatever plain pickle refuses,
    by value.

    Returns:
        The pickle and the immutable contents of its out-of-band buffers.
    """
    taken: list[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(value, protocol=5, buffer_callback=taken.append)
        by_reference = b"__main__" not in data and not _registered_by_value()
    except Exception:
        by_reference = False
    if not by_reference:
        import cloudpickle

        taken = []
        data = cloudpickle.dumps(value, protocol=5, buffer_callback=taken.append)
    return data, tuple(bytes(buffer.raw()) for buffer in taken)


def loads(data: bytes, buffers: tuple[Any, ...] = ()) -> Any:
    """The inverse of `dumps`."""
    return pickle.loads(data, buffers=buffers)


def _registered_by_value() -> bool:
    import sys

    module = sys.modules.get("cloudpickle")
    return bool(module and module.list_registry_pickle_by_value())

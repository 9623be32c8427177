"""Channels that make a node wait: for several others (joins), or for an idle run (deferred nodes)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from typing_extensions import Self

from raygraph.errors import InvalidUpdateError, did_you_mean, short
from raygraph.state.channels.base import BaseChannel, Value, empty
from raygraph.state.channels.overwrite import find_overwrite
from raygraph.state.constants import MISSING


class LastValueAfterFinish(BaseChannel[Value, Value, tuple[Value, bool]]):
    """Holds the last value written, and shows it only once no node is due any more.

    Args:
        typ: Type of the value.
        key: The state key.
    """

    __slots__ = ("finished", "value")

    clears_when_idle: ClassVar[bool] = False

    value: Any
    finished: bool

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value = MISSING
        self.finished = False

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def get(self) -> Value:
        if not self.is_available():
            raise empty(self.key)
        return self.value  # type: ignore[no-any-return]  # MISSING or a Value

    def is_available(self) -> bool:
        return self.finished and self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        found, inner = find_overwrite(self.key, values)
        self.value = inner if found else values[-1]
        self.finished = False
        return True

    def consume(self) -> bool:
        if not self.finished:
            return False
        self.value = MISSING
        self.finished = False
        return True

    def finish(self) -> bool:
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True

    def checkpoint(self) -> tuple[Value, bool] | Any:
        return MISSING if self.value is MISSING else (self.value, self.finished)

    def from_checkpoint(self, checkpoint: tuple[Value, bool] | Any) -> Self:
        new = self._blank()
        new.value, new.finished = (MISSING, False) if checkpoint is MISSING else checkpoint
        return new

    def from_value(self, value: Value) -> Self:
        return self.from_checkpoint((value, True))


class NamedBarrierValue(BaseChannel[None, Value, Any]):
    """Becomes available once every name has been written; its value is None.

    Args:
        typ: Type of the names.
        names: The names to wait for.
    """

    __slots__ = ("names", "seen")

    clears_when_idle: ClassVar[bool] = False

    names: AbstractSet[Value]
    seen: set[Value]

    def __init__(self, typ: Any, names: AbstractSet[Value]) -> None:
        super().__init__(typ)
        self.names = names
        self.seen = set()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(other.names == self.names)

    def get(self) -> None:
        if not self.is_available():
            raise empty(self.key)

    def is_available(self) -> bool:
        return self.seen == self.names

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        found, inner = find_overwrite(self.key, values)
        if found:
            values = list(inner) if isinstance(inner, (list, tuple, set, frozenset)) else [inner]
        for value in values:
            if value not in self.names:
                raise self._stranger(value)
        before = self.seen
        self.seen = set(values) if found else before.union(values)
        return self.seen != before

    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.seen = set()
        return True

    def checkpoint(self) -> Any:
        return self.seen.copy()

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self._blank()
        new.seen = set() if checkpoint is MISSING else set(checkpoint)
        return new

    def copy(self) -> Self:
        new = self._blank()
        new.seen = self.seen.copy()
        return new

    def from_value(self, value: None) -> Self:
        new = self._blank()
        new.seen = set(self.names)
        return new

    def _blank(self) -> Self:
        new = super()._blank()
        new.names = self.names
        return new

    def _stranger(self, value: Any) -> InvalidUpdateError:
        return InvalidUpdateError(
            f"At key {self.key!r}: Value {short(value)} not in {short(self.names)}, the names that this barrier waits "
            f"for.{did_you_mean(value, map(str, self.names))}",
            key=self.key,
        )


class NamedBarrierValueAfterFinish(NamedBarrierValue[Value]):
    """Becomes available once every name has been written and no node is due any more; its value is None.

    Args:
        typ: Type of the names.
        names: The names to wait for.
    """

    __slots__ = ("finished",)

    finished: bool

    def __init__(self, typ: Any, names: AbstractSet[Value]) -> None:
        super().__init__(typ, names)
        self.finished = False

    def is_available(self) -> bool:
        return self.finished and self.seen == self.names

    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.seen = set()
        self.finished = False
        return True

    def finish(self) -> bool:
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True

    def checkpoint(self) -> Any:
        return (self.seen.copy(), self.finished)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        seen, finished = (MISSING, False) if checkpoint is MISSING else checkpoint
        new = super().from_checkpoint(seen)
        new.finished = finished
        return new

    def copy(self) -> Self:
        new = super().copy()
        new.finished = self.finished
        return new

    def from_value(self, value: None) -> Self:
        new = super().from_value(value)
        new.finished = True
        return new

"""Channels that hold one value: the last one written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import Self

from raygraph.state.channels.base import BaseChannel, Value, empty
from raygraph.state.channels.overwrite import find_overwrite, too_many_values
from raygraph.state.constants import MISSING
from raygraph.state.types import unwrap_overwrite


class SingleValue(BaseChannel[Value, Value, Value]):
    """What the kinds below share. A declared default is made when first needed, once per run."""

    __slots__ = ("default", "initial", "seeded", "value")

    clears_when_idle: ClassVar[bool] = False

    value: Any
    #: Makes the value of a channel nobody wrote to: the declared default, or the type's empty value.
    default: Callable[[], Value] | None
    #: The value that `default` made, for as long as it is known.
    initial: Any
    seeded: bool

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key
        self.value = MISSING
        self.default = None
        self.initial = MISSING
        self.seeded = False

    def get(self) -> Value:
        value = self.value
        if value is not MISSING:
            return value  # type: ignore[no-any-return]  # MISSING or a Value
        if self.default is None:
            raise empty(self.key)
        self.value = self.initial = self.default()
        return self.value  # type: ignore[no-any-return]

    def is_available(self) -> bool:
        return self.value is not MISSING or self.default is not None

    def checkpoint(self) -> Value | Any:
        return self.get() if self.is_available() else MISSING

    def from_checkpoint(self, checkpoint: Value | Any) -> Self:
        new = self._blank()
        new.value = checkpoint
        return new

    def copy(self) -> Self:
        new = self._blank()
        new.value = self.value
        new.initial = self.initial
        return new

    def seed(self, default: Callable[[], Value]) -> None:
        self.default = default
        self.seeded = True

    def declared(self) -> Callable[[], Value] | None:
        return self.default if self.seeded else None

    def _blank(self) -> Self:
        # All of it here, without super(): every step copies the channels it writes to.
        cls = type(self)
        new = cls.__new__(cls)
        new.typ = self.typ
        new.key = self.key
        new.value = new.initial = MISSING
        new.default = self.default
        new.seeded = self.seeded
        if cls._has_dict:
            new.__dict__.update(self.__dict__)
        return new

    def _clear(self) -> bool:
        # Back to the declared default, where there is one: a run that is resumed finds the channel without a
        # stored value and starts from the default too.
        if self.value is MISSING or self.value is self.initial:
            return False
        self.value = self.initial = MISSING
        return True


class LastValue(SingleValue[Value]):
    """Holds the last value written; takes one per super-step. The kind of a key without a reducer.

    Args:
        typ: Type of the value.
        key: The state key.
    """

    __slots__ = ()

    clears_when_idle: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def update(self, values: Sequence[Value]) -> bool:
        if len(values) == 1:
            self.value = unwrap_overwrite(values[0])[1]
            return True
        if not values:
            return False
        found, inner = find_overwrite(self.key, values)
        if not found:
            raise too_many_values(self.key, values)
        self.value = inner
        return True


class AnyValue(SingleValue[Value]):
    """Holds the last of a step's values, taking them to be equal; a step without a value clears it.

    Args:
        typ: Type of the value.
        key: The state key.
    """

    __slots__ = ()

    clears_when_idle: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return self._clear()
        found, inner = find_overwrite(self.key, values)
        self.value = inner if found else values[-1]
        return True


class GuardedValue(SingleValue[Value]):
    """A single value whose `guard` says whether a step may bring several."""

    __slots__ = ("guard",)

    clears_when_idle: ClassVar[bool] = False

    guard: bool

    def __init__(self, typ: Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.guard == self.guard

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return self._clear() if self.clears_when_idle else False
        found, inner = find_overwrite(self.key, values)
        if not found and self.guard and len(values) > 1:
            raise too_many_values(self.key, values, type(self).__name__)
        self.value = inner if found else values[-1]
        return True

    def _blank(self) -> Self:
        new = super()._blank()
        new.guard = self.guard
        return new


class EphemeralValue(GuardedValue[Value]):
    """Holds a value for the one super-step after it was written.

    Args:
        typ: Type of the value.
        guard: True refuses more than one value per step; False keeps the last.
    """

    __slots__ = ()

    clears_when_idle: ClassVar[bool] = True


class UntrackedValue(GuardedValue[Value]):
    """Holds the last value written, and is never stored in a checkpoint.

    Args:
        typ: Type of the value.
        guard: True refuses more than one value per step; False keeps the last.
    """

    __slots__ = ()

    def checkpoint(self) -> Any:
        return MISSING

    def from_checkpoint(self, checkpoint: Any) -> Self:
        return self._blank()

    def from_value(self, value: Value) -> Self:
        new = self._blank()
        new.value = value
        return new

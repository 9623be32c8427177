"""The channel of a key with a reducer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import Self

from raygraph.state.channels.annotations import empty_factory
from raygraph.state.channels.base import Value
from raygraph.state.channels.folding import fold, same_reducer
from raygraph.state.channels.overwrite import find_overwrite
from raygraph.state.channels.values import SingleValue
from raygraph.state.constants import MISSING


class BinaryOperatorAggregate(SingleValue[Value]):
    """Merges each written value into the present one with a reducer, in the fold order.

    Starts as the type's empty value (`[]`, `0`, ...) where it has one; otherwise the first value written is
    taken as it is, without calling the reducer. So it does with a reducer whose attribute `starts_empty` is true.

    Args:
        typ: Type of the value.
        operator: The reducer, `(present, written) -> new`.
    """

    __slots__ = ("operator",)

    clears_when_idle: ClassVar[bool] = False

    operator: Callable[[Value, Value], Value]

    def __init__(self, typ: Any, operator: Callable[[Value, Value], Value]) -> None:
        super().__init__(typ)
        self.operator = operator
        # For some reducers the type's empty value would count as a written one, as 0 does for a minimum.
        self.default = None if getattr(operator, "starts_empty", False) else empty_factory(typ)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.typ!r}, {self.operator!r}, key={self.key!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and same_reducer(self.operator, other.operator)

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        found, inner = find_overwrite(self.key, values)
        if found:
            self.value = inner
        elif self.value is MISSING and self.default is None:
            self.value = fold(self.operator, values[0], values[1:])
        else:
            self.value = fold(self.operator, self.get(), values)
        return True

    def from_checkpoint(self, checkpoint: Value | Any) -> Self:
        # A snapshot comes from a thread that was written while the key was a DeltaChannel.
        held: Any = checkpoint
        return super().from_checkpoint(held.value if is_delta_snapshot(held) else held)

    def _blank(self) -> Self:
        new = super()._blank()
        new.operator = self.operator
        return new


def is_delta_snapshot(checkpoint: Any) -> bool:
    """Whether this is the wrapper in which savers store the full value of a DeltaChannel."""
    # By name: the class is the checkpoint package's, which this layer doesn't import.
    return type(checkpoint).__name__ == "_DeltaSnapshot"

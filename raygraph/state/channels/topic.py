"""The channel that collects many values into a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typing_extensions import Self

from raygraph.state.channels.base import BaseChannel, Value, empty
from raygraph.state.channels.overwrite import find_overwrite
from raygraph.state.constants import MISSING


class Topic(BaseChannel[list[Value], Any, list[Value]]):
    """Collects a step's values; a value that is a list is taken as several.

    Args:
        typ: Type of one value.
        accumulate: True keeps the values of all steps; False only those of the last one.
    """

    __slots__ = ("accumulate", "default", "values")

    accumulate: bool
    values: list[Value]
    default: Callable[[], Iterable[Value]] | None

    def __init__(self, typ: Any, accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.values = []
        self.default = None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.accumulate == self.accumulate

    @property
    def clears_when_idle(self) -> bool:  # type: ignore[override]  # the one kind where it depends on an argument
        return not self.accumulate

    @property
    def ValueType(self) -> Any:
        return Sequence[self.typ]  # type: ignore[name-defined]  # built at run time

    @property
    def UpdateType(self) -> Any:
        return self.typ | list[self.typ]  # type: ignore[name-defined]  # built at run time

    def get(self) -> list[Value]:
        self._settle()
        if not self.values:
            raise empty(self.key)
        return list(self.values)

    def is_available(self) -> bool:
        self._settle()
        return bool(self.values)

    def update(self, values: Sequence[Any]) -> bool:
        self._settle()
        before = self.values
        if not values:
            if self.accumulate or not before:
                return False
            self.values = []
            return True
        found, inner = find_overwrite(self.key, values)
        if found:
            self.values = _flat((inner,))
            return True
        added = _flat(values)
        if self.accumulate:
            before.extend(added)
            return bool(added)
        self.values = added
        return bool(before or added)

    def checkpoint(self) -> list[Value]:
        self._settle()
        return list(self.values)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self._blank()
        if checkpoint is not MISSING:
            # Older LangGraph stored (values seen so far, values).
            new.values = list(checkpoint[1] if isinstance(checkpoint, tuple) else checkpoint)
            new.default = None
        return new

    def copy(self) -> Self:
        new = self._blank()
        new.values = list(self.values)
        return new

    def seed(self, default: Callable[[], Iterable[Value]]) -> None:
        self.default = default

    def declared(self) -> Callable[[], Any] | None:
        return self.default

    def _blank(self) -> Self:
        new = super()._blank()
        new.accumulate = self.accumulate
        new.values = []
        new.default = self.default
        return new

    def _settle(self) -> None:
        # The default is only the start: once made it is an ordinary value, which later steps may clear.
        if self.default is not None:
            self.values = list(self.default())
            self.default = None


def _flat(values: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list):
            flat.extend(value)
        else:
            flat.append(value)
    return flat

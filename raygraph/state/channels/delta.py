"""The reducer channel that stores what was written instead of the whole value."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import Self

from raygraph.errors import InvalidUpdateError
from raygraph.state.channels.aggregate import is_delta_snapshot
from raygraph.state.channels.annotations import concrete, empty_factory
from raygraph.state.channels.base import Value
from raygraph.state.channels.folding import same_reducer
from raygraph.state.channels.overwrite import find_overwrite
from raygraph.state.channels.values import SingleValue
from raygraph.state.constants import MISSING
from raygraph.state.types import unwrap_overwrite


class DeltaChannel(SingleValue[Value]):
    """Merges a step's values in one call of its reducer, and is stored as those values.

    On load, the values written since the last full snapshot are replayed in one call, so the reducer must be
    deterministic and must not care how values are batched: `r(r(s, xs), ys) == r(s, xs + ys)`.

    Args:
        reducer: `(present, [written, ...]) -> new`.
        typ: Type of the value; inside `Annotated` the annotated type is used.
        snapshot_frequency: After that many updates the full value is stored.

    Raises:
        ValueError: If `snapshot_frequency` is not positive.
    """

    __slots__ = ("reducer", "snapshot_frequency")

    clears_when_idle: ClassVar[bool] = False

    reducer: Callable[[Any, Sequence[Any]], Any]
    snapshot_frequency: int

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any],
        typ: Any = None,
        *,
        snapshot_frequency: int = 100,
    ) -> None:
        if snapshot_frequency <= 0:
            raise ValueError(
                f"snapshot_frequency must be a positive int, got {snapshot_frequency}: it is the number of "
                "updates between two stored snapshots."
            )
        super().__init__(list if typ is None else concrete(typ))
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and other.snapshot_frequency == self.snapshot_frequency
            and same_reducer(self.reducer, other.reducer)
        )

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        found, inner = find_overwrite(self.key, values)
        self.value = self._reset(inner) if found else self.reducer(self._base(), list(values))
        return True

    def checkpoint(self) -> Any:
        """Always `MISSING`: whoever stores knows when a full snapshot is due, and takes `get()`."""
        return MISSING

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """A channel that holds a stored snapshot or plain value; for `MISSING` (or None), the empty value.

        The caller replays the writes stored since then with `replay_writes`.
        """
        if checkpoint is MISSING or checkpoint is None:
            new = self._blank()
            if self.default is None:
                new.default = empty_factory(self.typ)
            return new
        return self.from_value(checkpoint.value if is_delta_snapshot(checkpoint) else checkpoint)

    def from_value(self, value: Value) -> Self:
        new = self._blank()
        new.value = value
        return new

    def copy(self) -> Self:
        new = super().copy()
        if new.value is not MISSING:
            # Reducers of this kind often extend the value in place.
            new.value = copy.copy(new.value)
        return new

    def replay_writes(self, writes: Sequence[tuple[str, str, Any]]) -> None:
        """Apply stored writes, oldest first, in a single call of the reducer.

        The last `Overwrite` is the new start. Writes that came after it in its own step can't be told from
        later ones here, so a step with an `Overwrite` has to be stored as a snapshot.

        Args:
            writes: `(task id, key, value)` of each.
        """
        values = [value for _, _, value in writes]
        if not values:
            return
        base: Any = MISSING
        start = 0
        for i, value in enumerate(values):
            is_overwrite, inner = unwrap_overwrite(value)
            if is_overwrite:
                base, start = self._reset(inner), i + 1
        if base is MISSING:
            base = self._base()
        self.value = self.reducer(base, values[start:]) if values[start:] else base

    def _base(self) -> Any:
        return self.get() if self.is_available() else self._empty()

    def _reset(self, inner: Any) -> Any:
        # None stands for "empty" here, as in LangGraph. The copy keeps a reducer that works in place from
        # changing the value stored with the write.
        return self._empty() if inner is None else copy.copy(inner)

    def _empty(self) -> Any:
        factory = empty_factory(self.typ)
        if factory is None:
            raise InvalidUpdateError(
                f"At key {self.key!r}: there is no empty value of type {self.typ!r} for DeltaChannel to "
                "start from. Annotate the key with a type that can be called without arguments (list, dict, "
                "...), or declare a default.",
                key=self.key,
            )
        return factory()

    def _blank(self) -> Self:
        new = super()._blank()
        new.reducer = self.reducer
        new.snapshot_frequency = self.snapshot_frequency
        return new

"""Reducers to put into `Annotated` state keys: `Annotated[list, append]`, `Annotated[dict, merge]`, ...

All are pure: they never change an operand. Each states the laws it keeps (up to `==`), and the tests hold it to
them:

- associative: grouping does not matter, so a part of the values may be folded first;
- commutative: the order of the writers does not matter;
- idempotent: merging a value into itself gives that value.

The fold order is fixed anyway, so a reducer without a law is still deterministic. A reducer with `fold_many` takes
all of a step's values in linear time. One with `starts_empty` leaves its key without a value until the first
write, instead of starting from the type's empty value. All can be pickled and compared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from raygraph.errors import short
from raygraph.state.merging import DeepMerge as _DeepMerge
from raygraph.state.merging import OnConflict
from raygraph.state.picking import KeepBest as _KeepBest
from raygraph.state.picking import Key, look_up

#: `left + right`, as the values' own type does it. Associative for numbers without rounding and for sequences.
add: Final[Callable[[Any, Any], Any]] = operator.add


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True)
class _Append:
    """The class of `append` and of `sliding_window`."""

    keep: int | None = None

    def __call__(self, left: Any, right: Any) -> list[Any]:
        return self.fold_many(left, (right,))

    def fold_many(self, left: Any, values: Sequence[Any]) -> list[Any]:
        items = [] if left is None else list(_as_list(left))
        for value in values:
            items.extend(_as_list(value))
        return items if self.keep is None else items[-self.keep :]


#: Append to a list: a list is taken as several items, anything else as one. Associative.
append: Final = _Append()


def sliding_window(n: int) -> _Append:
    """Append like `append`, and keep the last `n` items. Associative.

    Args:
        n: How many to keep, at least 1.

    Raises:
        ValueError: If `n` is not a positive int.
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"sliding_window needs a positive int, the number of items to keep; got n={short(n)}.")
    return _Append(n)


@dataclass(frozen=True, slots=True)
class _Unique:
    """The class of `unique` and of `unique_by`."""

    key: Key | None = None

    def __call__(self, left: Any, right: Any) -> list[Any]:
        return self.fold_many(left, (right,))

    def fold_many(self, left: Any, values: Sequence[Any]) -> list[Any]:
        items = [] if left is None else list(_as_list(left))
        seen: set[Any] = set()
        unhashable: list[Any] = []
        for item in items:
            self._is_new(item, seen, unhashable)
        for value in values:
            items.extend(item for item in _as_list(value) if self._is_new(item, seen, unhashable))
        return items

    def _is_new(self, item: Any, seen: set[Any], unhashable: list[Any]) -> bool:
        mark = item if self.key is None else look_up(item, self.key, "unique_by")
        try:
            if mark in seen:
                return False
            seen.add(mark)
        except TypeError:
            if mark in unhashable:
                return False
            unhashable.append(mark)
        return True


#: Append the items that are not in the list yet, comparing with `==`. Associative; idempotent on lists
#: without duplicates.
unique: Final = _Unique()


def unique_by(key: Key) -> _Unique:
    """Append the items whose key is not in the list yet; the first item with a key stays.

    Associative; idempotent on lists without duplicates.

    Args:
        key: A function of the item, or the name of its attribute or dict key.
    """
    return _Unique(key)


def union(left: AbstractSet[Any] | None, right: Iterable[Any]) -> AbstractSet[Any]:
    """Add the elements of `right` to the set `left`. Associative, commutative, idempotent.

    Raises:
        TypeError: If `right` is a string or no collection, which is more likely a mistake than meant.
    """
    if isinstance(right, (str, bytes)) or not isinstance(right, Iterable):
        raise TypeError(f"union takes a set or another collection, got {short(right)}. Put it in one: {{...}}.")
    return (set() if left is None else left) | frozenset(right)


def total(left: Any, right: Any) -> Any:
    """Sum of numbers; None counts as nothing. Associative and commutative for numbers without rounding.

    Raises:
        TypeError: If an operand is no number.
    """
    for value in (left, right):
        if isinstance(value, (str, bytes, list, tuple, dict)):
            raise TypeError(f"total adds numbers, got {short(value)}. Use `add` or `append` for sequences.")
    if left is None or right is None:
        return left if right is None else right
    return left + right


@dataclass(frozen=True, slots=True)
class _Extreme:
    """The class of `maximum` and `minimum`."""

    name: str
    wins: Callable[[Any, Any], Any]
    starts_empty: ClassVar[bool] = True

    def __call__(self, left: Any, right: Any) -> Any:
        # NaN answers every comparison with False, so without this the result would depend on the order.
        if left is None or left != left:
            return right if right is not None else left
        if right is None or right != right:
            return left
        return right if self.wins(right, left) else left


#: The larger value; None and NaN lose against any number. Associative, commutative, idempotent.
maximum: Final = _Extreme("maximum", operator.gt)
#: The smaller value; None and NaN lose against any number. Associative, commutative, idempotent.
minimum: Final = _Extreme("minimum", operator.lt)


@dataclass(frozen=True, slots=True)
class _FirstNonNull:
    """The class of `first_non_null`."""

    starts_empty: ClassVar[bool] = True

    def __call__(self, left: Any, right: Any) -> Any:
        return right if left is None else left


#: The first value that is not None. Associative, idempotent.
first_non_null: Final = _FirstNonNull()


def latest_by(key: Key) -> _KeepBest:
    """Keep the value whose key, such as a time stamp, is greatest. Associative, commutative, idempotent.

    Values with equal keys are ordered by their contents, so the result does not depend on who was first.

    Args:
        key: A function of the value, or the name of its attribute or dict key.
    """
    return _KeepBest("latest_by", key)


def keep_highest(key: Key = "confidence") -> _KeepBest:
    """Keep the value whose key, such as a confidence, is highest. Associative, commutative, idempotent.

    Values with equal keys are ordered by their contents, so the result does not depend on who was first.

    Args:
        key: A function of the value, or the name of its attribute or dict key.
    """
    return _KeepBest("keep_highest", key)


def deep_merge(on_conflict: OnConflict = "error") -> _DeepMerge:
    """Merge dicts within dicts; at a key that only one side has, that side's value is taken.

    Associative as long as no key is a dict on one side and something else on another; with "error" also
    commutative. Idempotent.

    Args:
        on_conflict: What happens where both sides have different values that are not both dicts: "error", or the
            side that wins, "left" (the earlier) or "right" (the later).

    Raises:
        ValueError: If `on_conflict` is something else.
    """
    return _DeepMerge(on_conflict)


#: Merge dicts within dicts; two different values for one inner key are an error that names its path. See `deep_merge`.
merge: Final = _DeepMerge("error")

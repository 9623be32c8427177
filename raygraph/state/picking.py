"""Keeping one of several values by a key, with ties broken by the values' contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar

from raygraph.errors import InvalidUpdateError, short

#: A function of the value, or the name of its attribute or dict key.
Key = Callable[[Any], Any] | str


@dataclass(frozen=True, slots=True)
class KeepBest:
    """The reducer that `raygraph.reducers.latest_by` and `keep_highest` make. None loses against any value."""

    name: str
    key: Key
    starts_empty: ClassVar[bool] = True

    def __call__(self, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        ours, theirs = look_up(left, self.key, self.name), look_up(right, self.key, self.name)
        # NaN equals nothing and exceeds nothing, itself included; as a key it loses.
        if ours == theirs or (ours != ours and theirs != theirs):
            return right if _before(left, right) else left
        return right if theirs > ours or ours != ours else left


def look_up(value: Any, key: Key, reducer: str) -> Any:
    """The key of a value.

    Raises:
        InvalidUpdateError: If the value has no such attribute or dict key.
    """
    if not isinstance(key, str):
        return key(value)
    try:
        return value[key] if isinstance(value, Mapping) else getattr(value, key)
    except (KeyError, AttributeError) as error:
        raise InvalidUpdateError(
            f"{reducer}({key!r}) was given {short(value)}, which has no {key!r}. Write values that have it, or give "
            f"{reducer} a function of the value.",
            code="INVALID_REDUCER_VALUE",
        ) from error


def _before(left: Any, right: Any) -> bool:
    try:
        return canonical(left) < canonical(right)
    except TypeError:
        # No plain data: then the earlier one in the fold order stays, which is just as fixed.
        return False


def canonical(value: Any) -> tuple[Any, ...]:
    """A sort key for plain data, equal in every process: it depends on contents, never on hashes or addresses.

    Raises:
        TypeError: If there is something in `value` whose contents cannot be told.
    """
    kind = type(value).__qualname__
    if value is None:
        return ("", kind)
    if isinstance(value, Enum):
        return (kind, value.name)
    if isinstance(value, (bool, int, float)):
        return ("number", value if value == value else float("-inf"), kind, repr(value))
    if isinstance(value, (str, bytes)):
        return (kind, value)
    if isinstance(value, (list, tuple)):
        return (kind, tuple(map(canonical, value)))
    if isinstance(value, (set, frozenset)):
        return (kind, tuple(sorted(map(canonical, value))))
    if isinstance(value, dict):
        return (kind, tuple(sorted((canonical(k), canonical(v)) for k, v in value.items())))
    if is_dataclass(value):
        return (kind, tuple(canonical(getattr(value, field.name)) for field in fields(value)))
    for contents in ("model_dump", "isoformat"):
        method = getattr(value, contents, None)
        if callable(method):
            return (kind, canonical(method()))
    raise TypeError(f"no canonical order for {kind}")

"""Merging nested dicts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from raygraph.errors import InvalidUpdateError, short

OnConflict = Literal["error", "left", "right"]


@dataclass(frozen=True, slots=True)
class DeepMerge:
    """The reducer that `raygraph.reducers.deep_merge` makes."""

    on_conflict: OnConflict = "error"

    def __post_init__(self) -> None:
        if self.on_conflict not in get_args(OnConflict):
            raise ValueError(f"on_conflict must be 'error', 'left' or 'right'; got {short(self.on_conflict)}.")

    def __call__(self, left: Any, right: Any) -> Any:
        return self.fold_many(left, (right,))

    def fold_many(self, left: Any, values: Sequence[Any]) -> Any:
        # The dicts made here, by id (and kept alive, so that no id comes up twice): only they may be changed.
        own: dict[int, dict[Any, Any]] = {}
        result = _owned({} if left is None else _checked(left), own)
        for value in values:
            self._into(result, _checked(value), own, ())
        return result

    def _into(
        self, target: dict[Any, Any], source: dict[Any, Any], own: dict[int, dict[Any, Any]], path: tuple[Any, ...]
    ) -> None:
        for key, value in source.items():
            if key not in target:
                target[key] = value
                continue
            present = target[key]
            if isinstance(present, dict) and isinstance(value, dict):
                inner = target[key] = _owned(present, own)
                self._into(inner, value, own, (*path, key))
            elif _differ(present, value):
                if self.on_conflict == "error":
                    raise _conflict((*path, key), present, value)
                if self.on_conflict == "right":
                    target[key] = value


def _owned(value: dict[Any, Any], own: dict[int, dict[Any, Any]]) -> dict[Any, Any]:
    if id(value) in own:
        return value
    mine = copy.copy(value)
    own[id(mine)] = mine
    return mine


def _checked(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"merge takes dicts, got {short(value)} ({type(value).__name__}).")
    return value


def _conflict(path: tuple[Any, ...], present: Any, value: Any) -> InvalidUpdateError:
    where = "".join(f"[{key!r}]" for key in path)
    return InvalidUpdateError(
        f"Two different values for the inner key {where}: {short(present)} and {short(value)}. Let one node write "
        "it, or choose a side with deep_merge('left') or deep_merge('right').",
        code="MERGE_CONFLICT",
    )


def _differ(a: Any, b: Any) -> bool:
    if a is b:
        return False
    # Of the same type, so that True does not pass for 1.
    if type(a) is not type(b):
        return True
    try:
        equal = a == b
        every = getattr(equal, "all", None)
        return not (every() if callable(every) else equal)
    except Exception:
        return True

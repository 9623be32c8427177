"""Applying a reducer to many values, and comparing reducers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final


def fold(reducer: Callable[[Any, Any], Any], left: Any, values: Sequence[Any]) -> Any:
    """Left fold of `reducer` over `values`, starting from `left`.

    A reducer with an attribute `fold_many(left, values)` is asked once for all of them; it must return what
    the left fold would. Concatenating built-in lists, tuples, strings or bytes takes linear instead of
    quadratic time.
    """
    if len(values) > 1:
        many = getattr(reducer, "fold_many", None)
        if many is not None:
            return many(left, values)
        # Not `operator.iadd`, which changes its left operand.
        if reducer is operator.add or reducer is operator.concat:
            kind = type(left)
            # Exact types only: a subclass may define its own `+`.
            if kind in _JOIN and set(map(type, values)) == {kind}:
                return _JOIN[kind](left, values)
    for value in values:
        left = reducer(left, value)
    return left


def _join_list(left: list[Any], values: Sequence[list[Any]]) -> list[Any]:
    joined = list(left)
    for value in values:
        joined.extend(value)
    return joined


def _join_tuple(left: tuple[Any, ...], values: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return (*left, *chain.from_iterable(values))


def _join_str(left: str, values: Sequence[str]) -> str:
    return left + "".join(values)


def _join_bytes(left: bytes, values: Sequence[bytes]) -> bytes:
    return left + b"".join(values)


_JOIN: Final[dict[type[Any], Callable[[Any, Any], Any]]] = {
    list: _join_list,
    tuple: _join_tuple,
    str: _join_str,
    bytes: _join_bytes,
}


def same_reducer(a: Any, b: Any) -> bool:
    """Whether two reducers count as the same one when a key is declared twice.

    Two lambdas do, since writing the same one twice makes two functions; partials do when their parts do.
    """
    if a is b:
        return True
    if isinstance(a, partial) and isinstance(b, partial):
        return same_reducer(a.func, b.func) and _equal(a.args, b.args) and _equal(a.keywords, b.keywords)
    if getattr(a, "__name__", None) == getattr(b, "__name__", None) == "<lambda>":
        return True
    return _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:
        # An argument such as an array has no yes-or-no equality; then the reducers are different ones.
        return False

"""Reducers that come with raygraph, for `Annotated` state keys."""

from __future__ import annotations

from raygraph.state.reducers import (
    add,
    append,
    deep_merge,
    first_non_null,
    keep_highest,
    latest_by,
    maximum,
    merge,
    minimum,
    sliding_window,
    total,
    union,
    unique,
    unique_by,
)

__all__ = [
    "add",
    "append",
    "deep_merge",
    "first_non_null",
    "keep_highest",
    "latest_by",
    "maximum",
    "merge",
    "minimum",
    "sliding_window",
    "total",
    "union",
    "unique",
    "unique_by",
]

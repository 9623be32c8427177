"""What every channel kind shares about `Overwrite`, and the errors for too many values in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from raygraph.errors import InvalidUpdateError, short
from raygraph.state.types import Overwrite, unwrap_overwrite

#: Code of the errors about several values for one key in one super-step (LangGraph's name).
CONCURRENT: Final = "INVALID_CONCURRENT_GRAPH_UPDATE"


def find_overwrite(key: str, values: Sequence[Any]) -> tuple[bool, Any]:
    """Look for the one `Overwrite` among a step's values; it decides the key's value alone.

    Returns:
        `(True, inner value)`, or `(False, None)` where there is none.

    Raises:
        InvalidUpdateError: If there are two.
    """
    if len(values) == 1:
        return unwrap_overwrite(values[0])
    # One pass at C speed settles it for the usual step, in which no value's type could be an Overwrite.
    if not any(kind is dict or issubclass(kind, Overwrite) for kind in set(map(type, values))):
        return False, None
    inner: list[Any] = []
    for value in values:
        is_overwrite, held = unwrap_overwrite(value)
        if is_overwrite:
            inner.append(held)
    if len(inner) > 1:
        raise InvalidUpdateError(
            f"At key {key!r}: Can receive only one Overwrite value per super-step, got {_listed(inner)}. Let a "
            "single node overwrite the key, or do it in different steps.",
            code=CONCURRENT,
            key=key,
        )
    return (True, inner[0]) if inner else (False, None)


def too_many_values(key: str, values: Sequence[Any], kind: str = "") -> InvalidUpdateError:
    """The error for several values of a key that takes one per step.

    Channels don't know the nodes; `reduce` adds who wrote what.

    Args:
        key: The state key.
        values: The values, in the fold order.
        kind: The channel's kind, for those that have a `guard`.
    """
    if kind:
        way_out = f"Use {kind}(..., guard=False) to keep the last one"
    else:
        way_out = (
            "Use an Annotated key with a reducer to handle multiple values "
            f"(for example `{key}: Annotated[list, operator.add]`)"
        )
    return InvalidUpdateError(
        f"At key {key!r}: Can receive only one value per step. {way_out}, or let a single node write it. "
        f"Got {_listed(values)}.",
        code=CONCURRENT,
        key=key,
    )


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(short(value) for value in values[:4])
    return f"{len(values)}: {shown}{', ...' if len(values) > 4 else ''}"

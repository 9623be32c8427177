"""What every channel kind shares about `Overwrite`, and the errors for too many values in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from raygraph.errors import InvalidUpdateError, short
from raygraph.state.constants import MISSING
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
        raise two_overwrites(key, inner)
    return (True, inner[0]) if inner else (False, None)


def two_overwrites(key: str, inner: Sequence[Any], writers: Sequence[str] = ()) -> InvalidUpdateError:
    """The error for more than one `Overwrite` of a key in one step.

    Args:
        key: The state key.
        inner: What the overwrites hold, in the fold order.
        writers: The node behind each, where known.
    """
    return InvalidUpdateError(
        f"At key {key!r}: Can receive only one Overwrite value per super-step, got {len(inner)}: "
        f"{_listed(inner, writers)}. Let a single node overwrite the key, or do it in different steps.",
        code=CONCURRENT,
        key=key,
    )


def too_many_values(
    key: str,
    values: Sequence[Any],
    *,
    writers: Sequence[str] = (),
    current: Any = MISSING,
    kind: str = "",
) -> InvalidUpdateError:
    """The error for several values of a key that takes one per step.

    Args:
        key: The state key.
        values: The values, in the fold order.
        writers: The node behind each value, where known. Channels don't know; `reduce` builds the error anew.
        current: What the key held before, to recognise a value that was only echoed.
        kind: The channel's kind, for those that have a `guard`.
    """
    if kind:
        way_out = f"Use {kind}(..., guard=False) to keep the last one, or let a single node write it."
    else:
        way_out = (
            "Use an Annotated key with a reducer to handle multiple values "
            f"(for example `{key}: Annotated[list, operator.add]`), or let a single node write it."
        )
    text = (
        f"At key {key!r}: Can receive only one value per step. {way_out} "
        f"Got {len(values)}: {_listed(values, writers)}."
    )
    echoed = [i for i, value in enumerate(values) if current is not MISSING and _same(value, current)]
    if echoed:
        who = " and ".join(dict.fromkeys(f"node {writers[i]!r}" for i in echoed)) if writers else "a node"
        text += f" What {who} returned is what the key held already: return only the keys a node changes."
    return InvalidUpdateError(text, code=CONCURRENT, key=key)


def _listed(values: Sequence[Any], writers: Sequence[str]) -> str:
    shown = [short(value) for value in values[:4]]
    if writers:
        shown = [f"{text} from node {node!r}" for text, node in zip(shown, writers, strict=False)]
    if len(values) > 4:
        shown.append("...")
    return ", ".join(shown)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:
        # Arrays answer == with an array; a hint is not worth failing for.
        return False

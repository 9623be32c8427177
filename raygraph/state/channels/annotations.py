"""Taking a type annotation apart: its wrappers, its metadata, and the value such a key starts with."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args, get_origin

from typing_extensions import NotRequired, ReadOnly, Required, TypeAliasType

_QUALIFIERS: Final = (Required, NotRequired, ReadOnly)

#: Abstract types cannot be instantiated; a key of that type starts as the usual concrete one.
_CONCRETE: Final[dict[Any, type[Any]]] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def peel(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split an annotation into the type proper and all its `Annotated` metadata.

    `Annotated`, `Required`, `NotRequired` and `ReadOnly` may be nested in any order.

    Returns:
        The type, and the metadata from the innermost `Annotated` to the outermost.
    """
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            metadata = annotation.__metadata__ + metadata
            annotation = annotation.__origin__
        elif origin in _QUALIFIERS:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        else:
            return annotation, metadata


def concrete(annotation: Any) -> Any:
    """The class to instantiate for a value of that type; it need not be callable."""
    core = peel(annotation)[0]
    origin = get_origin(core)
    core = core if origin is None else origin
    try:
        return _CONCRETE.get(core, core)
    except TypeError:
        return core


def empty_factory(annotation: Any) -> Callable[[], Any] | None:
    """What makes the empty value of a type (`[]`, `0`, `set()`...), or None where it has none."""
    factory = concrete(annotation)
    try:
        factory()
    except Exception:
        # Unions, Literal, abstract classes, classes whose constructor wants arguments: the key starts empty.
        return None
    return factory  # type: ignore[no-any-return]  # it was just called

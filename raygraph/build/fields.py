"""The fields of a schema class: their names and their declared defaults.

Pydantic is never imported here: a user's class can only be a model if the user's program imported it.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
import weakref
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, get_origin

from typing_extensions import get_type_hints, is_typeddict

from raygraph.state.snapshot import is_immutable

_KEYS: Final[weakref.WeakKeyDictionary[type[Any], tuple[str, ...]]] = weakref.WeakKeyDictionary()


def is_pydantic(cls: type[Any]) -> bool:
    """Whether `cls` is a pydantic (version 2) model class."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


def schema_class(schema: Any) -> type[Any] | None:
    """The class whose fields are the state's keys, or None where the whole state is one value.

    Args:
        schema: What the user passed: a class, or something like `State[int]`, `list[str]`, `Annotated[...]`.
    """
    origin = get_origin(schema)
    cls = schema if origin is None else origin
    if not isinstance(cls, type) or origin is Annotated:
        return None
    if is_typeddict(cls) or dataclasses.is_dataclass(cls) or is_pydantic(cls):
        return cls
    return cls if any(map(inspect.get_annotations, cls.__mro__)) else None


def schema_keys(cls: type[Any]) -> tuple[str, ...]:
    """Names of a schema class's fields, inherited ones first; empty for a class without annotations.

    Class variables, pydantic's private attributes and `InitVar`s are no fields.
    """
    keys = _KEYS.get(cls)
    if keys is None:
        keys = _KEYS[cls] = _read_keys(cls)
    return keys


def _read_keys(cls: type[Any]) -> tuple[str, ...]:
    if schema_class(cls) is None:
        return ()
    if is_pydantic(cls):
        return tuple(cls.model_fields)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    hints: dict[str, Any] = {}
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception:
        # An annotation that cannot be resolved still has a name.
        for base in reversed(cls.__mro__):
            hints.update(inspect.get_annotations(base))
    return tuple(name for name, hint in hints.items() if name != "__slots__" and not _is_class_variable(hint))


def _is_class_variable(hint: Any) -> bool:
    special: Any = ClassVar
    return hint is special or get_origin(hint) is special


def input_constructor(schema: Any) -> type[Any] | None:
    """The class to construct a node's input from with `cls(**values)`, or None for a plain dict.

    Dataclasses and pydantic models are constructed; TypedDicts and other annotated classes are not.
    """
    cls = schema_class(schema)
    return cls if cls is not None and (dataclasses.is_dataclass(cls) or is_pydantic(cls)) else None


class Constant:
    """A factory for a constant default that hands out a copy of it where it can be changed.

    Args:
        value: The declared default.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        if is_immutable(self.value):
            return self.value
        try:
            return copy.deepcopy(self.value)
        except Exception:
            # A client, a lock: nothing to merge into, and no second one to be had.
            return self.value


def declared_default(cls: type[Any], name: str) -> Callable[[], Any] | None:
    """A factory of the default that a dataclass or pydantic model declares for a field; None without one.

    A pydantic factory that takes the other fields' values has no value of its own; it applies only where the
    model is constructed.
    """
    if is_pydantic(cls):
        field = cls.model_fields[name]
        factory = field.default_factory
        if factory is None:
            return None if field.is_required() else Constant(field.default)
        return None if getattr(field, "default_factory_takes_validated_data", False) else factory
    if dataclasses.is_dataclass(cls):
        for spec in dataclasses.fields(cls):
            if spec.name == name:
                if spec.default_factory is not dataclasses.MISSING:
                    return spec.default_factory
                return None if spec.default is dataclasses.MISSING else Constant(spec.default)
    return None

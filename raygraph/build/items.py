"""What an instance of a schema class says about the state: as a run's input, and as a node's update."""

from __future__ import annotations

import dataclasses
from typing import Any

from raygraph.build.fields import Constant, declared_default, is_pydantic, schema_keys
from raygraph.state.constants import MISSING


def explicit_items(obj: Any) -> list[tuple[str, Any]]:
    """The fields that were given explicitly when `obj`, an instance used as a run's input, was made.

    Pydantic keeps a record of them. Of a dataclass they are the fields that differ from their declared
    default; of any other annotated object, the attributes that exist.
    """
    cls = type(obj)
    items = _present(obj)
    if is_pydantic(cls):
        return [(name, value) for name, value in items if name in obj.model_fields_set]
    if dataclasses.is_dataclass(cls):
        return [(name, value) for name, value in items if not _is_default(cls, name, value)]
    return items


def update_items(obj: Any) -> list[tuple[str, Any]]:
    """The updates that `obj`, an instance returned by a node, stands for; the rule is LangGraph's.

    A field counts if the attribute exists, unless it is None by a pydantic default of None.
    """
    items = _present(obj)
    cls = type(obj)
    if not is_pydantic(cls):
        return items
    return [
        (name, value)
        for name, value in items
        if value is not None or name in obj.model_fields_set or cls.model_fields[name].default is not None
    ]


def _present(obj: Any) -> list[tuple[str, Any]]:
    found = ((name, getattr(obj, name, MISSING)) for name in schema_keys(type(obj)))
    return [(name, value) for name, value in found if value is not MISSING]


def _is_default(cls: type[Any], name: str, value: Any) -> bool:
    factory = declared_default(cls, name)
    if factory is None:
        return False
    default = factory.value if isinstance(factory, Constant) else factory()
    if value is default:
        return True
    try:
        # Same type too: True is not the default 1.
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return False

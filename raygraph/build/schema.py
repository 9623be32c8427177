"""From a schema to channels: every key of the state gets one when the graph is built."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from typing_extensions import get_type_hints

from raygraph.build.fields import declared_default, input_constructor, schema_class, schema_keys
from raygraph.build.items import explicit_items, update_items
from raygraph.build.merge import Channel, merge_channels
from raygraph.errors import GraphDefinitionError, short
from raygraph.state.channels import BaseChannel, BinaryOperatorAggregate, DeltaChannel, LastValue
from raygraph.state.channels.annotations import concrete, peel
from raygraph.state.constants import ROOT
from raygraph.state.managed import ManagedValueSpec, is_managed_value

__all__ = [
    "SchemaKeys",
    "explicit_items",
    "input_constructor",
    "merge_channels",
    "read_schema",
    "schema_keys",
    "schema_name",
    "update_items",
]


class SchemaKeys(NamedTuple):
    """What a schema declares.

    Attributes:
        channels: By key; new and empty, seeded with declared defaults.
        managed: The managed values, by key.
        hints: The annotation of every key, managed ones included; empty where the state is one value.
    """

    channels: dict[str, Channel]
    managed: dict[str, ManagedValueSpec]
    hints: dict[str, Any]


def schema_name(schema: Any) -> str:
    """What to call a schema in a message."""
    return schema.__name__ if isinstance(schema, type) and get_origin(schema) is None else str(schema)


def read_schema(schema: Any, *, allow_managed: bool = True) -> SchemaKeys:
    """Make a channel of every key of a schema.

    Args:
        schema: A TypedDict, dataclass, pydantic model or other class with annotations. Anything else, such as
            `int` or `Annotated[list, operator.add]`, is a state of one value under the key `__root__`.
        allow_managed: False for input and output schemas, which cannot hold managed values.

    Raises:
        GraphDefinitionError: If an annotation cannot be resolved or used; every such key is named.
    """
    name = schema_name(schema)
    cls = schema_class(schema)
    if cls is None:
        hints: dict[str, Any] = {ROOT: schema}
    else:
        resolved = _resolve(cls)
        hints = {key: resolved[key] for key in schema_keys(cls) if key in resolved}
    channels: dict[str, Channel] = {}
    managed: dict[str, ManagedValueSpec] = {}
    problems: list[str] = []
    for key, annotation in hints.items():
        spec = _managed(annotation)
        if spec is not None:
            if allow_managed and cls is not None:
                managed[key] = spec
            else:
                problems.append(
                    f"Key {key!r} of {name} is a managed value ({spec.__name__}): nodes read it and nobody "
                    "writes it, so it belongs in the state schema or a node's input schema, not in a graph's "
                    "input or output."
                )
            continue
        try:
            channels[key] = _channel(key, annotation, name)
        except GraphDefinitionError as error:
            problems.append(str(error))
            continue
        default = declared_default(cls, key) if cls is not None else None
        if default is not None:
            channels[key].seed(default)
    if problems:
        raise GraphDefinitionError("\n".join(problems))
    return SchemaKeys(channels, managed, hints if cls is not None else {})


def _resolve(cls: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise GraphDefinitionError(
            f"Schema {cls.__qualname__}: {error}, so its annotations cannot be resolved. With `from "
            "__future__ import annotations` (or quoted annotations) every name in them must exist in the "
            "module: move the schema and what it names to module level, outside `if TYPE_CHECKING`."
        ) from error


def _managed(annotation: Any) -> ManagedValueSpec | None:
    core, metadata = peel(annotation)
    for item in metadata:
        spec = get_origin(item) or item
        if is_managed_value(spec):
            return spec
    if get_origin(core) in (Union, UnionType):
        for member in get_args(core):
            spec = _managed(member)
            if spec is not None:
                return spec
    return None


def _channel(key: str, annotation: Any, schema: str) -> Channel:
    core, metadata = peel(annotation)
    channel = _given_channel(key, core, metadata, schema)
    if channel is None:
        if metadata and callable(metadata[-1]):
            _check_reducer(key, metadata[-1], schema)
            channel = BinaryOperatorAggregate(core, metadata[-1])
        else:
            channel = LastValue(annotation if metadata else core)
    channel.key = key
    return channel


def _given_channel(key: str, core: Any, metadata: tuple[Any, ...], schema: str) -> Channel | None:
    for item in metadata:
        if isinstance(item, BaseChannel):
            # A copy: the same instance may annotate several keys, and each channel knows its own.
            channel = item.copy()
            if isinstance(channel, DeltaChannel):
                channel.typ = concrete(core)
            return channel
        kind = get_origin(item) or item
        if isinstance(kind, type) and issubclass(kind, BaseChannel):
            try:
                return kind(core)
            except TypeError as error:
                raise GraphDefinitionError(
                    f"Key {key!r} of {schema}: {kind.__name__} needs more than a type ({error}). Put an "
                    f"instance into the annotation: Annotated[..., {kind.__name__}(...)].",
                    key=key,
                ) from error
        _refuse_foreign(key, kind, schema)
    return None


def _refuse_foreign(key: str, item: Any, schema: str) -> None:
    cls = item if isinstance(item, type) else type(item)
    if cls.__module__.startswith("langgraph.channels"):
        raise GraphDefinitionError(
            f"Key {key!r} of {schema}: {cls.__name__} is LangGraph's channel class. Use raygraph's of the "
            f"same name: from raygraph.channels import {cls.__name__}.",
            key=key,
        )


def _check_reducer(key: str, reducer: Any, schema: str) -> None:
    try:
        signature = inspect.signature(reducer)
    except (TypeError, ValueError):
        # Some built-in functions don't say what they take; a class that doesn't is no reducer.
        if not isinstance(reducer, type):
            return
        got = f"the class {reducer.__name__}"
    else:
        parameters = signature.parameters.values()
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        forced = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if len(positional) == 2 and not forced:
            return
        got = str(signature)
    raise GraphDefinitionError(
        f"Invalid reducer signature. Expected (a, b) -> c. Got {got} for key {key!r} of {schema}: the last "
        f"item in Annotated, {short(reducer)}, is called with the present value and the written one. If it "
        "isn't meant as a reducer, put something that can't be called, such as a string, behind it.",
        key=key,
    )

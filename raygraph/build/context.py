"""The run's context: what `context=` may be, given the graph's context schema."""

from __future__ import annotations

from typing import Any

from raygraph.build.fields import input_constructor, schema_keys
from raygraph.errors import ConfigError, did_you_mean, short


def coerce_context(schema: Any, context: Any) -> Any:
    """The context as nodes see it: a dict is made into an instance where the schema is a dataclass or model.

    Args:
        schema: The graph's `context_schema`, None if it has none.
        context: What the caller passed.

    Raises:
        ConfigError: A dict that the schema does not accept.
    """
    constructor = input_constructor(schema) if schema is not None else None
    if context is None or constructor is None or not isinstance(context, dict):
        return context
    keys = schema_keys(constructor)
    for key in context:
        if key not in keys:
            raise ConfigError(
                f"context has key {key!r}, which {constructor.__name__} does not have.{did_you_mean(key, keys)}",
                key=key,
            )
    try:
        return constructor(**context)
    except Exception as error:
        raise ConfigError(f"context {short(context)} does not fit {constructor.__name__}: {error}") from error

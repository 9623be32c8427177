"""Joining the schemas of one graph: state, input, output, and those of single nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from raygraph.errors import GraphDefinitionError, short
from raygraph.state.channels import BaseChannel, LastValue
from raygraph.state.managed import ManagedValueSpec

Channel = BaseChannel[Any, Any, Any]


def merge_channels(
    existing: MutableMapping[str, Channel],
    new: Mapping[str, Channel],
    schema_name: str,
    *,
    owners: MutableMapping[str, str] | None = None,
    managed: Mapping[str, ManagedValueSpec] | None = None,
    adopt_defaults: bool = False,
) -> None:
    """Add a further schema's channels to a graph's; a key that both have must mean the same in both.

    A plain annotation says nothing about how to merge, so it never displaces a reducer or another channel,
    and gives way to one, whichever came first.

    Args:
        existing: The graph's channels; changed only if there is no conflict.
        new: The channels of the schema.
        schema_name: Its name.
        owners: Key to the name of the schema that declared it, for messages; kept up to date.
        managed: The graph's managed values. A plain annotation of such a key refers to the managed value.
        adopt_defaults: Let keys without a declared default take the new schema's: True for the graph's input
            schema, not for a node's, whose defaults are the node's own business.

    Raises:
        GraphDefinitionError: Names every key in conflict, and both schemas.
    """
    owners = {} if owners is None else owners
    conflicts = list(_conflicts(existing, new, schema_name, owners, managed or {}))
    if conflicts:
        raise GraphDefinitionError("\n".join(conflicts))
    for key, channel in new.items():
        if managed and key in managed:
            continue
        present = existing.get(key)
        if present is None:
            existing[key] = channel
            owners[key] = schema_name
            continue
        default = present.declared() or (channel.declared() if adopt_defaults else None)
        if _is_plain(present) and not _is_plain(channel):
            existing[key] = present = channel.copy()
            owners[key] = schema_name
        if default is not None:
            present.seed(default)


def _conflicts(
    existing: Mapping[str, Channel],
    new: Mapping[str, Channel],
    schema_name: str,
    owners: Mapping[str, str],
    managed: Mapping[str, ManagedValueSpec],
) -> Iterator[str]:
    for key, channel in new.items():
        if _is_plain(channel):
            continue
        first = owners.get(key, "an earlier schema")
        if key in managed:
            yield f"Key {key!r} is a managed value in {first} and a channel in {schema_name}; rename one."
        elif key in existing and not _is_plain(existing[key]) and existing[key] != channel:
            yield (
                f"Key {key!r} already exists with a different type: {first} declares {short(existing[key])}, "
                f"{schema_name} declares {short(channel)}. Give both the same reducer, or only one."
            )


def _is_plain(channel: Channel) -> bool:
    return type(channel) is LastValue

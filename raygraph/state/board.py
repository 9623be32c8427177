"""The authoritative state of one run: its channels, their versions, and what each node has already seen.

Only the driver has one. Nodes get packed snapshots of it, made at most once per channel version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from raygraph.errors import SnapshotError, short
from raygraph.state.channels import BaseChannel
from raygraph.state.constants import MISSING, TASKS
from raygraph.state.snapshot import Packed, is_immutable, pack, unpack
from raygraph.state.types import Send

AnyChannel = BaseChannel[Any, Any, Any]


class Board:
    """Channels with versions.

    Args:
        prototypes: The graph's channels, copied for this run.
        by_reference: Keys whose values may pass by reference where they cannot be copied.

    Attributes:
        channels: The live channels, by name.
        versions: How often each channel changed, on one clock; absent for a channel that never did.
        seen: For each node, the version of each of its triggers when it last ran.
        clock: The highest version given out.
        transient: The available channels that a step without a write to them may clear.
    """

    __slots__ = ("_by_reference", "_packed", "channels", "clock", "seen", "transient", "versions")

    def __init__(self, prototypes: Mapping[str, AnyChannel], by_reference: frozenset[str] = frozenset()) -> None:
        self.channels = {name: channel.from_checkpoint(MISSING) for name, channel in prototypes.items()}
        self.versions: dict[str, int] = {}
        self.seen: dict[str, dict[str, int]] = {}
        self.clock = 0
        self.transient = {n for n, c in self.channels.items() if c.clears_when_idle and c.is_available()}
        self._packed: dict[str, tuple[int, Packed]] = {}
        self._by_reference = by_reference

    def is_due(self, node: str, triggers: Iterable[str]) -> bool:
        """Whether a trigger of `node` is available and changed since the node last ran."""
        seen = self.seen.get(node, {})
        versions = self.versions
        return any(
            versions.get(trigger, 0) > seen.get(trigger, 0) and self.channels[trigger].is_available()
            for trigger in triggers
        )

    def mark_seen(self, node: str, triggers: Iterable[str]) -> None:
        """Record that `node` has run on the present versions of its triggers."""
        seen = self.seen.setdefault(node, {})
        for trigger in triggers:
            if trigger in self.versions:
                seen[trigger] = self.versions[trigger]

    def sends(self) -> list[Send]:
        """The `Send`s made in the last super-step, in their order."""
        channel = self.channels.get(TASKS)
        return list(channel.get()) if channel is not None and channel.is_available() else []

    def values(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those of `keys` that have one. They are the channels' own: copy before giving them away."""
        found = {}
        for key in keys:
            channel = self.channels[key]
            if channel.is_available():
                found[key] = channel.get()
        return found

    def copies(self, keys: Iterable[str]) -> dict[str, Any]:
        """Private copies of the values of those of `keys` that have one."""
        return {key: unpack(packed) for key, packed in self.snapshot(keys).items()}

    def snapshot(self, keys: Iterable[str]) -> dict[str, Packed]:
        """Those of `keys` that have a value, packed; each version is packed once."""
        found = {}
        for key in keys:
            packed = self._pack(key)
            if packed is not None:
                found[key] = packed
        return found

    def _pack(self, key: str) -> Packed | None:
        channel = self.channels[key]
        if not channel.is_available():
            return None
        version = self.versions.get(key, 0)
        kept = self._packed.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        value = channel.get()
        if is_immutable(value):
            return Packed(value)
        packed = self._copy(key, value)
        self._packed[key] = (version, packed)
        return packed

    def _copy(self, key: str, value: Any) -> Packed:
        try:
            return pack(value)
        except Exception as error:
            if key in self._by_reference:
                return Packed(value)
            raise SnapshotError(
                f"The value of key {key!r} cannot be copied for the nodes: {short(value)} "
                f"({type(value).__qualname__}; {error}). Keep plain data in it, or declare the key as "
                f"Annotated[..., UntrackedValue] and read it in nodes with executor='threads' or 'inline'.",
                key=key,
            ) from error

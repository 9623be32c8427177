"""Channels: what a state key holds, and how one super-step's values for it become the next value."""

from __future__ import annotations

from raygraph.state.channels.aggregate import BinaryOperatorAggregate
from raygraph.state.channels.barriers import (
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
)
from raygraph.state.channels.base import BaseChannel
from raygraph.state.channels.delta import DeltaChannel
from raygraph.state.channels.topic import Topic
from raygraph.state.channels.values import AnyValue, EphemeralValue, LastValue, UntrackedValue

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]

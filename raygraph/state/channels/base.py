"""The contract of a channel.

A channel belongs to the driver and is touched by one thread. Per super-step the engine calls `consume()` on
the channels that triggered a node which ran, then `update(values)` once with all values of the step in the
fold order (or with none: "a step passed without you"), and `finish()` when a step made no node due.

An update either succeeds as a whole or raises and leaves the channel as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import Self

from raygraph.errors import EmptyChannelError
from raygraph.state.constants import MISSING

Value = TypeVar("Value")
Update = TypeVar("Update")
Checkpoint = TypeVar("Checkpoint")


class BaseChannel(ABC, Generic[Value, Update, Checkpoint]):
    """Base class of all channels; a user's own channel kind derives from it.

    Args:
        typ: Type of the values.
        key: The state key; set by the graph where it is not given.
    """

    __slots__ = ("key", "typ")

    #: Whether `update([])` can change the channel. The engine skips the call where it can't. A class with an
    #: `update` of its own is always called unless it says otherwise.
    clears_when_idle: ClassVar[bool] = True
    #: Whether `consume()` does anything; worked out per class.
    tracks_consume: ClassVar[bool] = False
    #: Whether `finish()` does anything; worked out per class.
    tracks_finish: ClassVar[bool] = False
    #: Whether a subclass has attributes beyond its slots, which copies have to carry along.
    _has_dict: ClassVar[bool] = False

    key: str
    typ: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.tracks_consume = cls.consume is not BaseChannel.consume
        cls.tracks_finish = cls.finish is not BaseChannel.finish
        cls._has_dict = cls.__dictoffset__ != 0
        for base in cls.__mro__:
            if "clears_when_idle" in vars(base):
                break
            if "update" in vars(base):
                cls.clears_when_idle = True
                break

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.typ!r}, key={self.key!r})"

    @property
    def ValueType(self) -> Any:
        """The type that `get` returns."""
        return self.typ

    @property
    def UpdateType(self) -> Any:
        """The type of one value passed to `update`."""
        return self.typ

    @abstractmethod
    def get(self) -> Value:
        """The present value.

        Raises:
            EmptyChannelError: If the channel holds none.
        """

    @abstractmethod
    def update(self, values: Sequence[Update]) -> bool:
        """Merge the values of one super-step, in the fold order.

        Args:
            values: All of them; empty when the step wrote nothing here.

        Returns:
            Whether the channel changed.

        Raises:
            InvalidUpdateError: If the values cannot be merged; the channel is then as before.
        """

    @abstractmethod
    def from_checkpoint(self, checkpoint: Checkpoint | Any) -> Self:
        """A new channel like this one, holding what `checkpoint()` returned, or fresh for `MISSING`."""

    def checkpoint(self) -> Checkpoint | Any:
        """What to store, or `MISSING`. Never the channel's own container, which may change later."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    def copy(self) -> Self:
        """A channel with the same contents, independent of this one."""
        return self.from_checkpoint(self.checkpoint())

    def from_value(self, value: Value) -> Self:
        """A new channel like this one for which `get()` returns `value`."""
        return self.from_checkpoint(value)

    def is_available(self) -> bool:
        """Whether `get()` would return."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    def consume(self) -> bool:
        """Take note that a node which this channel triggered has run. Returns whether the channel changed."""
        return False

    def finish(self) -> bool:
        """Take note that no node is due any more. Returns whether the channel changed."""
        return False

    def seed(self, default: Callable[[], Value]) -> None:
        """Declare a default: what the channel holds for as long as nobody wrote to it.

        A kind that does not override this starts empty, as in LangGraph; the default then shows only where a
        node's input is constructed from its schema class.

        Args:
            default: Called once per run, when the value is first needed, so that runs never share one.
        """

    def declared(self) -> Callable[[], Value] | None:
        """The default set with `seed`, if any."""
        return None

    def _blank(self) -> Self:
        """A new channel of this kind without contents. Skips `__init__`, which may be costly."""
        cls = type(self)
        new = cls.__new__(cls)
        new.typ = self.typ
        new.key = self.key
        if cls._has_dict:
            new.__dict__.update(self.__dict__)
        return new


def empty(key: str) -> EmptyChannelError:
    """The error for reading a channel without a value."""
    return EmptyChannelError(f"At key {key!r}: no value has been written, so there is none to read.", key=key)

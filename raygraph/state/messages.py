"""The reducer of a list of messages, and the state class that has one. Importing this imports langchain-core.

Messages are merged by id: a new id is appended, a known one replaced in place, a `RemoveMessage` takes the
message with its id away, and one with the id `REMOVE_ALL_MESSAGES` all of them.
"""

# No `from __future__ import annotations`: a subclass of `MessagesState` in another module could not resolve text.
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, overload

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    MessageLikeRepresentation,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from typing_extensions import Self, TypedDict

from raygraph.errors import short
from raygraph.state.constants import MISSING
from raygraph.state.message_ids import new_id, uuid_shaped
from raygraph.state.message_merge import Merge

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "RemoveMessage", "add_messages", "messages_delta_reducer"]

#: The id of a `RemoveMessage` that removes every message.
REMOVE_ALL_MESSAGES: Final = "__remove_all__"

Messages = list[MessageLikeRepresentation] | MessageLikeRepresentation
Format = Literal["langchain-openai"]


@dataclass(frozen=True, slots=True, repr=False)
class _AddMessages:
    """Merge messages into a list of messages by id: `Annotated[list, add_messages]`.

    Both sides may be a list or a single message; a message may be a langchain message, a dict with `role` (or
    `type`) and `content`, a `(role, text)` pair or a string, which is the user's. A chunk becomes a message.
    Called with a format only, it is the reducer with that format: `add_messages(format="langchain-openai")`.

    Args:
        left: The present messages.
        right: The new ones.
        format: "langchain-openai" brings every message's contents into the form of OpenAI's API: a string, or
            `text` and `image_url` blocks; a tool's result in a block becomes a `ToolMessage`.

    Returns:
        A new list; neither side is changed. A message without id has one in it.

    Raises:
        ValueError: One side only, a `RemoveMessage` whose id no message has, an unknown format, a dict that is
            no message.
        NotImplementedError: Something that cannot stand for a message.
    """

    format: Format | None = None
    assigns_ids: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in get_args(Format):
            raise ValueError(f"add_messages has the format 'langchain-openai' (or None); got {short(self.format)}.")

    def __repr__(self) -> str:
        return "add_messages" if self.format is None else f"add_messages(format={self.format!r})"

    @overload
    def __call__(self, left: Messages, right: Messages, *, format: Format | None = None) -> list[BaseMessage]: ...

    @overload
    def __call__(self, *, format: Format | None = None) -> Self: ...

    def __call__(self, left: Any = MISSING, right: Any = MISSING, *, format: Format | None = None) -> Any:
        reducer = self if format is None else type(self)(format)
        if left is MISSING and right is MISSING:
            return reducer
        return reducer.fold_many(left, (right,))

    def fold_many(self, left: Any, values: Sequence[Any]) -> list[BaseMessage]:
        """What a left fold over `values` gives, in linear time."""
        _check_side("left", left)
        merge = Merge(_formatted(_named(left)) if self.format else _named(left))
        for value in values:
            _check_side("right", value)
            update = _named(value)
            start = _after_remove_all(update)
            if start:
                merge = Merge([])
            touched = merge.add(update[start:])
            if self.format and not merge.replace(touched, _formatted):
                merge = Merge(_formatted(merge.result()))
        return merge.result()


#: Merges messages by id, see its class.
add_messages: Final = _AddMessages()


@dataclass(frozen=True, slots=True, repr=False)
class _MessagesDelta:
    """Merge all of a step's messages at once: `Annotated[list, DeltaChannel(messages_delta_reducer)]`.

    Like `add_messages`, but it never complains of a `RemoveMessage` whose id no message has, gives no ids (a
    `DeltaChannel` replays what was written at every load; the worker has given them), and has no formats.

    Args:
        state: The present messages.
        writes: The values written, each a list or a single message.
    """

    assigns_ids: ClassVar[bool] = True

    def __repr__(self) -> str:
        return "messages_delta_reducer"

    def __call__(self, state: Any, writes: Sequence[Any]) -> list[BaseMessage]:
        merge = Merge(_coerced(state))
        for message in (message for write in writes for message in _coerced(write)):
            if _is_remove_all(message):
                merge = Merge([])
            elif not isinstance(message, RemoveMessage) or message.id in merge.places:
                merge.add([message])
        return merge.result()


#: The messages reducer of a `DeltaChannel`, see its class.
messages_delta_reducer: Final = _MessagesDelta()


class MessagesState(TypedDict):
    """A state with the one key `messages`; add keys in a subclass."""

    messages: Annotated[list[AnyMessage], add_messages]


def _check_side(side: str, value: Any) -> None:
    if value is None or value is MISSING:
        raise ValueError(
            f"add_messages merges two lists of messages, but {side!r} is {'None' if value is None else 'missing'}. "
            f"Call it as add_messages(left, right), or as add_messages(format=...) for a reducer; a node that has "
            f"no messages to add leaves the key out or returns an empty list."
        )


def _coerced(value: Any) -> list[BaseMessage]:
    """The messages that a value stands for; the list itself where it holds messages only."""
    items = value if isinstance(value, list) else [value]
    # A long history is all messages, of few types: ask those instead of every item.
    if all(issubclass(kind, BaseMessage) and not issubclass(kind, BaseMessageChunk) for kind in set(map(type, items))):
        return items
    return [message_chunk_to_message(message) for message in convert_to_messages(items)]


def _named(value: Any) -> list[BaseMessage]:
    messages = _coerced(value)
    if all(message.id is not None for message in messages):  # in a long history, all have
        return messages
    return [m if m.id is not None else m.model_copy(update={"id": new_id()}) for m in messages]


def _is_remove_all(message: BaseMessage) -> bool:
    return message.id == REMOVE_ALL_MESSAGES and isinstance(message, RemoveMessage)


def _after_remove_all(update: Sequence[BaseMessage]) -> int:
    """Index of what follows the last removal of all messages; 0 where there is none."""
    return max((i for i, message in enumerate(update, 1) if _is_remove_all(message)), default=0)


def _formatted(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages in OpenAI's form, with their ids.

    One that becomes several leaves its id to the first; the others' are derived from it.
    """
    from langchain_core.messages import convert_to_openai_messages

    result: list[BaseMessage] = []
    for message in messages:
        for i, part in enumerate(convert_to_messages(convert_to_openai_messages([message]))):
            result.append(part.model_copy(update={"id": uuid_shaped(f"{message.id}|{i}") if i else message.id}))
    return result

"""Messages in the state: the reducer, the state class, and writing a message before the node returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import convert_to_messages

from raygraph.runtime import push_write
from raygraph.state.messages import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    RemoveMessage,
    add_messages,
    messages_delta_reducer,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, MessageLikeRepresentation

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "MessagesState",
    "RemoveMessage",
    "add_messages",
    "messages_delta_reducer",
    "push_message",
]


def push_message(message: MessageLikeRepresentation, *, state_key: str | None = "messages") -> BaseMessage:
    """Write a message from within a node, before what the node returns.

    If the node fails, nothing is written.

    Args:
        message: The message, with an id: a dict, a langchain message or a chunk of one.
        state_key: The state key to write it to; None for none.

    Returns:
        The message.

    Raises:
        ValueError: It has no id.
        RuntimeError: Called outside of a node.
    """
    made = convert_to_messages([message])[0]
    if made.id is None:
        raise ValueError(
            f"push_message needs a message with an id, so that it can be recognised when it comes again; got "
            f"{made!r}. Give it one: {type(made).__name__}(..., id=...)."
        )
    push_write(state_key, made)
    return made

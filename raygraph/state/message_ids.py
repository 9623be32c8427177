"""Ids of messages that were made without one: given where the message was made, before anything is stored.

An id invented in a reducer differs between the router's view and the state, between two loads, between a run and
its repetition. So the worker names the messages that a task writes (`ids_for_writes`) by the task's id, which is
the same in every re-run, and their position among the task's writes. Langchain is imported only for a value that
has to become a message.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from hashlib import blake2b
from itertools import count
from typing import Any, Final

from raygraph.state.records import Write
from raygraph.state.types import Overwrite, unwrap_overwrite

#: LangGraph's message reducers say nothing about themselves, but a state class may bring them along.
_FOREIGN: Final = frozenset({"langgraph.graph.message", "langgraph.pregel._messages"})


def uuid_shaped(text: str) -> str:
    """A digest of `text` that looks like a UUID."""
    digest = blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


class MessageIds:
    """The ids of one place: call it for the next.

    Args:
        place: What the ids are derived from, such as a task's id; equal places give equal ids in equal order.
    """

    __slots__ = ("_index", "place")

    def __init__(self, place: str) -> None:
        self.place = place
        self._index = count()

    def __call__(self) -> str:
        return uuid_shaped(f"{self.place}|message|{next(self._index)}")


_IDS: ContextVar[MessageIds | None] = ContextVar("raygraph_message_ids", default=None)


@contextmanager
def ids_from(place: str) -> Iterator[MessageIds]:
    """Let message reducers that are called inside take the ids they need from `place`."""
    ids = MessageIds(place)
    token = _IDS.set(ids)
    try:
        yield ids
    finally:
        _IDS.reset(token)


def new_id() -> str:
    """The next id of the place the caller is in; outside of a run a random one.

    Not derived from the message there: two equal messages without id are two messages, also when two calls that
    know nothing of each other named them.
    """
    ids = _IDS.get()
    return uuid_shaped(os.urandom(16).hex()) if ids is None else ids()


def names_messages(channel: object) -> bool:
    """Whether the messages written to a channel get ids on the worker.

    They do where the channel's reducer has a true attribute `assigns_ids`, as `add_messages` has; a reducer of
    the user's own that calls it may set the attribute too. LangGraph's message reducers count as such.
    """
    reducer = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    while isinstance(reducer, partial):
        reducer = reducer.func
    return bool(getattr(reducer, "assigns_ids", getattr(reducer, "__module__", None) in _FOREIGN))


def ids_for_writes(writes: Sequence[Write], keys: Collection[str], ids: MessageIds) -> list[Write]:
    """A task's writes with `assign_ids` done for those to `keys`.

    Raises:
        Exception: See `assign_ids`.
    """
    return [(key, assign_ids(value, ids) if key in keys else value) for key, value in writes]


def assign_ids(value: Any, ids: MessageIds) -> Any:
    """The update of a message key, with an id for every message that has none.

    What stands for a message (a dict, a `(role, text)` pair, a string), alone or in a list, becomes one, since
    only a message can keep an id. Inside an `Overwrite` what cannot become a message stays as it is: no reducer
    will see it.

    Args:
        value: A message, something that stands for one, a list of those, or an `Overwrite` of any of them.
        ids: Where the ids come from; one is taken for each message without.

    Returns:
        `value` itself if nothing was missing; otherwise a copy, in which only what changed is new.

    Raises:
        Exception: What langchain raises for something that cannot be made a message (`ValueError`,
            `NotImplementedError`).
    """
    overwrites, inner = unwrap_overwrite(value)
    named = _named(inner, ids, lenient=overwrites)
    if named is inner:
        return value
    return Overwrite(named) if overwrites else named


def _named(value: Any, ids: MessageIds, *, lenient: bool) -> Any:
    if value is None:
        return value
    if not isinstance(value, list):
        return _with_id(value, ids, lenient)
    named = [_with_id(item, ids, lenient) for item in value]
    return value if all(new is old for new, old in zip(named, value, strict=True)) else named


def _with_id(item: Any, ids: MessageIds, lenient: bool) -> Any:
    from langchain_core.messages import BaseMessage, convert_to_messages

    if not isinstance(item, BaseMessage):
        try:
            item = convert_to_messages([item])[0]
        except Exception:
            if lenient:
                return item
            raise
    return item if item.id is not None else item.model_copy(update={"id": ids()})

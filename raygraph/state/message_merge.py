"""A list of messages while updates are merged into it by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from langchain_core.messages import BaseMessage, RemoveMessage


class Merge:
    """A list of messages under change. Removed ones leave an empty slot until the end, so that each change is O(1).

    Attributes:
        places: Slot of each id; of the last one where several messages have the same.
    """

    __slots__ = ("places", "slots", "twins")

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.slots: list[BaseMessage | None] = list(messages)
        ids = [message.id for message in messages]
        self.places: dict[str, int] = {id: place for place, id in enumerate(ids) if id is not None}
        #: All slots of each id that several messages have, as an `Overwrite` may leave behind.
        self.twins: dict[str, list[int]] = {}
        if len(self.places) < len(ids):
            for place, id in enumerate(ids):
                if id is not None and self.places[id] != place:
                    self.twins.setdefault(id, [self.places[id]]).append(place)

    def add(self, update: Sequence[BaseMessage]) -> list[int]:
        """Merge one update. Its removals are done at its end: a message that comes after its removal takes the
        place of the removed one.

        Returns:
            The slots that were written.

        Raises:
            ValueError: A removal without a message to remove.
        """
        removed: set[str] = set()
        touched: list[int] = []
        for message in update:
            place = None if message.id is None else self.places.get(message.id)
            if isinstance(message, RemoveMessage):
                if place is None:
                    raise ValueError(
                        f"There is no message with the id {message.id!r} to remove. Remove only messages that the "
                        f"state has, each once, or all of them with RemoveMessage(id=REMOVE_ALL_MESSAGES)."
                    )
                removed.add(str(message.id))
            elif place is None:
                if message.id is not None:
                    self.places[message.id] = len(self.slots)
                touched.append(len(self.slots))
                self.slots.append(message)
            else:
                removed.discard(str(message.id))
                touched.append(place)
                self.slots[place] = message
        for id in removed:
            only = self.places.pop(id)
            for place in self.twins.pop(id, (only,)):
                self.slots[place] = None
        return touched

    def replace(self, places: Iterable[int], change: Callable[[Sequence[BaseMessage]], list[BaseMessage]]) -> bool:
        """Put `change([message])` into each of these slots; False, and stop, where that is not one message."""
        for place in places:
            message = self.slots[place]
            if message is not None:
                changed = change([message])
                if len(changed) != 1:
                    return False
                self.slots[place] = changed[0]
        return True

    def result(self) -> list[BaseMessage]:
        return [message for message in self.slots if message is not None]

"""Every channel kind against LangGraph's, under random sequences of calls.

Differences that raygraph wants, and which the tests therefore leave out, each by its name:

- `overwrite_everywhere`: LangGraph knows `Overwrite` in reducer and delta channels only, and lets the wrapper
  leak into an empty reducer channel.
- `atomic_barrier`: LangGraph records the names before an unknown one, and then raises.
- `restore_delta_without_type`: where the type has no empty value LangGraph raises a TypeError on restoring.
- `lambda_pairs`: LangGraph takes a lambda and any other reducer for the same one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import langgraph.channels as theirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph._internal._typing import MISSING as THEIR_MISSING
from langgraph.channels.last_value import LastValueAfterFinish as TheirLastValueAfterFinish
from langgraph.channels.named_barrier_value import (
    NamedBarrierValueAfterFinish as TheirNamedBarrierValueAfterFinish,
)
from langgraph.errors import EmptyChannelError as TheirEmptyChannelError
from langgraph.errors import InvalidUpdateError as TheirInvalidUpdateError
from langgraph.types import Overwrite as TheirOverwrite
from typing_extensions import NotRequired, Required

import raygraph.state.channels as ours
from raygraph.errors import EmptyChannelError, InvalidUpdateError
from raygraph.state.constants import MISSING
from raygraph.state.types import Overwrite

#: No deadline: a busy machine is no fault of a channel.
LAW = settings(deadline=None, max_examples=60)

NAMES = ("a", "b", "c")
INTS = st.integers(-3, 3)


def extend(left: list[Any], batch: Sequence[list[Any]]) -> list[Any]:
    return [*left, *(item for part in batch for item in part)]


def subtract(left: int, right: int) -> int:
    return left * 3 - right


PAIRS: dict[str, tuple[Any, Any, st.SearchStrategy[Any]]] = {
    "LastValue": (ours.LastValue(int), theirs.LastValue(int), INTS),
    "LastValueAfterFinish": (ours.LastValueAfterFinish(int), TheirLastValueAfterFinish(int), INTS),
    "AnyValue": (ours.AnyValue(int), theirs.AnyValue(int), INTS),
    "EphemeralValue": (ours.EphemeralValue(int), theirs.EphemeralValue(int), INTS),
    "EphemeralValue unguarded": (ours.EphemeralValue(int, False), theirs.EphemeralValue(int, False), INTS),
    "UntrackedValue": (ours.UntrackedValue(int), theirs.UntrackedValue(int), INTS),
    "UntrackedValue unguarded": (ours.UntrackedValue(int, False), theirs.UntrackedValue(int, False), INTS),
    "reducer of int": (
        ours.BinaryOperatorAggregate(int, subtract),
        theirs.BinaryOperatorAggregate(int, subtract),
        INTS,
    ),
    "reducer without empty value": (
        ours.BinaryOperatorAggregate(int | str, subtract),
        theirs.BinaryOperatorAggregate(int | str, subtract),  # type: ignore[arg-type]  # a union, on purpose
        INTS,
    ),
    "reducer of list": (
        ours.BinaryOperatorAggregate(list[int], operator.add),
        theirs.BinaryOperatorAggregate(list[int], operator.add),
        st.lists(INTS, max_size=2),
    ),
    "reducer of str": (
        ours.BinaryOperatorAggregate(str, operator.add),
        theirs.BinaryOperatorAggregate(str, operator.add),
        st.text("ab", max_size=2),
    ),
    "Topic": (ours.Topic(int), theirs.Topic(int), st.one_of(INTS, st.lists(INTS, max_size=2))),
    "Topic accumulating": (
        ours.Topic(int, True),
        theirs.Topic(int, True),
        st.one_of(INTS, st.lists(INTS, max_size=2)),
    ),
    "NamedBarrierValue": (
        ours.NamedBarrierValue(str, set(NAMES)),
        theirs.NamedBarrierValue(str, set(NAMES)),
        st.sampled_from(NAMES),
    ),
    "NamedBarrierValueAfterFinish": (
        ours.NamedBarrierValueAfterFinish(str, set(NAMES)),
        TheirNamedBarrierValueAfterFinish(str, set(NAMES)),
        st.sampled_from(NAMES),
    ),
    "DeltaChannel": (
        ours.DeltaChannel(extend, list),
        theirs.DeltaChannel(extend, list),
        st.lists(INTS, max_size=2),
    ),
}

MOVES = st.sampled_from(["update", "update", "update", "idle", "consume", "finish", "copy", "restore", "fresh"])


def observe(channel: Any, missing: Any, empty: type[Exception]) -> dict[str, Any]:
    """All that can be seen of a channel, with both libraries' sentinels made one."""
    try:
        value = channel.get()
    except empty:
        value = "EMPTY"
    stored = channel.checkpoint()
    return {
        "value": value,
        "kind": type(value),
        "available": channel.is_available(),
        "checkpoint": "MISSING" if stored is missing else stored,
    }


def attempt(channel: Any, values: list[Any], refused: type[Exception]) -> Any:
    try:
        return channel.update(values)
    except refused:
        return "REFUSED"


def move(channel: Any, name: str, values: list[Any], missing: Any, refused: type[Exception]) -> tuple[Any, Any]:
    """Make one call; returns the channel to go on with and what the call answered."""
    if name == "update":
        return channel, attempt(channel, list(values), refused)
    if name == "idle":
        return channel, channel.update([])
    if name in ("consume", "finish"):
        return channel, getattr(channel, name)()
    if name == "copy":
        return channel.copy(), None
    return channel.from_checkpoint(channel.checkpoint() if name == "restore" else missing), None


@pytest.mark.parametrize("kind", PAIRS)
@LAW
@given(data=st.data())
def test_a_channel_and_its_counterpart_cannot_be_told_apart(kind: str, data: st.DataObject) -> None:
    prototype, other, values = PAIRS[kind]
    mine, their = prototype.copy(), other.copy()
    assert observe(mine, MISSING, EmptyChannelError) == observe(their, THEIR_MISSING, TheirEmptyChannelError)
    for name in data.draw(st.lists(MOVES, max_size=8)):
        batch = data.draw(st.lists(values, min_size=1, max_size=3)) if name == "update" else []
        mine, answer = move(mine, name, batch, MISSING, InvalidUpdateError)
        their, expected = move(their, name, batch, THEIR_MISSING, TheirInvalidUpdateError)
        assert answer == expected, (name, batch)
        assert observe(mine, MISSING, EmptyChannelError) == observe(their, THEIR_MISSING, TheirEmptyChannelError), (
            name,
            batch,
        )


@pytest.mark.parametrize("kind", [kind for kind in PAIRS if kind.startswith(("reducer of", "DeltaChannel"))])
@LAW
@given(data=st.data())
def test_overwrite_in_reducer_channels(kind: str, data: st.DataObject) -> None:
    # Left out as `overwrite_everywhere`: the first write to an empty reducer channel, and all other kinds.
    prototype, other, values = PAIRS[kind]
    mine, their = prototype.from_checkpoint(MISSING), other.from_checkpoint(THEIR_MISSING)
    spellings = [("object", Overwrite, TheirOverwrite)]
    for key in ("short", "long"):

        def spell(value: Any, key: str = key) -> dict[str, Any]:
            return {"__overwrite__": value} if key == "short" else {"type": "__overwrite__", "value": value}

        spellings.append((key, spell, spell))  # type: ignore[arg-type]  # functions beside classes
    for _ in range(3):
        batch = data.draw(st.lists(st.tuples(values, st.sampled_from([0, 0, 1, 2, 3])), min_size=1, max_size=4))
        my_batch = [value if how == 0 else spellings[how - 1][1](value) for value, how in batch]
        their_batch = [value if how == 0 else spellings[how - 1][2](value) for value, how in batch]
        answer = attempt(mine, my_batch, InvalidUpdateError)
        assert answer == attempt(their, their_batch, TheirInvalidUpdateError)
        if answer == "REFUSED":
            # Theirs has moved by now; ours must not.
            break
        assert mine.get() == their.get()


@pytest.mark.parametrize(
    "typ",
    [
        int,
        str,
        list,
        dict,
        set,
        list[int],
        dict[str, int],
        Sequence,
        Sequence[int],
        Mapping[str, int],
        int | None,
        Any,
        Annotated[list, "x"],
        Annotated[Sequence[int], "x"],
        Required[list],
        NotRequired[Annotated[set[int], "x"]],
        Annotated[NotRequired[Mapping[str, int]], "x"],
    ],
)
def test_initial_value_of_a_reducer_channel(typ: Any) -> None:
    mine: Any = ours.BinaryOperatorAggregate(typ, operator.add)
    their = theirs.BinaryOperatorAggregate(typ, operator.add)
    assert observe(mine, MISSING, EmptyChannelError) == observe(their, THEIR_MISSING, TheirEmptyChannelError)


def test_equality() -> None:
    def both(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return getattr(ours, name)(*args, **kwargs), getattr(theirs, name)(*args, **kwargs)

    pairs = [
        both("LastValue", int),
        both("LastValue", str),
        both("AnyValue", int),
        both("EphemeralValue", int),
        both("EphemeralValue", int, False),
        both("UntrackedValue", int),
        both("Topic", int),
        both("Topic", str),
        both("Topic", int, True),
        both("NamedBarrierValue", str, {"a"}),
        both("NamedBarrierValue", str, {"a", "b"}),
        both("BinaryOperatorAggregate", int, operator.add),
        both("BinaryOperatorAggregate", int, operator.sub),
        both("DeltaChannel", extend, list),
        both("DeltaChannel", extend, list, snapshot_frequency=5),
    ]
    for mine, their in pairs:
        for my_other, their_other in pairs:
            assert (mine == my_other) is (their == their_other), (mine, my_other)


def test_two_lambdas_are_the_same_reducer() -> None:
    # Left out as `lambda_pairs`: a lambda beside a named function.
    first, second = (lambda a, b: a + b), (lambda a, b: a - b)
    for module in (ours, theirs):
        assert module.BinaryOperatorAggregate(int, first) == module.BinaryOperatorAggregate(int, second)


def test_delta_channel_replays_alike() -> None:
    for writes in (
        [],
        [[1], [2]],
        [[1], {"__overwrite__": [9]}, [2]],
        [{"__overwrite__": None}, [2]],
        [[1], {"__overwrite__": [9]}],
    ):
        stored = [("task", "k", value) for value in writes]
        mine: Any = ours.DeltaChannel(extend, list).from_checkpoint(MISSING)
        their = theirs.DeltaChannel(extend, list).from_checkpoint(THEIR_MISSING)
        mine.replay_writes(stored)
        their.replay_writes(stored)
        assert mine.get() == their.get()


def test_partial_reducers_can_be_compared() -> None:
    # LangGraph raises an AttributeError here.
    first, second = partial(subtract), partial(subtract)
    assert ours.BinaryOperatorAggregate(int, first) == ours.BinaryOperatorAggregate(int, second)
    with pytest.raises(AttributeError):
        assert theirs.BinaryOperatorAggregate(int, first) == theirs.BinaryOperatorAggregate(int, second)

"""What raygraph's channels do beyond, or unlike, LangGraph's (see also tests/parity/test_channel_parity.py)."""

from __future__ import annotations

import itertools
import operator
import pickle
from collections.abc import Callable, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from functools import partial, reduce
from typing import Annotated, Any, List, Literal, Optional  # noqa: UP035  # the old spellings are the point

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import NotRequired, ReadOnly, Required, Self, TypeAliasType

import raygraph.channels as facade
from raygraph.channels import (
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from raygraph.errors import EmptyChannelError, InvalidUpdateError
from raygraph.state.channels.annotations import peel
from raygraph.state.channels.folding import fold, same_reducer
from raygraph.state.constants import MISSING
from raygraph.state.types import Overwrite

#: No deadline: a busy machine is no fault of a channel.
LAW = settings(deadline=None, max_examples=50)
CONCURRENT = "INVALID_CONCURRENT_GRAPH_UPDATE"


def extend(left: list[Any], batch: Sequence[list[Any]]) -> list[Any]:
    return [*left, *itertools.chain.from_iterable(batch)]


def plus(left: Any, right: Any) -> Any:
    return left + right


#: Each kind with two updates that it takes, and what it holds after an Overwrite of the second.
KINDS: dict[str, tuple[Callable[[], BaseChannel[Any, Any, Any]], Any, Any]] = {
    "LastValue": (lambda: LastValue(list), [1], [2]),
    "AnyValue": (lambda: AnyValue(list), [1], [2]),
    "EphemeralValue": (lambda: EphemeralValue(list), [1], [2]),
    "EphemeralValue unguarded": (lambda: EphemeralValue(list, False), [1], [2]),
    "UntrackedValue": (lambda: UntrackedValue(list), [1], [2]),
    "BinaryOperatorAggregate": (lambda: BinaryOperatorAggregate(list, operator.add), [1], [2]),
    "BinaryOperatorAggregate empty": (lambda: BinaryOperatorAggregate(list | None, plus), [1], [2]),
    "Topic": (lambda: Topic(int), [1], [2]),
    "Topic accumulating": (lambda: Topic(int, accumulate=True), [1], [2]),
    "DeltaChannel": (lambda: DeltaChannel(extend, list), [1], [2]),
    "LastValueAfterFinish": (lambda: LastValueAfterFinish(list), [1], [2]),
}
BARRIERS: dict[str, Callable[[], Any]] = {
    "NamedBarrierValue": lambda: NamedBarrierValue(str, {"a", "b"}),
    "NamedBarrierValueAfterFinish": lambda: NamedBarrierValueAfterFinish(str, {"a", "b"}),
}
SPELLINGS: list[Callable[[Any], Any]] = [
    Overwrite,
    lambda value: {"__overwrite__": value},
    lambda value: {"type": "__overwrite__", "value": value},
]


def value_of(channel: BaseChannel[Any, Any, Any]) -> Any:
    """The value, also of a channel that shows it only after `finish`."""
    channel = channel.copy()
    channel.finish()
    return channel.get() if channel.is_available() else MISSING


# -- contract --------------------------------------------------------------------------------------------


def test_facade_is_the_package() -> None:
    assert facade.__all__ == sorted(facade.__all__)
    assert {name: getattr(facade, name) for name in facade.__all__} == {
        "AnyValue": AnyValue,
        "BaseChannel": BaseChannel,
        "BinaryOperatorAggregate": BinaryOperatorAggregate,
        "DeltaChannel": DeltaChannel,
        "EphemeralValue": EphemeralValue,
        "LastValue": LastValue,
        "LastValueAfterFinish": LastValueAfterFinish,
        "NamedBarrierValue": NamedBarrierValue,
        "NamedBarrierValueAfterFinish": NamedBarrierValueAfterFinish,
        "Topic": Topic,
        "UntrackedValue": UntrackedValue,
    }


@pytest.mark.parametrize("make", [*(kind[0] for kind in KINDS.values()), *BARRIERS.values()])
def test_slots_pickle_repr(make: Callable[[], Any]) -> None:
    channel = make()
    assert not hasattr(channel, "__dict__")
    again = pickle.loads(pickle.dumps(channel))
    assert again == channel
    assert again.is_available() == channel.is_available()
    assert type(channel).__name__ in repr(channel)
    channel.key = "k"
    assert channel.copy().key == channel.from_checkpoint(MISSING).key == "k"
    assert channel.from_checkpoint(channel.checkpoint()).key == "k"


@pytest.mark.parametrize("name", KINDS)
def test_copies_are_independent(name: str) -> None:
    make, first, second = KINDS[name]
    channel = make()
    channel.update([first])
    before = value_of(channel)
    twin = channel.copy()
    twin.update([second])
    assert value_of(channel) == before
    channel.update([Overwrite(["x"])])
    assert value_of(twin) != ["x"]


def test_no_live_container_is_handed_out() -> None:
    topic: Topic[int] = Topic(int, accumulate=True)
    topic.update([1])
    stored, seen = topic.checkpoint(), topic.get()
    topic.update([2])
    assert (stored, seen) == ([1], [1])
    restored = topic.from_checkpoint(stored)
    restored.update([3])
    assert stored == [1]
    for make in BARRIERS.values():
        barrier = make()
        stored = barrier.checkpoint()
        barrier.update(["a"])
        assert stored in (set(), (set(), False))
        restored = barrier.from_checkpoint(stored)
        restored.update(["b"])
        assert stored in (set(), (set(), False))


@pytest.mark.parametrize("name", KINDS)
def test_from_value_holds_the_value(name: str) -> None:
    make = KINDS[name][0]
    channel = make().from_value([7])
    assert channel.get() == [7]
    assert channel.is_available()
    assert make().from_checkpoint(MISSING).from_value([7]).get() == [7]


def test_from_value_of_none() -> None:
    # None is a value like any other; a DeltaChannel's stored None, by contrast, means "empty".
    delta: Any = DeltaChannel(extend, list)
    assert delta.from_value(None).get() is None
    assert delta.from_checkpoint(None).get() == []
    for make in BARRIERS.values():
        barrier = make().from_value(None)
        assert barrier.is_available()
        assert barrier.get() is None
        assert barrier.consume()


def test_the_key_is_in_the_error_for_an_empty_channel() -> None:
    channel: Any = LastValue(int, "count")
    with pytest.raises(EmptyChannelError, match="'count'") as caught:
        channel.get()
    assert caught.value.key == "count"
    assert channel.checkpoint() is MISSING


# -- what the engine may skip ----------------------------------------------------------------------------


def test_flags() -> None:
    clearing = {"AnyValue", "EphemeralValue", "EphemeralValue unguarded", "Topic"}
    for name, (make, _, _) in KINDS.items():
        channel = make()
        assert channel.clears_when_idle is (name in clearing), name
        assert channel.tracks_consume is channel.tracks_finish is (name == "LastValueAfterFinish"), name
    for name, make_barrier in BARRIERS.items():
        barrier = make_barrier()
        assert not barrier.clears_when_idle
        assert barrier.tracks_consume
        assert barrier.tracks_finish is (name == "NamedBarrierValueAfterFinish")


@pytest.mark.parametrize("name", KINDS)
def test_clears_when_idle_tells_the_truth(name: str) -> None:
    make, first, _ = KINDS[name]
    channel = make()
    channel.update([first])
    assert channel.update([]) is channel.clears_when_idle
    assert channel.update([]) is False


class Counter(BaseChannel[int, Any, int]):
    """A user's channel, as one would write it for LangGraph."""

    def __init__(self, typ: Any) -> None:
        super().__init__(typ)
        self.steps = 0

    def update(self, values: Sequence[Any]) -> bool:
        self.steps += 1
        return True

    def get(self) -> int:
        return self.steps

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.typ)
        new.key = self.key
        if checkpoint is not MISSING:
            new.steps = checkpoint
        return new


def test_a_users_channel_is_always_called() -> None:
    class Quiet(LastValue[int]):
        clears_when_idle = False

        def update(self, values: Sequence[int]) -> bool:
            return super().update(values)

    class Noisy(LastValue[int]):
        def update(self, values: Sequence[int]) -> bool:
            return super().update(values)

        def finish(self) -> bool:
            return True

    class Mixin:
        def update(self, values: Sequence[int]) -> bool:
            return True

    class Mixed(Mixin, LastValue[int]):
        pass

    assert Counter.clears_when_idle
    assert not Counter.tracks_finish
    assert not Quiet.clears_when_idle
    assert Noisy.clears_when_idle
    assert Noisy.tracks_finish
    assert not Noisy.tracks_consume
    assert Mixed.clears_when_idle
    counter = Counter(int)
    counter.update([])
    assert counter.copy().get() == counter.from_value(1).get() == 1
    assert counter.consume() is counter.finish() is False
    assert counter.is_available()
    counter.seed(lambda: 5)
    assert counter.declared() is None


def test_a_users_subclass_keeps_its_attributes() -> None:
    class Labelled(LastValue[int]):
        def __init__(self, typ: Any, label: str) -> None:
            super().__init__(typ)
            self.label = label

    channel = Labelled(int, "x")
    channel.update([1])
    assert channel.copy().label == channel.from_checkpoint(MISSING).label == "x"
    assert channel.copy().get() == 1


# -- several values in a step ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [7, 8])
def test_two_values_for_a_last_value(value: int) -> None:
    # Equal values too: whether two nodes may write a key must not depend on what they wrote.
    channel: Any = LastValue(int, "k")
    channel.update([1])
    with pytest.raises(InvalidUpdateError) as caught:
        channel.update([7, value])
    text = str(caught.value)
    assert text.startswith("At key 'k': Can receive only one value per step. Use an Annotated key")
    assert "Annotated[list, operator.add]" in text
    assert f"Got 2: 7, {value}." in text
    assert caught.value.code == CONCURRENT
    assert caught.value.key == "k"
    assert channel.get() == 1


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_a_guard_refuses_two_values(kind: Any) -> None:
    channel = kind(int)
    channel.key = "k"
    channel.update([1])
    with pytest.raises(InvalidUpdateError, match=rf"Use {kind.__name__}\(\.\.\., guard=False\)") as caught:
        channel.update([2, 3, 4, 5, 6])
    assert "Got 5: 2, 3, 4, 5, ..." in str(caught.value)
    assert caught.value.code == CONCURRENT
    assert channel.get() == 1


@pytest.mark.parametrize("make", BARRIERS.values())
def test_a_barrier_refuses_a_stranger(make: Callable[[], Any]) -> None:
    barrier = make()
    barrier.key = "join"
    for values in (["a", "aa"], [Overwrite(["b", "c"])]):
        with pytest.raises(InvalidUpdateError, match="At key 'join': Value") as caught:
            barrier.update(values)
        assert caught.value.key == "join"
        assert barrier.seen == set()


def test_a_failing_reducer_moves_nothing() -> None:
    channel: Any = BinaryOperatorAggregate(int, operator.floordiv)
    channel.update([Overwrite(12)])
    with pytest.raises(ZeroDivisionError):
        channel.update([2, 0])
    assert channel.get() == 12
    delta: Any = DeltaChannel(extend, list).from_checkpoint([1])
    with pytest.raises(TypeError):
        delta.update([[2], 3])
    assert delta.get() == [1]


# -- Overwrite -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spell", SPELLINGS)
@pytest.mark.parametrize("name", KINDS)
def test_overwrite_unwraps_everywhere(name: str, spell: Callable[[Any], Any]) -> None:
    make, first, second = KINDS[name]
    channel = make()
    assert channel.update([spell(first)])
    assert value_of(channel) == first
    assert channel.update([spell(second)])
    assert value_of(channel) == second


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_overwrite_decides_alone(name: str, place: int) -> None:
    make, first, _ = KINDS[name]
    channel = make()
    values: list[Any] = [first, first]
    values.insert(place, Overwrite([9]))
    assert channel.update(values)
    assert value_of(channel) == [9]


@pytest.mark.parametrize("name", KINDS)
def test_two_overwrites_are_refused(name: str) -> None:
    make, first, second = KINDS[name]
    channel = make()
    channel.key = "k"
    channel.update([first])
    before = value_of(channel)
    with pytest.raises(InvalidUpdateError, match="At key 'k': Can receive only one Overwrite value per super-step"):
        channel.update([Overwrite(1), second, {"__overwrite__": 2}])
    assert value_of(channel) == before


@pytest.mark.parametrize("make", BARRIERS.values())
def test_overwrite_of_a_barrier(make: Callable[[], Any]) -> None:
    barrier = make()
    assert barrier.update(["a", Overwrite({"a", "b"})])
    barrier.finish()
    assert barrier.is_available()
    assert not barrier.update([Overwrite(["a", "b"])])
    assert barrier.update([Overwrite("a")])
    assert barrier.seen == {"a"}
    assert barrier.update([Overwrite(())])
    assert barrier.seen == set()


def test_overwrite_keeps_no_hold_on_the_written_value() -> None:
    written = [1]
    for channel in (Topic(int, True), DeltaChannel(lambda left, batch: left.extend(*batch) or left, list)):
        channel.update([Overwrite(written)])
        channel.update([[2]])
        assert channel.get() == [1, 2]
    assert written == [1]


def test_overwrite_empties() -> None:
    for channel in (Topic(int, True), DeltaChannel(extend, list), BinaryOperatorAggregate(list, operator.add)):
        channel.update([[1]])
        channel.update([Overwrite([])])
        assert channel.checkpoint() in ([], MISSING)
        assert value_of(channel) in ([], MISSING)


def test_a_dict_that_only_resembles_an_overwrite() -> None:
    channel: Any = BinaryOperatorAggregate(dict, operator.or_)
    channel.update([{"__overwrite__": 1, "more": 2}, {"type": "x", "value": 3}])
    assert channel.get() == {"__overwrite__": 1, "more": 2, "type": "x", "value": 3}


@LAW
@given(data=st.data(), name=st.sampled_from(sorted(KINDS)))
def test_one_overwrite_gives_the_same_for_every_kind(data: st.DataObject, name: str) -> None:
    make = KINDS[name][0]
    around = st.lists(st.lists(st.integers(), min_size=1, max_size=2), max_size=3)
    before, inner, after = data.draw(around), data.draw(st.lists(st.integers(), min_size=1)), data.draw(around)
    channel = make()
    channel.update([*before, Overwrite(inner), *after])
    assert value_of(channel) == inner


# -- reducers --------------------------------------------------------------------------------------------


class Tagged(list):  # type: ignore[type-arg]  # what it holds does not matter
    def __add__(self, other: Any) -> Tagged:
        return Tagged([*self, "+", *other])

    def __radd__(self, other: Any) -> Tagged:
        return Tagged([*other, "r+", *self])


LISTS = st.lists(st.integers(0, 3), max_size=2)
OPERANDS = st.one_of(
    st.lists(LISTS, min_size=1, max_size=5),
    st.lists(LISTS.map(tuple), min_size=1, max_size=5),
    st.lists(st.text("ab", max_size=2), min_size=1, max_size=5),
    st.lists(st.binary(max_size=2), min_size=1, max_size=5),
    st.lists(st.one_of(st.integers(), st.floats(allow_nan=False)), min_size=1, max_size=5),
    st.lists(st.one_of(LISTS, LISTS.map(Tagged)), min_size=1, max_size=5),
)


@LAW
@given(operands=OPERANDS, operator_=st.sampled_from([operator.add, operator.concat]))
def test_the_fast_fold_is_the_left_fold(operands: list[Any], operator_: Any) -> None:
    kept = pickle.loads(pickle.dumps(operands))
    try:
        expected = reduce(operator_, operands)
    except TypeError:
        with pytest.raises(TypeError):
            fold(operator_, operands[0], operands[1:])
    else:
        result = fold(operator_, operands[0], operands[1:])
        assert (type(result), result) == (type(expected), expected)
    assert operands == kept
    assert [type(operand) for operand in operands] == [type(operand) for operand in kept]


def test_folding_many_lists_is_linear() -> None:
    # 40,000 quadratic steps would copy 800 million items; the test's time limit notices.
    channel: Any = BinaryOperatorAggregate(list, operator.add)
    channel.update([[i] for i in range(40_000)])
    assert channel.get() == list(range(40_000))


def test_a_reducer_may_fold_many_at_once() -> None:
    calls: list[str] = []

    class Sum:
        def __call__(self, left: int, right: int) -> int:
            calls.append("one")
            return left + right

        def fold_many(self, left: int, values: Sequence[int]) -> int:
            calls.append("many")
            return left + sum(values)

    channel: Any = BinaryOperatorAggregate(int, Sum())
    channel.update([1])
    channel.update([1, 2, 3])
    assert channel.get() == 7
    assert calls == ["one", "many"]


def test_the_first_value_is_taken_without_the_operator() -> None:
    def never(left: Any, right: Any) -> Any:
        raise AssertionError("called")

    channel: Any = BinaryOperatorAggregate(int | str, never)
    assert not channel.is_available()
    channel.update(["first"])
    assert channel.get() == "first"


def test_an_in_place_reducer_harms_no_other_run() -> None:
    def in_place(left: list[int], right: list[int]) -> list[int]:
        left.extend(right)
        return left

    prototype = BinaryOperatorAggregate(list, in_place)
    for start in (prototype.copy, lambda: prototype.from_checkpoint(MISSING)):
        channel = start()
        channel.update([[1]])
        assert channel.get() == [1]
        assert prototype.copy().get() == []


def test_a_stored_delta_snapshot_is_read_by_a_reducer_channel() -> None:
    from langgraph.checkpoint.serde.types import _DeltaSnapshot

    assert BinaryOperatorAggregate(list, operator.add).from_checkpoint(_DeltaSnapshot([1])).get() == [1]
    assert DeltaChannel(extend, list).from_checkpoint(_DeltaSnapshot([1])).get() == [1]
    assert DeltaChannel(extend, list).from_checkpoint([1]).get() == [1]


def test_same_reducer() -> None:
    class Box:
        def merge(self, left: Any, right: Any) -> Any:
            return left

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

    box = Box()
    assert same_reducer(operator.add, operator.add)
    assert same_reducer(box.merge, box.merge)
    assert same_reducer(lambda a, b: a, lambda a, b: b)
    assert same_reducer(partial(plus, right=1), partial(plus, right=1))
    assert not same_reducer(partial(plus, right=1), partial(plus, right=2))
    assert not same_reducer(partial(plus), plus)
    assert not same_reducer(operator.add, operator.sub)
    assert not same_reducer(lambda a, b: a, operator.add)
    assert not same_reducer(Odd(), Odd())
    assert BinaryOperatorAggregate(int, partial(plus)) == BinaryOperatorAggregate(int, partial(plus))


def test_kinds_are_never_equal() -> None:
    channels = [make() for make in [*(kind[0] for kind in KINDS.values()), *BARRIERS.values()]]
    for a, b in itertools.combinations(channels, 2):
        assert (a == b) is (type(a) is type(b) and {type(a)} <= {LastValue}), (a, b)


Alias = TypeAliasType("Alias", Annotated[list, "x"])


@pytest.mark.parametrize(
    ("typ", "start"),
    [
        (ReadOnly[list], []),
        (ReadOnly[Annotated[NotRequired[Sequence[int]], "x"]], []),
        (Annotated[Required[Annotated[ReadOnly[AbstractSet[int]], "x"]], "y"], set()),
        (MutableSequence[int], []),
        (MutableMapping, {}),
        (List[int], []),  # noqa: UP006  # the old spelling is the point
        (Alias, []),
        (float, 0.0),
        (bool, False),
        (Optional[int], MISSING),  # noqa: UP045  # the old spelling is the point
        (Literal["a"], MISSING),
        (Any, MISSING),
        (Callable, MISSING),
        (type(None), None),
        ("a string", MISSING),
        ([1], MISSING),
    ],
)
def test_initial_values(typ: Any, start: Any) -> None:
    channel: Any = BinaryOperatorAggregate(typ, plus)
    assert channel.is_available() is (start is not MISSING)
    if start is not MISSING:
        assert channel.get() == start
        assert type(channel.get()) is type(start)


def test_peel_collects_metadata_from_the_inside_out() -> None:
    assert peel(Annotated[NotRequired[Annotated[int, "a", "b"]], "c"]) == (int, ("a", "b", "c"))
    assert peel(int) == (int, ())


# -- declared defaults -----------------------------------------------------------------------------------


SEEDED = ["LastValue", "AnyValue", "EphemeralValue", "UntrackedValue", "BinaryOperatorAggregate", "Topic"]


@pytest.mark.parametrize("name", [*SEEDED, "Topic accumulating", "DeltaChannel", "BinaryOperatorAggregate empty"])
def test_a_default_is_made_once_per_run_and_shared_by_none(name: str) -> None:
    make = KINDS[name][0]
    made: list[list[int]] = []

    def default() -> list[int]:
        made.append([10])
        return made[-1]

    prototype = make()
    prototype.seed(default)
    assert made == []
    assert prototype == make()
    runs = [prototype.from_checkpoint(MISSING), prototype.copy(), pickle_free_copy(prototype)]
    for count, run in enumerate(runs, start=1):
        assert run.is_available()
        assert run.get() == run.get() == [10]
        assert len(made) == count
    assert runs[0].get() is not runs[1].get()
    assert prototype.declared() is default


def pickle_free_copy(channel: Any) -> Any:
    return channel.copy().copy()


@pytest.mark.parametrize("name", ["BinaryOperatorAggregate", "BinaryOperatorAggregate empty", "DeltaChannel"])
def test_a_reducer_starts_from_the_default(name: str) -> None:
    channel = KINDS[name][0]()
    channel.seed(lambda: [10])
    channel.update([[1], [2]])
    assert channel.get() == [10, 1, 2]


def test_a_write_replaces_the_default() -> None:
    channel: Any = LastValue(int)
    channel.seed(lambda: 10)
    channel.update([1])
    assert channel.get() == 1


def test_a_stored_value_beats_the_default() -> None:
    for name in SEEDED:
        channel = KINDS[name][0]()
        channel.seed(lambda: [10])
        assert channel.from_value([1]).get() == [1]


def test_a_default_is_stored_like_any_value() -> None:
    # Made anew on resume it could be another one: uuid4, the present time.
    for name in ("LastValue", "AnyValue", "BinaryOperatorAggregate", "Topic"):
        numbers = iter([[1], [2]])
        channel = KINDS[name][0]()
        channel.seed(lambda numbers=numbers: next(numbers))
        stored = channel.checkpoint()
        assert stored == [1]
        assert channel.from_checkpoint(stored).get() == channel.get() == [1]


def test_an_ephemeral_key_falls_back_to_its_default() -> None:
    channel: Any = EphemeralValue(int)
    channel.seed(lambda: 10)
    assert channel.get() == 10
    assert channel.update([]) is False
    channel.update([1])
    assert channel.update([]) is True
    assert channel.get() == 10
    assert channel.copy().update([]) is False
    assert channel.from_checkpoint(MISSING).get() == 10


def test_a_topics_default_is_only_its_start() -> None:
    channel: Any = Topic(int)
    channel.seed(lambda: [10])
    assert channel.get() == [10]
    assert channel.update([]) is True
    assert not channel.is_available()
    assert not channel.from_checkpoint(channel.checkpoint()).is_available()


def test_barriers_have_no_default() -> None:
    barrier: Any = NamedBarrierValue(str, {"a"})
    barrier.seed(lambda: None)
    assert not barrier.is_available()


# -- single kinds ----------------------------------------------------------------------------------------


def test_topic_reads_the_old_stored_form() -> None:
    assert Topic(int, True).from_checkpoint(({1, 2}, [1, 2])).get() == [1, 2]


def test_topic_types() -> None:
    assert Topic(int).ValueType == Sequence[int]
    assert Topic(int).UpdateType == int | list[int]
    assert LastValue(int).ValueType is LastValue(int).UpdateType is int


def test_untracked_is_never_stored() -> None:
    channel: Any = UntrackedValue(int)
    channel.update([1])
    assert channel.checkpoint() is MISSING
    assert not channel.from_checkpoint(1).is_available()
    assert channel.copy().get() == 1


@pytest.mark.parametrize("frequency", [0, -1])
def test_delta_refuses_a_frequency(frequency: int) -> None:
    with pytest.raises(ValueError, match=f"snapshot_frequency must be a positive int, got {frequency}"):
        DeltaChannel(extend, list, snapshot_frequency=frequency)


def test_delta_without_an_empty_value() -> None:
    channel: Any = DeltaChannel(extend, list | None)
    channel.key = "k"
    assert not channel.from_checkpoint(MISSING).is_available()
    for values in ([[1]], [Overwrite(None)]):
        with pytest.raises(InvalidUpdateError, match="At key 'k': there is no empty value"):
            channel.update(values)
        assert not channel.is_available()
    channel.update([Overwrite([1])])
    channel.update([[2]])
    assert channel.get() == [1, 2]


@LAW
@given(st.lists(st.lists(LISTS, max_size=3), max_size=4))
def test_delta_replay_is_the_live_value(steps: list[list[list[int]]]) -> None:
    live: Any = DeltaChannel(extend, list).from_checkpoint(MISSING)
    for values in steps:
        live.update(values)
    replayed: Any = DeltaChannel(extend, list).from_checkpoint(MISSING)
    replayed.replay_writes([("task", "k", value) for values in steps for value in values])
    assert replayed.get() == live.get()

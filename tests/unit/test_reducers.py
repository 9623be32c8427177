"""The shipped reducers keep the laws that their documentation states."""

from __future__ import annotations

import copy
import datetime
import enum
import operator
import pickle
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import raygraph.reducers as reducers
from raygraph.errors import InvalidUpdateError
from raygraph.reducers import (
    append,
    deep_merge,
    first_non_null,
    keep_highest,
    latest_by,
    maximum,
    merge,
    minimum,
    sliding_window,
    total,
    union,
    unique,
    unique_by,
)
from raygraph.state.channels import BinaryOperatorAggregate
from raygraph.state.picking import canonical

#: No deadline: a busy machine is no fault of a reducer.
LAW = settings(deadline=None, max_examples=50)

INTS = st.integers(-4, 4)
NUMBERS = st.one_of(st.none(), INTS, st.floats(allow_nan=True, width=16))
LISTS = st.lists(INTS, max_size=5)
DISTINCT = st.lists(INTS, max_size=5, unique=True)
RECORDS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"confidence": st.one_of(st.integers(0, 2), st.just(float("nan"))), "text": st.sampled_from("abc")}
    ),
)
#: The depth of a key is in its name, so that no key is a dict on one side and something else on another.
TREES = st.recursive(
    st.dictionaries(st.sampled_from(["x", "y"]), INTS, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["in", "on"]), inner, max_size=2),
    max_leaves=4,
)


def by_id(item: dict[str, int]) -> int:
    return item["id"]


ITEMS = st.lists(st.fixed_dictionaries({"id": INTS, "note": INTS}), max_size=4)

ASSOCIATIVE: dict[str, tuple[Callable[[Any, Any], Any], st.SearchStrategy[Any]]] = {
    "add": (reducers.add, LISTS),
    "append": (append, LISTS),
    "sliding_window": (sliding_window(3), LISTS),
    "unique": (unique, LISTS),
    "unique unhashable": (unique, st.lists(LISTS, max_size=3)),
    "unique_by name": (unique_by("id"), ITEMS),
    "unique_by function": (unique_by(by_id), ITEMS),
    "union": (union, st.sets(INTS)),
    "total": (total, st.one_of(st.none(), INTS)),
    "maximum": (maximum, NUMBERS),
    "minimum": (minimum, NUMBERS),
    "first_non_null": (first_non_null, st.one_of(st.none(), INTS)),
    "latest_by": (latest_by("confidence"), RECORDS),
    "keep_highest": (keep_highest(), RECORDS),
    "merge": (merge, TREES),
    "deep_merge left": (deep_merge("left"), TREES),
    "deep_merge right": (deep_merge("right"), TREES),
}
COMMUTATIVE = ["union", "total", "maximum", "minimum", "latest_by", "keep_highest", "merge"]
IDEMPOTENT = [
    "union",
    "maximum",
    "minimum",
    "latest_by",
    "keep_highest",
    "merge",
    "deep_merge left",
    "deep_merge right",
    "first_non_null",
]


def outcome(call: Callable[[], Any]) -> Any:
    """The result in a form in which NaN equals itself; a refused merge is a result too."""
    try:
        return repr_of(call())
    except InvalidUpdateError as error:
        return error.code


def repr_of(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, list):
        return [repr_of(item) for item in value]
    if isinstance(value, dict):
        return {key: repr_of(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize("name", ASSOCIATIVE)
@LAW
@given(data=st.data())
def test_associative(name: str, data: st.DataObject) -> None:
    reducer, values = ASSOCIATIVE[name]
    a, b, c = data.draw(values), data.draw(values), data.draw(values)
    left = outcome(lambda: reducer(reducer(a, b), c))
    assert left == outcome(lambda: reducer(a, reducer(b, c)))


@pytest.mark.parametrize("name", COMMUTATIVE)
@LAW
@given(data=st.data())
def test_commutative(name: str, data: st.DataObject) -> None:
    reducer, values = ASSOCIATIVE[name]
    a, b = data.draw(values), data.draw(values)
    assert outcome(lambda: reducer(a, b)) == outcome(lambda: reducer(b, a))


@pytest.mark.parametrize("name", IDEMPOTENT)
@LAW
@given(data=st.data())
def test_idempotent(name: str, data: st.DataObject) -> None:
    reducer, values = ASSOCIATIVE[name]
    a = data.draw(values)
    assert outcome(lambda: reducer(a, a)) == repr_of(a)


@LAW
@given(DISTINCT)
def test_unique_is_idempotent_on_distinct_items(items: list[int]) -> None:
    assert unique(items, items) == items


@pytest.mark.parametrize("name", ASSOCIATIVE)
@LAW
@given(data=st.data())
def test_operands_are_left_alone(name: str, data: st.DataObject) -> None:
    reducer, values = ASSOCIATIVE[name]
    operands = data.draw(st.lists(values, min_size=2, max_size=4))
    kept = copy.deepcopy(operands)
    outcome(lambda: reduce(reducer, operands))
    many = getattr(reducer, "fold_many", None)
    if many is not None:
        outcome(lambda: many(operands[0], operands[1:]))
    assert repr_of(operands) == repr_of(kept)


@pytest.mark.parametrize("name", [n for n, (r, _) in ASSOCIATIVE.items() if hasattr(r, "fold_many")])
@LAW
@given(data=st.data())
def test_fold_many_is_the_left_fold(name: str, data: st.DataObject) -> None:
    reducer, values = ASSOCIATIVE[name]
    first, *rest = data.draw(st.lists(values, min_size=3, max_size=5))
    many = reducer.fold_many  # type: ignore[attr-defined]  # the list above has only such
    assert outcome(lambda: many(first, rest)) == outcome(lambda: reduce(reducer, rest, first))


@pytest.mark.parametrize("name", ASSOCIATIVE)
def test_plain_pickle_and_equality(name: str) -> None:
    reducer = ASSOCIATIVE[name][0]
    again = pickle.loads(pickle.dumps(reducer))
    assert again == reducer
    assert BinaryOperatorAggregate(list, again) == BinaryOperatorAggregate(list, reducer)


def test_factories_with_other_arguments_differ() -> None:
    assert sliding_window(2) == sliding_window(2) != sliding_window(3)
    assert keep_highest("a") != keep_highest("b")
    assert deep_merge("left") != merge == deep_merge()
    assert latest_by("a") != keep_highest("a")
    assert maximum != minimum


def test_public_names_are_sorted() -> None:
    assert reducers.__all__ == sorted(reducers.__all__)


# -- lists -----------------------------------------------------------------------------------------------


def test_append_takes_items_and_lists() -> None:
    assert append([1], 2) == [1, 2]
    assert append([1], [2, 3]) == [1, 2, 3]
    assert append(None, [2]) == [2]
    assert append([1], (2, 3)) == [1, (2, 3)]
    assert append("first", "second") == ["first", "second"]
    assert append([1], None) == [1, None]


def test_append_never_returns_an_operand() -> None:
    left: list[int] = [1]
    assert append(left, []) is not left


@LAW
@given(st.integers(1, 4), st.lists(st.one_of(INTS, LISTS)))
def test_sliding_window_keeps_the_last(n: int, values: list[Any]) -> None:
    everything: list[Any] = reduce(append, values, [])
    assert reduce(sliding_window(n), values, []) == everything[-n:]


@pytest.mark.parametrize("n", [0, -1, 2.0, "3", None])
def test_sliding_window_refuses(n: Any) -> None:
    with pytest.raises(ValueError, match="needs a positive int"):
        sliding_window(n)


@LAW
@given(st.lists(st.one_of(INTS, LISTS), max_size=6))
def test_unique_keeps_the_first_of_equals(values: list[Any]) -> None:
    everything: list[Any] = reduce(append, values, [])
    expected: list[Any] = []
    for item in everything:
        if item not in expected:
            expected.append(item)
    assert reduce(unique, values, []) == expected


def test_unique_by_names_what_is_missing() -> None:
    left = [{"id": 1}]
    with pytest.raises(InvalidUpdateError, match=r"unique_by\('id'\) was given \{'no': 2\}") as caught:
        unique_by("id")(left, [{"no": 2}])
    assert caught.value.code == "INVALID_REDUCER_VALUE"
    assert left == [{"id": 1}]


def test_unique_by_attribute() -> None:
    assert unique_by("year")([datetime.date(2020, 1, 1)], datetime.date(2020, 2, 2)) == [datetime.date(2020, 1, 1)]


# -- sets and numbers ------------------------------------------------------------------------------------


def test_union_keeps_the_kind_of_set() -> None:
    assert union(frozenset({1}), [2]) == frozenset({1, 2})
    assert type(union(frozenset(), [2])) is frozenset
    assert type(union(None, [2])) is set


@pytest.mark.parametrize("wrong", ["ab", b"ab", 3])
def test_union_refuses_what_is_no_collection(wrong: Any) -> None:
    left = {1}
    with pytest.raises(TypeError, match="union takes a set"):
        union(left, wrong)
    assert left == {1}


@pytest.mark.parametrize("wrong", ["ab", [1], (1,), {}])
def test_total_refuses_what_is_no_number(wrong: Any) -> None:
    with pytest.raises(TypeError, match="total adds numbers"):
        total(1, wrong)
    with pytest.raises(TypeError, match="total adds numbers"):
        total(wrong, 1)


@LAW
@given(st.lists(INTS, min_size=1))
def test_extremes_are_those_of_all_values(values: list[int]) -> None:
    assert reduce(maximum, values) == max(values)
    assert reduce(minimum, values) == min(values)


def test_extremes_do_not_start_from_zero() -> None:
    channel = BinaryOperatorAggregate(int, maximum)
    assert not channel.is_available()
    channel.update([-5, -3])
    assert channel.get() == -3
    assert channel.from_checkpoint(channel.checkpoint()).get() == -3
    assert BinaryOperatorAggregate(int, operator.add).get() == 0


# -- best of several -------------------------------------------------------------------------------------


@dataclass
class Guess:
    confidence: float
    text: str


def test_keep_highest() -> None:
    low, high = Guess(0.1, "low"), Guess(0.9, "high")
    assert keep_highest()(low, high) is high
    assert keep_highest()(high, low) is high
    assert keep_highest()(None, low) is low
    assert keep_highest()(low, None) is low
    assert latest_by(lambda guess: -guess.confidence)(low, high) is low


@LAW
@given(st.permutations([Guess(1, text) for text in "abcd"] + [Guess(0, "z")]))
def test_ties_do_not_depend_on_the_order(guesses: list[Guess]) -> None:
    assert reduce(keep_highest(), guesses) == Guess(1, "d")


def test_values_without_contents_keep_the_fold_order() -> None:
    first, second = object(), object()
    assert latest_by(lambda _: 0)(first, second) is first


def test_keep_highest_names_what_is_missing() -> None:
    with pytest.raises(InvalidUpdateError, match="which has no 'confidence'"):
        keep_highest()({"confidence": 1}, {"text": "x"})


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3), st.dates()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=5,
)


@LAW
@given(PLAIN, PLAIN)
def test_canonical_orders_all_plain_data(a: Any, b: Any) -> None:
    first, second = canonical(a), canonical(b)
    assert (first < second) + (second < first) + (first == second) == 1


def test_canonical_ignores_insertion_order_and_hashes() -> None:
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical({3, 1, 2}) == canonical({2, 3, 1})
    assert canonical(10**400) > canonical(10**399)
    assert canonical(Colour.RED) != canonical(1)


# -- dicts -----------------------------------------------------------------------------------------------


def test_merge_names_the_path_and_both_values() -> None:
    left = {"user": {"address": {"zip": "1000", "city": "Brno"}}}
    right = {"user": {"address": {"zip": "2000"}, "name": "N"}}
    kept = copy.deepcopy((left, right))
    with pytest.raises(InvalidUpdateError) as caught:
        merge(left, right)
    assert "['user']['address']['zip']: '1000' and '2000'" in str(caught.value)
    assert caught.value.code == "MERGE_CONFLICT"
    assert (left, right) == kept
    assert deep_merge("left")(left, right)["user"] == {"address": {"zip": "1000", "city": "Brno"}, "name": "N"}
    assert deep_merge("right")(left, right)["user"]["address"] == {"zip": "2000", "city": "Brno"}


@pytest.mark.parametrize(("a", "b"), [(1, True), (1, {"x": 1}), ({"x": 1}, 1), ([1], [2]), (None, 0)])
def test_merge_refuses_what_differs(a: Any, b: Any) -> None:
    left, right = {"k": a}, {"k": b}
    with pytest.raises(InvalidUpdateError, match="inner key"):
        merge(left, right)
    assert (left, right) == ({"k": a}, {"k": b})


def test_merge_of_equal_values_is_no_conflict() -> None:
    numpy = pytest.importorskip("numpy")
    assert merge({"k": [1]}, {"k": [1]}) == {"k": [1]}
    same = merge({"k": numpy.arange(3)}, {"k": numpy.arange(3)})
    assert list(same["k"]) == [0, 1, 2]
    with pytest.raises(InvalidUpdateError):
        merge({"k": numpy.arange(3)}, {"k": numpy.arange(4)})


def test_merge_keeps_the_kind_of_dict() -> None:
    merged = merge(defaultdict(list, a=[1]), {"b": [2]})
    assert type(merged) is defaultdict
    assert merged == {"a": [1], "b": [2]}


def test_merge_starts_from_nothing() -> None:
    assert merge(None, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("wrong", [None, [("a", 1)], 3])
def test_merge_refuses_what_is_no_dict(wrong: Any) -> None:
    left = {"a": 1}
    with pytest.raises(TypeError, match="merge takes dicts"):
        merge(left, wrong)
    assert left == {"a": 1}


def test_deep_merge_refuses_an_unknown_policy() -> None:
    with pytest.raises(ValueError, match="on_conflict must be 'error', 'left' or 'right'; got 'middle'"):
        deep_merge("middle")  # type: ignore[arg-type]  # the point of the test


@LAW
@given(TREES, TREES)
def test_merge_holds_everything_of_both(left: dict[str, Any], right: dict[str, Any]) -> None:
    merged = outcome(lambda: merge(left, right))
    assume(merged != "MERGE_CONFLICT")
    assert set(merged) == set(left) | set(right)

"""Whatever finishes first, the result is one: random graphs, run with their tasks ending in random orders."""

from random import Random

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from tests.fakes import ShuffledExecutor
from tests.parity.graphs import as_case, draw
from tests.parity.harness import Case, Observed, canon, check_expected, observe, raygraph
from tests.parity.test_handwritten import CASES
from tests.strategies import randoms

#: Cases whose outcome may depend on what runs first: several nodes fail, or a node keeps a count of its own.
TIMED = {"a_node_is_retried"}
#: How a random graph may end, besides returning: two writes to a plain key, or too many steps.
EXPECTED_FAILURES = {"InvalidUpdateError", "GraphRecursionError"}


def shuffled(random: Random, hold: tuple[str, ...] = ()) -> ShuffledExecutor:
    return ShuffledExecutor(
        random,
        window=random.choice([2, 3, 1000]),
        eager=random.choice([0.0, 0.3]),
        burst=random.choice([1, 4]),
        hold=hold,
    )


def check_same(case: Case, executor: ShuffledExecutor, expected: Observed) -> None:
    seen = observe(case, raygraph(executor))
    assert seen.failure == expected.failure, seen.failure and seen.failure.text
    assert canon(seen.final) == canon(expected.final)
    assert seen.values == expected.values
    if expected.failure is None:
        assert seen.stream == expected.stream
    else:
        assert seen.failure is not None
        assert seen.failure.text == expected.failure.text


@settings(max_examples=250)
@given(randoms(), st.integers(0, 2**32))
def test_random_graphs_in_random_orders(random, seed):
    spec = draw(random)
    case = as_case(spec)
    expected = observe(case, raygraph("inline"))
    # Without this, an engine that always fails would agree with itself.
    assert expected.failure is None or expected.failure.kind in EXPECTED_FAILURES, expected.failure.text
    order = Random(seed)
    held = tuple(node.name for node in spec.nodes if order.random() < 0.2)
    executor = shuffled(order, held)
    note(f"{spec}\nseed {seed}, held back: {held}")
    check_same(case, executor, expected)
    event(f"order: {'shuffled' if executor.order != sorted(executor.order) else 'sorted'}")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if name not in TIMED])
def test_handwritten_graphs_in_random_orders(name):
    case = CASES[name]
    expected = observe(case, raygraph("inline"))
    check_expected(case, expected, "raygraph")
    for seed in range(4):
        check_same(case, shuffled(Random(seed)), expected)


def test_one_trace_whatever_the_order():
    """The same graph in thirty orders leaves one trace; the orders themselves did differ."""
    case = CASES["wide_list_edge"]
    traces, orders = set(), set()
    for seed in range(30):
        executor = ShuffledExecutor(Random(seed))
        seen = observe(case, raygraph(executor))
        assert seen.failure is None
        traces.add((canon(seen.final), seen.stream))
        orders.add(tuple(executor.order))
    assert len(orders) > 20
    assert len(traces) == 1

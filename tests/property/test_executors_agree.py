"""One graph, four executors, the same bytes: the final state and every state on the way."""

import functools
import pickle
from random import Random

import pytest

from tests.parity.graphs import as_case, draw
from tests.parity.harness import Case, canon, check_expected, observe, raygraph
from tests.parity.test_handwritten import CASES

HANDWRITTEN = (
    "wide_list_edge",
    "parallel_nodes_fold_by_code_point",
    "a_router_sees_its_nodes_writes_and_not_the_siblings",
    "twelve_sends_fold_by_index",
    "a_send_takes_any_argument",
    "sends_breed_sends",
    "a_list_of_commands_and_dicts",
    "pydantic_state_is_validated_where_it_is_read",
    "topic_of_one_step",
    "any_value_takes_the_last_and_lasts_one_step",
    "overwrite_between_two_siblings",
    "a_subgraph_that_fans_out",
    "subgraphs_in_subgraphs",
    "a_subgraph_called_in_a_node_with_keys_of_its_own",
    "nodes_that_are_no_plain_functions",
    "a_node_asks_for_the_runtime",
    "a_node_raises_an_exception_with_an_odd_signature",
    "a_plain_key_written_twice_in_a_step",
)
#: Seeds of random graphs, several of them wide or failing.
SEEDS = (0, 14, 51, 95, 120, 128, 145, 196, 263, 455)


def random_case(seed: int) -> Case:
    return as_case(draw(Random(seed)), f"random{seed}")


GRAPHS = {**{name: CASES[name] for name in HANDWRITTEN}, **{f"random{seed}": random_case(seed) for seed in SEEDS}}


def outcome(case: Case, executor: str) -> bytes:
    seen = observe(case, raygraph(executor))
    if case.name in HANDWRITTEN:
        check_expected(case, seen, executor)
    else:
        assert seen.failure is None or seen.failure.kind == "InvalidUpdateError", seen.failure.text
    failure = seen.failure and (seen.failure.kind, seen.failure.text)
    updates = seen.updates if failure is None else None
    return pickle.dumps((canon(seen.final), failure, seen.values, updates))


@functools.cache
def inline(name: str) -> bytes:
    return outcome(GRAPHS[name], "inline")


@pytest.mark.parametrize("name", GRAPHS)
def test_executors_agree(executor, name):
    found = outcome(GRAPHS[name], executor)
    assert pickle.loads(found) == pickle.loads(inline(name))
    assert found == inline(name)

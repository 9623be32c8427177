"""The super-step machine, through `feed`, without any executor."""

from __future__ import annotations

import itertools
import operator
import random
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from raygraph import END, START, Command, Overwrite, RetryPolicy, Send, StateGraph
from raygraph.errors import EmptyInputError, GraphRecursionError, InvalidUpdateError, NodeCrashed, RoutingError
from raygraph.plan.instructions import Begin, Fail, Finish, Mutated, Submit
from raygraph.state.records import Outcome
from tests.unit.engine import Hand, says


class State(TypedDict, total=False):
    xs: Annotated[list[Any], operator.add]
    v: int


def raising(left: int, right: int) -> int:
    raise ZeroDivisionError("boom")


class Two(TypedDict, total=False):
    good: Annotated[list[str], operator.add]
    bad: Annotated[int, raising]


def graph(*edges: Any, defer: tuple[str, ...] = (), **nodes: Any) -> StateGraph:
    """A graph with a node for every name in `edges`: one from `nodes`, else one that appends its name."""
    built = StateGraph(State)
    names = {n for edge in edges for end in edge for n in ([end] if isinstance(end, str) else end)} | set(nodes)
    for name in sorted(names - {START, END}):
        built.add_node(name, nodes.get(name, says(name)), defer=name in defer)
    for start, end in edges:
        built.add_edge(start, end)
    return built


def test_input_is_folded_before_the_first_nodes_run() -> None:
    hand = Hand(graph((START, "a")))
    hand.begin({"xs": ["in"], "v": 3})
    assert hand.due() == ["a"]
    assert hand.open[0].call.task.step == 1
    assert hand.to_the_end() == {"xs": ["in", "a"], "v": 3}


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_fold_order_does_not_depend_on_arrival(order: tuple[str, ...]) -> None:
    hand = Hand(graph(*((START, n) for n in "abc"))).begin({})
    hand.end(order)
    assert isinstance(hand.log[-1], Finish)
    assert hand.log[-1].output == {"xs": ["a", "b", "c"]}


def test_sends_fold_by_index_after_nodes_past_ten() -> None:
    built = graph((START, "b"), w=lambda i: {"xs": [i]})
    built.add_conditional_edges(START, lambda s: [Send("w", i) for i in range(12)], ["w"])
    rng = random.Random(3)
    results = set()
    for _ in range(20):
        results.add(repr(Hand(built).begin({}).to_the_end(rng.choice)))
    assert results == {repr({"xs": ["b", *range(12)]})}


def test_late_repeated_and_foreign_outcomes_are_ignored() -> None:
    hand = Hand(graph((START, "a"), (START, "b"))).begin({})
    first = hand.outcome(hand.open[0])
    hand.end(["a"])
    assert hand.feed(first) == []
    assert hand.feed(Outcome("nobody's")) == []
    second = hand.open[0]
    assert hand.feed(Outcome(second.call.task.id, attempt=7)) == []
    hand.end(["b"])
    assert isinstance(hand.log[-1], Finish)


def test_the_same_graph_gives_the_same_tasks_and_seeds() -> None:
    def tasks() -> list[Any]:
        hand = Hand(graph((START, "a"), (START, "b"), ("a", "c")), seed=7)
        hand.begin({}).to_the_end()
        return [(i.call.task.id, i.call.task.seed, i.call.task.path) for i in hand.log if hasattr(i, "call")]

    first = tasks()
    assert first == tasks()
    assert len({seed for _, seed, _ in first}) == len(first)


def test_recursion_limit_allows_exactly_that_many_steps() -> None:
    chain = graph((START, "a"), ("a", "b"), ("b", "c"))
    assert Hand(chain, recursion_limit=3).begin({}).to_the_end() == {"xs": ["a", "b", "c"]}
    with pytest.raises(GraphRecursionError, match=r"Recursion limit of 2 reached.*'c' is still due") as caught:
        Hand(chain, recursion_limit=2).begin({}).to_the_end()
    assert caught.value.state == {"xs": ["a", "b"]}
    assert caught.value.pending == ("c",)
    assert caught.value.step == 2


def test_no_input_is_an_error_before_anything_runs() -> None:
    hand = Hand(graph((START, "a")))
    hand.feed(Begin(None))
    assert isinstance(hand.log[-1], Fail)
    assert isinstance(hand.log[-1].error, EmptyInputError)
    assert hand.open == []


def test_conflict_names_key_nodes_and_values_and_leaves_the_state() -> None:
    built = graph((START, "a"), (START, "b"), a=lambda s: {"v": 1}, b=lambda s: {"v": 2})
    hand = Hand(built).begin({"v": 7})
    hand.end("ab")
    error = hand.log[-1].error  # type: ignore[union-attr]
    assert isinstance(error, InvalidUpdateError)
    assert error.code == "INVALID_CONCURRENT_GRAPH_UPDATE"
    for part in ("'v'", "'a' wrote 1", "'b' wrote 2", "Annotated"):
        assert part in str(error)
    assert error.step == 1
    assert hand.run.board.values(["v"]) == {"v": 7}


def test_an_echo_of_an_unchanged_key_is_pointed_out() -> None:
    built = graph((START, "a"), (START, "b"), a=lambda s: dict(s), b=lambda s: dict(s))
    with pytest.raises(InvalidUpdateError, match="'a' returned the key unchanged: let it return only what it changed"):
        Hand(built).begin({"v": 7}).to_the_end()


def test_a_raising_reducer_keeps_its_type_and_moves_nothing() -> None:
    built = StateGraph(Two)
    built.add_node("a", lambda s: {"good": ["x"], "bad": 1})
    built.add_edge(START, "a")
    hand = Hand(built).begin({"good": ["in"]})
    hand.end("a")
    error = hand.log[-1].error  # type: ignore[union-attr]
    assert type(error) is ZeroDivisionError
    assert "merging into key 'bad'" in error.__notes__[-1] or "merging into key 'bad'" in str(error.__notes__)
    assert hand.run.board.values(["good", "bad"]) == {"good": ["in"], "bad": 0}


class TestFailure:
    """A node raises: the run fails at once, and tells what else happened in the step."""

    def failing(self) -> Hand:
        def bad(state: Any) -> None:
            raise ValueError("v", 1)

        def worse(state: Any) -> None:
            raise KeyError("k")

        built = graph((START, "bad"), (START, "ok"), (START, "worse"), bad=bad, worse=worse)
        return Hand(built).begin({})

    def test_own_exception_with_a_note(self) -> None:
        hand = self.failing()
        hand.end(["ok", "bad"])
        error = hand.log[-1].error  # type: ignore[union-attr]
        assert type(error) is ValueError
        assert error.args == ("v", 1)
        assert "in node 'bad' of graph 'test', step 1" in error.__notes__[0]
        assert error.raygraph.finished == ["ok"]

    def test_other_failures_are_attached(self) -> None:
        hand = self.failing()
        hand.end(["bad", "worse", "ok"])
        error = hand.log[-1].error  # type: ignore[union-attr]
        assert [node for node, _ in error.raygraph.others] == ["worse"]
        assert any("'worse' failed in the same step" in note for note in error.__notes__)
        assert error.raygraph.finished == ["ok"]
        assert hand.run.board.values(["xs"]) == {"xs": []}


class TestJoins:
    def test_plain_edges_of_unequal_length_run_the_join_twice(self) -> None:
        built = graph((START, "a"), (START, "b"), ("b", "b2"), ("a", "j"), ("b2", "j"))
        assert Hand(built).begin({}).to_the_end() == {"xs": ["a", "b", "b2", "j", "j"]}

    def test_a_list_edge_waits_for_all(self) -> None:
        built = graph((START, "a"), (START, "b"), ("b", "b2"), (["a", "b2"], "j"))
        assert Hand(built).begin({}).to_the_end() == {"xs": ["a", "b", "b2", "j"]}

    def test_a_deferred_node_waits_for_all(self) -> None:
        built = graph((START, "a"), (START, "b"), ("b", "b2"), ("a", "j"), ("b2", "j"), defer=("j",))
        assert Hand(built).begin({}).to_the_end() == {"xs": ["a", "b", "b2", "j"]}

    def test_deferred_nodes_compose(self) -> None:
        edges = [(START, "a"), ("a", "d1"), ("d1", "d2"), (START, "b"), ("b", "b2"), ("b2", "b3"), ("b3", "d2")]
        built = graph(*edges, defer=("d1", "d2"))
        assert Hand(built).begin({}).to_the_end() == {"xs": ["a", "b", "b2", "b3", "d1", "d2"]}

    def test_a_deferred_node_waits_for_sends_that_reach_it(self) -> None:
        built = graph((START, "a"), ("a", "d"), ("w", "d"), defer=("d",), w=lambda i: {"xs": [i]})
        built.add_conditional_edges("a", lambda s: [Send("w", 0), Send("w", 1)], ["w"])
        assert Hand(built).begin({}).to_the_end() == {"xs": ["a", 0, 1, "d"]}

    def test_a_cycle_of_deferred_nodes_does_not_wait_for_itself(self) -> None:
        built = graph((START, "a"), ("a", "d1"), ("a", "d2"), defer=("d1", "d2"))
        built.add_conditional_edges("d1", lambda s: END if len(s["xs"]) > 2 else "d2", ["d2", END])
        built.add_conditional_edges("d2", lambda s: END if len(s["xs"]) > 2 else "d1", ["d1", END])
        assert Hand(built).begin({}).to_the_end()["xs"][:3] == ["a", "d1", "d2"]


class TestRouting:
    def test_router_sees_own_writes_but_not_siblings(self) -> None:
        seen: list[Any] = []

        def router(state: State) -> str:
            seen.append(dict(state))
            return END

        built = graph((START, "a"), (START, "b"), a=lambda s: {"xs": ["a"], "v": 1})
        built.add_conditional_edges("a", router)
        Hand(built).begin({"xs": ["in"]}).to_the_end()
        assert seen == [{"xs": ["in", "a"], "v": 1}]

    def test_a_failing_router_fails_its_node(self) -> None:
        def router(state: State) -> str:
            raise LookupError("lost")

        built = graph((START, "a"))
        built.add_conditional_edges("a", router)
        hand = Hand(built).begin({})
        hand.end("a")
        assert isinstance(hand.log[-1].error, LookupError)  # type: ignore[union-attr]
        assert hand.run.board.values(["xs"]) == {"xs": []}

    @pytest.mark.parametrize(
        ("result", "words"),
        [
            ("nope", "routes to node 'nope'"),
            (None, "did not return a valid destination"),
            (START, "did not return a valid destination"),
            (3, "did not return a valid destination"),
            ([Send("nope", 1)], "routes to node 'nope'"),
        ],
    )
    def test_bad_results(self, result: Any, words: str) -> None:
        built = graph((START, "a"))
        built.add_conditional_edges("a", lambda s: result)
        with pytest.raises(RoutingError, match=words) as caught:
            Hand(built).begin({}).to_the_end()
        assert caught.value.node == "a"
        assert caught.value.step == 1

    def test_unknown_targets_are_dropped_when_not_strict(self) -> None:
        built = graph((START, "a"))
        built.add_conditional_edges("a", lambda s: "nope")
        with pytest.warns(UserWarning, match="It is ignored"):
            assert Hand(built, strict=False).begin({}).to_the_end() == {"xs": ["a"]}

    def test_goto_adds_to_edges(self) -> None:
        built = graph((START, "a"), ("a", "b"), c=says("c"), a=lambda s: Command(update={"xs": ["a"]}, goto=["c", END]))
        assert Hand(built).begin({}).to_the_end() == {"xs": ["a", "b", "c"]}

    def test_command_as_input_is_applied_once(self) -> None:
        built = graph((START, "a"), c=says("c"))
        hand = Hand(built).begin(Command(update={"xs": ["u"]}, goto="c"))
        assert hand.to_the_end() == {"xs": ["u", "a", "c"]}

    def test_parent_command_without_a_parent(self) -> None:
        built = graph((START, "a"), a=lambda s: Command(graph=Command.PARENT, goto="x"))
        with pytest.raises(InvalidUpdateError, match="no graph around"):
            Hand(built).begin({}).to_the_end()


class TestOverwrite:
    def test_supersedes_before_and_drops_after(self) -> None:
        nodes = {"a": says("a"), "b": lambda s: {"xs": Overwrite(["B"])}, "c": says("c")}
        built = graph(*((START, n) for n in "abc"), **nodes)
        assert Hand(built).begin({"xs": ["in"]}).to_the_end() == {"xs": ["B"]}

    def test_sanitize_names_both_nodes(self) -> None:
        built = graph((START, "a"), (START, "b"), b=lambda s: {"xs": Overwrite(["B"])})
        with pytest.raises(InvalidUpdateError, match=r"'b' overwrites.*'a' updates"):
            Hand(built, sanitize=True).begin({}).to_the_end()

    def test_unwraps_on_a_plain_key(self) -> None:
        built = graph((START, "a"), a=lambda s: {"v": Overwrite(3)})
        assert Hand(built).begin({"v": 1}).to_the_end()["v"] == 3


def test_a_changed_snapshot_is_reported_and_not_kept() -> None:
    def sneaky(state: State) -> dict[str, Any]:
        state["xs"].append("HACK")
        return {}

    hand = Hand(graph((START, "a"), (START, "b"), a=sneaky)).begin({"xs": ["0"]})
    assert hand.to_the_end() == {"xs": ["0", "b"]}
    assert Mutated("a", ("xs",)) in hand.log


def test_streams() -> None:
    built = graph((START, "a"), ("a", "b"), b=lambda s: None)
    hand = Hand(built, modes=frozenset({"values", "updates"})).begin({"xs": ["in"]})
    hand.to_the_end()
    assert hand.emitted("values") == [{"xs": ["in"]}, {"xs": ["in", "a"]}]
    assert hand.emitted("updates") == [{"a": {"xs": ["a"]}}, {"b": None}]


class TestRetries:
    """Whether there is another attempt is decided here; when it begins is the driver's business."""

    def attempts(self, error: Exception, **options: Any) -> list[tuple[int, float]]:
        def fails(state: Any) -> None:
            raise error

        built = StateGraph(State)
        built.add_node("a", fails, **options)
        built.add_edge(START, "a")
        hand = Hand(built).begin({})
        with pytest.raises(type(error)):
            hand.to_the_end()
        return [(i.call.task.attempt, i.delay) for i in hand.log if isinstance(i, Submit) and i.node.name == "a"]

    def test_backoff_up_to_the_last_attempt(self) -> None:
        policy = RetryPolicy(initial_interval=1, backoff_factor=10, max_interval=20, max_attempts=4, jitter=False)
        assert self.attempts(ConnectionError(), retry_policy=policy) == [(1, 0), (2, 1), (3, 10), (4, 20)]

    def test_jitter_is_the_same_every_time(self) -> None:
        policy = RetryPolicy(max_attempts=3)
        first = self.attempts(ConnectionError(), retry_policy=policy)
        assert first == self.attempts(ConnectionError(), retry_policy=policy)
        assert 0.5 < first[1][1] < 1.5

    def test_a_programs_own_fault_is_not_retried(self) -> None:
        assert self.attempts(ValueError(), retry_policy=RetryPolicy()) == [(1, 0)]
        once_more = RetryPolicy(retry_on=ValueError, max_attempts=2, jitter=False)
        assert self.attempts(ValueError(), retry_policy=[RetryPolicy(retry_on=KeyError), once_more]) == [
            (1, 0),
            (2, 0.5),
        ]

    def test_crashes_are_counted_apart(self) -> None:
        assert self.attempts(NodeCrashed("gone"), retry_policy=RetryPolicy(retry_on=Exception)) == [(1, 0)]
        assert self.attempts(NodeCrashed("gone"), retry_crashes=2) == [(1, 0), (2, 0), (3, 0)]

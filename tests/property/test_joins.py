"""Deferred nodes as joins: in any DAG each runs exactly once, after all its ancestors that run (field report 7)."""

import operator
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Annotated

from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from raygraph import END, START, Send, StateGraph
from tests.fakes import ShuffledExecutor
from tests.strategies import randoms


class State(TypedDict):
    log: Annotated[list, operator.add]


@dataclass(frozen=True)
class Dag:
    """A random DAG. A node with several predecessors is a deferred join.

    Attributes:
        before: Predecessors of each node, START among them.
        chosen: The successors that the router of a node picks; nodes without one have plain edges.
        fans: How many `Send`s start a node, instead of an edge from its one predecessor.
    """

    before: dict[str, tuple[str, ...]]
    chosen: dict[str, tuple[str, ...]]
    fans: dict[str, int]

    def after(self, node: str) -> list[str]:
        return [name for name, before in self.before.items() if node in before]

    def leads_to(self, node: str) -> list[str]:
        """The successors that `node` really starts."""
        return [name for name in self.after(node) if name in self.chosen.get(node, (name,))]

    def live(self) -> set[str]:
        found, todo = set(), [START]
        while todo:
            for name in self.leads_to(todo.pop()):
                if name not in found:
                    found.add(name)
                    todo.append(name)
        return found

    def live_ancestors(self, node: str) -> set[str]:
        live, found, todo = self.live(), set(), [node]
        while todo:
            name = todo.pop()
            for before in self.before[name]:
                if before in live and before not in found and name in self.leads_to(before):
                    found.add(before)
                    todo.append(before)
        return found

    def runs(self) -> Counter[str]:
        """How often each node must run: a join once, another as often as it is sent to."""
        return Counter({name: self.fans.get(name, 1) for name in self.live()})


def draw_dag(random: Random) -> Dag:
    names = [f"n{i:02}" for i in range(random.randint(2, 11))]
    random.shuffle(names)  # so that the order of the names is not the order of the graph
    before: dict[str, tuple[str, ...]] = {}
    for i, name in enumerate(names):
        earlier = [START, *names[:i]]
        count = 1 if i == 0 else random.choice([1, 1, 2, 2, 3])
        # Recent nodes first: chains of unequal length are what joins are about.
        pool = earlier[-4:] if random.random() < 0.7 else earlier
        before[name] = tuple(random.sample(pool, min(count, len(pool))))
    fans = {n: random.randint(1, 3) for n in names if len(before[n]) == 1 and random.random() < 0.3}
    chosen: dict[str, tuple[str, ...]] = {}
    dag = Dag(before, chosen, fans)
    for name in [START, *names]:
        after = dag.after(name)
        if len(after) > 1 and random.random() < 0.3:
            chosen[name] = tuple(random.sample(after, random.randint(1, len(after))))
    return dag


def build(dag: Dag) -> StateGraph:
    builder = StateGraph(State)
    for name, before in dag.before.items():

        def node(state, name=name):
            seen = sorted({entry[0] for entry in state["log"]}) if "log" in state else None
            return {"log": [(name, seen)]}

        builder.add_node(name, node, defer=len(before) > 1)
    for name in [START, *dag.before]:
        after = dag.after(name)
        if name in dag.chosen or any(n in dag.fans for n in after):
            # A path map tells which nodes a router may lead to; without one it may lead to all of them.
            builder.add_conditional_edges(name, router(dag, name), [*after, END])
        else:
            for n in after:
                builder.add_edge(name, n)
    return builder


def router(dag: Dag, source: str):
    targets = [
        target
        for name in dag.leads_to(source)
        for target in ([Send(name, {"sent": i}) for i in range(dag.fans[name])] if name in dag.fans else [name])
    ]

    def route(state):
        return targets

    return route


@settings(max_examples=400)
@given(randoms(), st.integers(0, 2**32))
def test_each_join_runs_once_after_all_its_live_ancestors(random, seed):
    dag = draw_dag(random)
    note(f"{dag}")
    app = build(dag).compile(executor=ShuffledExecutor(Random(seed)))
    log = app.invoke({"log": []}, {"recursion_limit": 60})["log"]
    joins = {name for name, before in dag.before.items() if len(before) > 1}
    # A node that a fan of tasks leads to by router is started by each of them, in one step, once.
    expected = dag.runs()
    counted = Counter(name for name, _ in log)
    assert {n: counted[n] for n in joins} == {n: expected[n] for n in joins}
    assert set(counted) == set(expected)
    for name, seen in log:
        if name in joins:
            assert set(seen) >= dag.live_ancestors(name), f"{name} ran before some of its ancestors"
    live_joins = sum(name in dag.live() for name in joins)
    event(f"joins that ran: {live_joins if live_joins < 4 else '4 and more'}")


def test_two_deferred_nodes_in_a_chain():
    """Field report 7: d2 runs once, after d1 and after the longer branch."""
    builder = StateGraph(State)
    for name in ("a", "b", "b2", "b3", "d1", "d2"):
        builder.add_node(name, lambda state, name=name: {"log": [name]}, defer=name.startswith("d"))
    for start, end in [(START, "a"), ("a", "d1"), ("d1", "d2"), (START, "b"), ("b", "b2"), ("b2", "b3"), ("b3", "d2")]:
        builder.add_edge(start, end)
    for seed in range(8):
        app = builder.compile(executor=ShuffledExecutor(Random(seed)))
        assert app.invoke({"log": []})["log"] == ["a", "b", "b2", "b3", "d1", "d2"]

"""The engine beside its alternatives, in one run: `python -m tests.bench.engine`.

Every row times each contender on the same work, interleaved, and prints medians and ratios. Nothing here is a test:
a noisy machine moves the figures, and only ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import operator
import platform
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

from typing_extensions import TypedDict

import raygraph
from raygraph.execute.cpus import available_cpus


class State(TypedDict, total=False):
    xs: Annotated[list[int], operator.add]
    n: int


def burn(index: int, seconds: float = 0.3) -> dict[str, Any]:
    """Pure Python work that takes about `seconds` of CPU."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(1000):
            pass
    return {"xs": [index]}


def noop(index: int) -> dict[str, Any]:
    return {"xs": [index]}


def step(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def fan_out(lg: Any, node: Callable[[int], Any], count: int) -> Any:
    graph = lg.StateGraph(State)
    graph.add_node("w", node)
    graph.add_conditional_edges(lg.START, lambda state: [lg.Send("w", i) for i in range(count)], ["w"])
    return graph


def chain(lg: Any, length: int) -> Any:
    graph = lg.StateGraph(State)
    for i in range(length):
        graph.add_node(f"n{i}", step)
        graph.add_edge(f"n{i - 1}" if i else lg.START, f"n{i}")
    return graph


class LangGraph:
    """LangGraph under the names that the graphs above use."""

    from langgraph.graph import START, StateGraph
    from langgraph.types import Send


def compare(title: str, contenders: dict[str, Callable[[], Any]], *, rounds: int, per: int, base: str) -> None:
    """Time every contender `rounds` times, interleaved; print medians, and how many times as fast as `base`."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    answers = {name: work() for name, work in contenders.items()}  # warms up, too
    assert len({repr(answer) for answer in answers.values()}) == 1, "the contenders disagree"
    for _ in range(rounds):
        for name, work in contenders.items():
            started = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(f"\n{title} (median of {rounds})")
    for name, median in medians.items():
        print(
            f"  {name:<24}{median * 1e3:>10.1f} ms{median / per * 1e6:>12.1f} µs each{medians[base] / median:>9.2f} x"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--executors", default="processes,ray")
    options = parser.parse_args()
    executors = options.executors.split(",")
    print(f"{available_cpus()} CPUs, Python {platform.python_version()}, {platform.machine()}")

    theirs, ours = fan_out(LangGraph, burn, 8).compile(), fan_out(raygraph, burn, 8).compile(executor="inline")
    contenders: dict[str, Callable[[], Any]] = {
        "one after the other": lambda: {"xs": [burn(i)["xs"][0] for i in range(8)]},
        "LangGraph": lambda: theirs.invoke({}),
    }
    for name in executors:
        contenders[f"raygraph {name}"] = lambda name=name: ours.invoke({}, {"executor": name})  # type: ignore[misc]
    compare("8 tasks of 0.3 s, pure Python", contenders, rounds=options.rounds, per=8, base="one after the other")

    count = 1000
    theirs_noop, ours_noop = (
        fan_out(LangGraph, noop, count).compile(),
        fan_out(raygraph, noop, count).compile(executor="inline"),
    )
    contenders = {"LangGraph": lambda: theirs_noop.invoke({}), "raygraph inline": lambda: ours_noop.invoke({})}
    for name in executors:
        contenders[f"raygraph {name}"] = lambda name=name: ours_noop.invoke({}, {"executor": name})  # type: ignore[misc]
    compare(f"{count} no-op Sends", contenders, rounds=options.rounds, per=count, base="LangGraph")

    length = 100
    config = {"recursion_limit": 1000}
    theirs_chain, ours_chain = chain(LangGraph, length).compile(), chain(raygraph, length).compile(executor="inline")
    contenders = {
        "LangGraph": lambda: theirs_chain.invoke({"n": 0}, config)["n"],
        "raygraph inline": lambda: ours_chain.invoke({"n": 0}, config)["n"],
    }
    for name in executors:
        contenders[f"raygraph {name}"] = lambda name=name: ours_chain.invoke({"n": 0}, {**config, "executor": name})[
            "n"
        ]  # type: ignore[misc]
    compare(f"a chain of {length} nodes", contenders, rounds=options.rounds, per=length, base="LangGraph")


if __name__ == "__main__":
    main()

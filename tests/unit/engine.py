"""Running a `Run` by hand: no executor, no driver, outcomes fed in any order a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from raygraph.build.compiler import Compiler
from raygraph.build.graph import StateGraph
from raygraph.execute.worker import run_call
from raygraph.plan.instructions import Begin, Emit, Fail, Finish, Instruction, Submit
from raygraph.run import Run, Settings
from raygraph.state.records import Outcome, RunContext


def spec_of(graph: StateGraph, *, strict: bool = True) -> Any:
    return Compiler(graph, "test", strict).compile()


class Hand:
    """A run whose tasks end when, and in the order, the test says.

    Attributes:
        open: The calls submitted and not ended, by node (a list: several `Send`s may go to one node).
        log: Every instruction so far.
    """

    def __init__(self, graph: StateGraph, *, strict: bool = True, **settings: Any) -> None:
        self.run = Run(spec_of(graph, strict=strict), Settings("run", **settings))
        self.log: list[Instruction] = []
        self.open: list[Submit] = []

    def begin(self, given: Any) -> Hand:
        self.feed(Begin(given))
        self.end(["__start__"])
        return self

    def feed(self, event: Any) -> list[Instruction]:
        answers = self.run.feed(event)
        self.run.check_invariants()
        self.log += answers
        self.open += [answer for answer in answers if isinstance(answer, Submit)]
        return answers

    def outcome(self, submit: Submit) -> Outcome:
        return run_call(submit.call, RunContext("run", "test", {}), None, in_driver=True)

    def end(self, nodes: Iterable[str]) -> list[Instruction]:
        """Let one open task of each of these nodes end, in this order."""
        answers: list[Instruction] = []
        for name in nodes:
            submit = next(s for s in self.open if s.node.name == name)
            self.open.remove(submit)
            answers += self.feed(self.outcome(submit))
        return answers

    def due(self) -> list[str]:
        return [submit.node.name for submit in self.open]

    def to_the_end(self, choose: Callable[[list[Submit]], Submit] = lambda calls: calls[0]) -> Any:
        """End open tasks, each time the one that `choose` picks, until the run is over; returns its output."""
        while self.open:
            submit = choose(self.open)
            self.open.remove(submit)
            self.feed(self.outcome(submit))
        last = self.log[-1]
        if isinstance(last, Fail):
            raise last.error
        assert isinstance(last, Finish), last
        return last.output

    def emitted(self, mode: str) -> list[Any]:
        return [i.payload for i in self.log if isinstance(i, Emit) and i.mode == mode]


def says(name: str, key: str = "xs") -> Callable[[Any], dict[str, list[str]]]:
    """A node that appends its own name."""

    def node(state: Any) -> dict[str, list[str]]:
        return {key: [name]}

    return node

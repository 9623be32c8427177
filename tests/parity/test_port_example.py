"""`examples/langgraph_port.py` on raygraph and, with its import line put back, on LangGraph: equal answers."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from raygraph.examples import langgraph_port

SOURCE = Path(langgraph_port.__file__).read_text(encoding="utf-8")
OURS = "from raygraph import END, START, Command, Send, StateGraph\n"
THEIRS = """\
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
"""


@pytest.fixture(scope="module")
def original() -> types.ModuleType:
    """The example as the LangGraph program it was."""
    module = types.ModuleType("port_original")
    exec(compile(SOURCE.replace(OURS, THEIRS), "port_original.py", "exec", dont_inherit=True), module.__dict__)
    return module


def test_nothing_but_the_import_line_names_raygraph() -> None:
    program = SOURCE.partition('"""')[2].partition('"""')[2]  # the docstring tells the story
    assert program.count(OURS) == 1
    assert "raygraph" not in program.replace(OURS, "")


QUESTIONS = ["How do bees find their way?", "What is polarised light?", "Why gardens", "xyzzy", ""]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_the_answer_and_every_update_are_those_of_langgraph(
    original: types.ModuleType, question: str, executor: str
) -> None:
    theirs = original.build().compile()
    ours = langgraph_port.build().compile(executor=executor)
    assert ours.invoke({"question": question}) == theirs.invoke({"question": question})
    steps = list(theirs.stream({"question": question}, stream_mode="values"))
    assert list(ours.stream({"question": question}, stream_mode="values")) == steps
    assert len(steps) > 2


def test_it_goes_through_all_it_is_there_to_show() -> None:
    final = langgraph_port.build().compile(executor="inline").invoke({"question": QUESTIONS[0]})
    assert final["rounds"] == langgraph_port.MAX_ROUNDS
    assert len(final["asked"]) == 3 * final["rounds"]
    assert final["answer"].startswith(QUESTIONS[0])

"""Graphs of messages: alike on LangGraph and on raygraph, but for the ids that LangGraph invents.

What raygraph adds is tested below the cases: ids that are the same in a repeated run, in the router's view, in the
state and in the stream.
"""

import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import push_message as their_push
from typing_extensions import TypedDict

from raygraph import END, START, Overwrite, RetryPolicy, Send, StateGraph
from raygraph.channels import DeltaChannel
from raygraph.messages import REMOVE_ALL_MESSAGES, MessagesState, add_messages, messages_delta_reducer, push_message
from tests.parity.harness import LANGGRAPH, Registry, observe, raygraph, registrar

CASES: Registry = {}
case = registrar(CASES)
MODES = ("values",)  # LangGraph's `updates` show what a node wrote as it was written, ours as messages


def graph(lg: Any, schema: Any, nodes: dict[str, Any], edges: str) -> Any:
    builder = lg.StateGraph(schema)
    for name, fn in nodes.items():
        builder.add_node(name, fn)
    ends = {"S": lg.START, "E": lg.END}
    for start, end in (edge.split(">") for edge in edges.split()):
        builder.add_edge(ends.get(start, start), ends.get(end, end))
    return builder


def says(*messages: Any) -> Any:
    """A node that adds messages, made anew at each run."""

    def node(state: Any) -> Any:
        return {"messages": [m.model_copy() if isinstance(m, BaseMessage) else m for m in messages]}

    return node


@case({"messages": [("user", "hi")]}, modes=MODES)
def every_spelling(lg: Any) -> Any:
    nodes = {
        "a": says({"role": "assistant", "content": "a"}, "b", ("system", "c")),
        "b": lambda state: {"messages": AIMessageChunk("chunk", id="9")},
        "c": lambda state: {"messages": "alone"},
    }
    return graph(lg, lg.MessagesState, nodes, "S>a a>b b>c")


@case({"messages": HumanMessage("hi", id="1")}, modes=("values", "updates"))
def replace_and_remove(lg: Any) -> Any:
    nodes = {
        "a": says(AIMessage("draft", id="2"), AIMessage("kept", id="3")),
        "b": says(AIMessage("final", id="2"), RemoveMessage(id="1")),
        "c": says(RemoveMessage(id="3"), ToolMessage("t", id="4", tool_call_id="x", artifact={"rows": [1]})),
    }
    return graph(lg, lg.MessagesState, nodes, "S>a a>b b>c")


@case({"messages": [HumanMessage("hi", id="1")]}, modes=("values", "updates"))
def remove_all(lg: Any) -> Any:
    nodes = {
        "a": says(AIMessage("x", id="2")),
        "b": says(RemoveMessage(id=REMOVE_ALL_MESSAGES), AIMessage("y", id="3")),
    }
    return graph(lg, lg.MessagesState, nodes, "S>a a>b")


@case({"messages": "hi"}, modes=MODES)
def parallel_nodes_merge_by_name(lg: Any) -> Any:
    nodes = {name: says(AIMessage(name), AIMessage("same")) for name in "cab"}
    return graph(lg, lg.MessagesState, {**nodes, "j": says("end")}, "S>c S>a S>b a>j b>j c>j")


@case({"messages": "hi"}, error="ValueError", modes=MODES)
def remove_what_is_not_there(lg: Any) -> Any:
    return graph(lg, lg.MessagesState, {"a": says(RemoveMessage(id="9"))}, "S>a")


@case({"messages": "hi"}, error="NotImplementedError", modes=MODES)
def what_is_no_message(lg: Any) -> Any:
    return graph(lg, lg.MessagesState, {"a": says(3)}, "S>a")


@case({"messages": "hi"}, error="ValueError", modes=MODES)
def none_for_messages(lg: Any) -> Any:
    return graph(lg, lg.MessagesState, {"a": lambda state: {"messages": None}}, "S>a")


@case({"messages": [], "n": 1}, modes=MODES)
def a_subclass_with_further_keys(lg: Any) -> Any:
    class State(lg.MessagesState):
        n: Annotated[int, operator.add]

    nodes = {"a": lambda state: {"messages": [("ai", str(state["n"]))], "n": 2}, "b": says("b")}
    return graph(lg, State, nodes, "S>a a>b")


@case([("user", "hi")], modes=MODES)
def the_whole_state_is_the_messages(lg: Any) -> Any:
    schema = Annotated[list, lg.add_messages]
    return graph(lg, schema, {"a": lambda state: [AIMessage(str(len(state)))], "b": lambda state: "b"}, "S>a a>b")


@case({"messages": [("user", "hi")]}, modes=MODES)
def a_command_and_a_router_that_reads_the_last_message(lg: Any) -> Any:
    def a(state: Any) -> Any:
        return lg.Command(update={"messages": [AIMessage("to c")]}, goto="b")

    builder = graph(lg, lg.MessagesState, {"a": a, "b": says("go c"), "c": says("c"), "d": says("d")}, "S>a")
    builder.add_conditional_edges("b", lambda state: state["messages"][-1].content[-1], ["c", "d"])
    return builder


@case({"messages": ["old"]}, modes=MODES)
def overwrite(lg: Any) -> Any:
    nodes = {"a": lambda state: {"messages": lg.Overwrite([AIMessage("new", id="1")])}, "b": says("more")}
    return graph(lg, lg.MessagesState, nodes, "S>a a>b")


@case({"messages": []}, modes=MODES)
def sends_in_their_order(lg: Any) -> Any:
    builder = graph(lg, lg.MessagesState, {"w": lambda arg: {"messages": [AIMessage(arg["text"])]}}, "")
    builder.add_conditional_edges(lg.START, lambda state: [lg.Send("w", {"text": t}) for t in "zyx"], ["w"])
    return builder


@case({"messages": [("user", [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}])]}, modes=MODES)
def openai_format(lg: Any) -> Any:
    class State(TypedDict):
        messages: Annotated[list, lg.add_messages(format="langchain-openai")]

    return graph(lg, State, {"a": says({"role": "user", "content": [{"type": "text", "text": "y"}]})}, "S>a")


@case({"messages": []}, modes=MODES)
def pushed_messages_come_first(lg: Any) -> Any:
    push = push_message if lg.engine == "raygraph" else their_push

    def node(state: Any) -> Any:
        push(AIMessage("pushed", id="2"))
        push({"role": "user", "content": "too", "id": "3"})
        push(AIMessage("nowhere", id="4"), state_key=None)
        return {"messages": [AIMessage("returned", id="1"), AIMessage("edited", id="2")]}

    return graph(lg, lg.MessagesState, {"a": node, "b": lambda state: push(AIMessage("b", id="5")) and None}, "S>a a>b")


@case({"messages": []}, error="ValueError", modes=MODES)
def a_pushed_message_needs_an_id(lg: Any) -> Any:
    push = push_message if lg.engine == "raygraph" else their_push
    return graph(lg, lg.MessagesState, {"a": lambda state: push(AIMessage("x")) and None}, "S>a")


def without_ids(value: Any) -> Any:
    """Messages of a state, by type and contents; ids that a case gave are kept."""
    messages = value["messages"] if isinstance(value, dict) else value
    return [(type(m), m.content, m.id if m.id and len(m.id) == 1 else "made") for m in messages]


@pytest.mark.parametrize("name", CASES)
def test_alike_on_both_engines(name: str) -> None:
    it = CASES[name]
    theirs, ours = observe(it, LANGGRAPH), observe(it, raygraph())
    if it.error is not None:
        assert theirs.failure is not None
        assert ours.failure is not None
        assert it.error in theirs.failure.kinds & ours.failure.kinds, ours.failure.text
        return
    assert theirs.failure is None, theirs.failure
    assert ours.failure is None, ours.failure and ours.failure.text
    assert without_ids(ours.final) == without_ids(theirs.final)
    assert len(ours.values) == len(theirs.values)
    if "updates" in it.modes:
        assert ours.stream == theirs.stream


# ---- ids ------------------------------------------------------------------------------------------------------


def compiled(nodes: dict[str, Any], edges: str, schema: Any = MessagesState, **kwargs: Any) -> Any:
    return raygraph().compile(graph(raygraph(), schema, nodes, edges), **kwargs)


def ids_of(state: Any) -> list[str]:
    return [m.id for m in state["messages"]]


def test_stream_router_next_node_and_result_have_the_same_ids() -> None:
    seen: list[list[str]] = []

    def route(state: Any) -> str:
        seen.append(ids_of(state))
        return "b"

    def look(state: Any) -> None:
        seen.append(ids_of(state))

    builder = graph(raygraph(), MessagesState, {"a": says("x", AIMessage("y")), "b": look}, "S>a")
    builder.add_conditional_edges("a", route, ["b"])
    chunks = list(raygraph().compile(builder).stream({"messages": "hi"}, stream_mode=["values", "updates"]))
    values = [ids_of(chunk) for mode, chunk in chunks if mode == "values"]
    written = next(chunk["a"] for mode, chunk in chunks if mode == "updates" and "a" in chunk)
    assert seen[0] == seen[1] == values[-1]
    assert ids_of(written) == values[-1][1:]
    assert len(set(values[-1])) == 3


def test_equal_messages_of_parallel_nodes_and_of_two_runs_are_different_messages() -> None:
    app = compiled({name: says(AIMessage("ok"), "ok") for name in "abc"}, "S>a S>b S>c")
    first, second = app.invoke({"messages": []}), app.invoke({"messages": []})
    assert len(set(ids_of(first)) | set(ids_of(second))) == 12


def test_a_message_keeps_its_id_when_its_node_is_tried_again() -> None:
    tries: list[str] = []

    def node(state: Any) -> Any:
        own = add_messages([], "inner")
        tries.append(own[0].id)
        push_message(AIMessage("pushed", id=f"try {len(tries)}"))
        if len(tries) == 1:
            raise ConnectionError
        return {"messages": own}

    builder = StateGraph(MessagesState)
    builder.add_node("a", node, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_edge(START, "a").add_edge("a", END)
    result = builder.compile(executor="inline").invoke({"messages": []})
    assert tries[0] == tries[1]
    assert ids_of(result) == ["try 2", tries[0]]  # what a failed try pushed is gone


def newest(left: list[Any], right: Any) -> list[Any]:
    """A reducer of the user's own around ours."""
    return add_messages(left, right)[-2:]


class Windowed(TypedDict):
    messages: Annotated[list, newest]


@pytest.mark.parametrize("schema", [MessagesState, Windowed])
def test_a_run_repeated_under_its_id_has_the_same_message_ids(schema: Any) -> None:
    app = compiled({"a": says("x", "y"), "b": says(AIMessage("z")), "c": says("x")}, "S>a S>b a>c b>c", schema)
    config = {"run_id": "5ad72e0f-0000-4000-8000-000000000000"}
    first, second = app.invoke({"messages": ["hi"]}, config), app.invoke({"messages": ["hi"]}, config)
    assert first == second
    assert len(set(ids_of(first))) == len(first["messages"])
    assert not set(ids_of(first)) & set(ids_of(app.invoke({"messages": ["hi"]})))


def test_an_overwrite_leaves_messages_with_ids() -> None:
    app = compiled({"a": lambda state: {"messages": Overwrite(["new", ("ai", "er")])}}, "S>a")
    result = app.invoke({"messages": "old"})
    assert [type(m) for m in result["messages"]] == [HumanMessage, AIMessage]
    assert None not in ids_of(result)


class Delta(TypedDict):
    messages: Annotated[list, DeltaChannel(messages_delta_reducer)]


def test_a_delta_channel_of_messages_stores_them_with_ids() -> None:
    app = compiled({"a": says("x", RemoveMessage(id="nobody")), "b": says("y")}, "S>a a>b", Delta)
    result = app.invoke({"messages": [("user", "hi")]})
    assert [m.content for m in result["messages"]] == ["hi", "x", "y"]
    assert len(set(ids_of(result)) - {None}) == 3


def test_langgraphs_own_state_class_gets_the_same_ids() -> None:
    def run(schema: Any) -> list[str]:
        app = compiled({"a": says("x", AIMessage("y"))}, "S>a", schema)
        return ids_of(app.invoke({"messages": "hi"}, {"run_id": "5ad72e0f-0000-4000-8000-000000000000"}))

    assert run(LANGGRAPH.MessagesState) == run(MessagesState)


def test_a_pushed_unknown_key_is_an_error_and_pushing_needs_a_node() -> None:
    app = compiled({"a": lambda state: push_message(AIMessage("x", id="1"), state_key="mesages") and None}, "S>a")
    with pytest.raises(Exception, match="Did you mean 'messages'"):
        app.invoke({"messages": []})
    with pytest.raises(RuntimeError, match=r"push_message\(\) was called outside of a node"):
        push_message(AIMessage("x", id="1"))


def test_a_node_that_only_reads_messages_changes_nothing() -> None:
    def reads(state: Any) -> None:
        for message in state["messages"]:
            _ = message.text, message.content_blocks, message.model_dump(), message.pretty_repr(), hash(message.id)

    call = {"name": "f", "args": {"x": 1}, "id": "c", "type": "tool_call"}
    messages = [AIMessage("a", tool_calls=[call]), ToolMessage("t", tool_call_id="c", artifact={"s": {"p", "q"}})]
    app = compiled({"a": reads, "b": reads}, "S>a a>b", sanitize=True)
    assert len(app.invoke({"messages": messages})["messages"]) == 2
    assert [m.id for m in messages] == [None, None]


def test_a_send_may_carry_messages() -> None:
    builder = graph(raygraph(), MessagesState, {"w": lambda arg: {"messages": arg["messages"]}}, "")
    builder.add_conditional_edges(START, lambda state: [Send("w", {"messages": [AIMessage("x")]})] * 2, ["w"])
    assert len(set(ids_of(builder.compile(executor="inline").invoke({"messages": []})))) == 2

"""`add_messages`: LangGraph's results, the laws of a fold, and ids that nothing random goes into."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
from functools import partial
from typing import Annotated, Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langgraph.graph.message import _messages_delta_reducer as their_delta
from langgraph.graph.message import add_messages as their_add

from raygraph.build.schema import read_schema
from raygraph.state.channels import BinaryOperatorAggregate, DeltaChannel, LastValue
from raygraph.state.channels.folding import fold
from raygraph.state.message_ids import MessageIds, assign_ids, ids_for_writes, ids_from, names_messages
from raygraph.state.messages import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    RemoveMessage,
    add_messages,
    messages_delta_reducer,
)
from raygraph.state.snapshot import pack, unpack
from raygraph.state.types import Overwrite

OPENAI = add_messages(format="langchain-openai")
IDS = st.sampled_from(["1", "2", "3", "4"])
TEXTS = st.sampled_from(["", "a", "b", "hello"])
CONTENTS = TEXTS | st.sampled_from(
    [
        [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}, "y"],
        [{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "1234"}}],
        [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]}],
        [
            {"type": "text", "text": "z"},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]},
        ],
    ]
)
CALL = {"name": "search", "args": {"q": 1}, "id": "c1", "type": "tool_call"}


def named(ids: st.SearchStrategy[Any], contents: st.SearchStrategy[Any] = TEXTS) -> st.SearchStrategy[Any]:
    """Message objects."""
    return st.one_of(
        st.builds(HumanMessage, contents, id=ids),
        st.builds(AIMessage, contents, id=ids, tool_calls=st.sampled_from([[], [CALL]])),
        st.builds(ToolMessage, TEXTS, id=ids, tool_call_id=st.just("c1")),
    )


#: What a user may write for one message.
MESSAGES = st.one_of(
    named(IDS),
    named(st.none()),
    st.builds(AIMessageChunk, TEXTS, id=IDS | st.none()),
    st.builds(lambda id: RemoveMessage(id=id), IDS),
    st.builds(lambda: RemoveMessage(id=REMOVE_ALL_MESSAGES)),
    st.builds(
        lambda role, text, id: {"role": role, "content": text, "id": id}, st.sampled_from(["user", "ai"]), TEXTS, IDS
    ),
    st.builds(lambda text: {"type": "human", "content": text}, TEXTS),
    st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXTS),
    TEXTS,
)
UPDATES = st.lists(MESSAGES, max_size=4) | MESSAGES
#: Without what LangGraph leaves unmerged: see `test_what_follows_a_removal_of_all_is_merged`.
LEFTS = st.lists(named(IDS), max_size=4, unique_by=lambda m: m.id) | st.just([("user", "raw")])


def result_of(call: Any) -> Any:
    """What a call gave, or the class of what it raised."""
    try:
        return call()
    except (ValueError, NotImplementedError) as error:
        return type(error)


def shown(result: Any) -> Any:
    """A result with ids that no test gave replaced by their number in it."""
    if not isinstance(result, list):
        return result
    made: dict[str | None, str] = {}
    given = {"1", "2", "3", "4", REMOVE_ALL_MESSAGES}
    return [
        m if m.id in given else m.model_copy(update={"id": made.setdefault(m.id, f"made {len(made)}")}) for m in result
    ]


def merged_by_them(add: Any, left: Any, updates: list[Any]) -> Any:
    for update in updates:
        left = add(left, update)
        # What comes after a removal of all is not merged there, so that it can leave messages of removal behind.
        left = add([], left)
    return left


@given(LEFTS, st.lists(UPDATES, min_size=1, max_size=4))
def test_merges_as_langgraph_does(left: Any, updates: list[Any]) -> None:
    theirs = result_of(lambda: merged_by_them(their_add, copy.deepcopy(left), copy.deepcopy(updates)))
    ours = result_of(lambda: merged_by_them(add_messages, left, updates))
    assert shown(ours) == shown(theirs)


@given(LEFTS, st.lists(UPDATES, max_size=4))
def test_batch_reducer_merges_as_langgraphs_does(left: Any, updates: list[Any]) -> None:
    theirs = their_delta(copy.deepcopy(left), copy.deepcopy(updates))
    theirs = [message_chunk_to_message(m) for m in theirs]  # chunks stay chunks there
    assert shown(messages_delta_reducer(left, updates)) == shown(theirs)


@given(LEFTS, st.lists(UPDATES, max_size=3), st.lists(UPDATES, max_size=3))
def test_batch_reducer_does_not_care_for_batches(left: Any, first: list[Any], second: list[Any]) -> None:
    at_once = messages_delta_reducer(left, [*first, *second])
    assert messages_delta_reducer(messages_delta_reducer(left, first), second) == at_once


@pytest.mark.parametrize("reducer", [add_messages, OPENAI], ids=repr)
@given(
    left=st.lists(named(IDS | st.none(), CONTENTS), max_size=4),  # also with one id twice, as an Overwrite may leave it
    updates=st.lists(
        st.lists(named(IDS | st.none(), CONTENTS) | MESSAGES, max_size=4) | MESSAGES, min_size=1, max_size=5
    ),
)
def test_many_updates_at_once_are_the_fold_of_them(reducer: Any, left: Any, updates: list[Any]) -> None:
    def one_by_one() -> Any:
        value = left
        for update in updates:
            value = reducer(value, update)
        return value

    before = copy.deepcopy((left, updates))
    with ids_from("task"):
        expected = result_of(one_by_one)
    with ids_from("task"):
        assert result_of(lambda: reducer.fold_many(left, updates)) == expected
    with ids_from("task"):
        assert result_of(lambda: fold(reducer, left, updates)) == expected
    assert (left, updates) == before, "an argument was changed"


@given(st.lists(st.lists(named(IDS, CONTENTS), max_size=3), min_size=1, max_size=4))
def test_openai_format_has_langgraphs_contents(updates: list[Any]) -> None:
    # LangGraph loses the ids there, so that nothing is ever replaced: give each message one of its own.
    updates = [
        [m.model_copy(update={"id": f"{i}.{j}"}) for j, m in enumerate(update)] for i, update in enumerate(updates)
    ]
    theirs: Any = []
    ours: Any = []
    for update in updates:
        theirs = their_add(theirs, copy.deepcopy(update), format="langchain-openai")  # type: ignore[call-arg]
        ours = OPENAI(ours, update)
    assert [m.model_copy(update={"id": None}) for m in ours] == [m.model_copy(update={"id": None}) for m in theirs]
    assert len({m.id for m in ours}) == len(ours)


def test_a_formatted_message_keeps_its_id_and_can_be_replaced() -> None:
    state = OPENAI([], [HumanMessage([{"type": "text", "text": "a"}], id="1"), ("user", "b")])
    assert [m.content for m in state] == ["a", "b"]
    assert state[0].id == "1"
    assert [m.content for m in OPENAI(state, HumanMessage("c", id="1"))] == ["c", "b"]


def test_what_follows_a_removal_of_all_is_merged() -> None:
    everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
    old = [HumanMessage("old", id="1")]
    update = [HumanMessage("lost", id="2"), everything, AIMessage("a", id="3"), AIMessage("b", id="3")]
    assert [m.content for m in add_messages(old, update)] == ["b"]
    assert add_messages(old, everything) == []
    with pytest.raises(ValueError, match="no message with the id '1'"):
        add_messages(old, [everything, RemoveMessage(id="1")])
    assert [m.content for m in old] == ["old"]


def test_a_removal_of_nothing_is_an_error_that_names_the_id() -> None:
    left = [HumanMessage("a", id="1")]
    with pytest.raises(ValueError, match="no message with the id '9' to remove"):
        add_messages(left, [AIMessage("b", id="2"), RemoveMessage(id="9")])
    assert [m.id for m in left] == ["1"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (([],), "'right' is missing"),
        ((None, []), "'left' is None"),
        (([], None), "'right' is None"),
        ((None, None), "'left' is None"),
    ],
)
def test_a_missing_side_is_an_error(args: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        add_messages(*args)


def test_an_unknown_format_is_refused_when_it_is_named() -> None:
    with pytest.raises(ValueError, match=r"'langchain-openai' \(or None\); got 'openai'"):
        add_messages(format="openai")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="got 'openai'"):
        add_messages([], [], format="openai")  # type: ignore[call-overload]


def test_what_cannot_be_a_message_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        add_messages([], [3])
    with pytest.raises(ValueError, match="role"):
        add_messages([], {"text": "no role"})


@pytest.mark.parametrize("reducer", [add_messages, OPENAI, messages_delta_reducer], ids=repr)
def test_a_reducer_has_two_positional_parameters_and_can_be_pickled(reducer: Any) -> None:
    parameters = inspect.signature(reducer).parameters.values()
    assert len([p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]) == 2
    assert pickle.loads(pickle.dumps(reducer)) == reducer
    assert hash(reducer) == hash(pickle.loads(pickle.dumps(reducer)))
    assert names_messages(BinaryOperatorAggregate(list, reducer))


def test_formats_are_different_reducers() -> None:
    assert add_messages() is add_messages
    assert add_messages(format="langchain-openai") == OPENAI != add_messages
    assert add_messages([], "a", format="langchain-openai")[0].content == "a"


# ---- the state class ------------------------------------------------------------------------------------------


class Extended(MessagesState):
    extra: int


class Raw(MessagesState):
    batch: Annotated[list, DeltaChannel(messages_delta_reducer)]


def test_messages_state_can_be_extended_where_annotations_are_text() -> None:
    assert get_type_hints(Extended).keys() == {"messages", "extra"}
    channels = read_schema(Extended).channels
    assert channels["messages"] == BinaryOperatorAggregate(list, add_messages)
    assert channels["messages"].get() == []


def test_which_channels_name_their_messages() -> None:
    import langgraph.graph

    channels = read_schema(Raw).channels
    assert names_messages(channels["messages"])
    assert names_messages(channels["batch"])
    assert names_messages(BinaryOperatorAggregate(list, partial(add_messages, format="langchain-openai")))
    assert names_messages(read_schema(langgraph.graph.MessagesState).channels["messages"])
    assert not names_messages(BinaryOperatorAggregate(list, lambda a, b: a + b))
    assert not names_messages(LastValue(list))


def test_a_pydantic_state_may_have_messages() -> None:
    from pydantic import BaseModel
    from typing_extensions import TypedDict

    class Model(BaseModel):
        messages: Annotated[list, add_messages] = []

    class Typed(TypedDict):
        messages: Annotated[list, OPENAI]

    assert Model(messages=[HumanMessage("a")]).messages[0].content == "a"
    assert read_schema(Model).channels["messages"] == BinaryOperatorAggregate(list, add_messages)
    assert read_schema(Typed).channels["messages"] == BinaryOperatorAggregate(list, OPENAI)


# ---- ids ------------------------------------------------------------------------------------------------------


def test_ids_come_from_the_task_and_the_position() -> None:
    update = ["hi", AIMessage("a"), AIMessage("b", id="own"), {"role": "user", "content": "c"}, AIMessageChunk("d")]
    named = assign_ids(update, MessageIds("task"))
    ids = MessageIds("task")
    assert [m.id for m in named] == [ids(), ids(), "own", ids(), ids()]
    assert [type(m) for m in named] == [HumanMessage, AIMessage, AIMessage, HumanMessage, AIMessageChunk]
    assert named[2] is update[2]
    assert update[1].id is None
    other = assign_ids(update, MessageIds("another task"))
    assert not {m.id for m in named} & {m.id for m in other} - {"own"}
    assert all(len(m.id) == 36 for m in named if m.id != "own")


@pytest.mark.parametrize("value", [None, [], [AIMessage("a", id="1"), RemoveMessage(id="2")], AIMessage("a", id="1")])
def test_what_has_its_ids_stays_as_it_is(value: Any) -> None:
    ids = MessageIds("task")
    assert assign_ids(value, ids) is value
    assert assign_ids(wrapped := Overwrite(value), ids) is wrapped
    assert ids() == MessageIds("task")(), "an id was used up"


@pytest.mark.parametrize("value", ["hi", ("user", "hi"), {"role": "user", "content": "hi"}, HumanMessage("hi")])
def test_a_single_message_gets_an_id_in_every_spelling(value: Any) -> None:
    expected = HumanMessage("hi", id=MessageIds("task")())
    assert assign_ids(value, MessageIds("task")) == expected
    assert assign_ids([value], MessageIds("task")) == [expected]
    for overwrite in (
        Overwrite([value]),
        {"__overwrite__": [value]},
        {"type": "__overwrite__", "value": [value]},
    ):
        assert assign_ids(overwrite, MessageIds("task")) == Overwrite([expected])


def test_what_is_no_message_fails_where_it_is_written_but_for_an_overwrite() -> None:
    with pytest.raises(NotImplementedError):
        assign_ids([3], MessageIds("task"))
    with pytest.raises(ValueError, match="role"):
        assign_ids({"text": "no role"}, MessageIds("task"))
    assert assign_ids(Overwrite([3, AIMessage("a", id="1")]), MessageIds("task")).value[0] == 3


@given(st.lists(UPDATES, max_size=4))
def test_updates_named_beforehand_merge_as_before_and_always_with_the_same_ids(updates: list[Any]) -> None:
    def named_by_the_task() -> Any:
        return add_messages.fold_many([], [v for _, v in ids_for_writes(writes, {"messages"}, MessageIds("task"))])

    writes = [("messages", update) for update in updates]
    once = result_of(named_by_the_task)
    assert once == result_of(named_by_the_task)
    assert shown(once) == shown(result_of(lambda: add_messages.fold_many([], updates)))


def test_only_message_keys_are_looked_at() -> None:
    writes = ids_for_writes([("x", "hi"), ("messages", "hi")], {"messages"}, MessageIds("task"))
    assert writes == [("x", "hi"), ("messages", HumanMessage("hi", id=MessageIds("task")()))]


def test_a_reducer_called_in_a_run_takes_its_ids_from_there() -> None:
    with ids_from("place") as ids:
        inner = add_messages([], ["a", "b"])
        rest = ids()
    expected = MessageIds("place")
    assert [m.id for m in inner] == [expected(), expected()]
    assert rest == expected()


def test_outside_of_a_run_equal_messages_are_two_messages() -> None:
    assert len(add_messages(add_messages([], "ok"), add_messages([], "ok"))) == 2


def test_naming_imports_langchain_only_for_messages() -> None:
    code = (
        "import sys; from raygraph.state.message_ids import *; import raygraph.execute.worker;"
        "assign_ids([], MessageIds('t')); assign_ids(None, MessageIds('t')); print('langchain_core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "False"


# ---- crossing processes ---------------------------------------------------------------------------------------

KINDS = [
    HumanMessage("a", id="1", name="n", additional_kwargs={"x": [1]}, response_metadata={"m": {"k": 1}}),
    SystemMessage([{"type": "text", "text": "s"}]),
    AIMessage(
        "a",
        tool_calls=[CALL],
        invalid_tool_calls=[{"name": "f", "args": "{", "id": "c2", "error": "no", "type": "invalid_tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    ToolMessage("t", tool_call_id="c1", artifact={"rows": [(1, 2.5)], "set": {1}}, status="error"),
    AIMessageChunk(
        "c", tool_call_chunks=[{"name": "f", "args": '{"a', "id": "c3", "index": 0, "type": "tool_call_chunk"}]
    ),
    HumanMessageChunk("h"),
    ChatMessage("x", role="critic"),
    RemoveMessage(id=REMOVE_ALL_MESSAGES),
]


class Own(AIMessage):
    score: float = 0.0


@pytest.mark.parametrize("message", [*KINDS, Own("o", score=0.5)], ids=lambda m: type(m).__name__)
def test_messages_keep_type_and_fields_on_their_way(message: BaseMessage) -> None:
    packed = pickle.loads(pickle.dumps(pack([message])))
    (back,) = unpack(packed)
    assert type(back) is type(message)
    assert back == message
    assert back.__dict__ == message.__dict__
    assert back.model_fields_set == message.model_fields_set
    assert back is not message
    back.content = "changed"
    assert unpack(packed) == [message]

"""From schemas to channels, and from schema instances to updates."""

import dataclasses
import operator
import pickle
import subprocess
import sys
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Optional, TypeVar, get_args

import pydantic
import pytest
from langgraph.channels import Topic as TheirTopic
from langgraph.managed import RemainingSteps as TheirRemainingSteps
from typing_extensions import NotRequired, ReadOnly, Required, TypedDict

import raygraph.managed as managed_facade
from raygraph.build.schema import (
    explicit_items,
    input_constructor,
    merge_channels,
    read_schema,
    schema_keys,
    schema_name,
    update_items,
)
from raygraph.channels import (
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    NamedBarrierValue,
    Topic,
    UntrackedValue,
)
from raygraph.errors import GraphDefinitionError
from raygraph.managed import IsLastStep, ManagedValue, RemainingSteps
from raygraph.reducers import append, keep_highest, maximum
from raygraph.state.constants import MISSING
from raygraph.state.managed import IsLastStepManager, RemainingStepsManager, Scratch, is_managed_value

T = TypeVar("T")


def plus(left: Any, right: Any) -> Any:
    return left + right


def batch(left: Any, right: Sequence[Any]) -> Any:
    return left


def typed(annotations: dict[str, Any]) -> Any:
    """A TypedDict named Schema."""
    make: Any = TypedDict
    return make("Schema", annotations)


def channel_of(annotation: Any) -> BaseChannel[Any, Any, Any]:
    """The channel of a key `k` that is annotated so."""
    channel = read_schema(typed({"k": annotation})).channels["k"]
    assert channel.key == "k"
    return channel


def reducer_of(annotation: Any) -> Any:
    channel = channel_of(annotation)
    return channel.operator if isinstance(channel, BinaryOperatorAggregate) else None


# -- keys ------------------------------------------------------------------------------------------------


class Base(TypedDict):
    a: int


class Derived(Base, total=False):
    b: Annotated[list[int], operator.add]


class Plain:
    a: int
    b: Annotated[list[int], operator.add] = []
    kind: ClassVar[str] = "x"


@dataclasses.dataclass
class Data:
    kind: ClassVar[str] = "x"
    start: dataclasses.InitVar[int]
    a: int
    _: dataclasses.KW_ONLY
    b: Annotated[list[int], operator.add] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    kind: ClassVar[str] = "x"
    _private: int = pydantic.PrivateAttr(1)
    a: int
    b: Annotated[list[int], operator.add] = pydantic.Field(default_factory=list)


class Row(NamedTuple):
    a: int
    b: Annotated[list[int], operator.add]


@pytest.mark.parametrize("schema", [Derived, Plain, Data, Model, Row])
def test_every_field_becomes_a_channel(schema: Any) -> None:
    channels, managed, hints = read_schema(schema)
    assert list(channels) == ["a", "b"]
    assert type(channels["a"]) is LastValue
    assert channels["b"] == BinaryOperatorAggregate(list, operator.add)
    assert {key: channel.key for key, channel in channels.items()} == {"a": "a", "b": "b"}
    assert managed == {}
    assert list(hints) == ["a", "b"]
    assert hints["b"] == Annotated[list[int], operator.add]
    assert schema_keys(schema) == ("a", "b")


@pytest.mark.parametrize("schema", [int, dict, list[int], int | None, Any, "anything", Annotated[Derived, "x"]])
def test_anything_else_is_one_value(schema: Any) -> None:
    channels, managed, hints = read_schema(schema)
    assert list(channels) == ["__root__"]
    assert type(channels["__root__"]) is LastValue
    assert channels["__root__"].key == "__root__"
    assert managed == hints == {}


def test_a_root_with_a_reducer() -> None:
    assert read_schema(Annotated[list, operator.add]).channels == {
        "__root__": BinaryOperatorAggregate(list, operator.add)
    }


def test_an_empty_typed_dict_has_no_keys() -> None:
    assert read_schema(typed({})).channels == {}


def test_a_generic_schema() -> None:
    class Box(TypedDict, Generic[T]):
        item: T

    assert list(read_schema(Box[int]).channels) == ["item"]


def test_an_annotation_that_cannot_be_resolved() -> None:
    class Broken(TypedDict):
        a: "NotDefinedAnywhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(GraphDefinitionError, match=r"Broken: name 'NotDefinedAnywhere' is not defined") as caught:
        read_schema(Broken)
    assert "move the schema" in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    class Bad(TypedDict):
        fine: int
        one: Annotated[int, lambda a: a]
        two: Annotated[int, NamedBarrierValue]
        three: RemainingSteps

    with pytest.raises(GraphDefinitionError) as caught:
        read_schema(Bad, allow_managed=False)
    text = str(caught.value)
    assert all(f"{key!r}" in text for key in ("one", "two", "three"))
    assert "fine" not in text


# -- which channel ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[list, plus],
        Annotated[list, "doc", plus],
        Annotated[NotRequired[list], plus],
        NotRequired[Annotated[list, plus]],
        Required[Annotated[list, plus]],
        ReadOnly[Annotated[list, plus]],
        Annotated[ReadOnly[list], plus],
        NotRequired[ReadOnly[Annotated[list, plus]]],
        Annotated[NotRequired[ReadOnly[Annotated[list, "doc"]]], plus],
    ],
)
def test_a_reducer_is_found_under_any_wrapper(annotation: Any) -> None:
    assert reducer_of(annotation) is plus
    assert channel_of(annotation).copy().get() == []


@pytest.mark.parametrize("annotation", [int, Annotated[int, "doc"], Annotated[int, plus, "doc"], NotRequired[int]])
def test_no_reducer(annotation: Any) -> None:
    assert type(channel_of(annotation)) is LastValue


class Method:
    def merge(self, left: Any, right: Any) -> Any:
        return left

    def __call__(self, left: Any, right: Any) -> Any:
        return right


@pytest.mark.parametrize(
    "reducer",
    [
        operator.add,
        max,
        dict.update,
        set.union,
        list.__add__,
        lambda a, b: a,
        lambda a, b=1: a,
        lambda a, b, *rest: a,
        lambda a, b, *, k=1: a,
        lambda a, b, /, **more: a,
        partial(lambda k, a, b: a, 1),
        partial(lambda a, b, k: a, k=1),
        Method().merge,
        Method(),
        append,
        keep_highest(),
    ],
)
def test_callables_of_two_positional_parameters_are_reducers(reducer: Any) -> None:
    assert reducer_of(Annotated[list, "doc", reducer]) is reducer


@pytest.mark.parametrize(
    ("reducer", "shown"),
    [
        (lambda a: a, "(a)"),
        (lambda: 1, "()"),
        (lambda a, b, c: a, "(a, b, c)"),
        (lambda a, b, c=1: a, "(a, b, c=1)"),
        (lambda *a: a, "(*a)"),
        (lambda a, b, *, k: a, "(a, b, *, k)"),
        (dict, "the class dict"),
    ],
)
def test_other_callables_are_refused(reducer: Any, shown: str) -> None:
    with pytest.raises(ValueError, match=r"^Invalid reducer signature\. Expected \(a, b\) -> c\. Got ") as caught:
        channel_of(Annotated[list, reducer])
    assert f"Got {shown} for key 'k' of Schema" in str(caught.value)


def test_a_channel_at_any_position() -> None:
    assert type(channel_of(Annotated[int, EphemeralValue, "doc"])) is EphemeralValue
    assert type(channel_of(Annotated[int, "doc", UntrackedValue])) is UntrackedValue
    assert channel_of(Annotated[list, "doc", Topic(int, True), "more"]) == Topic(int, True)
    assert channel_of(ReadOnly[Annotated[int, EphemeralValue(int, False)]]) == EphemeralValue(int, False)
    assert channel_of(NotRequired[Annotated[int, EphemeralValue]]).typ is int
    assert type(channel_of(Annotated[int, EphemeralValue[int]])) is EphemeralValue
    # A channel beats a reducer behind it.
    assert type(channel_of(Annotated[int, EphemeralValue, plus])) is EphemeralValue


def test_an_instance_is_copied_for_every_field() -> None:
    shared: Topic[int] = Topic(int, True)
    channels = read_schema(typed({"a": Annotated[list, shared], "b": Annotated[list, shared]})).channels
    assert channels["a"] is not channels["b"]
    assert [channels["a"].key, channels["b"].key, shared.key] == ["a", "b", ""]
    channels["a"].update([1])
    assert not channels["b"].is_available()


def test_delta_gets_the_real_type() -> None:
    given: DeltaChannel[Any] = DeltaChannel(batch, snapshot_frequency=7)
    for annotation in (
        Annotated[dict[str, int], given],
        Annotated[NotRequired[dict[str, int]], given],
        ReadOnly[Annotated[dict[str, int], given, "doc"]],
    ):
        channel = channel_of(annotation)
        assert channel == given
        assert channel.typ is dict
        assert channel.from_checkpoint(MISSING).get() == {}
    assert given.typ is list


def test_a_channel_class_that_needs_more() -> None:
    with pytest.raises(GraphDefinitionError, match=r"Annotated\[\.\.\., NamedBarrierValue\(\.\.\.\)\]"):
        channel_of(Annotated[str, NamedBarrierValue])


@pytest.mark.parametrize("theirs", [TheirTopic, TheirTopic(int)])
def test_langgraphs_own_channel_is_refused_with_the_way_out(theirs: Any) -> None:
    with pytest.raises(GraphDefinitionError, match=r"from raygraph\.channels import Topic"):
        channel_of(Annotated[list, theirs])


# -- managed values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        (RemainingSteps, RemainingStepsManager),
        (IsLastStep, IsLastStepManager),
        (NotRequired[RemainingSteps], RemainingStepsManager),
        (ReadOnly[IsLastStep], IsLastStepManager),
        (Annotated[RemainingSteps, "doc"], RemainingStepsManager),
        (Optional[RemainingSteps], RemainingStepsManager),  # noqa: UP045  # an old spelling that has to work
    ],
)
def test_managed_values(annotation: Any, spec: Any) -> None:
    channels, managed, hints = read_schema(typed({"k": annotation, "v": int}))
    assert list(channels) == ["v"]
    assert managed == {"k": spec}
    assert list(hints) == ["k", "v"]


def test_managed_values_of_a_model_with_a_default() -> None:
    class State(pydantic.BaseModel):
        left: RemainingSteps = 25

    assert read_schema(State).managed == {"left": RemainingStepsManager}


def test_what_managed_values_say() -> None:
    assert [RemainingStepsManager.get(Scratch(step, 5 - step)) for step in (1, 2, 3, 4)] == [4, 3, 2, 1]
    assert [IsLastStepManager.get(Scratch(step, 5 - step)) for step in (1, 2, 3, 4)] == [False, False, False, True]
    assert managed_facade.__all__ == sorted(managed_facade.__all__)


def test_langgraphs_own_managed_value_works() -> None:
    spec = get_args(TheirRemainingSteps)[1]
    assert is_managed_value(spec)
    assert spec.get(Scratch(1, 4)) == 4
    assert not is_managed_value(int)
    assert not is_managed_value(RemainingSteps)


def test_a_users_managed_value() -> None:
    class Step(ManagedValue[int]):
        @staticmethod
        def get(scratch: Scratch) -> int:
            return scratch.step

    assert read_schema(typed({"k": Annotated[int, Step]})).managed == {"k": Step}


@pytest.mark.parametrize("schema", [typed({"k": RemainingSteps}), IsLastStep])
def test_managed_values_are_refused_where_nobody_could_use_them(schema: Any) -> None:
    with pytest.raises(GraphDefinitionError, match="is a managed value"):
        read_schema(schema, allow_managed=False)


# -- declared defaults -----------------------------------------------------------------------------------


@dataclasses.dataclass
class DataDefaults:
    need: int
    n: Annotated[int, operator.add] = 10
    v: int = 5
    xs: Annotated[list[int], operator.add] = dataclasses.field(default_factory=lambda: [1])
    none: Optional[int] = None  # noqa: UP045  # an old spelling that has to work


class ModelDefaults(pydantic.BaseModel):
    need: int
    n: Annotated[int, operator.add] = 10
    v: int = 5
    xs: Annotated[list[int], operator.add] = [1]
    none: int | None = None


@pytest.mark.parametrize("schema", [DataDefaults, ModelDefaults])
def test_defaults_seed_the_channels(schema: Any) -> None:
    channels = read_schema(schema).channels
    first = {key: channel.from_checkpoint(MISSING) for key, channel in channels.items()}
    assert not first["need"].is_available()
    assert {key: first[key].get() for key in ("n", "v", "xs", "none")} == {"n": 10, "v": 5, "xs": [1], "none": None}
    first["n"].update([1])
    assert first["n"].get() == 11
    first["xs"].get().append("in place")
    assert channels["xs"].from_checkpoint(MISSING).get() == [1]


def test_a_model_with_a_factory() -> None:
    pytest.importorskip("pydantic", minversion="2.10")

    class State(pydantic.BaseModel):
        name: str = "x"
        ident: str = pydantic.Field(default_factory=lambda: uuid.uuid4().hex)
        derived: str = pydantic.Field(default_factory=lambda data: data["name"] + "!")

    channels = read_schema(State).channels
    one, two = (channels["ident"].from_checkpoint(MISSING) for _ in range(2))
    assert one.get() == one.get() != two.get()
    # It has no value without the other fields; pydantic makes it where the model is constructed.
    assert not channels["derived"].is_available()


def test_a_default_that_cannot_be_copied_is_shared() -> None:
    class Client:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("a connection")

    connection = Client()

    @dataclasses.dataclass
    class State:
        client: Any = connection

    assert read_schema(State).channels["client"].from_checkpoint(MISSING).get() is connection


def test_seeded_channels_can_be_pickled() -> None:
    channels = pickle.loads(pickle.dumps(read_schema(ModelDefaults).channels))
    assert channels["n"].get() == 10


def test_typed_dicts_and_plain_classes_declare_none() -> None:
    assert not read_schema(Derived).channels["a"].is_available()
    assert read_schema(Plain).channels["b"].declared() is None


# -- merging schemas -------------------------------------------------------------------------------------


def channels(**annotations: Any) -> dict[str, BaseChannel[Any, Any, Any]]:
    return read_schema(typed(annotations)).channels


@pytest.mark.parametrize("reducer_first", [True, False])
@pytest.mark.parametrize("annotation", [Annotated[list, plus], Annotated[list, Topic(int)]])
def test_a_plain_annotation_never_displaces_a_reducer(annotation: Any, reducer_first: bool) -> None:
    rich, plain = channels(k=annotation), channels(k=list)
    first, second = (rich, plain) if reducer_first else (plain, rich)
    graph: dict[str, Any] = {}
    owners: dict[str, str] = {}
    merge_channels(graph, first, "First", owners=owners)
    merge_channels(graph, second, "Second", owners=owners)
    assert graph == rich
    assert graph["k"].key == "k"
    assert owners == {"k": "First" if reducer_first else "Second"}


def test_conflicts_name_the_keys_and_both_schemas() -> None:
    graph = channels(k=Annotated[list, plus], other=Annotated[int, maximum], fine=int)
    owners = {"k": "State", "other": "State", "fine": "State"}
    kept = dict(graph)
    with pytest.raises(ValueError, match="already exists with a different type") as caught:
        merge_channels(
            graph,
            channels(new=int, k=Annotated[list, operator.add], other=Annotated[int, Topic], fine=int),
            "NodeInput",
            owners=owners,
        )
    text = str(caught.value)
    assert isinstance(caught.value, GraphDefinitionError)
    assert all(word in text for word in ("'k'", "'other'", "State", "NodeInput"))
    assert "'fine'" not in text
    assert graph == kept
    assert "new" not in owners


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (plus, plus),
        (keep_highest("a"), keep_highest("a")),
        (partial(plus), partial(plus)),
        (lambda a, b: a, lambda a, b: a),
    ],
)
def test_the_same_reducer_twice(one: Any, two: Any) -> None:
    graph = channels(k=Annotated[list, one])
    present = graph["k"]
    merge_channels(graph, channels(k=Annotated[list, two]), "Second")
    assert graph["k"] is present


def test_different_partials_conflict_instead_of_crashing() -> None:
    graph = channels(k=Annotated[list, partial(plus)])
    with pytest.raises(GraphDefinitionError, match="an earlier schema"):
        merge_channels(graph, channels(k=Annotated[list, plus]), "Second")


def test_managed_keys() -> None:
    graph: dict[str, Any] = {}
    specs: dict[str, Any] = {"k": RemainingStepsManager}
    merge_channels(graph, channels(k=int, v=int), "NodeInput", managed=specs)
    assert list(graph) == ["v"]
    with pytest.raises(GraphDefinitionError, match="'k' is a managed value"):
        merge_channels(graph, channels(k=Annotated[int, plus]), "NodeInput", managed=specs)
    assert list(graph) == ["v"]


def seeded(annotation: Any, value: Any) -> dict[str, BaseChannel[Any, Any, Any]]:
    found = channels(k=annotation)
    found["k"].seed(lambda: value)
    return found


def test_defaults_of_further_schemas() -> None:
    # An input schema's default is the state's, if that has none; a node's is the node's own business.
    for adopt, expected in ((True, 1), (False, None)):
        graph = channels(k=int)
        merge_channels(graph, seeded(int, 1), "Input", adopt_defaults=adopt)
        assert (graph["k"].get() if graph["k"].is_available() else None) == expected
    graph = seeded(int, 1)
    merge_channels(graph, seeded(int, 2), "Input", adopt_defaults=True)
    assert graph["k"].get() == 1
    # The state's default survives when a later schema brings the reducer.
    graph = seeded(int, 1)
    merge_channels(graph, channels(k=Annotated[int, plus]), "Node")
    graph["k"].update([2])
    assert graph["k"].get() == 3
    # A key that only the new schema has comes with its default.
    graph = {}
    merge_channels(graph, seeded(int, 2), "Node")
    assert graph["k"].get() == 2


# -- instances -------------------------------------------------------------------------------------------


def test_explicit_items_of_a_dataclass() -> None:
    assert explicit_items(DataDefaults(1)) == [("need", 1)]
    assert explicit_items(DataDefaults(1, n=10, v=6, xs=[1])) == [("need", 1), ("v", 6)]
    assert explicit_items(DataDefaults(1, n=True, xs=[2], none=0)) == [
        ("need", 1),
        ("n", True),
        ("xs", [2]),
        ("none", 0),
    ]


def test_explicit_items_of_a_model() -> None:
    assert explicit_items(ModelDefaults(need=1)) == [("need", 1)]
    assert explicit_items(ModelDefaults(need=1, none=None, n=10)) == [("need", 1), ("n", 10), ("none", None)]


def test_explicit_items_of_other_objects() -> None:
    plain = Plain()
    assert explicit_items(plain) == [("b", [])]
    plain.a = 1
    assert explicit_items(plain) == [("a", 1), ("b", [])]
    assert explicit_items(Row(1, [2])) == [("a", 1), ("b", [2])]


def test_explicit_items_with_values_that_cannot_be_compared() -> None:
    numpy = pytest.importorskip("numpy")

    @dataclasses.dataclass
    class State:
        array: Any = dataclasses.field(default_factory=lambda: numpy.zeros(3))

    state = State()
    assert [key for key, _ in explicit_items(state)] == ["array"]


@pytest.mark.parametrize("value", [None, 3, "x", {"a": 1}, [1], object()])
def test_no_items_of_what_has_no_fields(value: Any) -> None:
    assert explicit_items(value) == update_items(value) == []
    assert schema_keys(type(value)) == ()


@pytest.mark.parametrize(
    "obj",
    [
        DataDefaults(1),
        DataDefaults(1, none=3),
        ModelDefaults(need=1),
        ModelDefaults(need=1, none=None),
        ModelDefaults(need=1, none=4, n=0),
        Row(1, []),
    ],
)
def test_update_items_follow_langgraphs_rule(obj: Any) -> None:
    from langgraph._internal._fields import get_update_as_tuples

    assert update_items(obj) == get_update_as_tuples(obj, schema_keys(type(obj)))


def test_update_items_leave_out_only_a_models_own_none() -> None:
    assert update_items(DataDefaults(1)) == [("need", 1), ("n", 10), ("v", 5), ("xs", [1]), ("none", None)]
    assert update_items(ModelDefaults(need=1)) == [("need", 1), ("n", 10), ("v", 5), ("xs", [1])]


@pytest.mark.parametrize(
    ("schema", "constructor"),
    [(Data, Data), (Model, Model), (Derived, None), (Plain, None), (Row, None), (dict, None), (int | None, None)],
)
def test_input_constructor(schema: Any, constructor: Any) -> None:
    assert input_constructor(schema) is constructor


def test_schema_names() -> None:
    assert schema_name(Derived) == "Derived"
    assert schema_name(list[int]) == "list[int]"
    assert schema_name(Annotated[int, "doc"]) == "typing.Annotated[int, 'doc']"


# -- imports ---------------------------------------------------------------------------------------------


def in_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_pydantic_is_not_imported_for_other_schemas() -> None:
    code = (
        "import sys; from typing import TypedDict; from raygraph.build.schema import read_schema, explicit_items\n"
        "import raygraph.channels, raygraph.reducers, raygraph.managed\n"
        "read_schema(TypedDict('S', {'a': int})); explicit_items(object())\n"
        "print(sorted({'pydantic', 'ray', 'langchain_core', 'asyncio'} & set(sys.modules)))"
    )
    assert in_new_process(code) == "[]"

"""The stated differences from LangGraph 1.2.24: the one place that lists them.

`test_differences.py` shows each one on both engines, `test_differences_documented.py` holds README's table against
this list. `python -m tests.parity.differences` prints that table.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Overwritten:
    """What LangGraph leaves in the state where it does not unwrap an `Overwrite`."""

    value: Any
    type: str = "__overwrite__"


# `canon` writes values by the name of their class.
Overwritten.__name__ = "Overwrite"


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        name: Of the test that shows it.
        title: First column of README's table.
        there: Second column: what LangGraph does.
        here: Third column: what raygraph does.
        reason: Why.
        langgraph: What the test's graph gives there: a value, or "raises X" for an exception that is an X.
        raygraph: What it gives here.
    """

    name: str
    title: str
    there: str
    here: str
    reason: str
    langgraph: Any
    raygraph: Any


DIFFERENCES = (
    Difference(
        "recursion_limit_is_exact",
        "`recursion_limit=N`",
        "N-1 super-steps, or an error although the graph has ended at N",
        "exactly N super-steps of nodes; the error carries the state so far",
        "A limit of N that refuses a graph of N steps surprises everybody once.",
        "raises GraphRecursionError",
        {"xs": ["a"]},
    ),
    Difference(
        "default_recursion_limit",
        "Default recursion limit",
        "10007, or 25 when called through LangChain",
        "25, always",
        "A loop that does not end is to be noticed before it has cost something.",
        {"xs": [], "n": 30},
        "raises GraphRecursionError",
    ),
    Difference(
        "remaining_steps",
        "`RemainingSteps` in the first of N steps",
        "N-1, and `IsLastStep` one step early",
        "N: the step itself counts",
        "It follows from what the limit means.",
        {"xs": [(3, False), (2, False), (1, True)]},
        {"xs": [(4, False), (3, False), (2, False)]},
    ),
    Difference(
        "defaults_seed_channels",
        "Defaults of a dataclass or pydantic state",
        "not in the state; a reduced key starts at its type's zero",
        "the key starts at its default; same for `{}` and for an instance",
        "A default that is declared and not used is a trap (LG#5225, LG#6569).",
        {"n": 1},
        {"n": 11, "v": 5},
    ),
    Difference(
        "private_defaults",
        "Defaults of a node's own input schema",
        "only in that node's input",
        "the key starts at its default",
        "The same rule for every schema.",
        [{"xs": []}, {"xs": [3]}],
        [{"xs": [], "v": 3}, {"xs": [3], "v": 3}],
    ),
    Difference(
        "mutation_is_isolated",
        "A node changes its input in place",
        "siblings, later nodes and the final state see it",
        "nobody sees it; a warning names node and key",
        "Same result on every executor, whoever runs first.",
        {"xs": ["0", "HACK"], "n": 2},
        {"xs": ["0"], "n": 1},
    ),
    Difference(
        "returned_values_are_copied",
        "A value changed after it was returned",
        "changes the state",
        "the state keeps what was returned",
        "The state changes by updates only.",
        {"v": ["a", "later"]},
        {"v": ["a"]},
    ),
    Difference(
        "input_is_not_changed",
        "The caller's input",
        "shared with the nodes, which can change it",
        "never changed",
        "The state changes by updates only.",
        {"v": ["mine", "HACK"]},
        {"v": ["mine"]},
    ),
    Difference(
        "uncopyable_values_are_refused",
        "Values that cannot be copied (generators, sockets)",
        "pass by reference",
        "an error naming node and key, unless in an `UntrackedValue` on the driver",
        "They cannot travel, and nobody could be kept from changing them.",
        {"v": [0, 1, 2]},
        "raises ShippingError",
    ),
    Difference(
        "overwrite_without_a_reducer",
        "`Overwrite` on a key without a reducer",
        "the state holds the wrapper",
        "replaces the value",
        "It means the same on every kind of key.",
        {"v": Overwritten(3)},
        {"v": 3},
    ),
    Difference(
        "overwrite_as_a_first_value",
        "`Overwrite` as a key's first value",
        "the state holds the wrapper",
        "replaces the value",
        "It means the same whether the key was empty or not.",
        {"v": Overwritten(3)},
        {"v": 3},
    ),
    Difference(
        "read_only_keeps_its_reducer",
        "`ReadOnly[Annotated[T, reducer]]`",
        "loses the reducer",
        "keeps it",
        "A type qualifier is not a statement about merging.",
        {"xs": ["b"]},
        {"xs": ["0", "a", "b"]},
    ),
    Difference(
        "a_builtin_as_a_reducer",
        "A builtin such as `max` as a reducer",
        "`ValueError`: it has no signature to look at",
        "works",
        "It takes two values, which is all that is asked.",
        "raises ValueError",
        {"n": 5},
    ),
    Difference(
        "a_partial_as_a_reducer_in_two_schemas",
        "A `functools.partial` as a reducer in two schemas",
        "`AttributeError`",
        "works",
        "A reducer needs no name.",
        "raises AttributeError",
        {"xs": ["0", "a"]},
    ),
    Difference(
        "unknown_key_in_an_update",
        "A key the state does not have, in an update",
        "dropped",
        "an error naming node and key (`strict=False`: dropped)",
        "A typo is to be found where it was made.",
        {"v": 1},
        "raises InvalidUpdateError",
    ),
    Difference(
        "unknown_key_in_the_input",
        "A key the state does not have, in the input",
        "dropped",
        "an error naming the key (`strict=False`: dropped)",
        "A typo is to be found where it was made.",
        {"v": 1},
        "raises InvalidUpdateError",
    ),
    Difference(
        "unknown_goto",
        "`Command(goto=...)` to an unknown node",
        "a log line, ignored",
        "an error (`strict=False`: ignored)",
        "The rest of the graph silently not running is no result.",
        {"v": 1},
        "raises RoutingError",
    ),
    Difference(
        "unknown_send",
        "`Send` to an unknown node",
        "a log line, ignored",
        "an error (`strict=False`: ignored)",
        "The rest of the graph silently not running is no result.",
        {"v": 1},
        "raises RoutingError",
    ),
    Difference(
        "unknown_route",
        "A router returns an unknown node",
        "a log line, ignored",
        "an error (`strict=False`: ignored)",
        "The rest of the graph silently not running is no result.",
        {"v": 1},
        "raises RoutingError",
    ),
    Difference(
        "route_outside_the_path_map",
        "A router's result is not in its `path_map`",
        "a bare `KeyError`",
        "`RoutingError` (a `ValueError`) naming node, router and result",
        "A `KeyError` could come from anywhere.",
        "raises KeyError",
        "raises RoutingError",
    ),
    Difference(
        "a_join_left_open",
        "A list edge that never gets all its starts",
        "the run ends without its node",
        "an error naming the node and what it waits for (`strict=False`: ends)",
        "A join that never happened is a lost result.",
        {"xs": ["a"]},
        "raises RaygraphError",
    ),
    Difference(
        "a_setting_in_the_wrong_place",
        "A setting in the wrong place, such as `configurable.recursion_limit`",
        "ignored",
        "an error that says where it belongs",
        "A limit that is not there is noticed too late.",
        {"xs": ["a", "b"]},
        "raises ConfigError",
    ),
    Difference(
        "parent_command_without_a_parent",
        "`Command(graph=Command.PARENT)` in the outermost graph",
        "`ParentCommand`, an internal signal, reaches the caller",
        "`InvalidUpdateError` naming the node",
        "Control flow is not an error message.",
        "raises ParentCommand",
        "raises InvalidUpdateError",
    ),
    Difference(
        "deferred_nodes_compose",
        "A deferred node after a deferred node",
        "both are released together, the second runs twice",
        "the second waits for the first",
        "A join waits for everything that can still reach it (LG#6005).",
        {"xs": ["a", "b", "b2", "b3", "d1", "d2", "d2"]},
        {"xs": ["a", "b", "b2", "b3", "d1", "d2"]},
    ),
    Difference(
        "deferred_nodes_wait_for_sends",
        "A deferred node and pending `Send`s that lead to it",
        "it does not wait for them, and runs again after them",
        "it waits for them",
        "A join waits for everything that can still reach it.",
        {"xs": ["a", "d saw 1", "w0", "w1", "d saw 4"]},
        {"xs": ["a", "w0", "w1", "d saw 3"]},
    ),
    Difference(
        "command_as_input_is_applied_once",
        "A `Command` as the first input",
        "its update is applied twice",
        "applied once",
        "An update is one update.",
        {"xs": ["in", "in", "a"]},
        {"xs": ["in", "a"]},
    ),
    Difference(
        "async_nodes_in_invoke",
        "Async nodes under `invoke` and `stream`",
        "`TypeError`: only under `ainvoke` and `astream`",
        "run",
        "A worker process has room for an event loop.",
        "raises TypeError",
        {"v": 1},
    ),
    Difference(
        "a_tuple_of_stream_modes",
        "`stream_mode` as a tuple",
        "bare payloads, without their modes",
        "the same as a list: `(mode, payload)`",
        "A payload nobody can tell apart is of no use.",
        [{"a": {"v": 1}}, {"v": 1}],
        [("updates", {"a": {"v": 1}}), ("values", {"v": 1})],
    ),
)


def table() -> str:
    """The rows of README's table."""
    return "\n".join(f"| {d.title} | {d.there} | {d.here} |" for d in DIFFERENCES)


if __name__ == "__main__":
    print(table())

"""What users do with a compiled graph, on every executor."""

from __future__ import annotations

import asyncio
import operator
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from raygraph import (
    END,
    START,
    Command,
    Runtime,
    Send,
    StateGraph,
    get_config,
    get_runtime,
    get_stream_writer,
    per_worker,
)
from raygraph.channels import UntrackedValue
from raygraph.errors import ConfigError, InfeasibleError, NodeCrashed, ShippingError
from raygraph.executors import ProcessExecutor

REMOTE = ("processes", "ray")


class State(TypedDict, total=False):
    xs: Annotated[list[Any], operator.add]
    v: int


def tag(name: str) -> Any:
    return lambda state: {"xs": [name]}


def fan(count: int, node: Any, **options: Any) -> StateGraph:
    built = StateGraph(State)
    built.add_node("w", node, **options)
    built.add_conditional_edges(START, lambda state: [Send("w", i) for i in range(count)], ["w"])
    return built


def one(node: Any, **options: Any) -> StateGraph:
    built = StateGraph(State)
    built.add_node("a", node, **options)
    built.add_edge(START, "a")
    return built


def test_a_graph_with_a_bit_of_everything(executor: str) -> None:
    built = StateGraph(State)
    for name in ("b", "a", "join", "end"):
        built.add_node(name, tag(name))
    built.add_node("w", lambda i: {"xs": [i]})
    built.add_node("go", lambda state: Command(update={"v": len(state["xs"])}, goto="end"))
    built.add_edge(START, "a")
    built.add_edge(START, "b")
    built.add_edge(["a", "b"], "join")
    built.add_conditional_edges("join", lambda state: [Send("w", i) for i in range(12)], ["w"])
    built.add_edge("w", "go")
    app = built.compile(executor=executor)
    expected = {"xs": ["in", "a", "b", "join", *range(12), "end"], "v": 16}
    assert app.invoke({"xs": ["in"]}) == expected
    assert list(app.stream({"xs": ["in"]}, stream_mode="values"))[-1] == expected


def test_work_runs_in_the_right_place(executor: str) -> None:
    app = fan(4, lambda i: {"xs": [(os.getpid(), threading.current_thread() is threading.main_thread())]})
    found = app.compile(executor="inline").invoke({}, {"executor": executor})["xs"]
    pids = {pid for pid, _ in found}
    if executor in REMOTE:
        assert os.getpid() not in pids
        assert all(on_main for _, on_main in found)
    else:
        assert pids == {os.getpid()}


def test_update_and_custom_streams(executor: str) -> None:
    def talks(i: int) -> dict[str, Any]:
        write = get_stream_writer()
        write({"begin": i})
        write({"end": i})
        return {"xs": [i]}

    run = fan(5, talks).compile(executor=executor).stream({}, stream_mode=["updates", "custom"])
    parts = list(run)
    for i in range(5):
        own = [
            p for p in parts if p in (("custom", {"begin": i}), ("custom", {"end": i}), ("updates", {"w": {"xs": [i]}}))
        ]
        assert own == [("custom", {"begin": i}), ("custom", {"end": i}), ("updates", {"w": {"xs": [i]}})]
    assert len(parts) == 15
    assert run.report.tasks == 6
    assert run.report.output == {"xs": [0, 1, 2, 3, 4]}


def test_the_writer_is_silent_when_nobody_listens(executor: str) -> None:
    def talks(state: State) -> dict[str, Any]:
        get_stream_writer()("x")
        return {"v": 1}

    assert list(one(talks).compile(executor=executor).stream({})) == [{"a": {"v": 1}}]


def test_config_runtime_and_context_reach_the_node(executor: str) -> None:
    def asks(state: State, config: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        assert get_runtime().context == runtime.context
        assert get_config()["configurable"] == config["configurable"]
        metadata = config["metadata"]
        return {"xs": [config["configurable"]["k"], runtime.context.user, metadata["langgraph_node"], runtime.seed]}

    built = StateGraph(State, context_schema=Context)
    built.add_node("a", asks)
    built.add_edge(START, "a")
    app = built.compile(executor="inline")
    config = {"configurable": {"k": 5}, "callbacks": [threading.Lock()], "seed": 3}
    found = app.invoke({}, {**config, "executor": executor}, context={"user": "u"})["xs"]
    assert found == app.invoke({}, {**config, "executor": "inline"}, context=Context("u"))["xs"]
    assert found[:3] == [5, "u", "a"]
    with pytest.raises(ConfigError, match=r"context has key 'usr'.*Did you mean 'user'"):
        app.invoke({}, context={"usr": 1})


@dataclass
class Context:
    user: str


def test_async_nodes_and_callers(executor: str) -> None:
    async def node(state: State) -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"xs": ["async"]}

    app = one(node).compile(executor=executor)
    assert app.invoke({}) == {"xs": ["async"]}

    async def caller() -> Any:
        chunks = [chunk async for chunk in app.astream({}, stream_mode=["values", "updates"])]
        return await app.ainvoke({}), chunks, app.invoke({})

    awaited, chunks, blocking = asyncio.run(caller())
    assert awaited == blocking == {"xs": ["async"]}
    assert chunks == [("updates", {"a": {"xs": ["async"]}}), ("values", {"xs": ["async"]})]


def test_cancelling_the_awaiting_task_cancels_the_run(executor: str) -> None:
    if executor == "inline":
        pytest.skip("a node that runs in the driver's own thread cannot be stopped")
    app = one(lambda state: time.sleep(20)).compile(executor=executor)

    async def caller() -> float:
        task = asyncio.create_task(app.ainvoke({}))
        await asyncio.sleep(1.0)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(caller()) < 5
    assert one(tag("next")).compile(executor=executor).invoke({}) == {"xs": ["next"]}


def test_leaving_a_stream_early_stops_the_run(executor: str) -> None:
    def slow(i: int) -> dict[str, Any]:
        if i:
            time.sleep(30 if executor != "inline" else 0)
        return {"xs": [i]}

    started = time.monotonic()
    with fan(3, slow).compile(executor=executor).stream({}) as run:
        assert next(iter(run)) == {"w": {"xs": [0]}}
    assert time.monotonic() - started < 15
    assert list(run) == []
    assert fan(2, lambda i: {"xs": [i]}).compile(executor=executor).invoke({}) == {"xs": [0, 1]}


def test_a_node_can_have_its_own_executor(executor: str) -> None:
    built = fan(2, lambda i: {"xs": [os.getpid()]})
    built.add_node("here", lambda state: {"v": os.getpid()}, executor="threads")
    built.add_edge(START, "here")
    out = built.compile(executor=executor).invoke({})
    assert out["v"] == os.getpid()
    assert (os.getpid() in out["xs"]) == (executor not in REMOTE)


@pytest.mark.parametrize("where", ["config", "node"])
def test_max_concurrency(executor: str, where: str, tmp_path: Any) -> None:
    folder = str(tmp_path)

    def counts(i: int) -> dict[str, Any]:
        mark = os.path.join(folder, f"running-{i}")
        with open(mark, "w"):
            most = len(os.listdir(folder))
            time.sleep(0.05)
        os.unlink(mark)
        return {"xs": [most]}

    options = {"max_concurrency": 1} if where == "node" else {}
    config = {"max_concurrency": 1} if where == "config" else {}
    assert fan(6, counts, **options).compile(executor=executor).invoke({}, config)["xs"] == [1] * 6


def test_num_cpus_are_held_while_a_node_runs(executor: str, tmp_path: Any) -> None:
    """Two nodes that ask for both CPUs each never run side by side."""
    if executor == "threads":
        pytest.skip("threads take resource requests as met")
    folder = str(tmp_path)

    def counts(i: int) -> dict[str, Any]:
        mark = os.path.join(folder, f"running-{i}")
        with open(mark, "w"):
            most = len(os.listdir(folder))
            time.sleep(0.1)
        os.unlink(mark)
        return {"xs": [most]}

    found = fan(4, counts, num_cpus=2).compile(executor=ProcessExecutor(2) if executor == "processes" else executor)
    most = max(found.invoke({})["xs"])
    assert most == 1


def test_a_nodes_runtime_env_and_resources_reach_ray(executor: str) -> None:
    if executor != "ray":
        pytest.skip("only Ray has them")

    def asks(state: State) -> dict[str, Any]:
        import ray

        held = ray.get_runtime_context().get_assigned_resources()
        return {"xs": [os.environ.get("RAYGRAPH_TEST_ENV"), held.get("CPU")]}

    options = {"runtime_env": {"env_vars": {"RAYGRAPH_TEST_ENV": "here"}}, "num_cpus": 2}
    assert one(asks, **options).compile(executor="ray").invoke({})["xs"] == ["here", 2]


def test_subgraphs_are_driven_by_the_driver(executor: str) -> None:
    inner = StateGraph(State)
    inner.add_node("deep", lambda state: {"xs": [os.getpid()]})
    inner.add_node("deeper", tag("deeper"))
    inner.add_edge(START, "deep")
    inner.add_edge("deep", "deeper")
    outer = StateGraph(State)
    outer.add_node("sub", inner.compile(executor=executor))
    outer.add_node("after", tag("after"))
    outer.add_edge(START, "sub")
    outer.add_edge("sub", "after")
    found = outer.compile(executor=executor).invoke({})["xs"]
    assert found[1:] == ["deeper", "after"]
    assert (found[0] == os.getpid()) == (executor not in REMOTE)


def test_a_graph_called_inside_a_node_runs_right_there(executor: str) -> None:
    inner = one(lambda state: {"v": os.getpid()}).compile(executor=executor)
    outer = one(lambda state: {"xs": [inner.invoke({})["v"] == os.getpid()]})
    assert outer.compile(executor=executor).invoke({}) == {"xs": [True]}


def test_parent_commands(executor: str) -> None:
    inner = StateGraph(State)
    inner.add_node("jump", lambda state: Command(graph=Command.PARENT, update={"xs": ["up"]}, goto="there"))
    inner.add_node("never", tag("never"))
    inner.add_edge(START, "jump")
    inner.add_edge("jump", "never")
    outer = StateGraph(State)
    outer.add_node("sub", inner.compile(executor=executor))
    outer.add_node("there", tag("there"))
    outer.add_edge(START, "sub")
    assert outer.compile(executor=executor).invoke({}) == {"xs": ["up", "there"]}


def test_delta_output_of_a_subgraph(executor: str) -> None:
    inner = one(tag("in1"))
    outer = StateGraph(State)
    outer.add_node("first", tag("a"))
    outer.add_node("sub", inner.compile(executor=executor), output="delta")
    outer.add_edge(START, "first")
    outer.add_edge("first", "sub")
    assert outer.compile(executor=executor).invoke({"xs": ["i"]}) == {"xs": ["i", "a", "in1"]}


class Custom(Exception):
    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


class TestErrors:
    def test_the_nodes_own_exception(self, executor: str) -> None:
        def bad(state: State) -> None:
            try:
                {}["missing"]
            except KeyError as cause:
                raise Custom(4, detail="x") from cause

        with pytest.raises(Custom, match="code 4") as caught:
            one(bad).compile(executor=executor).invoke({})
        error: Any = caught.value
        assert (type(error), error.args, error.code, error.detail) == (Custom, ("code 4",), 4, "x")
        assert isinstance(error.__cause__, KeyError)
        assert any("in node 'a' of graph 'LangGraph', step 1" in note for note in error.__notes__)
        assert (error.raygraph.node, error.raygraph.step, error.raygraph.attempt) == ("a", 1, 1)

    def test_a_failing_node_does_not_wait_for_its_siblings(self, executor: str) -> None:
        if executor == "inline":
            pytest.skip("nothing runs beside a node in the driver's own thread")

        def node(i: int) -> None:
            if i == 0:
                raise ValueError("now")
            time.sleep(30)

        started = time.monotonic()
        with pytest.raises(ValueError, match="now"):
            fan(2, node).compile(executor=executor).invoke({})
        assert time.monotonic() - started < 15

    def test_sys_exit_is_a_crash(self, executor: str) -> None:
        with pytest.raises(NodeCrashed, match=r"'a' called sys.exit") as caught:
            one(lambda state: exit(3)).compile(executor=executor).invoke({})
        assert caught.value.exit_code == 3

    def test_a_dying_process_is_a_crash(self, executor: str) -> None:
        if executor not in REMOTE:
            pytest.skip("would end the test run itself")
        app = one(lambda state: os._exit(7)).compile(executor=executor)
        with pytest.raises(NodeCrashed, match="'a'") as caught:
            app.invoke({})
        assert (caught.value.node, caught.value.attempt, caught.value.step) == ("a", 1, 1)
        assert one(tag("next")).compile(executor=executor).invoke({}) == {"xs": ["next"]}

    def test_what_cannot_travel_is_named_at_compile(self, executor: str) -> None:
        client = threading.Lock()
        built = one(lambda state: {"v": client.locked() + 1})
        if executor in REMOTE:
            with pytest.raises(ShippingError, match="Node 'a' cannot be sent to workers: captured `client`"):
                built.compile(executor=executor)
        else:
            assert built.compile(executor=executor).invoke({}) == {"xs": [], "v": 1}

    def test_a_result_that_cannot_be_copied_is_named(self, executor: str) -> None:
        with pytest.raises(ShippingError, match=r"'a'.*xs\[1\]\.?.*lock") as caught:
            one(lambda state: {"xs": [1, threading.Lock()]}).compile(executor=executor).invoke({})
        assert (caught.value.node, caught.value.key) == ("a", "xs")

    def test_more_cpus_than_there_are(self, executor: str) -> None:
        app = one(tag("x"), num_cpus=100_000).compile(executor=executor)
        if executor in REMOTE:
            with pytest.raises(InfeasibleError, match=r"'a'.*100000") as caught:
                app.invoke({})
            assert caught.value.node == "a"
        else:
            assert app.invoke({}) == {"xs": ["x"]}


def test_per_worker_is_built_once_per_process(executor: str) -> None:
    resource = per_worker(lambda: [os.getpid(), object()])
    built = fan(8, lambda i: {"xs": [(os.getpid(), resource()[0], id(resource()))]})
    found = built.compile(executor=executor).invoke({})["xs"]
    assert all(pid == owner for pid, owner, _ in found)
    assert len({(pid, identity) for pid, _, identity in found}) == len({pid for pid, _, _ in found})


class Shared(TypedDict, total=False):
    client: Annotated[Any, UntrackedValue]
    same: bool


def test_an_untracked_value_passes_by_reference_in_the_driver_only(executor: str) -> None:
    lock = threading.Lock()
    built = StateGraph(Shared)
    built.add_node("a", lambda state: {"same": state["client"] is not None})
    built.add_edge(START, "a")
    app = built.compile(executor=executor)
    if executor in REMOTE:
        with pytest.raises(ShippingError, match=r"client.*lock"):
            app.invoke({"client": lock})
    else:
        assert app.invoke({"client": lock})["same"] is True


def test_many_runs_at_once(executor: str) -> None:
    app = fan(4, lambda i: {"xs": [i * 10]}).compile(executor=executor)
    expected = {"xs": [0, 10, 20, 30]}
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: app.invoke({}), range(16))) == [expected] * 16

    async def together() -> list[Any]:
        return await asyncio.gather(*(app.ainvoke({}) for _ in range(16)))

    assert asyncio.run(together()) == [expected] * 16


def test_a_loop_ends_with_a_recursion_error_that_has_the_state(executor: str) -> None:
    from raygraph.errors import GraphRecursionError

    built = one(lambda state: {"v": state["v"] + 1})
    built.add_conditional_edges("a", lambda state: END if state["v"] > 100 else "a", ["a", END])
    app = built.compile(executor=executor)
    with pytest.raises(GraphRecursionError) as caught:
        app.invoke({"v": 0}, {"recursion_limit": 6})
    assert caught.value.state == {"v": 6, "xs": []}

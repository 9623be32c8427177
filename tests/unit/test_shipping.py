"""What travels to a worker and back, and what is said about what cannot."""

from __future__ import annotations

import functools
import gc
import ssl
import threading
from typing import Any

import numpy as np
import pytest

from raygraph.build.specs import Branch, InputSpec, Program
from raygraph.errors import ShippingError
from raygraph.execute import shipping
from raygraph.execute.culprit import explain_unpicklable, find_unpicklable
from raygraph.execute.depot import Depot, encode_outcome
from raygraph.execute.shipping import Shipper, check_program, decode_outcome, make_blob, program_blob
from raygraph.execute.worker import run_call
from raygraph.state.records import Call, Outcome, RunContext, Usage
from raygraph.state.snapshot import Packed, pack, unpack
from raygraph.state.types import Send
from tests.executors.calls import make_call, program, result_of

RUN = RunContext("run", "graph", {"configurable": {"thread_id": "1"}})


class Client:
    def __init__(self) -> None:
        self._ctx = ssl.create_default_context()
        self.name = "client"


class Fetcher:
    def __init__(self) -> None:
        self.client = Client()

    def fetch(self, s: dict[str, Any]) -> None: ...

    def __call__(self, s: dict[str, Any]) -> None: ...


def never(*_: object) -> None:
    raise AssertionError("no custom events here")


def serve(depot: Depot, shipper: Shipper, call: Call) -> Outcome:
    """One round trip without a process: only new blobs are handed over."""
    data, blobs = shipper.encode(call)
    for blob in blobs:
        if not depot.has(blob.key):
            depot.add(blob.key, [memoryview(part) for part in blob.parts])
    return decode_outcome(depot.serve(data, never), call.task.node)


def test_a_round_trip_gives_what_running_it_here_gives() -> None:
    call = make_call(lambda s: {"x": [s["x"], {"a": (1, 2)}]}, {"k": [1, 2]})
    there = serve(Depot(), Shipper(RUN, surroundings=True), call)
    here = run_call(call, RUN, None, in_driver=True)
    assert result_of(there) == result_of(here) == [{"k": [1, 2]}, {"a": (1, 2)}]
    assert (there.task_id, there.attempt, there.mutated) == (here.task_id, here.attempt, here.mutated)
    assert there.usage.pid


def test_a_program_is_pickled_once_and_forgotten_with_it() -> None:
    made = program(np.sum)
    blob = program_blob(made)
    assert program_blob(made, fresh=True) is blob
    identity = id(made)
    assert identity in shipping._programs
    del made
    gc.collect()
    assert identity not in shipping._programs


def test_equal_code_has_one_key_and_changed_captures_another() -> None:
    box = [1]
    made = program(lambda s: {"x": box})
    key = program_blob(made).key
    assert program_blob(made, fresh=True).key == key
    box.append(2)
    assert program_blob(made).key == key
    assert program_blob(made, fresh=True).key != key


def test_a_large_value_is_one_blob_while_its_version_stands() -> None:
    shipper, look = Shipper(RUN, surroundings=False), program(lambda s: {"x": 1})
    inputs = {"x": pack(np.zeros(100_000))}
    keys = []
    for _ in range(2):
        call = make_call(look)
        _, blobs = shipper.encode(Call(call.task, look, inputs))
        keys.append([blob.key for blob in blobs])
    assert keys[0] == keys[1]
    assert len(keys[0]) == 3
    _, blobs = shipper.encode(Call(call.task, look, {"x": pack(np.zeros(100_000))}))
    assert blobs[-1].key not in keys[0]
    assert set(keys[0][::2]) <= set(shipper.keys)


def test_small_and_large_values_arrive_read_only_and_unshared() -> None:
    depot, shipper = Depot(), Shipper(RUN, surroundings=False)
    for size in (10, 100_000):
        call = make_call(lambda s: {"x": (s["x"].flags.writeable, float(s["x"].sum()))}, np.ones(size))
        assert result_of(serve(depot, shipper, call)) == (False, float(size))


def test_values_not_used_for_long_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_REMEMBERED", 500_000)
    shipper, look = Shipper(RUN, surroundings=False), program(lambda s: {"x": 1})
    for _ in range(10):
        call = make_call(look)
        shipper.encode(Call(call.task, look, {"x": pack(b"x" * 200_000 + bytes(1)), "y": pack(["y" * 200_000])}))
    assert sum(blob.size for _, blob in shipper._values.values()) <= 500_000


def test_the_depot_keeps_its_limit_but_never_less_than_one() -> None:
    depot = Depot(limit=100)
    for n in range(5):
        depot.add(str(n), [b"x" * 40])
        depot.has("0")
    depot.trim()
    assert [key for key in "01234" if depot.has(key)] == ["0", "4"]
    depot.add("huge", [b"x" * 1000])
    depot.trim()
    assert depot.has("huge")


def test_a_send_keeps_its_packed_argument() -> None:
    packed = pack({"a": [1]})
    parts = encode_outcome(Outcome("t", 2, (("__pregel_tasks", Send("b", packed, timeout=3)),)), "a")
    ((channel, send),) = decode_outcome(parts, "a").writes
    assert (channel, send.node, send.timeout, unpack(send.arg)) == ("__pregel_tasks", "b", 3, {"a": [1]})


def test_an_outcome_keeps_all_it_says() -> None:
    outcome = Outcome("t", 3, (("x", Packed(1)),), ValueError("v"), ("m",), 5, Usage(1.0, 2.0, 3.0, 4, 5, "h"))
    got = decode_outcome(encode_outcome(outcome, "a"), "a")
    assert (got.task_id, got.attempt, got.mutated, got.customs, got.usage) == ("t", 3, ("m",), 5, outcome.usage)
    assert type(got.error) is ValueError
    assert got.writes[0][1].value == 1


def test_a_result_that_cannot_leave_names_the_path() -> None:
    class Row:
        def __init__(self) -> None:
            self.conn = threading.Lock()

    call = make_call(lambda s: {"x": [1, Row()]})
    error = run_call(call, RUN, None, in_driver=False).error
    assert isinstance(error, ShippingError)
    assert "x[1].conn" in str(error)
    assert "lock" in str(error)
    outcome = Outcome("t", 1, (("x", [1, Row()]),))
    error = decode_outcome(encode_outcome(outcome, "a"), "a").error
    assert isinstance(error, ShippingError)
    assert "Node 'a' returned x[1].conn" in str(error)


def test_a_value_that_passes_by_reference_cannot_go_to_a_worker() -> None:
    call = make_call(lambda s: None)
    call = Call(call.task, call.program, {"db": Packed({"c": threading.Lock()})})
    with pytest.raises(ShippingError, match=r"reads db\['c'\].*executor='threads'"):
        Shipper(RUN, surroundings=False).encode(call)


def test_a_context_that_cannot_travel() -> None:
    run = RunContext("run", "graph", {}, context={"lock": threading.Lock()})
    with pytest.raises(ShippingError, match=r"The run's context\['lock'\] holds"):
        Shipper(run, surroundings=False)


def test_code_the_worker_does_not_have_is_an_outcome() -> None:
    call = make_call(lambda s: None)
    shipper, depot = Shipper(RUN, surroundings=False), Depot()
    data, (run, code) = shipper.encode(call)
    depot.add(run.key, run.parts)
    depot.add(code.key, make_blob("", b"cno_such_module\nf\n.").parts)
    error = decode_outcome(depot.serve(data, never), "node").error
    assert isinstance(error, ShippingError)
    assert "could not be loaded in the worker: ModuleNotFoundError" in str(error)
    assert "register_pickle_by_value" in str(error)


LOCK = threading.Lock()


def captures() -> dict[str, Any]:
    lock, fetcher, things = threading.Lock(), Fetcher(), {"a": [1, threading.Lock()]}

    def helper() -> Any:
        return lock

    return {
        "captured `lock` (lock)": lambda s: lock,
        "captured `self.client._ctx` (SSLContext)": fetcher.fetch,
        "captured `fetcher.client._ctx` (SSLContext)": lambda s: fetcher,
        "captured `things['a'][1]` (lock)": lambda s: things,
        "captured `helper`, which captured `lock` (lock)": lambda s: helper(),
        "captured `args[0].client._ctx` (SSLContext)": functools.partial(print, fetcher),
        "captured `client._ctx` (SSLContext)": functools.partial(print, client=Client()),
        "captured `held` (lock)": lambda s, held=lock: held,
    }


@pytest.mark.parametrize("why", list(captures()))
def test_the_explanation_names_what_was_captured(why: str) -> None:
    assert explain_unpicklable(captures()[why]) == why


def test_globals_and_callable_instances() -> None:
    space: dict[str, Any] = {"LOCK": LOCK, "__name__": "__main__"}
    exec("def f(s): return LOCK", space)
    assert explain_unpicklable(space["f"]) == "captured `LOCK` (lock)"
    assert explain_unpicklable(Fetcher()) == "captured `self.client._ctx` (SSLContext)"


def test_the_error_names_the_node_and_the_ways_out() -> None:
    made = program(Fetcher().fetch, "fetch")
    with pytest.raises(ShippingError) as info:
        check_program(made)
    assert str(info.value) == (
        "Node 'fetch' cannot be sent to workers: captured `self.client._ctx` (SSLContext). Build it inside the node "
        "or use per_worker(factory), or keep the node in the driver with executor='threads'."
    )
    assert info.value.node == "fetch"


def test_routers_are_named_too() -> None:
    lock = threading.Lock()
    branch = Branch("choose", lambda s: lock, None, InputSpec(("x",)))
    made = Program("a", None, InputSpec(("x",)), frozenset({"x"}), branches=(branch,))
    with pytest.raises(ShippingError, match=r"Router 'choose' of node 'a' .* captured `lock`"):
        check_program(made)


def test_find_unpicklable_says_where_and_what() -> None:
    lock = threading.Lock()
    assert find_unpicklable([1, {"k": lock}], "xs") == ("xs[1]['k']", lock)
    assert find_unpicklable(lock, "xs") == ("xs", lock)
    cyclic: list[Any] = [lock]
    cyclic.insert(0, cyclic)
    assert find_unpicklable(cyclic, "xs")[1] is lock

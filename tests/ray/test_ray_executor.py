"""Ray: what is connected to, started and stopped; how nodes run, fail, and are stopped there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raygraph.errors import InfeasibleError, NodeCrashed
from raygraph.execute.ray_errors import check_feasible, translate
from raygraph.execute.ray_executor import RayExecutor
from raygraph.state.records import Custom, Outcome
from tests.executors.calls import Runner, make_call, options, program, result_of

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
ray = pytest.importorskip("ray")

ROOT = Path(__file__).parents[2]
INIT = {
    "address": "local",
    "num_cpus": 2,
    "include_dashboard": False,
    "log_to_driver": False,
    "object_store_memory": 256 << 20,
    "labels": {"zone": "a"},
}


@pytest.fixture(scope="module")
def executor() -> Iterator[RayExecutor]:
    """An executor in a process where the user has called `ray.init` himself."""
    ray.init(logging_level="error", **INIT)
    made = RayExecutor()
    yield made
    made.shutdown()
    assert ray.is_initialized()  # not ours to stop
    ray.shutdown()


@pytest.fixture
def runner(executor: RayExecutor) -> Iterator[Runner]:
    with Runner(executor) as made:
        yield made


def script(code: str, timeout: float = 110) -> subprocess.CompletedProcess[str]:
    head = f"INIT = {INIT!r}\nfrom tests.executors.calls import *\nfrom raygraph.executors import *\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


def test_it_runs_elsewhere_and_answers_each_call(runner: Runner) -> None:
    assert runner.result(lambda s: {"x": os.getpid()}) != os.getpid()
    square = program(lambda s: {"x": s["x"] ** 2})
    calls = {runner.submit(square, n).task.id: n for n in range(100)}
    outcomes = [runner.take() for _ in calls]
    assert {o.task_id: result_of(o) for o in outcomes} == {task: n**2 for task, n in calls.items()}


def test_errors_are_the_nodes_own(runner: Runner) -> None:
    class UserError(Exception):
        def __init__(self, code: int, detail: str) -> None:
            super().__init__(detail)
            self.code = code

    def fail(s: dict[str, Any]) -> None:
        raise UserError(s["x"], "boom")

    error = runner.outcome(fail, 4).error
    assert type(error) is UserError
    assert (error.code, error.args) == (4, ("boom",))
    assert "in fail" in error.__notes__[-1]


def test_a_crash_is_told_and_not_repeated(runner: Runner, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def crash(s: dict[str, Any]) -> None:
        with open(log, "a") as file:
            file.write("ran\n")
        os._exit(3)

    outcome = runner.outcome(program(crash, "bad"))
    assert isinstance(outcome.error, NodeCrashed)
    assert outcome.error.node == "bad"
    assert outcome.error.__cause__ is None
    assert log.read_text() == "ran\n"
    assert runner.result(lambda s: {"x": 1}) == 1


def test_large_values_and_results(runner: Runner) -> None:
    look = program(lambda s: {"x": (float(s["x"].sum()), s["x"].flags.writeable)})
    call = make_call(look, np.ones(500_000))
    for _ in range(2):
        again = make_call(look)
        assert result_of(runner.outcome(type(again)(again.task, look, call.inputs))) == (500_000.0, False)
    got = runner.result(lambda s: {"x": [np.arange(300_000), "y" * 200_000]})
    assert int(got[0].sum()) == sum(range(300_000))
    assert not got[0].flags.writeable
    assert got[1] == "y" * 200_000


def test_one_function_is_registered_ever(executor: RayExecutor) -> None:
    def registered() -> int:
        client = ray._private.worker.global_worker.gcs_client
        return len(client.internal_kv_keys(b"RemoteFunction:", b"fun", None))

    with Runner(executor) as runner:
        runner.result(lambda s: {"x": 1})
        before = registered()
        for n in range(20):
            assert runner.result(program(lambda s, n=n: {"x": n}, f"node{n}")) == n
    assert registered() == before > 0


def test_custom_events_come_before_the_outcome_and_in_order(executor: RayExecutor) -> None:
    from raygraph.runtime import get_stream_writer

    def talk(s: dict[str, Any]) -> dict[str, Any]:
        for n in range(50):
            get_stream_writer()({"n": n, "from": s["x"]})
        return {"x": 1}

    with Runner(executor, custom=True) as runner:
        calls = [runner.submit(program(talk), n) for n in range(3)]
        posted = [runner.take() for _ in range(3 * 51)]
    for n, call in enumerate(calls):
        mine = [p for p in posted if p.task_id == call.task.id]
        assert [p.payload for p in mine[:-1] if isinstance(p, Custom)] == [{"n": i, "from": n} for i in range(50)]
        assert isinstance(mine[-1], Outcome)
        assert mine[-1].customs == 50


def test_cancel_stops_what_does_not_listen(runner: Runner, tmp_path: Path) -> None:
    started = tmp_path / "started"

    def sleep(s: dict[str, Any]) -> None:
        started.write_text(str(os.getpid()))
        time.sleep(60)

    call = runner.submit(sleep)
    wait_for(lambda: started.exists() and started.read_text())
    runner.session.cancel(call.task.id)
    pid = int(started.read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert runner.result(lambda s: {"x": 1}) == 1
    assert runner.inbox.empty()


def test_close_cancels_running_and_pending(executor: RayExecutor, tmp_path: Path) -> None:
    with Runner(executor) as runner:
        for n in range(4):
            runner.submit(lambda s: (Path(s["x"]).touch(), time.sleep(60)), str(tmp_path / str(n)))
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        started = time.monotonic()
    assert time.monotonic() - started < 15
    with Runner(executor) as runner:
        assert runner.result(lambda s: {"x": 1}) == 1
    assert len(list(tmp_path.iterdir())) == 2
    assert runner.inbox.empty()


def test_what_no_machine_has_is_refused(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    executor.check("a", options())
    executor.check("a", options(num_cpus=2, label_selector={"zone": "in(a, b)"}))
    with pytest.raises(InfeasibleError, match=r"'a' asks for CPU=64, but the largest machine has CPU=2"):
        executor.check("a", options(num_cpus=64))
    with pytest.raises(InfeasibleError, match=r"asks for CPU=1, labels \{'zone': 'b'\}, but none"):
        executor.check("a", options(label_selector={"zone": "b"}))
    monkeypatch.setenv("RAYGRAPH_ALLOW_PENDING", "1")
    executor.check("a", options(num_cpus=64))


def machine(labels: dict[str, str], **resources: float) -> dict[str, Any]:
    return {"Alive": True, "Resources": resources, "Labels": labels}


@pytest.mark.parametrize(
    ("condition", "fits"),
    [("a", True), ("b", False), ("!b", True), ("!a", False), ("in(a, b)", True), ("!in(a,b)", False), ("in(b)", False)],
)
def test_label_conditions(condition: str, fits: bool) -> None:
    wanted = options(label_selector={"zone": condition})
    if fits:
        check_feasible("n", wanted, [machine({"zone": "a"}, CPU=1)])
    else:
        with pytest.raises(InfeasibleError):
            check_feasible("n", wanted, [machine({"zone": "a"}, CPU=1)])


def test_one_machine_must_have_it_all() -> None:
    machines = [machine({}, CPU=8), machine({}, CPU=2, GPU=1)]
    with pytest.raises(InfeasibleError, match="CPU=4, GPU=1"):
        check_feasible("n", options(num_cpus=4, num_gpus=1), machines)
    check_feasible("n", options(num_cpus=2, num_gpus=1), machines)


def test_no_ray_class_leaves() -> None:
    for name in dir(ray.exceptions):
        kind = getattr(ray.exceptions, name)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            raised = kind.__new__(kind)
            try:
                str(raised)
            except Exception:
                continue  # it needs what only Ray passes to it
            error = translate(raised, make_call(lambda s: s).task)
            assert type(error).__module__ == "raygraph.errors", name


def test_inside_a_task_on_a_full_cluster(executor: RayExecutor) -> None:
    """Both CPUs are held by tasks that themselves run nodes: they must lend theirs while they wait."""

    @ray.remote(num_cpus=1)
    def nested(value: int) -> Any:
        with Runner(RayExecutor()) as runner:
            return runner.result(lambda s: {"x": s["x"] + 1}, value)

    @ray.remote  # an actor never lends a CPU that it asked for, so this one asks for none
    class Actor:
        def nested(self, value: int) -> Any:
            with Runner(RayExecutor(), custom=True) as runner:
                return runner.result(lambda s: {"x": s["x"] + 1}, value)

    assert ray.get([nested.remote(n) for n in range(4)], timeout=100) == [1, 2, 3, 4]
    actors = [Actor.remote() for _ in range(2)]
    assert ray.get([actor.nested.remote(1) for actor in actors], timeout=100) == [2, 2]


def test_modules_that_only_the_driver_finds(executor: RayExecutor, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def node(s):\n    return {'x': 'found'}\n")
    sys.path.append(str(tmp_path))
    try:
        import only_here  # type: ignore[import-not-found]

        with Runner(executor) as runner:
            assert runner.result(only_here.node) == "found"
    finally:
        sys.path.remove(str(tmp_path))


def test_it_starts_and_stops_its_own_and_leaves_no_trace() -> None:
    code = """
    import os, random, signal, threading
    import ray
    handler = lambda *_: None
    signal.signal(signal.SIGTERM, handler)
    random.seed(1); expected = random.random(); random.seed(1)
    executor = RayExecutor(**INIT | {"log_to_driver": True})
    with Runner(executor) as runner:
        print(runner.result(lambda s: print("from the node") or {"x": 42}))
    print(random.random() == expected, signal.getsignal(signal.SIGTERM) is handler)
    executor.shutdown()
    print(ray.is_initialized())
    """
    done = script(code)
    lines = done.stdout.splitlines()
    assert [line for line in lines if "from the node" not in line] == ["42", "True True", "False"], done.stderr
    assert done.stderr == ""


def test_from_another_thread_and_again_after_shutdown() -> None:
    code = """
    import threading
    executor = RayExecutor(**INIT)
    def drive():
        with Runner(executor) as runner:
            print(runner.result(lambda s: {"x": 1}))
    thread = threading.Thread(target=drive)
    thread.start(); thread.join()
    executor.shutdown()
    drive()
    """
    done = script(code)
    assert done.stdout.split() == ["1", "1"], done.stderr
    assert done.stderr == ""


def test_a_cluster_that_is_not_there() -> None:
    code = """
    from raygraph.errors import ExecutorError
    try:
        Runner(RayExecutor("127.0.0.1:1"))
    except ExecutorError as error:
        print(type(error.__cause__), error)
    """
    done = script(code)
    assert done.stdout.startswith("<class 'NoneType'> No Ray answers at 127.0.0.1:1"), done.stdout + done.stderr


def test_importing_imports_no_ray() -> None:
    done = script("import sys; print('ray' in sys.modules)")
    assert done.stdout == "False\n"


def wait_for(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)

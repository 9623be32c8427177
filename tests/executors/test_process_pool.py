"""Local worker processes: what runs there, what crashes there, and what is left behind."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from raygraph.errors import InfeasibleError, NodeCrashed, NotSupportedError, ShippingError
from raygraph.execute.processes import ProcessExecutor
from raygraph.state.records import Custom, Outcome
from tests.executors.calls import Runner, make_call, options, program, result_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def executor() -> Iterator[ProcessExecutor]:
    made = ProcessExecutor(max_workers=2)
    yield made
    made.shutdown()


@pytest.fixture
def runner(executor: ProcessExecutor) -> Iterator[Runner]:
    with Runner(executor) as made:
        yield made


def script(code: str, *, stdin: bool = False, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a user's script, with the helper module importable."""
    code = "from tests.executors.calls import *\nfrom raygraph.executors import *\n" + textwrap.dedent(code)
    command = [sys.executable] if stdin else [sys.executable, "-c", code]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command,
        input=code if stdin else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environ,
        check=False,
    )


def test_it_runs_elsewhere(runner: Runner) -> None:
    assert runner.result(lambda s: {"x": os.getpid()}) != os.getpid()


def test_workers_are_kept_across_runs(executor: ProcessExecutor) -> None:
    def pids() -> set[int]:
        with Runner(executor) as runner:
            return {runner.result(lambda s: {"x": os.getpid()}) for _ in range(6)}

    assert pids() & pids()


def test_two_hundred_tasks_each_answered_once(runner: Runner) -> None:
    square = program(lambda s: {"x": s["x"] ** 2})
    calls = {runner.submit(square, n).task.id: n for n in range(200)}
    outcomes = [runner.take() for _ in calls]
    assert {o.task_id: result_of(o) for o in outcomes} == {task: n**2 for task, n in calls.items()}


def test_they_run_at_the_same_time(runner: Runner) -> None:
    """Both nodes wait for the other's file: one after the other, they would wait for ever."""

    def meet(s: dict[str, Any]) -> dict[str, Any]:
        mine, other = s["x"]
        Path(mine).touch()
        deadline = time.monotonic() + 20
        while not Path(other).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return {"x": Path(other).exists()}

    a, b = f"/tmp/raygraph-{os.getpid()}-a", f"/tmp/raygraph-{os.getpid()}-b"
    both = program(meet)
    try:
        runner.submit(both, (a, b))
        runner.submit(both, (b, a))
        assert [result_of(runner.take()) for _ in range(2)] == [True, True]
    finally:
        Path(a).unlink(missing_ok=True)
        Path(b).unlink(missing_ok=True)


class Adder:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, s: dict[str, Any]) -> dict[str, Any]:
        return {"x": s["x"] + self.n}

    def method(self, s: dict[str, Any]) -> dict[str, Any]:
        return {"x": s["x"] - self.n}


def test_all_kinds_of_callables(runner: Runner) -> None:
    def add(n: int, s: dict[str, Any]) -> dict[str, Any]:
        return {"x": s["x"] + n}

    for fn in (Adder(2), functools.partial(add, 2), lambda s: add(2, s)):
        assert runner.result(fn, 40) == 42
    assert runner.result(Adder(2).method, 40) == 38


SCRIPT = """
import functools, os

class UserError(Exception):
    def __init__(self, code, detail):
        super().__init__(detail)
        self.code = code

def top(s):
    return {"x": s["x"] + 1}

def add(n, s):
    return {"x": s["x"] + n}

class Callable:
    def __call__(self, s):
        return {"x": s["x"] + 1}

def fail(s):
    raise UserError(4, "boom")

def outer():
    def nested(s):
        return top(s)
    return nested

print("script runs")
runner = Runner(ProcessExecutor(2))
for fn in (top, outer(), lambda s: top(s), functools.partial(add, 1), Callable()):
    print(runner.result(fn, 41))
error = runner.outcome(fail).error
print(type(error) is UserError, error.code, error.args)
runner.session.close()
"""


@pytest.mark.parametrize("stdin", [False, True])
def test_a_script_without_a_main_guard(stdin: bool) -> None:
    done = script(SCRIPT, stdin=stdin)
    assert done.stdout.splitlines() == ["script runs", *["42"] * 5, "True 4 ('boom',)"], done.stderr
    assert done.stderr == ""


def test_prints_reach_the_driver_before_the_outcome() -> None:
    code = """
    import sys
    def talk(s):
        print("from the node")
        sys.stdout.write("no newline")
        return {"x": 1}
    with Runner(ProcessExecutor(1)) as runner:
        runner.result(talk)
        print("|from the driver", flush=True)
    """
    assert script(code).stdout == "from the node\nno newline|from the driver\n"


@pytest.mark.parametrize(
    ("how", "status"),
    [
        (lambda s: os._exit(3), 3),
        (lambda s: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL),
        (lambda s: os.kill(os.getpid(), signal.SIGSEGV), -signal.SIGSEGV),
    ],
    ids=["exit", "kill", "segfault"],
)
def test_a_crash_is_told_and_hurts_nobody_else(runner: Runner, how: Any, status: int) -> None:
    slow = runner.submit(program(lambda s: time.sleep(0.5) or {"x": "fine"}, "slow"))
    crash = runner.submit(program(how, "bad"))
    outcomes = {o.task_id: o for o in (runner.take(), runner.take())}
    assert result_of(outcomes[slow.task.id]) == "fine"
    error = outcomes[crash.task.id].error
    assert isinstance(error, NodeCrashed)
    assert (error.node, error.task, error.attempt, error.exit_code) == ("bad", crash.task.id, 1, status)
    assert error.host
    assert runner.result(lambda s: {"x": "again"}) == "again"


def test_cancelling_a_running_task_kills_it_and_its_children_alone(runner: Runner, tmp_path: Path) -> None:
    def linger(s: dict[str, Any]) -> None:
        child = subprocess.Popen(["sleep", "60"])
        Path(s["x"]).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(60)

    note = tmp_path / "pids"
    other = runner.submit(lambda s: time.sleep(1) or {"x": "other"})
    doomed = runner.submit(linger, str(note))
    while not note.exists() or len(note.read_text().split()) < 2:
        time.sleep(0.01)
    runner.session.cancel(doomed.task.id)
    outcome = runner.take()
    assert (outcome.task_id, result_of(outcome)) == (other.task.id, "other")
    assert not any(alive(int(pid)) for pid in note.read_text().split())
    assert runner.inbox.empty()
    assert runner.result(lambda s: {"x": 1}) == 1


def test_cancelling_a_queued_task(runner: Runner, tmp_path: Path) -> None:
    running = [runner.submit(lambda s: time.sleep(0.3) or {"x": 1}) for _ in range(2)]
    queued = runner.submit(lambda s: Path(s["x"]).touch(), str(tmp_path / "ran"))
    runner.session.cancel(queued.task.id)
    assert {runner.take().task_id for _ in running} == {call.task.id for call in running}
    assert runner.result(lambda s: {"x": 1}) == 1
    assert not (tmp_path / "ran").exists()


def test_close_ends_everything_of_the_session_and_nothing_else(executor: ProcessExecutor) -> None:
    with Runner(executor) as other:
        kept = other.submit(lambda s: time.sleep(1) or {"x": "kept"})
        with Runner(executor) as closing:
            for _ in range(4):
                closing.submit(lambda s: time.sleep(60))
            time.sleep(0.3)
        started = time.monotonic()
        outcome = other.take()
        assert (outcome.task_id, result_of(outcome)) == (kept.task.id, "kept")
        assert time.monotonic() - started < 10
        assert closing.inbox.empty()


def test_sessions_in_several_threads(executor: ProcessExecutor) -> None:
    results: dict[int, list[int]] = {}

    def drive(name: int) -> None:
        with Runner(executor) as runner:
            double = program(lambda s: {"x": s["x"] * 2})
            for n in range(20):
                runner.submit(double, name * 100 + n)
            results[name] = sorted(result_of(runner.take()) for _ in range(20))

    threads = [threading.Thread(target=drive, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: [2 * (name * 100 + n) for n in range(20)] for name in range(4)}


def test_errors_come_as_they_were_raised(runner: Runner) -> None:
    def fail(s: dict[str, Any]) -> None:
        raise ValueError("v")

    error = runner.outcome(fail).error
    assert type(error) is ValueError
    assert error.args == ("v",)


def test_large_values_travel_once_and_are_read_only(runner: Runner) -> None:
    look = program(lambda s: {"x": (float(s["x"].sum()), s["x"].flags.writeable, s["x"].flags.aligned)})
    call = make_call(look, np.ones(200_000))
    for _ in range(3):
        again = make_call(look)
        outcome = runner.outcome(type(again)(again.task, again.program, call.inputs))
        assert result_of(outcome) == (200_000.0, False, True)


def test_large_results(runner: Runner) -> None:
    got = runner.result(lambda s: {"x": [np.arange(300_000), "y" * 200_000]})
    assert int(got[0].sum()) == sum(range(300_000))
    assert not got[0].flags.writeable
    assert got[1] == "y" * 200_000


def test_custom_events_come_before_the_outcome_and_in_order(executor: ProcessExecutor) -> None:
    from raygraph.runtime import get_stream_writer

    def talk(s: dict[str, Any]) -> dict[str, Any]:
        for n in range(50):
            get_stream_writer()({"n": n})
        return {"x": 1}

    with Runner(executor, custom=True) as runner:
        call = runner.submit(talk)
        posted = [runner.take() for _ in range(51)]
    assert [p.payload["n"] for p in posted[:-1] if isinstance(p, Custom)] == list(range(50))
    assert isinstance(posted[-1], Outcome)
    assert posted[-1].customs == 50
    assert all(p.task_id == call.task.id for p in posted)


def test_heavy_calls_count_and_do_not_starve(executor: ProcessExecutor) -> None:
    heavy = program(lambda s: {"x": "heavy"}, "heavy")
    light = program(lambda s: time.sleep(0.05) or {"x": "light"}, "light")
    with Runner(executor) as runner:
        for what in (light, heavy, *[light] * 10):
            runner.submit(replace(make_call(what), options=options(num_cpus=2 if what is heavy else 1)))
        order = [result_of(runner.take()) for _ in range(12)]
    assert order.index("heavy") == 1


def test_what_cannot_run_here_is_refused(executor: ProcessExecutor) -> None:
    executor.check("a", options(num_cpus=2, num_gpus=1))
    with pytest.raises(InfeasibleError, match=r"'a' asks for num_cpus=3, but executor 'processes' has 2"):
        executor.check("a", options(num_cpus=3))
    with pytest.raises(NotSupportedError, match=r"'a' asks for a runtime_env.*executor='ray'"):
        executor.check("a", options(runtime_env={"pip": ["x"]}))


def test_code_that_cannot_travel(runner: Runner) -> None:
    lock = threading.Lock()
    with pytest.raises(ShippingError, match=r"Node 'node' cannot be sent to workers: captured `lock` \(lock\)"):
        runner.submit(lambda s: lock)
    assert runner.inbox.empty()


def test_the_driver_changes_directory_and_environment(
    executor: ProcessExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = program(lambda s: {"x": (os.getcwd(), os.environ.get("RAYGRAPH_TEST"))})
    with Runner(executor) as runner:
        assert runner.result(look) == (os.getcwd(), None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAYGRAPH_TEST", "1")
    with Runner(executor) as runner:
        assert runner.result(look) == (str(tmp_path), "1")
    monkeypatch.undo()
    with Runner(executor) as runner:
        assert runner.result(look) == (os.getcwd(), None)


def test_a_changed_global_is_seen_by_the_next_run() -> None:
    code = """
    factor = 2
    by = program(lambda s: {"x": s["x"] * factor})
    executor = ProcessExecutor(1)
    for factor in (2, 3):
        with Runner(executor) as runner:
            print(runner.result(by, 10))
    """
    assert script(code).stdout.split() == ["20", "30"]


def test_a_forked_child_has_its_own_workers() -> None:
    code = """
    import os
    executor = ProcessExecutor(1)
    pid = lambda s: {"x": os.getpid()}
    with Runner(executor) as runner:
        first = runner.result(pid)
    child = os.fork()
    with Runner(executor) as runner:
        print("same" if runner.result(pid) == first else "other", flush=True)
    if child:
        assert os.waitpid(child, 0)[1] == 0
        with Runner(executor) as runner:
            print("same" if runner.result(pid) == first else "other")
    """
    done = script(code)
    assert sorted(done.stdout.split()) == ["other", "same", "same"], done.stderr


@pytest.mark.parametrize("forked", [False, True])
def test_workers_end_with_the_driver(tmp_path: Path, forked: bool) -> None:
    """The driver is killed while its worker is busy; a fork of it may still hold the worker's socket open."""
    note = tmp_path / "pid"
    code = f"""
    import os, signal, sys, time
    from pathlib import Path
    def busy(s):
        Path({str(note)!r}).write_text(str(os.getpid()))
        while True:
            pass
    runner = Runner(ProcessExecutor(1))
    runner.submit(busy)
    while not Path({str(note)!r}).exists():
        time.sleep(0.01)
    if {forked} and not os.fork():
        os.close(1); os.close(2)
        time.sleep(10)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert script(code).returncode == -signal.SIGKILL
    pid = int(note.read_text())
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_nothing_is_left_after_a_normal_exit() -> None:
    code = """
    import os, time
    runner = Runner(ProcessExecutor(2))
    print(runner.result(lambda s: {"x": os.getpid()}))
    runner.submit(lambda s: time.sleep(60))
    """
    started = time.monotonic()
    done = script(code)
    assert done.stderr == ""
    assert not alive(int(done.stdout))
    assert time.monotonic() - started < 20


def test_ctrl_c_is_the_drivers() -> None:
    """The whole process group gets SIGINT, as from a terminal; workers go on until the driver closes."""
    code = """
    import os, signal, time
    runner = Runner(ProcessExecutor(1))
    runner.submit(lambda s: time.sleep(0.5) or {"x": "undisturbed"})
    time.sleep(0.3)
    try:
        os.killpg(0, signal.SIGINT)
        time.sleep(1)
    except KeyboardInterrupt:
        print(result_of(runner.take()))
    """
    code = "import os; os.setpgrp()\n" + textwrap.dedent(code)
    assert script(code).stdout == "undisturbed\n"


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

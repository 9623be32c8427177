"""What all tests share: the four executors, one Ray, and a check that nothing is left running at the end."""

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).resolve().parents[1]
#: The kinds of executor, as users name them.
EXECUTORS = ("inline", "threads", "processes", "ray")
#: Seconds that processes may take to vanish after they were told to; Ray's own need about one.
_GRACE = 20.0

# Nodes defined in test modules are looked up by name in worker processes.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
# A test run must neither read nor write the user's Ray token, nor report anything.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# A cluster that happens to run on this machine is not for tests.
os.environ.pop("RAY_ADDRESS", None)

# The same examples on every run, so that a failure in CI is one at every desk. Shrinking a random graph takes
# minutes, so CI shows it as it was found; `HYPOTHESIS_PROFILE=explore` looks for new ones and shrinks them.
settings.register_profile("ci", derandomize=True, database=None, deadline=None, phases=(Phase.explicit, Phase.generate))
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


class OneRay:
    """The Ray that the tests of this process share: started when one asks for it, stopped when told."""

    def __init__(self) -> None:
        self.started = False

    def start(self) -> None:
        import ray

        if not ray.is_initialized():
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                object_store_memory=256 << 20,
            )
            self.started = True

    def stop(self) -> None:
        if self.started:
            import ray

            ray.shutdown()
            self.started = False


ONE_RAY = OneRay()


@pytest.fixture
def one_ray() -> OneRay:
    """Ray with 2 CPUs, shared by all tests of this process that use it."""
    ONE_RAY.start()
    return ONE_RAY


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> str:
    """The name of each executor in turn. The pool of processes and Ray are shared by all tests."""
    if request.param == "ray":
        request.getfixturevalue("one_ray")
    return request.param


@pytest.fixture(scope="module", autouse=True)
def _own_ray(request: pytest.FixtureRequest) -> None:
    """The tests below `tests/ray` start and stop Ray themselves: they find none."""
    if "ray" in Path(str(request.path)).relative_to(ROOT / "tests").parts[:-1]:
        ONE_RAY.stop()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the shared executors, and fail the run if a process that we started outlives that."""
    stop_executors()
    left = processes_left(_GRACE)
    if left:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        for line in ["", "Processes left running after the tests:", *left]:
            print(line, file=sys.stderr) if reporter is None else reporter.write_line(line, red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def stop_executors() -> None:
    registry: Any = sys.modules.get("raygraph.execute.registry")
    for executor in dict(registry._shared).values() if registry is not None else ():
        executor.shutdown()
    ONE_RAY.stop()
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def processes_left(seconds: float) -> list[str]:
    """Command lines of child processes that are still there after `seconds`.

    (multiprocessing's resource tracker is not ours, and lives as long as the interpreter.)
    """
    children = psutil.Process().children(recursive=True)
    _, alive = psutil.wait_procs(children, timeout=seconds) if children else ([], [])
    found = []
    for child in alive:
        try:
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.append(f"{child.pid} {' '.join(child.cmdline())[:200]}")
        except psutil.NoSuchProcess:
            continue
    return found

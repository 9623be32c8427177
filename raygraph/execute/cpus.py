"""How many CPUs this process may use: what the machine has, less what affinity and cgroups take away."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from raygraph.errors import ConfigError

_CGROUP: Final = Path("/sys/fs/cgroup")

#: How many threads the usual numeric libraries start for themselves (those that joblib's loky limits too).
THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def available_cpus() -> int:
    """CPUs this process may use, at least 1.

    `RAYGRAPH_CPUS` overrides what is found. A container's quota is rounded up (1.5 CPUs keep 2 processes busy
    three quarters of the time). The finding is kept for the process; the variable is read every time.
    """
    override = os.environ.get("RAYGRAPH_CPUS")
    if not override:
        return _found()
    if not override.isdecimal() or int(override) < 1:
        raise ConfigError(f"RAYGRAPH_CPUS must be a whole number of at least 1. Got: {override!r}")
    return int(override)


@functools.cache
def _found() -> int:
    limits = [float(os.cpu_count() or 1), *_quotas()]
    try:
        limits.append(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # macOS has no affinity
        pass
    return max(1, math.ceil(min(limits)))


def _quotas() -> Iterator[float]:
    """CPU quotas of this process's cgroups and of all around them, v1 and v2."""
    for group in _groups():
        try:
            quota, period = group.joinpath("cpu.max").read_text().split()
            if quota != "max":
                yield int(quota) / int(period)
        except (OSError, ValueError):
            pass
        try:
            micros = int(group.joinpath("cpu.cfs_quota_us").read_text())
            if micros > 0:
                yield micros / int(group.joinpath("cpu.cfs_period_us").read_text())
        except (OSError, ValueError):
            pass


def _groups() -> Iterator[Path]:
    """Directories of the cgroups this process is in. Inside a container its own is mounted as the root."""
    roots = {_CGROUP: "", _CGROUP / "cpu": "", _CGROUP / "cpu,cpuacct": ""}
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                roots[_CGROUP] = path
            elif "cpu" in controllers.split(","):
                roots[_CGROUP / "cpu"] = roots[_CGROUP / "cpu,cpuacct"] = path
    except (OSError, ValueError):
        pass
    for root, path in roots.items():
        own = root / path.strip("/")
        yield own
        yield from (parent for parent in own.parents if parent == root or root in parent.parents)

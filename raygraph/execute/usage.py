"""What a task costs: a meter started before it and stopped after it.

In a worker process, one task runs at a time, so the figures of the whole process are the task's: CPU time of
every thread and of finished child processes, and the highest resident memory. In the driver's process tasks
share everything, so only the task's own thread is measured, and memory not at all.

The peak is exact on Linux: writing 5 to `clear_refs` resets the kernel's high-water mark of this process
(1.3 us here), and `ru_maxrss` then grows only if the task passes what was resident at its start. A process
spawned by a large parent inherits the parent's `ru_maxrss`, which hides its own; there `VmHWM` is read (15 us).
"""

from __future__ import annotations

import functools
import os
import resource
import socket
import sys
import time
from typing import Final, Protocol

from raygraph.state.records import Usage

#: `ru_maxrss` counts KiB on Linux and bytes on macOS (getrusage(2) of each).
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
#: What may be resident between two readings without having been inherited: a few pages of this module's own.
_SLACK: Final = 1 << 20


class Meter(Protocol):
    """A running measurement."""

    def stop(self) -> Usage:
        """What was used since the start."""


def start(in_driver: bool) -> Meter:
    """Begin to measure the task that starts now, in the calling thread (`in_driver`) or the whole process."""
    return ThreadMeter() if in_driver else ProcessMeter()


@functools.cache
def host() -> str:
    """Name of this machine, as it stands in reports and errors."""
    return socket.gethostname()


class ThreadMeter:
    """Wall and CPU time of one thread; 3.5 us in all, of which two clock system calls take 1.6."""

    __slots__ = ("_clock", "_cpu", "_started")

    def __init__(self) -> None:
        self._started = time.time()
        self._clock = time.perf_counter()
        self._cpu = time.thread_time()

    def stop(self) -> Usage:
        cpu = time.thread_time() - self._cpu
        wall = time.perf_counter() - self._clock
        return Usage(self._started, wall, cpu, None, _Here.pid, host())


class ProcessMeter:
    """Wall time, CPU time of the process and its finished children, and its peak memory; 17 us in all."""

    __slots__ = ("_clock", "_cpu", "_memory", "_started")

    def __init__(self) -> None:
        self._memory = PeakMemory()
        self._started = time.time()
        self._clock = time.perf_counter()
        self._cpu = _process_cpu()

    def stop(self) -> Usage:
        wall = time.perf_counter() - self._clock
        cpu = _process_cpu() - self._cpu
        return Usage(self._started, wall, cpu, self._memory.read(), _Here.pid, host())


class PeakMemory:
    """The highest resident memory of this process since the object was made."""

    __slots__ = ("_before", "_known", "_reset")

    def __init__(self) -> None:
        self._reset = _reset_high_water()
        self._known = self._reset and not _inherited(_Here.pid)
        self._before = _max_rss()

    def read(self) -> int | None:
        """Bytes; None where this machine doesn't tell. At least what is resident now, if the peak is unknown."""
        after = _max_rss()
        if after > self._before or self._known:
            return after
        status = _status()
        return status.get("VmHWM" if self._reset else "VmRSS")


def _process_cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _max_rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


class _Here:
    """This process's id; asking the kernel each time costs 0.25 us."""

    pid: int = os.getpid()


def _forked() -> None:
    _Here.pid = os.getpid()


os.register_at_fork(after_in_child=_forked)


@functools.lru_cache(maxsize=1)
def _clear_refs(pid: int) -> int | None:
    """Descriptor of this process's `clear_refs`; by pid, since a forked child must not write its parent's."""
    try:
        return os.open(f"/proc/{pid}/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _reset_high_water() -> bool:
    descriptor = _clear_refs(_Here.pid)
    if descriptor is None:
        return False
    try:
        os.write(descriptor, b"5")
    except OSError:  # not permitted here, or a node closed descriptors that aren't its own
        return False
    return True


@functools.lru_cache(maxsize=1)
def _inherited(pid: int) -> bool:
    """Whether `ru_maxrss` still shows the memory of the process that spawned this one."""
    return _max_rss() > _status().get("VmRSS", 0) + _SLACK


def _status() -> dict[str, int]:
    """The memory lines of `/proc/self/status` in bytes; empty where there is no such file."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            pairs = (line.split(":", 1) for line in lines if line.startswith("Vm"))
            return {name: int(value.split()[0]) * 1024 for name, value in pairs}
    except OSError:
        return {}

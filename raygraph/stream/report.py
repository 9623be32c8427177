"""The account of a run: what its tasks cost and where they ran."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from raygraph.state.records import Outcome


@dataclass
class Report:
    """Totals over the tasks of a run, filled while it goes on.

    Attributes:
        wall: Seconds from the start of the run to its end, or to now.
        cpu: CPU seconds of all tasks.
        tasks: How many tasks ended, START and subgraphs' included.
        peak_rss: The highest resident memory of a worker process seen, in bytes; None if not measured.
        workers: The processes that ran tasks, as (host, pid).
        output: What `invoke` would have returned; set when the run has ended well.
    """

    cpu: float = 0.0
    tasks: int = 0
    peak_rss: int | None = None
    workers: set[tuple[str, int]] = field(default_factory=set)
    output: Any = None
    _started: float = field(default_factory=time.perf_counter)
    _ended: float | None = None

    @property
    def wall(self) -> float:
        """Seconds from the start of the run to its end, or to now."""
        return (self._ended or time.perf_counter()) - self._started

    def add(self, outcome: Outcome) -> None:
        """Count a task that has ended."""
        usage = outcome.usage
        self.tasks += 1
        self.cpu += usage.cpu
        if usage.pid:
            self.workers.add((usage.host, usage.pid))
        if usage.peak_rss is not None:
            self.peak_rss = max(self.peak_rss or 0, usage.peak_rss)

    def close(self) -> None:
        """Stop the clock."""
        self._ended = self._ended or time.perf_counter()

"""The places where nodes can run. Importing this module starts nothing and imports no Ray."""

from __future__ import annotations

from raygraph.execute.inline import InlineExecutor
from raygraph.execute.processes import ProcessExecutor
from raygraph.execute.ray_executor import RayExecutor
from raygraph.execute.threads import ThreadExecutor

__all__ = ["InlineExecutor", "ProcessExecutor", "RayExecutor", "ThreadExecutor"]

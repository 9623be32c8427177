"""Managed values: state keys that the engine fills in and nodes only read."""

from __future__ import annotations

from raygraph.state.managed import IsLastStep, ManagedValue, RemainingSteps

__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]

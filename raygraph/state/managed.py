"""Managed values: keys that a node reads and nobody writes, because the engine knows them.

An annotation whose last metadata item is a `ManagedValue` class makes the key one; `IsLastStep` and
`RemainingSteps` are used as annotations directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from inspect import isclass
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from typing_extensions import TypeIs

V = TypeVar("V")


class Scratch(NamedTuple):
    """What a managed value is worked out from.

    Attributes:
        step: The super-step, counted as LangGraph does (the first nodes run in step 1).
        remaining: Super-steps left, this one included: with a `recursion_limit` of 4, nodes see 4, 3, 2, 1.
    """

    step: int
    remaining: int

    @property
    def stop(self) -> int:
        """The step in which the run would stop (LangGraph's name)."""
        return self.step + self.remaining


class ManagedValue(ABC, Generic[V]):
    """Base class of managed values; used as a class, never instantiated."""

    @staticmethod
    @abstractmethod
    def get(scratch: Any) -> V:
        """The value for a node that runs now.

        Args:
            scratch: The `Scratch` of its super-step.
        """


class IsLastStepManager(ManagedValue[bool]):
    """Whether no super-step of nodes may follow this one."""

    @staticmethod
    def get(scratch: Scratch) -> bool:
        return scratch.remaining <= 1


class RemainingStepsManager(ManagedValue[int]):
    """How many super-steps of nodes may still run, this one included."""

    @staticmethod
    def get(scratch: Scratch) -> int:
        return scratch.remaining


#: A managed value is passed around as its class.
ManagedValueSpec = type[ManagedValue[Any]]

IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]


def is_managed_value(value: Any) -> TypeIs[ManagedValueSpec]:
    """Whether `value` is a managed value's class; LangGraph's own ones work too."""
    if not isclass(value):
        return False
    return issubclass(value, ManagedValue) or any(
        base.__name__ == "ManagedValue" and base.__module__.startswith("langgraph.") for base in value.__mro__
    )

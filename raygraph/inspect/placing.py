"""Where a node runs and with what, in words: only what its `add_node` said."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from raygraph.build.specs import NodeSpec
from raygraph.state.constants import START
from raygraph.state.records import NodeOptions

_DEFAULT: Final = NodeOptions()
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def placement(node: NodeSpec) -> dict[str, str]:
    """Executor and resources of a node, by the name of the option; nothing that is the default.

    Args:
        node: The node. START and subgraphs run nothing themselves, so they have none.
    """
    if node.name == START or node.subgraph is not None:
        return {}
    said: dict[str, str] = {}
    for option in fields(NodeOptions):
        value = getattr(node.options, option.name)
        if value != getattr(_DEFAULT, option.name):
            said[option.name] = _in_words(option.name, value)
    return said


def endurance(node: NodeSpec) -> list[str]:
    """How often a node is tried, as phrases; empty where nothing was said."""
    policies = node.policies
    said: list[str] = []
    if policies.retry:
        said.append(f"tried up to {max(policy.max_attempts for policy in policies.retry)} times")
    if policies.retry_crashes:
        said.append(f"retried after up to {policies.retry_crashes} crashes")
    return said


def _in_words(name: str, value: Any) -> str:
    if name == "executor":
        return str(value if isinstance(value, str) else getattr(value, "name", type(value).__name__))
    if name == "memory":
        return _bytes(value)
    if name == "runtime_env":
        # Its values can be long, and secret.
        return ", ".join(sorted(value))
    if hasattr(value, "items"):
        return ", ".join(f"{key}: {_number(amount)}" for key, amount in value.items())
    return _number(value)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _bytes(amount: float) -> str:
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{amount:.4g} {unit}"

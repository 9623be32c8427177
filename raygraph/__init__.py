"""raygraph: LangGraph-style state graphs that run every super-step on all cores.

Importing it starts nothing and imports neither ray nor langchain; names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from raygraph.app import CompiledStateGraph
    from raygraph.build.graph import StateGraph
    from raygraph.execute.resources import per_worker
    from raygraph.messages import REMOVE_ALL_MESSAGES, MessagesState, RemoveMessage, add_messages
    from raygraph.runtime import Runtime, get_config, get_runtime, get_store, get_stream_writer
    from raygraph.state.constants import END, START
    from raygraph.state.policies import RetryPolicy
    from raygraph.state.types import Command, Overwrite, Send

__version__ = "0.1.0"

_HOME: Final = {
    "END": "raygraph.state.constants",
    "REMOVE_ALL_MESSAGES": "raygraph.messages",
    "START": "raygraph.state.constants",
    "Command": "raygraph.state.types",
    "CompiledStateGraph": "raygraph.app",
    "MessagesState": "raygraph.messages",
    "Overwrite": "raygraph.state.types",
    "RemoveMessage": "raygraph.messages",
    "RetryPolicy": "raygraph.state.policies",
    "Runtime": "raygraph.runtime",
    "Send": "raygraph.state.types",
    "StateGraph": "raygraph.build.graph",
    "add_messages": "raygraph.messages",
    "get_config": "raygraph.runtime",
    "get_runtime": "raygraph.runtime",
    "get_store": "raygraph.runtime",
    "get_stream_writer": "raygraph.runtime",
    "per_worker": "raygraph.execute.resources",
}

__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "Command",
    "CompiledStateGraph",
    "MessagesState",
    "Overwrite",
    "RemoveMessage",
    "RetryPolicy",
    "Runtime",
    "Send",
    "StateGraph",
    "add_messages",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "per_worker",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'raygraph' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

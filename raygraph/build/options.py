"""A node's options and policies: which there are, and what values they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from raygraph.errors import ConfigError, NotSupportedError, did_you_mean, short
from raygraph.state.policies import Policies, read_retry
from raygraph.state.records import NodeOptions

_KNOWN: Final = tuple(option.name for option in fields(NodeOptions))

#: Arguments of LangGraph's or raygraph's `add_node` that this version does not carry out yet. Their neutral
#: values are accepted.
_LATER: Final[dict[str, tuple[Any, ...]]] = {
    "cache_policy": (None,),
    "error_handler": (None,),
    "timeout": (None,),
    "trace_policy": (None,),
    "batch": (None, "auto"),
}
#: Arguments that become the node's policies.
_POLICIES: Final = ("retry_policy", "retry_crashes")


def node_options(node: str, given: Mapping[str, Any]) -> NodeOptions:
    """The options of a node, checked.

    Args:
        node: Name of the node, for messages.
        given: Keyword arguments of `add_node`.

    Raises:
        ConfigError: An option that does not exist, or a value it cannot have.
        NotSupportedError: An option that this version does not carry out.
    """
    for name, value in given.items():
        if name in _LATER:
            if value not in _LATER[name]:
                raise NotSupportedError(
                    f"Node {node!r}: {name}= is not supported by this version of raygraph; leave it out.",
                    node=node,
                    key=name,
                )
        elif name not in _KNOWN and name not in _POLICIES:
            raise ConfigError(
                f"Node {node!r}: add_node() has no argument {name!r}."
                f"{did_you_mean(name, (*_KNOWN, *_POLICIES, *_LATER))}",
                node=node,
                key=name,
            )
    options = NodeOptions(**{name: value for name, value in given.items() if name in _KNOWN})
    for name in ("num_cpus", "num_gpus", "memory"):
        _check_amount(node, name, getattr(options, name))
    for name, amount in (options.resources or {}).items():
        _check_amount(node, f"resources[{name!r}]", amount)
    most = options.max_concurrency
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ConfigError(
            f"Node {node!r}: max_concurrency must be an int of at least 1; got {short(most)}.",
            node=node,
            key="max_concurrency",
        )
    return options


def node_policies(node: str, given: Mapping[str, Any]) -> Policies:
    """The policies of a node, checked.

    Args:
        node: Name of the node, for messages.
        given: Keyword arguments of `add_node`; those that are no policies are left to `node_options`.

    Raises:
        ConfigError: A value that a policy cannot have.
    """
    where = f"Node {node!r}"
    crashes = given.get("retry_crashes") or 0
    if not isinstance(crashes, int) or isinstance(crashes, bool) or crashes < 0:
        raise ConfigError(
            f"{where}: retry_crashes must be an int of at least 0; got {short(crashes)}.",
            node=node,
            key="retry_crashes",
        )
    return Policies(
        retry=read_retry(given.get("retry_policy"), where),
        retry_crashes=crashes,
    )


def _check_amount(node: str, name: str, amount: Any) -> None:
    if name == "memory" and amount is None:
        return
    if not isinstance(amount, (int, float)) or isinstance(amount, bool) or not 0 <= amount < float("inf"):
        raise ConfigError(
            f"Node {node!r}: {name} must be a number of at least 0; got {short(amount)} ({type(amount).__name__}).",
            node=node,
            key=name,
        )

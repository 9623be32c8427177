"""Stream modes: which there are, and the shape of what `stream` yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from raygraph.drive import Part
from raygraph.errors import ConfigError, NotSupportedError, did_you_mean, short

MODES: Final = ("values", "updates", "custom")
#: LangGraph's modes that this version does not have.
_LATER: Final = ("messages", "tasks", "checkpoints", "debug", "tools")


def read_modes(stream_mode: Any) -> tuple[str, ...]:
    """The modes a caller asked for.

    Raises:
        ConfigError: A mode that does not exist.
        NotSupportedError: A mode that this version does not have.
    """
    modes = (stream_mode,) if isinstance(stream_mode, str) else stream_mode
    if not isinstance(modes, Sequence) or not modes:
        raise ConfigError(f"stream_mode must be a mode or a list of modes; got {short(stream_mode)}.")
    for mode in modes:
        if mode in _LATER:
            raise NotSupportedError(
                f"stream_mode {mode!r} is not supported by this version of raygraph; use {', '.join(MODES)}."
            )
        if mode not in MODES:
            raise ConfigError(
                f"There is no stream_mode {short(mode)}.{did_you_mean(mode, MODES)} Modes: {', '.join(MODES)}."
            )
    return tuple(modes)


def shaper(stream_mode: Any, subgraphs: bool) -> Callable[[Part], Any]:
    """How a part is given to the caller (LangGraph's shapes).

    One mode: the payload alone; a list of modes: `(mode, payload)`; with `subgraphs=True` the namespace goes
    first: `(namespace, payload)` or `(namespace, mode, payload)`.
    """
    several = not isinstance(stream_mode, str)

    def shape(part: Part) -> Any:
        namespace, mode, payload = part
        if several:
            return (namespace, mode, payload) if subgraphs else (mode, payload)
        return (namespace, payload) if subgraphs else payload

    return shape

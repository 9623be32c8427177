"""How a command ends when something is wrong: one clear line, and an exit code that tells whose fault it was.

0: done. 1: the graph failed while it ran. 2: the command was asked for something that cannot be. 130: Ctrl-C.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import click

from raygraph.errors import ConfigError, EmptyInputError, InvalidUpdateError, RaygraphError
from raygraph.state.constants import START

F = TypeVar("F", bound=Callable[..., Any])

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

_ENGINE: Final = str(Path(__file__).parents[1])


class Problem(click.ClickException):
    """The command line asks for something that cannot be: shown as one line, exit code 2."""

    exit_code = 2


def interruptible(command: F) -> F:
    """Make Ctrl-C in a command exit with 130, as a shell expects, and without a traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(EXIT_INTERRUPTED)

    return guarded  # type: ignore[return-value]  # functools.wraps keeps the signature, not the type


def is_request_at_fault(error: BaseException) -> bool:
    """The run was refused for its input or config: its message says all there is to say."""
    refused_input = isinstance(error, InvalidUpdateError) and error.node == START
    return refused_input or isinstance(error, (ConfigError, EmptyInputError))


def describe_failure(error: BaseException) -> str:
    """A failed run for a person: what was raised, where, the way out, and the node's own traceback."""
    failure = getattr(error, "raygraph", None) or error
    node, step = getattr(failure, "node", None), getattr(failure, "step", None)
    where = f"node {node!r} failed" if node else "the graph failed"
    where += f" in step {step}" if step is not None else ""
    lines = [f"Error: {where}: {_named(error)}"]
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    remote = [note.strip("\n") for note in notes if "Traceback" in note]
    lines += remote or _own_traceback(error)
    lines += [note for note in notes if "Traceback" not in note]
    if node and not isinstance(error, RaygraphError):
        lines.append("With --executor inline the node runs in this process, where a debugger can stop in it.")
    return "\n".join(line.rstrip() for line in lines)


def _named(error: BaseException) -> str:
    message = str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _own_traceback(error: BaseException) -> list[str]:
    cause = error.__cause__
    if type(cause).__name__ == "RemoteTraceback":  # how a worker's traceback travels on Python 3.10
        return [str(cause).strip()]
    frames = user_frames(error.__traceback__)
    return ["Traceback (most recent call last):", *traceback.format_list(frames)] if frames else []


def user_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """The frames of a traceback from the first one outside of raygraph that raygraph called."""
    frames = list(traceback.extract_tb(trace))
    inside = [frame.filename.startswith(_ENGINE) for frame in frames]
    last = len(inside) - inside[::-1].index(True) if True in inside else 0
    return frames[last:]

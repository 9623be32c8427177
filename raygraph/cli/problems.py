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


def describe_failure(error: BaseException) -> str:
    """A failed run for a person: what was raised, where, the way out, and the node's own traceback."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    message = str(error)
    lines = [f"Error: {type(error).__name__}: {message}" if message else f"Error: {type(error).__name__}"]
    lines += [f"  {name}: {value}" for name, value in _place(error).items()]
    lines += notes
    if not any("Traceback" in note for note in notes):
        frames = user_frames(error.__traceback__)
        if frames:
            lines += ["Traceback (most recent call last):", "".join(traceback.format_list(frames)).rstrip()]
    return "\n".join(lines)


def _place(error: BaseException) -> dict[str, Any]:
    """Where one of raygraph's own errors says it happened."""
    names = ("node", "step", "key", "task")
    return {name: value for name in names if (value := getattr(error, name, None)) is not None}


def user_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """The frames of a traceback from the first one outside of raygraph that raygraph called."""
    frames = list(traceback.extract_tb(trace))
    inside = [frame.filename.startswith(_ENGINE) for frame in frames]
    last = len(inside) - inside[::-1].index(True) if True in inside else 0
    return frames[last:]

"""Keeping standard output for the result: whatever else is printed there goes to standard error."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO

#: Writes one line to the real standard output.
Emit = Callable[[str], None]


@contextlib.contextmanager
def result_only() -> Iterator[Emit]:
    """While open, `print` in nodes and imported modules goes to standard error, in worker processes as well.

    Yields:
        A function that writes a line to what was standard output.
    """
    real = sys.stdout
    real.flush()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        if _is_descriptor(real, 1) and _is_descriptor(sys.stderr, 2):
            # Worker processes inherit the descriptor, not the Python object.
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
            binary: IO[bytes] | None = stack.enter_context(open(kept, "wb", closefd=False))
        else:
            binary = getattr(real, "buffer", None)

        def emit(line: str) -> None:
            # A lone surrogate has no UTF-8; its backslash escape is also JSON's.
            data = line.encode("utf-8", "backslashreplace") + b"\n"
            out = binary or real
            out.write(data if binary else data.decode("utf-8"))  # type: ignore[arg-type]  # as `out` takes it
            out.flush()

        yield emit


def _is_descriptor(stream: object, number: int) -> bool:
    try:
        return stream.fileno() == number  # type: ignore[attr-defined,no-any-return]
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return False

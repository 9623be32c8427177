"""What `stream` and `astream` return: iterators over a run that also carry its report."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from raygraph.drive import Cancelled, Drive, Part
from raygraph.stream.report import Report

#: How long a cancelled `ainvoke` waits for the run to stop before it leaves it to itself (seconds).
_STOP_SECONDS: Final = 3.0


class StreamRun(Iterator[Any]):
    """A run that goes on as it is iterated over. Leaving early: `close()`, or use it as a context manager.

    Attributes:
        report: What the run has cost so far.
    """

    def __init__(self, drive: Drive, given: Any, shape: Callable[[Part], Any]) -> None:
        self.report: Report = drive.report
        self._drive = drive
        self._parts = drive.parts(given)
        self._shape = shape
        self._told = False

    def __next__(self) -> Any:
        for part in self._parts:
            return self._shape(part)
        if not self._told:
            self._told = True
            try:
                self._drive.result()
            except StopIteration as error:
                raise RuntimeError("a node raised StopIteration") from error
        raise StopIteration

    def close(self) -> None:
        """Stop the run: cancel what is under way, and return when nothing is left."""
        self._told = True
        self._parts.close()

    def __enter__(self) -> StreamRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStreamRun(AsyncIterator[Any]):
    """The same over an event loop: the run is driven by a thread, and its parts are handed to the loop.

    Cancelling the task that iterates cancels the run.

    Attributes:
        report: What the run has cost so far.
    """

    def __init__(self, drive: Drive, given: Any, shape: Callable[[Part], Any]) -> None:
        self.report: Report = drive.report
        self._drive = drive
        self._given = given
        self._shape = shape
        self._queue: asyncio.Queue[tuple[Part | None, BaseException | None]] | None = None
        self._ended = False

    async def __anext__(self) -> Any:
        if self._ended:
            raise StopAsyncIteration
        queue = self._queue or self._start()
        try:
            part, error = await queue.get()
        except BaseException:
            await self.aclose()
            raise
        if part is not None:
            return self._shape(part)
        self._ended = True
        if error is not None:
            raise error
        raise StopAsyncIteration

    def _start(self) -> asyncio.Queue[tuple[Part | None, BaseException | None]]:
        loop = asyncio.get_running_loop()
        queue = self._queue = asyncio.Queue()

        def post(part: Part | None, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, (part, error))
            except RuntimeError:
                pass  # the loop is closed: nobody is left to hear it

        def work() -> None:
            error: BaseException | None = None
            try:
                for part in self._drive.parts(self._given):
                    post(part, None)
                self._drive.result()
            except Cancelled:
                pass
            except BaseException as raised:
                error = raised
            post(None, error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name="raygraph-drive", daemon=True).start()
        return queue

    async def aclose(self) -> None:
        """Stop the run, and wait a moment for it to have stopped."""
        if self._ended or self._queue is None:
            self._ended = True
            return
        self._ended = True
        self._drive.stop()
        queue = self._queue

        async def drained() -> None:
            while (await queue.get())[0] is not None:
                pass

        try:
            await asyncio.wait_for(drained(), _STOP_SECONDS)
        except asyncio.TimeoutError:
            pass  # a node that shares this process cannot be stopped; it ends by itself, unheard

    async def __aenter__(self) -> AsyncStreamRun:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

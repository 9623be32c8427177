"""The worker's half of shipping: calls from bytes, outcomes to bytes, and the store of blobs in between."""

from __future__ import annotations

import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from raygraph.build.specs import Program
from raygraph.errors import ShippingError, short
from raygraph.execute.cpus import THREAD_VARIABLES
from raygraph.execute.culprit import find_unpicklable
from raygraph.execute.exceptions import pack_error
from raygraph.execute.pool_worker import ENVIRONMENT_MARK
from raygraph.execute.shipping import Form, put_packed
from raygraph.execute.worker import run_call
from raygraph.state.records import Call, Outcome, RunContext, Task
from raygraph.state.snapshot import Packed, unpack
from raygraph.state.types import Send

#: Takes a custom event's pickle and buffers to the driver.
SendCustom = Callable[[str, Sequence[Any]], None]


class Depot:
    """Blobs this worker process holds, and what they unpickle to.

    Args:
        limit: Bytes to hold; the blobs not used for longest go first. None if the driver says what to drop.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._parts: OrderedDict[str, Sequence[Any]] = OrderedDict()
        self._loaded: dict[str, Any] = {}
        self._size = 0
        self._environ = set(os.environ)
        #: Variables the pool has set for its workers.
        self._own = frozenset((*THREAD_VARIABLES, ENVIRONMENT_MARK))

    def add(self, key: str, parts: Sequence[Any]) -> None:
        """Store a blob."""
        if key not in self._parts:
            self._size += _size(parts)
        self._parts[key] = parts

    def has(self, key: str) -> bool:
        """Whether the blob is here; if so, it is now the one used last."""
        if key not in self._parts:
            return False
        self._parts.move_to_end(key)
        return True

    def drop(self, key: str) -> None:
        """Let go of a blob."""
        self._size -= _size(self._parts.pop(key, ()))
        self._loaded.pop(key, None)

    def trim(self) -> None:
        """Drop blobs until the limit is kept."""
        while self._limit is not None and self._size > self._limit and len(self._parts) > 1:
            self.drop(next(iter(self._parts)))

    def serve(self, data: Any, custom: SendCustom) -> list[Any]:
        """Run an encoded call and return its encoded outcome. Never raises."""
        task_fields, run_key, program_key, inputs, arg, managed = pickle.loads(data)
        task = Task(*task_fields)
        try:
            run = self._run(run_key)
            program: Program = self._load(program_key)
            call = Call(
                task,
                program,
                {key: self._packed(form) for key, form in inputs.items()},
                None if arg is None else self._packed(arg),
                {key: unpack(self._packed(form)) for key, form in managed.items()},
            )
        except BaseException as error:
            return encode_outcome(Outcome(task.id, task.attempt, error=_not_loaded(task, error)), task.node)
        post = (lambda payload: custom(task.id, _pack_custom(task, payload))) if run.custom else None
        return encode_outcome(run_call(call, run, post, in_driver=False), task.node)

    def _packed(self, form: Form) -> Packed:
        if isinstance(form, str):
            data, *buffers = self._parts[form]
            return Packed(None, data, tuple(buffers))
        return Packed(form[0]) if len(form) == 1 else Packed(None, form[0], form[1])

    def _load(self, key: str) -> Any:
        if key not in self._loaded:
            self._loaded[key] = pickle.loads(self._parts[key][0])
        return self._loaded[key]

    def _run(self, key: str) -> RunContext:
        if key not in self._loaded:
            (path, cwd, environ), data, buffers = pickle.loads(self._parts[key][0])
            # The path comes first: what follows may be of a module that is only found on it.
            _extend_path(path)
            if cwd is not None:
                _change_directory(cwd)
            if environ is not None:
                self._follow_environ(environ)
            self._loaded[key] = pickle.loads(data, buffers=buffers)
        run: RunContext = self._loaded[key]
        return run

    def _follow_environ(self, environ: dict[str, str]) -> None:
        """Take over what the driver set or deleted since this process started, and nothing else."""
        for name in self._environ - environ.keys() - self._own:
            os.environ.pop(name, None)
        for name, value in environ.items():
            if name not in self._own and os.environ.get(name) != value:
                os.environ[name] = value
        self._environ = set(environ)


def encode_outcome(outcome: Outcome, node: str) -> list[Any]:
    """The outcome as a pickle, followed by the large buffers it refers to. Never raises."""
    parts: list[Any] = [b""]
    writes = []
    error = outcome.error
    try:
        for channel, value in outcome.writes:
            writes.append((channel, _put(channel, value, parts, node)))
    except Exception as failure:
        writes, parts, error = [], [b""], failure
    usage = outcome.usage
    parts[0] = pickle.dumps(
        (
            outcome.task_id,
            outcome.attempt,
            writes,
            None if error is None else tuple(pack_error(error)),
            outcome.mutated,
            outcome.customs,
            (usage.started, usage.wall, usage.cpu, usage.peak_rss, usage.pid, usage.host),
        ),
        protocol=5,
    )
    return parts


def _put(channel: str, value: Any, parts: list[Any], node: str) -> Form:
    if isinstance(value, Send):
        return (Send, value.node, _put(f"Send({value.node!r})", value.arg, parts, node), value.timeout)
    packed = value if isinstance(value, Packed) else Packed(value)
    try:
        return put_packed(packed, parts)
    except Exception as error:
        raise unshippable_result(node, channel, packed.value, error) from error


def unshippable_result(node: str, where: str, value: Any, error: Exception) -> ShippingError:
    """The error for a result, or an event, that cannot leave the worker."""
    path, culprit = find_unpicklable(value, where)
    kind = type(culprit)
    return ShippingError(
        f"Node {node!r} returned {path} = {short(culprit)} ({kind.__module__}.{kind.__qualname__}), which cannot be "
        f"sent back from a worker ({error}). Return plain data instead, or keep the node in the driver with "
        "executor='threads'.",
        node=node,
        key=where,
    )


def _pack_custom(task: Task, payload: Any) -> list[Any]:
    try:
        parts: list[Any] = [b""]
        parts[0] = pickle.dumps(put_packed(Packed(payload), parts), protocol=5)
    except Exception as error:
        raise unshippable_result(task.node, "what it passed to its stream writer", payload, error) from error
    return parts


def _not_loaded(task: Task, error: BaseException) -> BaseException:
    hint = ""
    if isinstance(error, ImportError):
        hint = (
            " The module must be importable in the workers: put its directory on PYTHONPATH or sys.path, install "
            "it there, or have its code sent along with cloudpickle.register_pickle_by_value(module)."
        )
    text = f"Node {task.node!r} could not be loaded in the worker: {type(error).__name__}: {error}.{hint}"
    failure = ShippingError(text, node=task.node, task=task.id, step=task.step)
    failure.__cause__ = error
    return failure


def _extend_path(path: list[str]) -> None:
    """Make what the driver can import importable here, after what this process has by itself."""
    known = set(sys.path)
    sys.path += [entry for entry in path if entry and entry not in known and os.path.exists(entry)]


def _change_directory(cwd: str) -> None:
    try:
        if os.getcwd() != cwd:
            os.chdir(cwd)
    except OSError:  # gone, here or there
        pass


def _size(parts: Sequence[Any]) -> int:
    return sum(memoryview(part).nbytes for part in parts)

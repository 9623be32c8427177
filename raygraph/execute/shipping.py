"""The driver's half of shipping: calls to bytes, outcomes from bytes.

Small things travel inside the call. What many calls share travels as a `Blob`, once per worker process: a node's
program, the run's context, a large state value. A blob's key stands for its content, so a worker that has the
key needs nothing more.

Everything here is pickle. It is only ever loaded from our own workers, over private sockets or through Ray.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import cloudpickle

from raygraph.build.specs import Program
from raygraph.errors import ShippingError, short
from raygraph.execute.culprit import explain_unpicklable, find_unpicklable, picklable
from raygraph.execute.exceptions import PackedError, unpack_error
from raygraph.state.records import Call, Outcome, RunContext, Task, Usage
from raygraph.state.snapshot import Packed, dumps, is_immutable, pack, unpack
from raygraph.state.types import Send

__all__ = [
    "Blob",
    "Shipper",
    "check_program",
    "decode_outcome",
    "explain_unpicklable",
    "find_unpicklable",
    "program_blob",
]

#: State values above this travel as blobs. Ray's own limit for arguments inside a task's message (100 KiB,
#: `max_direct_call_object_size`), less some room for the rest of the call.
INLINE_LIMIT: Final = 96 * 1024
#: Bytes of state values remembered as shipped, and so kept alive, per run. A guess: far more than the states
#: seen in examples, far less than a machine that runs several workers has.
_REMEMBERED: Final = 256 * 1024 * 1024
#: Code that travels by value is pickled anew for each run, so that a node sees the globals it would see in the
#: driver, up to this size (1 MiB takes about 1 ms); larger captures are pickled once per compiled graph.
_REPICKLED: Final = 1024 * 1024

_TASK_FIELDS: Final = tuple(field.name for field in fields(Task))

#: A packed value on its way: `(value,)`, `(pickle, buffers)`, `(first part, number of parts, None)`, or a key.
Form = Any


@dataclass(frozen=True, slots=True)
class Blob:
    """Something shipped once per worker process.

    Attributes:
        key: Stands for the content.
        parts: A pickle, and the buffers taken out of it.
        size: Bytes in all.
    """

    key: str
    parts: tuple[Any, ...]
    size: int


def make_blob(key: str, *parts: Any) -> Blob:
    """A blob of these parts."""
    return Blob(key, parts, sum(memoryview(part).nbytes for part in parts))


#: The blob of each program that was ever shipped, by identity; an entry dies with its program.
_programs: dict[int, tuple[weakref.ref[Program], Blob]] = {}


def program_blob(program: Program, *, fresh: bool = False) -> Blob:
    """The pickled program, made once per program object.

    Args:
        program: The program.
        fresh: Pickle it again if it is small and holds code by value, since what it captured may have changed.

    Raises:
        ShippingError: It cannot be pickled; the text names what of it cannot.
    """
    known = _programs.get(id(program))
    if known is not None and not (fresh and _may_have_changed(known[1])):
        return known[1]
    try:
        data = cloudpickle.dumps(program, protocol=5)
    except Exception as error:
        raise ShippingError(_why_not(program, error), node=program.node) from error
    blob = make_blob("program:" + hashlib.sha256(data).hexdigest(), data)
    if known is not None and known[1].key == blob.key:
        return known[1]
    identity = id(program)
    _programs[identity] = (weakref.ref(program, lambda _: _programs.pop(identity, None)), blob)
    return blob


def check_program(program: Program) -> None:
    """Raise `ShippingError` if a node's code cannot be sent to workers, naming what it captured."""
    program_blob(program)


class Shipper:
    """Turns the calls of one run into bytes. Used from one thread.

    Args:
        run: What all tasks of the run are told.
        surroundings: Also give workers the driver's working directory and environment (processes of the same
            machine that outlive a run and must follow what the driver changed since they started).
    """

    def __init__(self, run: RunContext, *, surroundings: bool) -> None:
        self._run = run_blob(run, surroundings)
        self._programs: dict[int, tuple[Program, Blob]] = {}
        self._values: OrderedDict[int, tuple[Packed, Blob]] = OrderedDict()
        self._remembered = 0
        self._token = os.urandom(8).hex()
        self._count = 0
        #: Keys of this run's own blobs, which nobody will ask for once it has ended.
        self.keys: list[str] = [self._run.key]

    def encode(self, call: Call) -> tuple[bytes, list[Blob]]:
        """The call as bytes, and the blobs it refers to, which the worker must have when it decodes it.

        Raises:
            ShippingError: The node's code cannot be pickled.
        """
        program = self._program(call.program)
        blobs = [self._run, program]
        header = (
            tuple([getattr(call.task, name) for name in _TASK_FIELDS]),
            self._run.key,
            program.key,
            {key: self._form(key, packed, call, blobs) for key, packed in call.inputs.items()},
            None if call.arg is None else self._form("its input", call.arg, call, blobs),
            {key: self._form(key, Packed(value), call, blobs) for key, value in call.managed.items()},
        )
        self._forget({blob.key for blob in blobs})
        return pickle.dumps(header, protocol=5), blobs

    def _program(self, program: Program) -> Blob:
        known = self._programs.get(id(program))
        if known is None:
            known = self._programs[id(program)] = (program, program_blob(program, fresh=True))
        return known[1]

    def _form(self, key: str, packed: Packed, call: Call, blobs: list[Blob]) -> Form:
        if packed.data is None:
            if is_immutable(packed.value):
                return (packed.value,)
            packed = _pack_reference(key, packed.value, call.task.node)
        elif packed.size > INLINE_LIMIT:
            blob = self._value(packed)
            blobs.append(blob)
            return blob.key
        return (bytes(packed.data or b""), tuple([bytes(buffer) for buffer in packed.buffers]))

    def _value(self, packed: Packed) -> Blob:
        """The blob of a large value: the same one while the same `Packed` stands, which is a channel version."""
        known = self._values.get(id(packed))
        if known is not None:
            self._values.move_to_end(id(packed))
            return known[1]
        self._count += 1
        blob = make_blob(f"{self._token}:{self._count}", packed.data, *packed.buffers)
        self._values[id(packed)] = (packed, blob)
        self._remembered += blob.size
        self.keys.append(blob.key)
        return blob

    def _forget(self, in_use: set[str]) -> None:
        """Let go of values not used for longest. A value that comes back after all is shipped again."""
        for identity, (_, blob) in list(self._values.items()):
            if self._remembered <= _REMEMBERED:
                return
            if blob.key not in in_use:
                del self._values[identity]
                self._remembered -= blob.size


def run_blob(run: RunContext, surroundings: bool) -> Blob:
    """The run's context, with the driver's import path and, if asked for, directory and environment."""
    try:
        data, buffers = dumps(run)
    except Exception as error:
        path, culprit = find_unpicklable(run, "")
        raise ShippingError(
            f"The run's {path.lstrip('.') or 'context'} holds {short(culprit)} ({type(culprit).__name__}), which "
            "cannot be sent to workers. Leave it out of config and context, build it inside the node (or with "
            "per_worker(factory)), or keep the graph in the driver with executor='threads'."
        ) from error
    around = (list(sys.path), _cwd() if surroundings else None, dict(os.environ) if surroundings else None)
    outer = pickle.dumps((around, data, buffers), protocol=5)
    return make_blob("run:" + hashlib.sha256(outer).hexdigest(), outer)


def put_packed(packed: Packed, parts: list[Any]) -> Form:
    """The form of `packed` in an outcome; large ones go into `parts` uncopied."""
    if packed.data is None:
        if is_immutable(packed.value):
            return (packed.value,)
        packed = pack(packed.value)
    if packed.size <= INLINE_LIMIT:
        return (bytes(packed.data or b""), tuple([bytes(buffer) for buffer in packed.buffers]))
    first = len(parts)
    parts += [packed.data, *packed.buffers]
    return (first, 1 + len(packed.buffers), None)


def decode_outcome(parts: Sequence[Any], node: str) -> Outcome:
    """The outcome a worker sent. One that cannot be read becomes an outcome with an error; see `depot`."""
    task_id, attempt, writes, error, mutated, customs, usage = pickle.loads(parts[0])
    failure = None if error is None else unpack_error(PackedError(*error))
    try:
        taken = tuple([(channel, _take(form, parts)) for channel, form in writes])
    except Exception as broken:
        taken = ()
        failure = ShippingError(f"What node {node!r} returned cannot be read in the driver: {broken}", node=node)
    return Outcome(task_id, attempt, taken, failure, tuple(mutated), customs, Usage(*usage))


def decode_custom(parts: Sequence[Any]) -> Any:
    """What a node passed to its stream writer."""
    return unpack(_take(pickle.loads(parts[0]), parts))


def _take(form: Form, parts: Sequence[Any]) -> Any:
    if form[0] is Send:
        return Send(form[1], _take(form[2], parts), timeout=form[3])
    if len(form) == 1:
        return Packed(form[0])
    if len(form) == 2:
        return Packed(None, form[0], form[1])
    first, count, _ = form
    data, *buffers = parts[first : first + count]
    return Packed(None, bytes(data), tuple([bytes(buffer) for buffer in buffers]))


def _pack_reference(key: str, value: Any, node: str) -> Packed:
    """Copy a value that passes by reference in the driver, for a node that runs elsewhere."""
    try:
        return pack(value)
    except Exception as error:
        path, culprit = find_unpicklable(value, key)
        raise ShippingError(
            f"Node {node!r} reads {path}, which holds {short(culprit)} ({type(culprit).__name__}) and cannot be sent "
            "to workers. Keep the node in the driver with executor='threads', or leave the key out of its reads.",
            node=node,
            key=key,
        ) from error


def _why_not(program: Program, error: Exception) -> str:
    what = f"{type(error).__name__}: {error}"
    for part, fn in _code_of(program):
        if fn is not None and not picklable(fn):
            why = explain_unpicklable(fn)
            return (
                f"{part} cannot be sent to workers: {why}. Build it inside the node or use per_worker(factory), or "
                "keep the node in the driver with executor='threads'."
            )
    path, culprit = find_unpicklable(program, "")
    return f"Node {program.node!r} cannot be sent to workers: {path.lstrip('.')} ({type(culprit).__name__}): {what}."


def _code_of(program: Program) -> Iterable[tuple[str, Any]]:
    yield f"Node {program.node!r}", program.fn
    for branch in program.branches:
        yield f"Router {branch.name!r} of node {program.node!r}", branch.path


def _may_have_changed(blob: Blob) -> bool:
    # cloudpickle's marks of code and classes pickled by value
    data = blob.parts[0]
    return blob.size <= _REPICKLED and (b"_make_function" in data or b"_make_skeleton_class" in data)


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None

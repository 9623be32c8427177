"""How an exception gets from a worker to the driver: same class, same contents, no `__init__` called.

Pickle rebuilds an exception as `cls(*args)`. That fails for every class whose `__init__` asks for something else
than what it passes on (an API client's status error, a keyword-only argument), and it drops the cause. Here an
exception is taken apart into its class, `args`, attributes, slots, notes and chain, and put together on a fresh
object. What cannot travel is replaced by its repr and named in a note, so that one socket in one attribute
doesn't cost the caller his `except MyError`.

The traceback travels as text, in a note (from Python 3.11 on, where notes are printed) or as the cause.
"""

from __future__ import annotations

import functools
import io
import sys
import traceback
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, NamedTuple

import cloudpickle

from raygraph.errors import GraphBubbleUp, RaygraphError, short

_ATOMS: Final = frozenset({int, float, str, bytes, bool, type(None), complex})
#: Slots of the builtin classes that are carried by other means, or not at all.
_NOT_CARRIED: Final = frozenset(
    {
        *("args", "__dict__", "__weakref__", "__traceback__", "__cause__", "__context__", "__suppress_context__"),
        *("message", "exceptions"),  # of a group: read-only, given when it is made
        "obj",  # of an AttributeError: whatever lacked the attribute, however large
    }
)


class RemoteNodeError(RaygraphError):
    """Stands for a node's exception whose class cannot be sent from the worker to the driver.

    Attributes:
        type_name: The class, as `module.name`.
        text: `str()` of the exception.
        traceback: Its traceback, as text.
    """

    code = "NODE_ERROR_NOT_PORTABLE"

    def __init__(
        self, message: str = "", *, type_name: str = "", text: str = "", traceback: str = "", **where: Any
    ) -> None:
        super().__init__(message, **where)
        self.type_name = type_name
        self.text = text
        self.traceback = traceback


class RemoteTraceback(Exception):
    """Shows a traceback from another process as the cause of an exception (before Python 3.11)."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


class PackedError(NamedTuple):
    """An exception on its way: its pickle, and what is left to say should that not load.

    Attributes:
        data: The pickle; None if the class cannot be pickled.
        type_name: The class, as `module.name`.
        text: `str()` of the exception.
        traceback: The formatted traceback without raygraph's own frames; "" if there were no others.
        why: Why there is no pickle.
    """

    data: bytes | None
    type_name: str
    text: str
    traceback: str
    why: str = ""


def pack_error(error: BaseException) -> PackedError:
    """Take `error` apart for the way to another process. Never raises."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    data, why = None, ""
    try:
        data = _dumps(error)
    except BaseException as failure:  # a user's __getstate__ or __reduce__ may raise anything
        why = f"{type(failure).__name__}: {failure}"
    return PackedError(data, name, _text(error), format_remote(error), why)


def unpack_error(packed: PackedError) -> BaseException:
    """Put a packed exception together again; a `RemoteNodeError` if its class is not to be had here."""
    why = packed.why
    if packed.data is not None:
        try:
            error = cloudpickle.loads(packed.data)
        except BaseException as failure:
            why = f"{type(failure).__name__}: {failure}"
        else:
            if isinstance(error, BaseException):
                return _with_traceback(error, packed.traceback)
            why = f"it came out as {short(error)}"
    lost = RemoteNodeError(
        f"{packed.type_name}: {packed.text} (the exception itself could not be brought to the driver: {why})",
        type_name=packed.type_name,
        text=packed.text,
        traceback=packed.traceback,
    )
    return _with_traceback(lost, packed.traceback)


def add_note(error: BaseException, note: str) -> None:
    """`error.add_note(note)`, which Python 3.10 doesn't have."""
    notes = error.__dict__.get("__notes__")
    error.__dict__["__notes__"] = [*notes, note] if isinstance(notes, (list, tuple)) else [note]


def format_remote(error: BaseException) -> str:
    """The traceback of `error` and its chain as text, from the first frame that isn't raygraph's own."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("raygraph."):
        frames = frames.tb_next
    if frames is None or isinstance(error, GraphBubbleUp):
        return ""
    try:
        shown = traceback.TracebackException(type(error), error, frames, compact=True)
        shown.__notes__ = None  # type: ignore[attr-defined]  # they travel with the exception itself
        return "".join(shown.format())
    except BaseException as failure:  # a __str__ somewhere in the chain raised
        return f"<the traceback could not be formatted: {type(failure).__name__}>"


def _with_traceback(error: BaseException, text: str) -> BaseException:
    if not text:
        return error
    if sys.version_info >= (3, 11):
        add_note(error, f"\nRemote {text.rstrip()}" if text.startswith("Traceback") else f"\nRemote:\n{text}")
    elif error.__cause__ is None:
        error.__cause__ = RemoteTraceback(text)
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as failure:
        return f"<str() raised {type(failure).__name__}>"


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles exceptions our way, wherever they stand: in args, attributes, groups, chains."""

    #: Exceptions that are being taken apart further out, by id. One that holds itself would never end.
    _open: frozenset[int]

    def reducer_override(self, obj: Any) -> Any:
        if not issubclass(type(obj), BaseException):
            return super().reducer_override(obj)
        if id(obj) in self._open:
            return (str, ("...",))
        return _reduce(obj, self._open | {id(obj)})


def _dumps(value: Any, opened: frozenset[int] = frozenset()) -> bytes:
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5)
    pickler._open = opened
    pickler.dump(value)
    return file.getvalue()


def _reduce(error: BaseException, opened: frozenset[int]) -> tuple[Any, ...]:
    """What pickle needs to know of an exception. Everything that may refer back to it is in the state."""
    kind = type(error)
    lost: list[str] = []

    def portable(name: str, value: Any) -> Any:
        """The value itself if it survives the journey, otherwise its repr."""
        if type(value) in _ATOMS:
            return value
        try:
            cloudpickle.loads(_dumps(value, opened))
        except BaseException:
            lost.append(f"`{name}` ({type(value).__name__})")
            return short(value)
        return value

    state = {
        "args": tuple(portable(f"args[{i}]", value) for i, value in enumerate(error.args)),
        "attributes": {name: portable(name, value) for name, value in error.__dict__.items()},
        "slots": {name: portable(name, value) for name, value in _slots(error).items()},
        "cause": error.__cause__,
        "context": error.__context__,
        "suppress": error.__suppress_context__,
        "lost": lost,
    }
    if not _can_allocate(kind):  # type: ignore[arg-type]  # compiled classes with a constructor of their own know best how to be rebuilt
        reduced: Any = error.__reduce_ex__(4)
        function, arguments = reduced[:2]
        return (_call, (function, arguments), state, None, None, _restore)
    if _group_base(kind) is not None:
        members = list(error.exceptions)  # type: ignore[attr-defined]
        group = (kind, (error.message, members))  # type: ignore[attr-defined]
        return (_allocate, group, state, None, None, _restore)
    return (_allocate, (kind, ()), state, None, None, _restore)


def _slots(error: BaseException) -> dict[str, Any]:
    """Values kept outside of `__dict__`: those of builtin classes (OSError's errno, …) and of `__slots__`."""
    values: dict[str, Any] = {}
    for kind in type(error).__mro__[:-1]:
        for name, descriptor in vars(kind).items():
            if type(descriptor) not in (MemberDescriptorType, GetSetDescriptorType) or name in _NOT_CARRIED:
                continue
            try:
                value = descriptor.__get__(error)
            except Exception:  # not set
                continue
            if value is not None:
                values.setdefault(name, value)
    return values


def _builtin_base(kind: type[BaseException]) -> type[BaseException]:
    """The nearest of Python's own exception classes: its `__new__` makes the object, its `__init__` isn't ours."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and issubclass(base, BaseException))


def _group_base(kind: type[BaseException]) -> type[BaseException] | None:
    base = _builtin_base(kind)
    return base if base.__name__ in ("ExceptionGroup", "BaseExceptionGroup") else None


@functools.lru_cache(maxsize=256)  # classes seen as errors; more than a process is likely to meet
def _can_allocate(kind: type[BaseException]) -> bool:
    try:
        _allocate(kind, ("", [Exception()]) if _group_base(kind) is not None else ())
    except Exception:
        return False
    return True


def _allocate(kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    return _builtin_base(kind).__new__(kind, *arguments)


def _call(function: Any, arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


def _restore(error: BaseException, state: dict[str, Any]) -> None:
    """Fill in what `_reduce` took out."""
    for name, value in state["slots"].items():
        try:
            setattr(error, name, value)
        except Exception:  # read-only: it was given when the object was made
            pass
    error.args = state["args"]
    error.__dict__.update(state["attributes"])
    error.__cause__ = state["cause"]
    error.__context__ = state["context"]
    error.__suppress_context__ = state["suppress"]
    if state["lost"]:
        what = ", ".join(state["lost"])
        add_note(error, f"Could not leave the worker process and is replaced by its repr: {what}")

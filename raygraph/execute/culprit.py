"""Naming what cannot be pickled: "captured `self.client._ctx` (SSLContext)" instead of "cannot pickle 'SSLContext'".

Pickle's own error names a type, not where it hangs. Here the object is walked, largest first: whichever child
cannot be pickled by itself is followed, until one is reached all of whose children can.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

#: Objects looked at before giving up: the search is for an error text and must end within seconds.
_PATIENCE: Final = 2000

#: How a child is reached: a suffix to the path (".client", "[1]"), or a name of its own that a function captured.
_Step = tuple[str, Any, bool]


def find_unpicklable(value: Any, where: str) -> tuple[str, Any]:
    """The first object inside `value` that cannot be pickled.

    Args:
        value: Something that could not be pickled.
        where: What the reader knows it as, such as a state key.

    Returns:
        The path to the culprit (`xs[1].conn`) and the culprit itself; `where` and `value` if nothing smaller
        than the whole is at fault.
    """
    groups, culprit = _search(value, [where])
    return " -> ".join(groups), culprit


def explain_unpicklable(fn: Callable[..., Any]) -> str:
    """Why a function cannot be sent to another process: "captured `self.client._ctx` (SSLContext)"."""
    groups, culprit = _search(fn, [])
    kind = type(culprit).__name__
    if not groups:
        return f"it is itself not picklable ({kind})"
    return "captured " + ", which captured ".join(f"`{group}`" for group in groups) + f" ({kind})"


def picklable(value: Any) -> bool:
    """Whether cloudpickle takes `value`."""
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception:  # whatever a __reduce__ raises
        return False
    return True


def _search(value: Any, groups: list[str]) -> tuple[list[str], Any]:
    seen: set[int] = set()
    while len(seen) < _PATIENCE:
        seen.add(id(value))
        for step, child, captured in _children(value, at_root=not groups):
            if len(seen) >= _PATIENCE:
                break
            if id(child) in seen or picklable(child):
                seen.add(id(child))
                continue
            if captured:
                groups = [*groups, step]
            elif groups:
                groups = [*groups[:-1], groups[-1] + step]
            value = child
            break
        else:
            break
    return groups, value


def _children(value: Any, *, at_root: bool) -> Iterator[_Step]:
    if isinstance(value, types.FunctionType):
        yield from _captured(value)
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__, True
        yield "", value.__func__, False
    elif isinstance(value, functools.partial):
        yield from ((f"args[{i}]", argument, True) for i, argument in enumerate(value.args))
        yield from ((name, argument, True) for name, argument in value.keywords.items())
        yield "", value.func, False
    elif isinstance(value, type):
        yield from ((f".{name}", _plain(child), False) for name, child in vars(value).items() if name != "__dict__")
    elif isinstance(value, dict):
        for key, child in value.items():
            yield f"[{key!r}]", child, False
            yield f" (key {key!r})", key, False
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", child, False) for i, child in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from ((" (member)", child, False) for child in value)
    yield from ((f".{name}" if not at_root else f"self.{name}", child, at_root) for name, child in _attributes(value))


def _captured(function: types.FunctionType) -> Iterator[_Step]:
    """All that a function takes along when it is pickled by value."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents, True
        except ValueError:  # not filled yet
            pass
    code = function.__code__
    defaults = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    yield from zip(names[len(names) - len(defaults) :], defaults, [True] * len(defaults), strict=True)
    yield from ((name, value, True) for name, value in (function.__kwdefaults__ or {}).items())
    for name in _globals_used(code):
        if name in function.__globals__:
            yield name, function.__globals__[name], True


def _globals_used(code: types.CodeType) -> dict[str, None]:
    used = {i.argval: None for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "STORE_GLOBAL")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            used.update(_globals_used(constant))
    return used


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Instance attributes, from `__dict__` and `__slots__`; of a class by value, the class as well."""
    if isinstance(value, (type, types.ModuleType)):
        return
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from attributes.items()
    for kind in type(value).__mro__[:-1]:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield name, slot.__get__(value)
                except AttributeError:  # not set
                    pass
    if not isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        yield "__class__", type(value)


def _plain(value: Any) -> Any:
    """What a descriptor wraps."""
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value

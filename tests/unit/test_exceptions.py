"""A node's exception reaches the caller as it was raised."""

from __future__ import annotations

import pickle
import sys
import threading
import urllib.error
from typing import Any

import cloudpickle
import pytest

from raygraph.errors import InvalidUpdateError, NodeCrashed
from raygraph.execute.exceptions import PackedError, RemoteNodeError, add_note, pack_error, unpack_error


class TwoArguments(Exception):
    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class KeywordOnly(Exception):
    def __init__(self, *, status: int) -> None:
        super().__init__("status")
        self.status = status


class NoArgument(Exception):
    def __init__(self) -> None:
        super().__init__("always the same")


class NoSuperInit(Exception):
    def __init__(self, a: int, b: int) -> None:
        self.a = a


class Slotted(ValueError):
    __slots__ = ("where",)


class HoldsLock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())
        self.lock = threading.Lock()
        self.fine = [1, 2]


class Tunnel(OSError):
    def __init__(self, host: str) -> None:
        super().__init__(5, "unreachable", host)
        self.host = host


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def travel(error: BaseException) -> Any:
    """What the caller gets: packed, through plain pickle (as in an outcome), unpacked."""
    return unpack_error(PackedError(*pickle.loads(pickle.dumps(tuple(pack_error(error))))))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("v"),
        KeyError("k"),
        TwoArguments(4, "x"),
        KeywordOnly(status=503),
        NoArgument(),
        NoSuperInit(1, 2),
        FileNotFoundError(2, "No such file", "/nowhere"),
        Tunnel("example"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        SyntaxError("bad", ("f.py", 1, 2, "x ==")),
        ImportError("no", name="m", path="p"),
        StopIteration(3),
        SystemExit(3),
        KeyboardInterrupt(),
        InvalidUpdateError("text", node="a", key="k"),
        NodeCrashed("text", exit_code=-9, attempt=2, node="n"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_same_class_args_attributes_and_text(error: BaseException) -> None:
    got = travel(raised(error))
    assert type(got) is type(error)
    assert got.args == error.args
    assert str(got) == str(error)
    assert {k: v for k, v in vars(got).items() if k != "__notes__"} == vars(error)


def test_values_kept_by_builtin_classes() -> None:
    got = travel(FileNotFoundError(2, "No such file", "/nowhere"))
    assert (got.errno, got.strerror, got.filename) == (2, "No such file", "/nowhere")
    assert travel(StopIteration(3)).value == 3
    assert travel(SystemExit(3)).code == 3
    assert travel(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")).object == b"\xff"
    assert travel(ImportError("no", name="m")).name == "m"


def test_slots_of_the_users_class() -> None:
    error = Slotted("v")
    error.where = "here"
    assert travel(error).where == "here"


def test_cause_context_and_notes() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise TwoArguments(1, "outer") from inner
    except TwoArguments as outer:
        add_note(outer, "remember the milk")
        got = travel(outer)
    assert type(got.__cause__) is KeyError
    assert got.__cause__ is got.__context__
    assert got.__suppress_context__
    assert got.__notes__[0] == "remember the milk"


def test_an_exception_inside_another_is_rebuilt_the_same_way() -> None:
    got = travel(urllib.error.URLError(TwoArguments(7, "refused")))
    assert type(got.reason) is TwoArguments
    assert got.reason.code == 7


def test_an_exception_that_refers_to_itself() -> None:
    error = ValueError("v")
    error.me = error  # type: ignore[attr-defined]
    got = travel(error)
    assert got.me is got
    error = ValueError("v")
    error.args = (error,)
    assert type(travel(error)) is ValueError


@pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup came with 3.11")
def test_members_of_a_group() -> None:
    got = travel(raised(ExceptionGroup("many", [ValueError("v"), TwoArguments(1, "x")])))  # noqa: F821
    assert [type(member) for member in got.exceptions] == [ValueError, TwoArguments]
    assert got.message == "many"
    assert got.exceptions[1].detail == "x"


def test_what_cannot_travel_is_replaced_and_named() -> None:
    got = travel(HoldsLock("text"))
    assert type(got) is HoldsLock
    assert got.args[0] == "text"
    assert "lock" in got.lock
    assert got.fine == [1, 2]
    assert "`args[1]` (lock), `lock` (lock)" in got.__notes__[0]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes are not printed before 3.11")
def test_the_remote_traceback_is_shown() -> None:
    note = travel(raised(ValueError("v"))).__notes__[-1]
    assert "Remote Traceback (most recent call last)" in note
    assert "in raised" in note
    assert note.endswith("ValueError: v")


def test_no_traceback_where_no_frame_is_the_users() -> None:
    assert not hasattr(travel(ValueError("never raised")), "__notes__")


def test_a_class_of_this_process_only_comes_back_as_itself() -> None:
    """A class defined in a function is sent by value and must still be the one the caller's `except` names."""

    class Local(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a)
            self.b = b

    cloudpickle.dumps(Local)
    assert type(travel(Local(1, 2))) is Local


def test_a_class_that_cannot_be_pickled() -> None:
    class Stuck(Exception):
        lock = threading.Lock()

    got = travel(raised(Stuck("what happened")))
    assert type(got) is RemoteNodeError
    assert got.type_name.endswith("Stuck")
    assert got.text == "what happened"
    assert "in raised" in got.traceback
    assert "what happened" in str(got)
    assert type(travel(got)) is RemoteNodeError


def test_a_class_the_driver_does_not_have() -> None:
    packed = pack_error(TwoArguments(1, "x"))
    assert packed.data is not None
    broken = packed._replace(data=packed.data.replace(b"TwoArguments", b"TwoArgumenta"))
    got = unpack_error(broken)
    assert type(got) is RemoteNodeError
    assert "1: x" in str(got)


def test_a_class_with_a_compiled_constructor() -> None:
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(int)
    with pytest.raises(pydantic.ValidationError) as info:
        adapter.validate_python("x")
    got = travel(info.value)
    assert type(got) is pydantic.ValidationError
    assert got.errors() == info.value.errors()


def test_str_that_raises() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    cloudpickle.dumps(Mute)
    assert type(travel(raised(Mute()))) is Mute

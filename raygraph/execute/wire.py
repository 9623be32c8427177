"""Messages over a private socket between the driver and one worker process: a kind and some byte strings.

A message is a prefix (kind, number of parts, bytes that follow), the sizes of the parts, and the parts. Each part
begins at a multiple of 16 bytes, so that numpy arrays can stand in the received buffer as they are.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

_PREFIX: Final = struct.Struct("=BIQ")
_ALIGN: Final = 16
#: Bytes asked for at once while a message's size isn't known: nearly all messages fit whole. A unix socket's
#: buffer holds about 200 KiB on Linux.
_CHUNK: Final = 64 * 1024
#: Buffers handed to one sendmsg; Linux takes up to 1024 (IOV_MAX).
_VECTOR: Final = 512


class Kind(enum.IntEnum):
    """What a message is about."""

    HELLO = 0  # worker: ready
    CALL = 1  # driver: blobs to drop, blobs that follow, the call, the blobs
    CUSTOM = 2  # worker: a custom event of the running task
    OUTCOME = 3  # worker: the running task has ended


Message = tuple[int, list[memoryview]]


def send(sock: socket.socket, kind: Kind, parts: Sequence[Any]) -> None:
    """Send a message, blocking until the kernel has taken all of it."""
    views = [memoryview(part).cast("B") for part in parts]
    sizes = struct.pack(f"={len(views)}Q", *[view.nbytes for view in views])
    body: list[Any] = [sizes, _padding(len(sizes))]
    for view in views:
        body += (view, _padding(view.nbytes))
    total = sum(len(piece) for piece in body)
    head = _PREFIX.pack(kind, len(views), total)
    if total < _CHUNK:
        sock.sendall(b"".join((head, *body)))
    else:
        _send_all(sock, [head, *body])


def _send_all(sock: socket.socket, pieces: Iterable[Any]) -> None:
    views = [memoryview(piece) for piece in pieces if len(piece)]
    at = 0
    while at < len(views):
        sent = sock.sendmsg(views[at : at + _VECTOR])
        while at < len(views) and sent >= len(views[at]):
            sent -= len(views[at])
            at += 1
        if sent:
            views[at] = views[at][sent:]


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGN)


class Inbox:
    """The receiving end: bytes in, messages out.

    Args:
        sock: Where from.
        wait: Block for bytes; otherwise take what is there.
    """

    def __init__(self, sock: socket.socket, *, wait: bool) -> None:
        self._sock = sock
        self._flags = 0 if wait else socket.MSG_DONTWAIT
        self._start = bytearray()
        self._kind = self._count = 0
        self._body: bytearray | None = None
        self._filled = 0

    def receive(self) -> list[Message]:
        """Read once and return the messages that are now complete.

        Raises:
            EOFError: The other side has gone.
        """
        try:
            if self._body is not None:
                got = self._sock.recv_into(memoryview(self._body)[self._filled :], 0, self._flags)
                self._filled += got
                if not got:
                    raise EOFError
            else:
                data = self._sock.recv(_CHUNK, self._flags)
                if not data:
                    raise EOFError
                self._start += data
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError from error
        return self._complete()

    def _complete(self) -> list[Message]:
        messages: list[Message] = []
        while True:
            if self._body is None:
                if len(self._start) < _PREFIX.size:
                    return messages
                self._kind, self._count, total = _PREFIX.unpack_from(self._start)
                self._body = bytearray(total)
                end = min(len(self._start), _PREFIX.size + total)
                self._filled = end - _PREFIX.size
                self._body[: self._filled] = self._start[_PREFIX.size : end]
                del self._start[:end]
            if self._filled < len(self._body):
                return messages
            messages.append((self._kind, _parts(self._body, self._count)))
            self._body = None


def _parts(body: bytearray, count: int) -> list[memoryview]:
    view = memoryview(body).toreadonly()
    at = 8 * count + len(_padding(8 * count))
    parts = []
    for size in struct.unpack_from(f"={count}Q", body):
        parts.append(view[at : at + size])
        at += size + len(_padding(size))
    return parts

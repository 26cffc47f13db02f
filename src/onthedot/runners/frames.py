"""Encodes and decodes JSON messages between a worker and its child processes or its guard.

A frame is its length in four bytes, and then one JSON object. Neither side unpickles, imports or evaluates anything
that it receives. `child_messages.py` and `guard/protocol.py` define the messages.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

_LENGTH = 4
_CHUNK = 1 << 20


class BadFrame(ValueError):
    """The bytes are no valid frame, or the message has an unknown shape."""


def frame(message: Message) -> bytes:
    """Return a message as the bytes of a frame."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(_LENGTH, "big") + body


def send(talk: socket.socket, message: Message) -> None:
    """Send one frame."""
    talk.sendall(frame(message))


def receive(talk: socket.socket, most: int) -> Message | None:
    """Wait for the next frame, of at most `most` bytes. Return None if the other side has closed."""
    head = _read(talk, _LENGTH)
    if head is None:
        return None
    body = _read(talk, _length(head, most))
    return None if body is None else _message(body)


class Inbox:
    """Turns bytes, as they arrive, into messages of at most `most` bytes.

    >>> inbox = Inbox(100)
    >>> both = frame({"stop": 1}) + frame({"stop": 2})
    >>> list(inbox.feed(both[:15])), list(inbox.feed(both[15:]))
    ([{'stop': 1}], [{'stop': 2}])
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that these bytes complete."""
        self._held += data
        while len(self._held) >= _LENGTH:
            end = _LENGTH + _length(self._held[:_LENGTH], self._most)
            if len(self._held) < end:
                return
            body = bytes(self._held[_LENGTH:end])
            del self._held[:end]
            yield _message(body)


def _length(head: bytes | bytearray, most: int) -> int:
    length = int.from_bytes(head, "big")
    if length > most:
        raise BadFrame(f"expected at most {most} bytes, got {length}")
    return length


def _message(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"expected JSON, got {body[:100]!r}") from error
    if not isinstance(message, dict):
        raise BadFrame(f"expected a mapping, got {body[:100]!r}")
    return message


def _read(talk: socket.socket, length: int) -> bytes | None:
    parts: list[bytes] = []
    while length:
        part = talk.recv(min(length, _CHUNK))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)

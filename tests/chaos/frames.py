"""Reads enough of PostgreSQL's wire protocol to know which reply belongs to which statement.

The first messages of a connection have no type: the client may ask for encryption, which the server answers with one
byte, and then sends its start-up message. After that each message is a type, a length and a body. A reply ends with
ReadyForQuery (`Z`). Only then is the transaction of a statement without BEGIN committed. A client that sends Flush
(`H`) gets an answer without such an end: if the client stops there, the server waits inside the transaction. An
encrypted connection cannot be read: its bytes are forwarded, and its replies are unknown.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

ENCRYPTION_REQUESTS = (80877103, 80877104)  # TLS, GSSAPI
CANCEL_REQUEST = 80877102
AT_ANY_TIME = b"ANS"  # notifications, notices and settings: they come between replies too

_LENGTH = struct.Struct("!I")


class Reply(NamedTuple):
    """The statements of one request, and the tags of the server's reply up to ReadyForQuery."""

    statements: tuple[str, ...]
    tags: tuple[str, ...]  # of each CommandComplete: COMMIT, INSERT 0 1, …

    def answers(self, word: str) -> bool:
        """Return whether a tag begins with this word, or an executed statement contains it."""
        return any(tag.startswith(word) for tag in self.tags) or any(word in text for text in self.statements)


@dataclass
class Conversation:
    """Follows the bytes of one connection, and splits them into messages."""

    opaque: bool = False
    begun_by: str = ""  # the query that began the open transaction; empty: no transaction is open
    flushed: str = ""  # the last parsed statement whose answer the client awaits with Flush
    executed: str = ""  # the last bound statement, up to Sync
    _parsed: str = ""
    _query: str = ""
    _asked: deque[tuple[str, ...]] = field(default_factory=deque)
    _texts: dict[bytes, str] = field(default_factory=dict)
    _executing: list[str] = field(default_factory=list)
    _tags: list[str] = field(default_factory=list)
    _started: bool = False
    _bytes_expected: int = 0  # single bytes that answer a request for encryption
    _from_client: bytearray = field(default_factory=bytearray)
    _from_server: bytearray = field(default_factory=bytearray)

    @property
    def waiting(self) -> bool:
        """Return whether the next message belongs to the reply to a statement, not to the start-up or a Flush."""
        return bool(self._asked and self._asked[0])

    def client_said(self, data: bytes) -> None:
        """Note the statements in bytes from the client."""
        self._from_client += data
        while not self.opaque and (message := self._next_of_client()):
            self._note(message[:1], message[5:])

    def _next_of_client(self) -> bytes:
        if self._started:
            return _take(self._from_client, 1)
        message = _take(self._from_client, 0)
        if not message:
            return b""
        code = _LENGTH.unpack_from(message, 4)[0]
        if code in ENCRYPTION_REQUESTS:
            self._bytes_expected += 1
        elif code != CANCEL_REQUEST:
            self._started = True
            self._asked.append(())
        return b"-...." + message

    def _note(self, kind: bytes, body: bytes) -> None:
        if kind == b"Q":
            self._query = _text(body, 0)[0]
            self._asked.append((self._query,))
        elif kind == b"P":
            name, after = _name(body, 0)
            self._texts[name] = self._parsed = _text(body, after)[0]
        elif kind == b"H":
            self.flushed = self._parsed
        elif kind == b"B":
            _, after = _name(body, 0)
            self._executing.append(self._texts.get(_name(body, after)[0], ""))
        elif kind == b"S":
            self._asked.append(tuple(self._executing))
            self.executed = self._executing[-1] if self._executing else ""
            self._executing.clear()

    def server_said(self, data: bytes) -> Iterator[tuple[bytes, Reply | None]]:
        """Yield whole messages in order; the last message of a reply comes with the reply.

        The property `waiting` describes the message that was yielded last.
        """
        self._from_server += data
        while self._from_server:
            if self.opaque:
                yield bytes(self._from_server), None
                self._from_server.clear()
            elif self._bytes_expected:
                self._bytes_expected -= 1
                answer = bytes(self._from_server[:1])
                del self._from_server[:1]
                self.opaque = answer != b"N"
                yield answer, None
            elif message := _take(self._from_server, 1):
                yield message, self._judge(message)
            else:
                return

    def _judge(self, message: bytes) -> Reply | None:
        kind = message[:1]
        if kind == b"C":
            self._tags.append(_text(message, 5)[0])
        if kind != b"Z":
            return None
        if message[5:6] == b"I":
            self.begun_by = ""
        elif not self.begun_by:
            self.begun_by = self._query
        reply = Reply(self._asked.popleft() if self._asked else (), tuple(self._tags))
        self._tags.clear()
        return reply


def _take(buffer: bytearray, at: int) -> bytes:
    """Take the first message from the buffer if it is complete. Its length field is at `at`, and counts itself."""
    if len(buffer) < at + 4:
        return b""
    end = at + _LENGTH.unpack_from(buffer, at)[0]
    if len(buffer) < end:
        return b""
    message = bytes(buffer[:end])
    del buffer[:end]
    return message


def _name(body: bytes, at: int) -> tuple[bytes, int]:
    end = body.index(b"\0", at)
    return body[at:end], end + 1


def _text(body: bytes, at: int) -> tuple[str, int]:
    name, after = _name(body, at)
    return name.decode(errors="replace"), after

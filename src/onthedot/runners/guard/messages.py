"""What crosses between a worker and its guard: JSON, one frame after another, each its length in four bytes before it.

| from the worker | | from the guard | |
|---|---|---|---|
| `start`, `program` | start this one, under this number | `ready` | it listens |
| `stop` | end that one, with its grace | `began`, `pid` | that one runs |
| `renew` | the lease is alive until then | `renewed` | it has heard so |
| | | `said`, `text`, `parts` | some of its output; of each part when it came, its stream and its length |
| | | `ended`, `end` | it is over, and its tree gone |
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from onthedot.clock import Micros
from onthedot.model.task import Bounds
from onthedot.output.line_marks import Stream
from onthedot.runners.program.protocol import Program, ProgramEnd

Message = dict[str, Any]

MOST_TO_GUARD = 4 << 20
"""Bytes of one frame: a program with what it reads."""
MOST_FROM_GUARD = 1 << 20

_LENGTH = 4
_MICROSECOND = timedelta(microseconds=1)


class BadFrame(ValueError):
    """What arrived is not what the other side can have sent."""


def frame(message: Message) -> bytes:
    """A message as it crosses."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(_LENGTH, "big") + body


class Inbox:
    """Bytes as they come become messages.

    >>> inbox = Inbox(100)
    >>> both = frame({"stop": 1}) + frame({"stop": 2})
    >>> list(inbox.feed(both[:15])), list(inbox.feed(both[15:]))
    ([{'stop': 1}], [{'stop': 2}])
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with this."""
        self._held += data
        while len(self._held) >= _LENGTH:
            length = int.from_bytes(self._held[:_LENGTH], "big")
            if length > self._most:
                raise BadFrame(f"expected at most {self._most} bytes, got {length}")
            if len(self._held) < _LENGTH + length:
                return
            body = bytes(self._held[_LENGTH : _LENGTH + length])
            del self._held[: _LENGTH + length]
            yield _message(body)


def _message(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"expected JSON, got {body[:100]!r}") from error
    if not isinstance(message, dict):
        raise BadFrame(f"expected a mapping, got {body[:100]!r}")
    return message


def program_to_json(program: Program) -> Message:
    """A program as plain values."""
    bounds = program.bounds
    return program._asdict() | {
        "env": dict(program.env),
        "stdin": b2a_base64(program.stdin, newline=False).decode(),
        "bounds": {
            "cpu": None if bounds.cpu is None else bounds.cpu // _MICROSECOND,
            "memory": bounds.memory,
            "processes": bounds.processes,
            "files": bounds.files,
            "file_bytes": bounds.file_bytes,
            "output": bounds.output,
        },
    }


def program_from_json(data: Message) -> Program:
    """The program that `program_to_json` wrote."""
    bounds = dict(data["bounds"])
    bounds["cpu"] = None if bounds["cpu"] is None else bounds["cpu"] * _MICROSECOND
    return Program(
        **data
        | {
            "argv": tuple(data["argv"]),
            "secrets": tuple(data["secrets"]),
            "stdin": a2b_base64(data["stdin"]),
            "bounds": Bounds(**bounds),
        }
    )


def heard_from_json(text: str, parts: Any) -> list[tuple[Micros, Stream, str]]:
    """Some output, as a guard has told it, part by part.

    >>> heard_from_json("oneoh\\n", [[1, "out", 3], [2, "err", 3]])
    [(1, 'out', 'one'), (2, 'err', 'oh\\n')]
    """
    found: list[tuple[Micros, Stream, str]] = []
    start = 0
    for part in parts if isinstance(parts, list) else [parts]:
        match part:
            case [int(at), "out" | "err" as stream, int(length)] if length >= 0:
                found.append((at, stream, text[start : start + length]))
                start += length
            case _:
                raise BadFrame(f"expected parts of an output, got {str(part)[:100]!r}")
    return found


def end_from_json(data: Any) -> ProgramEnd:
    """How a program ended, as a guard has told it.

    >>> end_from_json(["exited", 0, None, "", 10, 20, 0]).in_words()
    'exit code 0'
    """
    match data:
        case [str(), int() | None, int() | None, str(), int(), int(), int()]:
            return ProgramEnd(*data)
    raise BadFrame(f"expected an end, got {str(data)[:100]!r}")

"""Messages between a worker and its guard, as plain JSON values. The frames are in `runners/frames.py`.

| from the worker | | from the guard | |
|---|---|---|---|
| `start`, `program` | start this program, with this number | `ready` | it listens |
| `stop` | end that program, with its grace | `began`, `pid` | that program runs |
| `renew` | the lease is alive until then | `renewed` | it knows |
| | | `said`, `text`, `parts` | some output; the time, stream and length of each part |
| | | `ended`, `end` | the program has ended, and its whole tree |
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from datetime import timedelta
from typing import Any

from onthedot.clock import Micros
from onthedot.model.task import Bounds
from onthedot.output.line_marks import Stream
from onthedot.runners.frames import BadFrame, Message
from onthedot.runners.program.protocol import Program, ProgramEnd

MOST_TO_GUARD = 4 << 20
"""Most bytes of one frame: a program with its standard input."""
MOST_FROM_GUARD = 1 << 20

_MICROSECOND = timedelta(microseconds=1)


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
    """The parts of some output that a guard has sent.

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
    """The end of a program that a guard has sent.

    >>> end_from_json(["exited", 0, None, "", 10, 20, 0]).in_words()
    'exit code 0'
    """
    match data:
        case [str(), int() | None, int() | None, str(), int(), int(), int()]:
            return ProgramEnd(*data)
    raise BadFrame(f"expected an end, got {str(data)[:100]!r}")

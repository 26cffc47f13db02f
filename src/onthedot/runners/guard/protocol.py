"""The interface between a worker and its guard: programs, how they end, and the messages about them.

The guard (`main.py`) is a process of its own that starts every program, limits it, records its output, and ends its
whole process tree: when the worker asks for it, when the program's time-out is over, or when the worker no longer
renews its lease.

The messages are plain JSON values, in the frames of `runners/frames.py`:

| from the worker | | from the guard | |
|---|---|---|---|
| `start`, `program` | start this program, with this number | `ready` | the guard listens |
| `stop` | end that program, with its grace | `began`, `pid` | that program runs |
| `renew` | the lease is alive until then | `renewed` | the guard has the new time |
| | | `said`, `text`, `parts` | some output; the time, stream and length of each part |
| | | `ended`, `end` | the program has ended, and its whole tree |
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.model.task import Bounds, Level
from onthedot.output.records import Stream
from onthedot.runners.frames import BadFrame, Message

OnOutput = Callable[[Micros, Stream, str], None]
Kind = Literal["exited", "signalled", "timed_out", "out_of_memory", "stopped", "refused", "no_room"]


class Program(NamedTuple):
    """A program to start, with everything that it needs. Nothing is inherited or filled in later."""

    argv: tuple[str, ...]
    env: Mapping[str, str]  # its whole environment
    directory: str  # an existing absolute path
    workspace: str  # the folder to which a sandbox lets it write; an existing absolute path
    log: str  # the file for the record of its output (`output/records.py`); appended to
    label: str = ""  # the step, for the record
    stdin: bytes = b""
    level: Level = "none"
    network: bool = False  # whether a sandbox shares the machine's network; other levels always do
    bounds: Bounds = Bounds()
    timeout: Micros = 0  # 0: none
    grace: Micros = 5_000_000  # from SIGTERM to SIGKILL
    secrets: tuple[str, ...] = ()  # values that never reach the record, in any of their forms


class ProgramEnd(NamedTuple):
    """How a program ended. Its whole process tree is gone when this is reported."""

    kind: Kind
    code: int | None = None  # for `exited`
    signal: int | None = None  # for `signalled`
    error: str = ""  # for `refused` and `no_room`: why it could not be started (now), and what to do
    cpu: Micros = 0
    memory: int = 0  # the most memory that it used, in bytes
    stragglers: int = 0  # how many of its processes had to be killed after its main process had ended

    def in_words(self) -> str:
        """Return the end as text for people.

        >>> ProgramEnd("exited", code=3).in_words(), ProgramEnd("signalled", signal=9).in_words()
        ('exit code 3', 'killed by SIGKILL')
        """
        match self.kind:
            case "exited":
                return f"exit code {self.code}"
            case "signalled":
                return f"killed by {_signal_name(self.signal or 0)}"
            case "out_of_memory":
                return "killed: it took more memory than its bounds allow"
            case "timed_out":
                return "took longer than its time-out"
            case "stopped":
                return "stopped"
            case "refused" | "no_room":
                return self.error


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Guard(Protocol):
    """A worker's guard. Used on the engine's loop."""

    levels: frozenset[Level]
    """The levels that this machine offers, probed when the guard starts."""

    async def run(self, program: Program, said: OnOutput | None = None) -> ProgramEnd:
        """Start a program, and wait until its process tree is gone. For live logs, `said` gets parts of its redacted
        output while it runs: the time, the stream, the text. If this call is cancelled, it stops the tree with its
        grace, and waits until the tree is gone."""
        ...

    def renew(self, until: Micros) -> None:
        """Set the end of the worker's lease, by the steady clock (CLOCK_BOOTTIME, as `clock.steady`). Programs that
        still run then are killed."""
        ...

    async def close(self) -> None:
        """Kill all programs, and end the guard."""
        ...


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


MOST_TO_GUARD = 4 << 20
"""The most bytes of one frame: a program with its standard input."""
MOST_FROM_GUARD = 1 << 20

_MICROSECOND = timedelta(microseconds=1)


def program_to_json(program: Program) -> Message:
    """Return a program as plain values."""
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
    """Return the program that `program_to_json` wrote."""
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
    """Return the parts of some output that a guard has sent.

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
    """Return the end of a program, as a guard has sent it.

    >>> end_from_json(["exited", 0, None, "", 10, 20, 0]).in_words()
    'exit code 0'
    """
    match data:
        case [str(), int() | None, int() | None, str(), int(), int(), int()]:
            return ProgramEnd(*data)
    raise BadFrame(f"expected an end, got {str(data)[:100]!r}")

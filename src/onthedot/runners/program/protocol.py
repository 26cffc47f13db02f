"""The interface between a worker and its guard: a program, its end, and the guard as a worker sees it.

The guard (`runners/guard/`) is a process of its own that starts every program, bounds it, records its output, and ends
its whole tree: when it is told to, when its time is over, or when the worker stops saying that its lease is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.model.task import Bounds, Level
from onthedot.output.line_marks import Stream

OnOutput = Callable[[Micros, Stream, str], None]
Kind = Literal["exited", "signalled", "timed_out", "out_of_memory", "stopped", "refused", "no_room"]


class Program(NamedTuple):
    """A program to start, complete: nothing is looked up, filled in or inherited later."""

    argv: tuple[str, ...]
    env: Mapping[str, str]  # all of it
    directory: str  # an absolute path, which exists
    workspace: str  # what a sandbox lets it write to; an absolute path, which exists
    log: str  # the file that its output is recorded to, as `output/records.py` says; added to if it is there
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
    code: int | None = None  # of `exited`
    signal: int | None = None  # of `signalled`
    error: str = ""  # of `refused` and `no_room`: why it could not be started (now), and what to do
    cpu: Micros = 0
    memory: int = 0  # the most it had, in bytes
    stragglers: int = 0  # processes of its tree that had to be killed when its main process had ended

    def in_words(self) -> str:
        """The end as text for people.

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
        """Start a program, and wait until its process tree is gone. `said` gets pieces of its redacted output while it
        runs, for people who follow it: the time, the stream, the text. If this is cancelled, the tree is stopped with
        its grace, and this waits for that."""
        ...

    def renew(self, until: Micros) -> None:
        """Set the end of the worker's lease, by the steady clock (CLOCK_BOOTTIME, as `clock.steady`). Programs that
        still run then are killed."""
        ...

    async def close(self) -> None:
        """Kill all programs, and end the guard."""
        ...

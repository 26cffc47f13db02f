"""Turns the end of a program into the failure or the outcome of its attempt. Pure."""

from __future__ import annotations

import signal

from onthedot.model.task import Level
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.rules.steps import Failed
from onthedot.runners.program.protocol import ProgramEnd

_OFFERED: tuple[Level, ...] = ("none", "user", "sandbox")  # from little to much


def failure_of(end: ProgramEnd, *, step: int, name: str) -> Failed | None:
    """The failure of a step whose program ended like this; None if it succeeded.

    The types are what `retry.on` can name, the exact one first.

    >>> failed = failure_of(ProgramEnd("exited", code=3), step=1, name="test")
    >>> failed.error, failed.types
    ("step 'test': exit code 3", ('onthedot.ExitCode.3', 'onthedot.ExitCode'))
    """
    if end.kind == "exited" and end.code == 0:
        return None
    where = f"step {name!r}: " if name else ""
    return Failed(step, where + end.in_words(), _types(end))


def _types(end: ProgramEnd) -> tuple[str, ...]:
    match end.kind:
        case "exited":
            return f"onthedot.ExitCode.{end.code}", "onthedot.ExitCode"
        case "signalled":
            return f"onthedot.Signal.{_name(end.signal or 0)}", "onthedot.Signal"
        case "timed_out":
            return "onthedot.StepTimedOut", "builtins.TimeoutError"
        case "out_of_memory":
            return "onthedot.OutOfMemory", "builtins.MemoryError"
        case "refused" | "no_room":
            return ("onthedot.Refused",)
        case "stopped":
            return ("onthedot.Stopped",)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def stopped_of(end: ProgramEnd) -> Outcome:
    """The outcome of an attempt whose program was stopped without its runner's request."""
    return Outcome(OutcomeKind.LOST, f"its program was stopped: {end.error or 'its guard has ended'}")


def abilities(levels: frozenset[Level], least: Level) -> frozenset[str]:
    """The abilities of a worker, in the words of `job.ability_of`: its guard offers these levels, and its operator
    demands at least this one.

    >>> sorted(abilities(frozenset({"none", "user"}), "user"))
    ['command@user', 'steps@user']
    """
    enough = [level for level in _OFFERED[_OFFERED.index(least) :] if level in levels]
    return frozenset(
        kind if level == "none" else f"{kind}@{level}" for kind in ("command", "steps") for level in enough
    )

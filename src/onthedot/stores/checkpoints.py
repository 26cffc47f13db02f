"""The part of the store protocol about what a running attempt leaves with its run: checkpoints, progress, its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.run import Checkpoint, Lease, Progress


class Note(NamedTuple):
    """What an attempt tells while it runs. `log` is all that it has logged so far, bounded by who sends it.

    `number` grows with each note of the attempt, so that one which was late on its way replaces nothing newer.
    """

    lease: Lease
    number: int
    progress: Progress | None = None
    log: str | None = None


class LogRecord(NamedTuple):
    """What one attempt of a run has logged."""

    attempt: int
    text: str


class CheckpointsSlice(Protocol):
    """What attempts leave with their runs. It goes when the run is forgotten."""

    async def checkpoint(self, saves: Sequence[tuple[Lease, Checkpoint]], *, now: Micros | None = None) -> list[bool]:
        """Record how far runs have come, row by row; True: accepted.

        Accepted if the run is running under this lease, whatever became of its job's definition. Of several the one
        with the highest revision stays: the same again, or an older one that was late on its way, is accepted and
        writes nothing. Otherwise False: the lease is lost, and nothing is written.

        The newest one is given out with every later lease of the run, and stays when the run has ended.
        """
        ...

    async def get_checkpoint(self, run_id: int) -> Checkpoint | None:
        """The newest checkpoint of a run, live or finished."""
        ...

    async def note(self, notes: Sequence[Note], *, now: Micros | None = None) -> list[bool]:
        """Record what attempts tell, row by row; True: accepted.

        Accepted if the run is running under this lease; of several notes of an attempt the one with the highest number
        stays. `None` leaves what is there. Otherwise False, and nothing is written.
        """
        ...

    async def list_logs(self, run_id: int) -> list[LogRecord]:
        """What the attempts of a run have logged, in order; those that logged nothing are left out."""
        ...

"""What a handler is told about the attempt it runs in."""

from __future__ import annotations

from datetime import datetime

from onthedot.clock import to_datetime
from onthedot.run import Lease


class Context:
    """The attempt, as its handler sees it.

    `run_id` is the same for every attempt of a run: an idempotency key. `fence` grows with every attempt: hand it
    to whatever you write to, and let that refuse a smaller one than it has seen.
    """

    __slots__ = ("_lease",)

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    @property
    def run_id(self) -> int:
        """The run's id, stable over attempts."""
        return self._lease.run_id

    @property
    def job(self) -> str:
        """The job's name."""
        return self._lease.record.job.name

    @property
    def scheduled_at(self) -> datetime:
        """The instant for which the run was asked, in UTC; the same for every attempt."""
        return to_datetime(self._lease.slot_at)

    @property
    def attempt(self) -> int:
        """1 for the first try."""
        return self._lease.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every attempt in this store."""
        return self._lease.fence

    def __repr__(self) -> str:
        return f"Context(job={self.job!r}, run_id={self.run_id}, attempt={self.attempt})"

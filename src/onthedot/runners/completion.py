"""What has become of an attempt's own transaction: written where it is ended, read where the attempt is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onthedot.clock import Micros
from onthedot.model.errors import StateError
from onthedot.model.run import Lease
from onthedot.model.verdict import Finish

State = Literal["none", "open", "unknown", "committed"]
"""none: not begun, or rolled back. unknown: the commit is under way, or has no answer."""


@dataclass(slots=True)
class Completion:
    """Of one attempt under exactly_once: one transaction is open at a time, and after a commit there is none."""

    lease: Lease
    started_at: Micros = 0
    result: str | None = None  # JSON: what the commit records
    state: State = "none"
    finish: Finish | None = None  # as it was committed

    def begin(self) -> None:
        """A transaction is wanted; `StateError` if there is or was one."""
        if self.state == "committed":
            raise StateError(f"run {self.lease.run_id} has succeeded with its transaction; there is no second one")
        if self.state != "none":
            raise StateError(f"run {self.lease.run_id}: expected one transaction at a time; leave the first one before")
        self.state = "open"

    def commits(self, finish: Finish) -> None:
        """The commit is on its way."""
        self.finish = finish
        self.state = "unknown"

    def rolled_back(self) -> None:
        """Nothing is left of it."""
        self.finish = None
        self.state = "none"

"""The part of the store protocol about dead letters: dead runs about which nobody has done anything yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onthedot.clock import Micros
from onthedot.retention import Mark
from onthedot.run import RunRecord

LAST = Mark(2**53, 0)
"""Behind every run that has ended: stores that count in doubles are exact up to here."""


class LettersSlice(Protocol):
    """The box of dead letters. A run is in it from the write that makes it dead until it is settled or forgotten."""

    async def list_dead(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros = 0,
        before: Mark = LAST,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Dead runs that are not settled, newest end first: those that ended at `since` or later, and come before this
        mark. The mark of the last one that was answered reads on. Only the box is read, however long history is."""
        ...

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        """Take runs out of the box, row by row, each with a word on what was done about it; True: settled by this call.

        Only a dead run can be settled, and only once: False, and nothing is written, for what is alive, has ended in
        another way, is not there, or was settled before. The run stays dead, as it is, in history; `RunRecord.settled`
        has the word.
        """
        ...

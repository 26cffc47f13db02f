"""Dead letters, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from onthedot.clock import Micros
from onthedot.retention import Mark
from onthedot.run import RunRecord, RunState
from onthedot.stores.values import LAST_MARK
from tests.review.dictionaries.history import History


class Letters(History):
    """See `Store`."""

    async def list_dead(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros = 0,
        before: Mark = LAST_MARK,
        limit: int | None = None,
    ) -> list[RunRecord]:
        box = [run for run in self.finished.values() if _is_in_box(run) and since <= _mark(run).ended_at]
        found = (
            run
            for run in sorted(box, key=_mark, reverse=True)
            if _mark(run) < before and run.namespace == namespace and job in (None, run.job)
        )
        return [self.shown_ended(run) for run in islice(found, limit)]

    async def settle_dead(self, settled: Sequence[tuple[int, str]]) -> list[bool]:
        return [self._settle(run_id, word) for run_id, word in settled]

    def _settle(self, run_id: int, word: str) -> bool:
        run = self.finished.get(run_id)
        if run is None or not _is_in_box(run):
            return False
        self.finished[run_id] = replace(run, settled=word)
        return True


def _is_in_box(run: RunRecord) -> bool:
    return run.state is RunState.DEAD and not run.settled


def _mark(run: RunRecord) -> Mark:
    return Mark(run.ended_at or 0, run.id)

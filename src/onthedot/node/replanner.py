"""The replanner: after an update of the zone data it computes the next slots anew that hang on it.

A term knows which version its shard's next slots were computed with. If that is not its own, all of them are looked at
before anything is planned, a batch at a time: a zone that has moved its clocks may have moved a slot to before the
instant at which the planner would look. What is planned already stays, since people have seen it.
"""

from __future__ import annotations

from onthedot.model.window import ScheduleState
from onthedot.rules.windows import find_schedule
from onthedot.schedules import next_after
from onthedot.settings import Settings
from onthedot.stores.protocol import Store
from onthedot.stores.values import Replanned, Term


class Replanner:
    """Goes through the schedules of shards whose zone data is another than ours."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._passed: dict[tuple[int, int], tuple[int, str]] = {}  # by shard and term: where the next batch begins
        self._done: dict[int, int] = {}  # shard → the term that has nothing left to do

    async def step(self, term: Term) -> bool:
        """One batch of a shard; whether none is left. `TermLost` as in `plan`."""
        if term.zones == term.tzdata or self._done.get(term.shard) == term.number:
            return True
        here, most = (term.shard, term.number), self._settings.batch
        seen = await self._store.queries.zoned_schedules(term, after=self._passed.get(here, (0, "")), limit=most)
        rows = [row for state in seen if (row := _anew(state)) is not None]
        done = len(seen) < most
        await self._store.replan(term, rows, done=done)
        if done:
            self._passed.pop(here, None)
            self._done[term.shard] = term.number
        else:
            self._passed[here] = (seen[-1].record.id, seen[-1].schedule_id)
        return done


def _anew(state: ScheduleState) -> Replanned | None:
    """The next slot by our zone data, if it is another one."""
    schedule = find_schedule(state.record.job, state.schedule_id)
    if schedule is None:
        return None
    next_at = next_after(schedule, state.watermark, origin=state.origin)
    if next_at is None or next_at == state.next_at:
        return None
    return Replanned(state.record.id, state.schedule_id, state.record.revision, state.watermark, next_at)

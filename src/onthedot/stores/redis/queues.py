"""Queues and placement, in Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.run import RunState
from onthedot.stores.redis.rows import term_asked
from onthedot.stores.redis.sweeps import Sweeps
from onthedot.stores.values import Held, Placement, Queue, Term, Unplaced


class Seen(NamedTuple):
    """A live run, as much as is counted of it. `holder` is who has it, or whom the leader chose."""

    run_id: int
    queue: str
    state: str
    due_at: Micros
    holder: str | None
    is_held: int


class Queues(Sweeps):
    """See `Store`."""

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        return await self._decide("pause_queue", now, name=name, reason=reason)

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        return await self._decide("resume_queue", now, name=name)

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        asked = None if weights is None else dict(weights)
        return await self._decide("share_queue", now, name=name, weights=asked)

    async def _decide(self, script: str, now: Micros | None, /, **fields: Any) -> Queue:
        row, left = await self.decide(script, now=now, **fields)
        if left is not None:
            await self.sweep(left, now)
        return _read(row)

    async def list_queues(self, *, now: Micros | None = None) -> list[Queue]:
        read_at, rows = await self.look_at("list_queues", now=now)
        changed = {queue.name: queue for queue in map(_read, rows)}
        runs = await self.live()
        names = sorted({*changed, *(run.queue for run in runs)})
        return [_counted(changed.get(name, Queue(name)), runs, read_at) for name in names]

    async def live(self) -> list[Seen]:
        """Every live run, read page by page: each as it was at some moment of the reading."""
        found: dict[int, Seen] = {}
        cursor = "0"
        while True:
            cursor, rows = await self.look("scan_runs", cursor=cursor)
            found.update((row[0], Seen(*row)) for row in rows)
            if cursor == "0":
                return list(found.values())

    # ── placement ────────────────────────────────────────────────────────────────────────────────────────────

    async def unplaced(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[Unplaced]:
        rows = await self.look("unplaced", now=now, until_=until, limit=limit)
        records = await self.records(row[1] for row in rows)
        return [
            Unplaced(run_id, record, due_at, place)
            for (run_id, _, due_at, place), record in zip(rows, records, strict=True)
        ]

    async def loads(self) -> dict[str, int]:
        return dict(Counter(run.holder for run in await self.live() if run.holder))

    async def place(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        asked = [placement._asdict() for placement in placements]
        said = await self.ask("place", now=now, term=term_asked(term), placements=asked)
        return [bool(placed) for placed in said]

    async def count_held(self) -> dict[str, Held]:
        counts = Counter((run.holder, run.state) for run in await self.live() if run.is_held and run.holder)
        return {
            holder: Held(counts[holder, RunState.RESERVED], counts[holder, RunState.RUNNING])
            for holder, _ in counts
            if holder
        }


def _read(row: list[Any]) -> Queue:
    name, paused_at, reason, weights = row
    shares = None if weights is None else dict(zip(weights[::2], weights[1::2], strict=True))
    return Queue(name, paused_at, reason, shares)


def _counted(queue: Queue, runs: Sequence[Seen], now: Micros) -> Queue:
    mine = [run for run in runs if run.queue == queue.name]
    waiting = [run for run in mine if run.state != RunState.RUNNING]
    due = [run.due_at for run in waiting if run.due_at <= now]
    return replace(
        queue,
        waiting=len(waiting), due=len(due), running=len(mine) - len(waiting), oldest_due=min(due, default=None),
    )  # fmt: skip

"""The way of a run, in Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onthedot.clock import Micros
from onthedot.errors import KeyConflict, UnknownJob
from onthedot.job import JobRecord
from onthedot.route import RANK_AT_ONCE
from onthedot.run import ArmAnswer, Armed, Blocked, Busy, Delayed, GateAsk, Gone, Lease, NewRun, Skipped
from onthedot.stores.documents import Noting, check_noting
from onthedot.stores.redis.capping import MOST_FINISHED
from onthedot.stores.redis.failures import Refusal
from onthedot.stores.redis.rows import (
    check_move,
    entries_asked,
    gates_asked,
    lease_asked,
    read_lease,
    run_asked,
    verdict_asked,
)
from onthedot.stores.redis.sweeps import Sweeps
from onthedot.stores.redis.tables import told
from onthedot.stores.values import Ask, Reserved
from onthedot.verdict import Finish

TOGETHER = 200
"""How many verdicts one script takes at the most, up to how many runs beyond a worker's seats it gives out, and how
many it looks at that a worker cannot take: some milliseconds of everybody's time."""

AT_ONCE = 100
"""How many runs one script inserts at the most: with a key each, it takes twice as long as for a verdict."""

MOST_LOOKED_AT = 5_000
"""Of what a worker cannot take, by one reserve: in so many scripts as that takes."""

_ANSWERS: dict[str, Callable[..., ArmAnswer]] = {
    "armed": Armed,
    "gone": Gone,
    "busy": Busy,
    "blocked": Blocked,
    "delayed": Delayed,
    "skipped": Skipped,
}


class Runs(Sweeps):
    """See `Store`."""

    most_finished = MOST_FINISHED
    _shares: dict[int, str] | None = None

    def share_by(self, job_id: int) -> str:
        """The argument that a job's runs are shared by, as far as we know."""
        return (self._shares or {}).get(job_id, "")

    async def sharing(self, name: str, /, *, now: Micros | None, **fields: Any) -> Any:
        """Ask with what is known of shares; a script that knows better says so, before it writes. Fields that are
        functions are computed anew."""
        while True:
            asked = {field: value() if callable(value) else value for field, value in fields.items()}
            try:
                return await self.ask(name, now=now, **asked)
            except Refusal as refusal:
                if refusal.kind != "Share":
                    raise
                job_id, by = refusal.said
                self._shares = {**(self._shares or {}), int(str(job_id)): str(by)}

    async def current(self, job_id: int) -> JobRecord:
        """A job by its id, as it is now; `UnknownJob` if there is none."""
        row = await self.look("job_by_id", job_id=job_id)
        if row is None:
            raise UnknownJob(f"job {job_id} does not exist, or not any more")
        return await self.record(row)

    async def submit(
        self, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Micros | None = None
    ) -> list[int]:
        _check_batch(runs)
        check_noting(noting, runs)
        if len(runs) > AT_ONCE:  # taken apart: whatever is to be refused is, before the first are written
            await self._submit(_to_check(runs), None, now, only_check=1)
        return await self._submit(runs, noting, now)

    async def _submit(
        self, runs: Sequence[NewRun], noting: Noting | None, now: Micros | None, **only: int
    ) -> list[int]:
        ids: list[int] = []
        for first in range(0, len(runs), AT_ONCE):
            some = runs[first : first + AT_ONCE]
            noted = None if noting is None else _noted(noting, slice(first, first + AT_ONCE))

            def asked(some: Sequence[NewRun] = some) -> list[dict[str, Any]]:
                return [run_asked(run, self.share_by(run.job_id)) for run in some]

            ids += await self.sharing("submit", now=now, runs=asked, noting=noted, **only) or []
        return ids

    async def reserve(self, ask: Ask, *, now: Micros | None = None) -> Reserved:
        extra = min(ask.extra, max(0, TOGETHER - ask.seats))  # what is left is told: it may ask again at once
        question = told(
            incarnation=ask.incarnation,
            lease_ids=list(ask.lease_ids[: ask.seats + extra + ask.ahead]),
            seats=ask.seats,
            ahead=ask.ahead,
            extra=extra,
            quick=list(ask.quick),
            horizon=ask.horizon,
            lapse=ask.lapse,
            queues=list(ask.queues),
            labels=list(ask.labels),
            tasks=list(ask.tasks),
            number=ask.number,
            turns=TOGETHER,
            looks=TOGETHER,
        )
        steps = RANK_AT_ONCE // TOGETHER
        read_at, said = await self.ask_at("reserve", now=now, turns_first=1, **question)
        while said == "again":  # turns first, a script for so many of them
            steps -= 1
            read_at, said = await self.ask_at("reserve", now=now, turns_first=1 if steps > 1 else None, **question)
        armed, held = await self.leases(said[0]), await self.leases(said[1])
        looks = MOST_LOOKED_AT // TOGETHER
        while (far := said[-1]) and (looks := looks - 1):  # on, past what this worker cannot take
            read_at, said = await self.ask_at("reserve", now=now, go_on=far, **question)
            armed += await self.leases(said[0])
            held += await self.leases(said[1])
        return Reserved(read_at, armed, held, said[2])

    async def leases(self, said: Sequence[Any]) -> list[Lease]:
        """Leases and their jobs, as scripts answer them."""
        rows, jobs = said
        if not rows:
            return []
        records = {(record.id, record.revision): record for record in await self.records(jobs)}
        return [read_lease(row, records) for row in rows]

    async def held(self, incarnation: str, *, void_below: int = 0) -> list[Lease]:
        return await self.leases(await self.ask("held", incarnation=incarnation, void_below=void_below))

    async def arm(
        self, leases: Sequence[Lease], *, gates: Mapping[str, GateAsk] | None = None, now: Micros | None = None
    ) -> list[ArmAnswer]:
        asked_gates = gates or {}
        asked = [
            told(
                run_id=lease.run_id,
                lease=lease.lease_id,
                revision=lease.record.revision,
                gates=gates_asked(asked_gates[lease.lease_id]) if lease.lease_id in asked_gates else None,
            )
            for lease in leases
        ]
        incarnations = sorted({lease.incarnation for lease in leases})
        said = await self.ask("arm", now=now, leases=asked, incarnations=incarnations)
        return [_ANSWERS[kind](*values) for kind, *values in said]

    async def release(self, leases: Sequence[Lease], *, now: Micros | None = None) -> list[bool]:
        return _each(await self.ask("release", now=now, leases=[lease_asked(lease) for lease in leases]))

    async def finish(self, finishes: Sequence[Finish], *, now: Micros | None = None) -> list[bool]:
        for finish in finishes:
            check_move(finish.verdict)
        said: list[bool] = []
        for first in range(0, len(finishes), TOGETHER):  # row by row: a batch may be taken apart
            some = finishes[first : first + TOGETHER]
            said += _each(await self._finish(some, now))
        return said

    async def _finish(self, finishes: Sequence[Finish], now: Micros | None) -> list[int]:
        asked = [verdict_asked(*_parts(finish)) for finish in finishes]
        said: list[int] = await self.ask("finish", now=now, finishes=asked, most=self.most_finished)
        return said


def _parts(finish: Finish) -> tuple[Any, ...]:
    return finish.lease, finish.verdict, finish.started_at, finish.ended_at


def _each(said: Iterable[int]) -> list[bool]:
    return [bool(accepted) for accepted in said]


def _to_check(runs: Sequence[NewRun]) -> list[NewRun]:
    """Of these, those that tell whether any would be refused: one of each job, and all that have a key."""
    first = {run.job_id: run for run in reversed(runs)}
    return [run for run in runs if run.key or first[run.job_id] is run]


def _check_batch(runs: Sequence[NewRun]) -> None:
    """Two runs of one call with the same key must ask for the same thing."""
    seen: dict[tuple[int, str], str | None] = {}
    for run in runs:
        if run.key and seen.setdefault((run.job_id, run.key), run.args) != run.args:
            raise KeyConflict(f"key {run.key!r}: given twice in one call, with different arguments")


def _noted(noting: Noting, part: slice) -> dict[str, Any]:
    """What is said of some of the runs, as a script is asked to append it. What is said of all of them together goes
    with the first: then no run is there without it."""
    if not noting.mark:
        part = slice(None) if part.start == 0 else slice(0, 0)
    told = {"kind": noting.kind, "entries": entries_asked(noting.bodies[part], noting.keys[part])}
    return told | ({"mark": noting.mark} if noting.mark else {})

"""Records in the audit what this process changes in a store that it opened itself: a program, or the command line.

Such a process has no key, so the entry names the operating system's user and the machine. A program may submit a
million runs, so its submits are summed up. The first submit of a job is recorded in the write that stores its run.
Those of the next minute are counted, and the count is one more entry.

    submit  submit  submit …  │ a minute later, or when the node stops
    entry      └── counted ──▶ entry: {"runs": 41000}
"""

from __future__ import annotations

import os
import pwd
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from onthedot.access.audit import Entry, noting, noting_together, object_of, record_all
from onthedot.access.permissions import LOCAL, Principal
from onthedot.clock import SECOND, Clock, Micros
from onthedot.ids import RandomIds
from onthedot.loop import Service
from onthedot.model.job import Job
from onthedot.model.run import RunRecord
from onthedot.stores.documents import Noting
from onthedot.stores.protocol import Store
from onthedot.stores.values import PutJob

SUM_UP_EVERY: Micros = 60 * SECOND
"""How long submits of one job are counted before the count is recorded."""

RUN = RandomIds().token()
"""A placeholder for the id of a run that is not stored yet."""


def local_user() -> Principal:
    """The user that this process runs as: `LOCAL`, with the user's name in the operating system."""
    return _user(os.getuid())


@cache  # the machine may ask a directory server for the name
def _user(uid: int) -> Principal:
    try:
        return replace(LOCAL, name=pwd.getpwuid(uid).pw_name)
    except KeyError:  # a user without a name, as in many containers
        return replace(LOCAL, name=f"uid {uid}")


def source_of(door: str) -> str:
    """The source of a change, for the audit: `program on web-1, uid 1000`."""
    return f"{door} on {socket.gethostname()}, uid {os.getuid()}"


def entry_of(
    door: str,
    verb: str,
    what: Job | RunRecord | str,
    *,
    before: Any = None,
    after: Any = None,
    namespace: str = "",
) -> Entry:
    """An entry about a change that this process makes. `door` is "program" or "command line"."""
    name, place, owner = object_of(what)
    return Entry(
        who=local_user(),
        verb=verb,
        object=name,
        before=before,
        after=after,
        namespace=place or namespace,
        owner=owner,
        source=source_of(door),
    )


Counted = Mapping[int, tuple[Job, int]]
"""The number of runs per job, by job id."""


@dataclass(slots=True)
class _Tally:
    """The submits of one job since its last entry."""

    job: Job
    runs: int
    recorded_at: Micros | None  # on the steady clock


class Recorder(Service):
    """Records the changes that this process makes. `door` is "program" or "command line". Any thread may submit;
    everything else runs on one event loop."""

    name = "audit recorder"

    def __init__(self, store: Store, clock: Clock, door: str, definition: Callable[[Job], Any]) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._door = door
        self._definition = definition  # a job as plain data
        self._tallies: dict[int, _Tally] = {}
        self._lock = threading.Lock()  # submits may be counted on any thread

    async def changed(
        self, verb: str, what: Job | RunRecord | str, *, before: Any = None, after: Any = None, namespace: str = ""
    ) -> None:
        """Record one change. It is stored when this returns."""
        await self.all_changed(verb, [what], before=before, after=after, namespace=namespace)

    async def put(self, put: PutJob) -> None:
        """Record a stored definition if it is new or changed, and the pause or resume that came with it."""
        if put.change != "unchanged":
            before = None
            if put.change == "changed":
                older = await self._store.queries.list_revisions(put.record.id, before=put.record.revision, limit=1)
                before = older[0].job if older else None
            await self._defined("jobs.create" if put.change == "created" else "jobs.edit", before, put.record.job)
        if put.pause:
            await self.changed(f"jobs.{put.pause}", put.record.job)

    async def replaced(self, before: Job | None, after: Job | None) -> None:
        """Record that a definition was created (`before` None), deleted (`after` None) or replaced."""
        verb = "jobs.create" if before is None else "jobs.delete" if after is None else "jobs.edit"
        await self._defined(verb, before, after)

    async def _defined(self, verb: str, before: Job | None, after: Job | None) -> None:
        was, is_ = (None if job is None else self._definition(job) for job in (before, after))
        about = after or before
        if about is not None:
            await self.changed(verb, about, before=was, after=is_)

    async def all_changed(
        self,
        verb: str,
        what: Sequence[Job | RunRecord | str],
        *,
        before: Any = None,
        after: Any = None,
        namespace: str = "",
    ) -> None:
        """Record the same change of several objects, in one write."""
        entries = [entry_of(self._door, verb, one, before=before, after=after, namespace=namespace) for one in what]
        if entries:
            await record_all(self._store, entries)

    def noting_run(self, verb: str, job: Job) -> Noting:
        """An entry about one run, for the write that stores the run."""
        return noting([entry_of(self._door, verb, job, after={"run_id": RUN})], RUN)

    # ── submits, summed up ───────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def submitting(self, runs: Counted) -> Iterator[Noting | None]:
        """A context for the write that stores these runs. Its value is the entries to store with the runs; None if the
        runs are only counted. If the write fails, nothing is counted."""
        with self._lock:
            due = [(job_id, self._take(job_id, job)) for job_id, (job, _) in runs.items() if self._is_due(job_id)]
        try:
            yield self._noting(runs, due) if due else None
        except BaseException:  # also when cancelled: the write may have failed; keep the counts, and raise again
            with self._lock:
                for job_id, tally in due:
                    self._give_back(job_id, tally)
            raise
        noted = [job_id for job_id, _ in due]
        with self._lock:
            for job_id, (job, count) in runs.items():
                if job_id not in noted:
                    self._count(job_id, job, count)

    async def submit_elsewhere(self, runs: Counted) -> None:
        """Record or count runs before the caller stores them in its own transaction."""
        with self._lock:
            for job_id, (job, count) in runs.items():
                self._count(job_id, job, count)
        await self._sum_up([job_id for job_id in runs if self._is_due(job_id)])

    async def tick(self, now: Micros) -> Micros:
        """Record the counts that are a minute old."""
        del now
        await self._sum_up([job_id for job_id in list(self._tallies) if self._is_due(job_id)])
        return SUM_UP_EVERY // 4

    async def close(self) -> None:
        """Record all counts."""
        await self._sum_up(list(self._tallies))

    def _is_due(self, job_id: int) -> bool:
        tally = self._tallies.get(job_id)
        if tally is None or tally.recorded_at is None:
            return True
        return self._clock.steady() - tally.recorded_at >= SUM_UP_EVERY

    def _take(self, job_id: int, job: Job) -> _Tally:
        """Take a job's count, and begin a new one."""
        found = self._tallies.get(job_id)
        self._tallies[job_id] = _Tally(job, 0, self._clock.steady())
        return found or _Tally(job, 0, None)

    def _give_back(self, job_id: int, taken: _Tally) -> None:
        current = self._tallies.get(job_id)
        self._tallies[job_id] = replace(taken, runs=taken.runs + (0 if current is None else current.runs))

    def _count(self, job_id: int, job: Job, count: int) -> None:
        tally = self._tallies.get(job_id)
        if tally is None:
            tally = self._tallies[job_id] = _Tally(job, 0, None)
        tally.runs += count

    def _noting(self, runs: Counted, due: Sequence[tuple[int, _Tally]]) -> Noting:
        if sum(count for _, count in runs.values()) == 1:
            [(_, tally)] = due
            told = {"run_id": RUN} | ({"runs": tally.runs + 1} if tally.runs else {})
            return noting([entry_of(self._door, "runs.submit", tally.job, after=told)], RUN)
        return noting_together([self._summed(tally, tally.runs + runs[job_id][1]) for job_id, tally in due])

    def _summed(self, tally: _Tally, runs: int) -> Entry:
        return entry_of(self._door, "runs.submit", tally.job, after={"runs": runs})

    async def _sum_up(self, job_ids: Sequence[int]) -> None:
        with self._lock:
            taken = [(job_id, self._tallies.pop(job_id)) for job_id in job_ids]
            some = [(job_id, tally) for job_id, tally in taken if tally.runs]
            for job_id, tally in some:
                self._take(job_id, tally.job)
        if not some:
            return
        try:
            await record_all(self._store, [self._summed(tally, tally.runs) for _, tally in some])
        except BaseException:  # also when cancelled: keep the counts, and raise again
            with self._lock:
                for job_id, tally in some:
                    self._give_back(job_id, tally)
            raise

"""Enforces quotas of owners: jobs, unfinished runs, and runs per minute.

The store has the true counts, but counting is slow. Between two counts, this server adds what it stores itself:

    book ──▶ counted + booked since  ──▶ within the quota: accept
                                     └─▶ over it: count again, then refuse with 429 if still over

Nothing is awaited between the last check of a count and the booking, so a burst of requests on one server cannot exceed
a quota. Servers do not talk to each other: each sees what the others stored when it counts again.

If the caller is limited to namespaces, an owner's jobs and runs count in each namespace separately. For any other
caller they count in all namespaces together. So runs in other namespaces do not use up the quota of a limited caller,
and an unlimited caller gains nothing by using many namespaces.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from fastapi import Request

from onthedot.access.permissions import Principal, Role
from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import RunRecord
from onthedot.server.problems import FieldProblem, Problem
from onthedot.settings import Settings
from onthedot.stores.protocol import Store

KEPT = 5 * SECOND
"""Age after which the runs of an owner are counted again, because other servers and schedules add runs."""
_PACE = 20
"""Counting takes at most 1/20 of the time, even if an owner sends many requests."""
_MINUTE = 61  # seconds: bookings are stored by whole second, so one may be up to a second younger
_RUNS_AGAIN, _JOBS_AGAIN = 5, 60  # Retry-After in seconds; we cannot know when there will be room
_MOST_KEPT = 10_000  # owners and callers in memory


class Owner(NamedTuple):
    """An owner of jobs in a namespace (None: in all of them)."""

    namespace: str | None
    owner: str

    def __str__(self) -> str:
        """The owner as messages name it.

        >>> str(Owner("shop", "ann")), str(Owner(None, ""))
        ("owner 'ann' in namespace 'shop'", "owner ''")
        """
        return f"owner {self.owner!r}" + ("" if self.namespace is None else f" in namespace {self.namespace!r}")

    def bound(self, who: Principal) -> Owner:
        """The owner whose jobs and runs count for this caller."""
        return self if who.namespaces else self.everywhere

    @property
    def everywhere(self) -> Owner:
        """The same owner in all namespaces."""
        return Owner(None, self.owner)


def owner_of(one: Job | RunRecord) -> Owner:
    """The owner of a job or run."""
    return Owner(one.namespace, one.owner)


class _Runs:
    """The unfinished runs of an owner, as far as this server knows."""

    def __init__(self) -> None:
        self.total = 0  # counted, plus booked since
        self.booked = 0  # all bookings since the start
        self.flying = 0  # booked, and not stored yet
        self.counted_at: Micros | None = None
        self.took: Micros = 0
        self.lock = asyncio.Lock()


class _Minute:
    """The runs that a caller has submitted in the last minute, by second."""

    def __init__(self) -> None:
        self.total = 0
        self._seconds: deque[list[int]] = deque()  # second, count

    def forget(self, now: Micros) -> None:
        """Remove submits that are older than a minute."""
        while self._seconds and self._seconds[0][0] <= now // SECOND - _MINUTE:
            self.total -= self._seconds.popleft()[1]

    def add(self, count: int, now: Micros) -> None:
        if not self._seconds or self._seconds[-1][0] != now // SECOND:
            self._seconds.append([now // SECOND, 0])
        self._seconds[-1][1] += count
        self.total += count

    def take_back(self, count: int) -> None:
        """Remove this many submits, the newest first."""
        for second in reversed(self._seconds):
            some = min(count, second[1])
            second[1] -= some
            self.total -= some
            count -= some

    def again_at(self, beyond: int) -> Micros:
        """When this many submits will be older than a minute."""
        for second, count in self._seconds:
            beyond -= count
            if beyond <= 0:
                return (second + _MINUTE) * SECOND
        return (self._seconds[-1][0] + _MINUTE) * SECOND if self._seconds else 0


class Quotas:
    """The quotas of one server."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._jobs = settings.quota_jobs
        self._most_runs = settings.quota_runs
        self._submits = settings.quota_submits
        self._runs: dict[Owner, _Runs] = {}
        self._minutes: dict[Hashable, _Minute] = {}
        self._creating: dict[str, asyncio.Lock] = {}

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def book(self, who: Principal, owner: Owner, count: int = 1) -> None:
        """Reserve room for runs before they are stored. Raises 429 if there is none. Call `land` afterwards."""
        if self._most_runs is not None:
            await self._check_runs(self._most_runs, owner.bound(who), count)
            for runs in self._both(owner):
                runs.total += count
                runs.booked += count
                runs.flying += count
        if self._submits is not None:
            try:
                self._book_submits(self._submits, who, count)
            except Problem:
                self._land_runs(owner, count, 0)
                raise

    def land(self, who: Principal, owner: Owner, count: int, *, made: int) -> None:
        """End a booking: `made` of the runs are stored and new. The room of the others is free again."""
        self._land_runs(owner, count, made)
        minute = self._minutes.get(_caller(who))
        if minute is not None:
            minute.take_back(count - made)

    def _both(self, owner: Owner) -> list[_Runs]:
        """Return the counts of an owner in the namespace and in all namespaces."""
        return [self._runs.setdefault(one, _Runs()) for one in {owner, owner.everywhere}]

    async def _check_runs(self, most: int, owner: Owner, count: int) -> None:
        if len(self._runs) >= _MOST_KEPT:
            self._runs = {name: runs for name, runs in self._runs.items() if runs.flying or runs.lock.locked()}
        runs = self._runs.setdefault(owner, _Runs())
        is_old = runs.counted_at is None or self._clock.steady() - runs.counted_at > KEPT
        if is_old or runs.total + count > most:
            await self._count(runs, most, owner, count)
        if runs.total + count > most:
            raise _refusal(
                "quota_runs",
                f"expected at most {most} runs of {owner} that have not ended, "
                f"got {runs.total} and {count} more; ask again in {_RUNS_AGAIN} s, when some have ended",
                _RUNS_AGAIN,
            )

    def _land_runs(self, owner: Owner, count: int, made: int) -> None:
        if self._most_runs is None:
            return
        for runs in self._both(owner):
            runs.flying -= count
            runs.total -= count - made

    async def _count(self, runs: _Runs, most: int, owner: Owner, count: int) -> None:
        """Count the runs in the store, unless another request has just counted them."""
        async with runs.lock:
            began = self._clock.steady()
            if runs.counted_at is not None:
                age = began - runs.counted_at
                if age <= _PACE * runs.took or (age <= KEPT and runs.total + count <= most):
                    return
            flying, booked = runs.flying, runs.booked
            owned = await self._store.queries.count_owned(owner.owner, namespace=owner.namespace)
            runs.counted_at = self._clock.steady()
            runs.took = runs.counted_at - began
            # Runs that are just being stored may be counted twice until the next count. They are never missed.
            runs.total = owned.runs + flying + runs.booked - booked

    def _book_submits(self, most: int, who: Principal, count: int) -> None:
        now, caller = self._clock.steady(), _caller(who)
        if len(self._minutes) >= _MOST_KEPT:
            for minute in self._minutes.values():
                minute.forget(now)
            self._minutes = {name: minute for name, minute in self._minutes.items() if minute.total}
        minute = self._minutes.setdefault(caller, _Minute())
        minute.forget(now)
        if minute.total + count > most:
            told = f"expected at most {most} runs in a minute, got {minute.total} and {count} more"
            if count > most:
                raise _refusal("quota_submits", f"{told}; ask for fewer at once", 60)
            seconds = max(1, math.ceil((minute.again_at(minute.total + count - most) - now) / SECOND))
            raise _refusal("quota_submits", f"{told}; ask again in {seconds} s", seconds)
        minute.add(count, now)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def creating(self, owner: str) -> AsyncIterator[None]:
        """Return a lock. While it is held, no other request on this server creates jobs of this owner."""
        if len(self._creating) >= _MOST_KEPT:
            self._creating = {name: lock for name, lock in self._creating.items() if lock.locked()}
        async with self._creating.setdefault(owner, asyncio.Lock()):
            yield

    async def check_jobs(self, who: Principal, new: Mapping[Owner, int]) -> None:
        """Raise 429 if an owner has no room for this many more jobs. Call it inside `creating`."""
        wanted: Counter[Owner] = Counter()
        for owner, count in new.items():
            wanted[owner.bound(who)] += count
        for owner, count in wanted.items():
            await self._check_jobs(owner, count)

    async def _check_jobs(self, owner: Owner, count: int) -> None:
        if self._jobs is None or count <= 0:
            return
        has = (await self._store.queries.count_owned(owner.owner, namespace=owner.namespace)).jobs
        if has + count > self._jobs:
            raise _refusal(
                "quota_jobs",
                f"expected at most {self._jobs} jobs of {owner}, got {has} and {count} more; "
                "delete some that are not needed",
                _JOBS_AGAIN,
            )


class Share:
    """The bookings of one request for runs."""

    def __init__(self, quotas: Quotas, who: Principal) -> None:
        self._quotas = quotas
        self._who = who
        self._booked: Counter[Owner] = Counter()  # by owner, and not stored yet

    async def book(self, owner: Owner, count: int = 1) -> None:
        """Book more runs of an owner's jobs. Raises 429 if there are too many."""
        await self._quotas.book(self._who, owner, count)
        self._booked[owner] += count

    def land(self, made: Counter[Owner]) -> None:
        """End all bookings. `made` is the number of new runs of each owner."""
        booked, self._booked = self._booked, Counter()
        for owner, count in booked.items():
            self._quotas.land(self._who, owner, count, made=made[owner])


def make_quotas(store: Store, clock: Clock, settings: Settings) -> Quotas | None:
    """The quotas of these settings; None if there are none."""
    asked = (settings.quota_jobs, settings.quota_runs, settings.quota_submits)
    return None if asked == (None, None, None) else Quotas(store, clock, settings)


def quotas_for(request: Request) -> Quotas | None:
    """The quotas for the caller; None if there are none. Admins of all namespaces and owners have none."""
    quotas: Quotas | None = request.app.state.quotas
    who: Principal = request.state.who
    is_exempt = who.role is Role.ADMIN and not who.namespaces and not who.only_own
    return None if quotas is None or is_exempt else quotas


@asynccontextmanager
async def room_for_runs(request: Request, wanted: Mapping[Owner, int]) -> AsyncIterator[Counter[Owner]]:
    """Reserve room for these numbers of runs. The caller stores them inside the context, and adds the number of new
    ones to its value. Raises 429 if there is no room."""
    made: Counter[Owner] = Counter()
    quotas = quotas_for(request)
    if quotas is None:
        yield made
        return
    share = Share(quotas, request.state.who)
    try:
        for owner, count in wanted.items():
            if count:
                await share.book(owner, count)
        yield made
    finally:
        share.land(made)


@asynccontextmanager
async def room_for_job(request: Request, job: Job, before: JobRecord | None) -> AsyncIterator[None]:
    """Reserve room for a job, which the caller stores inside the context. Raises 429 if its owner has too many jobs."""
    quotas = quotas_for(request)
    if quotas is None or (before is not None and before.job.owner == job.owner):
        yield
        return
    async with quotas.creating(job.owner):
        await quotas.check_jobs(request.state.who, {owner_of(job): 1})
        yield


def _caller(who: Principal) -> Hashable:
    """Return the id of the callers that share a limit per minute: all keys and users of an owner, or one key or user
    that has no owner."""
    if who.owner:
        return "owner", who.owner
    return who.kind, who.name if who.kind == "session" else who.id


def _refusal(quota: str, told: str, seconds: int) -> Problem:
    return Problem(
        429,
        "quota",
        f"{quota}: {told}",
        [FieldProblem(quota, told)],
        headers={"Retry-After": str(seconds)},
        error="QuotaExceeded",
    )

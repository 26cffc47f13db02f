"""The pruner: removes history beyond the retention policy, a few hundred rows at a time.

It ticks only on the leader, because one node is enough. Safety does not depend on that: the store guards every removal
and counts it in the same write. A round has several steps: runs that are too old, jobs with too many runs, then skips
and nodes. Each tick makes one call to the store, so that other services get their turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from onthedot import fault_points
from onthedot.clock import MILLISECOND, Micros
from onthedot.loop import Service
from onthedot.model.events import Events, HistoryPruned
from onthedot.model.retention import DAY, Cut, Mark
from onthedot.model.run import RunState
from onthedot.node.leadership import Leadership
from onthedot.rules import retention
from onthedot.rules.retention import Quota
from onthedot.settings import Settings
from onthedot.stores.protocol import Store

Step = Callable[[], Awaitable[bool]]
"""One call to the store. It returns whether the call must be repeated."""

LOOK_AT = 100_000
"""How many finished runs the pruner counts at most to find jobs that have too many: about 20 ms, once per round."""
BREATH = 20 * MILLISECOND
"""The delay between two steps. A batch keeps SQLite's writer for about 8 ms, and due starts must not queue up behind
them. That still is more than 10,000 runs a second."""
TELL_EVERY = 50_000
"""A long round emits an event each time after this many runs."""


class Pruner(Service):
    """Prunes history while this node is the leader."""

    name = "pruner"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._steps: deque[Step] = deque()  # what is left of the round
        self._next_job: dict[Quota, int] = {}  # where the search for crowded jobs continues
        self._passed: dict[tuple[int | None, frozenset[RunState]], Mark] = {}  # how far each cut has read before
        self._passed_since: Micros = 0
        self._runs = self._skips = self._nodes = 0  # removed, but not reported yet

    async def tick(self, now: Micros) -> Micros:
        """Do one step of the round. After the last step, wait a while before the next round."""
        del now
        term = self._leadership.term
        if term is None:
            self._steps.clear()
            self._tell()
            return self._settings.renew_every  # this node may become leader at any moment
        if not self._steps:
            self._begin(term.until - self._settings.term_ttl)  # the store's clock, as the term was last renewed
        fault_points.point("prune.before_write")
        if self._steps and not await self._steps[0]():
            self._steps.popleft()
        if not self._steps or self._runs >= TELL_EVERY:
            self._tell()
        return BREATH if self._steps else self._settings.prune_every

    def _begin(self, now: Micros) -> None:
        policy = self._settings.retention
        if now - self._passed_since >= DAY:  # sometimes from the oldest run on: some could not be removed before
            self._passed.clear()
            self._passed_since = now
        self._steps.extend(partial(self._prune_runs, cut) for cut in retention.cuts_by_age(policy, now=now))
        self._steps.extend(partial(self._find_crowded, quota, now) for quota in retention.quotas(policy))
        until = retention.end_of_ledger(policy, now=now)
        if until is not None:
            self._steps.extend([partial(self._prune_skips, until), partial(self._prune_nodes, until)])

    async def _prune_runs(self, cut: Cut) -> bool:
        """Continue after the runs that were kept before: failures stay for months, so they are not read
        every minute.
        """
        key = (cut.job_id, cut.states)
        pruned = await self._store.prune_runs(cut, after=self._passed.get(key), limit=self._settings.batch)
        if pruned.passed is not None:
            self._passed[key] = pruned.passed
        self._runs += pruned.runs
        return pruned.more

    async def _find_crowded(self, quota: Quota, now: Micros) -> bool:
        """Search once per round for crowded jobs. They are pruned at the end of the round."""
        crowded = await self._store.queries.find_crowded(quota.keep, after=self._next_job.get(quota, 0), limit=LOOK_AT)
        self._next_job[quota] = crowded.passed or 0
        for job_id, newest in crowded.marks:
            cut = retention.cut_by_count(quota, job_id, newest, now=now)
            self._steps.append(partial(self._prune_runs, cut))
        return False

    async def _prune_skips(self, until: Micros) -> bool:
        gone = await self._store.prune_skips(until, limit=self._settings.batch)
        self._skips += gone
        return gone == self._settings.batch

    async def _prune_nodes(self, until: Micros) -> bool:
        gone = await self._store.prune_nodes(until, limit=self._settings.batch)
        self._nodes += gone.nodes
        return self._settings.batch in gone

    def _tell(self) -> None:
        if self._runs or self._skips or self._nodes:
            self._events.emit(HistoryPruned(self._runs, self._skips, self._nodes))
        self._runs = self._skips = self._nodes = 0

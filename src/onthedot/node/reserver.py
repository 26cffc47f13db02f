"""The reserver: reserves as many runs as this node has room for.

    reserve ──▶ later: the armer holds them ──arm──▶ seats
       └─────── due, without gates: reserved and armed in one write ──▶ seats

If a call has no answer, the reserver asks the store which leases this node holds.
"""

from __future__ import annotations

from onthedot import fault_points
from onthedot.clock import MILLISECOND, NEVER, SECOND, Clock, Micros
from onthedot.ids import Ids
from onthedot.loop import Service
from onthedot.model.errors import NodeExpired, StoreUnavailable
from onthedot.node.armer import Armer
from onthedot.node.finisher import Finisher
from onthedot.node.heartbeat import Membership
from onthedot.node.seats import Seats
from onthedot.settings import Settings
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store
from onthedot.stores.values import ReserveRequest

APART: Micros = 2 * MILLISECOND
"""The delay between two calls that find nothing, after the first `MOST_EMPTY`. So a worker spends little time on runs
that other workers start.
"""

MOST_EMPTY = 3


class Reserver(Service):
    """Reserves runs: due runs without gates go to the seats, the others to the armer."""

    name = "reserver"

    def __init__(
        self,
        store: Store,
        membership: Membership,
        finisher: Finisher,
        seats: Seats,
        armer: Armer,
        settings: Settings,
        clock: Clock,
        ids: Ids,
    ) -> None:
        super().__init__()
        self._store = store
        self._membership = membership
        self._finisher = finisher
        self._seats = seats
        self._armer = armer
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._look_at: Micros = 0  # when the store reported that something may be free
        self._unanswered: frozenset[str] | None = None  # leases that may be ours although we had no answer
        self._asked = 0
        self._empty = 0  # consecutive calls that found nothing, each soon after the one before
        self._looked_at: Micros = -SECOND  # when the last one ended, on the steady clock
        armer.on_room(self.wake)
        seats.on_free(self.wake)
        membership.on_free_to_work(self.wake)

    async def tick(self, now: Micros) -> Micros | None:
        """Reserve runs once."""
        if self._empty >= MOST_EMPTY and (left := self._looked_at + APART - self._clock.steady()) > 0:
            return left
        settings, membership = self._settings, self._membership
        if self._unanswered is not None and membership.trusted:
            await self._look_back(self._unanswered)
        ask = self._ask(now)
        if ask is None:
            return settings.poll_every
        self._look_at = NEVER  # a hint from here on concerns the next call
        sent = self._clock.steady()
        try:
            reserved = await self._store.reserve(ask)
        except NodeExpired:
            return settings.poll_every  # the heartbeat notices by itself, and joins again
        except StoreUnavailable:
            self._unanswered = frozenset(ask.lease_ids)
            raise
        membership.heard(sent, reserved.now)
        fault_points.point("reserve.after_write")
        if reserved.held:
            self._armer.hold(reserved.held)
        if reserved.armed:
            self._seats.launch(reserved.armed)
        self._count_look(found=bool(reserved.held or reserved.armed))
        self._look_at = NEVER if reserved.look_again_at is None else reserved.look_again_at
        if self._look_at > reserved.now:
            return min(self._look_at - reserved.now, settings.poll_every)
        # More is free already. If we got something, ask again. If not, we have no room; a callback wakes us later.
        return 0 if reserved.armed or reserved.held else settings.poll_every

    def _count_look(self, *, found: bool) -> None:
        now = self._clock.steady()
        is_soon = now - self._looked_at < 2 * APART
        self._empty = 0 if found else self._empty + 1 if is_soon else 1
        self._looked_at = now

    def _ask(self, now: Micros) -> ReserveRequest | None:
        """Return what to ask for; None if there is no room, or if this node may take no work."""
        settings, membership, seats = self._settings, self._membership, self._seats
        free = self._armer.free_seats
        if membership.draining or not settings.works:
            return None
        if not membership.trusted or (not free and self._look_at <= now):
            return None  # what is due would find no seat here; another worker may take it
        ahead = max(0, seats.ahead.most - self._armer.held)
        extra = seats.pace.beyond_seats(seats.taken + free) if free else 0  # together no more than a batch
        self._asked += 1
        return ReserveRequest(
            membership.incarnation,
            self._ids.leases(free + extra + ahead),
            free,
            ahead,
            extra,
            seats.pace.quick,
            settings.horizon,
            self._lapse(),
            membership.queues,
            frozenset(membership.labels),
            membership.tasks,
            self._asked,
        )

    def _lapse(self) -> Micros:
        """Return how long a reservation lasts after its due instant: long enough for the current `arm` and the next
        one. Otherwise this worker would reserve the same runs again while it arms them, and start none."""
        settings = self._settings
        return min(max(settings.lapse, 3 * self._armer.slowest), max(settings.lapse, settings.node_ttl))

    def store_has_lost(self) -> None:
        """Handle the loss of acknowledged writes: read at once which leases we hold in the store."""
        self._unanswered = self._unanswered or frozenset()
        self.wake()

    async def _look_back(self, unanswered: frozenset[str]) -> None:
        """Recover from a `reserve` without an answer, which may have succeeded: the leases that we hold are its answer.

        We accept only leases of that call. Any other lease that runs in the store, but not here, ran here before: the
        store acknowledged its verdict and lost it. Such an attempt never starts again under its fence. The job's
        guarantee decides about it.
        """
        known = {*self._seats.lease_ids(), *self._armer.lease_ids(), *self._finisher.lease_ids()}
        incarnation = self._membership.incarnation
        self._unanswered = None
        try:
            held = await self._store.recover(incarnation, void_below=self._asked + 1)
        except StoreUnavailable:
            self._unanswered = unanswered
            raise
        if incarnation != self._membership.incarnation:
            return  # the incarnation has ended meanwhile: other nodes take its runs
        found = [lease for lease in held if lease.lease_id not in known]
        ours = [lease for lease in found if lease.lease_id in unanswered]
        self._armer.hold([lease for lease in ours if not lease.fence])
        self._seats.launch([lease for lease in ours if lease.fence])
        self._finisher.give_up([lease for lease in found if lease.fence and lease.lease_id not in unanswered])

    def wants(self, hint: Hint) -> bool:
        """Return whether this hint is a reason to look for work now."""
        return hint.kind == "runs" and hint.ready_at - self._settings.horizon < self._look_at

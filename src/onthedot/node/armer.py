"""The armer: holds reservations, and arms each a little before it is due.

    reserved ──hold──▶ a heap, by due instant ──arm, a lead before──▶ seats

The lead keeps the write's latency from making the start late. The armer releases a due reservation if no seat is free.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from onthedot import fault_points
from onthedot.clock import MILLISECOND, Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import NodeExpired
from onthedot.model.events import Events, RunBlocked, RunDelayed, RunSkipped
from onthedot.model.job import is_gated
from onthedot.model.run import EDITED, Armed, Blocked, Busy, Delayed, GateAsk, Gone, Lease, Skipped
from onthedot.node.heartbeat import Membership
from onthedot.node.seats import Seats
from onthedot.rules import gates
from onthedot.runners.params import arguments_of
from onthedot.settings import Settings
from onthedot.stores.protocol import Store

_ASK_AGAIN = 10 * MILLISECOND  # after a due run was answered with Busy: another transaction is at the run before it


class Armer(Service):
    """Turns reservations into attempts just before they are due."""

    name = "armer"

    def __init__(
        self,
        store: Store,
        membership: Membership,
        seats: Seats,
        settings: Settings,
        events: Events,
        clock: Clock,
    ) -> None:
        super().__init__()
        self._store = store
        self._membership = membership
        self._seats = seats
        self._settings = settings
        self._events = events
        self._clock = clock
        self._held = Reservations()
        self._arming: dict[str, Lease] = {}  # sent, by lease id; a lost answer may have armed some
        self._lead = ArmLead(settings.arm_lead_min, settings.arm_lead_max)
        self._on_room: Callable[[], None] = lambda: None
        membership.on_fenced(self._fenced)
        seats.on_free(self._seat_is_free)

    def on_room(self, listener: Callable[[], None]) -> None:
        """Register a callback for the moment when there is room for more reservations."""
        self._on_room = listener

    @property
    def held(self) -> int:
        """The number of reservations that wait here."""
        return len(self._held)

    @property
    def arming(self) -> int:
        """The number of leases that are being armed."""
        return len(self._arming)

    @property
    def free_seats(self) -> int:
        """The number of seats that are neither taken nor kept for a lease that is being armed."""
        return max(0, self._seats.free - len(self._arming))

    @property
    def slowest(self) -> Micros:
        """The duration of the slowest recent `arm` call."""
        return self._lead.slow

    def lease_ids(self) -> list[str]:
        """Every lease that is reserved or being armed."""
        return [*self._arming, *self._held.lease_ids()]

    def hold(self, leases: list[Lease]) -> None:
        """Keep these reservations until they are due."""
        self._held.add(leases)
        self.wake()

    async def release_all(self) -> None:
        """Release every reservation that is not armed."""
        leases = [*self._held.take_all(), *self._arming.values()]
        self._arming.clear()
        if leases:
            await self._store.release(leases)

    def _fenced(self, incarnation: str) -> int:
        """Forget all reservations: the incarnation that held them has ended. No attempt is lost."""
        del incarnation
        self._held.take_all()
        self._arming.clear()
        return 0

    def _seat_is_free(self) -> None:
        if len(self._held):
            self.wake()

    async def tick(self, now: Micros) -> Micros | None:
        """Arm the runs that are due within the lead. Release due runs for which no seat is free."""
        if not self._membership.trusted:
            self._held.take_all()  # these reservations lapse by themselves
            return self._settings.poll_every if self._arming else None
        lead = self._lead.micros
        leases = self._held.take(now + lead, self.free_seats)
        if leases:
            self._on_room()
        if leases or self._arming:
            await self._arm(leases, lead)
        if not self.free_seats:
            seatless = self._held.take(self._clock.now(), self._settings.batch)
            if seatless:
                await self._store.release(seatless)
        return self._delay(lead)

    async def _arm(self, leases: list[Lease], lead: Micros) -> None:
        self._arming.update((lease.lease_id, lease) for lease in leases)
        asked = list(self._arming.values())  # the last call had no answer: `arm` is repeatable
        fault_points.point("arm.before_write")
        sent = self._clock.steady()
        try:
            answers = await self._store.arm(asked, gates=self._gates(asked))
        except NodeExpired:
            for lease in leases:
                self._arming.pop(lease.lease_id, None)  # not armed: these reservations lapse by themselves
            return
        fault_points.point("arm.after_write")
        self._lead.note(self._clock.steady() - sent)
        armed, edited, busy = [], [], 0
        for lease, answer in zip(asked, answers, strict=True):
            self._arming.pop(lease.lease_id, None)
            match answer:
                case Armed():
                    lease.fence, lease.attempt, lease.armed_at = answer
                    armed.append(lease)
                case Busy():
                    busy += 1
                    now = self._clock.now()
                    again = lease.due_at if lease.due_at > now else now + _ASK_AGAIN
                    self._held.add_at(again + lead, lease)  # `arm` is repeated at the due instant
                case Blocked(gate=gate, holder=holder):
                    self._events.emit(RunBlocked(lease, gate, holder))
                case Delayed(gate=gate, until=until):
                    self._events.emit(RunDelayed(lease, gate, until))
                case Skipped():
                    self._events.emit(RunSkipped(lease, *answer))
                case Gone(reason=reason) if reason == EDITED:
                    edited.append(lease)
        self._seats.launch(armed)
        if len(armed) + busy < len(asked):
            self._on_room()  # a lease that was not armed has given its seat back
        if edited:  # otherwise these runs are late: no other worker may take them before the reservations lapse
            await self._store.release(edited)

    def _gates(self, leases: list[Lease]) -> dict[str, GateAsk]:
        """Return the gates of these runs, and what each due run does if it finds a gate closed."""
        now = self._clock.now()
        asks = {}
        for lease in leases:
            record = lease.record
            if is_gated(record.job):
                answer = None
                if lease.due_at <= now:
                    answer = gates.on_busy(lease, now=now)
                arguments = arguments_of(lease)
                passing = gates.gates_of(record, target=lease.target, arguments=arguments)
                asks[lease.lease_id] = GateAsk(passing, answer, gates.rate_of(record, arguments=arguments))
        return asks

    def _delay(self, lead: Micros) -> Micros | None:
        """Return the time until the next reservation must be armed, or released if no seat is free."""
        if self._arming:
            return self._settings.poll_every
        due = self._held.next_due()
        if due is None:
            return None
        wait = due - self._clock.now()
        return max(MILLISECOND if not self.free_seats else 0, wait - lead if self.free_seats else wait)


class Reservations:
    """A heap of leases by due instant, earliest first. The instant of the head is the timer, so no start waits for a
    poll."""

    def __init__(self) -> None:
        self._heap: list[tuple[Micros, int, str, Lease]] = []  # a run may occur twice: also with an old lease

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, leases: list[Lease]) -> None:
        for lease in leases:
            heapq.heappush(self._heap, (lease.due_at, lease.run_id, lease.lease_id, lease))

    def add_at(self, instant: Micros, lease: Lease) -> None:
        """Add a lease. `take` treats it as due at this instant."""
        heapq.heappush(self._heap, (instant, lease.run_id, lease.lease_id, lease))

    def next_due(self) -> Micros | None:
        """The earliest due instant."""
        return self._heap[0][0] if self._heap else None

    def lease_ids(self) -> list[str]:
        """The ids of the leases in the heap."""
        return [lease.lease_id for *_, lease in self._heap]

    def take(self, until: Micros, most: int) -> list[Lease]:
        """Remove and return the leases that are due by `until`, earliest first, up to the limit."""
        taken: list[Lease] = []
        while self._heap and len(taken) < most and self._heap[0][0] <= until:
            taken.append(heapq.heappop(self._heap)[-1])
        return taken

    def take_all(self) -> list[Lease]:
        """Remove and return all leases."""
        taken = [lease for *_, lease in sorted(self._heap, key=lambda entry: entry[:3])]
        self._heap.clear()
        return taken


class ArmLead:
    """How long before the due instant to send `arm`: twice the 99th percentile of recent ones, within bounds."""

    def __init__(self, shortest: Micros, longest: Micros) -> None:
        self._shortest = shortest
        self._longest = longest
        self._recent: deque[Micros] = deque(maxlen=100)
        self.micros = max(shortest, longest // 10)  # a cautious value until there are measurements
        self.slow: Micros = 0  # the 99th percentile itself

    def note(self, took: Micros) -> None:
        """Record the duration of one `arm` call."""
        self._recent.append(took)
        self.slow = sorted(self._recent)[int(len(self._recent) * 0.99)]
        self.micros = min(self._longest, max(self._shortest, 2 * self.slow))

"""The heartbeat: registers this node and renews its lease. It computes the deadline until which this node may trust its
lease.

The lease rule: the local deadline counts from *before* the renewal was sent, on a clock that includes time spent
suspended, less a margin. The store stamps later than that, so the holder gives up first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence

from onthedot import fault_points
from onthedot.clock import Clock, Micros
from onthedot.ids import Ids
from onthedot.loop import Service
from onthedot.model.errors import NodeExpired
from onthedot.model.events import ClockOff, Events, NodeDraining, NodeFenced, NodeJoined
from onthedot.node.zone_data import tzdata_version
from onthedot.settings import Settings
from onthedot.store_clock import TELL_BEYOND, StoreClock
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store
from onthedot.stores.values import Beat, Node

OnFenced = Callable[[str], int]
"""Called with the incarnation that has ended; returns how many attempts were lost with it."""


OnCancel = Callable[[Sequence[tuple[str, str]]], None]
"""Called with the attempts that must stop: their lease ids, and the reasons."""


class Membership(Service):
    """This node as the store knows it: its name, its incarnation and its lease, renewed with each tick."""

    name = "heartbeat"

    def __init__(self, store: Store, clock: Clock, ids: Ids, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._far_off = False  # whether we have reported that our own clock is off
        self._ids = ids
        self._settings = settings
        self._events = events
        self.deadline: Micros = 0  # on the steady clock: until then this node counts on its lease
        self._fenced: list[OnFenced] = []
        self._renewed: list[Callable[[Micros], None]] = []
        self._on_cancel: OnCancel | None = None
        self._on_free_to_work: Callable[[], None] = lambda: None
        self.queues = settings.queues_for(())
        self.labels = settings.labels
        self.tasks: frozenset[str] = frozenset()  # what this node's program can do
        self.tzdata = tzdata_version()
        self.draining = False
        self._leaving = False  # this process stops: from now on it always drains
        self.node_id = settings.node_id or f"{socket.gethostname()}-{ids.token()[:8]}"
        self.incarnation = ""

    def serve(
        self,
        *,
        queues: Iterable[str] | None = None,
        labels: Iterable[str] | None = None,
        tasks: frozenset[str] | None = None,
    ) -> None:
        """Ask for runs of these queues, labels and tasks from here on; None: no change. Others see it when the node
        registers again."""
        self.queues = self.queues if queues is None else tuple(queues)
        self.labels = self.labels if labels is None else tuple(labels)
        self.tasks = self.tasks if tasks is None else tasks

    def on_fenced(self, listener: OnFenced) -> None:
        """Register a callback for the end of an incarnation of this process."""
        self._fenced.append(listener)

    def on_renewed(self, listener: Callable[[Micros], None]) -> None:
        """Register a callback for each beat. It gets the deadline, on the steady clock, until which this node trusts
        its lease. If the node trusts its lease now, the first call happens at once.
        """
        self._renewed.append(listener)
        if self.deadline:
            listener(self.deadline)

    def on_cancel(self, listener: OnCancel) -> None:
        """Register a callback for the attempts of this node that a user cancels."""
        self._on_cancel = listener

    def on_free_to_work(self, listener: Callable[[], None]) -> None:
        """Register a callback for the moment when this node may take work again after a drain."""
        self._on_free_to_work = listener

    def wants(self, hint: Hint) -> bool:
        """Return whether this hint is a reason to beat now: the answer to a beat contains cancels and drains."""
        return hint.kind == "beats"

    @property
    def trusted(self) -> bool:
        """Whether this node may still trust its lease."""
        return self._clock.steady() < self.deadline

    def begin_leaving(self) -> None:
        """Show this node as draining with the next beat, which is sent at once. Do not wait for the store."""
        self._leaving = self.draining = True
        self.wake()

    async def join(self) -> None:
        """Register under a new incarnation."""
        incarnation = self._ids.token()
        settings = self._settings
        node = Node(self.node_id, incarnation, socket.gethostname(), os.getpid(), settings.roles, tzdata=self.tzdata)
        if settings.works:
            node.queues, node.labels, node.seats = self.queues, self.labels, settings.seats
            node.tasks = tuple(sorted(self.tasks))
        sent = self._clock.steady()
        beat = await self._store.register(node, ttl=self._settings.node_ttl)
        self.incarnation = incarnation
        self._trust_from(sent)
        self.heard(sent, beat.now)
        self._events.emit(NodeJoined(self.node_id, self.incarnation, beat.now))

    async def tick(self, now: Micros) -> Micros:
        """Renew the lease; start a new incarnation if this one has ended."""
        del now
        try:
            beat = await self._beat()
            if beat.draining != self.draining and not self._leaving:
                self.draining = beat.draining
                self._events.emit(NodeDraining(self.node_id, beat.draining))
                if not beat.draining:
                    self._on_free_to_work()
            if beat.cancels and self._on_cancel is not None:
                self._on_cancel(beat.cancels)
        except NodeExpired:
            ended = self.incarnation
            lost = sum(listener(ended) for listener in self._fenced)
            self._events.emit(NodeFenced(self.node_id, ended, lost))
            await self.join()
        return self._settings.beat_every

    async def _beat(self) -> Beat:
        fault_points.point("beat.before_write")
        sent = self._clock.steady()
        beat = await self._store.beat(self.incarnation, ttl=self._settings.node_ttl, draining=self._leaving)
        self._trust_from(sent)
        self.heard(sent, beat.now)
        return beat

    def heard(self, sent: Micros, store_now: Micros) -> None:
        """Use the store's time in the answer to a call that was sent at this (steady) instant."""
        clock = self._clock
        if not isinstance(clock, StoreClock):
            return
        clock.note(sent, store_now)
        far_off = abs(clock.offset) > TELL_BEYOND
        if far_off and not self._far_off:
            self._events.emit(ClockOff(self.node_id, clock.offset, clock.uncertainty))
        self._far_off = far_off

    def _trust_from(self, sent: Micros) -> None:
        ttl = self._settings.node_ttl
        self.deadline = sent + ttl - ttl // 1_000 - self._settings.margin
        for listener in self._renewed:
            listener(self.deadline)

    async def leave(self) -> None:
        """End the incarnation, so that other nodes can take its runs at once."""
        self.deadline = 0
        await self._store.leave(self.incarnation)

"""Who plans: a term per shard, taken from the store, renewed while the node lives, handed over when it stops.

follower ──campaign──▶ leader(term n) ──renew──▶ leader(term n)
    ▲                      │
    └── renewal refused, ──┘     Terms only grow; every plan carries its term, so a leader that slept
        plan refused, resign     through its end can do no harm when it wakes.
"""

from __future__ import annotations

from onthedot.clock import Clock, Micros
from onthedot.cluster.members import Membership
from onthedot.cluster.offset import UNSURE_BEYOND, StoreClock
from onthedot.errors import NodeExpired
from onthedot.events import Events, TermEnded, TermWon
from onthedot.settings import Settings
from onthedot.stores.base import Hint, Store, Term


class Leadership:
    """Campaigns for the term of the one shard, and keeps it."""

    name = "leadership"

    def __init__(self, store: Store, membership: Membership, clock: Clock, settings: Settings, events: Events) -> None:
        self._store = store
        self._membership = membership
        self._clock = clock
        self._settings = settings
        self._events = events
        self.term: Term | None = None

    async def tick(self, now: Micros) -> Micros:
        """Renew the term, or campaign for one."""
        del now
        if isinstance(self._clock, StoreClock) and self._clock.uncertainty > UNSURE_BEYOND:
            await self.resign()  # whoever does not know what time it is must not plan
            return self._settings.renew_every
        if self._membership.draining:
            await self.resign()
            return self._settings.renew_every
        if (term := self.term) is not None:
            renewed = await self._store.renew(term, ttl=self._settings.term_ttl)
            if renewed is None and self.term is not None:
                self.lost(term)  # unless the planner was told so in the meantime
            self.term = renewed
        if self.term is None:
            self.term = await self._campaign()
        return self._settings.renew_every

    async def _campaign(self) -> Term | None:
        try:
            term = await self._store.campaign(
                self._membership.incarnation, ttl=self._settings.term_ttl, patience=self._settings.renew_every
            )
        except NodeExpired:
            return None  # the heartbeat finds out by itself and joins anew
        if term is not None:
            self._events.emit(TermWon(term.shard, term.number))
        return term

    def wants(self, hint: Hint) -> bool:
        """Whether a hint is a reason to campaign now: somebody has handed over."""
        return hint.kind == "terms" and self.term is None

    def lost(self, term: Term) -> None:
        """Stop planning: the store has said that this term is over."""
        if self.term is not None and self.term.number == term.number:
            self.term = None
        self._events.emit(TermEnded(term.shard, term.number))

    async def resign(self) -> None:
        """Hand over now instead of letting the term run out."""
        if self.term is not None:
            term, self.term = self.term, None
            await self._store.resign(term)
            self._events.emit(TermEnded(term.shard, term.number))

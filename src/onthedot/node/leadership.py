"""Leader election: a term per shard, taken from the store, renewed while the node lives, handed over when it stops.

follower ──campaign──▶ leader(term n) ──renew──▶ leader(term n)
    ▲                      │
    └── renewal refused, ──┘     Terms only grow; every plan carries its term, so a leader that slept
        plan refused, resign     through its end can do no harm when it wakes.

With one shard the store prefers the node that registered earliest. With several, each node campaigns for the shards
that it owns by hash (`rules/shards.py`), and for others only when their owner does not. It hands over shards of other
nodes one at a time. All of this is only a preference. Each plan checks the number and the layout of the term.
"""

from __future__ import annotations

from collections import Counter

from onthedot.clock import Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import NodeExpired, TermLost
from onthedot.model.events import Events, TermEnded, TermWon
from onthedot.node.heartbeat import Membership
from onthedot.rules.shards import Candidate, Held, open_to, owners
from onthedot.settings import Settings
from onthedot.store_clock import UNSURE_BEYOND, StoreClock
from onthedot.stores.hints import Hint
from onthedot.stores.protocol import Store
from onthedot.stores.values import Layout, Term

MOST_DOUBLINGS = 6
"""If an owner loses a shard that it got back, the next offer comes later: after 3 s, 6 s, … 192 s."""


class Leadership(Service):
    """Campaigns for the terms of shards, and renews them."""

    name = "leadership"

    def __init__(self, store: Store, membership: Membership, clock: Clock, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._membership = membership
        self._clock = clock
        self._settings = settings
        self._events = events
        self._layout = Layout()  # the layout that this node knows; the store refuses writes with another layout
        self.terms: dict[int, Term] = {}  # by shard
        self._misplaced: dict[int, Micros] = {}  # shards that we hold and another owns: since when (steady)
        self._offered: Counter[tuple[int, str]] = Counter()  # how often we handed a shard over to its owner
        self._handed_over_at: Micros | None = None  # steady

    @property
    def term(self) -> Term | None:
        """The term of shard 0: its holder does the work that only one node in the cluster does."""
        return self.terms.get(0)

    async def tick(self, now: Micros) -> Micros:
        """Renew the terms, and campaign for more."""
        if not self._settings.plans:
            return self._settings.renew_every
        if isinstance(self._clock, StoreClock) and self._clock.uncertainty > UNSURE_BEYOND:
            await self.resign()  # a node that does not know the time must not plan
            return self._settings.renew_every
        if self._membership.draining:
            await self.resign()
            return self._settings.renew_every
        await self._renew()
        try:
            await self._stand(now)
        except TermLost:  # the layout has changed
            await self._learn_layout()
            return 0
        return self._settings.renew_every

    async def _learn_layout(self) -> None:
        layout = await self._store.queries.get_layout()
        if layout == self._layout:
            return
        self._layout = layout
        self._misplaced.clear()
        self._offered.clear()
        for term in [term for term in self.terms.values() if term.layout != layout.version]:
            self.lost(term)

    async def _renew(self) -> None:
        for term in list(self.terms.values()):
            renewed = await self._store.renew(term, ttl=self._settings.term_ttl)
            if renewed is None:
                self.lost(term)
            elif term.shard in self.terms:  # otherwise the term was lost in the meantime
                self.terms[term.shard] = renewed

    async def _stand(self, now: Micros) -> None:
        """Campaign for shards that are ours or free, and hand over shards of other nodes. Raise `TermLost` if the
        layout has changed.
        """
        if self._layout.shards == 1:
            if self.term is None:
                await self._campaign(0, patience=self._settings.renew_every)
            return
        await self._learn_layout()
        patience, me = self._settings.renew_every, self._membership.incarnation
        owned_by = owners(self._layout.shards, await self._candidates(now))
        terms = {term.shard: Held(term.incarnation, term.until) for term in await self._store.queries.list_terms()}
        for shard in open_to(me, owned_by, terms, now=now, patience=patience):
            if shard not in self.terms:
                await self._campaign(shard)
        await self._hand_over(owned_by)

    async def _candidates(self, now: Micros) -> list[Candidate]:
        """Return the living planners that do not drain, newest incarnations first."""
        return [
            Candidate(node.id, node.incarnation, node.tzdata)
            for node in await self._store.queries.list_nodes(living=True, now=now)
            if "planner" in node.roles and not node.draining
        ]

    async def _campaign(self, shard: int, *, patience: Micros = 0) -> None:
        try:
            term = await self._store.campaign(
                self._membership.incarnation, ttl=self._settings.term_ttl, shard=shard, layout=self._layout.version,
                patience=patience,
            )  # fmt: skip
        except NodeExpired:
            return  # the heartbeat notices by itself, and joins again
        if term is not None:
            self.terms[shard] = term
            self._events.emit(TermWon(term.shard, term.number))

    async def _hand_over(self, owned_by: list[str | None]) -> None:
        """Resign one shard that another node has owned for a while. A node that joins gets its shards one by one."""
        me, steady = self._membership.incarnation, self._clock.steady()
        others = {shard: owned_by[shard] for shard in self.terms if owned_by[shard] not in (me, None)}
        self._misplaced = {shard: self._misplaced.get(shard, steady) for shard in others}
        if self._handed_over_at is not None and steady - self._handed_over_at < self._settings.renew_every:
            return
        for shard, owner in sorted(others.items()):
            offers = self._offered[shard, str(owner)]
            if steady - self._misplaced[shard] >= self._settings.renew_every << min(offers, MOST_DOUBLINGS):
                self._offered[shard, str(owner)] += 1
                self._handed_over_at = steady
                del self._misplaced[shard]
                await self._resign(self.terms[shard])
                return

    def wants(self, hint: Hint) -> bool:
        """Return whether this hint is a reason to campaign now: a term was handed over, or the layout has changed."""
        return hint.kind == "terms" and (self.term is None or self._layout.shards > 1)

    def lost(self, term: Term) -> None:
        """Stop planning a shard: the store has reported that this term is over."""
        held = self.terms.get(term.shard)
        if held is not None and held.number == term.number:
            del self.terms[term.shard]
            self._events.emit(TermEnded(term.shard, term.number))

    async def resign(self) -> None:
        """Hand over all terms now instead of letting them run out."""
        for term in list(self.terms.values()):
            await self._resign(term)

    async def _resign(self, term: Term) -> None:
        self.lost(term)
        await self._store.resign(term)

"""Shards with one thing left out. See `mutants.py`."""

from __future__ import annotations

from dataclasses import replace

from onthedot.engine import Engine
from onthedot.policy.shards import Candidate
from onthedot.stores.base import Hint, Layout
from onthedot.stores.memory import MemoryStore


class LayoutUnchecked(MemoryStore):
    """A new layout lets the terms of the old one go on, and a plan is not asked for its layout."""

    async def set_shards(self, shards, *, expected=None, now=None):
        before = {shard: replace(term) for shard, term in self.terms.items()}
        layout = await super().set_shards(shards, expected=expected, now=now)
        self.terms |= before
        return layout

    def is_current(self, term, now):
        current = self.terms.get(term.shard)
        return current is not None and current.number == term.number and current.until > now

    def check_layout(self, layout, shard):
        if layout is None or shard >= self.current_layout.shards:
            super().check_layout(layout, shard)


class TermsOutliveTheirLayout(MemoryStore):
    """The layout changes in one write, and nobody ends the terms: they run out by themselves."""

    async def set_shards(self, shards, *, expected=None, now=None):
        if self.current_layout.shards != shards:
            self.current_layout = Layout(self.current_layout.version + 1, shards)
            self.hints.send(Hint("terms", self.read_clock(now)))
        return self.current_layout


def owners_among_the_dead(*args, **kwargs) -> Engine:
    """Every incarnation that ever registered may own a shard, dead or alive: what they own is handed over to nobody,
    again and again."""
    engine = Engine(*args, **kwargs)
    service = engine._leadership

    async def everybody(now):
        return [Candidate(node.incarnation, node.incarnation) for node in await service._store.list_nodes()]

    service._candidates = everybody  # type: ignore[method-assign]
    return engine


class OlderZonesLead(MemoryStore):
    """Whoever asks first gets the term, whatever zone data it has."""

    def _living_planners(self, now):
        return []


def plans_on_with_other_zones(*args, **kwargs) -> Engine:
    """A new leader goes on from the slots that the last one had computed with other zone data."""
    engine = Engine(*args, **kwargs)

    async def nothing_to_do(term):
        return True

    engine._planner._replanner.step = nothing_to_do  # type: ignore[method-assign]
    return engine

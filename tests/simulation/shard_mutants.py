"""Mutants of shards. See `mutants.py`."""

from __future__ import annotations

from onthedot.node.engine import Engine
from onthedot.rules.shards import Candidate
from onthedot_verify.simulation.node import SimulatedEngine
from tests.contract.sql_mutants import Mutant as Edit

_ENDING = "ending = sorted({*await tx.values(LIST_SHARDS), *range(shards)})"

# Terms of the old layout continue under a new one, and a plan's layout is not checked.
LAYOUT_UNCHECKED = (
    Edit("terms.set_shards", _ENDING, "ending = sorted({*range(shards)} - {*await tx.values(LIST_SHARDS)})"),
    Edit("terms.check_layout", "layout not in (None, now.version) or ", ""),
    Edit(
        "terms.check_term", "(current.number, current.layout) == (term.number, term.layout)",
        "current.number == term.number",
    ),
    Edit("terms.EXTEND_TERM", "AND layout = $3 ", ""),
)  # fmt: skip

# A change of the layout does not end the terms: they run out by themselves.
TERMS_OUTLIVE_THEIR_LAYOUT = (Edit("terms.set_shards", _ENDING, "ending = []"),)

# The first node to ask gets the term, whatever zone data it has.
OLDER_ZONES_LEAD = (
    Edit("terms.LIST_VERSIONS", "NOT ended AND", "false AND"),
    Edit("terms.FIND_EARLIER", "NOT ended AND", "false AND"),
)


def owners_among_the_dead(*args, **kwargs) -> Engine:
    """Every registered incarnation may own a shard, dead or alive. Shards of dead ones are handed over again and
    again."""
    engine = SimulatedEngine(*args, **kwargs)
    service = engine._leadership

    async def everybody(now):
        return [Candidate(node.incarnation, node.incarnation) for node in await service._store.queries.list_nodes()]

    service._candidates = everybody  # type: ignore[method-assign]
    return engine


def plans_on_with_other_zones(*args, **kwargs) -> Engine:
    """A new leader continues from slots that the last one has computed with other zone data."""
    engine = SimulatedEngine(*args, **kwargs)

    async def nothing_to_do(term):
        return True

    engine._planner._replanner.step = nothing_to_do  # type: ignore[method-assign]
    return engine

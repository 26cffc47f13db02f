"""Leader election: campaigns for the term of a shard, renews and resigns it, and divides the plan into shards.

A **term** is a period in which one node plans a shard. A **layout** sets the number of shards.
"""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.model.errors import LayoutConflict, TermLost
from onthedot.rules.shards import buckets_of, check_shards
from onthedot.schedules.zones import is_newer
from onthedot.stores.hints import Hint
from onthedot.stores.sql.nodes import expired
from onthedot.stores.sql.port import Now, Tx, sql
from onthedot.stores.values import Layout, Term

TERMS = "terms"
"""A transaction that starts a term or changes the layout holds this key."""

# Until the transaction ends, nobody ends, drains or voids this incarnation, because that needs FOR UPDATE
# (`lock_node`). A heartbeat changes no key, so it never waits for the node's other calls.
HOLD_LIVING = sql("""
SELECT tzdata FROM nodes WHERE incarnation = $1 AND NOT ended AND lease_until > $2 [[FOR KEY SHARE]]
""")

TERM_COLUMNS = "shard, number, incarnation, until, layout, tzdata, zones"

_TERM = f"SELECT {TERM_COLUMNS} FROM terms WHERE shard = $1"  # noqa: S608 - constants of this file

FIND_TERM = sql(_TERM, Term)

# Locks the term: nobody starts a term or changes the layout before the transaction ends.
HOLD_TERM = sql(_TERM + " [[FOR SHARE]]", Term)

# The same, for a transaction that changes the term at its end. Two transactions that share a lock could not both make
# it exclusive.
LOCK_TERM = sql(_TERM + " [[FOR UPDATE]]", Term)

FIND_LAYOUT = sql("SELECT version, shards FROM layouts ORDER BY version DESC LIMIT 1", Layout)

# Shortens a term that was written before the clock was set back.
SHORTEN_TERM = sql("UPDATE terms SET until = $2[[::bigint]] + ttl WHERE shard = $1 AND until > $2[[::bigint]] + ttl")

EXTEND_TERM = sql(
    f"""
    UPDATE terms SET until = $5, ttl = {{greatest}}(ttl, $5[[::bigint]] - $4[[::bigint]])
    WHERE shard = $1 AND number = $2 AND layout = $3 AND until > $4 RETURNING {TERM_COLUMNS}
    """,  # noqa: S608
    Term,
)

BEGIN_TERM = sql("""
INSERT INTO terms (shard, number, incarnation, until, layout, tzdata, zones, ttl)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (shard) DO UPDATE
SET number = excluded.number, incarnation = excluded.incarnation, until = excluded.until, ttl = excluded.ttl,
    layout = excluded.layout, tzdata = excluded.tzdata, zones = excluded.zones
""")

REMEMBER_TERM = sql("INSERT INTO term_history (shard, number, incarnation, began_at) VALUES ($1, $2, $3, $4)")

_IS_PLANNER = "[['planner' = ANY(roles)]]<<EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'planner')>>"

LIST_VERSIONS = sql(f"""
SELECT DISTINCT tzdata FROM nodes WHERE NOT ended AND lease_until > $1 AND NOT draining AND {_IS_PLANNER}
""")  # noqa: S608

# Finds a living planner with the same zone data that registered earlier and is not the last leader.
FIND_EARLIER = sql(f"""
SELECT 1 FROM nodes
WHERE number < (SELECT number FROM nodes WHERE incarnation = $1) AND incarnation <> $2
  AND tzdata = $3 AND NOT ended AND lease_until > $4 AND {_IS_PLANNER}
LIMIT 1
""")  # noqa: S608

FIND_ANY_ZONED = sql("SELECT 1 FROM schedules <<INDEXED BY schedules_zoned>> WHERE [[zoned]]<<zoned = 1>> LIMIT 1")


async def campaign(
    tx: Tx, incarnation: str, *, ttl: Micros, shard: int = 0, layout: int | None = None, patience: Micros = 0,
    now: Now = None,
) -> Term | None:  # fmt: skip
    at = await tx.clock(now)
    tzdata = await tx.value(HOLD_LIVING, incarnation, at)
    if tzdata is None:
        raise expired(incarnation)
    await tx.lock_keys([TERMS])
    await check_layout(tx, layout, shard)
    current = await tx.row(FIND_TERM, shard)
    if current is not None and current.until > at and current.incarnation:
        await tx.do(SHORTEN_TERM, shard, at)
        return await _extend(tx, current, at, at + ttl) if current.incarnation == incarnation else None
    if any(is_newer(version, tzdata) for version in await tx.values(LIST_VERSIONS, at)):
        return None
    is_early = current is not None and at < current.until + patience
    last = "" if current is None else current.incarnation
    if is_early and await tx.value(FIND_EARLIER, incarnation, last, tzdata, at):
        return None
    # If no schedule depends on a time zone, all are computed with the right zone data.
    zones = current.zones if current is not None else "" if await tx.value(FIND_ANY_ZONED) else tzdata
    number = 1 if current is None else current.number + 1
    term = Term(shard, number, incarnation, at + ttl, (await get_layout(tx)).version, tzdata, zones)
    await tx.do(BEGIN_TERM, shard, number, incarnation, term.until, term.layout, tzdata, zones, ttl)
    await tx.do(REMEMBER_TERM, shard, term.number, incarnation, at)
    return term


async def renew(tx: Tx, term: Term, *, ttl: Micros, now: Now = None) -> Term | None:
    at = await tx.clock(now)
    return await _extend(tx, term, at, at + ttl)


async def resign(tx: Tx, term: Term, *, now: Now = None) -> bool:
    at = await tx.clock(now)
    resigned = await _extend(tx, term, at, at) is not None
    if resigned:
        tx.hints.append(Hint("terms", at))
    return resigned


async def _extend(tx: Tx, term: Term, now: Micros, until: Micros) -> Term | None:
    """Move a term's end. Return None if the term is not the current one, or is over."""
    return await tx.row(EXTEND_TERM, term.shard, term.number, term.layout, now, until)


async def get_layout(tx: Tx) -> Layout:
    """Return the current layout."""
    [layout] = await tx.rows(FIND_LAYOUT)
    return layout


async def check_layout(tx: Tx, layout: int | None, shard: int) -> range:
    """Return the shard's buckets. Raise `TermLost` if the version is not current, or the layout has no such shard."""
    now = await get_layout(tx)
    if layout not in (None, now.version) or not 0 <= shard < now.shards:
        raise TermLost(f"shard {shard}, layout {layout}: the layout is {now.version}, of {now.shards} by now")
    return buckets_of(shard, now.shards)


async def check_term(tx: Tx, term: Term, now: Micros, *, alone: bool = False) -> None:
    """Raise `TermLost` unless this is its shard's current term. The term cannot end before this transaction ends.

    `alone`: this transaction changes the term, so no other transaction may hold it.
    """
    current = await tx.row(LOCK_TERM if alone else HOLD_TERM, term.shard)
    is_current = current is not None and (current.number, current.layout) == (term.number, term.layout)
    if current is None or not is_current or current.until <= now:
        raise TermLost(f"term {term.number} of shard {term.shard} is over; campaign again before planning")


# ── layouts: how the buckets are divided into shards ─────────────────────────────────────────────────────────────

CHANGE_LAYOUT = sql("INSERT INTO layouts (version, shards, since) VALUES ($1, $2, $3)")

# Finds the zone data of all shards of the old layout, if they share one.
FIND_ZONES = sql("SELECT CASE WHEN min(zones) = max(zones) THEN min(zones) ELSE '' END FROM terms WHERE shard < $1")

# Ends a term: no node holds it. The next term continues its number.
END_TERM = sql("""
INSERT INTO terms (shard, number, incarnation, until, ttl, layout, tzdata, zones)
VALUES ($1, 0, '', $2, 0, $3, '', $4)
ON CONFLICT (shard) DO UPDATE
SET incarnation = '', until = excluded.until, layout = excluded.layout, tzdata = '', zones = excluded.zones
""")

LIST_SHARDS = sql("SELECT shard FROM terms")

LIST_TERMS = sql(f"SELECT {TERM_COLUMNS} FROM terms WHERE shard < $1 ORDER BY shard", Term)  # noqa: S608 - a constant


async def set_shards(tx: Tx, shards: int, *, expected: int | None = None, now: Now = None) -> Layout:
    check_shards(shards)
    at = await tx.clock(now)
    await tx.lock_keys([TERMS])
    current = await get_layout(tx)
    if current.shards == shards:
        return current
    if expected not in (None, current.version):
        raise LayoutConflict(f"layout: expected version {expected}, found {current.version}; read it again")
    new = Layout(current.version + 1, shards)
    zones = await tx.value(FIND_ZONES, current.shards) or ""
    await tx.do(CHANGE_LAYOUT, new.version, shards, at)
    ending = sorted({*await tx.values(LIST_SHARDS), *range(shards)})
    await tx.each(END_TERM, [(shard, at, new.version, zones) for shard in ending])
    tx.hints.append(Hint("terms", at))
    return new


async def list_terms(tx: Tx) -> list[Term]:
    return await tx.rows(LIST_TERMS, (await get_layout(tx)).shards)

"""Taking work for a worker: the way of a run from `scheduled` to `reserved` or `running`.

What is chosen is locked, and what others have locked is passed over: so workers take different runs at the same time,
and none waits for another. A job that is being edited or paused at this moment is passed over as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from onthedot import faults
from onthedot.clock import MILLISECOND, NEVER, Micros
from onthedot.errors import NodeExpired, StoreUnusable
from onthedot.route import BONUS, END, is_shared, lines_of, ranked, read_route
from onthedot.run import Lease, RunState
from onthedot.stores.base import Ask, Reserved
from onthedot.stores.postgres.arrays import numbers, words
from onthedot.stores.postgres.finish import end_waiting
from onthedot.stores.postgres.queues import QUEUES
from onthedot.stores.postgres.tables import Tables, find_checkpoints
from onthedot.stores.postgres.transaction import NOW, Transaction
from onthedot.stores.postgres.turns import fair_queues, pass_time, rank_due
from onthedot.stores.taking import (
    ATTEMPT,
    GATED,
    JOB,
    QUEUE,
    RANK,
    REVISION,
    RUN,
    STATE,
    Candidate,
    Lines,
    choose_due,
    is_served,
    lease_of,
)

_LINE = -1  # where it stands in a candidate's row

_AGE = itemgetter(0, 1)  # by rank, then by id

LOOK_AGAIN: Micros = 20 * MILLISECOND
"""When to look again if work is due that somebody else has locked: it takes it, or lets it go."""

# The node, which nobody ends, drains or voids meanwhile, though it may beat (see `LOCK_NODE`); no queue is paused
# meanwhile; the time.
FIND_NODE = f"""
SELECT n.ended, n.lease_until, n.id, n.void_below, n.draining, {NOW},
       pg_advisory_xact_lock_shared(hashtextextended(current_schema() || '{QUEUES}', 0))
FROM nodes n WHERE n.incarnation = $1 FOR KEY SHARE OF n
"""  # noqa: S608 - constants of this driver

# The lines (route and level) of some ranges in which runs wait: from one to the next through the index, however many
# runs there are. And what was said about queues.
LIST_LINES = """
WITH RECURSIVE lines (route, priority, finish) AS (
    SELECT first.route, first.priority, given.finish FROM unnest($1::text[], $2::text[]) given (start, finish)
    CROSS JOIN LATERAL (
        SELECT route, priority FROM runs
        WHERE route >= given.start AND route < given.finish AND state <> 'running' AND rank IS NULL
        ORDER BY route, priority LIMIT 1) first
    UNION ALL
    SELECT following.route, following.priority, lines.finish FROM lines
    CROSS JOIN LATERAL (
        SELECT route, priority FROM runs
        WHERE (route, priority) > (lines.route, lines.priority) AND route < lines.finish AND state <> 'running'
          AND rank IS NULL
        ORDER BY route, priority LIMIT 1) following
)
SELECT route, priority::integer, false, false FROM lines
UNION ALL
SELECT name, 0, paused_at IS NOT NULL, weights IS NOT NULL FROM queues
WHERE paused_at IS NOT NULL OR weights IS NOT NULL
"""

# Its queue is not paused. Said as `<> ALL`, the planner expects next to nothing to pass, and sorts the whole line.
_IS_SERVED = "NOT coalesce(r.queue = ANY(${}), false)"

# Candidates of each line, in the order of the index. Scheduled, or reserved and lapsed: both are ready.
_CANDIDATES = """
SELECT taken.*, line.number FROM unnest({lines}) WITH ORDINALITY line ({names}, number)
CROSS JOIN LATERAL (
    SELECT {order} - {bonus}, r.id, r.job_id, j.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args, r.attempt,
           r.failures, r.recoveries, r.created_at, r.target, r.queue, r.priority, r.rank, j.gated
    FROM runs r JOIN jobs j ON j.id = r.job_id
    WHERE r.route = line.route AND r.state <> 'running' AND {wanted}
      AND (r.expires_at IS NULL OR r.expires_at > $1) AND j.task = ANY($2) AND {is_served}
    ORDER BY {order_by}, r.id LIMIT $4 FOR UPDATE OF r SKIP LOCKED FOR KEY SHARE OF j SKIP LOCKED
) taken
"""
_CANDIDATES = _CANDIDATES.replace("{is_served}", _IS_SERVED.format(3))
_PLAIN_LINES = {"lines": "$5::text[], $6::smallint[], $7::bigint[]", "names": "route, priority, bonus"}
_IN_LINE = "r.priority = line.priority AND r.rank IS NULL AND "
LIST_DUE_RUNS = _CANDIDATES.format(
    **_PLAIN_LINES, bonus="line.bonus", order="r.ready_at", order_by="r.ready_at", wanted=_IN_LINE + "r.ready_at <= $1"
)
LIST_AHEAD = _CANDIDATES.format(
    **_PLAIN_LINES, bonus="line.bonus", order="r.ready_at", order_by="r.ready_at",
    wanted=_IN_LINE + "r.ready_at > $1 AND r.ready_at <= $8 AND r.state = 'scheduled'",
)  # fmt: skip
LIST_RANKED = _CANDIDATES.format(
    lines="$5::text[]", names="route", order="r.ready_at", order_by="r.rank",
    bonus="CASE r.priority {} END".format(" ".join(f"WHEN {n} THEN {b}" for n, b in enumerate(BONUS))),
    wanted="r.rank IS NOT NULL AND r.ready_at <= $1",
)  # fmt: skip

# The routes of a queue in which runs have ranks.
LIST_RANKED_ROUTES = """
WITH RECURSIVE routes (route) AS (
    SELECT min(route) FROM runs WHERE route >= $1 AND route < $2 AND rank IS NOT NULL
    UNION ALL
    SELECT (SELECT min(r.route) FROM runs r WHERE r.route > routes.route AND r.route < $2 AND r.rank IS NOT NULL)
    FROM routes WHERE routes.route IS NOT NULL
)
SELECT route FROM routes WHERE route IS NOT NULL
"""

ARM_NOW = """
UPDATE runs
SET state = 'running', lease_id = given.lease_id, fence = nextval('fences'), incarnation = $4,
    revision = given.revision, reserved_at = $5, armed_at = $5, attempt = attempt + 1, expires_at = NULL
FROM unnest($1::text::bigint[], $2::text::text[], $3::text::integer[]) given (id, lease_id, revision)
WHERE runs.id = given.id AND runs.id = ANY((SELECT $1::text::bigint[])::bigint[])
RETURNING runs.id, runs.fence
"""

HOLD = """
UPDATE runs
SET state = 'reserved', lease_id = given.lease_id, incarnation = $4, revision = given.revision, reserved_at = $5,
    ready_at = greatest(due_at, $5) + $6
FROM unnest($1::text::bigint[], $2::text::text[], $3::text::integer[]) given (id, lease_id, revision)
WHERE runs.id = given.id AND runs.id = ANY((SELECT $1::text::bigint[])::bigint[])
"""

# Whether something is due that was not taken; and when something will be: a run enters the horizon, or somebody else's
# reservation lapses. Not those that wait at a gate or are held by a pause: they are ready never.
LIST_LATER = f"""
SELECT EXISTS (
           SELECT 1 FROM runs r JOIN jobs j ON j.id = r.job_id
           WHERE r.route = line.route AND r.priority = line.priority AND r.state <> 'running' AND r.rank IS NULL
             AND r.ready_at <= $3 AND (r.expires_at IS NULL OR r.expires_at > $3) AND j.task = ANY($6)
             AND {_IS_SERVED.format(7)}),
       later.ready_at,
       (SELECT min(r.ready_at) FROM runs r
        WHERE r.route = line.route AND r.priority = line.priority AND r.state <> 'running' AND r.rank IS NULL
          AND r.ready_at > $3 AND r.ready_at < coalesce(later.ready_at, {NEVER})
          AND r.state = 'reserved' AND r.incarnation <> $5)
FROM unnest($1::text[], $2::smallint[]) line (route, priority)
LEFT JOIN LATERAL (
    SELECT r.ready_at FROM runs r
    WHERE r.route = line.route AND r.priority = line.priority AND r.state <> 'running' AND r.rank IS NULL
      AND r.ready_at > $4 AND r.ready_at < {NEVER} AND r.state = 'scheduled'
    ORDER BY r.ready_at LIMIT 1) later ON true
"""  # noqa: S608 - a constant

IS_RANKED_LEFT = f"""
SELECT EXISTS (
    SELECT 1 FROM runs r JOIN jobs j ON j.id = r.job_id
    WHERE r.route = ANY($1) AND r.rank IS NOT NULL AND r.state <> 'running' AND r.ready_at <= $2
      AND (r.expires_at IS NULL OR r.expires_at > $2) AND j.task = ANY($3) AND {_IS_SERVED.format(4)})
"""  # noqa: S608 - a constant


class HeldNode(NamedTuple):
    """A node whose lease is alive, and the time."""

    id: str
    void_below: int
    draining: bool
    now: Micros


async def hold_node(tx: Transaction, incarnation: str, now: Micros | None) -> HeldNode:
    """The node that asks for runs; `NodeExpired` unless its lease is alive. Until the end of the transaction nobody
    ends, drains or voids it, and nobody pauses a queue."""
    row = await tx.row(FIND_NODE, incarnation)
    at: Micros = (0 if row is None else row[5]) if now is None else now
    if row is None or row[0] or row[1] <= at:
        raise NodeExpired(f"incarnation {incarnation}: its lease has ended; register a new one to go on")
    return HeldNode(row[2], row[3], row[4], at)


class Reserve(Tables):
    """See `RunsSlice.reserve`."""

    async def reserve(self, ask: Ask, *, now: Micros | None = None) -> Reserved:
        return await self.write(lambda tx: self._reserve(tx, ask, now))

    async def _reserve(self, tx: Transaction, ask: Ask, now: Micros | None) -> Reserved:
        node = await hold_node(tx, ask.incarnation, now)
        at = node.now
        reserved = Reserved(at)
        if ask.number < node.void_below or node.draining:
            return reserved
        lines = await _find_lines(tx, ask, node.id, at)
        due, more = await _find_due(tx, lines, ask, at)
        ahead = await _ahead(tx, lines, ask, at) if ask.ahead else []
        lease_ids = iter(ask.lease_ids)
        reserved.armed = await self._leases(tx, [row for row in due if not row[GATED]], lease_ids, ask, at)
        held = [*(row for row in due if row[GATED]), *ahead]
        reserved.held = await self._leases(tx, held, lease_ids, ask, at)
        await _write_armed(tx, reserved.armed, at)
        await _write_held(tx, reserved.held, ask, at)
        await pass_time(tx, [(row[QUEUE], row[RANK]) for row in due if row[RANK] is not None])
        faults.point("reserve.in_transaction")
        full = len(ahead) >= ask.ahead
        is_short = len(due) < ask.seats
        reserved.look_again_at = at if more else await _next_free(tx, lines, ask, at, full=full, is_short=is_short)
        return reserved

    async def _leases(
        self, tx: Transaction, rows: Sequence[Candidate], lease_ids: Iterator[str], ask: Ask, now: Micros
    ) -> list[Lease]:
        if not rows:
            return []
        checkpoints = await find_checkpoints(tx, (row[RUN] for row in rows if row[ATTEMPT]))
        await self.records.load(tx, [(row[JOB], row[REVISION], row[STATE]) for row in rows])
        leases = []
        for row in rows:
            run_id = row[RUN]
            try:
                record = self.records.find(row[JOB], row[REVISION])
            except StoreUnusable:
                # Nobody can run it: it goes to the dead-letter box, so that the others can proceed.
                await end_waiting(tx, run_id, RunState.DEAD, "unreadable", now)
                continue
            leases.append(lease_of(row, next(lease_ids), record, ask, now, checkpoints.get(run_id)))
        return leases


async def _find_lines(tx: Transaction, ask: Ask, node_id: str, now: Micros) -> Lines:
    ranges = lines_of(ask.queues, node_id, ask.incarnation)
    rows = await tx.rows(LIST_LINES, [start for start, _ in ranges], [end for _, end in ranges])
    found = [(route, level) for route, level, is_paused, is_fair in rows if not is_paused and not is_fair]
    paused = [name for name, _, is_paused, _ in rows if is_paused]
    plain = [line for line in found if is_served(line[0], ask, paused)]
    if not any(is_fair and name in ask.queues for name, _, _, is_fair in rows):
        return Lines(plain, [], paused)
    fair = {name: queue for name, queue in (await fair_queues(tx)).items() if name in ask.queues}
    for route, level in plain:
        name = read_route(route).queue
        if name in fair and is_shared(route):
            await rank_due(tx, name, fair[name], route, level, now)
    routes: list[str] = []
    for name in fair:
        routes += [route for (route,) in await tx.rows(LIST_RANKED_ROUTES, ranked(name), ranked(name) + END)]
    return Lines(plain, [route for route in routes if is_served(route, ask, paused)], paused)


async def _find_due(tx: Transaction, lines: Lines, ask: Ask, now: Micros) -> tuple[list[Candidate], bool]:
    """What is taken of what is due, and whether there is more.

    Most of the time all that is due is of quick jobs, or nothing is: then no more is looked at, and locked, than can be
    taken. The quick ones may be anywhere behind a backlog: only if there is one, we look further.
    """
    room = ask.seats + ask.extra
    if not room:
        return [], False
    rows = await _due(tx, lines, ask, now, room + 1)  # one more: then we know that there is more
    due, more = choose_due(merge(*rows, key=_AGE), ask)
    if more and len(due) < room and any(len(line) > room for line in rows):
        due, more = choose_due(merge(*await _due(tx, lines, ask, now, room + len(ask.lease_ids) + 1), key=_AGE), ask)
    return due, more


async def _due(tx: Transaction, lines: Lines, ask: Ask, now: Micros, most: int) -> list[list[Candidate]]:
    """What is due and this worker may take, by line, each in the order of its age; each locked by us."""
    values = (now, sorted(ask.tasks), lines.paused, most)
    scans: list[list[Candidate]] = []
    if lines.plain:
        routes, levels = zip(*lines.plain, strict=True)
        bonuses = [BONUS[level] for level in levels]
        scans += _apart(await tx.rows(LIST_DUE_RUNS, *values, routes, levels, bonuses))
    if lines.ranked:
        scans += _apart(await tx.rows(LIST_RANKED, *values, lines.ranked))
    return scans


async def _ahead(tx: Transaction, lines: Lines, ask: Ask, now: Micros) -> list[Candidate]:
    """What will be due within the horizon, earliest first."""
    if not lines.plain:
        return []
    routes, levels = zip(*lines.plain, strict=True)
    values = (now, sorted(ask.tasks), lines.paused, ask.ahead, routes, levels, [0] * len(levels), now + ask.horizon)
    return list(islice(merge(*_apart(await tx.rows(LIST_AHEAD, *values)), key=_AGE), ask.ahead))


def _apart(rows: Iterable[Any]) -> list[list[Candidate]]:
    """The candidates of each line, in its order."""
    scans: dict[int, list[Candidate]] = {}
    for row in rows:
        scans.setdefault(row[_LINE], []).append(row)
    return list(scans.values())


async def _write_armed(tx: Transaction, leases: Sequence[Lease], now: Micros) -> None:
    if not leases:
        return
    rows = await tx.rows(ARM_NOW, *_columns(leases), leases[0].incarnation, now)
    fences: dict[int, int] = dict(rows)
    for lease in leases:
        lease.fence = fences[lease.run_id]
        lease.armed_at = now


async def _write_held(tx: Transaction, leases: Sequence[Lease], ask: Ask, now: Micros) -> None:
    if leases:
        await tx.do(HOLD, *_columns(leases), ask.incarnation, now, ask.lapse)


def _columns(leases: Sequence[Lease]) -> tuple[str, str, str]:
    return (
        numbers(lease.run_id for lease in leases),
        words([lease.lease_id for lease in leases]),
        numbers(lease.record.revision for lease in leases),
    )


async def _next_free(
    tx: Transaction, lines: Lines, ask: Ask, now: Micros, *, full: bool, is_short: bool
) -> Micros | None:
    """When to ask again: now if something is due that there was no seat for; else as the next run enters the horizon,
    or as somebody else's reservation lapses.

    A worker that has no room ahead can take the next run at its due instant only. What is due although there were
    seats is locked by somebody.
    """
    horizon = 0 if full else ask.horizon
    found: list[Micros] = []
    left = False
    tasks = sorted(ask.tasks)
    if lines.plain:
        routes, levels = zip(*lines.plain, strict=True)
        rows = await tx.rows(LIST_LATER, routes, levels, now, now + horizon, ask.incarnation, tasks, lines.paused)
        for is_due, enters_at, lapses_at in rows:
            left = left or is_due
            found += [enters_at - horizon] if enters_at is not None else []
            found += [lapses_at] if lapses_at is not None else []
    if lines.ranked and not left:
        left = await tx.value(IS_RANKED_LEFT, lines.ranked, now, tasks, lines.paused)
    if left:
        return now + LOOK_AGAIN if is_short else now
    return min(found, default=None)

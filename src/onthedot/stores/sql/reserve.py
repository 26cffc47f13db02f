"""Reserves runs for a worker: `scheduled` to `reserved` or `running`, and back.

    reserve   node check → lines → what is due, what comes within the horizon → leases → write → when to ask again
    recover   the leases of a worker that lost an answer
    release   gives reserved runs back

A line is a route and a level. Its runs are read in the order of an index. PostgreSQL locks the runs that it reads, and
skips locked runs and jobs, so workers do not wait for each other. SQLite reads a line only until enough runs are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Any, NamedTuple

from onthedot import fault_points
from onthedot.clock import MILLISECOND, NEVER, Micros
from onthedot.model.job import JobRecord
from onthedot.model.route import BONUS, END, is_shared, lines_of, ranked, read_route
from onthedot.model.run import Checkpoint, Lease, RunState
from onthedot.stores.hints import Hint
from onthedot.stores.sql.checkpoints import find_checkpoints
from onthedot.stores.sql.finish import end_waiting
from onthedot.stores.sql.fragments import each_line, each_run, job_of, numbers, release_runs, words
from onthedot.stores.sql.nodes import expired, lock_node
from onthedot.stores.sql.port import Now, Statement, Tx, sql
from onthedot.stores.sql.queues import QUEUES, fair_queues, pass_time, rank_due
from onthedot.stores.values import Reserved, ReserveRequest

LOOK_AGAIN: Micros = 20 * MILLISECOND
"""The delay before the next try if another transaction has locked the due work."""


class Candidate(NamedTuple):
    """A run that a worker may take."""

    age: int  # the instant when it became ready, minus the bonus of its level
    run_id: int
    job_id: int
    revision: int
    state: str  # of its job
    trigger: str
    slot_at: Micros
    due_at: Micros
    args: str | None
    attempt: int
    failures: int
    recoveries: int
    created_at: Micros
    target: str
    queue: str
    level: int
    rank: int | None
    is_gated: bool


class Lines(NamedTuple):
    """What a worker may search: lines (route and level) where runs wait, and routes where runs have ranks."""

    plain: list[tuple[str, int]]
    ranked: list[str]
    paused: tuple[str, ...]  # queues


# ── statements ───────────────────────────────────────────────────────────────────────────────────────────────


class HeldNode(NamedTuple):
    """A node that reserves runs, and the time."""

    id: str
    is_ended: bool
    lease_until: Micros
    void_below: int
    is_draining: bool
    now: Micros
    locked: object


# Locks the node and the queues. Before this transaction ends, no other one ends, drains or voids the node, or pauses a
# queue. The node may still send heartbeats.
HOLD_NODE = sql(
    f"""
    SELECT n.id, n.ended, n.lease_until, n.void_below, n.draining, {{now}},
           <<NULL>>[[pg_advisory_xact_lock_shared(hashtextextended(current_schema() || '{QUEUES}', 0))]]
    FROM nodes n WHERE n.incarnation = $1 [[FOR KEY SHARE OF n]]
    """,  # noqa: S608 - constants
    HeldNode,
)


class Waiting(NamedTuple):
    """A line in which runs wait, or a queue that is paused or shared fairly. `name` is a route or the queue's name."""

    name: str
    level: int
    is_paused: bool
    is_fair: bool


def _routes(index: str, ranks: str) -> str:
    """Return SQL for the routes in which runs wait, with or without ranks. It steps through the index from route to
    route, so the number of runs does not matter. Values: the first name of each range, and the suffix that ends the
    range."""
    waits = f"state <> 'running' AND rank {ranks}"
    return f"""
    WITH RECURSIVE found (route, finish) AS (
        SELECT (SELECT r.route FROM runs r <<INDEXED BY {index}>>
                WHERE r.route >= given.start AND r.route < given.finish AND r.{waits} ORDER BY r.route LIMIT 1),
               given.finish
        FROM (SELECT value AS start, value || $2 AS finish
              FROM [[unnest($1::text[]) value]]<<json_each($1)>>) given
        UNION ALL
        SELECT (SELECT r.route FROM runs r <<INDEXED BY {index}>>
                WHERE r.route > found.route AND r.route < found.finish AND r.{waits} ORDER BY r.route LIMIT 1),
               found.finish FROM found WHERE found.route IS NOT NULL
    )"""  # noqa: S608 - constants of this file


LIST_LINES = sql(
    f"""
    {_routes("runs_ready", "IS NULL")}
    SELECT found.route, level.column1, false, false FROM found CROSS JOIN (VALUES (0), (1), (2), (3)) level
    WHERE EXISTS (
        SELECT 1 FROM runs r <<INDEXED BY runs_ready>>
        WHERE r.route = found.route AND r.priority = level.column1 AND r.state <> 'running' AND r.rank IS NULL
        [[OFFSET 0]])
    UNION ALL
    SELECT name, 0, paused_at IS NOT NULL, weights IS NOT NULL FROM queues
    WHERE paused_at IS NOT NULL OR weights IS NOT NULL
    """,  # noqa: S608 - constants of this file
    Waiting,
)

LIST_RANKED_ROUTES = sql(f"""
{_routes("runs_ranked", "IS NOT NULL")}
SELECT route FROM found WHERE route IS NOT NULL
""")  # noqa: S608 - constants of this file

# The run's queue is not paused. With `<> ALL`, PostgreSQL expects almost no rows to pass, and sorts the whole line.
_NOT_PAUSED = "NOT coalesce(r.queue = ANY(${}), false)"


def _candidates(
    line: str, *, wanted: str, order: str, bonus: str, first: int = 5, index: str = "runs_ready"
) -> Statement[Candidate]:
    """Return a statement that lists the candidates of each line, in the order of the index. Values: now, tasks, paused
    queues, the limit of each line, and the line's own values."""
    text = f"""
    SELECT r.ready_at - {bonus}, r.id, r.job_id, j.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args,
           r.attempt, r.failures, r.recoveries, r.created_at, r.target, r.queue, r.priority, r.rank, j.gated
    FROM runs r <<INDEXED BY {index} CROSS>> JOIN jobs j ON {job_of("r")}
    WHERE r.route = ${first} AND r.state <> 'running' AND {wanted}
      AND (r.expires_at IS NULL OR r.expires_at > $1) AND j.task {{in2}}
      AND [[{_NOT_PAUSED.format(3)}]]<<r.queue {{not_in3}}>>
    ORDER BY {order}, r.id
    [[LIMIT $4 FOR UPDATE OF r SKIP LOCKED FOR KEY SHARE OF j SKIP LOCKED]]
    """  # noqa: S608 - constants of this file
    return each_line(text, line, Candidate, first=first)


# Scheduled, or reserved and lapsed: both are ready.
LIST_DUE = _candidates(
    "route text, priority smallint, bonus bigint",
    wanted="r.priority = $6 AND r.rank IS NULL AND r.ready_at <= $1",
    order="r.ready_at",
    bonus="$7",
)

LIST_AHEAD = _candidates(
    "route text, priority smallint",
    wanted="r.priority = $7 AND r.rank IS NULL AND r.ready_at > $1 AND r.ready_at <= $5 AND r.state = 'scheduled'",
    order="r.ready_at",
    bonus="0",
    first=6,
)

LIST_RANKED = _candidates(
    "route text",
    wanted="r.rank IS NOT NULL AND r.ready_at <= $1",
    order="r.rank",
    bonus="CASE r.priority {} END".format(" ".join(f"WHEN {n} THEN {b}" for n, b in enumerate(BONUS))),
    index="runs_ranked",
)

ARM_NOW = each_run(
    """
    UPDATE runs
    SET state = 'running', lease_id = $2, fence = [[nextval('fences')]]<<$6>>, revision = $3, incarnation = $4,
        reserved_at = $5, armed_at = $5, attempt = attempt + 1, expires_at = NULL
    WHERE id = $1 AND state <> 'running' [[RETURNING runs.id, runs.fence]]
    """,
    "bigint text integer",
    as_text=True,
)

HOLD = each_run(
    """
    UPDATE runs
    SET state = 'reserved', lease_id = $2, revision = $3, incarnation = $4, reserved_at = $5,
        ready_at = {greatest}(due_at, $5) + $6
    WHERE id = $1 AND state <> 'running'
    """,
    "bigint text integer",
    as_text=True,
)


class Later(NamedTuple):
    """When a line has work again."""

    is_due: bool  # a due run was not taken
    enters_at: Micros | None  # the next run behind the horizon
    lapses_at: Micros | None  # another worker's reservation; or when a run with a rank is ready


_OF_LINE = "r.route = $6 AND r.priority = $7 AND r.state <> 'running' AND r.rank IS NULL"

# Leaves out runs that wait at a gate or are held by a pause: they are never ready, and there may be thousands. SQLite
# has read all due runs before this statement.
LIST_LATER = each_line(
    f"""
    SELECT <<0>>[[coalesce((
               SELECT true FROM runs r
               WHERE {_OF_LINE} AND r.ready_at <= $1 AND (r.expires_at IS NULL OR r.expires_at > $1)
                 AND {_NOT_PAUSED.format(5)}
                 AND EXISTS (SELECT 1 FROM jobs j WHERE {job_of("r")} AND j.task = ANY($4))
               LIMIT 1), false)]],
           later.enters_at,
           (SELECT r.ready_at FROM runs r <<INDEXED BY runs_ready>>
            WHERE {_OF_LINE} AND r.ready_at > $1 AND r.ready_at < coalesce(later.enters_at, {NEVER})
              AND r.state = 'reserved' AND r.incarnation <> $3
            ORDER BY r.ready_at LIMIT 1)
    FROM (SELECT (SELECT r.ready_at FROM runs r <<INDEXED BY runs_ready>>
                  WHERE {_OF_LINE} AND r.ready_at > $2 AND r.ready_at < {NEVER} AND r.state = 'scheduled'
                  ORDER BY r.ready_at LIMIT 1) AS enters_at [[OFFSET 0]]) later
    """,  # noqa: S608 - constants of this file
    "route text, priority smallint",
    Later,
    first=6,
)

# The same for runs that have a rank: they are taken when they are ready, never ahead. If none of them is ready,
# `LIST_RANKED` has read them all.
LIST_RANKED_LATER = sql(
    f"""
    SELECT found.is_due, NULL[[::bigint]], CASE WHEN NOT found.is_due THEN (
        SELECT min(r.ready_at) FROM runs r <<INDEXED BY runs_ranked>>
        WHERE r.route {{in1}} AND r.rank IS NOT NULL AND r.ready_at > $2 AND r.ready_at < {NEVER}
          AND (r.state = 'scheduled' OR r.state = 'reserved' AND r.incarnation <> $3)) END
    FROM (SELECT <<0>>[[EXISTS (
        SELECT 1 FROM runs r
        WHERE r.route {{in1}} AND r.rank IS NOT NULL AND r.state <> 'running' AND r.ready_at <= $2
          AND (r.expires_at IS NULL OR r.expires_at > $2) AND {_NOT_PAUSED.format(5)}
          AND EXISTS (SELECT 1 FROM jobs j WHERE {job_of("r")} AND j.task = ANY($4)))]] AS is_due [[OFFSET 0]]) found
    """,  # noqa: S608 - constants of this file
    Later,
)

LEASES = """
SELECT r.lease_id, r.id, r.job_id, r.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args,
       r.attempt + (r.state = 'reserved')[[::integer]], r.failures, r.recoveries, r.incarnation, r.created_at,
       r.reserved_at, coalesce(r.armed_at, 0), coalesce(r.fence, 0), r.target, r.queue, r.priority
FROM {source} WHERE {wanted} ORDER BY r.id
"""
"""The rows that `leases_of` reads."""

LIST_HELD = sql(
    LEASES.format(
        source=f"runs r <<INDEXED BY runs_held CROSS>> JOIN jobs j ON {job_of('r')}", wanted="r.incarnation = $1"
    )
)

VOID = sql("UPDATE nodes SET void_below = {greatest}(void_below, $1) WHERE incarnation = $2")

# A lease id belongs to one run.
RELEASE = release_runs("id {in1} AND lease_id {in2}")


# ── reserve ──────────────────────────────────────────────────────────────────────────────────────────────────


async def hold_node(tx: Tx, incarnation: str, now: Now) -> HeldNode:
    """Return the node that reserves runs. Raise `NodeExpired` unless its lease is alive. Before the transaction ends,
    no other one ends, drains or voids the node, or pauses a queue."""
    node = await tx.row(HOLD_NODE, incarnation)
    if node is not None and now is not None:
        node = node._replace(now=now)
    if node is None or node.is_ended or node.lease_until <= node.now:
        raise expired(incarnation)
    return node


async def reserve(tx: Tx, ask: ReserveRequest, *, now: Now = None) -> Reserved:
    """Reserve runs that are due or become due within the horizon. Arm those that are due and have no gates."""
    node = await hold_node(tx, ask.incarnation, now)
    now = node.now
    reserved = Reserved(now)
    if ask.number < node.void_below or node.is_draining:
        return reserved
    lines = await _find_lines(tx, ask, node.id, now)
    due, more = await _find_due(tx, lines, ask, now)
    ahead = await _find_ahead(tx, lines, ask, now) if ask.ahead else []
    lease_ids = iter(ask.lease_ids)
    reserved.armed = await _give_leases(tx, [run for run in due if not run.is_gated], lease_ids, ask, now)
    held = [*(run for run in due if run.is_gated), *ahead]
    reserved.held = await _give_leases(tx, held, lease_ids, ask, now)
    await _write_armed(tx, reserved.armed, ask, now)
    await _write_held(tx, reserved.held, ask, now)
    taken = [(run.queue, run.rank) for run in due if run.rank is not None]
    if taken:
        await pass_time(tx, taken)
    fault_points.point("reserve.in_transaction")
    if more:
        reserved.look_again_at = now
    else:
        is_full, is_short = len(ahead) >= ask.ahead, len(due) < ask.seats
        reserved.look_again_at = await _next_free(tx, lines, ask, now, is_full=is_full, is_short=is_short)
    return reserved


async def _find_lines(tx: Tx, ask: ReserveRequest, node_id: str, now: Micros) -> Lines:
    starts = tuple(start for start, _ in lines_of(ask.queues, node_id, ask.incarnation))
    rows = await tx.rows(LIST_LINES, starts, END)
    paused = tuple(row.name for row in rows if row.is_paused)
    lines = [(row.name, row.level) for row in rows if not row.is_paused and not row.is_fair]
    plain = [(route, level) for route, level in lines if is_served(route, ask, paused)]
    if not any(row.is_fair and row.name in ask.queues for row in rows):
        return Lines(plain, [], paused)
    fair = await fair_queues(tx, ask.queues)
    for route, level in plain:
        name = read_route(route).queue
        if name in fair and is_shared(route):
            await rank_due(tx, name, fair[name], route, level, now)
    routes = await tx.values(LIST_RANKED_ROUTES, [ranked(name) for name in fair], END)
    return Lines(plain, [route for route in routes if is_served(route, ask, paused)], paused)


def is_served(route: str, ask: ReserveRequest, paused: Collection[str]) -> bool:
    """Return whether the worker has the labels of this route, and the route's queue is not paused."""
    queue, labels = read_route(route)
    return labels <= ask.labels and queue not in paused


async def _find_due(tx: Tx, lines: Lines, ask: ReserveRequest, now: Micros) -> tuple[list[Candidate], bool]:
    """Return the due runs to take, and whether more runs are due.

    PostgreSQL reads and locks only as many runs as can be taken. It reads further only if there is a backlog, because
    quick runs may be anywhere behind it.
    """
    room = ask.seats + ask.extra
    if tx.concurrent and not room:
        return [], False  # LIST_LATER finds due runs without locks
    scans = await _scan_due(tx, lines, ask, now, room + 1)  # one more shows whether more is due
    due, more = choose_due(_in_order(scans), ask)
    if more and len(due) < room and any(isinstance(scan, list) and len(scan) > room for scan in scans):
        scans = await _scan_due(tx, lines, ask, now, room + len(ask.lease_ids) + 1)
        return choose_due(_in_order(scans), ask)
    return due, more


async def _scan_due(tx: Tx, lines: Lines, ask: ReserveRequest, now: Micros, most: int) -> list[Iterable[Candidate]]:
    """Return the due runs of each line."""
    values = (now, tuple(sorted(ask.tasks)), lines.paused, most)
    scans = await tx.scan(LIST_DUE, [(route, level, BONUS[level]) for route, level in lines.plain], *values)
    return scans + await tx.scan(LIST_RANKED, [(route,) for route in lines.ranked], *values)


async def _find_ahead(tx: Tx, lines: Lines, ask: ReserveRequest, now: Micros) -> list[Candidate]:
    """Return the runs that become due within the horizon, earliest first."""
    values = (now, tuple(sorted(ask.tasks)), lines.paused, ask.ahead, now + ask.horizon)
    return list(islice(_in_order(await tx.scan(LIST_AHEAD, lines.plain, *values)), ask.ahead))


def _in_order(scans: Sequence[Iterable[Candidate]]) -> Iterator[Candidate]:
    """Return the candidates of all lines by age, then by id. A single line keeps its order."""
    return iter(scans[0]) if len(scans) == 1 else merge(*scans)


def choose_due(runs: Iterator[Candidate], ask: ReserveRequest) -> tuple[list[Candidate], bool]:
    """Choose one run for each seat, then quick runs. Return them, and whether more runs are due than there was room
    for."""
    chosen = list(islice(runs, ask.seats))
    extra, more = ask.extra, 0
    for run in runs:
        if extra and run.job_id in ask.quick and not run.is_gated:
            extra -= 1
            chosen.append(run)
            continue
        more += 1
        if not extra or more >= len(ask.lease_ids):
            break  # far enough into the backlog
    return chosen, more > 0


async def _give_leases(
    tx: Tx, runs: Sequence[Candidate], lease_ids: Iterator[str], ask: ReserveRequest, now: Micros
) -> list[Lease]:
    if not runs:
        return []
    checkpoints = await find_checkpoints(tx, [run.run_id for run in runs if run.attempt])
    records = await tx.records.load(tx, {(run.job_id, run.revision, run.state) for run in runs})
    leases = []
    for run in runs:
        record = records.get((run.job_id, run.revision))
        if record is not None:
            leases.append(lease_of(run, next(lease_ids), record, ask, now, checkpoints.get(run.run_id)))
        else:  # no worker can run it, so it becomes a dead letter
            await end_waiting(tx, run.run_id, RunState.DEAD, "unreadable", now, late=True)
    return leases


def lease_of(
    run: Candidate, lease_id: str, record: JobRecord, ask: ReserveRequest, now: Micros, checkpoint: Checkpoint | None
) -> Lease:
    """Return the lease of a candidate."""
    return Lease(
        lease_id, run.run_id, record, run.trigger, run.slot_at, run.due_at, run.args, run.attempt + 1, run.failures,
        run.recoveries, ask.incarnation, run.created_at, now, 0, 0, run.target, run.queue, run.level, checkpoint,
    )  # fmt: skip


async def _write_armed(tx: Tx, leases: Sequence[Lease], ask: ReserveRequest, now: Micros) -> None:
    if not leases:
        return
    if tx.concurrent:  # one statement, which also draws the fences
        fences: dict[int, int] = dict(await tx.rows(ARM_NOW, *_columns(leases), ask.incarnation, now))
    else:
        fences = dict(zip((lease.run_id for lease in leases), await tx.numbers("fence", len(leases)), strict=True))
        await tx.each(ARM_NOW, [(*row, fences[row[0]]) for row in _rows(leases, ask.incarnation, now)])
    for lease in leases:
        lease.fence, lease.armed_at = fences[lease.run_id], now


async def _write_held(tx: Tx, leases: Sequence[Lease], ask: ReserveRequest, now: Micros) -> None:
    if leases and tx.concurrent:
        await tx.do(HOLD, *_columns(leases), ask.incarnation, now, ask.lapse)
    elif leases:
        await tx.each(HOLD, _rows(leases, ask.incarnation, now, ask.lapse))


def _rows(leases: Sequence[Lease], *rest: object) -> list[tuple[Any, ...]]:
    return [(lease.run_id, lease.lease_id, lease.record.revision, *rest) for lease in leases]


def _columns(leases: Sequence[Lease]) -> tuple[str, str, str]:
    return (
        numbers(lease.run_id for lease in leases),
        words([lease.lease_id for lease in leases]),
        numbers(lease.record.revision for lease in leases),
    )


async def _next_free(
    tx: Tx, lines: Lines, ask: ReserveRequest, now: Micros, *, is_full: bool, is_short: bool
) -> Micros | None:
    """Return when the worker asks again. That is now if a due run had no seat. Otherwise it is when the next run enters
    the horizon, or another worker's reservation lapses. Without room ahead, a run can be taken only when it is due. If
    due runs are left although seats are free, other transactions have locked these runs.
    """
    horizon = 0 if is_full else ask.horizon
    tasks = tuple(sorted(ask.tasks))
    scans = await tx.scan(LIST_LATER, lines.plain, now, now + horizon, ask.incarnation, tasks, lines.paused)
    later = list(chain.from_iterable(scans))
    if lines.ranked and not any(line.is_due for line in later):
        served = (tasks, lines.paused) if tx.concurrent else ()
        later += await tx.rows(LIST_RANKED_LATER, lines.ranked, now, ask.incarnation, *served)
    if any(line.is_due for line in later):
        return now + LOOK_AGAIN if is_short else now
    enters = [line.enters_at - horizon for line in later if line.enters_at is not None]
    return min(enters + [line.lapses_at for line in later if line.lapses_at is not None], default=None)


# ── recover, release ────────────────────────────────────────────────────────────────────────────────────────────


async def recover(tx: Tx, incarnation: str, *, void_below: int = 0) -> list[Lease]:
    """Return the leases of an incarnation. Its requests with a number below `void_below` are void: they get no more
    runs."""
    if void_below:
        await lock_node(tx, incarnation)
        await tx.do(VOID, void_below, incarnation)
    return await leases_of(tx, await tx.rows(LIST_HELD, incarnation))


async def leases_of(tx: Tx, rows: Sequence[Any]) -> list[Lease]:
    """Return the leases from rows of `LEASES`, but not of jobs that this version cannot read. Those wait for a node
    that can."""
    checkpoints = await find_checkpoints(tx, [run_id for _, run_id, *_ in rows])
    records = await tx.records.load(tx, {(job_id, revision, state) for _, _, job_id, revision, state, *_ in rows})
    found = []
    for lease_id, run_id, job_id, revision, _, *rest in rows:
        if (job_id, revision) in records:
            lease = Lease(lease_id, run_id, records[job_id, revision], *rest)
            lease.checkpoint = checkpoints.get(run_id)
            found.append(lease)
    return found


async def release(tx: Tx, leases: Sequence[Lease], *, now: Now = None) -> list[bool]:
    """Release reserved runs. Return for each whether it was still held under its lease."""
    del now
    given = [lease.run_id for lease in leases], [lease.lease_id for lease in leases]
    released = set(await tx.values(RELEASE, *given))
    answers = []
    for lease in leases:
        answers.append(lease.run_id in released)
        if lease.run_id in released:
            released.remove(lease.run_id)  # a run that is named twice is released once
            tx.hints.append(Hint("runs", lease.due_at))
    return answers

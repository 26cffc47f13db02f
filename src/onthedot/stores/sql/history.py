"""Reads runs, attempts and dead letters for people, and explains why a run waits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from onthedot.clock import Micros
from onthedot.model.retention import Mark
from onthedot.model.route import PRIORITIES, placed_incarnation, waits_for_leader
from onthedot.model.run import AttemptRecord, Progress, RunRecord, RunState, WaitReason
from onthedot.stores.sql.fragments import job_of
from onthedot.stores.sql.port import Tx, plain, sql
from onthedot.stores.values import LAST_MARK, Held, Owned, most

# ── runs and attempts ────────────────────────────────────────────────────────────────────────────────────────────

_PROGRESS = """
(SELECT n.progress FROM notes n WHERE n.run_id = {id} AND n.progress IS NOT NULL ORDER BY n.attempt DESC LIMIT 1)
"""

# The last attempt that has ended. Without LIMIT, PostgreSQL may read all attempts.
_LAST_ATTEMPT = """[[
LEFT JOIN LATERAL (SELECT a.node, a.revision FROM attempts a WHERE a.run_id = {id} AND a.attempt = {attempt} LIMIT 1) a
ON true]]<<
LEFT JOIN attempts a ON a.run_id = {id} AND a.attempt = {attempt}>>
"""

# The current or last node. Attempts are recorded once they have ended.
LIVE_NODE = """
CASE WHEN r.incarnation IS NULL THEN coalesce(a.node, '')
     ELSE coalesce((SELECT o.id FROM nodes o WHERE o.incarnation = r.incarnation), '') END
"""

# The columns are those of `RunRecord`, in its order. `source` joins runs r (or history h) and jobs j.
LIVE = f"""
SELECT r.id, j.name, j.namespace, r.trigger, r.slot_at, r.due_at, r.state, r.reason, r.attempt, r.failures,
       r.recoveries, r.created_at, r.armed_at, NULL[[::bigint]], NULL[[::bigint]], NULL[[::text]], NULL[[::text]],
       r.queue, r.priority, r.target, {_PROGRESS.format(id="r.id")}, r.args, '',
       j.owner, {LIVE_NODE}, coalesce(r.revision, a.revision, 0), j.id
FROM {{source}} {_LAST_ATTEMPT.format(id="r.id", attempt="r.attempt")}
WHERE {{wanted}}
"""  # noqa: S608 - constants of this file

FINISHED = f"""
SELECT h.id, j.name, j.namespace, h.trigger, h.slot_at, h.due_at, h.state, h.reason, h.attempts, h.failures,
       h.recoveries, h.created_at, h.armed_at, h.started_at, h.ended_at, h.error, h.result,
       h.queue, h.priority, h.target, {_PROGRESS.format(id="h.id")}, h.args, coalesce(h.settled, ''),
       j.owner, coalesce(a.node, ''), coalesce(a.revision, 0), j.id
FROM {{source}} {_LAST_ATTEMPT.format(id="h.id", attempt="h.attempts")}
WHERE {{wanted}}
"""  # noqa: S608

_AT_STATE, _AT_PRIORITY, _AT_PROGRESS = 6, 18, 20  # their places in a run's row


def shown(*row: Any) -> RunRecord:
    """Return a run from its row."""
    run = list(row)
    run[_AT_STATE] = RunState(run[_AT_STATE])
    run[_AT_PRIORITY] = PRIORITIES[run[_AT_PRIORITY]]
    run[_AT_PROGRESS] = None if run[_AT_PROGRESS] is None else Progress(*json.loads(run[_AT_PROGRESS]))
    return RunRecord(*run)


# CROSS JOIN: SQLite reads the runs first.
SHOW_LIVE = sql(
    LIVE.format(source="runs r CROSS JOIN jobs j <<NOT INDEXED>>", wanted=f"{job_of('r')} AND r.id {{in1}}"),
    shown,
)

SHOW_FINISHED = sql(
    FINISHED.format(source="history h CROSS JOIN jobs j", wanted="j.id = h.job_id AND h.id {in1}"), shown
)

# Retention bounds a job's history. So this reads all of it, without an index of its own.
LIST_RUNS_OF_SLOTS = sql("""
SELECT slot_at, state FROM runs WHERE job_id = $1 AND slot_at BETWEEN $2 AND $3 AND trigger = $4
UNION ALL
SELECT slot_at, state FROM history <<INDEXED BY history_job_ended>>
WHERE job_id = $1 AND slot_at BETWEEN $2 AND $3 AND trigger = $4
ORDER BY slot_at, state
""")

ATTEMPT = """a.run_id, a.attempt, a.lease_id, a.fence, a.node, a.revision, a.outcome, a.error, a.due_at, a.reserved_at,
a.armed_at, a.started_at, a.ended_at"""
"""The columns of an `AttemptRecord`."""

LIST_ATTEMPTS = sql(f"SELECT {ATTEMPT} FROM attempts a WHERE a.run_id = $1 ORDER BY a.attempt", AttemptRecord)  # noqa: S608

COUNT_RUNS = sql("""
SELECT state, count(*) FROM runs GROUP BY state UNION ALL SELECT state, count(*) FROM history GROUP BY state
""")


async def get_run(tx: Tx, run_id: int) -> RunRecord | None:
    return await tx.row(SHOW_LIVE, [run_id]) or await tx.row(SHOW_FINISHED, [run_id])


async def get_runs(tx: Tx, run_ids: Sequence[int]) -> list[RunRecord]:
    wanted = sorted(set(run_ids))
    found = [*await tx.rows(SHOW_LIVE, wanted), *await tx.rows(SHOW_FINISHED, wanted)]
    return sorted(found, key=attrgetter("id"))


async def finished_runs(tx: Tx, run_ids: Sequence[int]) -> dict[int, RunRecord]:
    """Return finished runs by id."""
    return {run.id: run for run in await tx.rows(SHOW_FINISHED, run_ids)} if run_ids else {}


async def runs_of_slots(
    tx: Tx, job_id: int, trigger: str, *, first: Micros, last: Micros
) -> list[tuple[Micros, RunState]]:
    rows = await tx.rows(LIST_RUNS_OF_SLOTS, job_id, first, last, trigger)
    return [(slot_at, RunState(state)) for slot_at, state in rows]


async def list_attempts(tx: Tx, run_id: int) -> list[AttemptRecord]:
    return await tx.rows(LIST_ATTEMPTS, run_id)


async def count_runs(tx: Tx) -> dict[RunState, int]:
    counts = dict(await tx.rows(COUNT_RUNS))
    return {state: counts[state.value] for state in RunState if state.value in counts}


# ── dead letters: dead runs that no user has settled ──────────────────────────────────────────────────────────────

# Reads backwards from the newest end, along an index of the dead letters only.
LIST_DEAD = sql(
    FINISHED.format(
        source="history h <<INDEXED BY history_dead>> CROSS JOIN jobs j",
        wanted="""j.id = h.job_id AND h.state = 'dead' AND h.settled IS NULL AND h.ended_at >= $1
AND [[(h.ended_at, h.id) < ($2, $3)]]<<h.ended_at <= $2 AND (h.ended_at < $2 OR h.id < $3)>>
AND j.namespace = $4 AND ($5[[::text]] IS NULL OR j.name = $5)
ORDER BY h.ended_at DESC, h.id DESC LIMIT $6""",
    ),
    shown,
)

# All transactions lock in one order, so that no two wait for each other. If two want the same runs, the later one finds
# them settled.
LOCK_DEAD = sql("""
SELECT id FROM history WHERE id {in1} AND state = 'dead' AND settled IS NULL ORDER BY id [[FOR UPDATE]]
""")

SETTLE = sql("UPDATE history SET settled = $2 WHERE id = $1 AND state = 'dead' AND settled IS NULL")


async def list_dead(
    tx: Tx, *, job: str | None = None, namespace: str = "default", since: Micros = 0, before: Mark = LAST_MARK,
    limit: int | None = None,
) -> list[RunRecord]:  # fmt: skip
    return await tx.rows(LIST_DEAD, since, before.ended_at, before.run_id, namespace, job, most(limit))


async def settle_dead(tx: Tx, settled: Sequence[tuple[int, str]]) -> list[bool]:
    dead = set(await tx.values(LOCK_DEAD, sorted({run_id for run_id, _ in settled})))
    words: dict[int, str | None] = {}
    answers = []
    for run_id, word in settled:
        answers.append(run_id in dead and run_id not in words)
        words.setdefault(run_id, plain(word))
    await tx.each(SETTLE, [(run_id, word) for run_id, word in words.items() if run_id in dead])
    return answers


# ── why a run waits, and how many runs nodes and owners hold ──────────────────────────────────────────────────────────

COUNT_HELD = sql("""
SELECT incarnation, count(*) FILTER (WHERE state = 'reserved'), count(*) FILTER (WHERE state = 'running')
FROM runs <<INDEXED BY runs_held>> WHERE incarnation IS NOT NULL GROUP BY incarnation
""")

COUNT_OWNED = sql("""
SELECT (SELECT count(*) FROM jobs <<INDEXED BY jobs_owner>>
        WHERE owner = $1 AND state <> 'deleted' AND namespace = coalesce($2[[::text]], namespace)),
       (SELECT count(*) FROM jobs j <<INDEXED BY jobs_owner>> CROSS JOIN runs r <<INDEXED BY runs_key>>
        WHERE r.job_id = j.id AND j.owner = $1 AND j.state <> 'deleted'
          AND j.namespace = coalesce($2[[::text]], j.namespace))
""")

FIND_STANDING = sql("""
SELECT r.expires_at, coalesce(n.id, ''), coalesce(r.incarnation, ''), r.reserved_at, coalesce(r.fence, 0),
       coalesce(r.blocked_on, ''), r.granted_at, r.cancel_wanted, r.route
FROM runs r LEFT JOIN nodes n ON n.incarnation = r.incarnation WHERE r.id = $1
""")

LIST_HOLDERS = sql("SELECT run_id FROM gate_holders WHERE key = $1 ORDER BY run_id")


async def count_held(tx: Tx) -> dict[str, Held]:
    return {incarnation: Held(reserved, running) for incarnation, reserved, running in await tx.rows(COUNT_HELD)}


async def count_owned(tx: Tx, owner: str, *, namespace: str | None = None) -> Owned:
    [(jobs, runs)] = await tx.rows(COUNT_OWNED, owner, namespace)
    return Owned(jobs, runs)


async def why_waiting(tx: Tx, run_id: int) -> WaitReason | None:
    row = await tx.row(FIND_STANDING, run_id)
    if row is None:
        return None
    expires_at, node, incarnation, reserved_at, fence, gate, granted_at, cancel_wanted, route = row
    holders = await tx.values(LIST_HOLDERS, gate) if gate else ()
    return WaitReason(
        run_id, expires_at, node, incarnation, reserved_at, fence, gate, tuple(holders), granted_at,
        waits_for_leader(route), placed_incarnation(route) or "", cancel_wanted,
    )  # fmt: skip

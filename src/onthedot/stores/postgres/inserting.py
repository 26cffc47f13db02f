"""New runs, in PostgreSQL: where each is to wait, and one statement for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onthedot.clock import NEVER, Micros
from onthedot.stores.lines import Line, give_turns, line_of, places_of_turns, share_of
from onthedot.stores.planned import Insert
from onthedot.stores.postgres.transaction import NOW, Transaction
from onthedot.stores.postgres.turns import Fair, fair_queues, take_turns

# Where runs of these jobs wait; whether any queue is shared fairly; and the time. Until the end of the transaction
# nobody edits or pauses the jobs.
HOLD_ROUTES = f"""
SELECT id, state, queue, route, priority, share, EXISTS (SELECT 1 FROM queues WHERE weights IS NOT NULL), revision,
       {NOW}
FROM jobs WHERE id = ANY($1) ORDER BY id FOR KEY SHARE
"""  # noqa: S608 - a constant

LIST_DEFAULT_ARGS = """
SELECT j.id, v.definition::json ->> 'args'
FROM jobs j JOIN job_revisions v ON v.job_id = j.id AND v.revision = j.revision WHERE j.id = ANY($1)
"""

TAKE_IDS = "SELECT nextval('run_ids') FROM generate_series(1, $1)"

# A key that is there already is the same run. In the order of the keys, so that no two who insert wait for each other.
INSERT_RUNS = """
INSERT INTO runs (id, job_id, trigger, slot_at, due_at, ready_at, expires_at, args, delayed, route, priority, rank,
                  queue, share, target, created_at)
SELECT coalesce(new.id, nextval('run_ids')), new.job_id, new.trigger, new.slot_at, new.due_at, new.ready_at,
       new.expires_at, new.args, new.delayed, new.route, new.priority, new.rank, new.queue, new.share, new.target, $16
FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
    $9::boolean[], $10::text[], $11::smallint[], $12::bigint[], $13::text[], $14::text[], $15::text[]
) new (id, job_id, trigger, slot_at, due_at, ready_at, expires_at, args, delayed, route, priority, rank, queue, share,
       target)
ORDER BY job_id, slot_at, trigger COLLATE "C", target COLLATE "C"
ON CONFLICT (job_id, slot_at, trigger, target) DO NOTHING
RETURNING id
"""


Jobs = dict[int, Sequence[Any]]
"""Rows of `HOLD_ROUTES`, by job."""


async def hold_routes(tx: Transaction, job_ids: Iterable[int]) -> Jobs:
    """Where runs of these jobs wait. They are neither edited nor paused before this transaction has ended."""
    return {row[0]: row for row in await tx.rows(HOLD_ROUTES, list(set(job_ids)))}


async def insert_runs(
    tx: Transaction, runs: Sequence[Insert], now: Micros, jobs: Jobs | None = None
) -> list[int | None]:
    """Insert runs with the next ids, in order; the id of each, None for those that were there before.

    Runs of paused jobs are held until they are resumed, and do not expire.
    """
    if jobs is None:
        jobs = await hold_routes(tx, (run.job_id for run in runs))
    lines = await _lines(tx, runs, jobs, now)
    if len(runs) == 1:
        ids: list[int | None] = [None]  # drawn on the way
    else:
        ids = [number for (number,) in await tx.rows(TAKE_IDS, len(runs))]
    held = [jobs[run.job_id][1] == "paused" for run in runs]
    columns = zip(*lines, strict=True)
    route, priority, rank, queue, share = (list(column) for column in columns)
    rows = await tx.rows(
        INSERT_RUNS,
        ids,
        [run.job_id for run in runs],
        [run.trigger for run in runs],
        [run.slot_at for run in runs],
        [run.due_at for run in runs],
        [NEVER if paused else run.due_at for run, paused in zip(runs, held, strict=True)],
        [None if paused else run.expires_at for run, paused in zip(runs, held, strict=True)],
        [run.args for run in runs],
        [run.delayed for run in runs],
        route,
        priority,
        rank,
        queue,
        share,
        [run.target for run in runs],
        now,
    )
    inserted: set[int] = {run_id for (run_id,) in rows}
    if len(runs) == 1:
        return [min(inserted, default=None)]
    return [run_id if run_id in inserted else None for run_id in ids]


async def _lines(tx: Transaction, runs: Sequence[Insert], jobs: Jobs, now: Micros) -> list[Line]:
    """Where these runs are to wait."""
    sharing = {run.job_id for run in runs if run.args is None and jobs[run.job_id][5]}
    args: dict[int, str] = dict(await tx.rows(LIST_DEFAULT_ARGS, list(sharing))) if sharing else {}
    lines = []
    for run in runs:
        _, _, queue, route, priority, share, *_ = jobs[run.job_id]
        of = share_of(run.args or args.get(run.job_id), str(share)) if share else ""
        lines.append(line_of(run, queue, route, priority, of))
    fair = await fair_queues(tx) if any(job[6] for job in jobs.values()) else {}
    return await _ranked(tx, runs, lines, fair, now) if fair else lines


async def _ranked(
    tx: Transaction, runs: Sequence[Insert], lines: list[Line], fair: dict[str, Fair], now: Micros
) -> list[Line]:
    """In queues that are shared fairly, runs that are due already get their turns."""
    for name, queue in fair.items():
        places = places_of_turns(runs, lines, name, now)
        ranks = await take_turns(tx, name, queue, [(lines[place].share, lines[place].priority) for place in places])
        give_turns(lines, places, ranks)
    return lines

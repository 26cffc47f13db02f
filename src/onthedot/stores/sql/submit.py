"""Inserts new runs with one statement. The same key gives the same run, even if several callers submit it at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from onthedot.clock import NEVER, Micros
from onthedot.model.errors import KeyConflict, UnknownJob
from onthedot.model.route import on_node
from onthedot.model.run import NewRun
from onthedot.rules.window_writes import Insert, check_revision
from onthedot.stores.documents import Noting
from onthedot.stores.hints import Hint
from onthedot.stores.sql.documents import append_entries, lock_of
from onthedot.stores.sql.fragments import each_line
from onthedot.stores.sql.port import Contended, Now, Statement, Tx, sql, striped

# ── insert ───────────────────────────────────────────────────────────────────────────────────────────────────


class JobRoute(NamedTuple):
    """The place where a job's runs wait."""

    job_id: int
    state: str
    queue: str
    route: str
    priority: int
    share: str
    revision: int
    now: Micros


# Locks the jobs: nobody edits or pauses them before the transaction ends.
_ROUTES = """
SELECT id, state, queue, route, priority, share, revision, (SELECT {now}) FROM jobs WHERE id """

LOCK_ROUTES = sql(_ROUTES + "{in1} ORDER BY id [[FOR KEY SHARE]]", JobRoute)

LOCK_ROUTE = sql(_ROUTES + "= $1 [[FOR KEY SHARE]]", JobRoute)  # most submits name one job: this saves SQLite 8 µs

LIST_DEFAULT_ARGS = sql("""
SELECT j.id, [[v.definition::json ->> 'args']]<<json_extract(v.definition, '$.args')>>
FROM jobs j JOIN job_revisions v ON v.job_id = j.id AND v.revision = j.revision WHERE j.id {in1}
""")

_COLUMNS = """
id, job_id, trigger, slot_at, due_at, ready_at, expires_at, args, delayed, route, priority, queue, share, target
"""

# A run whose key is already stored is not inserted again. PostgreSQL inserts in the order of the keys, so that no two
# transactions wait for each other. It draws an id where the id is NULL.
INSERT_RUNS = sql(
    f"""
    INSERT INTO runs ({_COLUMNS}, created_at)
    SELECT coalesce(new.id, nextval('run_ids')), new.job_id, new.trigger, new.slot_at, new.due_at, new.ready_at,
           new.expires_at, new.args, new.delayed, new.route, new.priority, new.queue, new.share, new.target, $15
    FROM unnest(
        $1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
        $9::boolean[], $10::text[], $11::smallint[], $12::text[], $13::text[], $14::text[]
    ) new ({_COLUMNS})
    ORDER BY job_id, slot_at, trigger COLLATE "C", target COLLATE "C"
    ON CONFLICT (job_id, slot_at, trigger, target) DO NOTHING
    RETURNING id
    """,  # noqa: S608 - a constant
    sqlite=f"""
    INSERT INTO runs ({_COLUMNS}, created_at, state, attempt, failures, recoveries, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 'scheduled', 0, 0, 0, '')
    ON CONFLICT (job_id, slot_at, trigger, target) DO NOTHING
    """,  # noqa: S608 - a constant
)

LIST_INSERTED = sql("SELECT id FROM runs WHERE id >= $1 AND id <= $2")

Routes = Mapping[int, JobRoute]
"""By job."""


async def lock_routes(tx: Tx, job_ids: Iterable[int]) -> dict[int, JobRoute]:
    """Return where runs of these jobs wait. Nobody edits or pauses the jobs before the transaction ends."""
    wanted = list(set(job_ids))
    rows = await (tx.rows(LOCK_ROUTE, *wanted) if len(wanted) == 1 else tx.rows(LOCK_ROUTES, wanted))
    return {job.job_id: job for job in rows}


async def insert_runs(tx: Tx, runs: Sequence[Insert], now: Micros, jobs: Routes | None = None) -> list[int | None]:
    """Insert runs with the next ids, in order. Return the id of each run, or None if it was already stored.

    Runs of paused jobs wait until the job is resumed, and do not expire. `jobs` are already locked.
    """
    if jobs is None:
        jobs = await lock_routes(tx, (run.job_id for run in runs))
    shared = {run.job_id for run in runs if run.args is None and jobs[run.job_id].share}
    default_args: dict[int, str] = dict(await tx.rows(LIST_DEFAULT_ARGS, list(shared))) if shared else {}
    drawn = tx.concurrent and len(runs) == 1  # the statement draws its id
    ids: Sequence[int | None] = [None] if drawn else await tx.numbers("run", len(runs))
    rows: list[tuple[Any, ...]] = []
    for run_id, (job_id, trigger, due_at, expires_at, args, delayed, target, slot_at) in zip(ids, runs, strict=True):
        job = jobs[job_id]
        ready_at, expiry = (NEVER, None) if job.state == "paused" else (due_at, expires_at)
        share = share_of(args or default_args.get(job_id), job.share) if job.share else ""
        line = (on_node(target) if target else job.route, job.priority, job.queue, share, target)
        rows.append((run_id, job_id, trigger, slot_at, due_at, ready_at, expiry, args, delayed, *line, now))
    if tx.concurrent:
        *columns, _ = map(list, zip(*rows, strict=True))
        inserted = await tx.values(INSERT_RUNS, *columns, now)
        if drawn:
            return inserted or [None]
    elif len(rows) == 1:
        inserted = list(ids) if await tx.do(INSERT_RUNS, *rows[0]) else []
    else:
        await tx.each(INSERT_RUNS, rows)
        inserted = await tx.values(LIST_INSERTED, ids[0], ids[-1])
    stored = frozenset(inserted)
    return [run_id if run_id in stored else None for run_id in ids]


def share_of(args: str | None, name: str) -> str:
    """Return the owner of the run's share: the value of the argument by which the job's queue is shared."""
    value = json.loads(args or "{}").get(name)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# ── submit ───────────────────────────────────────────────────────────────────────────────────────────────────

Place = tuple[int, Micros, str]
"""A run's job, instant and trigger: two runs of the same place are one."""


def _look_in(table: str, index: str, only: str) -> Statement[Any]:
    """Return a statement that finds the run of each place."""
    text = f"""
    SELECT r.id FROM {table} r <<INDEXED BY {index}>>
    WHERE r.job_id = $1 AND r.slot_at = $2 AND r.trigger = $3 AND r.{only} LIMIT 1
    """  # noqa: S608 - constants of this file
    return each_line(text, "job_id bigint, slot_at bigint, trigger text")


LIVE = _look_in("runs", "runs_key", "target = ''")

# Finds runs that were submitted earlier and have ended: the answer was lost, or the caller submits twice.
ENDED = _look_in("history", "history_submitted", "{is_no_slot}")

TAKE_BACK = sql("DELETE FROM runs WHERE id {in1}")

LIST_KEYS = each_line("SELECT run_id, args FROM submit_keys WHERE job_id = $1 AND key = $2", "job_id bigint, key text")

INSERT_KEYS = sql(
    "INSERT INTO submit_keys (job_id, key, run_id, args, created_at) VALUES ($1, $2, $3, $4, $5)",
    arrays="bigint text bigint text bigint",
)


async def submit(tx: Tx, runs: Sequence[NewRun], *, noting: Noting | None = None, now: Now = None) -> list[int]:
    """Insert runs, or find those that have these keys, and append the entries about them. Return their ids."""
    ids = await submit_runs(tx, runs, now, lock=lock_of(noting.kind) if noting else "")
    if noting is not None:
        await append_entries(tx, noting.kind, noting.of(ids), noting.keys, await tx.clock(now))
    return ids


async def submit_runs(tx: Tx, runs: Sequence[NewRun], now: Now, *, joined: bool = False, lock: str = "") -> list[int]:
    """Insert runs, or find those that have these keys. Return their ids.

    A transaction of the caller (`joined`) may stay open, so it locks no keys. Then only the index of the keys keeps
    runs unique. `lock` is locked together with the keys of the runs, because keys are locked in one order.
    """
    wanted = {run.job_id for run in runs}
    jobs = await lock_routes(tx, wanted)
    for job_id in sorted(wanted):
        if job_id not in jobs or jobs[job_id].state == "deleted":
            raise UnknownJob(f"job {job_id} does not exist; define it before you submit runs of it")
    for run in runs:
        check_revision(run.job_id, run.revision, jobs[run.job_id].revision)
    keyed = any(run.key for run in runs)
    if tx.concurrent:
        keys = [striped("key", f"{run.job_id}:{run.key}") for run in runs if run.key] if keyed and not joined else []
        await tx.lock_keys([*keys, lock] if lock else keys)
    if not runs:
        return []
    at = jobs[runs[0].job_id].now if now is None else now
    return await (_submit_keyed if keyed else _submit)(tx, runs, jobs, at)


async def _submit(tx: Tx, runs: Sequence[NewRun], jobs: Routes, now: Micros) -> list[int]:
    """Store these runs and return their ids."""
    tx.hints.append(Hint("runs", min(run.due_at for run in runs)))
    places = [(run.job_id, run.instant, run.trigger) for run in runs]
    new = dict(zip(places, runs, strict=True))
    if len(new) < len(runs):
        new |= zip(reversed(places), reversed(runs), strict=True)  # of equal places, the first run counts
    found: dict[Place, int] = {}
    if not tx.concurrent:
        found = await find_runs(tx, ENDED, [place for place, run in new.items() if not run.is_new])
        for place in found:
            del new[place]
    if new:
        found |= await _insert(tx, new, jobs, now)
    return [found[place] for place in places]


async def _insert(tx: Tx, new: Mapping[Place, NewRun], jobs: Routes, now: Micros) -> dict[Place, int]:
    """Insert these runs, or find them, and return their ids.

    On PostgreSQL a run may move to history between two statements. So we search history after the INSERT. If the run is
    there, we delete the row that we inserted.
    """
    rows = [
        Insert(run.job_id, run.trigger, run.due_at, run.expires_at, run.args, False, "", run.instant)
        for run in new.values()
    ]
    ids = dict(zip(new, await insert_runs(tx, rows, now, jobs), strict=True))
    if tx.concurrent:
        ended = await find_runs(tx, ENDED, list(new))
        again = [ids[place] for place in ended if ids[place] is not None]
        if again:
            await tx.do(TAKE_BACK, again)
        ids |= ended
    if None in ids.values():
        ids |= await find_runs(tx, LIVE, [place for place, run_id in ids.items() if run_id is None])
    found = {place: run_id for place, run_id in ids.items() if run_id is not None}
    if len(found) < len(new):
        raise Contended("a run that has ended between two statements")  # the next try finds it in history
    return found


async def find_runs(tx: Tx, lookup: Statement[Any], places: Sequence[Place]) -> dict[Place, int]:
    """Return the runs of these places, for each place that has one."""
    scans = await tx.scan(lookup, places)
    return {place: run_id for place, scan in zip(places, scans, strict=True) for (run_id,) in scan}


async def find_run(tx: Tx, run: NewRun) -> int:
    """Return the id of the same run if it was submitted earlier, live or ended. 0: there is none."""
    place = (run.job_id, run.instant, run.trigger)
    return (await find_runs(tx, LIVE, [place]) or await find_runs(tx, ENDED, [place])).get(place, 0)


async def _submit_keyed(tx: Tx, runs: Sequence[NewRun], jobs: Routes, now: Micros) -> list[int]:
    """Return the ids of these runs. Some may have been submitted earlier with the same keys."""
    ids: dict[tuple[int, str | int], int] = {}
    args: dict[tuple[int, str | int], str | None] = {}
    keys = [(run.job_id, run.key) for run in runs if run.key]
    for found, scan in zip(keys, await tx.scan(LIST_KEYS, keys), strict=True):
        for run_id, its_args in scan:
            ids[found], args[found] = run_id, its_args
    names = [(run.job_id, run.key or number) for number, run in enumerate(runs)]  # each run without a key is new
    new: dict[tuple[int, str | int], NewRun] = {}
    for name, run in zip(names, runs, strict=True):
        if args.setdefault(name, run.args) != run.args:
            raise KeyConflict(f"key {run.key!r}: used before by run {ids.get(name, '?')}, with other arguments")
        if name not in ids:
            new.setdefault(name, run)
    if new:
        ids |= zip(new, await _submit(tx, list(new.values()), jobs, now), strict=True)
    added = [(run.job_id, run.key, ids[name], run.args, now) for name, run in new.items() if run.key]
    if added:  # in one order, so that no two transactions wait for each other
        await tx.each(INSERT_KEYS, sorted(added, key=itemgetter(0, 1)))
    return [ids[name] for name in names]

"""Runs that somebody asks for, in PostgreSQL: the same key is the same run, whoever asks for it at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import Micros
from onthedot.errors import KeyConflict, UnknownJob
from onthedot.run import NewRun
from onthedot.stores.base import Hint
from onthedot.stores.documents import Noting
from onthedot.stores.planned import Insert
from onthedot.stores.postgres.documents import append_entries, lock_of
from onthedot.stores.postgres.failures import Contended
from onthedot.stores.postgres.inserting import Jobs, hold_routes, insert_runs
from onthedot.stores.postgres.transaction import Transaction, striped
from onthedot.stores.postgres.triggers import with_slots
from onthedot.stores.staleness import check_revision

_WANTED = "unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY wanted (job_id, slot_at, trigger, number)"

# Key by key, through the index: else the server may read all runs for a few hundred of them.
LIST_LIVE = f"""
SELECT wanted.number - 1, found.id FROM {_WANTED} CROSS JOIN LATERAL (
    SELECT r.id FROM runs r
    WHERE r.job_id = wanted.job_id AND r.slot_at = wanted.slot_at AND r.trigger = wanted.trigger AND r.target = ''
    LIMIT 1) found
"""  # noqa: S608 - constants of this file

# Submitted before, and ended since: the answer got lost, or somebody asks for the same thing twice.
LIST_ENDED = with_slots(
    """
SELECT wanted.number - 1, found.id FROM {wanted} CROSS JOIN LATERAL (
    SELECT h.id FROM history h
    WHERE h.slot_at = wanted.slot_at AND h.job_id = wanted.job_id AND h.trigger = wanted.trigger AND h.{is_no_slot}
    LIMIT 1) found
""",
    wanted=_WANTED,
)

TAKE_BACK = "DELETE FROM runs WHERE id = ANY($1)"

LIST_KEYS = """
SELECT k.job_id, k.key, k.run_id, k.args
FROM unnest($1::bigint[], $2::text[]) wanted (job_id, key)
JOIN submit_keys k ON k.job_id = wanted.job_id AND k.key = wanted.key
"""

INSERT_KEYS = """
INSERT INTO submit_keys (job_id, key, run_id, args, created_at)
SELECT new.*, $5 FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) new
"""


async def submit_noted(tx: Transaction, runs: Sequence[NewRun], noting: Noting | None, now: Micros | None) -> list[int]:
    """Insert runs, or find those that have these keys, and append what is said of them; their ids."""
    if noting is None:
        return await submit_runs(tx, runs, now)
    ids = await submit_runs(tx, runs, now, lock=lock_of(noting.kind))
    await append_entries(tx, noting.kind, noting.of(ids), noting.keys, await tx.clock(now))
    return ids


async def submit_runs(
    tx: Transaction, runs: Sequence[NewRun], now: Micros | None, *, joined: bool = False, lock: str = ""
) -> list[int]:
    """Insert runs, or find those that have these keys; their ids.

    In a transaction that is not ours (`joined`) nothing is held that strangers need, for nobody knows when it ends.
    Runs that are due in queues that are shared fairly are given their turns by the next worker that looks. Keys have
    no locks beside their index: who finds one taken meanwhile, by its unique violation, has to look again.
    `lock` is a key that is held with those of the runs: keys are taken in one order.
    """
    wanted = {run.job_id for run in runs}
    jobs = await hold_routes(tx, wanted)
    if joined:
        jobs = {job_id: (*row[:6], False, *row[7:]) for job_id, row in jobs.items()}
    for job_id in sorted(wanted):
        if job_id not in jobs or jobs[job_id][1] == "deleted":
            raise UnknownJob(f"job {job_id} does not exist; define it before you submit runs of it")
    for run in runs:
        check_revision(run.job_id, run.revision, jobs[run.job_id][7])
    keys = [] if joined else [striped("key", f"{run.job_id}:{run.key}") for run in runs if run.key]
    await tx.lock_keys([*keys, lock] if lock else keys)
    if not runs:
        return []
    at: Micros = jobs[runs[0].job_id][-1] if now is None else now
    if any(run.key for run in runs):
        return await _submit_keyed(tx, runs, jobs, at)
    return await _submit(tx, runs, jobs, at)


async def _submit(tx: Transaction, runs: Sequence[NewRun], jobs: Jobs, now: Micros) -> list[int]:
    """The ids of these runs, which are there now. The jobs are held."""
    first = {(run.job_id, run.instant, run.trigger): place for place, run in reversed([*enumerate(runs)])}
    places = sorted(first.values())
    found: dict[int, int] = {}
    if any(job[6] for job in jobs.values()):  # what has ended takes no turn in a queue that is shared fairly
        found = dict(await tx.rows(LIST_ENDED, *_keys(runs)))
        places = [place for place in places if place not in found]
    tx.hints.append(Hint("runs", min(run.due_at for run in runs)))
    if places:
        ids = await _insert(tx, [runs[place] for place in places], jobs, now)
        found |= dict(zip(places, ids, strict=True))
    return [found[first[run.job_id, run.instant, run.trigger]] for run in runs]


async def _insert(tx: Transaction, runs: Sequence[NewRun], jobs: Jobs, now: Micros) -> list[int]:
    """The ids of these runs, whose keys differ.

    One that ends between two of our looks moves to history meanwhile: so we look there after inserting, and what turns
    out to be there already is taken back.
    """
    rows = [
        Insert(run.job_id, run.trigger, run.due_at, run.expires_at, run.args, False, "", run.instant) for run in runs
    ]
    ids = await insert_runs(tx, rows, now, jobs)
    ended: dict[int, int] = dict(await tx.rows(LIST_ENDED, *_keys(runs)))
    again = [run_id for place, run_id in enumerate(ids) if place in ended and run_id is not None]
    if again:
        await tx.do(TAKE_BACK, again)
    missing = [place for place, run_id in enumerate(ids) if run_id is None and place not in ended]
    live: dict[int, int] = {}
    if missing:
        rows_of = dict(await tx.rows(LIST_LIVE, *_keys([runs[place] for place in missing])))
        live = {missing[number]: run_id for number, run_id in rows_of.items()}
    found = {place: run_id for place, run_id in enumerate(ids) if run_id is not None} | live | ended
    if len(found) < len(runs):
        raise Contended("a run that has ended between two looks")  # the next look finds it in history
    return [found[place] for place in range(len(runs))]


def _keys(runs: Sequence[NewRun]) -> tuple[list[int], list[int], list[str]]:
    return [run.job_id for run in runs], [run.instant for run in runs], [run.trigger for run in runs]


async def _submit_keyed(tx: Transaction, runs: Sequence[NewRun], jobs: Jobs, now: Micros) -> list[int]:
    """Runs of which some may have been submitted before under their keys."""
    keyed = [run for run in runs if run.key]
    rows = await tx.rows(LIST_KEYS, [run.job_id for run in keyed], [run.key for run in keyed])
    known: dict[tuple[int, str], tuple[int | None, str | None]] = {(row[0], row[1]): (row[2], row[3]) for row in rows}
    places: list[int] = []  # of those that are new
    for place, run in enumerate(runs):
        if not run.key or (run.job_id, run.key) not in known:
            places.append(place)
        if run.key:
            run_id, args = known.setdefault((run.job_id, run.key), (None, run.args))
            if args != run.args:
                raise KeyConflict(f"key {run.key!r}: used before by run {run_id or '?'}, with other arguments")
    new = await _submit(tx, [replace(runs[place], key="") for place in places], jobs, now) if places else []
    ids = dict(zip(places, new, strict=True))
    fresh = {(runs[place].job_id, runs[place].key): place for place in places if runs[place].key}
    fresh = dict(sorted(fresh.items()))  # in one order, so that no two who insert wait for each other
    if fresh:
        await tx.do(
            INSERT_KEYS, [key[0] for key in fresh], [key[1] for key in fresh],
            [ids[place] for place in fresh.values()], [runs[place].args for place in fresh.values()], now,
        )  # fmt: skip
    by_key = {key: run_id for key, (run_id, _) in known.items() if run_id} | {key: ids[at] for key, at in fresh.items()}
    return [by_key[run.job_id, run.key] if run.key else ids[place] for place, run in enumerate(runs)]

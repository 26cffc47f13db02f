"""What there is for whoever asks: one run, and pages of runs and attempts."""

from __future__ import annotations

from collections.abc import Iterable

from onthedot.access.principal import Principal
from onthedot.errors import UnknownRun
from onthedot.job import JobRecord
from onthedot.run import AttemptRecord, RunRecord
from onthedot.stores.base import Store
from onthedot.stores.finding import (
    SCANNED,
    AttemptCursor,
    AttemptFilter,
    AttemptPage,
    RunCursor,
    RunFilter,
    RunPage,
)

HIGHEST = 2**53
"""No store gives a run a higher number."""


async def seen_run(store: Store, who: Principal, run_id: int) -> RunRecord:
    """A run, if it is there for whoever asks; else `UnknownRun`, in the same words as for one that never was."""
    run = await store.get_run(run_id)
    if run is None or not who.sees(run.namespace, await owner_of(store, run) or ""):
        raise UnknownRun(f"there is no run {run_id}: expected one that was submitted and not forgotten since")
    return run


async def seen_runs(store: Store, who: Principal, run_ids: Iterable[int]) -> list[RunRecord]:
    """The same of several, by id: all of them, or `UnknownRun` that names the first that is not there."""
    wanted = sorted(set(run_ids))
    found = {run.id: run for run in await store.get_runs(wanted)}
    for run_id in wanted:
        run = found.get(run_id)
        if run is None or not who.sees(run.namespace, await owner_of(store, run) or ""):
            raise UnknownRun(f"there is no run {run_id}: expected one that was submitted and not forgotten since")
    return list(found.values())


def namespaces_for(who: Principal, namespace: str | None) -> tuple[str, ...] | None:
    """Where to look: in the namespace that is asked for, or in all there are for this one (None: in every one)."""
    if namespace is None:
        return who.namespaces or None
    return (namespace,) if who.sees(namespace, who.owner) else ()


def owner_for(who: Principal, owner: str | None) -> tuple[str | None, bool]:
    """Whose things to look for, and whether there can be any."""
    if who.only_owner is None:
        return owner, True
    return who.only_owner, owner in (None, who.only_owner)


# ── until the stores can do this themselves ──────────────────────────────────────────────────────────────────


async def owner_of(store: Store, run: RunRecord) -> str | None:
    """Whose run it is; None: nobody knows any more."""
    record = await store.get_job(run.job, namespace=run.namespace)
    return None if record is None else record.job.owner


async def find_runs(store: Store, wanted: RunFilter, *, after: RunCursor | None = None, limit: int = 100) -> RunPage:
    """See `FindingSlice`."""
    runs, jobs = await _runs(store, wanted.namespaces)
    found = []
    for run in runs:
        at = run.due_at if run.ended_at is None else run.ended_at
        record = jobs.get((run.namespace, run.job))
        if (
            (after is None or _place(run) > _place_of(after))
            and (wanted.states is None or run.state in wanted.states)
            and wanted.job in (None, run.job)
            and wanted.queue in (None, run.queue)
            and (wanted.since is None or at >= wanted.since)
            and (wanted.until is None or at < wanted.until)
            and (wanted.owner is None or (record is not None and record.job.owner == wanted.owner))
            and (wanted.label is None or (record is not None and wanted.label in record.job.labels))
            and (wanted.node is None or await _node_of(store, run) == wanted.node)
        ):
            found.append(run)
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        following = RunCursor(last.ended_at is not None, last.ended_at or last.due_at, last.id)
    return RunPage(found[:limit], following)


async def find_attempts(
    store: Store, wanted: AttemptFilter, *, after: AttemptCursor | None = None, limit: int = 100
) -> AttemptPage:
    """See `FindingSlice`."""
    runs, jobs = await _runs(store, wanted.namespaces)
    found: list[AttemptRecord] = []
    for run in runs:
        record = jobs.get((run.namespace, run.job))
        if wanted.owner is None or (record is not None and record.job.owner == wanted.owner):
            found += [attempt for attempt in await store.list_attempts(run.id) if wanted.node in (None, attempt.node)]
    found.sort(key=lambda one: (one.ended_at, one.run_id, one.attempt), reverse=True)
    found = [one for one in found if after is None or (one.ended_at, one.run_id, one.attempt) < after]
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        following = AttemptCursor(last.ended_at, last.run_id, last.attempt)
    return AttemptPage(found[:limit], following)


async def _runs(
    store: Store, namespaces: tuple[str, ...] | None
) -> tuple[list[RunRecord], dict[tuple[str, str], JobRecord]]:
    jobs = {(record.job.namespace, record.job.name): record for record in await store.list_jobs()}
    among = {namespace for namespace, _ in jobs} | {"default"} if namespaces is None else set(namespaces)
    runs = [run for one in sorted(among) for run in await store.list_runs(namespace=one, limit=SCANNED)]
    return sorted(runs, key=_place), jobs


def _place(run: RunRecord) -> tuple[bool, int, int]:
    return (False, run.due_at, run.id) if run.ended_at is None else (True, -run.ended_at, -run.id)


def _place_of(cursor: RunCursor) -> tuple[bool, int, int]:
    return (True, -cursor.at, -cursor.id) if cursor.ended else (False, cursor.at, cursor.id)


async def _node_of(store: Store, run: RunRecord) -> str:
    standing = await store.standing(run.id)
    if standing is not None and standing.node:
        return standing.node
    attempts = await store.list_attempts(run.id)
    return attempts[-1].node if attempts else ""

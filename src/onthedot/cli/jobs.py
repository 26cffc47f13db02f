"""`onthedot jobs`: what is stored, when it runs next, and how it went last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_store

if TYPE_CHECKING:
    from onthedot.after import After
    from onthedot.clock import Micros
    from onthedot.job import JobRecord, Schedule
    from onthedot.run import RunRecord
    from onthedot.stores.base import ScheduleState, Store

MOST = 1_000


@dataclass(frozen=True)
class Next:
    """One schedule of a job and its next instant, if that is known."""

    schedule: Schedule
    id: str
    at: Micros | None
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A job with what people want to know of it."""

    record: JobRecord
    next: list[Next]
    last: RunRecord | None


@click.command(cls=Command, short_help="List the stored jobs: schedule, next instant, last run.")
@with_store
@with_json("a JSON array with one object per job")
@with_debug
def command(store: str | None, db: str | None, as_json: bool) -> None:
    """List the stored jobs: state, revision, last run, next instant, schedule in words.

    It only reads, also while 'onthedot up' is running.

    \b
    Examples:
      onthedot jobs
      onthedot jobs --db /var/lib/shop/onthedot.db --json
    """
    from onthedot.cli.reading import read_store
    from onthedot.clock import SystemClock

    now = SystemClock().now()
    jobs = read_store(store_url(store, db), lambda opened: _jobs(opened, now))
    if as_json:
        click.echo(json.dumps([_as_json(job) for job in jobs], indent=2))
    elif jobs:
        _echo(jobs, now)
    else:
        click.echo("no jobs are stored")


async def _jobs(store: Store, now: Micros) -> list[Shown]:
    return [await shown(store, record, now) for record in await store.list_jobs(limit=MOST)]


async def shown(store: Store, record: JobRecord, now: Micros) -> Shown:
    """The job with its next instants and its last run."""
    from onthedot.run import TERMINAL, RunState

    job = record.job
    states = {state.schedule_id: state for state in await store.schedules_of(record.id)}
    newest = await store.list_runs(job=job.name, namespace=job.namespace, states=[RunState.RUNNING, *TERMINAL], limit=1)
    waiting: list[RunRecord] = []
    if any(_is_fixed_delay(schedule) for schedule in job.schedules):
        waiting = await store.list_runs(
            job=job.name, namespace=job.namespace, states=[RunState.SCHEDULED, RunState.RESERVED], limit=10
        )
    upcoming = [_next(record, schedule, states, waiting, now) for schedule in job.schedules]
    return Shown(record, upcoming, newest[0] if newest else None)


def _next(
    record: JobRecord,
    schedule: Schedule,
    states: dict[str, ScheduleState],
    waiting: list[RunRecord],
    now: Micros,
) -> Next:
    """The next instant of one schedule: computed, or for a fixed delay the run that waits."""
    from onthedot.job import JobState
    from onthedot.run import slot_trigger
    from onthedot.schedules import next_after, schedule_id

    name = schedule_id(schedule)
    state = states.get(name)
    if record.state is not JobState.ACTIVE:
        return Next(schedule, name, None, str(record.state))
    if not _is_fixed_delay(schedule):
        found = next_after(schedule, now, origin=state.origin if state else record.created_at)
        return Next(schedule, name, found, "" if found else "over")
    due = [run.due_at for run in waiting if run.trigger == slot_trigger(name)]
    at = due[0] if due else state.next_at if state else None
    return Next(schedule, name, at, "" if at else "when its run ends")


def _is_fixed_delay(schedule: Schedule) -> bool:
    from onthedot.job import FixedDelay

    return isinstance(schedule, FixedDelay)


def _echo(jobs: list[Shown], now: Micros) -> None:
    from onthedot.cli.table import echo_table

    rows = [row for job in jobs for row in _rows(job, now)]
    echo_table(["JOB", "STATE", "REV", "LAST RUN", "NEXT", "SCHEDULE"], rows)
    if len(jobs) == MOST:
        click.echo(f"these are the first {MOST}; there may be more")


def _rows(job: Shown, now: Micros) -> list[list[str]]:
    """One row for each schedule; the job itself is named in the first."""
    from onthedot.cli.words import in_words

    record = job.record
    name = record.job.name if record.job.namespace == "default" else f"{record.job.namespace}/{record.job.name}"
    head = [name, str(record.state), str(record.revision), _last(job.last, now)]
    tails = [[_when(entry, now), in_words(entry.schedule)] for entry in job.next]
    if record.job.after is not None:
        tails.append(["-", str(record.job.after)])
    tails = tails or [["-", "none: runs when it is submitted"]]
    return [[*(head if not index else [""] * len(head)), *tail] for index, tail in enumerate(tails)]


def _when(entry: Next, now: Micros) -> str:
    from onthedot.cli.words import local_time, relative, zone_of

    if entry.at is None:
        return entry.note
    return f"{local_time(entry.at, zone_of(entry.schedule), exact=False)}, {relative(entry.at, now)}"


def _last(run: RunRecord | None, now: Micros) -> str:
    from onthedot.cli.words import relative

    if run is None:
        return "-"
    return f"{run.state} {relative(run.ended_at, now)}" if run.ended_at is not None else str(run.state)


def _as_json(job: Shown) -> dict[str, Any]:
    from onthedot.cli.words import task_in_words
    from onthedot.observe.json_lines import optional_iso, run_fields
    from onthedot.observe.text import iso
    from onthedot.schedules import describe, to_json

    record = job.record
    return {
        "job": record.job.name,
        "namespace": record.job.namespace,
        "owner": record.job.owner,
        "state": str(record.state),
        "revision": record.revision,
        "task": task_in_words(record.job),
        "schedules": [
            {
                "id": entry.id,
                "reading": describe(entry.schedule),
                "definition": to_json(entry.schedule),
                "next_at": optional_iso(entry.at),
            }
            for entry in job.next
        ],
        "after": _after_as_json(record.job.after),
        "last_run": None if job.last is None else run_fields(job.last),
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
    }


def _after_as_json(after: After | None) -> dict[str, Any] | None:
    return None if after is None else {"jobs": list(after.parents), "any": after.any, "on": after.on}

"""`onthedot skip-next`: leave out one start of a job. What it shares with `move-next` is here, too."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.model.job import JobRecord
    from onthedot.model.run import RunRecord
    from onthedot.operations.verbs import Verbs
    from onthedot.stores.values import MovedSlot

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = 3
"""How many starts after it are shown."""


def with_slot(command: F) -> F:
    """`--slot` and `--schedule`: which start is meant."""
    command = click.option(
        "--schedule", metavar="ID", help="Only of the schedule with this id; 'jobs --json' has them.  [default: all]"
    )(command)
    return click.option(
        "--slot", metavar="ISO", help="The start that is meant, with its offset from UTC.  [default: the next]"
    )(command)


@click.command(cls=Command, name="skip-next", short_help="Leave out the next start of a job.")
@click.argument("job")
@with_slot
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def command(
    job: str, slot: str | None, schedule: str | None, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Leave out the next start of JOB, and show what comes after it. All other starts stay as they are. Called twice,
    it leaves out two. It cannot be undone: 'onthedot trigger JOB' asks for a run instead.

    \b
    Examples:
      onthedot skip-next nightly_report
      onthedot skip-next nightly_report --slot 2026-01-01T02:30+01:00
      onthedot skip-next nightly_report --schedule weekly --store https://jobs.example.org
    """
    at = read_slot(slot)
    change(
        store_url(store, db), job, namespace, as_json, lambda verbs: verbs.skip_next(job, slot=at, schedule=schedule)
    )


def read_slot(text: str | None) -> datetime | None:
    """What `--slot` names."""
    from onthedot.schedules.instants import read_instant

    return None if text is None else read_instant(text, what="--slot")


@dataclass(frozen=True)
class Changed:
    """What became of a start, the run that takes its place, and what comes after it."""

    job: JobRecord | None
    done: MovedSlot
    run: RunRecord | None
    coming: list[Mapping[str, Any]]


def change(url: str, job: str, namespace: str, as_json: bool, deed: Callable[[Verbs], Awaitable[MovedSlot]]) -> None:
    """Change one start, and tell what happens now."""
    from onthedot.cli.asking import ask
    from onthedot.clock import SystemClock

    async def work(verbs: Verbs) -> Changed:
        done = await deed(verbs)
        record = await verbs.get_job(job)
        run = None if done.run_id is None else await verbs.get_run(done.run_id)
        return Changed(record, done, run, await _coming(verbs, job, namespace, record))

    changed = ask(url, work, namespace=namespace)
    if as_json:
        click.echo(json.dumps(_as_json(changed, job, namespace), indent=2))
    else:
        click.echo("\n".join(_lines(changed, job, SystemClock().now())))


async def _coming(verbs: Verbs, job: str, namespace: str, record: JobRecord | None) -> list[Mapping[str, Any]]:
    from onthedot.client import views
    from onthedot.client.client import Client
    from onthedot.client.values import coming_fields
    from onthedot.operations.next_slots import look_ahead
    from onthedot.operations.open_verbs import OpenVerbs
    from onthedot.rules.next_slots import coming

    if isinstance(verbs, Client):
        _, found = await views.next_of(verbs.server, job, count=SHOWN, namespace=namespace)
        return found
    if isinstance(verbs, OpenVerbs) and record is not None:
        now = verbs.there.clock.now()
        ahead = await look_ahead(verbs.there.store, record.id, now, limit=SHOWN)
        return [coming_fields(one) for one in coming(ahead, now, SHOWN)]
    return []


def _lines(changed: Changed, job: str, now: Micros) -> list[str]:
    from onthedot.cli.words import local_time, relative
    from onthedot.client.values import instant
    from onthedot.model.job import JobState
    from onthedot.observe.formats import plain

    def told(at: Micros) -> str:
        return f"{local_time(at, None, exact=False)}, {relative(at, now)}"

    done, run = changed.done, changed.run
    if run is None:
        first = f"job {plain(job)}: the start at {told(done.slot_at)}, is skipped"
    else:
        was = local_time(done.slot_at, None, exact=False)
        first = f"job {plain(job)}: the start at {was} is moved to {told(run.due_at)}: run {run.id}"
    paused = changed.job is not None and changed.job.state is JobState.PAUSED
    held = [f"the job is paused: nothing starts until 'onthedot resume {plain(job)}'"] if paused else []
    several = changed.job is not None and len(changed.job.job.schedules) > 1
    after = [f"  {told(instant(one['due_at']))}{_which(one, several=several)}" for one in changed.coming]
    return [first, *held, *(["next starts:", *after] if after else ["no start comes after it"])]


def _which(start: Mapping[str, Any], *, several: bool) -> str:
    from onthedot.observe.formats import plain

    words = [f"run {start['run_id']}"] if start["run_id"] is not None else []
    words += [f"schedule {plain(start['schedule'])}"] if several and start["schedule"] else []
    return f" ({', '.join(words)})" if words else ""


def _as_json(changed: Changed, job: str, namespace: str) -> dict[str, Any]:
    from onthedot.observe.formats import iso
    from onthedot.observe.json_lines import optional_iso

    done, run = changed.done, changed.run
    return {
        "job": job,
        "namespace": namespace,
        "schedule": done.schedule_id,
        "slot_at": iso(done.slot_at),
        "reason": done.reason,
        "run_id": done.run_id,
        "due_at": optional_iso(None if run is None else run.due_at),
        "next": changed.coming,
    }

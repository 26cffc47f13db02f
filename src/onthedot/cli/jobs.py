"""`onthedot jobs`: what is stored, when it runs next, and how it went last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server, with_utc

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.clock import Micros
    from onthedot.model.after import After
    from onthedot.model.run import RunRecord
    from onthedot.operations.job_views import Next, Shown
    from onthedot.stores.protocol import Store

MOST = 1_000
"""How many a table shows without --limit."""


@click.command(cls=Command, short_help="List the stored jobs: schedule, next instant, last run.")
@with_server
@click.option("--limit", type=click.IntRange(1), help=f"At most so many.  [default: {MOST}; with --json all]")
@click.option("--namespace", metavar="NAME", help="Only of this namespace.  [default: all]")
@with_utc
@with_json("a JSON array with one object per job")
@with_debug
def command(store: str | None, db: str | None, limit: int | None, namespace: str | None, as_json: bool) -> None:
    """List the stored jobs: state, revision, last run, next instant, schedule in words.

    It only reads, also while 'onthedot up' is running.

    \b
    Examples:
      onthedot jobs
      onthedot jobs --limit 5000
      onthedot jobs --db /var/lib/shop/onthedot.db --json
    """
    from onthedot.clock import SystemClock

    now, most = SystemClock().now(), limit or (None if as_json else MOST)
    found = jobs_shown(store_url(store, db), now, None if most is None else most + 1, namespace)
    jobs = found[:most]
    if as_json:
        click.echo(json.dumps([_as_json(job) for job in jobs], indent=2))
    elif jobs:
        _echo(jobs, now)
    else:
        click.echo("no jobs are stored")
    if len(jobs) < len(found):
        from onthedot.cli.table import echo_more

        echo_more(len(jobs), "job", "--limit sets how many", as_json=as_json)


def jobs_shown(url: str, now: Micros, most: int | None, namespace: str | None = None) -> list[Shown]:
    """The jobs of a store, or of a server, at most so many (None: all), with their next instants and last runs."""
    from onthedot.cli.asking import ask_server
    from onthedot.cli.reading import read_store
    from onthedot.model.addresses import is_server
    from onthedot.operations.job_views import shown
    from onthedot.stores.queries import JobFilter, all_jobs

    wanted = JobFilter(namespaces=None if namespace is None else (namespace,))

    async def read(store: Store) -> list[Shown]:
        return [await shown(store, record, now) for record in await all_jobs(store.queries, wanted, most)]

    async def asked(client: Client) -> list[Shown]:
        from onthedot.client import views

        return await views.jobs_shown(client.server, limit=most, namespace=namespace)

    return ask_server(url, asked) if is_server(url) else read_store(url, read)


def _echo(jobs: list[Shown], now: Micros) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone

    rows = [row for job in jobs for row in _rows(job, now)]
    echo_table(["JOB", "STATE", "REV", "LAST RUN", in_zone("NEXT", now), "SCHEDULE"], rows)


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
    from onthedot.cli.words import moment, relative

    if entry.at is None:
        return entry.note
    return f"{moment(entry.at, now)}, {relative(entry.at, now)}"


def _last(run: RunRecord | None, now: Micros) -> str:
    from onthedot.cli.words import relative

    if run is None:
        return "-"
    return f"{run.state} {relative(run.ended_at, now)}" if run.ended_at is not None else str(run.state)


def _as_json(job: Shown) -> dict[str, Any]:
    from onthedot.cli.words import task_in_words
    from onthedot.observe.formats import iso
    from onthedot.observe.json_lines import optional_iso, run_fields
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

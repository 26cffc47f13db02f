"""`onthedot upcoming`: what starts next, over all jobs in the order of time, or of one job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import read_time, store_url, with_debug, with_json, with_server, with_utc

if TYPE_CHECKING:
    from onthedot.client.client import Client
    from onthedot.client.views import Upcoming
    from onthedot.clock import Micros
    from onthedot.stores.protocol import Store

MOST = 1_000
_MOST_COUNTED = 1_000
_MINUTE, _HOUR = 60, 3_600


@click.command(cls=Command, short_help="List what starts next, over all jobs in the order of time.")
@click.argument("job", required=False)
@click.option("--job", "named", metavar="NAME", help="The same as JOB.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, MOST), default=20, show_default=True, help="How many lines, at most."
)
@click.option("--until", metavar="WHEN", help="Only what starts by then: tomorrow, +2h, 2026-11-17, 'monday 03:00'.")
@click.option("--namespace", metavar="NAME", help="Only of this namespace.  [default: all; with JOB: default]")
@with_utc
@with_server
@with_json("one JSON object: the starts, and how many jobs are paused")
@with_debug
def command(
    job: str | None,
    named: str | None,
    limit: int,
    until: str | None,
    namespace: str | None,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List what starts next: slots of schedules, and runs that wait for their instant. With JOB, only when that starts.

    A job that starts so often that it would fill the list is one line: its next start, and how often it starts then.
    Paused jobs start nothing; they are counted below.

    \b
    Examples:
      onthedot upcoming
      onthedot upcoming --until 'tomorrow 06:00' --limit 100
      onthedot upcoming nightly_report
      onthedot upcoming --json | jq -r '.starts[] | .due_at + " " + .job'
    """
    from onthedot.cli.errors import BadInput
    from onthedot.clock import SystemClock, to_micros
    from onthedot.observe.json_lines import optional_iso

    now, url = SystemClock().now(), store_url(store, db)
    end = None if until is None else to_micros(read_time(until, "--until", ahead=True))
    if end is not None and end <= now:
        raise BadInput(f"--until: expected a point in time to come, got {until!r}")
    if job is not None and named not in (None, job):
        raise BadInput(f"--job: expected one job, got {job!r} and {named!r}; leave one out")
    job = job or named
    if job is not None:
        _show_job(url, job, namespace or "default", limit, end, now, as_json=as_json)
        return
    found = _read(url, now, limit, end, namespace)
    if as_json:
        told = {"starts": found.starts, "paused": found.paused, "read_until": optional_iso(found.read_until)}
        click.echo(json.dumps(told, indent=2))
    else:
        _echo(found, now, limit)


def _read(url: str, now: Micros, limit: int, until: Micros | None, namespace: str | None) -> Upcoming:
    from onthedot.cli.asking import ask_server
    from onthedot.cli.reading import read_store
    from onthedot.client import views
    from onthedot.client.values import start_fields
    from onthedot.model.addresses import is_server
    from onthedot.operations.next_slots import gather, upcoming
    from onthedot.stores.queries import JobFilter

    async def read(store: Store) -> Upcoming:
        wanted = JobFilter(namespaces=None if namespace is None else (namespace,))
        found = await gather(store, now, limit=limit, until=until, wanted=wanted)
        starts = [start_fields(one) for one in upcoming(found, now, limit=limit, until=until)]
        return views.Upcoming(starts, found.paused, found.read_until)

    async def asked(client: Client) -> Upcoming:
        return await views.upcoming(client.server, limit=limit, until=until, namespace=namespace)

    return ask_server(url, asked) if is_server(url) else read_store(url, read)


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _echo(found: Upcoming, now: Micros, limit: int) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone, reader_time
    from onthedot.observe.formats import count

    if found.starts:
        echo_table([in_zone("DUE", now), "WHEN", "JOB", "WHAT"], [_row(start, now) for start in found.starts])
    else:
        click.echo("nothing is to start")
    if len(found.starts) == limit:
        click.echo(f"these are the first {limit}; --limit sets how many")
    if found.read_until is not None:
        click.echo(f"what is due after {reader_time(found.read_until)} was not read: there is too much; name a job")
    if found.paused:
        more = "more than " if found.paused >= _MOST_COUNTED else ""
        are = "is" if found.paused == 1 else "are"
        click.echo(f"{more}{count(found.paused, 'job')} {are} paused and not listed; 'onthedot jobs' names them")


def _row(start: Mapping[str, Any], now: Micros) -> list[str]:
    name = start["job"] if start["namespace"] == "default" else f"{start['namespace']}/{start['job']}"
    return [*_due(start, now), name, _what(start, now)]


def _due(start: Mapping[str, Any], now: Micros) -> list[str]:
    from onthedot.cli.words import moment, relative

    due_at = _instant(start["due_at"])
    return [moment(due_at, now), relative(due_at, now)]


def _what(start: Mapping[str, Any], now: Micros) -> str:
    from onthedot.cli.words import without_anchor

    if start["every_s"] is not None:
        return f"{_rate(start['every_s'])}: {without_anchor(start['reading'] or '')}"
    if start["run_id"] is None:
        return without_anchor(start["reading"] or "")
    return _of_run(start, now)


def _of_run(start: Mapping[str, Any], now: Micros) -> str:
    """What a run is that waits."""
    from onthedot.cli.words import moment

    if start["run_id"] is None:
        return ""
    tried = f", try {start['attempts'] + 1}" if start["attempts"] else ""
    slot = start["slot_at"] if start.get("moved") else start.get("moved_from")
    why = start["trigger"].partition(":")[0] if slot is None else f"moved from {moment(_instant(slot), now)}"
    return f"run {start['run_id']}{tried} ({why})"


def _rate(every: float) -> str:
    """
    >>> _rate(1.0), _rate(90.0), _rate(7200.0)
    ('60 a minute', '40 an hour', '12 a day')
    """
    for size, unit in ((_MINUTE, "a minute"), (_HOUR, "an hour"), (24 * _HOUR, "a day")):
        if every <= size / 2:
            return f"{size / every:.3g} {unit}"
    return f"{7 * 24 * _HOUR / every:.3g} a week"


def _instant(iso: str) -> Micros:
    from datetime import datetime

    from onthedot.clock import to_micros

    return to_micros(datetime.fromisoformat(iso))


# ── one job ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _show_job(
    url: str, job: str, namespace: str, limit: int, until: Micros | None, now: Micros, *, as_json: bool
) -> None:
    from onthedot.cli.asking import ask_server
    from onthedot.cli.reading import read_store
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone
    from onthedot.client import views
    from onthedot.client.values import coming_fields
    from onthedot.model.addresses import is_server
    from onthedot.observe.formats import plain
    from onthedot.operations.job_lookup import find_job
    from onthedot.operations.next_slots import coming, look_ahead

    async def read(store: Store) -> tuple[str, list[Mapping[str, Any]]]:
        record = await find_job(store, job, namespace=namespace)
        ahead = await look_ahead(store, record.id, now, limit=limit)
        return str(record.state), [coming_fields(one) for one in coming(ahead, now, limit)]

    if is_server(url):
        state, found = ask_server(
            url, lambda client: views.next_of(client.server, job, count=limit, namespace=namespace)
        )
    else:
        state, found = read_store(url, read)
    starts = [one for one in found if until is None or _instant(one["due_at"]) <= until]
    if as_json:
        click.echo(json.dumps({"job": job, "namespace": namespace, "state": state, "starts": starts}, indent=2))
        return
    if state == "paused":
        click.echo(f"job {plain(job)} is paused: it starts when it is resumed, and would start then")
    if starts:
        rows = [[*_due(one, now), one["schedule"] or "-", _of_run(one, now)] for one in starts]
        heads = [in_zone("DUE", now), "WHEN", "SCHEDULE", "WHAT"]
        echo_table(*((heads, rows) if any(row[-1] for row in rows) else (heads[:-1], [row[:-1] for row in rows])))
    else:
        click.echo(f"job {plain(job)} has no start that is known")
